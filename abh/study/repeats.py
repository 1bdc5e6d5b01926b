# SPDX-License-Identifier: MIT
"""A study on a real machine's own hypervisor: every cell several times, in random order, and medians with intervals.

Time is measured here, so no two runs agree and one says little. The runs of all cells are shuffled together: what
drifts while a study takes its hours is then no policy's alone. Each run is kept as it ends, so the same command goes on
where it was ended; a run that was made on another machine or kernel does not count.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from abh.collect import here, session, spread
from abh.errors import AbhError
from abh.schema import result
from abh.schema.measured import Measured
from abh.schema.result import OUTCOMES, Result, write_json
from abh.schema.strict import kebab
from abh.study import graph, matrix
from abh.study.cell import Cell

FOLDER = "repeats"  # within that of single runs
NAMED = "machine"  # which machine the runs of a folder are of


def order(cells: Sequence[Cell], repeats: int, seed: int) -> list[tuple[int, Cell]]:
    """(number, cell) of every run, shuffled."""
    every = [(number, one) for number in range(repeats) for one in cells]
    random.Random(seed).shuffle(every)
    return every


def perform(
    cells: Sequence[Cell],
    folder: Path,
    once: Callable[[Cell], Result],
    *,
    repeats: int,
    seed: int,
    tell: Callable[[str], None],
    elsewhere: str = "",
) -> list[Measured]:
    """Makes the runs that are lacking, and each cell's medians, which are written beside those of `abh collect`.

    `elsewhere` names the place where `once` makes them, if that is not this machine.
    """
    folder /= FOLDER
    machine = None
    if elsewhere:
        folder /= elsewhere
    else:
        machine = here.find()
        _of_this_machine(folder, machine.text)
    planned = order(cells, repeats, seed)
    for count, (number, one) in enumerate(planned, 1):
        place = folder / str(number)
        if matrix.holds(place, one):
            continue
        made = graph.perform(one, place, once)
        tell(f"{count:4}/{len(planned)}  {one.run}, run {number + 1}: {made.outcome}{_took(made)}")
    merged = [_merged(one, folder, repeats, seed, machine) for one in cells]
    for each in merged:
        write_json(each.model_dump(), measured_folder(elsewhere) / f"{each.run}.json")
    return merged


def measured_folder(elsewhere: str = "") -> Path:
    """Where what was measured on this host, or elsewhere, is."""
    import platform

    return session.FOLDER / (elsewhere or kebab(platform.node() or "host"))


def _of_this_machine(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    named = folder / NAMED
    if named.exists() and named.read_text(encoding="utf-8") != text:
        raise AbhError(
            "the runs that are here were made on another machine, kernel or setting",
            where=folder,
            got=text,
            expected=named.read_text(encoding="utf-8"),
            next_step="set this machine back, or move the folder away to begin anew",
        )
    named.write_text(text, encoding="utf-8")


def _took(made: Result) -> str:
    value = made.values.get("elapsed")
    return f", {value.value:.3f} s" if value is not None and value.value is not None else ""


def _one_machine(runs: Sequence[Result], where: object) -> str:
    """What the runs' own results say of the machine, which is one: of a cluster each run may have had another node."""
    texts = sorted({each.provenance.machine for each in runs if each.outcome != "error"})  # those may be of here
    if len(texts) > 1:
        raise AbhError(
            "the runs of a cell were made on machines that are not alike",
            where=where,
            got=" / ".join(texts),
            next_step="name one node, or nodes of one kind, in --through; move the folder away to begin anew",
        )
    return texts[0] if texts else runs[0].provenance.machine


def _merged(one: Cell, folder: Path, repeats: int, seed: int, machine: here.Machine | None) -> Measured:
    runs = [result.read(folder / str(number) / f"{one.run}.json") for number in range(repeats)]
    worst = max(runs, key=lambda each: OUTCOMES.index(each.outcome))
    text = machine.text if machine else _one_machine(runs, folder)
    processor = (machine.cpu.named or str(machine.cpu)) if machine else text.partition(" (")[0]
    good = [each.values for each in runs if each.outcome == "success"]
    provenance = worst.provenance.model_copy(
        update={
            "command": f"{worst.provenance.command} (one of {repeats} runs, in the order of seed {seed})",
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": text,
        }
    )
    return Measured(
        run=str(one.run),
        workload=one.run.workload,
        environment=one.run.environment,
        policy=one.run.policy,
        size=one.size,
        outcome=worst.outcome,
        reason=worst.reason,
        values=spread.merge([dict(each) for each in good]),
        repeats=repeats,
        processor=processor,
        microarchitecture=None,
        provenance=provenance,
    )
