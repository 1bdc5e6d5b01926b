# SPDX-License-Identifier: MIT
"""Why page faults got no hugepage, of the runs that were asked (`abh run … --explain`)."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures
from abh.report.study import Study, divide, make_study, within
from abh.schema.spec import Run
from abh.study import faults

ORDER = 14
COMMAND = "bin/abh run sqlite@native~thp --explain"
TITLE = "Why not a hugepage"
CAPTION = (
    "Share of a workload's minor faults by the first of the paper's checks that failed, or by what failed after them. "
    "Only runs with --explain have it. A fault that got a hugepage stands for 512 pages, any other for one."
)
KINDS = ("counted",)


def asked(study: Study) -> Study:
    """The runs that have reasons; they are not those of the study."""
    found = within(study, faults.EXPLAINED)
    results = found.results.items() if found else ()
    return make_study(study.plan, {run: result for run, result in results if faults.explained(result.values)})


def table(study: Study) -> list[dict[str, object]]:
    """The CSV: a line for each reason and region of each run that was asked."""
    study = asked(study)
    return [
        figures.cell_row(study, run, study.value(run, name), name=name)
        for run in study.plan.runs()
        if run in study.results
        for name in study.results[run].values
        if name.startswith("faults_")
    ]


def render(study: Study) -> Markup:
    """The HTML."""
    study = asked(study)
    runs = [run for run in study.plan.runs() if run in study.results]
    if not runs:
        return Markup("<p>No run was asked: <code>bin/abh run sqlite@native~thp --explain</code>.</p>")
    names = [each for each in faults.REASONS if each != faults.MAJOR and _occurs(study, runs, each)]
    heads = Markup("").join(
        Markup('<th scope="col" class="num" title="{}">{}<br><span class="soft">{}</span></th>').format(
            faults.REASONS[name].means, name, faults.REASONS[name].check
        )
        for name in names
    )
    rows = Markup("").join(_row(study, run, names) for run in runs)
    return Markup(
        '<div class="wide" tabindex="0" role="region" aria-label="{}"><table><thead><tr><th scope="col">run</th>{}'
        "</tr></thead><tbody>{}</tbody></table></div>"
    ).format(TITLE, heads, rows)


def _occurs(study: Study, runs: list[Run], name: str) -> bool:
    return any(study.value(run, f"faults_{name}").value for run in runs)


def _row(study: Study, run: Run, names: list[str]) -> Markup:
    shares = [divide(study.value(run, f"faults_{name}"), study.value(run, "minor_faults")) for name in names]
    cell = Markup('<td class="num">{}</td>')
    cells = Markup("").join(cell.format(figures.number(each, "percent")) for each in shares)
    return Markup('<tr><th scope="row">{}</th>{}</tr>').format(str(run), cells)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
