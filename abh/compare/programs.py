# SPDX-License-Identifier: MIT
"""Real programs under ABH beside stock: what each is to keep to, where it does not, and which of that is explained.

The programs are the workloads of the group `compat`. Each runs under stock transparent hugepages and under ABH, in the
same environment; the two results are judged here. What is outside an aim and has a reason is a line of EXPLAINED, with
how far it may be; a line that nothing needs any more is an error, so that there are never more lines than exceptions.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from abh import paths
from abh.errors import AbhError
from abh.schema import spec
from abh.schema.keys import Name, Sentence, Word
from abh.schema.result import Result, Value
from abh.schema.spec import Run
from abh.schema.strict import Strict, read_toml, validate

GROUP = "compat"
SIZE = "paper"
STOCK, ABH = "thp", "abh"
ENVIRONMENTS = ("native", "kvm-hap")
EXPLAINED = Path("workloads") / GROUP / "explained.toml"
OUTCOME = "outcome"
UNKNOWN = Value.unknown("n/a", "counted", "the result has none")


@dataclass(frozen=True)
class Aim:
    """A number that under ABH is to be no more than under stock THP, or no less, but for a share or for so much."""

    quantity: str  # a value of a result
    title: str
    style: str  # as it is printed (report.figures.printed)
    share: float = 0.0  # of stock's
    by: float = 0.0  # in the value's unit; the larger of both holds
    at_least: bool = False

    def change(self, stock: float, abh: float) -> float:
        """By what share of stock's it is worse; negative where it is better."""
        worse = stock - abh if self.at_least else abh - stock
        return worse / stock if stock else float(worse > 0)

    def is_kept(self, stock: float, abh: float) -> bool:
        """Whether the number under ABH is within the bound."""
        worse = stock - abh if self.at_least else abh - stock
        return worse <= max(self.share * stock, self.by)

    def is_chance(self, stock: Value, abh: Value) -> bool:
        """Whether a draw under ABH was no worse than one of stock's: chance alone makes such a difference."""
        if stock.low is None or stock.high is None or abh.low is None or abh.high is None:
            return False  # of one draw each
        return bool(stock.low <= abh.high if self.at_least else abh.low <= stock.high)


_MEMORY = {"style": "mib", "share": 0.03, "by": 2048}
AIMS = (
    # By a half point: a few small pages more or less, of a kernel's or a library's own, are no hugepage.
    Aim("alloc_ratio", "Alloc.Ratio", "percent", by=0.005, at_least=True),
    Aim("guest_huge_kib", "memory in hugepages", "mib", at_least=True),
    Aim("memory_peak_kib", "peak memory", **_MEMORY),  # type: ignore[arg-type]
    Aim("memory_idle_1s_kib", "memory 1 s after", **_MEMORY),  # type: ignore[arg-type]
    Aim("memory_idle_10s_kib", "10 s after", **_MEMORY),  # type: ignore[arg-type]
    Aim("instructions", "instructions", "count", share=0.005),
    # Arbitrary, and far from vm.max_map_count: what counts is that the number does not grow with a program.
    Aim("mappings_peak", "mappings", "count", share=0.1, by=16),
)


class Line(Strict):
    """Something outside an aim, and why."""

    program: Name
    quantity: Word  # of an aim, or OUTCOME
    # By environment: worse than stock's by this share of it.
    allows: Annotated[dict[Name, Annotated[float, Field(ge=0)]], Field(min_length=1)]
    reason: Sentence


class Explained(Strict):
    """The file of what is explained."""

    line: tuple[Line, ...] = ()


def explained(root: Path = paths.CHECKOUT) -> tuple[Line, ...]:
    """The lines of the file, each of a program, environments and a quantity that there are."""
    path = root / EXPLAINED
    lines = validate(Explained, read_toml(path), path).line
    quantities = (OUTCOME, *(aim.quantity for aim in AIMS))
    for each in lines:
        for got, known in (
            (each.program, tuple(spec.workloads(root, GROUP))),
            (each.quantity, quantities),
            *((name, ENVIRONMENTS) for name in each.allows),
        ):
            if got not in known:
                raise AbhError("a line explains what there is not", where=path, got=got, expected=", ".join(known),
                               next_step="correct or remove the line")  # fmt: skip
    return lines


@dataclass(frozen=True)
class Verdict:
    """One aim, or the outcome, of one program in one environment."""

    run: Run  # under ABH
    quantity: str
    stock: float | str | None
    abh: float | str | None
    change: float  # worse by this share of stock's
    is_kept: bool
    is_chance: bool = False  # outside the aim, and draws of the one lie among draws of the other
    line: Line | None = None  # that explains it

    @property
    def is_outside(self) -> bool:
        """Outside the aim, and not by chance alone."""
        return not self.is_kept and not self.is_chance

    @property
    def is_missed(self) -> bool:
        """Outside, and not explained, or farther outside than that."""
        return self.is_outside and self.change > self.allowed

    @property
    def allowed(self) -> float:
        """How far outside is explained; nothing is where there is no line."""
        return self.line.allows[self.run.environment] if self.line else -math.inf

    @property
    def words(self) -> str:
        """What is outside."""
        if self.quantity == OUTCOME:
            return f"{self.run}: {self.abh}, under {STOCK} {self.stock}"
        name = next(aim.title for aim in AIMS if aim.quantity == self.quantity)
        far = f", more than the {100 * self.allowed:g}% explained" if self.line and self.is_missed else ""
        return f"{self.run}: {name} {self.stock:,} -> {self.abh:,}, worse by {100 * self.change:.1f}%{far}"


def judge(results: Mapping[Run, Result], lines: Sequence[Line]) -> list[Verdict]:
    """All verdicts, of each program and environment that has results under both policies."""
    found = []
    for run, abh in results.items():
        stock = results.get(dataclasses.replace(run, policy=STOCK))
        if run.policy == ABH and stock and (stock.size, stock.draws) == (abh.size, abh.draws):
            found += [_with_line(each, lines) for each in _pair(run, stock, abh)]
    return found


def _pair(run: Run, stock: Result, abh: Result) -> Iterable[Verdict]:
    same = abh.outcome == stock.outcome
    yield Verdict(run, OUTCOME, stock.outcome, abh.outcome, float(not same), same)
    for aim in AIMS if same and abh.outcome == "success" else ():
        there, here = (each.values.get(aim.quantity, UNKNOWN) for each in (stock, abh))
        change, is_kept, is_chance = 0.0, True, False
        if there.value is not None and here.value is not None:
            change, is_kept = aim.change(there.value, here.value), aim.is_kept(there.value, here.value)
            is_chance = not is_kept and aim.is_chance(there, here)
        yield Verdict(run, aim.quantity, there.value, here.value, change, is_kept, is_chance)


def _with_line(verdict: Verdict, lines: Sequence[Line]) -> Verdict:
    if not verdict.is_outside:
        return verdict
    of = (line for line in lines if _is_of(line, verdict))
    return dataclasses.replace(verdict, line=next(of, None))


def _is_of(line: Line, verdict: Verdict) -> bool:
    run = verdict.run
    return (line.program, line.quantity) == (run.workload, verdict.quantity) and run.environment in line.allows


def not_needed(verdicts: Sequence[Verdict], lines: Sequence[Line]) -> list[tuple[Line, str]]:
    """Lines, each with an environment of its own in which the program was judged, and is within the aim."""
    return [
        (line, each.run.environment)
        for line in lines
        for each in verdicts
        if _is_of(line, each) and not each.is_outside
    ]


def check_needed(verdicts: Sequence[Verdict], lines: Sequence[Line]) -> None:
    """An error where a line explains nothing any more."""
    if idle := not_needed(verdicts, lines):
        raise AbhError(
            "what is explained is within the aim",
            where=paths.CHECKOUT / EXPLAINED,
            got="; ".join(f"{line.program}, {line.quantity}, in {environment}" for line, environment in idle),
            next_step="remove the lines, or the environments that do not need them",
        )
