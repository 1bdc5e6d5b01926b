# SPDX-License-Identifier: MIT
"""What ABH costs where it does not help: instructions against stock THP, and who is over half a percent."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, tables
from abh.report.study import STOCK_POLICY, Number, Study
from abh.schema.spec import Run

ORDER = 42
TITLE = "Instructions against THP"
CAPTION = (
    f"How many more instructions, or fewer, the machine executes while the workload runs than under {STOCK_POLICY}: "
    "program, kernel and hypervisor together. More than half a percent more is marked, and named below. They are "
    "no times: clearing a hugepage is few instructions, walking tables is none. abh-off, of the controls, does what "
    f"{STOCK_POLICY} does: how far the two are apart is chance, of addresses and of what the hypervisor does meanwhile."
)
KINDS = ("counted",)
KEY = "instructions"
BOUND = 0.005


def policies(study: Study) -> list[str]:
    """Those of ABH."""
    return [name for name in study.plan.policies if name.startswith("abh")]


def runs(study: Study) -> list[Run]:
    """The cells of the table."""
    return [run for run in study.plan.runs() if run.policy in policies(study)]


def change(study: Study, run: Run) -> Number:
    """Instructions over those of stock, less one."""
    return study.change(run, KEY, STOCK_POLICY)


def over(study: Study, run: Run) -> bool:
    """Whether the run is an exception to the rule."""
    more = change(study, run).value
    return more is not None and more > BOUND


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        figures.cell_row(
            study, run, change(study, run), instructions=study.value(run, KEY).value, exception=over(study, run)
        )
        for run in runs(study)
    ]


def render(study: Study) -> Markup:
    """The HTML: a table for each workload."""
    if not runs(study):
        return Markup("<p>There is no policy of ABH to compare.</p>")
    notes = panels.Notes("note-instructions")
    parts = [_workload(study, workload, notes) for workload in study.plan.workloads]
    named = [f"{run}: {figures.number(change(study, run), 'change')}" for run in runs(study) if over(study, run)]
    known = sum(change(study, run).value is not None for run in runs(study))
    listed = tables.listing(
        f"{len(named)} of {known} runs execute over {100 * BOUND:g}% more:",
        named,
        f"None of {known} runs executes over {100 * BOUND:g}% more.",
    )
    return Markup('<div class="row">{}</div>{}{}').format(Markup("").join(parts), listed, notes.render())


def _workload(study: Study, workload: str, notes: panels.Notes) -> Markup:
    def cell(run: Run) -> Markup:
        return tables.shown(notes, change(study, run), "change", f"over {100 * BOUND:g}%" if over(study, run) else "")

    return tables.of_workload(study, TITLE, workload, policies(study), cell)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
