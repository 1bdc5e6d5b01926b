# SPDX-License-Identifier: MIT
"""The study as a whole: killed at any moment it loses no finished cell, and the next one goes on from there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from abh import paths
from abh.machine.patience import Patience
from abh.schema import result, spec

STUDY = ["study", "--workload", "tlb-overflow", "--environment", "native", "--cores", "1"]
LIMIT_S = 900  # of processor time


def start(checkout: Path) -> subprocess.Popen:
    environment = {**os.environ, "ABH_CHECKOUT": str(checkout), "PYTHONPATH": str(checkout)}
    log = (checkout / "study.log").open("ab")
    words = [sys.executable, "-m", "abh", *STUDY]
    return subprocess.Popen(words, cwd=checkout, env=environment, stdout=log, stderr=log, start_new_session=True)


def wait_for(condition, process: subprocess.Popen, checkout: Path) -> None:
    patience = Patience(LIMIT_S, process.pid)
    while not condition():
        log = (checkout / "study.log").read_text()
        assert process.poll() is None or condition(), f"the study ended early:\n{log[-3000:]}"
        assert not patience.is_over(), f"nothing within {patience}:\n{log[-3000:]}"
        time.sleep(0.1)


def test_a_killed_study_loses_no_finished_cell(tmp_path, running):
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", str(paths.CHECKOUT), str(checkout)], check=True)
    measured = checkout / "analysis" / "measured"
    cells = len(spec.policies())

    first = start(checkout)
    marks = measured / ".fingerprints"  # a cell is finished once what it depends on is written down
    wait_for(lambda: any(marks.glob("*@*")), first, checkout)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    finished = {path: path.stat().st_mtime_ns for mark in marks.glob("*@*") if (path := measured / f"{mark.name}.json")}
    assert 1 <= len(finished) < cells
    for path in finished:
        result.read(path)
    deadline = time.monotonic() + 30
    while running(str(checkout)):
        assert time.monotonic() < deadline, running(str(checkout))
        time.sleep(0.2)

    second = start(checkout)
    wait_for(lambda: second.poll() is not None, second, checkout)
    assert second.returncode == 0, (checkout / "study.log").read_text()[-3000:]
    assert len(list(measured.glob("*.json"))) == cells
    for path, when in finished.items():
        assert path.stat().st_mtime_ns == when, f"{path.name} was run again"
    assert (checkout / "analysis" / "out" / "report.html").stat().st_size > 10_000
