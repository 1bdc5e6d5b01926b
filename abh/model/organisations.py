# SPDX-License-Identifier: MIT
"""Other organisations of page tables and TLB refill than x86-64's: which are replayed on which machine, and what
replays said (docs/organisations.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abh.errors import AbhError

FOLDER = "organisations"  # beside the folders of processors
REPLAYS = "replays of organisations"
MADE_UP = "made-up/thesis.json"  # in it: workloads that need no run
# Programs that the thesis ran and that were written anew (organisations/src/programs.rs), and how many accesses of each
# are replayed at most: of mm, which is the same all the time, a part.
PROGRAMS = {
    "nsieve": 40_000_000,
    "heapsort": 40_000_000,
    "mm": 20_000_000,
    "tfftdp": 40_000_000,
    "compress": 40_000_000,
}
# What is replayed unless something is named: natively, nested and on a shadow; without hugepages and with ABH.
PROGRAM = "sqlite"
NATIVE, SHADOW = "native", "kvm-shadow"
NESTED = ("kvm-hap", "xen-hap")
ENVIRONMENTS = (NATIVE, *NESTED, SHADOW)
POLICIES = ("reg", "abh")
RUNS = tuple(f"{PROGRAM}@{environment}~{policy}" for environment in ENVIRONMENTS for policy in POLICIES)


@dataclass(frozen=True)
class Batch:
    """Organisations that are replayed together: on one machine, with large pages or without."""

    machine: str
    organisations: Sequence[str]
    superpages: bool = False
    of: Sequence[str] = ()  # of the runs above, which; none: all
    every_fetch: bool = False  # of a trace that has each line of instructions, for the sake of their caches
    sweep: str = ""  # sizes of a cache, of lines or of TLBs
    part: int = 0  # so many accesses are heard twice, and counted the second time: caches are warm; 0: all, and cold

    @property
    def name(self) -> str:
        """In messages."""
        return ", ".join([self.machine, *(["large pages"] if self.superpages else []), *self._more])

    @property
    def _more(self) -> list[str]:
        words = ["--sweep", self.sweep] if self.sweep else []
        return words + (["--warm", "--first", str(self.part)] if self.part else [])

    @property
    def replays(self) -> int:
        """How many replays it is."""
        return len(self.organisations) * len(self.sweep.split(","))

    @property
    def words(self) -> list[str]:
        """Options of abh-mmu, which tell a batch from others."""
        words = ["--machine", self.machine, "--superpages", "on" if self.superpages else "off", *self._more]
        return words + [word for name in self.organisations for word in ("--organisation", name)]


GUARDED = ("g2", "g4", "g8", "g16", "g32", "g64", "g128", "g256")
# The systems that the thesis compares in its chapter 6, then what it varies.
THESIS = ("g16-s8k", "g16-s128k", "mpt", "h512", "h8192", "c512-4", "c8192")
VARIED = ("g16-s2x4k", "g16-s2x64k", "c512-8", "c512-16", "c512-4-n", "c512-8-n", "c512-16-n", "lva", "gv", "ipt")
# Of Jacob & Mudge those that map the addresses of today's programs.
JACOB_MUDGE = ("ultrix-48", "mach-48", "intel-48", "pa-risc", "notlb-48", "base")
# The sizes that Jacob & Mudge sweep, a side, and how much of a run that is done for. (Which sizes of TLBs they had is
# in the part of the paper that our copy lacks: half as many entries as their machine has to four times as many.)
L1, L2, LINES, TLBS = "l1=1,2,4,8,16,32,64,128", "l2=512,1024,2048", "line=16,32,64,128", "tlb=64,128,256,512"
WITH_TLB = ("ultrix-48", "mach-48", "intel-48", "pa-risc")
PART = 30_000_000
TODAY = ("g16", "g16-s128k", "mpt", "h8192", "c8192", "pa-risc", "intel-48")
# A guest's table and a host's, walked by hardware; natively and on a shadow the host's is walked alone.
WALKED = ("radix", "g16", "h8192", "c8192")
PAIRS = tuple(f"{guest}/{host}" for guest in WALKED for host in WALKED)
SAME = tuple(f"{name}/{name}" for name in WALKED)
REMEMBERED = tuple(f"{name}/{name}+{word}" for name in ("radix", "h8192") for word in ("ntlb", "stlb"))
PROCESSOR = "i7-3770"
# What the thesis calls those that it measured.
IN_THESIS = {
    **{name: name.upper() for name in GUARDED},
    "g16-s8k": "G16+S8K",
    "g16-s2x4k": "G16+S2x4K",
    "g16-s128k": "G16+S128K",
    "g16-s2x64k": "G16+S2x64K",
    "mpt": "MPT",
    "h512": "H512",
    "h8192": "H8192",
    "c512-4": "C512",
    "c8192": "C8192",
}
BATCHES = (
    Batch("r4700", THESIS, of=("native~reg",)),
    Batch("r4700", GUARDED, of=("native~reg",)),
    Batch("r4700", VARIED, of=("native~reg",)),
    Batch("r4700", ("g16", "mpt", "h8192", "c512-16"), superpages=True, of=("native~abh",)),
    Batch("jacob-mudge", JACOB_MUDGE, of=("native~reg",), every_fetch=True),
    Batch("jacob-mudge", JACOB_MUDGE, of=("native~reg",), every_fetch=True, sweep=L1, part=PART),
    Batch("jacob-mudge", JACOB_MUDGE, of=("native~reg",), every_fetch=True, sweep=L2, part=PART),
    Batch("jacob-mudge", JACOB_MUDGE, of=("native~reg",), every_fetch=True, sweep=LINES, part=PART),
    Batch("jacob-mudge", WITH_TLB, of=("native~reg",), every_fetch=True, sweep=TLBS, part=PART),
    Batch(PROCESSOR, TODAY, of=("native~reg",)),
    Batch(PROCESSOR, SAME, of=("native~reg",)),
    Batch(PROCESSOR, PAIRS, of=tuple(f"{environment}~reg" for environment in NESTED)),
    Batch(PROCESSOR, (*SAME, *REMEMBERED), superpages=True),
)
# What the thesis's programs are replayed through: all that it prints of them.
OF_PROGRAMS = (Batch("r4700", THESIS), Batch("r4700", GUARDED))


def of_program(name: str) -> str:
    """The file of a program that was written anew."""
    return f"made-up/{name}.json"


def _read(path: Path, what: str, look: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """A file that `abh organisations` has written; `look` fails on what is none."""
    try:
        found = json.loads(path.read_text())
        look(found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        next_step = "remove it and run `abh organisations`"
        raise AbhError(f"these are no {what}", where=path, got=error, next_step=next_step) from None
    return dict(found)


def read(path: Path) -> dict[str, Any]:
    """A run's replays."""
    keys = ("organisation", "machine", "superpages", "batch", "swept", "warm", "fetches")
    return _read(
        path,
        REPLAYS,
        lambda found: [
            (found["run"], found["fingerprint"], [each[key] for key in keys], each["counters"]["layers"]["total"])
            for each in found["replays"]
        ],
    )


def read_program(path: Path) -> dict[str, Any]:
    """What a program that was written anew has given."""
    keys = ("organisation", "machine", "counters")
    return _read(
        path,
        "replays of a program",
        lambda found: (
            found["fingerprint"],
            found["program"],
            [each[key] for each in found["replays"] for key in keys],
        ),
    )


def read_made_up(path: Path) -> dict[str, Any]:
    """What the made-up workloads have given."""
    keys = ("workload", "organisation", "at", "quantity", "unit", "value")
    return _read(
        path,
        "results of made-up workloads",
        lambda found: (found["fingerprint"], found["kind"], [each[key] for each in found["lines"] for key in keys]),
    )


def wanted(run: str | None) -> list[Batch]:
    """The batches of one of the runs above, which answer the report's questions; all of them of any other."""
    return [batch for batch in BATCHES if run is None or not batch.of or run.split("@")[1] in batch.of]


def left(path: Path, fingerprint: str, batches: Sequence[Batch]) -> tuple[list[dict[str, Any]], list[Batch]]:
    """What is there already of this fingerprint, and which of these batches are still to be done."""
    if not path.exists():
        return [], list(batches)
    # What another version has written need not have all that this one wants: it is written anew.
    if _read(path, REPLAYS, lambda found: found["fingerprint"])["fingerprint"] != fingerprint:
        return [], list(batches)
    replays: list[dict[str, Any]] = read(path)["replays"]
    done = {each["batch"] for each in replays}
    return replays, [batch for batch in batches if " ".join(batch.words) not in done]
