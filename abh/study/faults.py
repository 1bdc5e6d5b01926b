# SPDX-License-Identifier: MIT
"""Why a page fault got no hugepage: the reasons that the kernel counts, as values and in plain words.

The paper (abh, section 2) asks four things of a fault: is there a mapping (1), is it anonymous (2), does it cover the
whole 2 MB range (3), is the range's page-table entry empty (4)? The kernel counts each fault of a process by the first
that fails, by kind of region (kernel-patches/6.12/explain). Check 1 has no row: a fault without a mapping is a signal
to the program and counted by nobody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from abh.errors import AbhError
from abh.schema.result import Result, Value

KNOB = "/proc/sys/vm/explain_thp_faults"
REGIONS = ("heap", "anon", "stack", "file", "shmem", "other")
MAJOR = "major"
EXPLAINED = "explained"  # folder, beside a study's results: counting costs instructions


@dataclass(frozen=True)
class Reason:
    """One row of the kernel's table."""

    name: str
    check: str  # the paper's check that failed, or where else the fault ended
    means: str
    cure: str = ""


REASONS = {
    each.name: each
    for each in (
        Reason("huge", "got one", "A hugepage was allocated."),
        Reason("huge_zero", "got one", "Memory was read before it was written: the huge page of zeros was mapped.",
               "a first write instead of a read; see cow_zero"),
        Reason("not_anon", "2 anonymous", "The mapping is of a file (code, or data of the program and its libraries), "
               "of shared memory, or of a device.", "for shared memory: shmem_enabled, or private memory"),
        Reason("not_enabled", "policy", "Hugepages are switched off, or this machine has none.",
               "transparent_hugepage/enabled = always or madvise"),
        Reason("not_advised", "policy", "Hugepages are for advised memory only, and this was not.",
               "enabled = always, madvise(MADV_HUGEPAGE), or glibc.malloc.hugetlb=1"),
        Reason("forbidden", "policy", "The program forbids hugepages here, as for stacks of threads; or it is the "
               "stack that exec fills and then moves.", "no MADV_NOHUGEPAGE, MAP_STACK or PR_SET_THP_DISABLE"),
        Reason("not_covered", "3 covered", "The 2 MB range around the address was not wholly inside the mapping.",
               "mappings that start and end, and a heap that ends, on 2 MB boundaries (ABH)"),
        Reason("pmd_not_empty", "4 PMD empty", "The range is covered, but it had small pages, or a page table, before.",
               "hugepages at the first touch of the range (ABH); khugepaged mends it later"),
        Reason("alloc_failed", "no memory", "The range was fit for a hugepage, and no 2 MB of memory were free.",
               "defrag = always, or memory less fragmented"),
        Reason("charge_failed", "no memory", "The control group has no room for a hugepage.", "a higher memory.max"),
        Reason("swapped", "a page was there", "The page had been swapped out, and came back alone.", "more memory"),
        Reason("cow", "a page is there", "Small page shared after a fork: the write copies that page alone.",
               "fewer writes after fork"),
        Reason("cow_zero", "a page is there", "Read before it was written: the write replaces one small page of zeros.",
               "a first write instead of a read, or use_zero_page = 0"),
        Reason("other", "a page is there", "Access bits changed, or another thread was first: nothing was allocated."),
        Reason(MAJOR, "waited", "The fault waited for a disk or for another process; not one of the minor faults."),
    )
}  # fmt: skip


def values_of(lines: Sequence[str]) -> dict[str, Value]:
    """The table of /proc/PID/thp_faults as values; no lines, no values."""
    if not lines:
        return {}
    if lines[0].split() != ["reason", *REGIONS]:
        raise AbhError("the kernel's table of faults is not as expected", got=lines[0], expected=" ".join(REGIONS))
    values: dict[str, Value] = {}
    for line in lines[1:]:
        name, *numbers = line.split() or [""]
        known = name in REASONS and f"faults_{name}" not in values
        if not known or len(numbers) != len(REGIONS) or not all(re.fullmatch("[0-9]+", each) for each in numbers):
            raise AbhError(
                "the kernel's table of faults has a line that the bench does not know",
                got=line,
                expected=f"one of {', '.join(REASONS)}, once, and {len(REGIONS)} numbers",
            )
        counts = [int(each) for each in numbers]
        values[f"faults_{name}"] = Value.of(sum(counts), "faults", "counted")
        for region, count in zip(REGIONS, counts, strict=True):
            if count:
                values[f"faults_{name}_{region}"] = Value.of(count, "faults", "counted")
    if lost := [name for name in REASONS if f"faults_{name}" not in values]:
        raise AbhError("the kernel's table of faults is cut short", got=lines[-1], expected=f"a line {', '.join(lost)}")
    return values


def explained(values: Mapping[str, Value]) -> bool:
    """Whether a result has the table."""
    return "faults_huge" in values


def _count(values: Mapping[str, Value], name: str) -> int:
    return int(values[name].value or 0) if name in values else 0


def unexplained(values: Mapping[str, Value]) -> int:
    """Minor faults that no row has: 0, or the kernel's two ways to count differ."""
    rows = sum(_count(values, f"faults_{name}") for name in REASONS if name != MAJOR)
    return _count(values, "minor_faults") - rows


def explain(result: Result) -> str:
    """Why each fault of a run got no hugepage, as a table and a sentence a reason."""
    values = result.values
    if not explained(values):
        return f"{result.run}: no reasons were counted (outcome: {result.outcome})"
    total = _count(values, "minor_faults")
    rows = [(reason, _count(values, f"faults_{name}")) for name, reason in REASONS.items()]
    shown = sorted(((reason, count) for reason, count in rows if count), key=lambda row: -row[1])
    text = [
        f"Why each page fault of {result.run} ({result.size}) got a hugepage or not (counted)",
        "",
        f"{'reason':<15}{'failed check':<17}{'faults':>9}{'share':>8}" + "".join(f"{each:>9}" for each in REGIONS),
    ]
    for reason, count in shown:
        share = "" if reason.name == MAJOR or not total else f"{100 * count / total:.1f}%"
        split = "".join(f"{_count(values, f'faults_{reason.name}_{each}') or '-':>9}" for each in REGIONS)
        text.append(f"{reason.name:<15}{reason.check:<17}{count:>9}{share:>8}{split}")
    text.append(f"{'minor faults':<32}{total:>9}" + (f"  {_differ(values)}" if unexplained(values) else ""))
    text.append("")
    for reason, _ in shown:
        text.append(f"{reason.name}: {reason.means}" + (f" Cure: {reason.cure}." if reason.cure else ""))
    return "\n".join(text)


def _differ(values: Mapping[str, Value]) -> str:
    return f"{unexplained(values)} of them are in no row: the counts cannot be trusted"
