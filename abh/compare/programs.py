# SPDX-License-Identifier: MIT
"""Real programs under ABH beside stock: what each is to keep to, where it does not, and which of that is explained.

The programs are the workloads of the group `compat`. Each runs under stock transparent hugepages and under ABH, or
another policy that is asked for, in the same environment; the two results are judged here. What is outside an aim and
has a reason is a line of EXPLAINED, with how far it may be; a line that a run does not need is told, so that there are
not more lines than exceptions.
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
from abh.schema.strict import Strict, did_you_mean, one_of, read_toml, validate

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
    of: str = ""  # the quantity whose share it is, where it is not its own
    step: float = 0.0  # the least that it can differ by, where nothing is allowed
    is_of_some: bool = False  # of some programs alone: neither result of the others has it

    def worse(self, stock: float, abh: float) -> float:
        """By how much it is worse than stock's; negative where it is better."""
        return stock - abh if self.at_least else abh - stock

    def change(self, stock: float, abh: float, base: float) -> float:
        """By what share of `base`, which is stock's, it is worse."""
        worse = self.worse(stock, abh)
        return worse / base if base else float(worse > 0)

    def is_kept(self, stock: float, abh: float, base: float) -> bool:
        """Whether the number under ABH is within the bound."""
        return self.worse(stock, abh) <= max(self.share * base, self.by)

    def is_chance(self, stock: Value, abh: Value, base: float) -> bool:
        """Whether draws may differ so without ABH: each median lies among the other's draws, and not far outside.

        That one draw reaches the other's range says nothing: a single stray one would do. And where draws are so far
        apart that both medians lie among the others, a number may still be twice the other: three draws cannot say
        that this is chance. So no more is excused than once more what the aim allows.
        """
        if stock.low is None or stock.high is None or abh.low is None or abh.high is None:
            return False  # of one draw each
        is_near = self.worse(stock.value, abh.value) <= 2 * max(self.share * base, self.by, self.step)
        return bool(is_near and stock.low <= abh.value <= stock.high and abh.low <= stock.value <= abh.high)


_MEMORY = {"style": "mib", "share": 0.03, "by": 2048}
AIMS = (
    # By a half point: a few small pages more or less, of a kernel's or a library's own, are no hugepage.
    Aim("alloc_ratio", "Alloc.Ratio", "percent", by=0.005, at_least=True),
    Aim("guest_huge_kib", "memory in hugepages", "mib", at_least=True, step=2048),
    Aim("memory_peak_kib", "peak memory", **_MEMORY),  # type: ignore[arg-type]
    Aim("memory_idle_1s_kib", "memory 1 s after", **_MEMORY, is_of_some=True),  # type: ignore[arg-type]
    Aim("memory_idle_10s_kib", "10 s after", **_MEMORY, is_of_some=True),  # type: ignore[arg-type]
    # It may be 0 under stock, so it is beside what there was at the peak.
    Aim("creep_kib", "creep", **_MEMORY, of="memory_peak_kib", is_of_some=True),  # type: ignore[arg-type]
    Aim("instructions", "instructions", "count", share=0.005),
    # Arbitrary, and far from vm.max_map_count: what counts is that the number does not grow with a program.
    Aim("mappings_peak", "mappings", "count", share=0.1, by=16),
)
_AIM = {aim.quantity: aim for aim in AIMS}


class Line(Strict):
    """Something outside an aim, and why."""

    program: Name
    quantity: Word  # of an aim, or OUTCOME
    # By environment: worse than stock's by this share of it.
    allows: Annotated[dict[Name, Annotated[float, Field(ge=0)]], Field(min_length=1)]
    policy: Name = ABH
    reason: Sentence


class Explained(Strict):
    """The file of what is explained."""

    line: tuple[Line, ...] = ()


def explained(root: Path = paths.CHECKOUT) -> tuple[Line, ...]:
    """The lines of the file, each of a program, environments and a quantity that there are."""
    path = root / EXPLAINED
    lines = validate(Explained, read_toml(path), path).line
    quantities = (OUTCOME, *(aim.quantity for aim in AIMS))
    policies = tuple(name for name in spec.POLICY.all(paths.CHECKOUT) if name != STOCK)
    of: set[tuple[str, ...]] = set()
    for number, each in enumerate(lines, 1):
        where = f"{path}, line {number}, of {each.program} and {each.quantity}"
        for got, known in (
            (each.program, tuple(spec.workloads(root, GROUP))),
            (each.quantity, quantities),
            (each.policy, policies),
            *((name, ENVIRONMENTS) for name in each.allows),
        ):
            if got not in known:
                raise AbhError("a line explains what there is not", where=where, got=got, expected=one_of(got, known),
                               next_step=did_you_mean(got, known, "correct or remove the line"))  # fmt: skip
        these = {(each.program, each.quantity, each.policy, name) for name in each.allows}
        if twice := these & of:
            raise AbhError("two lines explain the same", where=where, got=", ".join(sorted(twice)[0]),
                           expected="one line of a program, quantity, policy and environment",
                           next_step="keep one of them")  # fmt: skip
        of |= these
    return lines


@dataclass(frozen=True)
class Verdict:
    """One aim, or the outcome, of one program in one environment."""

    run: Run  # under ABH, or what is judged in its place
    quantity: str
    stock: float | str | None
    abh: float | str | None
    change: float  # worse by this share of stock's
    is_kept: bool
    is_chance: bool = False  # outside the aim, as draws may be without ABH
    line: Line | None = None  # that explains it
    not_judged: str = ""  # why there is nothing to compare

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
    def row(self) -> dict[str, object]:
        """All of it, for a program to read. What is None is not known, or does not apply."""
        return {
            "run": str(self.run),
            "quantity": self.quantity,
            "stock": self.stock,
            self.run.policy: self.abh,
            "worse_by": None if self.stock is None else self.change,
            "allowed": self.line.allows[self.run.environment] if self.line else None,
            "verdict": self._verdict,
            "reason": self.not_judged or (self.line.reason if self.line else None),
        }

    @property
    def _verdict(self) -> str:
        if self.not_judged:
            return "not judged"
        if self.is_missed:
            return "outside"
        return "explained" if self.line else "chance" if self.is_chance else "within"

    @property
    def words(self) -> str:
        """What is outside."""
        if self.not_judged:
            return f"{self.run}: not judged: {self.not_judged}"
        if self.quantity == OUTCOME:
            return f"{self.run}: {self.abh}, under {STOCK} {self.stock}"
        aim = _AIM[self.quantity]
        share = f"{100 * self.change:.1f}%" + (f" of {_AIM[aim.of].title}" if aim.of else "")
        far = f", more than the {100 * self.allowed:g}% explained" if self.line and self.is_missed else ""
        return f"{self.run}: {aim.title} {self.stock:,} -> {self.abh:,}, worse by {share}{far}"


def judge(
    results: Mapping[Run, Result], lines: Sequence[Line], asked: Iterable[Run] = (), policy: str = ABH
) -> list[Verdict]:
    """All verdicts, of each program and environment that was asked for or has a result under stock or this policy."""
    of = (run for run in (*results, *asked) if run.policy in (STOCK, policy))
    pairs = dict.fromkeys(dataclasses.replace(run, policy=policy) for run in of)
    return [_with_line(each, lines) for run in pairs for each in _pair(run, results)]


def _pair(run: Run, results: Mapping[Run, Result]) -> Iterable[Verdict]:
    stock, abh = results.get(dataclasses.replace(run, policy=STOCK)), results.get(run)
    if stock is None or abh is None:
        yield _not_judged(run, f"there is no result under {STOCK if stock is None else run.policy}")
    elif why := _unlike(stock, abh, run.policy):
        yield _not_judged(run, why)
    else:
        same = abh.outcome == stock.outcome
        yield Verdict(run, OUTCOME, stock.outcome, abh.outcome, float(not same), same)
        if same and abh.outcome == "success":
            yield from (_of_aim(run, aim, stock, abh) for aim in AIMS)


def _not_judged(run: Run, why: str, quantity: str = OUTCOME) -> Verdict:
    return Verdict(run, quantity, None, None, 0.0, is_kept=False, not_judged=why)


def _unlike(stock: Result, abh: Result, policy: str) -> str:
    """What the two do not share, of what decides a result: the commit and the host may differ, as in a fingerprint."""
    one, other = (
        {"size": each.size, "draws": each.draws} | each.provenance.series | each.provenance.components
        | {f"root {name}": digest for name, digest in each.provenance.roots.items()}
        for each in (stock, abh)
    )  # fmt: skip
    differ = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    told = [[str(each.get(name, "absent"))[:20] for each in (one, other)] for name in differ]  # a digest is longer
    return "; ".join(
        f"{name} is {a} under {STOCK}, {b} under {policy}" for name, (a, b) in zip(differ, told, strict=True)
    )


def _of_aim(run: Run, aim: Aim, stock: Result, abh: Result) -> Verdict:
    there, here = (each.values.get(aim.quantity, UNKNOWN) for each in (stock, abh))
    base = stock.values.get(aim.of or aim.quantity, UNKNOWN)
    if aim.is_of_some and there is here is UNKNOWN:
        return Verdict(run, aim.quantity, None, None, 0.0, is_kept=True)
    known = {STOCK: there.value, run.policy: here.value, f"{STOCK} ({aim.of})": base.value}
    if unknown := [of for of, value in known.items() if value is None]:
        return _not_judged(run, f"{aim.title} is not known under {unknown[0]}", aim.quantity)
    numbers = there.value, here.value, base.value
    is_kept = aim.is_kept(*numbers)
    is_chance = not is_kept and aim.is_chance(there, here, base.value)
    return Verdict(run, aim.quantity, there.value, here.value, aim.change(*numbers), is_kept, is_chance)


def _with_line(verdict: Verdict, lines: Sequence[Line]) -> Verdict:
    if not verdict.is_outside or verdict.not_judged:
        return verdict
    of = (line for line in lines if _is_of(line, verdict))
    return dataclasses.replace(verdict, line=next(of, None))


def _is_of(line: Line, verdict: Verdict) -> bool:
    run = verdict.run
    of = line.program, line.policy, line.quantity
    return of == (run.workload, run.policy, verdict.quantity) and run.environment in line.allows


def not_needed(verdicts: Sequence[Verdict], lines: Sequence[Line]) -> list[tuple[Line, str]]:
    """Lines, each with an environment of its own in which the program was judged, and is within the aim."""
    return [
        (line, each.run.environment)
        for line in lines
        for each in verdicts
        if _is_of(line, each) and not each.is_outside
    ]
