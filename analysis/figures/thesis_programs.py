# SPDX-License-Identifier: MIT
"""Five programs of the thesis, written anew: cycles of a refill and bytes of a table, beside what it prints of each."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.model import organisations
from abh.report import figures, panels, reference, replays, tables
from abh.report.study import Number, Study, missing

ORDER = 93
COMMAND = replays.COMMAND
TITLE = "Programs of the thesis, beside the thesis"
CAPTION = (
    "nsieve, heapsort, mm, tfftdp and compress do again to memory what their algorithms do, with arrays that fill as "
    "many pages as the thesis's had. Its gcc is a program of the bench, cc1. Sizes of tables are to be those printed, "
    "but for a hundredth: sections end within pairs of pages. Refills are close where a program does the same all the "
    "time (tfftdp, mm); compress and heapsort differ by their data. Instructions around the loop of guarded tables are "
    "taken from the thesis's raw numbers, those in it are printed."
)
KINDS = ("modelled", "reference")
QUANTITIES = {"refill": "cycles a refill", "bytes": "bytes of the table"}


def _ours(study: Study) -> dict[tuple[str, str], dict[str, Number]]:
    """By program and organisation."""
    return {
        (name, each.organisation): {
            "refill": each.cycles,
            "bytes": Number(float(each.table["bytes"]), "bytes", "modelled"),
        }
        for name, found in replays.programs(study).items()
        for each in found
    }


def _printed(organisation: str, program: str, quantity: str) -> Number:
    row = reference.read("elphinstone", "programs").get(organisations.IN_THESIS[organisation], {})
    return row.get(f"{program}_{quantity}", missing("not printed"))


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        {"program": program, "organisation": name, "quantity": quantity, "value": value.value, "unit": value.unit,
         "kind": value.kind or "n/a", "reference": _printed(name, program, quantity).value,
         "reason": value.reason or ""}
        for (program, name), numbers in _ours(study).items()
        for quantity, value in numbers.items()
    ]  # fmt: skip


def render(study: Study) -> Markup:
    """The HTML: a table of refills and one of sizes, the thesis's number before ours."""
    ours = _ours(study)
    if not ours:
        return Markup("<p>Nothing was replayed: <code>{}</code> does.</p>").format(COMMAND)
    notes = panels.Notes("note-thesis-programs")
    replayed = {name for _, name in ours}
    names = [name for name in organisations.IN_THESIS if name in replayed]
    html = Markup("")
    for quantity, what in QUANTITIES.items():
        rows = []
        for name in names:
            numbers = [
                number
                for program in organisations.PROGRAMS
                for number in (
                    _printed(name, program, quantity),
                    ours.get((program, name), {}).get(quantity, missing("not replayed")),
                )
            ]
            rows.append(
                (f"{organisations.IN_THESIS[name]} ({name})", [notes.show(number, "plain") for number in numbers])
            )
        heads = ["organisation", *(head for name in organisations.PROGRAMS for head in (f"thesis: {name}", "ours"))]
        html += tables.table(TITLE, heads, rows, f"{what}: the thesis's (reference), then ours (modelled)")
    return html + notes.render()


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
