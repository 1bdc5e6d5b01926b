# SPDX-License-Identifier: MIT
"""Memory that a process keeps while it is idle: after waves of load in many threads, of which all is freed."""

from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from abh.errors import AbhError

if TYPE_CHECKING:
    from abh.compare.allocators import Allocator, Sandbox

RESULT = "allocators-idle.csv"
LOAD = ("16", "24")  # threads, MiB of each
VALUES = ("in_use_kib", "idle_1s_kib", "idle_10s_kib")


@dataclass(frozen=True)
class Sample:
    """Resident memory of one run, in KiB: with all in use; 1 and 10 seconds after all was freed."""

    in_use_kib: int
    idle_1s_kib: int
    idle_10s_kib: int


@dataclass(frozen=True)
class Line:
    """A line of the table: medians over the rounds, and the lowest and highest."""

    allocator: str
    thp: str
    rounds: int
    in_use_kib: int
    idle_1s_kib: int
    idle_10s_kib: int
    idle_10s_kib_low: int
    idle_10s_kib_high: int


def sample_of(output: str) -> Sample:
    """A run's sample, from what the load prints."""
    found = {name: re.search(rf"^{name}: (\d+)$", output, re.MULTILINE) for name in VALUES}
    numbers = {name: int(match[1]) for name, match in found.items() if match}
    if len(numbers) < len(VALUES):
        raise AbhError("a measurement of idle memory cannot be read", got=repr(output), expected=", ".join(VALUES))
    return Sample(**numbers)


def measure(sandbox: Sandbox, allocator: Allocator) -> Sample:
    """One run, of about 11 seconds."""
    from abh.build import components

    with tempfile.TemporaryDirectory() as out:
        enter = sandbox.enter(allocator, Path(out), {"/in/idle": components.path_of("idle")}, {}, "/in/idle")
        done = subprocess.run(
            [*enter, "./idle", *LOAD], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise AbhError(
            f"the load for idle memory failed under {allocator.name}",
            got=f"exit status {done.returncode}",
            tail=done.stderr,
        )
    return sample_of(done.stdout)


def summarize(thp: str, samples: Mapping[str, Sequence[Sample]]) -> list[Line]:
    """Medians, and how far the rounds are apart."""
    lines = []
    for name, own in samples.items():
        in_use, first, last = (round(statistics.median(getattr(each, value) for each in own)) for value in VALUES)
        low, high = min(each.idle_10s_kib for each in own), max(each.idle_10s_kib for each in own)
        lines.append(Line(name, thp, len(own), in_use, first, last, low, high))
    return lines


def show(lines: Sequence[Line]) -> None:
    """The table on the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"Resident memory, MiB: {LOAD[0]} threads with {LOAD[1]} MiB each; 1 and 10 s after all is freed",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for name in ("malloc", "THP", "in use", "idle 1 s", "idle 10 s"):
        table.add_column(name, no_wrap=True, justify="left" if name in ("malloc", "THP") else "right")
    for line in lines:
        low, high = line.idle_10s_kib_low / 1024, line.idle_10s_kib_high / 1024
        after = f"{line.idle_10s_kib / 1024:.1f} ({low:.1f}–{high:.1f})"
        table.add_row(
            line.allocator, line.thp, f"{line.in_use_kib / 1024:.1f}", f"{line.idle_1s_kib / 1024:.1f}", after
        )
    Console(highlight=False).print(table)
