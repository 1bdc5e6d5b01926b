# SPDX-License-Identifier: MIT
"""What ABH changes: each number under stock THP beside the same under ABH, over the workloads that have both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from abh.report import modelled
from abh.report.figures import number
from abh.report.study import ABH_POLICY, STOCK_POLICY, Number, Study, missing, one_axis
from abh.schema.spec import Run


@dataclass(frozen=True)
class Quantity:
    """A number of a run; how it is printed, and its change from stock to ABH: a ratio, or a difference of shares."""

    key: str
    title: str
    style: str
    of_model: bool = False

    @property
    def is_share(self) -> bool:
        """Whether the change is a difference, in points."""
        return self.style == "percent"

    def change(self, stock: Number, abh: Number) -> Number:
        """How much more under ABH: in points of a share, else as a share of what stock has."""
        unit, kind = one_axis((stock, abh))
        before, after = stock.value or 0, abh.value or 0
        if self.is_share:
            return Number(after - before, unit, kind)
        return Number(after / before - 1, "ratio", kind) if before else missing("the number to divide by is 0")


QUANTITIES = (
    Quantity("alloc_ratio", "Alloc.Ratio", "percent"),
    Quantity("minor_faults", "Page faults", "count"),
    Quantity("rss_peak_kib", "Peak memory", "mib"),
    Quantity("vm_exits", "VM exits", "count"),
    Quantity("walk_cycles", "Cycles of page walks", "count", of_model=True),
)


@dataclass(frozen=True)
class Middle:
    """The median over workloads, in it the range of theirs, and each of them."""

    number: Number
    points: tuple[float, ...] = ()


@dataclass(frozen=True)
class Line:
    """One quantity in one environment; `cpu` is the processor of the model, where the model counted."""

    quantity: Quantity
    environment: str
    cpu: str
    stock: Middle
    abh: Middle
    change: Middle
    planned: int

    @property
    def known(self) -> int:
        """How many workloads the medians rest on."""
        return len(self.abh.points)


def lines(study: Study) -> list[Line]:
    """Every quantity in every environment where ABH or stock was run; the model's, for each processor."""
    found = [line for quantity in QUANTITIES if not quantity.of_model for line in _lines(study, quantity, "")]
    for cpu, one in modelled.studies(study).items():
        found += [line for quantity in QUANTITIES if quantity.of_model for line in _lines(one, quantity, cpu)]
    return found


def _lines(study: Study, quantity: Quantity, cpu: str) -> Iterator[Line]:
    if {STOCK_POLICY, ABH_POLICY} <= {run.policy for run in study.results}:
        for environment in study.plan.environments:
            yield _line(study, quantity, environment, cpu)


def _line(study: Study, quantity: Quantity, environment: str, cpu: str) -> Line:
    pairs, reasons = [], Counter[str]()
    for workload in study.plan.workloads:
        runs = [Run(workload, environment, policy) for policy in (STOCK_POLICY, ABH_POLICY)]
        sizes = {study.results[run].size for run in runs if run in study.results}
        both = [study.value(run, quantity.key) for run in runs]
        if unknown := [each.reason or "no reason given" for each in both if each.value is None]:
            reasons[unknown[0]] += 1
        elif len(sizes) > 1:
            reasons["the runs' sizes differ"] += 1
        else:
            pairs.append(both)
    why = "; ".join(reason for reason, _ in reasons.most_common(1)) or "no workload"
    changes = [quantity.change(*pair) for pair in pairs]
    stock, abh = (_middle((pair[side] for pair in pairs), why) for side in (0, 1))
    change = _middle(changes, next((each.reason for each in changes if each.reason), None) or why)
    return Line(quantity, environment, cpu, stock, abh, change, len(study.plan.workloads))


def _middle(numbers: Iterable[Number], why: str) -> Middle:
    known = [each for each in numbers if each.value is not None]
    if not known:
        return Middle(missing(why))
    unit, kind = one_axis(known)
    points = tuple(each.value for each in known if each.value is not None)
    return Middle(Number(median(points), unit, kind, low=min(points), high=max(points)), points)


def words(study: Study) -> list[str]:
    """The answer in sentences, each computed from the results; none where there is nothing to compare."""
    found = [line for line in lines(study) if line.abh.number.value is not None]
    counted = [line for line in found if not line.cpu]
    without = [each for each in study.plan.environments if _has_no_hugepage(study, counted, each)]
    told = [line for line in counted if line.environment not in without]
    if not told:
        return []
    by = {quantity.key: [line for line in told if line.quantity == quantity] for quantity in QUANTITIES}
    parts = [(_ratios(by["alloc_ratio"]), _basis(by["alloc_ratio"], changes=False))] if by["alloc_ratio"] else []
    for key, name, named in (("minor_faults", "page faults", False), ("rss_peak_kib", "peak memory", False),
                             ("vm_exits", "VM exits", True)):  # fmt: skip
        if changed := [line for line in by[key] if line.change.number.value is not None]:
            parts.append((_changes(changed, name, named=named), _basis(changed, changes=True)))
    sentences = [_joined(parts)]
    if without:
        sentences.append(f"No hugepage under either policy in {', '.join(without)}.")
    for cpu in dict.fromkeys(line.cpu for line in found if line.cpu):
        of_cpu = [line for line in found if line.cpu == cpu and line.change.number.value is not None]
        if of_cpu:
            walks = _changes(of_cpu, "cycles of page walks", named=True)
            sentences.append(f"As the model of {cpu} counts them, {walks}.")
    return sentences


def _basis(found: list[Line], *, changes: bool) -> str:
    """What the medians of these lines rest on: of how many of the workloads, and where."""
    known = [len(line.change.points) if changes else line.known for line in found]
    planned = max(line.planned for line in found)
    count = f"{min(known)}" if min(known) == max(known) else f"{min(known)} to {max(known)}"
    of_all = count if known == [planned] * len(known) else f"{count} of {planned}"
    environments = list(dict.fromkeys(line.environment for line in found))
    where = environments[0] if len(environments) == 1 else f"each of {len(environments)} environments"
    return f"medians over {of_all} workload{'s' if planned > 1 else ''} in {where}"


def _joined(parts: list[tuple[str, str]]) -> str:
    """One sentence: what several parts rest on is said once, after the last of them."""
    said = []
    for place, (text, basis) in enumerate(parts):
        is_last = place == len(parts) - 1 or parts[place + 1][1] != basis
        said.append(f"{text} ({basis})" if is_last else text)
    return f"{'; '.join(said)}."


def _has_no_hugepage(study: Study, found: list[Line], environment: str) -> bool:
    """Whether no run of either policy there got any, one that has no partner included."""
    if not any(line.environment == environment and line.quantity.key == "alloc_ratio" for line in found):
        return False
    runs = [run for run in study.results if run.environment == environment and run.policy in (STOCK_POLICY, ABH_POLICY)]
    ratios = [study.value(run, "alloc_ratio").value for run in runs]
    return all(ratio == 0 for ratio in ratios if ratio is not None)


def _ratios(found: list[Line]) -> str:
    after, before = (
        _span(found, which, "percent") for which in (lambda line: line.abh.number, lambda line: line.stock.number)
    )
    what = "of the memory that programs get in page faults is hugepages"
    return f"With {ABH_POLICY} {after} {what}, with {STOCK_POLICY} {before}"


def _changes(found: list[Line], name: str, *, named: bool) -> str:
    """The medians' changes, with the verb that fits all of them."""
    known = [line.change.number.value for line in found if line.change.number.value is not None]
    one = name == "peak memory"
    if all(value < 0 for value in known):
        span = _span(found, lambda line: line.change.number.map(lambda value: -value), "percent", named=named)
        return f"{name} fall{'s' * one} by {span}"
    if all(value > 0 for value in known):
        return f"{name} grow{'s' * one} by {_span(found, lambda line: line.change.number, 'percent', named=named)}"
    return f"{name} change{'s' * one} by {_span(found, lambda line: line.change.number, 'signed', named=named)}"


def _span(found: list[Line], which: Callable[[Line], Number], style: str, *, named: bool = False) -> str:
    """From the least to the most of some medians, and where these are."""
    known = sorted(
        ((number(which(line), style), which(line).value or 0, line.environment) for line in found
         if which(line).value is not None), key=lambda each: each[1],
    )  # fmt: skip
    if not known:
        return "n/a"
    (least, _, low), (most, _, high) = known[0], known[-1]
    if least == most:
        return least
    return f"{least} ({low}) to {most} ({high})" if named else f"{least} to {most}"
