# SPDX-License-Identifier: MIT
"""Steps that need each other, run as soon as what each needs is there, as many at a time as the machine carries.

A step that fails takes those that need it with it; all others are still done. What each step has made must outlive an
interruption by itself: a schedule remembers nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

import psutil

from abh.errors import AbhError

# Set while what the steps have started is being ended: what a step then finds is no finding.
stopping = threading.Event()
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
GRACE_S = 180.0  # for steps to notice that they are ended, and to remove what they were building; arbitrary
RESERVE_MIB = 1024  # of memory, for everything that is no step of ours; arbitrary


@dataclass(frozen=True)
class Step:
    """Something to do, once all that it needs is done."""

    name: str
    do: Callable[[], object]
    needs: frozenset[str] = frozenset()
    minutes: float = 0.2  # about: what takes long, or has much waiting for it, goes first
    memory_mib: int = 512


@dataclass
class Outcome:
    """What became of the steps: the error of each that failed, what each that was not tried would have needed, and
    those for which the time was too short."""

    failed: dict[str, BaseException] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    unreached: list[str] = field(default_factory=list)  # when the time was out

    def lacks(self, name: str) -> bool:
        """Whether this step was not done."""
        return name in self.failed or name in self.skipped

    def check(self) -> None:
        """Raises the first error there was."""
        for error in self.failed.values():
            raise error


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def memory_mib() -> int:
    """How much memory may be taken, in MiB: what is available now, less a reserve."""
    return max(0, psutil.virtual_memory().available // (1 << 20) - RESERVE_MIB)


def _urgency(steps: dict[str, Step]) -> dict[str, float]:
    """For each step the minutes of the longest way from its start to the end of all."""
    users: dict[str, list[str]] = {name: [] for name in steps}
    for step in steps.values():
        for need in step.needs:
            users[need].append(step.name)
    found: dict[str, float] = {}
    for name in reversed(list(TopologicalSorter({each.name: each.needs for each in steps.values()}).static_order())):
        found[name] = steps[name].minutes + max((found[user] for user in users[name]), default=0.0)
    return found


class _Run:
    """One pass over the steps."""

    def __init__(self, steps: dict[str, Step], workers: int, memory: int, done: Callable[[Step, float], None]) -> None:
        self.steps, self.workers, self.memory, self.done = steps, workers, memory, done
        self.urgency = _urgency(steps)
        self.order: TopologicalSorter[str] = TopologicalSorter({each.name: each.needs for each in steps.values()})
        self.order.prepare()
        self.ready: list[str] = []
        self.running: dict[Future[float], Step] = {}
        self.over: set[str] = set()
        self.outcome = Outcome()

    def start(self, pool: ThreadPoolExecutor) -> None:
        """Starts the most urgent of the ready steps that fit; one always does."""
        self.skip_lost()
        self.ready.sort(key=lambda name: (-self.urgency[name], name))
        for name in list(self.ready):
            step = self.steps[name]
            taken = sum(each.memory_mib for each in self.running.values())
            if len(self.running) < self.workers and (not self.running or taken + step.memory_mib <= self.memory):
                self.ready.remove(name)
                self.running[pool.submit(_timed, step)] = step

    def skip_lost(self) -> None:
        """Takes in what has become ready, but for what needs a step that was not done, and what needs that."""
        while reached := self.order.get_ready():
            for name in reached:
                lost = next(filter(self.outcome.lacks, sorted(self.steps[name].needs)), "")
                if lost:
                    self.outcome.skipped[name] = self.outcome.skipped.get(lost, lost)
                    self._end(name)
                else:
                    self.ready.append(name)

    def collect(self, deadline: float | None) -> None:
        """Waits for a step to end, or for the deadline."""
        limit = None if deadline is None else max(0.0, deadline - time.monotonic())
        ended, _ = wait(self.running, limit, FIRST_COMPLETED)
        for future in ended:
            step = self.running.pop(future)
            error = future.exception()
            if isinstance(error, AbhError):
                self.outcome.failed[step.name] = error
            elif error:
                raise error
            else:
                self.done(step, future.result())
            self._end(step.name)

    def _end(self, name: str) -> None:
        self.over.add(name)
        self.order.done(name)

    def give_up(self) -> None:
        """Notes what was not done."""
        self.outcome.unreached = [name for name in self.steps if name not in self.over]


class _TimeOut(Exception):
    """The deadline has come."""


def _timed(step: Step) -> float:
    start = time.monotonic()
    step.do()
    return time.monotonic() - start


def run(
    steps: Iterable[Step],
    *,
    workers: int | None = None,
    memory: int | None = None,
    deadline: float | None = None,
    done: Callable[[Step, float], None] = lambda step, seconds: None,
) -> Outcome:
    """Does every step; `done` is told of each that ended well, with its seconds, in the caller's thread.

    workers: steps at a time (default: one for each processor, and at least two, as a step may wait for a disk);
    memory: MiB that they may take together; deadline: when, by time.monotonic(), what still runs is ended. An error
    that is no AbhError, and an interruption, end all of it: then every process that a step has started is ended, too.
    """
    named = {step.name: step for step in steps}
    for step in named.values():
        if unknown := sorted(step.needs - named.keys()):
            raise ValueError(f"step {step.name} needs {unknown[0]}, which is no step")
    workers = workers or max(2, processors())
    stopping.clear()
    # What a step's process leaves behind becomes a child of this one, and is found when all is to be ended.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    one = _Run(named, workers, memory_mib() if memory is None else memory, done)
    before = set(psutil.Process().children(recursive=True))
    with ThreadPoolExecutor(workers) as pool:
        try:
            while one.order.is_active():
                if deadline is not None and time.monotonic() >= deadline:
                    one.give_up()
                    raise _TimeOut
                one.start(pool)
                if one.running:
                    one.collect(deadline)
        except _TimeOut:
            _end_processes(pool, before)
        except BaseException:
            _end_processes(pool, before)
            raise
    return one.outcome


def _end_processes(pool: ThreadPoolExecutor, but: set[psutil.Process]) -> None:
    """Ends what the steps have started, until the last of them has noticed and ended: they may start another.

    One that notices nothing, as it computes, is left behind after some minutes: the process ends without it.
    """
    stopping.set()
    waiting = threading.Thread(target=pool.shutdown, kwargs={"cancel_futures": True}, daemon=True)
    waiting.start()
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        for each in set(psutil.Process().children(recursive=True)) - but:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        waiting.join(0.1)
        if not waiting.is_alive():
            return
    print("abh: a step does not end; leaving without it", file=sys.stderr, flush=True)
    os._exit(1)
