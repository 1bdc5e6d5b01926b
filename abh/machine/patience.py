# SPDX-License-Identifier: MIT
"""How long an emulator may take, by the processor time that it got: on a busy computer little of it takes long."""

from __future__ import annotations

import contextlib
import time

import psutil

SLOWEST = 4  # real seconds for a second of the limit: who gets less than this part of a processor is ended, too


class Patience:
    """A limit on what a process takes from now on, with all that it has started.

    What counts is the processor time of the busiest thread: of an emulator with a thread for each processor of its
    machine, too, that is never more than real time, so that none is ended before its limit in real time. One that
    spins is ended at the limit; one that hangs idle, which gets none, at `SLOWEST` times the limit in real time.
    """

    def __init__(self, limit_s: float, pid: int) -> None:
        self.limit_s, self.pid = limit_s, pid
        self.worked_s, self.passed_s = 0.0, 0.0  # processor time and real time, as of the last look
        self._before = _processor_times(pid)
        self._start = time.monotonic()
        self._look_s = limit_s  # of real time: it cannot have worked that long before

    @property
    def longest_s(self) -> float:
        """Real seconds after which it is over in any case."""
        return SLOWEST * self.limit_s

    def is_over(self) -> bool:
        """Whether the process has had its time."""
        self.passed_s = time.monotonic() - self._start
        if self.passed_s >= self._look_s:
            worked = (time_s - self._before.get(thread, 0.0) for thread, time_s in _processor_times(self.pid).items())
            self.worked_s = max(self.worked_s, *worked, 0.0)  # a thread that has ended is not forgotten
            self._look_s = self.passed_s + self.limit_s - self.worked_s
        return self.worked_s >= self.limit_s or self.passed_s >= self.longest_s

    def __str__(self) -> str:
        had = f"it had {self.worked_s:.1f} s in {self.passed_s:.1f} s"
        return f"{self.limit_s:g} s of processor time or {self.longest_s:g} s of real time ({had})"


def _processor_times(pid: int) -> dict[int, float]:
    """Seconds of processor time that each thread has had, of a process and its descendants: in a root, the emulator is
    one of bubblewrap's."""
    found: dict[int, float] = {}
    with contextlib.suppress(psutil.Error):  # it has ended
        first = psutil.Process(pid)
        for each in (first, *first.children(recursive=True)):
            with contextlib.suppress(psutil.Error):  # this one has
                found |= {thread.id: thread.user_time + thread.system_time for thread in each.threads()}
    return found
