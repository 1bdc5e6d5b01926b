# SPDX-License-Identifier: MIT
"""Alloc.Ratio, the share of fault-time memory that came as hugepages (abh section 2.1), for every run."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, svg
from abh.report.study import Study

ORDER = 10
TITLE = "Alloc.Ratio"
CAPTION = (
    "Share of the memory allocated in page faults that came as 2 MiB hugepages, as the guest's kernel counts it: "
    "512·huge / (512·huge + regular). Frees are ignored. 100% is the best there is."
)
KINDS = ("counted",)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [figures.cell_row(study, run, study.value(run, "alloc_ratio")) for run in study.plan.runs()]


def axis(study: Study) -> panels.Axis:
    """What the marks stand for."""
    return panels.Axis(lambda run: study.value(run, "alloc_ratio"), "percent", end=1.0)


def render(study: Study) -> Markup:
    """The HTML."""
    return panels.render(study, axis(study), "alloc-ratio")


def chart(study: Study) -> svg.Chart | None:
    """The picture."""
    return panels.chart(study, axis(study), TITLE)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
