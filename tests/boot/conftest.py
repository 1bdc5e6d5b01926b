# SPDX-License-Identifier: MIT
"""Machines that boot: real hypervisors in emulation. Slow, so a cell's result is shared by the tests that read it."""

from __future__ import annotations

import functools

import pytest

from abh.bench import cell
from abh.bench.result import Result


@functools.cache
def _once(name: str, turn: int) -> Result:
    return cell.run(cell.Cell.of(name, "smoke"))


@pytest.fixture
def run_cell():
    """Runs a cell by name; `turn` tells repeated runs apart, and the same turn is run only once a session."""
    return lambda name, turn=1: _once(name, turn)
