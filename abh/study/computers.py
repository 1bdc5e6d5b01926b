# SPDX-License-Identifier: MIT
"""Which kind of computer a cell runs on: one of QEMU's, booted once and thawed, or the Itanium machine, which boots.

A kind is a module, and code that is part of a cell's fingerprint begins in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from abh.machine.itanium import runs
from abh.schema.result import Result
from abh.study import cell, itanium
from abh.study.cell import Cell


class Computer(Protocol):
    """What a study asks of a kind of computer."""

    __name__: str

    def told(self, one: Cell, /) -> list[str]:
        """All that decides what a cell does and says, but for what the computer is made of."""

    def frozen_state(self, one: Cell, /) -> object:
        """Makes what all cells of an environment share, once."""

    def run(self, one: Cell, /, heard: Callable[[Mapping[str, Any]], None] = ...) -> Result:
        """Runs a cell; `heard` is given what the MMU model said, where there is one."""


def of(one: Cell) -> Computer:
    """That of a cell."""
    return itanium if runs(one.machine) else cell
