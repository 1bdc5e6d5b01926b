# SPDX-License-Identifier: MIT
"""Other organisations of page tables and TLB refill than x86-64's: which are replayed on which machine, and what
replays said (docs/organisations.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abh.errors import AbhError

FOLDER = "organisations"  # beside the folders of processors


@dataclass(frozen=True)
class Batch:
    """Organisations that are replayed together: on one machine, with large pages or without."""

    machine: str
    organisations: Sequence[str]
    superpages: bool = False

    @property
    def name(self) -> str:
        """In messages, and in what is written."""
        return f"{self.machine}{', large pages' if self.superpages else ''}"

    @property
    def words(self) -> list[str]:
        """Options of abh-mmu."""
        words = ["--machine", self.machine, "--superpages", "on" if self.superpages else "off"]
        return words + [word for name in self.organisations for word in ("--organisation", name)]


GUARDED = ("g2", "g4", "g8", "g16", "g32", "g64", "g128", "g256")
# The systems that the thesis compares in its chapter 6, then what it varies.
THESIS = ("g16-s8k", "g16-s128k", "mpt", "h512", "h8192", "c512-4", "c8192")
VARIED = ("g16-s2x4k", "g16-s2x64k", "c512-8", "c512-16", "c512-4-n", "c512-8-n", "c512-16-n", "lva")
# Of Jacob & Mudge those that map the addresses of today's programs.
JACOB_MUDGE = ("ultrix-48", "mach-48", "intel-48", "pa-risc", "notlb-48", "base")
TODAY = ("g16", "g16-s128k", "mpt", "h8192", "c8192", "pa-risc", "intel-48")
BATCHES = (
    Batch("r4700", THESIS),
    Batch("r4700", GUARDED),
    Batch("r4700", VARIED),
    Batch("r4700", ("g16", "mpt"), superpages=True),
    Batch("jacob-mudge", JACOB_MUDGE),
    Batch("i7-3770", TODAY),
    Batch("i7-3770", ("g16", "mpt", "intel-48"), superpages=True),
)


def read(path: Path) -> dict[str, Any]:
    """What `abh organisations` has written; an error if it is something else."""
    try:
        found = json.loads(path.read_text())
        found["run"], found["fingerprint"]
        for replay in found["replays"]:
            replay["organisation"], replay["machine"], replay["superpages"], replay["counters"]["layers"]["total"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AbhError(
            "these are no replays of organisations",
            where=path,
            got=error,
            next_step="remove it and run `abh organisations`",
        ) from None
    return dict(found)


def left(path: Path, fingerprint: str) -> tuple[list[dict[str, Any]], list[Batch]]:
    """What is there already of this fingerprint, and the batches that are still to be done."""
    if not path.exists():
        return [], list(BATCHES)
    found = read(path)
    if found["fingerprint"] != fingerprint:
        return [], list(BATCHES)
    replays: list[dict[str, Any]] = found["replays"]
    done = {(each["machine"], each["superpages"], each["organisation"]) for each in replays}
    missing = [
        batch
        for batch in BATCHES
        if not all((batch.machine, batch.superpages, name) in done for name in batch.organisations)
    ]
    return replays, missing
