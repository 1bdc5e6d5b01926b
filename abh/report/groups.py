# SPDX-License-Identifier: MIT
"""Runs under policies that are no part of the plain study, beside those of the study that they compare with."""

from __future__ import annotations

import dataclasses

from abh.bench import spec
from abh.report.study import Study, make_study, within


def study_of(study: Study, group: str, beside: tuple[str, ...]) -> Study | None:
    """What was run under the policies of a group; `beside` names policies of the study to show with them.

    Its plan has only what was run; results of the study at another size stay out. None: nothing was run.
    """
    inner = within(study, group)
    if inner is None:
        return None
    found = inner.results
    policies = spec.policies(group=group)
    sizes = {(run.workload, run.environment, result.size) for run, result in found.items()}
    with_them = {
        run: result
        for run, result in study.results.items()
        if run.policy in beside and (run.workload, run.environment, result.size) in sizes
    }
    ran = {name: {getattr(run, name) for run in found} for name in ("workload", "environment", "policy")}
    plan = dataclasses.replace(
        study.plan,
        workloads=tuple(name for name in study.plan.workloads if name in ran["workload"]),
        environments=tuple(name for name in study.plan.environments if name in ran["environment"]),
        policies=(*beside, *(name for name in policies if name in ran["policy"])),
        purposes={**study.plan.purposes, **{f"policy {name}": each.purpose for name, each in policies.items()}},
    )
    return make_study(plan, with_them | dict(found), inner.folder)
