# SPDX-License-Identifier: MIT
"""What this project set out to reach with ABH, and what it reaches."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.paths import of_size
from abh.report import figures, panels, tables
from abh.report.study import Number, Study, missing, within
from abh.schema.spec import Run

ORDER = 16
COMMAND = "make aims"
TITLE = "Aims"
CAPTION = (
    "What ABH was to reach, in kernel and malloc together, and what it does; less than the aim is marked. The aims are "
    "for workloads of size paper: of a small program, what is no hugepage by intention (its first megabyte, its code) "
    "is much; make aims runs them, natively. Para-virtual guests have no hugepages."
)
KINDS = ("counted",)
POLICY = "abh"
SIZE = "paper"


@dataclass(frozen=True)
class Aim:
    """At least this much of a number, for a workload."""

    workload: str
    quantity: str
    least: float

    @property
    def words(self) -> str:
        """What is asked."""
        return f"{self.workload}: {self.quantity} of {100 * self.least:g}%"

    def reached(self, study: Study, environment: str) -> Number:
        """What there is."""
        run = Run(self.workload, environment, POLICY)
        result = study.results.get(run)
        if result and result.size != SIZE:
            return missing(f"run at size {result.size} only")
        if self.quantity == ALLOC_RATIO:
            return study.value(run, "alloc_ratio")
        return study.saved(run, "minor_faults")

    def missed(self, number: Number) -> str:
        """By what it falls short; "" if it does not."""
        short = self.least - (number.value if number.value is not None else self.least)
        return f"{100 * short:.1f} points less than {100 * self.least:g}%" if short > 0 else ""


ALLOC_RATIO, SAVED = "Alloc.Ratio", "faults saved"
AIMS = (
    Aim("sqlite", ALLOC_RATIO, 0.99),
    Aim("cc1", ALLOC_RATIO, 0.99),
    Aim("cpython", ALLOC_RATIO, 0.90),
    Aim("dedup", ALLOC_RATIO, 0.95),
    Aim("xalan", ALLOC_RATIO, 0.95),
    Aim("cc1", SAVED, 0.98),
    Aim("dedup", SAVED, 0.98),
)


def of_paper(study: Study) -> Study:
    """The results of size paper, which are in a folder within that of the others; else the study as it is."""
    return within(study, str(of_size(SIZE))) or study


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    study = of_paper(study)
    rows = []
    for aim in AIMS:
        for environment in study.plan.environments:
            value, run = aim.reached(study, environment), Run(aim.workload, environment, POLICY)
            more = {"quantity": aim.quantity, "aim": aim.least, "missed": bool(aim.missed(value))}
            rows.append(figures.cell_row(study, run, value, **more))
    return rows


def render(study: Study) -> Markup:
    """The HTML."""
    study = of_paper(study)
    notes = panels.Notes("note-aims")
    rows = []
    for aim in AIMS:
        values = [aim.reached(study, environment) for environment in study.plan.environments]
        rows.append((aim.words, [tables.shown(notes, value, "percent", aim.missed(value)) for value in values]))
    return tables.table(TITLE, ["aim", *study.plan.environments], rows) + notes.render()


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
