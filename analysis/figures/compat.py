# SPDX-License-Identifier: MIT
"""Real programs that nobody chose for hugepages: ABH beside stock."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup, escape

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.compare import programs
from abh.compare.programs import AIMS, OUTCOME, Verdict
from abh.paths import of_size
from abh.report import figures, tables
from abh.report import programs as shown
from abh.report.study import Study, within

ORDER = 67
COMMAND = "make compat"
TITLE = "Real programs"
CAPTION = (
    "Programs as distributions ship them, each judged by its own check, under ABH beside stock THP: stock's number and "
    "the change. No outcome is to differ, no program to get fewer hugepages; memory at its peak, and of what is left "
    "running 1 s and 10 s after the load, is to be within 3% or 2 MiB, instructions within 0.5%. "
    f"{shown.MISSED} is outside an aim or cannot be judged, {shown.EXPLAINED} is outside and explained below, "
    f"{shown.CHANCE} is outside by at most twice what is allowed, where each median lies among the other's draws."
)
KINDS = ("counted",)


def verdicts(study: Study) -> list[Verdict]:
    """Of all that was run, program by program."""
    found = within(study, str(of_size(programs.SIZE) / programs.GROUP))
    return sorted(programs.judge(found.results, programs.explained()), key=_place) if found else []


def _place(verdict: Verdict) -> tuple[str, int]:
    return verdict.run.workload, programs.ENVIRONMENTS.index(verdict.run.environment)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        {
            "program": each.run.workload,
            "environment": each.run.environment,
            "quantity": each.quantity,
            "stock": each.stock,
            "value": each.abh,
            "worse_by": each.change,
            "missed": each.is_missed,
            "chance": each.is_chance,
            "reason": each.line.reason if each.line else each.not_judged,
        }
        for each in verdicts(study)
    ]


def render(study: Study) -> Markup:
    """The HTML."""
    found = verdicts(study)
    if not found:
        return Markup("<p>Not run here: <code>make compat</code> does it.</p>")
    columns = (OUTCOME, *(aim.quantity for aim in AIMS))
    rows = [(name, [_cell(own.get(each)) for each in columns]) for name, own in shown.rows(found)]
    missed = tables.listing("Outside an aim:", [each.words for each in found if each.is_missed],
                            "Nothing is outside an aim without a reason.")  # fmt: skip
    reasons = [f"{each.words}: {each.line.reason}" for each in found if each.line and not each.is_missed]
    explained = tables.listing("Outside an aim, and explained:", reasons, "Nothing needs to be explained.")
    return tables.table(TITLE, ["program", *shown.heads()], rows) + missed + explained


def _cell(verdict: Verdict | None) -> Markup:
    text = escape(shown.text(verdict))
    if verdict is None or verdict.is_kept:
        return text
    kind = "out" if verdict.is_missed else "differs"
    return Markup('<b class="{}" title="{}">{}</b>').format(kind, verdict.words, text)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
