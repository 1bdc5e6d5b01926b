# SPDX-License-Identifier: MIT
"""Runs with the MMU model beside them: a study of its own for each processor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from markupsafe import Markup

from abh.bench import mmu
from abh.bench.spec import Run
from abh.report import figures, panels
from abh.report.load import load
from abh.report.study import Number, Study, make_study

Value = Callable[[Study, Run], Number]


def studies(study: Study) -> dict[str, Study]:
    """Processor to its study, over the workloads that were run on it."""
    folder = study.folder / mmu.FOLDER if study.folder else None
    found = {}
    for cpu in mmu.cpus():
        if folder and any((folder / cpu).glob("*.json")):
            results = load(folder / cpu)
            one = make_study(study.plan, results, folder / cpu)
            ran = {run.workload for run in results}
            workloads = tuple(name for name in one.plan.workloads if name in ran)
            found[cpu] = dataclasses.replace(one, plan=dataclasses.replace(one.plan, workloads=workloads))
    return found


def policies(study: Study) -> tuple[str, ...]:
    """The policies that were run; marks and order stay those of the whole plan."""
    ran = {run.policy for run in study.results}
    return tuple(name for name in study.plan.policies if name in ran)


def rows(study: Study, value: Value, **more: str) -> list[dict[str, object]]:
    """The CSV: a line for each processor and run; `more` names further values of the result as columns."""
    return [
        {"cpu": cpu, **figures.cell_row(one, run, value(one, run), **_columns(one, run, more))}
        for cpu, one in studies(study).items()
        for run in one.plan.runs()
        if run in one.results
    ]


def _columns(study: Study, run: Run, more: dict[str, str]) -> dict[str, object]:
    return {column: study.value(run, name).value for column, name in more.items()}


def render(study: Study, value: Value, style: str, name: str) -> Markup:
    """Panels for each processor."""
    found = studies(study)
    if not found:
        return nothing()
    return Markup("").join(
        Markup("<h4>{}</h4>{}").format(
            cpu,
            panels.render(
                one, panels.Axis(lambda run, one=one: value(one, run), style), f"{name}-{cpu}", policies(one)
            ),
        )
        for cpu, one in found.items()
    )


def nothing() -> Markup:
    """What stands where nothing was run with the model."""
    return Markup("<p>No run had the MMU model beside it: <code>make mmu</code> has some.</p>")
