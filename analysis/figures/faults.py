# SPDX-License-Identifier: MIT
"""Minor page faults relative to the 4 KiB policy in the same environment (after abh figure 7)."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.bench.spec import Run
from abh.report import figures, panels
from abh.report.study import BASE_POLICY, Number, Study

TITLE = "Page faults"
CAPTION = (
    f"Minor page faults of the workload over those with policy {BASE_POLICY} (4 KiB pages only), same workload "
    "and environment. 1 means no fault was saved; 0.02 is the 98% reduction the paper reports for its own policy."
)
KINDS = ("counted",)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        figures.cell_row(
            study,
            run,
            study.relative(run, "minor_faults"),
            minor_faults=study.value(run, "minor_faults").value,
            base=str(dataclasses.replace(run, policy=BASE_POLICY)),
        )
        for run in study.plan.runs()
    ]


def render(study: Study) -> Markup:
    """The HTML."""

    def value(run: Run) -> Number:
        return study.relative(run, "minor_faults")

    others = tuple(policy for policy in study.plan.policies if policy != BASE_POLICY)
    numbers = [value(run).value for run in study.plan.runs()]
    end = max([1.0, *(number for number in numbers if number is not None)])
    return panels.render(study, panels.Axis(value, "times", end=end), "faults", others)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
