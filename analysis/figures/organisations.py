# SPDX-License-Identifier: MIT
"""One run's accesses through other organisations of page tables and TLB refill: replays of one trace."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.model import mmu, organisations
from abh.report import figures, panels
from abh.report.study import Number, Study

ORDER = 37
COMMAND = "make organisations"
TITLE = "Other page tables"
CAPTION = (
    "The very same accesses, translated by other organisations: those that Elphinstone (1999) and Jacob and Mudge "
    "(1998) compared, each on the machine of its source, and on a processor of today. A refill's cycles are its "
    "handler's instructions or its hardware's steps, plus what loads from the table and fetches of the handler wait "
    "for in the caches. Each refill was checked against the kernel's own tables. Tables hold the pages touched."
)
KINDS = ("modelled",)
COLUMNS = ("refills per 1,000 accesses", "cycles per refill", "loads per refill", "table bytes per page")


def _replays(study: Study) -> Iterator[tuple[str, dict[str, Any]]]:
    folder = study.folder / mmu.FOLDER / organisations.FOLDER if study.folder else None
    for path in sorted(folder.glob("*.json")) if folder else []:
        found = organisations.read(path)
        for replay in found["replays"]:
            yield found["run"], replay


def _number(above: float, below: float, unit: str, reason: str, scale: float = 1.0) -> Number:
    if not below:
        return Number(None, unit, "modelled", reason)
    return Number(scale * above / below, unit, "modelled")


def _row(replay: dict[str, Any]) -> dict[str, Number]:
    said = replay["counters"]["layers"]["total"]
    accesses = sum(said[kind] for kind in ("loads", "stores", "fetches"))
    loads = sum(number for name, number in said.items() if name.startswith("table_loads_"))
    mapped = replay["counters"]["table"].get("pages_mapped", 0)
    none = "nothing was refilled"
    return {
        COLUMNS[0]: _number(said["refills"], accesses, "refills", "no access was counted", 1000),
        COLUMNS[1]: _number(said["refill_cycles"], said["refills"], "cycles", none),
        COLUMNS[2]: _number(loads, said["refills"], "loads", none),
        COLUMNS[3]: _number(replay["counters"]["table"]["bytes"], mapped, "bytes", "no page was mapped"),
    }


def _lines(study: Study) -> Iterator[tuple[str, str, str, dict[str, Number]]]:
    for run, replay in _replays(study):
        large = ", large pages" if replay["superpages"] else ""
        yield run, f"{replay['machine']}{large}", replay["organisation"], _row(replay)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        {"run": run, "machine": machine, "organisation": name, "quantity": quantity,
         "value": value.value, "unit": value.unit, "kind": value.kind}
        for run, machine, name, row in _lines(study)
        for quantity, value in row.items()
    ]  # fmt: skip


def render(study: Study) -> Markup:
    """The HTML: a row for each organisation on each machine."""
    lines = list(_lines(study))
    if not lines:
        return Markup("<p>Nothing was replayed: <code>{}</code> does.</p>").format(COMMAND)
    notes = panels.Notes("note-organisations")
    head = Markup("").join(Markup('<th scope="col" class="num">{}</th>').format(name) for name in COLUMNS)
    body = Markup("")
    for run, machine, name, row in lines:
        cells = Markup("").join(
            Markup('<td class="num">{}</td>').format(notes.show(row[column], "plain")) for column in COLUMNS
        )
        body += Markup('<tr><th scope="row">{}</th><td>{}</td><td>{}</td>{}</tr>').format(name, machine, run, cells)
    titles = Markup("").join(
        Markup('<th scope="col">{}</th>').format(name) for name in ("organisation", "machine", "run")
    )
    return Markup(
        '<div class="wide" tabindex="0" role="region" aria-label="{}"><table><thead><tr>{}{}</tr></thead>'
        "<tbody>{}</tbody></table></div>{}"
    ).format(TITLE, titles, head, body, notes.render())


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
