# SPDX-License-Identifier: MIT
"""Other organisations of page tables and TLB refill for one run: recorded once, replayed through each."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from abh import arguments, output, paths
from abh.errors import AbhError, Status

HELP = "record one run, and replay it through other organisations of page tables and TLB refill"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    arguments.add_cell(parser, "cell")
    parser.add_argument("--size", choices=("smoke", "paper"), default="smoke", help="default: %(default)s")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Record, replay, write analysis/measured/mmu/organisations/<run>.json."""
    from abh.model import organisations

    with output.report(args.json) as report:
        path, again = _replayed(args)
        print(path if again else f"{path}: holds")
        report.update(path=str(path), made_now=again, organisations=organisations.read(path))
    return Status.SUCCESS


def _replayed(args: argparse.Namespace) -> tuple[Path, bool]:
    """The file, and whether anything of it was made just now. What is replayed is kept, so that an interrupted command
    goes on with the next batch; the run is recorded again then, which gives the same trace."""
    from abh import progress
    from abh.build import cache, components
    from abh.model import mmu, organisations
    from abh.schema import result
    from abh.study import cell, matrix

    with tempfile.TemporaryDirectory(prefix="abh-organisations-") as scratch:
        one = cell.Cell.of(args.cell, args.size, trace=Path(scratch) / mmu.TRACE)
        key = cache.key_of(matrix.fingerprint(one), components.key_of("mmu"), *map(str, organisations.BATCHES))
        place = paths.MEASURED / paths.of_size(args.size) / mmu.FOLDER / organisations.FOLDER
        path = place / f"{one.run}.json"
        replays, batches = organisations.left(path, key)
        if not batches:
            return path, False
        with progress.step(f"recording {one.run} ({args.size})"):
            made = cell.run(one)
        if made.outcome != "success":
            raise AbhError(
                f"the run to be recorded did not succeed: {made.outcome}",
                where=one.run,
                got=made.reason,
                status=Status.SKIP if made.outcome == "skip" else Status.FAILED,
            )
        for number, batch in enumerate(batches, start=1):
            with progress.step(f"{number} of {len(batches)}: {', '.join(batch.organisations)} on {batch.name}"):
                replays += json.loads(mmu.program(["organisations", mmu.TRACE, *batch.words], Path(scratch)))
            found = {"run": str(one.run), "size": args.size, "fingerprint": key, "replays": replays}
            result.write_json(found, path)
    return path, True
