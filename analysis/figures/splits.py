# SPDX-License-Identifier: MIT
"""Hugepages that were split again while the workload ran (abh section 6.3: dedup)."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, tables
from abh.report.study import BASE_POLICY, Study
from abh.schema.spec import Run

ORDER = 44
TITLE = "Splits"
CAPTION = (
    "Hugepages split into small pages, and mappings of hugepages split while the page stays whole, as a free in the "
    "midst of one does; counted for the whole system while the workload ran. dedup frees in one thread what another "
    "has allocated; other workloads are shown where any of them occurs."
)
KINDS = ("counted",)
ALWAYS = "dedup"
KEYS = {"huge_splits": "hugepages split", "huge_pmd_splits": "mappings split"}


def workloads(study: Study) -> list[str]:
    """The one that the paper asks about, and those that have any."""
    return [name for name in study.plan.workloads if name == ALWAYS or any(_occurs(study, name, key) for key in KEYS)]


def _occurs(study: Study, workload: str, key: str) -> bool:
    return any(study.value(run, key).value for run in study.results if run.workload == workload)


def policies(study: Study) -> list[str]:
    """Those with hugepages."""
    return [name for name in study.plan.policies if name != BASE_POLICY]


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        figures.cell_row(study, run, study.value(run, key), quantity=key)
        for run in study.plan.runs()
        if run.policy in policies(study)
        for key in KEYS
    ]


def render(study: Study) -> Markup:
    """The HTML."""
    if not workloads(study):
        return Markup("<p>No hugepage was split.</p>")
    notes = panels.Notes("note-splits")
    shown = [(name, key) for name in workloads(study) for key in KEYS if name == ALWAYS or _occurs(study, name, key)]
    parts = [_workload(study, name, key, notes) for name, key in shown]
    return Markup('<div class="row">{}</div>{}').format(Markup("").join(parts), notes.render())


def _workload(study: Study, workload: str, key: str, notes: panels.Notes) -> Markup:
    def cell(run: Run) -> Markup:
        return tables.shown(notes, study.value(run, key), "count")

    return tables.of_workload(study, TITLE, workload, policies(study), cell, KEYS[key])


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
