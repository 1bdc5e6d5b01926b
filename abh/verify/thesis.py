# SPDX-License-Identifier: MIT
"""The programs of Wienand's thesis (tests/itanium/thesis) on the Itanium machine, in each mode of its walker.

A run is its boot and so many rounds. Two runs that differ in their rounds alone count, in what is between them, what
those rounds do.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

from abh.errors import AbhError
from abh.schema.thesis import Counter, Mode, Otherwise, Program, programs
from abh.study.itanium import PAGE_KIB
from abh.verify import itanium

MODES: tuple[Mode, ...] = get_args(Mode)
COUNTERS: tuple[Counter, ...] = get_args(Counter)
FAULTED = re.compile(r"^(\d+K) faulted (\d+) failed", re.MULTILINE)
MISSES = ("VhptData", "DataTlb", "AlternateData")  # vectors of data that the TLB does not have


@dataclass(frozen=True)
class Row:
    """What a round of a program counts in a mode."""

    program: str
    mode: Mode
    counted: Mapping[Counter, float]
    faulted: Mapping[str, float]  # superpages by their size; none where they are off


def counters(counted: Mapping[str, Any]) -> dict[Counter, int]:
    """What is of interest here, of all that a machine has counted."""
    data, faults = counted["counters"]["data"], counted["counters"]["faults"]
    return {
        "instructions": counted["instructions"],
        "uncollected": counted["uncollected"],
        "misses": data["second_misses"],
        "walked": data["walker_insertions"],
        "ended": sum(counted["counters"]["aborts"].values()),
        "faults": sum(faults.get(name, 0) for name in MISSES),
        "nested": faults.get("DataNested", 0),
    }


def superpages(console: str) -> dict[str, int]:
    """How many superpages of each size there were, as the console repeats /proc/superpages."""
    return {size: int(count) for size, count in FAULTED.findall(console)}


def of_pages(program: Program, kib: int) -> Program:
    """The program as it is under a kernel with base pages of so many KiB."""
    if kib == PAGE_KIB:
        return program
    other = {str(pages): each for pages, each in program.pages.items()}.get(f"{kib}k", Otherwise())
    usual = itanium.largest(kib) if program.superpages == itanium.LARGEST else program.superpages
    here = {
        "superpages": usual if other.superpages is None else other.superpages,
        "words": program.words if other.words is None else other.words,
    }
    return program.model_copy(update={**here, "faulted": other.faulted, "bounds": other.bounds})


def _words(program: Program, mode: Mode, rounds: int) -> str:
    more = f"{program.words} {program.name} {rounds}".strip()
    return itanium.words(mode, more=more, superpages=program.superpages)


def _check(ended: itanium.Ended, program: Program, mode: Mode, rounds: int, pages: int) -> None:
    if problem := itanium.fault(ended) or itanium.unlike(mode, ended.counted["counters"]):
        raise AbhError(
            "a program of the thesis did not end well",
            where=f"{program.path}, mode {mode}, {rounds} rounds",
            got=problem.strip().splitlines()[-1],
            expected=itanium.WELL,
            next_step="look at its console: "
            f"bin/abh itanium --pages {pages} --append='{_words(program, mode, rounds)}'",
            tail=problem,
        )


def row(program: Program, mode: Mode, few: itanium.Ended, many: itanium.Ended) -> Row:
    """A round, by two runs."""
    rounds = program.rounds[1] - program.rounds[0]
    before, after = counters(few.counted), counters(many.counted)
    of_round = {name: (after[name] - before[name]) / rounds for name in COUNTERS}
    least, most = superpages(few.console), superpages(many.console)
    return Row(program.name, mode, of_round, {size: (most[size] - least[size]) / rounds for size in most})


def study(
    pairs: Iterable[tuple[Program, Mode]], pages: int = PAGE_KIB, tell: Callable[[str], None] = lambda _: None
) -> list[Row]:
    """A row for each program and mode, in this order, under a kernel with these base pages, which the programs are of;
    as many machines run as there are processors. Each row that is there is told, and how many are to come."""
    wanted = list(pairs)
    runs = ([f"--append={_words(*each, rounds)}"] for each in wanted for rounds in each[0].rounds)
    rows = []
    # Closed where one did not end well, so that the others do not begin.
    with contextlib.closing(itanium.in_turn(runs, pages)) as ended:
        for program, mode in wanted:
            two = []
            for rounds in program.rounds:
                two.append(next(ended))
                _check(two[-1], program, mode, rounds, pages)
            rows.append(row(program, mode, *two))
            tell(f"{program.name}, {mode}: {len(rows)} of {len(wanted)}")
    return rows


def outside(program: Program, one: Row) -> str:
    """Which of its bounds a row does not keep; empty if it keeps all."""
    bounds = program.bounds.get(one.mode, {})
    expected: dict[str, tuple[float, int, int]] = {
        name: (one.counted[name], low, high) for name, (low, high) in bounds.items()
    }
    if one.mode.endswith("-lp"):
        expected |= {f"pages of {size}": (one.faulted.get(size, 0), n, n) for size, n in program.faulted.items()}
    return "".join(
        f"{one.program}, {one.mode}: {name} of a round {got:,.1f}, {low:,} to {high:,} expected ({program.path.name})\n"
        for name, (got, low, high) in expected.items()
        if not low <= max(got, 0) <= high  # boots are not alike to the last miss: a round of none may come to less
    )


def checks(*, slice_alone: bool = False, pages: int = PAGE_KIB) -> tuple[bool, str]:
    """Whether the quick programs, or those of the slice, count what they must in the modes that have bounds, under a
    kernel with these base pages; and what is to say."""
    chosen = (one for one in programs().values() if (one.slice if slice_alone else one.quick))
    quick = {one.name: of_pages(one, pages) for one in chosen}
    rows = study(((program, mode) for program in quick.values() for mode in MODES if mode in program.bounds), pages)
    wrong = "".join(outside(quick[one.program], one) for one in rows)
    return bool(rows) and not wrong, (
        wrong or f"pages of {pages} KiB: {len(rows)} counts of the thesis' programs within their bounds\n"
    )


def other_pages(calls: int) -> tuple[bool, str]:
    """Whether kernels with other base pages boot, count what they must, and do what a plain model says of so many
    random calls of memory, where handlers differ most: with superpages, and with no walker. What is to say."""
    said = ""
    for pages in itanium.sizes():
        if pages == PAGE_KIB:
            continue
        for show in (
            partial(itanium.boots_alike, ("none", "none-lp", "sf-lp", "lf-lp"), pages),
            partial(checks, pages=pages),
            partial(itanium.fuzz, calls, ("sf-lp", "lf-lp"), pages),
        ):
            well, text = show()
            said += text
            if not well:
                return False, said
    return True, said


def table(rows: Iterable[Row]) -> str:
    """The rows for people, a program after the other."""
    head = f"{'a round of':14} {'mode':8}" + "".join(f"{name:>14}" for name in COUNTERS)
    text = [head]
    for one in rows:
        text.append(f"{one.program:14} {one.mode:8}" + "".join(f"{round(one.counted[name]):14,}" for name in COUNTERS))
        of_size = ", ".join(f"{count:g} of {size}" for size, count in one.faulted.items() if count)
        text += [f"{'':24}superpages: {of_size}"] if of_size else []
    return "\n".join(text) + "\n"
