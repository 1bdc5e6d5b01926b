# SPDX-License-Identifier: MIT
"""One run's accesses on other processors, and with other numbers of TLB entries: replays of one trace each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.model import mmu
from abh.report import figures, panels
from abh.report.study import Number, Study

ORDER = 36
COMMAND = "make mmu"
TITLE = "TLB sizes"
CAPTION = (
    "Share of the program's accesses that miss in every level of the TLB, for the very same accesses: a run is "
    "recorded once and replayed on every processor of the model, then with one TLB of other sizes. The paper's section "
    "6.1 in one table: where the entries for hugepages are few and separate, a pattern can lose by hugepages."
)
KINDS = ("modelled",)


def sweeps(study: Study) -> list[dict[str, Any]]:
    """Every sweep there is."""
    folder = study.folder / mmu.FOLDER / mmu.SWEEP if study.folder else None
    return [mmu.read_sweep(path) for path in sorted(folder.glob("*.json"))] if folder else []


def _misses(replay: dict[str, Any]) -> Number:
    said = replay["counters"]["layers"]["guest_user"]
    misses, accesses = (
        Number(said[name], unit, "modelled") for name, unit in (("tlb_misses", "misses"), ("accesses", "accesses"))
    )
    return figures.share(misses, accesses)


def _lines(study: Study) -> Iterator[tuple[str, str, str, Number]]:
    for sweep in sweeps(study):
        for replay in sweep["replays"]:
            changed = replay["sweep"]
            tlb = f"{changed['tlb']} of {changed['entries']}" if changed else "as it is"
            yield sweep["run"], replay["cpu"], tlb, _misses(replay)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        {"run": run, "cpu": cpu, "tlb": tlb, "value": value.value, "unit": value.unit, "kind": value.kind}
        for run, cpu, tlb, value in _lines(study)
    ]


def render(study: Study) -> Markup:
    """The HTML: a column for each run."""
    lines = list(_lines(study))
    if not lines:
        return Markup("<p>Nothing was replayed: <code>make mmu</code> does.</p>")
    runs = list(dict.fromkeys(line[0] for line in lines))
    found = {(run, cpu, tlb): value for run, cpu, tlb, value in lines}
    notes = panels.Notes("note-tlb-sweep")
    head = Markup("").join(Markup('<th scope="col" class="num">{}</th>').format(run) for run in runs)
    body = Markup("")
    for cpu, tlb in dict.fromkeys((cpu, tlb) for _, cpu, tlb, _ in lines):
        cells = Markup("").join(
            Markup('<td class="num">{}</td>').format(
                notes.show(found.get((run, cpu, tlb), Number(None, "", "", "not replayed")), "percent")
            )
            for run in runs
        )
        body += Markup('<tr><th scope="row">{}, {}</th>{}</tr>').format(cpu, tlb, cells)
    return Markup(
        '<div class="wide" tabindex="0" role="region" aria-label="{}"><table><thead><tr><th scope="col">processor, TLB'
        "</th>{}</tr></thead><tbody>{}</tbody></table></div>{}"
    ).format(TITLE, head, body, notes.render())


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
