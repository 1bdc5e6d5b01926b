# SPDX-License-Identifier: MIT
"""The schedule: order, bounds, what a failure takes with it, and that an end leaves nothing running."""

from __future__ import annotations

import graphlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abh import schedule
from abh.errors import AbhError
from abh.schedule import Step

LONG = [sys.executable, "-c", "import time; time.sleep(300)"]
ENDS_S = 20  # within which an interrupted schedule has ended, on any machine


def step(name: str, *needs: str, do: Callable[[], object] = lambda: None, **options: float) -> Step:
    return Step(name, do, frozenset(needs), **options)


def fail() -> None:
    raise AbhError("broken")


class Seen:
    """Which steps ran, in which order, and how many beside each other."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.running: dict[str, int] = {}
        self.most = self.most_mib = 0
        self.lock = threading.Lock()

    def step(self, name: str, *needs: str, memory_mib: int = 0, minutes: float = 0.2, seconds: float = 0.0) -> Step:
        def do() -> None:
            with self.lock:
                self.order.append(name)
                self.running[name] = memory_mib
                self.most = max(self.most, len(self.running))
                self.most_mib = max(self.most_mib, sum(self.running.values()))
            time.sleep(seconds)
            with self.lock:
                del self.running[name]

        return step(name, *needs, do=do, memory_mib=memory_mib, minutes=minutes)


def test_a_step_runs_after_what_it_needs():
    seen = Seen()
    steps = [seen.step("cell", "boot"), seen.step("boot", "linux", "qemu"), seen.step("qemu"), seen.step("linux")]
    outcome = schedule.run(steps, workers=2)
    assert sorted(seen.order[:2]) == ["linux", "qemu"] and seen.order[2:] == ["boot", "cell"]
    assert not (outcome.failed or outcome.skipped or outcome.unreached)


def test_what_has_most_waiting_for_it_goes_first_and_equals_by_name():
    seen = Seen()
    steps = [
        seen.step("b", minutes=3),
        seen.step("a", minutes=3),
        seen.step("short", minutes=1),
        seen.step("long", "short", minutes=5),
        seen.step("alone", minutes=4),
    ]
    schedule.run(steps, workers=1)
    assert seen.order == ["short", "long", "alone", "a", "b"]


@pytest.mark.parametrize("workers", [1, 3])
def test_no_more_steps_run_at_a_time_than_there_are_workers(workers):
    seen = Seen()
    schedule.run([seen.step(str(number), seconds=0.02) for number in range(9)], workers=workers, memory=1000)
    assert seen.most == workers


def test_steps_take_no_more_memory_together_than_there_is():
    seen = Seen()
    schedule.run([seen.step(str(n), memory_mib=400, seconds=0.02) for n in range(6)], workers=6, memory=1000)
    assert seen.most == 2 and seen.most_mib == 800


def test_a_small_step_runs_beside_one_that_a_larger_does_not_fit_beside():
    seen = Seen()
    steps = [
        seen.step("first", memory_mib=600, minutes=3, seconds=0.1),
        seen.step("large", memory_mib=600, minutes=2),
        seen.step("small", memory_mib=300, minutes=1),
    ]
    schedule.run(steps, workers=3, memory=1000)
    assert seen.order == ["first", "small", "large"]


@pytest.mark.parametrize("memory", [0, 100])
def test_a_step_larger_than_the_memory_runs_alone(memory):
    seen = Seen()
    schedule.run([seen.step(name, memory_mib=500, seconds=0.02) for name in "abc"], workers=3, memory=memory)
    assert sorted(seen.order) == ["a", "b", "c"] and seen.most == 1


def test_without_a_word_the_memory_is_what_is_available_less_a_reserve(monkeypatch):
    memory = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory._replace(available=5 << 30))
    assert schedule.memory_mib() == 4 * 1024
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory._replace(available=1 << 20))
    assert schedule.memory_mib() == 0


def test_a_failed_step_takes_its_users_with_it_and_nothing_else():
    seen = Seen()
    steps = [
        step("xen", do=fail),
        seen.step("boot xen", "linux", "xen"),
        seen.step("cell xen", "boot xen"),
        seen.step("linux"),
        seen.step("boot kvm", "linux"),
        seen.step("cell kvm", "boot kvm"),
    ]
    outcome = schedule.run(steps, workers=2)
    assert sorted(seen.order) == ["boot kvm", "cell kvm", "linux"]
    assert list(outcome.failed) == ["xen"] and outcome.skipped == {"boot xen": "xen", "cell xen": "xen"}
    assert {name: outcome.lacks(name) for name in ("xen", "cell xen", "cell kvm")} == {
        "xen": True, "cell xen": True, "cell kvm": False,
    }  # fmt: skip
    with pytest.raises(AbhError, match="broken"):
        outcome.check()


def test_a_failure_may_have_thousands_of_users():
    users = [step(str(number), "linux") for number in range(1200)]
    chain = [step(f"after {number}", f"after {number - 1}" if number else "linux") for number in range(1200)]
    outcome = schedule.run([step("linux", do=fail), *users, *chain], workers=2)
    assert len(outcome.skipped) == 2400 and set(outcome.skipped.values()) == {"linux"}


def test_an_unknown_need_is_refused_before_anything_is_done():
    seen = Seen()
    with pytest.raises(ValueError, match="step cell needs bot, which is no step"):
        schedule.run([seen.step("first"), seen.step("cell", "bot")])
    assert seen.order == []


def test_a_circle_is_refused_before_anything_is_done():
    seen = Seen()
    with pytest.raises(graphlib.CycleError):
        schedule.run([seen.step("first"), seen.step("a", "b"), seen.step("b", "a")])
    assert seen.order == []


def test_done_is_told_in_the_callers_thread_of_each_step_that_ended_well():
    told: dict[str, float] = {}

    def done(made: Step, seconds: float) -> None:
        assert threading.current_thread() is caller
        told[made.name] = seconds

    caller = threading.current_thread()
    steps = [step("slow", do=lambda: time.sleep(0.05)), step("bad", do=fail), step("user", "slow"), step("lost", "bad")]
    schedule.run(steps, workers=2, done=done)
    assert set(told) == {"slow", "user"} and told["slow"] >= 0.05


def test_no_steps_are_no_error():
    assert schedule.run([]) == schedule.Outcome()


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Each step may need any that are drawn before it; the order in which they are named is another."""
    names = [f"s{number}" for number in range(draw(st.integers(1, 12)))]
    needs = {name: draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else []
             for place, name in enumerate(names)}  # fmt: skip
    return {name: needs[name] for name in draw(st.permutations(names))}


@settings(max_examples=60)
@given(graphs(), st.integers(1, 4), st.integers(0, 1500), st.data())
def test_whatever_the_graph_each_step_runs_once_after_its_needs_or_is_lost_with_one(needs, workers, memory, data):
    broken = data.draw(st.sets(st.sampled_from(sorted(needs)), max_size=2))
    lock, ran, ended = threading.Lock(), [], []

    def do(name: str) -> None:
        with lock:
            assert set(needs[name]) <= set(ended)
            ran.append(name)
        if name in broken:
            fail()
        with lock:
            ended.append(name)

    steps = [Step(name, lambda name=name: do(name), frozenset(needs[name]), memory_mib=500) for name in needs]
    outcome = schedule.run(steps, workers=workers, memory=memory)

    def lost(name: str) -> bool:
        return any(need in broken or lost(need) for need in needs[name])

    expected = {name for name in needs if not lost(name)}
    assert sorted(ran) == sorted(expected)
    assert set(outcome.failed) == broken & expected
    assert set(outcome.skipped) == needs.keys() - expected and set(outcome.skipped.values()) <= set(outcome.failed)


# --- ends --------------------------------------------------------------------------------------------------------


class Processes:
    """Steps that wait for a process, as one does that builds or emulates; the tests see which still run."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.first = threading.Event()

    def wait(self) -> None:
        with subprocess.Popen(LONG) as process:
            self.started.append(process.pid)
            self.first.set()
            process.wait()

    def twice(self) -> None:
        """Goes on with a second process where its first one was ended; not at once, as after a tidy-up."""
        self.wait()
        time.sleep(0.5)
        self.wait()

    def interrupt(self) -> None:
        assert self.first.wait(ENDS_S)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def check_gone(self, count: int) -> None:
        assert len(self.started) == count
        assert not [pid for pid in self.started if psutil.pid_exists(pid)]


@pytest.fixture
def processes():
    made = Processes()
    yield made
    for pid in filter(psutil.pid_exists, made.started):
        psutil.Process(pid).kill()


@pytest.fixture
def bystander():
    """A process of this one that no step has started."""
    process = subprocess.Popen(LONG)
    yield process
    process.kill()
    process.wait()


def test_an_interruption_ends_what_the_steps_have_started_and_nothing_else(processes, bystander):
    never = Seen()
    steps = [step("build", do=processes.wait), step("ctrl-c", do=processes.interrupt), never.step("cell", "build")]
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        schedule.run(steps, workers=2)
    assert time.monotonic() - start < ENDS_S
    processes.check_gone(1)
    assert never.order == [] and bystander.poll() is None


def test_an_interruption_ends_also_what_a_step_starts_meanwhile(processes):
    with pytest.raises(KeyboardInterrupt):
        schedule.run([step("a", do=processes.twice), step("ctrl-c", do=processes.interrupt)], workers=2)
    processes.check_gone(2)


def test_an_interruption_ends_also_what_a_step_starts_that_takes_long_to_notice(processes):
    def slow() -> None:
        time.sleep(2.3)
        processes.wait()

    processes.first.set()
    with pytest.raises(KeyboardInterrupt):
        schedule.run([step("a", do=slow), step("ctrl-c", do=processes.interrupt)], workers=2)
    processes.check_gone(1)


def test_an_interruption_ends_the_processes_of_processes(processes, tmp_path):
    pid: Path = tmp_path / "pid"

    def shell() -> None:
        subprocess.run(["sh", "-c", f"trap '' TERM; sleep 300 & echo $! >{pid}; wait"], check=False)

    def interrupt() -> None:
        while not pid.exists() or not pid.read_text().strip():
            time.sleep(0.01)
        processes.started.append(int(pid.read_text()))
        processes.first.set()
        processes.interrupt()

    with pytest.raises(KeyboardInterrupt):
        schedule.run([step("a", do=shell), step("ctrl-c", do=interrupt)], workers=2)
    (inner,) = processes.started
    deadline = time.monotonic() + ENDS_S
    # Dead is enough: nobody need reap an orphan in a container without an init.
    while psutil.pid_exists(inner) and psutil.Process(inner).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_error_that_is_no_finding_ends_all(processes):
    def bug() -> None:
        assert processes.first.wait(ENDS_S)
        raise ZeroDivisionError

    never = Seen()
    with pytest.raises(ZeroDivisionError):
        schedule.run([step("a", do=processes.wait), step("bug", do=bug), never.step("user", "bug")], workers=2)
    processes.check_gone(1)
    assert never.order == []


def test_at_the_deadline_what_runs_is_ended_what_is_done_is_kept_and_the_rest_is_named(processes):
    told: list[str] = []
    steps = [
        step("quick"),
        step("bad", do=fail),
        step("build", "quick", do=processes.wait),
        step("cell", "build"),
        step("lost", "bad"),
    ]
    outcome = schedule.run(steps, workers=2, deadline=time.monotonic() + 1, done=lambda made, _: told.append(made.name))
    assert told == ["quick"] and outcome.unreached == ["build", "cell"]
    assert list(outcome.failed) == ["bad"] and outcome.skipped == {"lost": "bad"}
    processes.check_gone(1)


def test_a_deadline_that_is_not_met_changes_nothing():
    seen = Seen()
    outcome = schedule.run([seen.step("a"), seen.step("b", "a")], deadline=time.monotonic() + 60)
    assert seen.order == ["a", "b"] and outcome.unreached == []
