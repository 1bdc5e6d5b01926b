# SPDX-License-Identifier: MIT
"""Replays through other organisations of page tables as steps that need each other: runs are recorded, each trace is
replayed by several batches, and goes. While one run is recorded, another is replayed; each step has one processor."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from abh import paths, progress
from abh.build import cache, components
from abh.errors import AbhError, Status
from abh.model import mmu, organisations
from abh.model.organisations import Batch
from abh.schedule import Step
from abh.schema import result
from abh.schema.result import Size
from abh.study import cell, graph, matrix

MODEL = "mmu"  # the component
TRACES = 3  # that are there at once: while one is recorded, others are replayed; more would only fill the disk
RECORDING_MINUTES = 1.2
MADE_UP_MINUTES = 1.0
WHOLE = 300_000_000  # accesses of a run of size smoke, about
SPEED = 40e6  # accesses that one replay hears a second, about
REPLAY_MIB = 16  # that one replay takes, about
MODEL_PROCESSOR = ("--jobs", "1")  # batches run side by side, which loses less than threads that wait for each other


def record(one: cell.Cell, how: str = "") -> None:
    """Runs a cell for its trace, which its options name; an error if it did not succeed."""
    with progress.step(f"recording {one.run} ({one.size}){how}"):
        made = cell.run(one)
    if made.outcome != "success":
        raise AbhError(
            f"the run to be recorded did not succeed: {made.outcome}",
            where=one.run,
            got=made.reason,
            status=Status.SKIP if made.outcome == "skip" else Status.FAILED,
        )


def _told(folder: Path, batch: Batch) -> list[dict[str, Any]]:
    """What abh-mmu says of a batch."""
    words = ["organisations", mmu.TRACE, *MODEL_PROCESSOR, *batch.words]
    said: list[dict[str, Any]] = json.loads(mmu.program(words, folder))
    return said


class Run:
    """The file of one run's replays. What is replayed is kept, and the trace until nothing more is to be replayed, so
    that an interrupted command goes on with what is left."""

    def __init__(self, name: str, size: Size, wanted: Sequence[Batch]) -> None:
        self.name, self.size = name, size
        self.traces = paths.cache() / "traces"
        one = self._cell(self.traces, False)
        self.key = cache.key_of(matrix.fingerprint(one), components.key_of(MODEL))
        folder = paths.MEASURED / paths.of_size(size) / mmu.FOLDER / organisations.FOLDER
        self.path = folder / f"{one.run}.json"
        self.replays, self.left = organisations.left(self.path, self.key, wanted)
        self.made_now = bool(self.left)
        self._writing = threading.Lock()

    def _cell(self, folder: Path, every_fetch: bool) -> cell.Cell:
        return cell.Cell.of(self.name, self.size, trace=folder / mmu.TRACE, every_fetch=every_fetch)

    def folder(self, every_fetch: bool) -> Path:
        """Where its trace is kept."""
        return self.traces / f"{self.key}{'-every-fetch' if every_fetch else ''}"

    def recording(self, every_fetch: bool, needs: frozenset[str]) -> list[Step]:
        """The step that records it, then those that this needs."""
        name = f"record {self.name}{', every fetch' if every_fetch else ''}"
        if (self.folder(every_fetch) / mmu.TRACE).exists():
            return [Step(name, lambda: None, needs, 0.01, 0)]
        one = self._cell(self.traces, every_fetch)
        boot, *parts = graph.of_boot(one)
        memory = one.machine.memory_mib[self.size] + graph.EMULATOR_MIB
        do = partial(self._record, every_fetch)
        return [Step(name, do, needs | {boot.name}, RECORDING_MINUTES, memory), boot, *parts]

    def _record(self, every_fetch: bool) -> None:
        """Make the folder with the run's trace in it, whole or not at all."""
        self.traces.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.traces, prefix=".recording-") as scratch:
            one = self._cell(Path(scratch), every_fetch)
            record(one, ", every fetch" if every_fetch else "")
            self.folder(every_fetch).mkdir(exist_ok=True)
            os.replace(Path(scratch) / mmu.TRACE, self.folder(every_fetch) / mmu.TRACE)

    def batch(self, batch: Batch, recorded: str) -> Step:
        """The step that replays a batch."""
        about = f"{self.name}: {', '.join(batch.organisations)} on {batch.name}"
        minutes = batch.replays * (2 * batch.part or WHOLE) / SPEED / 60
        do = partial(self._replay, batch, about)
        return Step(about, do, frozenset({recorded}), minutes, REPLAY_MIB * batch.replays)

    def _replay(self, batch: Batch, about: str) -> None:
        with progress.step(about):
            said = _told(self.folder(batch.every_fetch), batch)
        with self._writing:
            self.replays += [{**each, "batch": " ".join(batch.words)} for each in said]
            found = {"run": self.name, "size": self.size, "fingerprint": self.key, "replays": self.replays}
            result.write_json(found, self.path)


def of_runs(runs: Sequence[Run]) -> Iterator[Step]:
    """Records what is to be replayed, replays it, removes the traces."""
    gone: list[str] = []
    for run in runs:
        for every_fetch in (False, True):
            mine = [batch for batch in run.left if batch.every_fetch == every_fetch]
            if not mine:
                continue
            before = frozenset({gone[-TRACES]} if len(gone) >= TRACES else ())
            recording, *parts = run.recording(every_fetch, before)
            batches = [run.batch(batch, recording.name) for batch in mine]
            gone.append(f"after {recording.name}")
            remove = partial(shutil.rmtree, run.folder(every_fetch))
            yield from (recording, *parts, *batches)
            yield Step(gone[-1], remove, frozenset(each.name for each in batches), 0.01, 0)


class Other:
    """A file that needs no run: of a program that was written anew, or of the made-up workloads."""

    def __init__(self, name: str, read: Callable[[Path], dict[str, Any]], make: Callable[[Path], dict[str, Any]]):
        self.name, self._make = name, make
        self.path = paths.MEASURED / mmu.FOLDER / organisations.FOLDER / name
        self.key = components.key_of(MODEL)
        self.made_now = not self.path.exists() or read(self.path)["fingerprint"] != self.key

    def _do(self) -> None:
        with tempfile.TemporaryDirectory(prefix="abh-organisations-") as scratch, progress.step(self.name):
            result.write_json({"fingerprint": self.key, **self._make(Path(scratch))}, self.path)

    def steps(self) -> list[Step]:
        """What makes it, if it is to be made."""
        if not self.made_now:
            return []
        return [Step(self.name, self._do, frozenset({MODEL}), MADE_UP_MINUTES), *graph.of_components([MODEL])]


def program(name: str) -> Other:
    """A program of the thesis that was written anew, through the thesis's organisations."""

    def make(folder: Path) -> dict[str, Any]:
        accesses = str(organisations.PROGRAMS[name])
        mmu.program(["synth", mmu.TRACE, "--program", name, "--accesses", accesses], folder, writes=True)
        said = [each for batch in organisations.OF_PROGRAMS for each in _told(folder, batch)]
        return {"program": name, "kind": "modelled", "replays": said}

    return Other(organisations.of_program(name), organisations.read_program, make)


def made_up() -> Other:
    """The made-up workloads of the thesis on its tables alone."""

    def make(folder: Path) -> dict[str, Any]:
        return dict(json.loads(mmu.program(["thesis"], folder)))

    return Other(organisations.MADE_UP, organisations.read_made_up, make)
