# SPDX-License-Identifier: MIT
"""How many minor page faults each policy saves of those with small pages (after abh figure 7)."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, svg
from abh.report.study import BASE_POLICY, Number, Study
from abh.schema.spec import Run

ORDER = 12
TITLE = "Page faults saved"
CAPTION = (
    f"Share of the workload's minor page faults under policy {BASE_POLICY} (4 KiB pages only) that it no longer has, "
    "same workload and environment. 0% means that no fault was saved; the paper reports over 98% for ABH on gcc, milc "
    "and dedup. Code and files are faulted in whatever the policy: where a program has little memory, they are much."
)
KINDS = ("counted",)


def saved(study: Study, run: Run) -> Number:
    """The share of faults that hugepages saved; negative where there are more."""
    return study.saved(run, "minor_faults")


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        figures.cell_row(
            study,
            run,
            saved(study, run),
            minor_faults=study.value(run, "minor_faults").value,
            base=str(Run(run.workload, run.environment, BASE_POLICY)),
        )
        for run in study.plan.runs()
    ]


def axis(study: Study) -> panels.Axis:
    """What the marks stand for."""
    return panels.Axis(lambda run: saved(study, run), "percent", end=1.0)


def others(study: Study) -> tuple[str, ...]:
    """The policies that are compared."""
    return tuple(policy for policy in study.plan.policies if policy != BASE_POLICY)


def render(study: Study) -> Markup:
    """The HTML."""
    return panels.render(study, axis(study), "faults", others(study))


def chart(study: Study) -> svg.Chart | None:
    """The picture."""
    return panels.chart(study, axis(study), TITLE, others(study))


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
