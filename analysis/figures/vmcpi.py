# SPDX-License-Identifier: MIT
"""What virtual memory costs an instruction, and of what that consists: figures 6 to 9 of Jacob and Mudge."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, replays, scale, svg, tables
from abh.report.study import Number, Study

ORDER = 95
COMMAND = replays.COMMAND
TITLE = "VMCPI, as Jacob and Mudge count it"
CAPTION = (
    "Cycles of virtual memory for each instruction of the program and its kernel (VMCPI), by what they are "
    "spent on: instructions of handlers for the program's pages (uhandler), for pages of the table "
    "(khandler) and at its root (rhandler); entries that come from the second cache (pte-L2) or memory "
    "(pte-MEM); handlers fetched from there; interrupts at 50 cycles, and VMCPI at the paper's 10 and 200. MCPI "
    "is what the program's own instructions and data wait for, with all misses that handlers inflict on it; "
    "displacement is how much more that is than without virtual memory (BASE). First cold caches at one point of "
    "the paper's sweep, then its sizes of caches, of lines in all of them, and of TLBs, warm. The paper's own are "
    "curves, whose order is: INTEL and PA-RISC least; ULTRIX and MACH close; NOTLB beside them only with large "
    "caches."
)
KINDS = ("modelled",)
MACHINE = "jacob-mudge"
L2, MEMORY, INTERRUPT = replays.L2, replays.MEMORY, 50  # cycles beyond the first cache: machines/jacob-mudge.toml
# What is swept: as it is called, and in what.
NAMED = {"l1": ("L1", "KiB"), "l2": ("L2", "KiB"), "line": ("lines", "bytes"), "tlb": ("TLBs", "entries")}
# The paper's other prices of an interrupt, each a whole VMCPI of its own.
OTHER_INTERRUPTS = (10, 200)
PARTS = ("uhandler", "khandler", "rhandler", "pte-L2", "pte-MEM", "handler-L2", "handler-MEM", "interrupts")


def parts(replay: replays.Replay) -> dict[str, Number]:
    """VMCPI, and what it consists of. Hardware's cycles are its handler's."""
    total = replay.total
    cycles: dict[str, float] = {
        "uhandler": total["handler_instructions_user"],
        "khandler": total["handler_instructions_kernel"],
        "rhandler": total["handler_instructions_root"],
        "pte-L2": L2 * sum(total[f"table_loads_{level}_l2"] for level in ("user", "kernel", "root")),
        "pte-MEM": MEMORY * sum(total[f"table_loads_{level}_memory"] for level in ("user", "kernel", "root")),
        "handler-L2": L2 * total["handler_fetches_l2"],
        "handler-MEM": MEMORY * total["handler_fetches_memory"],
        "interrupts": INTERRUPT * sum(total[f"interrupts_{level}"] for level in ("user", "kernel", "root")),
    }
    if not cycles["uhandler"]:
        cycles["uhandler"] = total["refill_cycles"] - sum(cycles.values())
    everything = {**cycles, "VMCPI": sum(cycles.values())}
    for price in OTHER_INTERRUPTS:
        more = cycles["interrupts"] / INTERRUPT * (price - INTERRUPT)
        everything[f"VMCPI, interrupts of {price}"] = everything["VMCPI"] + more
    return {
        name: replays.per(value, replay.instructions, "cycles", "the trace counts no instructions")
        for name, value in everything.items()
    }


def stalls(replay: replays.Replay, base: replays.Replay | None) -> dict[str, Number]:
    """MCPI, and how much of it is displacement: known where each fetch was recorded."""
    per_instruction = [
        each.waits / each.instructions if each and each.every_fetch and each.instructions else None
        for each in (replay, base)
    ]
    mine, without = per_instruction
    reason = "the trace has one fetch of each page only"
    more = None if mine is None or without is None else mine - without
    return {
        name: Number(value, "cycles", "modelled", None if value is not None else reason)
        for name, value in (("MCPI", mine), ("displacement", more))
    }


def _found(study: Study) -> list[tuple[replays.Replay, dict[str, Number]]]:
    """Each replay with all that is said of it."""
    mine = [each for each in replays.replays(study) if each.machine == MACHINE]

    def key(each: replays.Replay) -> tuple[object, ...]:
        return (each.run, each.warm, *sorted(each.swept.items()))

    bases = {key(each): each for each in mine if each.organisation == "base"}
    return [(each, {**parts(each), **stalls(each, bases.get(key(each)))}) for each in mine]


def _sizes(replay: replays.Replay) -> str:
    return ", ".join(f"{NAMED[what][0]} {size} {NAMED[what][1]}" for what, size in replay.swept.items())


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        {"run": str(each.run), "organisation": each.organisation, "swept": _sizes(each), "warm": each.warm,
         "part": part, "value": value.value, "unit": value.unit, "kind": value.kind, "reason": value.reason or ""}
        for each, said in _found(study)
        for part, value in said.items()
    ]  # fmt: skip


def render(study: Study) -> Markup:
    """The HTML: for each run its parts, then what sizes of caches make of it."""
    found = _found(study)
    if not found:
        return Markup("<p>Nothing was replayed: <code>{}</code> does.</p>").format(COMMAND)
    notes = panels.Notes("note-vmcpi")
    html = Markup("")
    for run in sorted({str(each.run) for each, _ in found}):
        of_run = [(each, said) for each, said in found if str(each.run) == run]
        at_other_prices = (f"VMCPI, interrupts of {price}" for price in OTHER_INTERRUPTS)
        heads = ["VMCPI", *PARTS, *at_other_prices, "MCPI", "displacement"]
        rows = [
            (each.organisation, [notes.show(said[part], "times") for part in heads])
            for each, said in of_run
            if not each.swept
        ]
        if rows:
            html += tables.table(TITLE, ["organisation", *heads], rows, f"{run}, cold caches, modelled")
        for what in NAMED:
            html += _swept([one for one in of_run if what in one[0].swept], what, run, notes)
    return html + notes.render()


def _swept(found: list[tuple[replays.Replay, dict[str, Number]]], what: str, run: str, notes: panels.Notes) -> Markup:
    """A picture, and tables of VMCPI and of displacement by size."""
    if not found:
        return Markup("")
    said = {(each.organisation, each.swept[what]): numbers for each, numbers in found}
    names = list(dict.fromkeys(name for name, _ in said))
    sizes = sorted({size for _, size in said})
    called, unit = NAMED[what]
    known = [numbers["VMCPI"].value or 0.0 for numbers in said.values()]
    lines = tuple(
        (name, tuple(svg.Mark(shape, said[name, size]["VMCPI"]) for shape, size in enumerate(_three(sizes))))
        for name in names
    )
    three = " then ".join(f"{size}" for size in _three(sizes))
    picture = svg.panel(svg.Panel(run, f"VMCPI, {called} of {three} {unit}", scale.linear(known), "plain", lines))
    html = Markup('<div class="pictures">{}</div>').format(picture)
    for part in ("VMCPI", "displacement"):
        rows = [(name, [notes.show(said[name, size][part], "times") for size in sizes]) for name in names]
        heads = ["organisation", *(f"{size} {unit}" for size in sizes)]
        of = f"{called} of {', '.join(map(str, sizes))} {unit}{' a side' if what != 'line' else ''}"
        html += tables.table(TITLE, heads, rows, f"{part}, {run}, {of}, warm, modelled")
    return html


def _three(sizes: list[int]) -> list[int]:
    """The least, the middle and the most."""
    return sorted({sizes[0], sizes[len(sizes) // 2], sizes[-1]})


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
