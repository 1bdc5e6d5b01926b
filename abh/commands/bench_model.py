# SPDX-License-Identifier: MIT
"""How fast the MMU model is, live and in replay. These are times of this machine: run it when nothing else runs."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from abh import arguments, output
from abh.errors import AbhError, Status

if TYPE_CHECKING:
    from abh.machine import emulated
    from abh.study import cell

SAMPLE_S = 0.05
PART = 20_000_000  # accesses that each organisation is timed for
BEGINS_ANEW = True
HELP = "measure the MMU model's speed, live and in replay"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    arguments.add_cell(parser, "--cell", default="sqlite@kvm-hap~thp", help="default: %(default)s")
    processor = parser.add_argument(
        "--mmu", type=arguments.name("processor"), default="i7-3770", metavar="CPU", help="default: %(default)s"
    )
    arguments.completed(processor, "processor")
    parser.add_argument(
        "--runs", type=arguments.whole(1, 1000), default=3, metavar="N", help="of each, in turn (default: %(default)s)"
    )
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, and print the speeds."""
    with output.report(args.json) as report:
        found = _measured(args)
        speeds = {**found, **_organisations(args)}
        print("\n".join(f"{name:60} {value:,.2f}" for name, value in speeds.items() if isinstance(value, float)))
        found.update(organisations={name: value for name, value in speeds.items() if name not in found})
        report.update(found)
    return Status.SUCCESS


def _measured(args: argparse.Namespace) -> dict[str, object]:
    """Runs the cell without and with the model in turn, then replays its trace on one and on all processors."""
    from abh import progress
    from abh.model import mmu
    from abh.study import cell

    load = [os.getloadavg()[0]]
    plain, modelled = (cell.Cell.of(args.cell, "smoke", **options) for options in ({}, {"mmu": args.mmu}))
    cell.emulate(plain)  # builds, boots and warms the page cache
    turns, accesses = [], 0
    for turn in range(args.runs):
        with progress.step(f"run {turn + 1} of {args.runs}, without and with the model"):
            without, (beside, ended) = _timed(plain)[0], _timed(modelled)
            accesses = int(mmu.read(ended.region)["counters"]["layers"]["total"]["accesses"])
            turns.append((without, beside))
    # A whole run is timed, with thawing and all that lies outside the region: lower bounds of the model's own speed.
    middle = [statistics.median(each) for each in zip(*(before + after for before, after in turns), strict=True)]
    return {
        "cell": args.cell,
        "cpu": args.mmu,
        "kind": "measured",
        "accesses": accesses,
        **dict(zip(("seconds_without", "processor_seconds_without"), middle[:2], strict=True)),
        **dict(zip(("seconds_with", "processor_seconds_with"), middle[2:], strict=True)),
        "ratio": statistics.median(after[0] / before[0] for before, after in turns),
        "processor_ratio": statistics.median(after[1] / before[1] for before, after in turns),
        "live_accesses_per_second": accesses / middle[2],
        "live_accesses_per_processor_second": accesses / middle[3],
        # The emulator's own time taken off: what is left is the model with its callbacks.
        "added_accesses_per_processor_second": accesses / added if (added := middle[3] - middle[1]) > 0 else None,
        **_replayed(args, accesses),
        "load_before_and_after": [*load, os.getloadavg()[0]],  # where others ran too, processor time is to be read
    }


def _timed(one: cell.Cell) -> tuple[tuple[float, float], emulated.Ended]:
    """Runs a cell; the seconds it took, and those of a processor that its emulator took."""
    from abh.study import cell

    seen, over = [0.0], threading.Event()
    watch = threading.Thread(target=_watch, args=(seen, over))
    watch.start()
    try:
        ended = cell.emulate(one)
    finally:
        over.set()
        watch.join()
    return (_seconds(ended), seen[0]), ended


def _watch(seen: list[float], over: threading.Event) -> None:
    """Keeps the processor time of this process's emulator, which nobody can ask when it is gone."""
    import psutil

    while not over.wait(SAMPLE_S):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has gone since it was listed: what was seen last is kept
                if child.name().startswith("qemu-system"):
                    times = child.cpu_times()
                    seen[0] = times.user + times.system


def _seconds(ended: emulated.Ended) -> float:
    if ended.problem:
        raise AbhError("a run that is timed did not end well", got=ended.problem)
    return ended.seconds


def _replayed(args: argparse.Namespace, accesses: int) -> dict[str, float]:
    from abh import progress
    from abh.model import mmu
    from abh.study import cell

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


def _organisations(args: argparse.Namespace) -> dict[str, float]:
    """How many accesses each organisation of page tables is replayed a second, on one processor."""
    from abh import progress
    from abh.model import mmu, organisations
    from abh.study import cell

    found: dict[str, float] = {}
    for every_fetch in (False, True):
        with tempfile.TemporaryDirectory(prefix="abh-bench-") as scratch:
            folder = Path(scratch)
            with progress.step(f"recording{', every fetch' if every_fetch else ''}"):
                one = cell.Cell.of(args.cell, "smoke", trace=folder / mmu.TRACE, every_fetch=every_fetch)
                _seconds(cell.emulate(one))
            for batch in organisations.BATCHES:
                if batch.every_fetch == every_fetch and not batch.part:
                    with progress.step(f"organisations on {batch.name}"):
                        words = [*batch.words, "--jobs", "1", "--first", str(PART), "--speed"]
                        said = json.loads(mmu.program(["organisations", mmu.TRACE, *words], folder))
                    for each in said:
                        found[f"{each['organisation']} on {batch.name}"] = each["accesses_per_processor_second"]
    return found
