# SPDX-License-Identifier: MIT
"""How fast the MMU model is, live and in replay. These are times of this machine: run it when nothing else runs."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from abh.errors import AbhError

if TYPE_CHECKING:
    from abh.bench import machine

HELP = "measure the MMU model's speed, live and in replay; the last line is one JSON object"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--cell", default="set-conflict@kvm-hap~thp", help="default: %(default)s")
    parser.add_argument("--mmu", default="i7-3770", metavar="CPU", help="default: %(default)s")
    parser.add_argument("--runs", type=int, default=3, help="of each, in turn (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run the cell without and with the model in turn, then replay its trace on one and on all processors."""
    from abh.bench import cell, mmu, progress

    load = [os.getloadavg()[0]]
    plain, modelled = (cell.Cell.of(args.cell, "smoke", **options) for options in ({}, {"mmu": args.mmu}))
    cell.emulate(plain)  # builds, boots and warms the page cache
    without, beside, accesses = [], [], 0
    for turn in range(args.runs):
        with progress.step(f"run {turn + 1} of {args.runs}, without and with the model"):
            without.append(_seconds(cell.emulate(plain)))
            ended = cell.emulate(modelled)
            beside.append(_seconds(ended))
            accesses = int(mmu.read(ended.model)["counters"]["layers"]["total"]["accesses"])
    ratios = [after / before for before, after in zip(without, beside, strict=True)]
    added = statistics.median(beside) - statistics.median(without)
    found = {
        "cell": args.cell,
        "cpu": args.mmu,
        "kind": "measured",
        "accesses": accesses,
        "seconds_without": statistics.median(without),
        "seconds_with": statistics.median(beside),
        "ratio": statistics.median(ratios),
        # The rest of the run, outside the region and in the emulator, is in it too: a lower bound of the model's speed.
        "live_accesses_per_second": accesses / statistics.median(beside),
        # The emulator's own time taken off, what is left is the model with its callbacks; none if it drowns in noise.
        "added_accesses_per_second": accesses / added if added > 0 else None,
        **_replayed(args, accesses),
        "load_before_and_after": [*load, os.getloadavg()[0]],  # more than 0 before: others ran too, and the times lie
    }
    print("\n".join(f"{name:36} {value:,.2f}" for name, value in found.items() if isinstance(value, float)))
    print(json.dumps(found))
    return 0


def _seconds(ended: machine.Ended) -> float:
    if ended.problem:
        raise AbhError("a run that is timed did not end well", got=ended.problem)
    return ended.seconds


def _replayed(args: argparse.Namespace, accesses: int) -> dict[str, float]:
    from abh.bench import cell, mmu, progress

    with tempfile.TemporaryDirectory(prefix="abh-bench-") as scratch:
        folder = Path(scratch)
        with progress.step("recording"):
            recorded = cell.emulate(cell.Cell.of(args.cell, "smoke", trace=folder / mmu.TRACE))
        found = {
            "seconds_recording": _seconds(recorded),
            "trace_bits_per_access": (folder / mmu.TRACE).stat().st_size * 8 / accesses,
        }
        for threads in sorted({1, os.cpu_count() or 1}):
            words = ["replay", mmu.TRACE, "--jobs", str(threads), *["--cpu", args.mmu] * threads]
            start = time.monotonic()
            mmu.program(words, folder)
            found[f"replay_accesses_per_second_{threads}_threads"] = threads * accesses / (time.monotonic() - start)
    return found
