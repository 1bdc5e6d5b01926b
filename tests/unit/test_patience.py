# SPDX-License-Identifier: MIT
"""How long an emulator may take: what counts of its threads, and how a process that spins or sleeps is ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from abh.machine import patience
from abh.machine.patience import SLOWEST, Patience

WAIT_S = 120  # for a process of this test to get half a second of a busy processor
SPIN = "while True: pass"
# The threads that work are not the first of their process, and each works as much.
TWO_SPIN = f"""
import threading
def spin():
    {SPIN}
for _ in range(2):
    threading.Thread(target=spin).start()
"""


class Emulator:
    """What the class sees of one: a clock, and the processor time of each thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.threads, self.looks = 1000.0, {1: 7.0}, 0
        monkeypatch.setattr(patience.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(patience, "_processor_times", self.times)

    def times(self, _pid: int) -> dict[int, float]:
        self.looks += 1
        return dict(self.threads)

    def goes_on(self, real_s: float, **worked_s: float) -> None:
        self.now += real_s
        for name, seconds in worked_s.items():
            thread = int(name.removeprefix("t"))
            self.threads[thread] = self.threads.get(thread, 0.0) + seconds


@pytest.fixture
def emulator(monkeypatch) -> Emulator:
    return Emulator(monkeypatch)


def ends(limit: Patience, emulator: Emulator, real_s: float, **worked_s: float) -> float:
    """Real seconds after which one that goes on so, step by step, is ended."""
    start = emulator.now
    while not limit.is_over():
        assert emulator.now - start < 1000
        emulator.goes_on(real_s, **worked_s)
    return emulator.now - start


@pytest.mark.parametrize(
    ("worked", "after"),
    [
        ({"t1": 1.0}, 100),  # all of a processor
        ({"t1": 0.5}, 200),  # half: a busy computer
        ({"t1": 0.25}, 400),
        ({"t1": 0.01}, 400),  # too little: taken for one that hangs
        ({}, 400),  # idle
        ({"t1": 0.5, "t2": 0.5, "t3": 0.5}, 200),  # three processors' threads on a busy computer
        ({"t2": 1.0}, 100),  # a thread that came later
    ],
)
def test_the_busiest_thread_counts_and_idle_time_a_quarter(emulator, worked, after):
    assert ends(Patience(100, 1), emulator, 1.0, **worked) == pytest.approx(after, abs=2)


def test_what_it_worked_before_does_not_count(emulator):
    emulator.goes_on(90, t1=90)
    assert ends(Patience(100, 1), emulator, 1.0, t1=1.0) == pytest.approx(100, abs=2)


def test_one_that_was_stopped_has_its_time_afterwards(emulator):
    limit = Patience(100, 1)
    emulator.goes_on(50, t1=50)
    assert not limit.is_over()
    emulator.goes_on(200)
    assert not limit.is_over()
    assert ends(limit, emulator, 1.0, t1=1.0) == pytest.approx(50, abs=2)


def test_what_a_thread_had_stays_when_it_ends(emulator):
    limit = Patience(100, 1)
    emulator.goes_on(150, t1=10, t2=90)
    assert not limit.is_over()
    emulator.threads.clear()
    emulator.goes_on(20)
    assert not limit.is_over() and limit.worked_s == 90


def test_nothing_is_looked_at_before_the_limit_can_be_met(emulator):
    limit = Patience(100, 1)
    assert ends(limit, emulator, 0.1, t1=0.05) == pytest.approx(200, abs=2)
    assert emulator.looks < 30


def test_it_says_how_long_by_both_clocks(emulator):
    limit = Patience(100, 1)
    ends(limit, emulator, 1.0, t1=0.5)
    had = "(it had 100.0 s in 200.0 s)"
    assert str(limit) == f"100 s of processor time or {SLOWEST * 100} s of real time {had}"


# --- real processes -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def started(*words: str) -> Iterator[int]:
    """A command inside a shell, as an emulator inside bubblewrap; gone, with all of it, at the end."""
    shell = subprocess.Popen(["sh", "-c", '"$@"; true', "sh", *words], start_new_session=True)
    try:
        yield shell.pid
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def over(limit: Patience) -> None:
    end = time.monotonic() + WAIT_S
    while not limit.is_over():
        assert time.monotonic() < end
        time.sleep(0.01)


def python(text: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", text]


def test_one_that_spins_is_ended_by_its_processor_time():
    with started(*python(SPIN)) as pid:
        limit = Patience(0.5, pid)
        over(limit)
    # On a computer that gave it less than a quarter of a processor it may have been real time.
    assert limit.worked_s >= 0.5 or (limit.worked_s > 0 and limit.passed_s >= SLOWEST * 0.5)


def test_one_that_sleeps_is_ended_after_four_times_its_limit():
    with started("sleep", "1000") as pid:
        limit, start = Patience(0.3, pid), time.monotonic()
        over(limit)
        assert time.monotonic() - start >= SLOWEST * 0.3
    assert limit.worked_s < 0.3


def test_one_that_is_stopped_is_not_ended_early():
    with started(*python(SPIN)) as pid:
        limit = Patience(1, pid)
        os.killpg(pid, signal.SIGSTOP)
        time.sleep(2)
        assert not limit.is_over() or limit.passed_s >= SLOWEST
        os.killpg(pid, signal.SIGCONT)
        over(limit)
    assert limit.worked_s >= 1 or limit.passed_s >= SLOWEST


def test_each_thread_of_a_tree_has_its_own_time():
    with started(*python(TWO_SPIN)) as pid:
        end = time.monotonic() + WAIT_S
        while sum((times := patience._processor_times(pid)).values()) < 0.6:
            assert time.monotonic() < end
            time.sleep(0.01)
        both = sorted(times.values())[-2:]
    assert len(times) == 4, "the shell, the first thread, and two that spin, by turns"
    assert min(both) > 0.1


def test_one_that_has_gone_had_nothing():
    done = subprocess.Popen(["true"])
    done.wait()
    limit = Patience(0.1, done.pid)
    over(limit)
    assert limit.worked_s == 0
