# SPDX-License-Identifier: MIT
"""Cycles of page walks for each access of the program (the paper's figures 1, 4 and 9, in the model's terms)."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.bench.spec import Run
from abh.report import figures, modelled
from abh.report.study import Number, Study

TITLE = "Page-walk cycles"
CAPTION = (
    "Cycles of page walks for the program's loads and stores, for each of them. A walk's cycles are those of its "
    "references, one after the other, each with the stated latency of the cache that serves it: a count of the model, "
    "no time. A walk in two dimensions (HAP) has up to 24 references, in one dimension (native, shadow, para-virt) 4."
)
KINDS = ("counted",)


def value(study: Study, run: Run) -> Number:
    """Walk cycles per access of the program."""
    return figures.share(*(study.value(run, f"guest_user_{name}") for name in ("walk_cycles", "accesses")))


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    names = ("walk_cycles", "walk_refs", "accesses")
    return modelled.rows(study, value, **{f"guest_user_{name}": f"guest_user_{name}" for name in names})


def render(study: Study) -> Markup:
    """The HTML."""
    return modelled.render(study, value, "times", "walk-cycles")


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
