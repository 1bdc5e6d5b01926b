# SPDX-License-Identifier: MIT
"""What virtual memory costs an instruction, and of what that consists: figures 6 to 9 of Jacob and Mudge."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, replays, tables
from abh.report.study import Number, Study

ORDER = 94
COMMAND = replays.COMMAND
TITLE = "VMCPI, as Jacob and Mudge count it"
CAPTION = (
    "Cycles of virtual memory for each instruction of the program and its kernel (VMCPI), by what they are "
    "spent on: instructions of handlers for the program's pages (uhandler), for pages of the table "
    "(khandler) and at its root (rhandler); entries that come from the second cache (pte-L2) or memory "
    "(pte-MEM); handlers fetched from there; interrupts at 50 cycles. The machine is the paper's at one "
    "point of its sweep. The paper's own are curves, whose order is: INTEL and PA-RISC least; ULTRIX and "
    "MACH close; NOTLB beside them only with large caches."
)
KINDS = ("modelled",)
MACHINE = "jacob-mudge"
L2, MEMORY, INTERRUPT = 20, 520, 50  # cycles beyond the first cache: machines/jacob-mudge.toml
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
    return {
        name: replays.per(value, replay.instructions, "cycles", "the trace counts no instructions")
        for name, value in everything.items()
    }


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        {"run": str(each.run), "organisation": each.organisation, "part": part, "value": value.value,
         "unit": value.unit, "kind": value.kind, "reason": value.reason or ""}
        for each in replays.replays(study)
        if each.machine == MACHINE
        for part, value in parts(each).items()
    ]  # fmt: skip


def render(study: Study) -> Markup:
    """The HTML: a table for each run."""
    found: dict[str, list[replays.Replay]] = {}
    for each in replays.replays(study):
        if each.machine == MACHINE:
            found.setdefault(str(each.run), []).append(each)
    if not found:
        return Markup("<p>Nothing was replayed: <code>{}</code> does.</p>").format(COMMAND)
    notes = panels.Notes("note-vmcpi")
    html = Markup("")
    for run, each_of in found.items():
        rows = [
            (each.organisation, [notes.show(parts(each)[part], "times") for part in ("VMCPI", *PARTS)])
            for each in each_of
        ]
        html += tables.table(TITLE, ["organisation", "VMCPI", *PARTS], rows, f"{run}, modelled")
    return html + notes.render()


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
