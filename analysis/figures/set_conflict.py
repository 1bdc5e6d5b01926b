# SPDX-License-Identifier: MIT
"""What the random offsets are for: chunks that are walked in lock-step, with them and without (abh section 6.2)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.compare import allocators
from abh.model import mmu
from abh.report import figures, groups, modelled, panels, tables
from abh.report.study import Number, Study, divide, missing
from abh.schema.spec import Run

ORDER = 66
COMMAND = "make controls"
TITLE = "Offsets against set conflicts"
CAPTION = (
    "set-conflict walks large chunks in lock-step; the paper's worst case without offsets was 60% slower. Congruent "
    "chunks start on the same cache line modulo 2 MB and meet in one set of the caches that a core has for itself. A "
    "last-level cache in slices spreads them by a hash of the address: over four sets on the i7-3770, whose hash is "
    "known; on the others the model has none, and conflicts in their L3 are overstated. Emulation has no caches: the "
    "model of the MMU sends data through its own; its estimate of cycles is a proportion of stated costs, from half of "
    "a page walk's cycles to all of them. Malloc's half is measured on this machine as well."
)
KINDS = ("counted", "modelled", "measured")  # in tables of their own, never on one axis
WORKLOAD = "set-conflict"
GROUP = "controls"
WITHOUT = "abh-no-offset"
POLICIES = ("thp", "abh", WITHOUT)
SERVED = {"l1": "L1", "l2": "L2", "l3": "L3", "memory": "memory"}
ALLOCATORS = ("stock", "patched abh=1", "patched abh=1, no offset")


def share(study: Study, run: Run, place: str) -> Number:
    """The share of the data accesses, of all layers, that this cache served."""
    parts = {name: study.value(run, f"data_refs_{name}") for name in SERVED}
    if lost := next((part for part in parts.values() if part.value is None), None):
        return lost
    total = sum(part.value for part in parts.values() if part.value is not None)
    if not total:
        return missing("the model of the MMU was not told to send data through its caches")
    return divide(parts[place], Number(total, parts[place].unit, parts[place].kind))


def _studies(study: Study) -> Iterator[tuple[str, Study]]:
    """Where the numbers of chunks are, then each processor of the model."""
    if found := groups.study_of(study, GROUP, POLICIES[:-1]):
        yield "", found
    yield from modelled.studies(study).items()


def _runs(study: Study) -> list[Run]:
    """Only where the offsets were switched off: there is nothing to compare elsewhere."""
    where = [run.environment for run in study.results if run.workload == WORKLOAD and run.policy == WITHOUT]
    return [Run(WORKLOAD, environment, policy) for environment in sorted(where) for policy in POLICIES]


def _lines(study: Study) -> list[allocators.Line]:
    found = allocators.read(study.folder / allocators.RESULT) if study.folder else []
    return [line for line in found if line.workload == WORKLOAD and line.allocator in ALLOCATORS]


def table(study: Study) -> list[dict[str, object]]:
    """The CSV: counted, modelled, measured."""
    rows: list[dict[str, object]] = []
    for cpu, one in _studies(study):
        names = [(f"data_refs_{place}", place) for place in SERVED] if cpu else [("congruent", "")]
        names += [(name, "") for name in mmu.ESTIMATES] if cpu else []
        rows += [
            {"cpu": cpu or "n/a", "quantity": name, **figures.cell_row(one, run, _value(one, run, name, place))}
            for run in _runs(one)
            for name, place in names
        ]
    for line in _lines(study):
        rows.append(
            {
                "cpu": "this machine", "quantity": "time of stock", "workload": WORKLOAD, "environment": "this machine",
                "policy": line.allocator, "size": line.size, "value": line.time_ratio, "unit": "ratio",
                "kind": "measured", "reason": "",
            }
        )  # fmt: skip
    return rows


def _value(study: Study, run: Run, name: str, place: str) -> Number:
    return share(study, run, place) if place else study.value(run, name)


def render(study: Study) -> Markup:
    """The HTML."""
    notes = panels.Notes("note-set-conflict")
    parts = [_counted(cpu, one, notes) for cpu, one in _studies(study) if _runs(one)]
    if lines := _lines(study):
        cells = [(line.allocator, [Markup("{}").format(cell) for cell in allocators.cells(line)]) for line in lines]
        parts.append(tables.table(TITLE, ["malloc", *allocators.COLUMNS], cells, "this machine, measured and counted"))
    if not parts:
        return Markup("<p>Not run here: <code>make controls</code> counts, <code>make allocators</code> measures.</p>")
    return Markup("").join(parts) + notes.render()


def estimate(study: Study, run: Run) -> list[Number]:
    """The model's cycles over those of ABH with its offsets, at either end of the band."""
    return [study.relative(run, name, POLICIES[1]) for name in mmu.ESTIMATES]


def _counted(cpu: str, study: Study, notes: panels.Notes) -> Markup:
    if not cpu:
        rows = [(_name(run), [tables.shown(notes, study.value(run, "congruent"), "count")]) for run in _runs(study)]
        return tables.table(TITLE, ["run", "congruent chunks"], rows, "chunks")
    rows = [
        (
            _name(run),
            [
                *(tables.shown(notes, share(study, run, place), "percent") for place in SERVED),
                notes.between(*estimate(study, run), "times"),
            ],
        )
        for run in _runs(study)
    ]
    heads = [*(f"served by {name}" for name in SERVED.values()), f"estimated cycles, of {POLICIES[1]}"]
    return tables.table(TITLE, ["run", *heads], rows, f"data accesses, {cpu}")


def _name(run: Run) -> str:
    return f"{run.environment}, {run.policy}"


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
