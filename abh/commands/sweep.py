# SPDX-License-Identifier: MIT
"""Other processors, and other sizes of TLB, for one run: recorded once, replayed on each."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from abh import paths
from abh.errors import AbhError

HELP = "record one run, and replay it on every processor of the MMU model and over sizes of its TLBs"
SIZES = {"i7-3770": {"dtlb-2m": (8, 16, 32, 64, 128), "stlb": (128, 256, 512, 1024, 2048)}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("cell", metavar="WORKLOAD@ENVIRONMENT~POLICY", help="`abh list` shows the names")
    parser.add_argument("--size", choices=("smoke", "paper"), default="smoke", help="default: %(default)s")


def run(args: argparse.Namespace) -> int:
    """Record, replay, write analysis/measured/mmu/sweep/<run>.json."""
    from abh.bench import build, cache, cell, matrix, mmu, progress, result

    place = paths.MEASURED / mmu.FOLDER / mmu.SWEEP
    with tempfile.TemporaryDirectory(prefix="abh-sweep-") as scratch:
        trace = Path(scratch) / mmu.TRACE
        one = cell.Cell.of(args.cell, args.size, trace=trace)
        key = cache.key_of(matrix.fingerprint(one), build.key_of("mmu"), *map(str, _replays()))
        path = place / f"{one.run}.json"
        if path.exists() and mmu.read_sweep(path)["fingerprint"] == key:
            print(f"{path}: holds")
            return 0
        with progress.step(f"recording {one.run} ({args.size})"):
            made = cell.run(one)
        if made.outcome != "success":
            raise AbhError(f"the run to be recorded did not succeed: {made.outcome}", where=one.run, got=made.reason)
        replayed = []
        for words in _replays():
            with progress.step(f"replaying on {' '.join(words)}"):
                replayed += json.loads(mmu.program(["replay", mmu.TRACE, *words], Path(scratch)))
    sweep = {"run": str(one.run), "size": args.size, "fingerprint": key, "replays": replayed}
    result.write_json(sweep, path)
    print(path)
    return 0


def _replays() -> list[list[str]]:
    """Options of abh-mmu: all processors as they are, then each sweep."""
    from abh.bench import mmu

    every = [word for name in mmu.cpus() for word in ("--cpu", name)]
    swept = [
        ["--cpu", cpu, "--sweep", f"{tlb}={','.join(map(str, sizes))}"]
        for cpu, tlbs in SIZES.items()
        for tlb, sizes in tlbs.items()
    ]
    return [every, *swept]
