# SPDX-License-Identifier: MIT
"""Page walks' share of the estimated time: the picture of the paper's figures 1 (native), 4 (THP) and 9 (ABH)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.bench import mmu
from abh.report import figures, modelled

TITLE = "Page-walk share"
CAPTION = (
    "Cycles of page walks as a share of all cycles, of the whole machine while the program runs: guest, kernel and "
    "hypervisor. All cycles are an estimate: instructions, walks, looks into the second-level TLB, data that the first "
    "cache has not, and VM exits, each counted and multiplied by the cost that the processor's file states, as if they "
    "did not overlap. One picture for three of the paper's: 1 (native, without and with THP), 4 (by environment, with "
    "THP) and 9 (ABH beside THP). Their values are not in its text."
)
KINDS = ("counted",)

_FIGURE = modelled.Figure(
    "walk-share",
    "percent",
    mmu.SHARE,
    more=(mmu.ESTIMATE, *(f"{mmu.ESTIMATE}_{part}" for part in mmu.PARTS), "walk_cycles"),
)
table, render = _FIGURE.table, _FIGURE.render


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
