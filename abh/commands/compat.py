# SPDX-License-Identifier: MIT
"""Real programs under ABH beside stock: does each do what it did, with no fewer hugepages and no more memory?

The programs are the workloads of the group compat. Each runs under stock transparent hugepages and under ABH, or
another policy, natively and in a guest, and is judged by its own check and beside stock. docs/compat.md has the aims.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from abh import arguments, output, paths
from abh.errors import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from abh.compare.programs import Line, Verdict
    from abh.schema.spec import Run

HELP = "run real programs under ABH beside stock, and judge what differs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    programs = parser.add_argument(
        "programs", nargs="*", type=arguments.name("program"), metavar="PROGRAM", help="programs to run (default: all)"
    )
    arguments.completed(programs, "program")
    parser.add_argument(
        "--environment",
        action="append",
        choices=("native", "kvm-hap"),
        help="only this one (repeatable; default: both)",
    )
    policy = parser.add_argument(
        "--policy",
        type=arguments.name("policy"),
        default="abh",
        metavar="POLICY",
        help="what stands beside stock, as `reservation` (default: %(default)s)",
    )
    arguments.completed(policy, "policy")
    parser.add_argument(
        "--draws",
        type=arguments.draws,
        metavar="N",
        help="of each cell N runs with other random addresses; its result is their median, with the range (default: as"
        " many as the program's workload.toml says, 3 to 15 where threads or a collector make runs differ)",
    )
    parser.add_argument(
        "--cores",
        type=arguments.cores,
        metavar="N",
        help="steps at a time (default: one for each processor that may be used)",
    )
    parser.add_argument("--dry-run", action="store_true", help="say which cells would run")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run what does not hold, judge what was asked for, print it. The status is 1 if any is outside or not judged."""
    with output.report(args.json) as report:
        return _run(args, report)


def _run(args: argparse.Namespace, report: dict[str, Any]) -> int:
    from dataclasses import replace

    from abh.commands import study
    from abh.compare import programs
    from abh.schema.spec import Run
    from abh.study import matrix

    if args.policy == programs.STOCK:
        raise arguments.wrong("stock is what a policy stands beside", got=f"--policy {args.policy}",
                              next_step="name another policy")  # fmt: skip
    stock = matrix.select(
        args.programs, args.environment or programs.ENVIRONMENTS, (programs.STOCK,), of=programs.GROUP
    )
    asked = [replace(Run.parse(name), policy=args.policy) for name in stock]
    names = [*stock, *map(str, asked)]
    lines = programs.explained()  # a wrong file is told before hours of work
    cells = matrix.cells_of(names, programs.SIZE, draws=args.draws)  # type: ignore[arg-type]
    if args.dry_run:
        report["cells"] = names
        print("\n".join(names))
        return Status.SUCCESS
    folder = paths.MEASURED / paths.of_size(programs.SIZE) / programs.GROUP
    status = study.perform(cells, folder, args.cores, report)
    return _judged(asked, names, lines, report) or status


def _judged(asked: Sequence[Run], names: Sequence[str], lines: Sequence[Line], report: dict[str, Any]) -> int:
    """Judges what was asked for, as it lies in the folder of results."""
    from abh.compare import programs
    from abh.report.load import load
    from abh.report.programs import show

    folder = paths.MEASURED / paths.of_size(programs.SIZE) / programs.GROUP
    results = {run: result for run, result in load(folder).items() if str(run) in names}
    verdicts = programs.judge(results, lines, asked, asked[0].policy)
    show(verdicts)
    missed = [each for each in verdicts if each.is_missed]
    explained = [each for each in verdicts if each.line and not each.is_missed]
    # No error: draws differ, and a line that one run does not need the next one may.
    idle = [f"{line.program}@{place}: {line.quantity}" for line, place in programs.not_needed(verdicts, lines)]
    print(_told("not judged, which counts as outside", [_words(each) for each in missed if each.not_judged])
          + _told("outside an aim", [_words(each) for each in missed if not each.not_judged])
          + _told("explained", [_words(each) for each in explained])
          + _told("worse by chance alone", [_words(each) for each in verdicts if each.is_chance])
          + _told("explained, and within the aim in this run", idle))  # fmt: skip
    report.update(
        results=str(folder),
        verdicts=[each.row for each in verdicts],
        missed=[each.words for each in missed],
        explained=[each.words for each in explained],
        not_needed=idle,
    )
    return Status.FAILED if missed else Status.SUCCESS


def _words(verdict: Verdict) -> str:
    return verdict.words + (f"\n    {verdict.line.reason}" if verdict.line else "")


def _told(what: str, found: Sequence[str]) -> str:
    return "\n".join([f"{what}: {len(found)}", *(f"  {each}" for each in found), ""])
