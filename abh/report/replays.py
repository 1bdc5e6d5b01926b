# SPDX-License-Identifier: MIT
"""Replays of one run's accesses through other organisations of page tables, and made-up workloads on their tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from abh.model import mmu, organisations
from abh.report.study import Number, Study
from abh.schema.spec import Run

COMMAND = "make organisations"
L2, MEMORY = 20, 520  # cycles beyond the first cache, of Jacob & Mudge: machines/jacob-mudge.toml
NOTHING_REFILLED = "nothing was refilled"


@dataclass(frozen=True)
class Replay:
    """One run through one organisation on one machine."""

    run: Run
    organisation: str
    machine: str
    superpages: bool
    total: Mapping[str, int]  # counters of all layers
    table: Mapping[str, int]
    instructions: int
    swept: Mapping[str, int]  # sizes that are not the machine's: of caches, lines (line) or TLBs (tlb)
    warm: bool  # its caches were, of the same run
    every_fetch: bool  # its caches have seen all instructions

    @property
    def on(self) -> str:
        """The machine, and whether large pages are mapped as such."""
        return f"{self.machine}{', large pages' if self.superpages else ''}"

    @property
    def accesses(self) -> int:
        """Loads, stores and fetches."""
        return sum(self.total[kind] for kind in ("loads", "stores", "fetches"))

    def all_of(self, prefix: str) -> int:
        """The sum of all counters with such names."""
        return sum(number for name, number in self.total.items() if name.startswith(prefix))

    def a_refill(self, count: float, unit: str) -> Number:
        """So many of something for each refill."""
        return per(count, self.total["refills"], unit, NOTHING_REFILLED)

    def an_access(self, count: float, unit: str) -> Number:
        """So many for a thousand accesses."""
        return per(1000 * count, self.accesses, unit, "no access was counted")

    @property
    def cycles(self) -> Number:
        """Of a refill."""
        return self.a_refill(self.total["refill_cycles"], "cycles")

    @property
    def references(self) -> Number:
        """Of a walk by hardware."""
        return self.a_refill(self.all_of("references_") - self.total.get("references_most", 0), "references")

    @property
    def waits(self) -> int:
        """Cycles that the program's data and instructions wait for, beyond the first cache of Jacob & Mudge."""
        missed = {"l2": L2, "memory": MEMORY}
        return sum(
            cycles * self.total.get(f"{kind}_refs_{where}", 0)
            for where, cycles in missed.items()
            for kind in ("data", "fetch")
        )

    @property
    def cost(self) -> Number:
        """Cycles of refills for a thousand accesses: what the organisation costs, however often it is asked."""
        return self.an_access(self.total["refill_cycles"], "cycles")


def per(count: float, whole: float, unit: str, reason: str) -> Number:
    """A ratio; unknown for that reason where there is nothing to divide by."""
    return Number(count / whole, unit, "modelled") if whole else Number(None, unit, "modelled", reason)


def replays(study: Study) -> list[Replay]:
    """All that there are."""
    folder = study.folder / mmu.FOLDER / organisations.FOLDER if study.folder else None
    return [
        _replay(Run.parse(found["run"]), each)
        for path in (sorted(folder.glob("*.json")) if folder else [])
        for found in [organisations.read(path)]
        for each in found["replays"]
    ]


def _replay(run: Run, each: Mapping[str, Any]) -> Replay:
    """One of a file's."""
    return Replay(
        run,
        each["organisation"],
        each["machine"],
        each["superpages"],
        each["counters"]["layers"]["total"],
        each["counters"]["table"],
        each["counters"].get("instructions", 0),
        each["swept"],
        each["warm"],
        each["fetches"] == "lines",
    )


def programs(study: Study) -> dict[str, list[Replay]]:
    """Those of programs that were written anew, by program. Nothing ran them: their run's environment says so."""
    folder = study.folder / mmu.FOLDER / organisations.FOLDER if study.folder else None
    files = {name: folder / organisations.of_program(name) for name in organisations.PROGRAMS} if folder else {}
    return {
        name: [_replay(Run(name, "made-up", "none"), each) for each in organisations.read_program(path)["replays"]]
        for name, path in files.items()
        if path.exists()
    }


def made_up(study: Study) -> dict[tuple[str, str, int, str], Number]:
    """The made-up workloads: by workload, organisation, what was varied, and quantity."""
    path = study.folder / mmu.FOLDER / organisations.FOLDER / organisations.MADE_UP if study.folder else None
    if path is None or not path.exists():
        return {}
    found = organisations.read_made_up(path)
    return {
        (line["workload"], line["organisation"], line["at"], line["quantity"]):
            Number(line["value"], line["unit"], found["kind"])
        for line in found["lines"]
    }  # fmt: skip
