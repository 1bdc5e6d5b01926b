# SPDX-License-Identifier: MIT
"""Cycles of page walks for each access of the program: what walk_share puts into proportion."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, modelled

ORDER = 32
COMMAND = "make mmu"
TITLE = "Page-walk cycles"
CAPTION = (
    "Cycles of page walks for the program's accesses (loads, stores, and fetches from another page than the last), for "
    "each of them. A walk's cycles are those of its references, one after the other, each with the stated latency of "
    "the cache that serves it: a sum of the model, no time. A walk in two dimensions (HAP) has up to 24 references, "
    "in one dimension (native, shadow, para-virt) 4."
)
KINDS = ("modelled",)

_FIGURE = modelled.Figure(
    "walk-cycles",
    "times",
    "guest_user_walk_cycles",
    "guest_user_accesses",
    ("guest_user_walk_cycles", "guest_user_walk_refs", "guest_user_accesses"),
)
table, render, chart = _FIGURE.table, _FIGURE.render, _FIGURE.chart


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
