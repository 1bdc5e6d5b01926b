# SPDX-License-Identifier: MIT
"""Other processors, and other sizes of TLB, for one run: recorded once, replayed on each."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from abh import arguments, output, paths
from abh.errors import Status

BEGINS_ANEW = True
HELP = "record one run, and replay it on every processor of the MMU model and over sizes of its TLBs"
SIZES = {"i7-3770": {"dtlb-2m": (8, 16, 32, 64, 128), "stlb": (128, 256, 512, 1024, 2048)}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    arguments.add_cell(parser, "cell")
    parser.add_argument("--size", choices=("smoke", "paper"), default="smoke", help="default: %(default)s")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Record, replay, write analysis/measured/mmu/sweep/<run>.json."""
    from abh.model import mmu

    with output.report(args.json) as report:
        path, again = _swept(args)
        print(path if again else f"{path}: holds")
        report.update(path=str(path), made_now=again, sweep=mmu.read_sweep(path))
    return Status.SUCCESS


def _swept(args: argparse.Namespace) -> tuple[Path, bool]:
    """The file, and whether it was made just now."""
    from abh import progress
    from abh.build import cache, components
    from abh.model import mmu
    from abh.schema import result
    from abh.study import cell, matrix, replays

    place = paths.MEASURED / paths.of_size(args.size) / mmu.FOLDER / mmu.SWEEP
    with tempfile.TemporaryDirectory(prefix="abh-sweep-") as scratch:
        trace = Path(scratch) / mmu.TRACE
        one = cell.Cell.of(args.cell, args.size, trace=trace)
        key = cache.key_of(matrix.fingerprint(one), components.key_of("mmu"), *map(str, _replays()))
        path = place / f"{one.run}.json"
        if path.exists() and mmu.read_sweep(path)["fingerprint"] == key:
            return path, False
        replays.record(one)
        replayed = []
        for words in _replays():
            with progress.step(f"replaying on {' '.join(words)}"):
                replayed += json.loads(mmu.program(["replay", mmu.TRACE, *words], Path(scratch)))
    sweep = {"run": str(one.run), "size": args.size, "fingerprint": key, "replays": replayed}
    result.write_json(sweep, path)
    return path, True


def _replays() -> list[list[str]]:
    """Options of abh-mmu: all processors as they are, then each sweep."""
    from abh.model import mmu

    every = [word for name in mmu.cpus() for word in ("--cpu", name)]
    swept = [
        ["--cpu", cpu, "--sweep", f"{tlb}={','.join(map(str, sizes))}"]
        for cpu, tlbs in SIZES.items()
        for tlb, sizes in tlbs.items()
    ]
    return [every, *swept]
