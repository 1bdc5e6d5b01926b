# SPDX-License-Identifier: MIT
"""Cycles of a refill on the R4700: the thesis's figures 4.2, 4.3, 5.2 and 6.5, and what our programs make of them."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.model import organisations
from abh.report import figures, panels, reference, replays, tables
from abh.report.study import Number, Study, missing

ORDER = 92
COMMAND = replays.COMMAND
TITLE = "Refill on the R4700, beside the thesis"
CAPTION = (
    "Mean cycles of a TLB refill. The thesis's are measured on its programs of 1995, ours are modelled on "
    "the recorded runs of today's: orders compare, sizes do not. Programs of today miss oftener and further "
    "apart, so more of a table's lines come from memory."
)
KINDS = ("modelled", "reference")
QUANTITIES = ("refill", "refill_stlb")


def _printed(name: str) -> Number:
    row = reference.read("elphinstone", "refill").get(organisations.IN_THESIS[name], {})
    return next((row[quantity] for quantity in QUANTITIES if quantity in row), missing("not printed"))


def _ours(study: Study) -> dict[str, dict[str, Number]]:
    found: dict[str, dict[str, Number]] = {}
    for each in replays.replays(study):
        if each.machine == "r4700" and not each.superpages and each.organisation in organisations.IN_THESIS:
            found.setdefault(str(each.run), {})[each.organisation] = each.cycles
    return found


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        {"run": run, "organisation": name, "value": value.value, "unit": value.unit, "kind": value.kind,
         "reference": _printed(name).value, "reason": value.reason or ""}
        for run, numbers in _ours(study).items()
        for name, value in numbers.items()
    ]  # fmt: skip


def render(study: Study) -> Markup:
    """The HTML: the thesis's first."""
    ours = _ours(study)
    if not ours:
        return Markup("<p>Nothing was replayed: <code>{}</code> does.</p>").format(COMMAND)
    notes = panels.Notes("note-thesis-refill")
    rows = []
    for name, printed in organisations.IN_THESIS.items():
        numbers = [_printed(name), *(ours[run].get(name, missing("not replayed")) for run in ours)]
        rows.append((f"{printed} ({name})", [notes.show(value, "plain") for value in numbers]))
    heads = ["organisation", "thesis (reference)", *ours]
    return tables.table(TITLE, heads, rows, "cycles a refill") + notes.render()


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
