# SPDX-License-Identifier: MIT
"""One run's accesses through other organisations of page tables and TLB refill: replays of one trace."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, replays
from abh.report.study import Number, Study

ORDER = 91
COMMAND = replays.COMMAND
TITLE = "Other page tables, number by number"
CAPTION = (
    "The very same accesses, translated by other organisations: those that Elphinstone (1999) and Jacob and "
    "Mudge (1998) compared, each on the machine of its source, and on a processor of today; and a guest's "
    "table within a host's, guest/host, walked by hardware, with its nested TLB (+ntlb) or a software TLB "
    "before it (+stlb). A refill's cycles are its handler's instructions or its hardware's steps, plus what "
    "loads from the table and fetches of the handler wait for in the caches. Each refill was checked against "
    "the kernel's own tables. Tables hold the pages touched."
)
KINDS = ("modelled",)
COLUMNS = ("refills per 1,000 accesses", "cycles per refill", "loads per refill", "table bytes per page")


def _found(study: Study) -> list[replays.Replay]:
    """All but sweeps of caches, which are the figure vmcpi's."""
    return [each for each in replays.replays(study) if not each.swept]


def _row(replay: replays.Replay) -> dict[str, Number]:
    mapped = replay.table.get("pages_mapped", 0)
    return {
        COLUMNS[0]: replay.an_access(replay.total["refills"], "refills"),
        COLUMNS[1]: replay.cycles,
        COLUMNS[2]: replay.a_refill(replay.all_of("table_loads_"), "loads"),
        COLUMNS[3]: replays.per(replay.table["bytes"], mapped, "bytes", "no page was mapped"),
    }


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        {"run": str(each.run), "machine": each.on, "organisation": each.organisation, "quantity": quantity,
         "value": value.value, "unit": value.unit, "kind": value.kind}
        for each in _found(study)
        for quantity, value in _row(each).items()
    ]  # fmt: skip


def render(study: Study) -> Markup:
    """The HTML: a row for each organisation on each machine."""
    found = _found(study)
    if not found:
        return Markup("<p>Nothing was replayed: <code>{}</code> does.</p>").format(COMMAND)
    notes = panels.Notes("note-organisations")
    head = Markup("").join(Markup('<th scope="col" class="num">{}</th>').format(name) for name in COLUMNS)
    body = Markup("")
    for each in found:
        row = _row(each)
        cells = Markup("").join(
            Markup('<td class="num">{}</td>').format(notes.show(row[column], "plain")) for column in COLUMNS
        )
        body += Markup('<tr><th scope="row">{}</th><td>{}</td><td>{}</td>{}</tr>').format(
            each.organisation, each.on, each.run, cells
        )
    titles = Markup("").join(
        Markup('<th scope="col">{}</th>').format(name) for name in ("organisation", "machine", "run")
    )
    return Markup(
        '<div class="wide" tabindex="0" role="region" aria-label="{}"><table><thead><tr>{}{}</tr></thead>'
        "<tbody>{}</tbody></table></div>{}"
    ).format(TITLE, titles, head, body, notes.render())


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
