# SPDX-License-Identifier: MIT
"""Made-up workloads on the thesis's tables: sizes (figures 4.8 to 4.12, 6.7, 6.8), mapping, unmapping and tasks."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.model import organisations
from abh.report import figures, panels, reference, replays, tables
from abh.report.study import Number, Study, missing

ORDER = 94
COMMAND = replays.COMMAND
TITLE = "Sizes and operations, beside the thesis"
CAPTION = (
    "Tables alone, filled and emptied as the thesis's made-up workloads do. Sizes are to be met: to the byte "
    "where pages are spaced equally, within the printed deviations where they are random. Of operations ours "
    "are cycles for the words of the table alone, on its data cache at 100 MHz; the thesis's times have "
    "system calls, messages and mapping trees in them, so only their order and their growth compare."
)
KINDS = ("modelled", "reference")
MHZ = 100
SMALL, LARGE = 1 << 16, 1 << 23
SPARSE = (64, 1024, 8192)
# Workload, what was varied, and which row and quantity of the thesis is beside it; a cost is printed in µs.
COSTS = (
    ("MAP1", 4096, "MAP1", "a page"),
    ("MAPN", 4096, "MAPN", "a page"),
    ("MAPS", SMALL, f"MAPS_{SMALL}", "64 KB"),
    ("MAPS", LARGE, f"MAPS_{LARGE}", "8 MB"),
    ("MAPS+64M", SMALL, f"MAPS+64M_{SMALL}", "64 KB"),
    ("MAPS+64M", LARGE, f"MAPS+64M_{LARGE}", "8 MB"),
    ("task", 2, "task", "a task"),
)

Key = tuple[str, str, int, str]


def _microseconds(found: dict[Key, Number], workload: str, name: str, at: int) -> Number:
    cycles = found.get((workload, name, at, "cycles"))
    return Number(cycles.value / MHZ, "us", cycles.kind) if cycles and cycles.value is not None else missing("not run")


def _size(found: dict[Key, Number], workload: str, name: str, at: int) -> Number:
    return found.get((workload, name, at, "bytes a page"), missing("not run"))


def table(study: Study) -> list[dict[str, object]]:
    """The CSV: everything that was run."""
    return [
        {"workload": workload, "organisation": name, "at": at, "quantity": quantity, "value": value.value,
         "unit": value.unit, "kind": value.kind}
        for (workload, name, at, quantity), value in replays.made_up(study).items()
    ]  # fmt: skip


def render(study: Study) -> Markup:
    """The HTML: sizes, then operations, the thesis's beside ours."""
    found = replays.made_up(study)
    if not found:
        return Markup("<p>Nothing was run: <code>{}</code> does.</p>").format(COMMAND)
    notes = panels.Notes("note-thesis-tables")
    names = {name: printed for name, printed in organisations.IN_THESIS.items() if ("task", name, 2, "cycles") in found}
    return _sizes(found, names, notes) + _operations(found, names, notes) + notes.render()


def _sizes(found: dict[Key, Number], names: dict[str, str], notes: panels.Notes) -> Markup:
    printed = reference.read("elphinstone", "sizes")
    rows = []
    for name, called in names.items():
        row = printed.get(called, {})
        ends = [row.get(f"sparse_page_{end}", missing("not printed")) for end in ("low", "high")]
        ours = [_size(found, "SPARSE-PAGE", name, pages) for pages in SPARSE]
        files = [_size(found, "SPARSE-FILE", name, objects) for objects in (64, 2048)]
        rows.append((f"{called} ({name})", [notes.show(value, "plain") for value in (*ends, *ours, *files)]))
    heads = ["organisation", "thesis, least", "thesis, most", *(f"{pages} pages" for pages in SPARSE)]
    heads += ["SPARSE-FILE, 64 objects", "2048 objects"]
    return tables.table(TITLE, heads, rows, "bytes a page; SPARSE-PAGE unless another is named")


def _operations(found: dict[Key, Number], names: dict[str, str], notes: panels.Notes) -> Markup:
    printed = reference.read("elphinstone", "operations")
    rows = []
    for name, called in names.items():
        cells = []
        for workload, at, quantity, _ in COSTS:
            theirs = printed.get(called, {}).get(quantity, missing("not printed"))
            cells += [notes.show(theirs, "plain"), notes.show(_microseconds(found, workload, name, at), "plain")]
        rows.append((f"{called} ({name})", cells))
    heads = ["organisation"]
    for workload, _, _, of in COSTS:
        heads += [f"thesis: {workload}, {of}", "ours"]
    return tables.table(TITLE, heads, rows, "µs; the thesis's of the whole operation, ours of the table alone")


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
