# SPDX-License-Identifier: MIT
"""TLB misses of the program, by environment and policy, as the MMU model finds them (the paper's figure 8)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.model import mmu
from abh.report import figures, modelled

ORDER = 30
COMMAND = "make mmu"
TITLE = "TLB misses"
CAPTION = (
    "Share of the program's own accesses that miss in every level of the TLB, so that tables are walked: of loads, "
    "stores, and fetches from another page than the last. The model of the MMU looks up every access that the emulated "
    "machine makes, in the page tables that its kernels and hypervisors built. Kernels and hypervisors share the TLB; "
    "their accesses are in the CSV. The paper's figure 8 has the same for three environments, its values are "
    "not in its text."
)
KINDS = ("modelled",)

_FIGURE = modelled.Figure(
    "tlb-misses",
    "percent",
    "guest_user_tlb_misses",
    "guest_user_accesses",
    tuple(f"{layer}_{name}" for layer in mmu.LAYERS for name in ("tlb_misses", "accesses")),
)
table, render, chart = _FIGURE.table, _FIGURE.render, _FIGURE.chart


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
