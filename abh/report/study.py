# SPDX-License-Identifier: MIT
"""The matrix that was asked for, the results that exist, and arithmetic that never mixes kinds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from abh import paths
from abh.errors import AbhError
from abh.report.load import load
from abh.schema import spec
from abh.schema.result import Result
from abh.schema.spec import Run

BASE_POLICY = "reg"  # 4 KiB pages only: what the others are compared with
STOCK_POLICY = "thp"  # transparent hugepages as the stock kernel has them
ABH_POLICY = "abh"  # what the report is about, beside stock
HOST_HUGE, HOST_MAPPED, GUEST_HUGE = "host_huge_kib", "host_mapped_kib", "guest_huge_kib"

AXES = {"workloads": "workload", "environments": "environment", "policies": "policy"}  # of a plan; of a run


@dataclass(frozen=True)
class Number:
    """A number with its unit and kind, or None and the reason why; a median over several draws has their range."""

    value: float | int | None
    unit: str
    kind: str
    reason: str | None = None
    low: float | int | None = None
    high: float | int | None = None

    @property
    def range(self) -> tuple[float, float] | None:
        """The least and the most of several draws; None where there is one draw, or no number."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def map(self, function: Callable[[float], float]) -> Number:
        """The number and its range through a function that only rises, or only falls."""
        if self.value is None:
            return self
        low, high = sorted(map(function, self.range)) if self.range else (None, None)
        return dataclasses.replace(self, value=function(self.value), low=low, high=high)


def missing(reason: str) -> Number:
    """A number nobody produced; it has no unit and no kind, so it fits every axis."""
    return Number(None, "", "", reason)


@dataclass(frozen=True)
class Plan:
    """The rows and columns of a matrix: of all that the checkout can run, or of what was run."""

    workloads: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    counterparts: Mapping[str, str] = field(default_factory=dict)  # workload -> row of the paper's Table 1
    purposes: Mapping[str, str] = field(default_factory=dict)  # "policy thp" -> one sentence
    paging: Mapping[str, str] = field(default_factory=dict)  # environment -> what its guests' memory is mapped by

    def runs(self) -> Iterator[Run]:
        """Every cell, in the order of the tables."""
        for workload in self.workloads:
            for environment in self.environments:
                for policy in self.policies:
                    yield Run(workload, environment, policy)


@dataclass(frozen=True)
class Study:
    """What was run, its results, the folder they are of, and all that is known to run; marks are of its policies."""

    plan: Plan
    results: Mapping[Run, Result]
    folder: Path | None
    known: Plan

    def value(self, run: Run, key: str) -> Number:
        """The number, or why there is none. Only a successful run's numbers count."""
        result = self.results.get(run)
        if result is None:
            return missing("not run")
        if result.outcome != "success":
            return missing(f"{result.outcome}: {result.reason}")
        if key not in result.values:
            return missing(f"the result has no value `{key}`")
        found = result.values[key]
        return Number(found.value, found.unit, found.kind, found.reason, found.low, found.high)

    def relative(self, run: Run, key: str, base: str = BASE_POLICY) -> Number:
        """The value over that of the base policy with the same workload, environment and size."""
        other = dataclasses.replace(run, policy=base)
        here, there = self.results.get(run), self.results.get(other)
        if here and there and here.size != there.size:
            return missing(f"this run's size is {here.size}, that of {other} is {there.size}")
        return divide(self.value(run, key), self.value(other, key), f"{other}: ")

    def change(self, run: Run, key: str, base: str = BASE_POLICY) -> Number:
        """How much more than under the base policy, as a share of that; negative where it is less."""
        return self.relative(run, key, base).map(lambda ratio: ratio - 1)

    def saved(self, run: Run, key: str, base: str = BASE_POLICY) -> Number:
        """How much less than under the base policy, as a share of that; negative where it is more."""
        return self.relative(run, key, base).map(lambda ratio: 1 - ratio)

    def host_coverage(self, run: Run) -> Number:
        """The share of what the host or hypervisor has mapped for the guest that it maps by hugepages."""
        huge = self.value(run, HOST_HUGE)
        if huge.value is not None and HOST_MAPPED not in self.results[run].values:
            return missing(
                f"the result has no value `{HOST_MAPPED}`: it is older, or its guest has tables of its own alone"
            )
        return divide(huge, self.value(run, HOST_MAPPED))

    def not_run(self) -> list[Run]:
        """Cells without a result."""
        return [run for run in self.plan.runs() if run not in self.results]

    def failed(self) -> list[Result]:
        """Results that are no success."""
        return [self.results[run] for run in self.plan.runs() if run in self.results and not self._succeeded(run)]

    def _succeeded(self, run: Run) -> bool:
        return self.results[run].outcome == "success"


def divide(top: Number, bottom: Number, whose: str = "") -> Number:
    """A ratio of like and like; `whose` opens the reason when the bottom is what is missing.

    Of two medians over draws, its range is the widest that theirs allow; neither may be negative.
    """
    one_axis((top, bottom))
    if top.value is None:
        return missing(top.reason or "no reason given")
    if bottom.value is None:
        return missing(f"{whose}{bottom.reason}")
    if bottom.value == 0:
        return missing(f"{whose}the number to divide by is 0")
    ratio = Number(top.value / bottom.value, "ratio", top.kind)
    if not top.range and not bottom.range:
        return ratio
    (least, most), (under, over) = top.range or (top.value,) * 2, bottom.range or (bottom.value,) * 2
    return dataclasses.replace(ratio, low=least / over, high=most / under) if under > 0 else ratio


def one_axis(numbers: Iterable[Number]) -> tuple[str, str]:
    """The unit and kind that all numbers share ("" if there are none); two of either are an error."""
    known = sorted({(number.unit, number.kind) for number in numbers if number.kind})
    if len(known) > 1:
        raise AbhError(
            "numbers of different kinds or units would share one axis",
            got=" and ".join(f"{kind} in {unit}" for unit, kind in known),
            expected="one kind and one unit",
            next_step="draw them in separate figures, or mend the result that carries the wrong kind",
        )
    return known[0] if known else ("", "")


def within(study: Study, name: str) -> Study | None:
    """The results in a folder within the study's; None if there are none."""
    folder = study.folder / name if study.folder else None
    return make_study(study.known, load(folder), folder) if folder and any(folder.glob("[!.]*.json")) else None


def read_plan(checkout: Path = paths.CHECKOUT) -> Plan:
    """The plan as the checkout's TOML files give it."""
    workloads, environments = spec.workloads(checkout), spec.environments(checkout, on_demand=True)
    policies = spec.policies(checkout)
    rooms = (("workload", workloads), ("environment", environments), ("policy", policies))
    return Plan(
        tuple(workloads),
        tuple(name for name, each in environments.items() if not each.on_demand),
        tuple(policies),
        {name: each.counterpart for name, each in workloads.items() if each.counterpart},
        {f"{room} {name}": each.purpose for room, files in rooms for name, each in files.items()},
        {name: each.paging for name, each in environments.items()},
    )


def make_study(known: Plan, results: Mapping[Run, Result], folder: Path | None = None) -> Study:
    """The study of what was run: of all that is known to run and, after it, what only the results know."""
    ran = {axis: {getattr(run, room) for run in results} for axis, room in AXES.items()}
    whole = {axis: (*getattr(known, axis), *sorted(names - set(getattr(known, axis)))) for axis, names in ran.items()}
    part = {axis: tuple(name for name in names if name in ran[axis]) for axis, names in whole.items()}
    return Study(_with(known, part), results, folder, _with(known, whole))


def _with(plan: Plan, axes: Mapping[str, tuple[str, ...]]) -> Plan:
    return dataclasses.replace(
        plan, workloads=axes["workloads"], environments=axes["environments"], policies=axes["policies"]
    )


def read_study(results: Path = paths.MEASURED, checkout: Path = paths.CHECKOUT) -> Study:
    """The study of a folder of results."""
    return make_study(read_plan(checkout), load(results), results)
