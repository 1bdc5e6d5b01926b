# SPDX-License-Identifier: MIT
"""The page sizes that walks end at, in both dimensions: which hugepages reach the hardware, in each environment."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, modelled, panels
from abh.report.study import Number, Study, divide
from abh.schema.spec import Run

ORDER = 22
COMMAND = "make mmu"
TITLE = "Guest × host page sizes"
CAPTION = (
    "All page walks of a run, by the size of the page they end at. Under HAP a walk has two: the guest's and the "
    "host's, and the TLB holds the smaller. Shadow paging and para-virt leave the hardware one table, the hypervisor's."
)
KINDS = ("modelled",)
SIZES = ("4k", "2m", "1g")
COLUMNS = {f"fills_flat_{size}": size for size in SIZES} | {
    f"fills_{guest}_{host}": f"{guest} × {host}" for guest in SIZES for host in SIZES
}


def share(study: Study, run: Run, name: str) -> Number:
    """The share of the walks that end at these sizes."""
    return divide(study.value(run, name), study.value(run, "walks_completed"))


def table(study: Study) -> list[dict[str, object]]:
    """The CSV: a line for each pair of sizes that occurs."""
    return [
        {"cpu": cpu, **figures.cell_row(one, run, one.value(run, name), pages=pages)}
        for cpu, one in modelled.studies(study).items()
        for run in one.plan.runs()
        if run in one.results
        for name, pages in COLUMNS.items()
        if one.value(run, name).value
    ]


def render(study: Study) -> Markup:
    """The HTML."""
    found = modelled.studies(study)
    return Markup("").join(_one(cpu, one) for cpu, one in found.items()) if found else modelled.nothing()


def _one(cpu: str, study: Study) -> Markup:
    runs = [run for run in study.plan.runs() if run in study.results]
    names = [name for name in COLUMNS if any(study.value(run, name).value for run in runs)]
    notes = panels.Notes(f"note-page-sizes-{cpu}")
    head = Markup("").join(Markup('<th scope="col" class="num">{}</th>').format(COLUMNS[name]) for name in names)
    body = Markup("").join(_row(study, run, names, notes) for run in runs)
    return Markup(
        '<h4>{}</h4><div class="wide" tabindex="0" role="region" aria-label="{} of {}"><table><thead><tr>'
        '<th scope="col">run</th>{}</tr></thead><tbody>{}</tbody></table></div>{}'
    ).format(cpu, TITLE, cpu, head, body, notes.render())


def _row(study: Study, run: Run, names: list[str], notes: panels.Notes) -> Markup:
    cells = Markup("").join(
        Markup('<td class="num">{}</td>').format(notes.show(share(study, run, name), "percent")) for name in names
    )
    return Markup('<tr><th scope="row">{}</th>{}</tr>').format(str(run), cells)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
