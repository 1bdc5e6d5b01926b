# SPDX-License-Identifier: MIT
"""Other organisations of page tables and TLB refill: runs recorded once, replayed through each; made-up workloads."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from abh import arguments, output, paths
from abh.errors import AbhError, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from abh.model.organisations import Batch
    from abh.schema.result import Size

HELP = "record runs, and replay each through other organisations of page tables and TLB refill"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    arguments.add_cell(
        parser,
        "cells",
        nargs="*",
        help="`abh list` shows the names; without any: one program natively and in guests of KVM and Xen, with ABH "
        "and without, and made-up workloads on the tables alone",
    )
    parser.add_argument("--size", choices=("smoke", "paper"), default="smoke", help="default: %(default)s")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Record, replay, write analysis/measured/mmu/organisations/<run>.json."""
    from abh.model import organisations

    with output.report(args.json) as report:
        found = []
        for name in args.cells or organisations.RUNS:
            path, again = _replayed(name, args.size, organisations.wanted(None if args.cells else name))
            print(path if again else f"{path}: holds")
            found.append({"path": str(path), "made_now": again, "organisations": organisations.read(path)})
        report.update(runs=found)
        if not args.cells:
            path, again = _made_up()
            print(path if again else f"{path}: holds")
            for name in organisations.PROGRAMS:
                of_program, made_now = _program(name)
                print(of_program if made_now else f"{of_program}: holds")
            report.update(made_up={"path": str(path), "made_now": again, "workloads": organisations.read_made_up(path)})
    return Status.SUCCESS


def _replayed(name: str, size: Size, wanted: Sequence[Batch]) -> tuple[Path, bool]:
    """The file, and whether anything of it was made just now. The trace and what is replayed are kept, so that an
    interrupted command goes on with the next batch; the trace goes when all is done."""
    from abh import progress
    from abh.build import cache, components
    from abh.model import mmu, organisations
    from abh.schema import result
    from abh.study import cell, matrix

    kept = paths.cache() / "traces"
    one = cell.Cell.of(name, size, trace=kept / mmu.TRACE)
    key = cache.key_of(matrix.fingerprint(one), components.key_of("mmu"))
    path = paths.MEASURED / paths.of_size(size) / mmu.FOLDER / organisations.FOLDER / f"{one.run}.json"
    replays, batches = organisations.left(path, key, wanted)
    total = len(batches)
    for every_fetch in (False, True):
        mine = [batch for batch in batches if batch.every_fetch == every_fetch]
        folder = kept / f"{key}{'-every-fetch' if every_fetch else ''}"
        if mine and not (folder / mmu.TRACE).exists():
            _record(name, size, folder, every_fetch)
        for batch in mine:
            number = total - len(batches) + 1
            with progress.step(f"{number} of {total}: {', '.join(batch.organisations)} on {batch.name}"):
                said = json.loads(mmu.program(["organisations", mmu.TRACE, *batch.words], folder))
            replays += [{**each, "batch": " ".join(batch.words)} for each in said]
            found = {"run": str(one.run), "size": size, "fingerprint": key, "replays": replays}
            result.write_json(found, path)
            batches.remove(batch)
        if mine:
            shutil.rmtree(folder)
    return path, total > 0


def _record(name: str, size: Size, folder: Path, every_fetch: bool) -> None:
    """Make the folder with the run's trace in it, whole or not at all."""
    from abh import progress
    from abh.model import mmu
    from abh.study import cell

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".recording-") as scratch:
        one = cell.Cell.of(name, size, trace=Path(scratch) / mmu.TRACE, every_fetch=every_fetch)
        with progress.step(f"recording {one.run} ({size}){', every fetch' if every_fetch else ''}"):
            made = cell.run(one)
        if made.outcome != "success":
            raise AbhError(
                f"the run to be recorded did not succeed: {made.outcome}",
                where=one.run,
                got=made.reason,
                status=Status.SKIP if made.outcome == "skip" else Status.FAILED,
            )
        folder.mkdir(exist_ok=True)
        os.replace(Path(scratch) / mmu.TRACE, folder / mmu.TRACE)


def _program(name: str) -> tuple[Path, bool]:
    """A program of the thesis that was written anew, through the thesis's organisations: the file, and whether it was
    made just now."""
    from abh import progress
    from abh.build import components
    from abh.model import mmu, organisations
    from abh.schema import result

    path = paths.MEASURED / mmu.FOLDER / organisations.FOLDER / organisations.of_program(name)
    key = components.key_of("mmu")
    if path.exists() and organisations.read_program(path)["fingerprint"] == key:
        return path, False
    step = progress.step(f"{name}, written anew, through the thesis's organisations")
    with tempfile.TemporaryDirectory(prefix="abh-organisations-") as scratch, step:
        folder = Path(scratch)
        accesses = str(organisations.PROGRAMS[name])
        mmu.program(["synth", mmu.TRACE, "--program", name, "--accesses", accesses], folder, writes=True)
        replays = [
            each
            for batch in organisations.OF_PROGRAMS
            for each in json.loads(mmu.program(["organisations", mmu.TRACE, *batch.words], folder))
        ]
    result.write_json({"program": name, "fingerprint": key, "kind": "modelled", "replays": replays}, path)
    return path, True


def _made_up() -> tuple[Path, bool]:
    """The made-up workloads of the thesis on its tables: the file, and whether it was made just now."""
    from abh import progress
    from abh.build import components
    from abh.model import mmu, organisations
    from abh.schema import result

    path = paths.MEASURED / mmu.FOLDER / organisations.FOLDER / organisations.MADE_UP
    key = components.key_of("mmu")
    if path.exists() and organisations.read_made_up(path)["fingerprint"] == key:
        return path, False
    step = progress.step("made-up workloads on the tables alone")
    with tempfile.TemporaryDirectory(prefix="abh-organisations-") as scratch, step:
        said = json.loads(mmu.program(["thesis"], Path(scratch)))
    result.write_json({"fingerprint": key, **said}, path)
    return path, True
