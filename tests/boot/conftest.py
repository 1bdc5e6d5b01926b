# SPDX-License-Identifier: MIT
"""Machines that boot: real hypervisors in emulation. Slow, so a cell's result is shared by the tests that read it."""

from __future__ import annotations

import functools
import os

import psutil
import pytest

from abh.schema.result import Result
from abh.study import cell


@functools.cache
def _once(name: str, turn: int) -> Result:
    return cell.run(cell.Cell.of(name, "smoke"))


@pytest.fixture
def run_cell():
    """Runs a cell by name; `turn` tells repeated runs apart, and the same turn is run only once a session."""
    return lambda name, turn=1: _once(name, turn)


def _is_mine(environ: dict[str, str]) -> bool:
    worker = "PYTEST_XDIST_WORKER"
    return "PYTEST_CURRENT_TEST" in environ and environ.get(worker) == os.environ.get(worker)


def processes_with(text: str) -> list[str]:
    """Command lines that hold `text`, of running processes that a test of this worker has started: those of others, as
    of a study that runs beside the tests, have no mark of pytest. (psutil, as not every machine has pgrep.)"""
    fields = [process.info for process in psutil.process_iter(["cmdline", "environ"])]
    started = [each for each in fields if _is_mine(each["environ"] or {})]
    return [line for each in started if text in (line := " ".join(each["cmdline"] or []))]


@pytest.fixture
def running():
    """Looks for processes by a part of their command line."""
    return processes_with
