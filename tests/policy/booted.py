# SPDX-License-Identifier: MIT
"""Machines that boot for a test of this folder: whether they go on, and how long each step takes.

They are judged by their progress: how long the whole takes says more of what else this computer does. Limits are in
seconds of processor time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from abh.machine.qemu import Running

SILENT_S = 900  # the slowest step takes a minute where nothing else runs
WHOLE_S = 7200
END = "ABH end host"


@dataclass
class Said:
    """The lines of a machine, and what it did in place of saying that it has ended."""

    lines: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def checks(self) -> dict[str, str]:
        """What came of each check, by its name."""
        return dict(line.split(" ", 3)[2:] for line in self.lines if line.startswith("ABH check "))


def follow(running: Running, file: str, over: Callable[[], bool]) -> Said:
    """Waits for a machine's last line in a file of its folder; pytest shows the others, with their times, where the
    test fails."""
    said, start = Said(), time.monotonic()
    whole, step = running.patience(WHOLE_S), running.patience(SILENT_S)
    while not (said.lines and said.lines[-1].startswith("ABH end ")):
        was_over, now = over(), time.monotonic()  # asked first: what it said last is then still read
        lines = [line.rstrip("\r") for line in re.findall(r"^ABH .*(?=\n)", running.text(file), re.MULTILINE)]
        for line in lines[len(said.lines) :]:
            print(f"{now - start:.0f} s: {line}", flush=True)
            step = running.patience(SILENT_S)
        said.lines = lines
        if lines and lines[-1].startswith("ABH end "):
            break
        if was_over:
            said.problem = "the machine went off"
        elif step.is_over():
            said.problem = f"nothing new within {step}"
        elif whole.is_over():
            said.problem = f"no end within {whole}"
        if said.problem:
            break
        time.sleep(0.2)
    return said
