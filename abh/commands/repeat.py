# SPDX-License-Identifier: MIT
"""Run one cell again and again, and compare every value of each run with the first's: a cell is bit-identical.

Beside other work on the machine it shows that a result does not depend on how busy that is.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING

from abh import arguments, output, progress
from abh.errors import Status

if TYPE_CHECKING:
    from abh.schema.result import Result

BEGINS_ANEW = True
HELP = "run one cell many times, and say whether every value is the same each time"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    arguments.add_cell(parser, "cell")
    parser.add_argument(
        "--times", type=arguments.whole(2, 100_000), default=10, metavar="N", help="runs (default: %(default)s)"
    )
    parser.add_argument(
        "--cores", type=arguments.cores, metavar="N", help="runs at a time (default: one for each processor)"
    )
    parser.add_argument("--size", choices=("smoke", "paper"), default="smoke", help="default: %(default)s")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run it N times; status 1 if a value of one run differs from another's, or a run has not succeeded."""
    with output.report(args.json) as report:
        results, load = _results(args)
        found = {number: differences(results[0], each) for number, each in enumerate(results)}
        found = {number: each for number, each in found.items() if each}
        for number, each in found.items():
            print(f"run {number}: " + ", ".join(f"{name} {one} and {other}" for name, (one, other) in each.items()))
        bad = [f"run {number}: {each.outcome}: {each.reason}" for number, each in enumerate(results) if each.reason]
        print("".join(f"{line}\n" for line in bad), end="")
        verdict = f"{len(found)} differ from the first, {len(bad)} without success"
        print(f"{args.cell}: {args.times} runs at a load of {load:.1f}, {verdict}")
        report.update(run=str(args.cell), times=args.times, load=load, differences=found, without_success=bad)
    return Status.FAILED if found or bad else Status.SUCCESS


def _results(args: argparse.Namespace) -> tuple[list[Result], float]:
    """The results of all runs, and the machine's mean load while they ran."""
    from abh import schedule
    from abh.study import cell, graph

    one = cell.Cell.of(args.cell, args.size)
    boot, *parts = graph.of_boot(one)
    schedule.run([boot, *parts]).check()
    results: list[Result] = []
    loads: list[float] = []

    def once() -> None:
        results.append(cell.run(one))
        loads.append(os.getloadavg()[0])
        progress.say(f"run {len(results)} of {args.times}: {results[-1].outcome}")

    steps = [schedule.Step(f"run {number}", partial(once), memory_mib=boot.memory_mib) for number in range(args.times)]
    schedule.run(steps, workers=args.cores).check()
    return results, sum(loads) / len(loads)


def differences(first: Result, other: Result) -> dict[str, tuple[object, object]]:
    """The values of two results that are not the same: name -> both."""
    one, two = ({"outcome": each.outcome, **{n: v.value for n, v in each.values.items()}} for each in (first, other))
    return {name: (one.get(name), two.get(name)) for name in one.keys() | two.keys() if one.get(name) != two.get(name)}
