# SPDX-License-Identifier: MIT
"""The layer below: how much of the guest's RAM the host or hypervisor maps with hugepages."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels
from abh.report.study import Study

TITLE = "Host coverage"
CAPTION = (
    "Share of the guest's RAM that the host (KVM) or hypervisor (Xen) backs with hugepages: the second layer, which "
    "Alloc.Ratio does not see. A guest hugepage on 4 KiB backing is walked as 4 KiB pages."
)
KINDS = ("counted",)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        figures.cell_row(
            study,
            run,
            study.host_coverage(run),
            host_huge_kib=study.value(run, "host_huge_kib").value,
            guest_huge_kib=study.value(run, "guest_huge_kib").value,
        )
        for run in study.plan.runs()
    ]


def render(study: Study) -> Markup:
    """The HTML."""
    return panels.render(study, panels.Axis(study.host_coverage, "percent", end=1.0), "host-coverage")


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
