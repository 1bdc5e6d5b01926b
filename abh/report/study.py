# SPDX-License-Identifier: MIT
"""The matrix that was asked for, the results that exist, and arithmetic that never mixes kinds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from abh import paths
from abh.bench import spec
from abh.bench.result import Result
from abh.bench.spec import Run
from abh.errors import AbhError
from abh.report.load import load

BASE_POLICY = "reg"  # 4 KiB pages only: what the others are compared with
STOCK_POLICY = "thp"  # transparent hugepages as the stock kernel has them


@dataclass(frozen=True)
class Number:
    """A number with its unit and kind, or None and the reason why."""

    value: float | int | None
    unit: str
    kind: str
    reason: str | None = None


def missing(reason: str) -> Number:
    """A number nobody produced; it has no unit and no kind, so it fits every axis."""
    return Number(None, "", "", reason)


@dataclass(frozen=True)
class Plan:
    """What the checkout can run: the rows and columns of the matrix."""

    workloads: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    counterparts: Mapping[str, str] = field(default_factory=dict)  # workload -> row of the paper's Table 1
    purposes: Mapping[str, str] = field(default_factory=dict)  # "policy thp" -> one sentence
    ram_mib: Mapping[tuple[str, str], int] = field(default_factory=dict)  # (environment, size) -> the guest's RAM

    def runs(self) -> Iterator[Run]:
        """Every cell, in the order of the tables."""
        for workload in self.workloads:
            for environment in self.environments:
                for policy in self.policies:
                    yield Run(workload, environment, policy)


@dataclass(frozen=True)
class Study:
    """The plan, widened by what was run, the results, and the folder they are of."""

    plan: Plan
    results: Mapping[Run, Result]
    folder: Path | None = None

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
        return Number(found.value, found.unit, found.kind, found.reason)

    def relative(self, run: Run, key: str, base: str = BASE_POLICY) -> Number:
        """The value over that of the base policy with the same workload, environment and size."""
        other = dataclasses.replace(run, policy=base)
        here, there = self.results.get(run), self.results.get(other)
        if here and there and here.size != there.size:
            return missing(f"this run's size is {here.size}, that of {other} is {there.size}")
        return divide(self.value(run, key), self.value(other, key), f"{other}: ")

    def change(self, run: Run, key: str, base: str = BASE_POLICY) -> Number:
        """How much more than under the base policy, as a share of that; negative where it is less."""
        ratio = self.relative(run, key, base)
        return ratio if ratio.value is None else Number(ratio.value - 1, ratio.unit, ratio.kind)

    def saved(self, run: Run, key: str, base: str = BASE_POLICY) -> Number:
        """How much less than under the base policy, as a share of that; negative where it is more."""
        ratio = self.relative(run, key, base)
        return ratio if ratio.value is None else Number(1 - ratio.value, ratio.unit, ratio.kind)

    def host_coverage(self, run: Run) -> Number:
        """The share of the guest's RAM behind which the host or hypervisor has hugepages."""
        huge = self.value(run, "host_huge_kib")
        if huge.value is None:
            return missing(huge.reason or "no reason given")
        size = self.results[run].size
        ram_mib = self.plan.ram_mib.get((run.environment, size))
        if ram_mib is None:
            return missing(f"vm-configs/{run.environment}.toml does not give the guest's memory at size {size}")
        return divide(huge, Number(ram_mib * 1024, "KiB", huge.kind))

    def not_run(self) -> list[Run]:
        """Cells without a result."""
        return [run for run in self.plan.runs() if run not in self.results]

    def failed(self) -> list[Result]:
        """Results that are no success."""
        return [self.results[run] for run in self.plan.runs() if run in self.results and not self._succeeded(run)]

    def _succeeded(self, run: Run) -> bool:
        return self.results[run].outcome == "success"


def divide(top: Number, bottom: Number, whose: str = "") -> Number:
    """A ratio of like and like; `whose` opens the reason when the bottom is what is missing."""
    one_axis((top, bottom))
    if top.value is None:
        return missing(top.reason or "no reason given")
    if bottom.value is None:
        return missing(f"{whose}{bottom.reason}")
    if bottom.value == 0:
        return missing(f"{whose}the number to divide by is 0")
    return Number(top.value / bottom.value, "ratio", top.kind)


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
    """The results in a folder within the study's, over the same plan; None if there are none."""
    folder = study.folder / name if study.folder else None
    return make_study(study.plan, load(folder), folder) if folder and any(folder.glob("[!.]*.json")) else None


def read_plan(checkout: Path = paths.CHECKOUT) -> Plan:
    """The plan as the checkout's TOML files give it."""
    workloads, environments = spec.workloads(checkout), spec.environments(checkout)
    policies = spec.policies(checkout)
    rooms = (("workload", workloads), ("environment", environments), ("policy", policies))
    return Plan(
        tuple(workloads),
        tuple(environments),
        tuple(policies),
        {name: each.counterpart for name, each in workloads.items() if each.counterpart},
        {f"{room} {name}": each.purpose for room, files in rooms for name, each in files.items()},
        {(name, size): mib for name, each in environments.items() for size, mib in each.memory_mib.items()},
    )


def make_study(plan: Plan, results: Mapping[Run, Result], folder: Path | None = None) -> Study:
    """The study over what is planned and, after it, what only the results know."""
    whole = dataclasses.replace(
        plan,
        workloads=_widen(plan.workloads, (run.workload for run in results)),
        environments=_widen(plan.environments, (run.environment for run in results)),
        policies=_widen(plan.policies, (run.policy for run in results)),
    )
    return Study(whole, results, folder)


def read_study(results: Path = paths.MEASURED, checkout: Path = paths.CHECKOUT) -> Study:
    """The study of a folder of results."""
    return make_study(read_plan(checkout), load(results), results)


def _widen(known: tuple[str, ...], found: Iterable[str]) -> tuple[str, ...]:
    return (*known, *sorted(set(found) - set(known)))
