# SPDX-License-Identifier: MIT
"""Progress: whole lines, from however many threads."""

from __future__ import annotations

import re
import sys
import threading
import time

import pytest

from abh import progress


class Slow:
    """A stderr that lets other threads run after each piece that it is given."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, piece: str) -> None:
        self.text += piece
        time.sleep(0.001)

    def flush(self) -> None:
        pass


def test_lines_of_threads_do_not_run_into_each_other(monkeypatch):
    slow = Slow()
    monkeypatch.setattr(sys, "stderr", slow)
    threads = [threading.Thread(target=lambda: [progress.say("words") for _ in range(10)]) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert slow.text == "abh: words\n" * 80


def test_steps_of_two_threads_beat_and_end_each_for_itself(monkeypatch, capsys):
    monkeypatch.setattr(progress, "HEARTBEAT_S", 0.05)

    def work(name: str) -> None:
        with progress.step(name):
            time.sleep(0.3)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    said = capsys.readouterr().err.splitlines()
    for name in ("one", "two"):
        assert said.count(f"abh: {name}") == 1
        assert any(re.fullmatch(rf"abh: still {name} \(\d+ s\)", line) for line in said)
        assert sum(bool(re.fullmatch(rf"abh: done: {name} \(\d+ s\)", line)) for line in said) == 1


def test_a_step_that_fails_is_not_said_to_be_done(capsys):
    before = set(threading.enumerate())
    with pytest.raises(ValueError, match="no"), progress.step("trying"):
        raise ValueError("no")
    assert capsys.readouterr().err == "abh: trying\n"
    assert set(threading.enumerate()) <= before, "its heart beats no more"


def test_only_what_is_long_is_still_going_on(monkeypatch, capsys):
    monkeypatch.setattr(progress, "HEARTBEAT_S", 0.05)
    with progress.still("a short thing"):
        pass
    assert capsys.readouterr().err == ""
    with progress.still("a long thing"):
        time.sleep(0.2)
    assert capsys.readouterr().err.startswith("abh: still a long thing (0 s)\n")
