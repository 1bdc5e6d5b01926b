# SPDX-License-Identifier: MIT
"""What was run, and where stock falls short: sentences computed from the results, with what they rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from abh.report.figures import number
from abh.report.study import STOCK_POLICY, Number, Plan, Study, missing
from abh.schema.result import OUTCOMES
from abh.schema.spec import Run


@dataclass(frozen=True)
class Median:
    """The middle of one number over the workloads that have it."""

    middle: Number
    known: int
    planned: int

    @property
    def basis(self) -> str:
        """What the median rests on."""
        return f"{self.known} workloads" if self.known == self.planned else f"{self.known} of {self.planned} workloads"


def outcomes(study: Study) -> dict[str, int]:
    """How many cells ended how; the keys are always the same."""
    count = Counter[str](result.outcome for result in study.results.values())
    return {**{outcome: count[outcome] for outcome in OUTCOMES}, "not run": len(study.not_run())}


def counts(plan: Plan) -> str:
    """How many of what the plan has."""
    named = (
        (plan.workloads, "program", "programs"),
        (plan.environments, "environment", "environments"),
        (plan.policies, "policy", "policies"),
    )
    return ", ".join(f"{len(names)} {one if len(names) == 1 else more}" for names, one, more in named)


def state(study: Study) -> str:
    """One sentence on how complete the matrix is."""
    count = outcomes(study)
    parts = [f"{cells} {name}" for name, cells in count.items() if cells and name != "success"]
    rest = f" The rest: {', '.join(parts)}." if parts else ""
    return f"{count['success']} of {sum(count.values())} cells succeeded.{rest}"


def medians(study: Study) -> list[tuple[str, list[Median]]]:
    """(environment, median Alloc.Ratio under each policy)."""
    return [
        (environment, [ratio(study, environment, policy) for policy in study.plan.policies])
        for environment in study.plan.environments
    ]


def ratio(study: Study, environment: str, policy: str) -> Median:
    """The median Alloc.Ratio of one environment and policy."""
    return _median(runs(study, environment, policy), lambda run: study.value(run, "alloc_ratio"))


def runs(study: Study, environment: str, policy: str) -> list[Run]:
    """Every workload's cell."""
    return [Run(workload, environment, policy) for workload in study.plan.workloads]


def overall(study: Study) -> str:
    """The span, over the environments, of how far stock hugepages fall short.

    Only workloads that every environment with any number has: a median over other workloads would not compare.
    """
    ratios = {
        environment: found
        for environment in study.plan.environments
        if (found := _by_workload(runs(study, environment, STOCK_POLICY), study))
    }
    if not ratios:
        return f"No environment has an Alloc.Ratio with stock hugepages ({STOCK_POLICY}) yet."
    common = set.intersection(*(set(each) for each in ratios.values()))
    if not common:
        return f"No workload has an Alloc.Ratio with stock hugepages ({STOCK_POLICY}) in every environment yet."
    short = {name: 1 - median(each[workload] for workload in common) for name, each in ratios.items()}
    return _span(short, len(common))


def _by_workload(cells: list[Run], study: Study) -> dict[str, float]:
    found = {run.workload: study.value(run, "alloc_ratio").value for run in cells}
    return {workload: value for workload, value in found.items() if value is not None}


def _span(short: dict[str, float], workloads: int) -> str:
    shown = {name: _percent(value) for name, value in short.items()}
    least, most = _percent(min(short.values())), _percent(max(short.values()))
    named = {end: ", ".join(name for name in short if shown[name] == end) for end in (least, most)}
    span = f"by {least} ({named[least]})"
    if least != most:
        span = f"by between {least} ({named[least]}) and {most} ({named[most]})"
    return (
        f"With stock hugepages ({STOCK_POLICY}) the memory a program gets in page faults falls short of being all "
        f"hugepages {span}: medians of the {workloads} workloads that have a number in all {len(short)} environments."
    )


def _median(cells: Iterable[Run], value: Callable[[Run], Number]) -> Median:
    numbers = [value(run) for run in cells]
    known = [each for each in numbers if each.value is not None]
    if not known:
        reasons = sorted({(each.reason or "no reason given") for each in numbers})
        return Median(missing("; ".join(reasons) or "no workload"), 0, len(numbers))
    middle = median(each.value for each in known if each.value is not None)
    return Median(Number(middle, known[0].unit, known[0].kind), len(known), len(numbers))


def _percent(share: float) -> str:
    return number(Number(share, "ratio", "counted"), "percent")
