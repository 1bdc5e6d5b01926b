# SPDX-License-Identifier: MIT
"""A cell on the Itanium machine: what the machine is told, and what its answers mean.

Each cell boots: what the walker does, a kernel decides when it starts. The agent inside (agent/ia64) marks the begin
and the end of the workload, and what the machine has counted between the two is the cell's. All is counted; cycles are
modelled from a table of costs (vm-configs/costs).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from abh.build import components
from abh.machine import itanium
from abh.schema import costs
from abh.schema.result import Result, Value
from abh.schema.workload import Workload
from abh.study import cell
from abh.study.cell import Cell

BEGIN, END = 0x41, 0x42  # marks: agent/ia64/init.c
HZ = 10**9  # of virtual time: an instruction takes a beat of the timer
# Of processor time. Instructions are what bounds a run: this is for a machine that hangs.
LIMIT_S = {"smoke": 3600.0, "paper": 12 * 3600.0}
CELL_FILE = "cell"  # at the top of the RAM disk
PAGE_KIB = 16  # of vm-configs/kconfig/linux-ia64
COMPILER = "cc"  # the one that there is for this machine
# Packages whose library is built for it from source (recipes/ia64-sqlite.toml).
BUILT = frozenset({"libsqlite3-0", "libsqlite3-dev"})

SUPERPAGES = re.compile(r"superpages_(\d+)k")
_PROCESS = "of the workload's processes that were waited for"
_BYTES = f"superpages of all sizes by their bytes, beside base pages of {PAGE_KIB} KiB"
# What the agent reports, with unit and note; of superpages it has one for each size, too.
REPORTED: dict[str, tuple[str, str | None]] = {
    "minor_faults": ("faults", _PROCESS),
    "major_faults": ("faults", _PROCESS),
    "rss_peak_kib": ("KiB", "the largest process's own peak"),
    "superpages_failed": ("superpages", "there was no room for"),
    "superpages_demoted": ("superpages", None),
}
# What the MMU counts of instructions and of data: its name there, ours, the unit.
OF_SIDE = (
    ("lookups", "tlb_lookups", "lookups"),
    ("first_misses", "tlb_misses_l1", "misses"),
    ("second_misses", "tlb_misses_l2", "misses"),
    ("walker_insertions", "tlb_walker_insertions", "translations"),
    ("cache_insertions", "tlb_software_insertions", "translations"),
    ("overwritten", "tlb_overwritten", "translations"),
    ("purged", "tlb_purged", "translations"),
)


def why_not(workload: Workload) -> str | None:
    """Why a workload cannot be had on this machine; None if it can. recipes/ia64-workloads.py builds those that can."""
    if wanted := [name for name in (*workload.packages, *workload.build_packages) if name not in BUILT]:
        return f"it asks for {', '.join(wanted)}: Debian has no packages for Itanium any more"
    if other := sorted({command[0] for command in workload.build} - {COMPILER}):
        return f"it is built by {', '.join(other)}: for Itanium there is a compiler of C alone"
    return None


def _words(one: Cell) -> list[str]:
    """The machine's options."""
    line = [one.machine.kernel_cmdline, one.environment.guest_cmdline, one.policy.guest.cmdline]
    limit = (one.machine.boot_timeout_s + one.workload.timeout_s) * HZ
    return [
        *("--memory", str(one.environment.memory_mib[one.size])),
        *("--command-line", " ".join(word for word in line if word)),
        *("--instructions", str(limit)),
    ]


def told(one: Cell) -> list[str]:
    """All that decides what a cell does and says, but for what the machine is made of."""
    return [*_words(one), cell.guest_lines(one), costs.of(one.machine.cpu).model_dump_json(exclude={"purpose", "path"})]


def frozen_state(one: Cell) -> None:
    """Nothing is frozen: each cell boots."""


def run(one: Cell, heard: Callable[[Mapping[str, Any]], None] = lambda _: None) -> Result:
    """Boots the machine for a cell, and judges how it ended. `heard` is of the MMU model, which is not beside it."""
    if why := why_not(one.workload):
        return cell.result_of(one, "skip", why, {})
    _, kernel, initramfs = map(components.path_of, itanium.component_names(one.machine))
    archive = itanium.archive({CELL_FILE: cell.guest_lines(one).encode()})
    with tempfile.NamedTemporaryFile(prefix="abh-ramdisk-") as ramdisk:
        ramdisk.write((initramfs / itanium.RAMDISK_FILE).read_bytes() + archive)
        ramdisk.flush()
        ended = itanium.run(
            _words(one),
            kernel=kernel / itanium.KERNEL_FILE,
            ramdisk=Path(ramdisk.name),
            limit_s=LIMIT_S[one.size],
        )
    return judged(one, ended)


def judged(one: Cell, ended: itanium.Ended) -> Result:
    """The result of a cell by how its machine ended."""
    said = cell.listen(ended.console.split("\n"))
    problem = ended.report.strip() or None
    outcome, reason = cell.judge(one, said, problem, ended.console)
    values = dict(map(_reported, said.values.items()))
    marks = ended.counted.get("marks", [])
    if [number for number, _ in marks] == [BEGIN, END]:
        values |= counted(between(marks[0][1], marks[1][1]))
        values |= of_faults(values) | cycles(values, costs.of(one.machine.cpu))
    elif outcome == "success":
        outcome, reason = "error", f"the machine was told {len(marks)} marks, not the begin and the end of the workload"
    return cell.result_of(one, outcome, reason, values, said)


def _reported(of: tuple[str, str]) -> tuple[str, Value]:
    name, text = of
    unit, note = ("superpages", None) if SUPERPAGES.fullmatch(name) else REPORTED[name]
    return name, Value(value=int(text), unit=unit, kind="counted", reason=note)


def between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What was counted between two marks: of tables within tables, too. What is absent was never counted: 0."""
    return {
        name: between(before.get(name, {}), each) if isinstance(each, Mapping) else each - before.get(name, 0)
        for name, each in after.items()
    }


def counted(region: Mapping[str, Any]) -> dict[str, Value]:
    """The counts of the machine as values."""
    mmu = region["counters"]

    def of(number: int, unit: str) -> Value:
        return Value.of(number, unit, "counted")

    return {
        "instructions": of(region["instructions"], "instructions"),
        "instructions_in_handlers": of(region["uncollected"], "instructions"),
        "elapsed": Value.of((region["instructions"] + region["idle"]) / HZ, "s", "emulated"),
        **{
            f"{side}_{ours}": of(mmu[side][theirs], unit)
            for side in ("data", "instruction")
            for theirs, ours, unit in OF_SIDE
        },
        "walks": of(mmu["walks"], "walks"),
        "walks_missed": of(mmu["walks_missed"], "walks"),
        "walks_ended": of(sum(mmu["aborts"].values()), "walks"),
        **{f"walks_ended_{_snake(name)}": of(number, "walks") for name, number in mmu["aborts"].items()},
        **{f"vector_{_snake(name)}": of(number, "interruptions") for name, number in mmu["faults"].items()},
    }


def _snake(name: str) -> str:
    """The name of a reason or of a vector, as DataNested, as those of values are written."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def of_faults(values: Mapping[str, Value]) -> dict[str, Value]:
    """The share of memory allocated by faults that came as superpages: Alloc.Ratio, where these have several sizes."""
    sizes = {int(match[1]): values[name].value for name in values if (match := SUPERPAGES.fullmatch(name))}
    huge = sum(kib * number for kib, number in sizes.items())
    faults = values.get("minor_faults")
    if faults is None:
        return {"alloc_ratio": Value.unknown("ratio", "counted", "the faults it is made of are not known")}
    regular = PAGE_KIB * (faults.value - sum(sizes.values()))
    if huge + regular <= 0:
        return {"alloc_ratio": Value.unknown("ratio", "counted", "no page fault was counted")}
    return {"alloc_ratio": Value(value=huge / (huge + regular), unit="ratio", kind="counted", reason=_BYTES)}


def cycles(values: Mapping[str, Value], table: costs.Costs) -> dict[str, Value]:
    """What the counts come to by a table of costs: of all reloads of the TLB, of each, and of page faults."""
    misses = _sum(values, "tlb_misses_l2")
    by_walker = min(misses, _sum(values, "tlb_walker_insertions"))
    faults = values["minor_faults"].value if "minor_faults" in values else None
    made: dict[str, Value] = {}
    for end in ("low", "high"):
        hit, handler, fault = (getattr(cost, end) for cost in (table.walker_hit, table.software, table.page_fault))
        reloads = by_walker * hit + (misses - by_walker) * handler
        made[f"reload_cycles_{end}"] = _estimate(reloads)
        made[f"cycles_a_reload_{end}"] = _estimate(reloads / misses if misses else None)
        made[f"fault_cycles_{end}"] = _estimate(None if faults is None else faults * fault)
    return made


def _sum(values: Mapping[str, Value], name: str) -> int:
    return sum(int(values[f"{side}_{name}"].value) for side in ("data", "instruction"))


def _estimate(number: float | None) -> Value:
    unit: str = "cycles (estimate)"
    return Value.unknown(unit, "modelled", "there was none") if number is None else Value.of(number, unit, "modelled")
