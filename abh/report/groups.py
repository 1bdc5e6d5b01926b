# SPDX-License-Identifier: MIT
"""Runs under policies that are no part of the plain study, beside those of the study that they compare with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from abh.report import panels, tables
from abh.report.study import Study, make_study, within
from abh.schema import spec
from abh.schema.result import Result
from abh.schema.spec import Run

Quantity = tuple[str, str, str]  # a value's name, what it is called, how it is printed


def study_of(study: Study, group: str, beside: Sequence[str]) -> Study | None:
    """What was run under the policies of a group; `beside` names other policies to show with them, in front.

    Its plan has only what was run; results at another size stay out. None: nothing was run.
    """
    inner = within(study, group)
    if inner is None:
        return None
    found, policies = inner.results, spec.policies(group=group)
    sizes = {(run.workload, run.environment, result.size) for run, result in found.items()}
    with_them = {
        run: result
        for run, result in _of(study, beside).items()
        if (run.workload, run.environment, result.size) in sizes
    }
    known = dataclasses.replace(
        study.known,
        policies=(*beside, *(name for name in policies if name not in beside)),
        purposes={**study.known.purposes, **{f"policy {name}": each.purpose for name, each in policies.items()}},
    )
    return make_study(known, with_them | dict(found), inner.folder)


def _of(study: Study, policies: Sequence[str]) -> dict[Run, Result]:
    """Results under these policies, of the study or of the groups that they are in."""
    found = dict(study.results)
    for group in {spec.policy(name).group for name in policies} - {""}:
        if inner := within(study, group):
            found |= inner.results
    return {run: result for run, result in found.items() if run.policy in policies}


def by_run(
    study: Study,
    title: str,
    columns: Mapping[str, str],
    quantities: Iterable[Quantity],
    cells: Iterable[tuple[str, str]],
) -> Markup:
    """A table for each quantity: a row for each workload and environment, a column for each policy that was run, with
    what it stands for."""
    cells, notes = list(cells), panels.Notes(f"note-{title.lower().replace(' ', '-')}")
    ran = [name for name in columns if name in study.plan.policies]
    heads = [Markup('{}<br><span class="soft">{}</span>').format(name, columns[name]) for name in ran]
    found = Markup("")
    for key, name, style in quantities:
        rows = [
            (f"{workload}@{environment}",
             [notes.show(study.value(Run(workload, environment, policy), key), style) for policy in ran])
            for workload, environment in cells
        ]  # fmt: skip
        found += tables.table(title, ["run", *heads], rows, name)
    return found + notes.render()
