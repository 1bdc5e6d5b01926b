# SPDX-License-Identifier: MIT
"""The modes of Linux on the Itanium machine beside each other: what its TLB misses, and who serves it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, reference, tables
from abh.report.study import Number, Study, divide, missing, within
from abh.schema import spec
from abh.schema.spec import Run

ORDER = 100
COMMAND = "abh study --group itanium"
TITLE = "Superpages and the page table's walker"
CAPTION = (
    "Itanium's walker reads a linear table (sf) or a hash table (lf), or is off (none); with -lp, Linux maps anonymous "
    "memory by superpages of 64 KiB to 16 MiB too, which a walker of the linear table cannot insert, and one of the "
    "hash table finds by the base page alone that was met. Counted from the start of a workload to its end, system "
    "calls and interrupts included. Cycles are modelled: counts times a table of costs, at least and at most "
    "(vm-configs/costs/madison.toml). Beside them, for reference, is what a thesis measured on a real processor."
)
KINDS = ("counted", "modelled", "reference")
GROUP, ENVIRONMENT, PAPER = "itanium", "itanium", "wienand"
SIDES = ("data", "instruction")


@dataclass(frozen=True)
class Quantity:
    """A number of a run, how it is printed, and where another end of a band is its second."""

    name: str
    title: str
    style: str
    value: Callable[[Study, Run], Number]
    most: Callable[[Study, Run], Number] | None = None
    paper: tuple[str, str] | None = None  # the reference's table and quantity


def _plain(key: str) -> Callable[[Study, Run], Number]:
    return lambda study, run: study.value(run, key)


def _both(key: str) -> Callable[[Study, Run], Number]:
    """The sum over data and instructions."""

    def value(study: Study, run: Run) -> Number:
        one, other = (study.value(run, f"{side}_{key}") for side in SIDES)
        lost = next((each for each in (one, other) if each.value is None), None)
        return lost or replace(one, value=one.value + other.value)  # type: ignore[operator]

    return value


def _walker_share(study: Study, run: Run) -> Number:
    hits, misses = _both("tlb_walker_insertions")(study, run), _both("tlb_misses_l2")(study, run)
    return divide(hits, replace(misses, unit=hits.unit) if misses.value is not None else misses)


QUANTITIES = (
    Quantity("alloc_ratio", "Share of the memory allocated by faults that came as superpages", "percent",
             _plain("alloc_ratio")),
    Quantity("minor_faults", "Page faults", "count", _plain("minor_faults")),
    Quantity("superpages_demoted", "Superpages demoted", "count", _plain("superpages_demoted")),
    Quantity("misses", "Misses of the TLB's second level", "count", _both("tlb_misses_l2")),
    Quantity("walker_hits", "Of these, served by the walker", "count", _both("tlb_walker_insertions")),
    Quantity("walker_share", "The walker's share of them", "percent", _walker_share, paper=("matrix", "walker_share")),
    Quantity("walks_ended", "Walks that inserted nothing", "count", _plain("walks_ended")),
    Quantity("instructions", "Instructions", "count", _plain("instructions")),
    Quantity("instructions_in_handlers", "Of these, while interruptions were not collected, as in handlers of misses",
             "count", _plain("instructions_in_handlers")),
    Quantity("cycles_a_reload", "Cycles of a reload (modelled, an estimate)", "plain", _plain("cycles_a_reload_low"),
             _plain("cycles_a_reload_high"), ("reload", "cycles_a_miss")),
)  # fmt: skip


def _runs(study: Study) -> Study | None:
    return within(study, GROUP)


def _modes() -> list[str]:
    return list(spec.policies(group=GROUP))


def _workloads(found: Study) -> list[str]:
    return sorted({run.workload for run in found.results})


def _of_paper(quantity: Quantity) -> dict[str, Number]:
    """Mode to number; shares as shares."""
    if not quantity.paper:
        return {}
    name, key = quantity.paper
    rows = {mode: row[key] for mode, row in reference.read(PAPER, name).items()}
    return {mode: each.map(lambda x: x / 100) if each.unit == "%" else each for mode, each in rows.items()}


def _lines(found: Study) -> Iterator[tuple[Quantity, str, Run, Number]]:
    """Every number: of which quantity, which end of its band, which run."""
    for quantity in QUANTITIES:
        ends = {"": quantity.value} if quantity.most is None else {"_low": quantity.value, "_high": quantity.most}
        for workload in _workloads(found):
            for run in (Run(workload, ENVIRONMENT, mode) for mode in _modes()):
                for end, value in ends.items():
                    if run in found.results:
                        yield quantity, end, run, value(found, run)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    found = _runs(study)
    return [
        figures.cell_row(found, run, value, quantity=f"{quantity.name}{end}")
        for quantity, end, run, value in (_lines(found) if found else ())
        if found
    ]


def render(study: Study) -> Markup:
    """The HTML: a table for each quantity, with a row for each workload and a column for each mode."""
    found = _runs(study)
    if not found:
        return Markup("<p>Not run here: <code>{}</code> does it.</p>").format(COMMAND)
    notes = panels.Notes("note-itanium")
    parts = []
    for quantity in QUANTITIES:
        rows = [(name, [_shown(notes, found, quantity, name, mode) for mode in _modes()]) for name in _workloads(found)]
        if theirs := _of_paper(quantity):
            cells = [notes.show(theirs.get(mode, missing("not in the thesis")), quantity.style) for mode in _modes()]
            what = "matrix" if quantity.name == "walker_share" else "vortex, measured"
            rows.append((f"reference: thesis, {what}", cells))
        parts.append(tables.table(TITLE, ["workload", *_modes()], rows, quantity.title))
    return Markup("").join(parts) + notes.render()


def _shown(notes: panels.Notes, found: Study, quantity: Quantity, workload: str, mode: str) -> Markup:
    run = Run(workload, ENVIRONMENT, mode)
    low = quantity.value(found, run)
    if quantity.most is None or low.value is None:
        return notes.show(low, quantity.style)
    return notes.between(low, quantity.most(found, run), quantity.style)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
