# SPDX-License-Identifier: MIT
"""How often the guest is left for the hypervisor while the workload runs."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, svg
from abh.report.study import STOCK_POLICY, Study

ORDER = 24
TITLE = "VM exits"
CAPTION = (
    "How often the processor leaves the guest for the hypervisor while the workload runs, as the emulator counts them; "
    "the axis has equal ratios, and each panel its own ends. With nested paging a guest exits where the host has not "
    "mapped its memory yet; with shadow paging also at every fault and change of its tables, which hugepages save."
)
KINDS = ("counted",)
KEY = "vm_exits"


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        figures.cell_row(study, run, study.value(run, KEY), over_thp=study.relative(run, KEY, STOCK_POLICY).value)
        for run in study.plan.runs()
    ]


def axis(study: Study) -> panels.Axis:
    """What the marks stand for."""
    return panels.Axis(lambda run: study.value(run, KEY), "count", log=True)


def render(study: Study) -> Markup:
    """The HTML."""
    return panels.render(study, axis(study), "vm-exits")


def chart(study: Study) -> svg.Chart | None:
    """The picture."""
    return panels.chart(study, axis(study), TITLE)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
