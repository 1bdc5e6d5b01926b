# SPDX-License-Identifier: MIT
"""Navarro's experiments (tests/kernel/navarro), counted, in one machine: without reservations and with them by turns.

QEMU's -icount lets a machine's clock tell how many instructions it has executed. What a policy is, its file says.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abh.errors import AbhError
from abh.schema import spec
from abh.schema.experiment import SURE, Experiment
from abh.verify import testbed
from abh.verify.cost import ICOUNT

MEMORY_MIB = 256  # what fills it is soon read
COUNT = re.compile(r"count (\w+) (-?\d+|n/a) (.+)")
VM = "/proc/sys/vm"
# What no policy of the study names; one that does has the last word. Each begins with as much free memory as it may.
FRESH = (
    f"set {testbed.RESERVATION}/enabled 0",
    f"set {testbed.RESERVATION}/whole 0",
    f"set {VM}/compaction_proactiveness 20",
    f"set {VM}/drop_caches 3",
    f"set {VM}/compact_memory 1",
)


@dataclass(frozen=True)
class Count:
    """A number that was counted, or why it is not known."""

    number: int | None
    unit: str
    reason: str | None = None


Counts = Mapping[str, Count]
Told = Mapping[str, Sequence[Counts]]  # by policy, those of each turn


def plan(experiments: Sequence[Experiment]) -> list[tuple[Experiment, str]]:
    """What is run, in order: each under all of its policies before its next turn."""
    most = max(each.turns for each in experiments)
    return [
        (each, policy) for turn in range(most) for each in experiments if turn < each.turns for policy in each.policies
    ]


def job(plan: Sequence[tuple[Experiment, str]]) -> Iterator[str]:
    """The lines of the machine's job."""
    for experiment, policy in plan:
        yield from FRESH
        yield from (f"set {path} {value}" for path, value in spec.policy(policy).guest.sysfs.items())
        yield f"run /navarro {experiment.name}"


def parse(lines: Sequence[str], experiment: Experiment, policy: str) -> Counts:
    """What one run has counted; an error if anything is missing that its file says is shown or bounded."""
    found = {}
    for match in filter(None, map(COUNT.fullmatch, lines)):
        name, number, text = match.groups()
        known = number != "n/a"
        found[name] = Count(int(number), text) if known else Count(None, "", text)
    wanted = {*experiment.shows, *experiment.bounds.get(policy, {})}
    if lost := sorted(wanted - found.keys()):
        raise AbhError(
            "an experiment did not tell what it counts",
            where=f"{experiment.path}, policy {policy}",
            got="no " + ", ".join(lost),
            expected="one of " + ", ".join(found) if found else "some",
            next_step="correct the names in the file, or the program beside it",
            tail="\n".join(lines),
        )
    return found


def run(
    linux: Path, experiments: Sequence[Experiment], disk: Path | None, limit_s: float, tell: Callable[[str], None]
) -> dict[str, dict[str, list[Counts]]]:
    """Runs them all in one machine: by experiment and policy, the counts of each turn."""
    planned = plan(experiments)
    lines = list(job(planned))
    said = testbed.run(linux, lines, limit_s=limit_s, memory_mib=MEMORY_MIB, more=ICOUNT, disk=disk, tell=tell)
    printed = testbed.outputs(said.lines)
    if not said.ok or len(printed) != len(planned):
        raise AbhError("not all experiments were done", got=said.problem or "a failure", tail=said.tail())
    told: dict[str, dict[str, list[Counts]]] = {each.name: {name: [] for name in each.policies} for each in experiments}
    for (experiment, policy), (_, text) in zip(planned, printed, strict=True):
        told[experiment.name][policy].append(parse(text, experiment, policy))
    return told


def median(turns: Sequence[Counts], name: str) -> Count:
    """The middle one of the turns, a number that was counted; not known, if one is not."""
    unknown = next((counts[name] for counts in turns if counts[name].number is None), None)
    if unknown:
        return unknown
    return Count(statistics.median_low(counts[name].number or 0 for counts in turns), turns[0][name].unit)


def outside(experiment: Experiment, told: Told) -> list[str]:
    """What is not as the experiment's file says, in any turn."""

    def holds(number: int | None, low: int, high: int) -> bool:
        return number is not None and low <= number <= high

    return [
        f"{experiment.path.name}, {policy}: {name} {turn[name].number}, {low:,} to {high:,} expected"
        for policy, bounds in experiment.bounds.items()
        for name, (low, high) in bounds.items()
        for turn in told[policy]
        if not holds(turn[name].number, low, high)
    ]


def _beside(counts: Sequence[Count]) -> list[str]:
    """Of instructions, how many more than the first policy's."""
    first, *others = (each.number for each in counts)
    return ["", *("n/a" if not first or each is None else f"{100 * (each / first - 1):+.1f} %" for each in others)]


def table(experiment: Experiment, told: Told) -> str:
    """What an experiment came to, for people: a line a count. What Navarro found has lines of its own."""
    lines = [f"{experiment.name}: {experiment.purpose}"]
    lines += [f"  reference [{each.sure}: {SURE[each.sure]}]: {each.says}" for each in experiment.reference]
    lines += [f"  n/a: {each}" for each in experiment.lacks]
    rows = [["counted", *told]]
    for name in experiment.shows:
        counts = [median(turns, name) for turns in told.values()]
        unit = next((each.unit for each in counts if each.unit), "")
        label = name.replace("_", " ")
        label += "" if unit in label else f" ({unit})"
        rows.append([label, *("n/a" if each.number is None else f"{each.number:,}" for each in counts)])
        if name == "instructions":
            rows.append([f"  beside {next(iter(told))}", *_beside(counts)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for label, *cells in rows:
        padded = (f"  {cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        lines.append(f"  {label:{widths[0]}}{''.join(padded)}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def document(experiment: Experiment, told: Told) -> dict[str, Any]:
    """The same for programs: all that was counted, with the least and the most of the turns."""

    def value(turns: Sequence[Counts], name: str) -> dict[str, Any]:
        middle, numbers = median(turns, name), [counts[name].number for counts in turns]
        found = {"value": middle.number, "unit": middle.unit, "kind": "counted"}
        if middle.number is None:
            return found | {"reason": middle.reason}
        return found | {"low": min(number or 0 for number in numbers), "high": max(number or 0 for number in numbers)}

    return {
        "name": experiment.name,
        "purpose": experiment.purpose,
        "reference": [{"says": each.says, "sure": each.sure, "kind": "reference"} for each in experiment.reference],
        "lacks": list(experiment.lacks),
        "turns": experiment.turns,
        "policies": {policy: {name: value(turns, name) for name in turns[0]} for policy, turns in told.items()},
    }
