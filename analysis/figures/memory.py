# SPDX-License-Identifier: MIT
"""Peak resident memory of the workload: what hugepages cost (after abh table 2)."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, svg
from abh.report.study import Study

ORDER = 40
TITLE = "Memory"
CAPTION = (
    "Peak resident memory of the workload in MiB; each panel has its own scale. A hugepage of which little is used "
    "counts whole, so small programs can grow a lot in proportion (the paper's Table 2)."
)
KINDS = ("counted",)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        figures.cell_row(
            study,
            run,
            study.value(run, "rss_peak_kib"),
            over_reg=study.relative(run, "rss_peak_kib").value,
        )
        for run in study.plan.runs()
    ]


def axis(study: Study) -> panels.Axis:
    """What the marks stand for."""
    return panels.Axis(lambda run: study.value(run, "rss_peak_kib"), "mib")


def render(study: Study) -> Markup:
    """The HTML."""
    return panels.render(study, axis(study), "memory")


def chart(study: Study) -> svg.Chart | None:
    """The picture."""
    return panels.chart(study, axis(study), f"{TITLE}, MiB")


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
