# SPDX-License-Identifier: MIT
"""Page walks' share of the estimated time: the picture of the paper's figures 1 (native), 4 (THP) and 9 (ABH)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.model import mmu
from abh.report import figures, modelled

ORDER = 34
COMMAND = "make mmu"
TITLE = "Page-walk share"
CAPTION = (
    "Cycles of page walks as a share of all cycles, of the whole machine while the program runs: guest, kernel and "
    "hypervisor. All cycles are an estimate: instructions, walks, looks into the second-level TLB, data that the first "
    "cache has not, and VM exits, each multiplied by the cost that the processor's file states. A processor hides part "
    "of a walk behind other work, and how much is not known: a band goes from half of a walk's cycles to all of them, "
    "with a mark at either end. Of data's stalls, half are taken to be hidden; nothing else overlaps. One picture for "
    "three of the paper: 1 (native, without and with THP), 4 (by environment, with THP) and 9 (ABH beside THP); their "
    "values are not in its text."
)
KINDS = ("modelled",)

_FIGURE = modelled.Figure(
    "walk-share",
    "percent",
    mmu.SHARES[0],
    more=(*mmu.ESTIMATES, *(f"{mmu.ESTIMATE}_{part}" for part in mmu.PARTS), "walk_cycles"),
    high=mmu.SHARES[1],
)
table, render, chart = _FIGURE.table, _FIGURE.render, _FIGURE.chart


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
