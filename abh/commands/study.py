# SPDX-License-Identifier: MIT
"""The whole study: build, boot the machines once, run every cell, write the report.

Everything is one graph of steps: a cell runs as soon as what it needs is there, and says what it found when it ends.
What is finished is kept: the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from abh import arguments, output, paths
from abh.errors import Status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from abh.schema.measured import Measured
    from abh.schema.result import Result
    from abh.study.cell import Cell
    from abh.study.graph import Told

SEED = 1
HELP = "build everything, run every workload in every environment under every policy, report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--size", choices=("smoke", "paper"), default="smoke", help="default: %(default)s")
    for kind in ("workload", "environment", "policy"):
        only = parser.add_argument(
            f"--{kind}",
            action="append",
            type=arguments.name(kind),
            metavar="NAME",
            help="only this one (repeatable)",
        )
        arguments.completed(only, kind)
    group = parser.add_argument(
        "--group",
        metavar="NAME",
        type=arguments.name("group"),
        help="policies of this folder of vm-configs/policies, not the study's; results in a folder of its own",
    )
    arguments.completed(group, "group")
    parser.add_argument(
        "--draws",
        type=arguments.draws,
        default=1,
        metavar="N",
        help="of each cell N runs with other random addresses; its result is their median, with the range",
    )
    parser.add_argument(
        "--cores",
        type=arguments.cores,
        metavar="N",
        help="steps at a time (default: one for each processor that may be used)",
    )
    parser.add_argument(
        "--machine",
        choices=("emulated", "local"),
        default="emulated",
        help="local: this machine's own KVM, one cell at a time, results in a folder of their own",
    )
    processor = parser.add_argument(
        "--mmu",
        type=arguments.name("processor"),
        metavar="CPU",
        help="with the MMU model of this processor; results in a folder of the processor's own",
    )
    arguments.completed(processor, "processor")
    parser.add_argument(
        "--repeats",
        type=arguments.whole(1, 1000),
        metavar="N",
        help="with --machine local: runs of each cell, all in one random order; medians get an interval from 6 on",
    )
    parser.add_argument(
        "--seed", type=arguments.seed, metavar="N", help=f"with --repeats: of that order (default: {SEED})"
    )
    parser.add_argument(
        "--through",
        metavar="COMMAND",
        help="with --repeats: on the machine that this command leads to, as 'ssh host' or 'srun --exclusive'; there, "
        "`abh` is in the PATH",
    )
    parser.add_argument("--dry-run", action="store_true", help="say which cells would run")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Do every step, report. The status is 1 if a cell failed, after everything else was done."""
    if args.machine == "local" and (args.mmu or args.draws > 1 or args.cores):
        raise arguments.wrong(
            "this machine's own KVM runs one cell at a time, once, and has no MMU model",
            got="--machine local with --mmu, --draws or --cores",
            next_step="leave one of them out",
        )
    if args.repeats and args.machine != "local":
        raise arguments.wrong(
            "the emulated machine gives the same numbers again",
            got="--repeats without --machine local",
            next_step="leave it out; --draws runs a cell with other addresses",
        )
    for option, given in (("--through", args.through), ("--seed", args.seed)):
        if given is not None and not args.repeats:
            raise arguments.wrong(
                f"{option} is of runs that are repeated",
                got=f"{option} without --repeats",
                next_step="add --machine local --repeats N, or leave it out",
            )
    with output.report(args.json) as report:
        return _run(args, report)


def _run(args: argparse.Namespace, report: dict[str, Any]) -> int:
    from abh.model import mmu
    from abh.study import matrix

    with arguments.usage():  # a policy may be of another group than the one that was named
        names = matrix.select(args.workload, args.environment, args.policy, args.group or "")
    cells = matrix.cells_of(names, args.size, cpu=args.mmu, draws=args.draws)
    if args.dry_run:
        lost = _lost(cells) if args.machine == "local" and args.through is None else {}
        report["cells"] = [each.name for each in cells if each.name not in lost]
        report |= {"left_out": lost} if lost else {}
        print("".join(f"{name}\n" for name in report["cells"]), end="")
        return Status.SUCCESS
    if args.machine == "local":
        from abh.study import local

        local.check_possible(cells)
        if args.repeats:
            return _repeated(cells, args, report)
        return _local(names, args.size, report)
    folder = paths.MEASURED / paths.of_size(args.size) / (f"{mmu.FOLDER}/{args.mmu}" if args.mmu else args.group or "")
    status = perform(cells, folder, args.cores, report)
    report["results"] = str(folder)
    return status


def perform(cells: Sequence[Cell], folder: Path, cores: int | None, report: dict[str, Any]) -> int:
    """Runs all that does not hold, results going to `folder`, and writes the page."""
    from filelock import FileLock, Timeout

    from abh.build import cache
    from abh.errors import AbhError

    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(paths.MEASURED / ".study.lock", timeout=0):
            cache.sweep_scratch()
            status = _study(cells, folder, cores, report)
            page = _report()
            report["page"] = str(paths.REPORT_OUT / "report.html")
            return page or status
    except Timeout:
        raise AbhError(
            "another study is running in this checkout",
            where=paths.CHECKOUT,
            next_step="wait for it, or clone the project once more and run there",
        ) from None


def _study(cells: Sequence[Cell], folder: Path, cores: int | None, report: dict[str, Any]) -> int:
    """Runs all steps; says what failed."""
    from abh import progress, schedule
    from abh.build import moved
    from abh.study import graph
    from abh.study.cell import roots_of

    planned = sum(each.draws for each in cells)
    progress.say(f"{_cells(planned)}; those whose result still holds are not run again")
    told = graph.Told(planned, _tell)
    outcome = schedule.run(graph.of_cells(cells, folder, told), workers=cores)
    if not outcome.failed:
        moved.tell(sorted({name for each in cells for name in roots_of(each)}))
    for name, error in outcome.failed.items():
        progress.say(f"{name} FAILED: {error}")
    for name, cause in outcome.skipped.items():
        progress.say(f"{name} was not tried: it needs '{cause}'")
    progress.say(_summary(told))
    report |= {
        "planned": planned,
        "held": told.held,
        "cells": [{"run": each.run, "outcome": each.outcome, "reason": each.reason} for each in told.results],
        "failed": {name: str(error) for name, error in outcome.failed.items()},
        "not_tried": dict(outcome.skipped),
    }
    return Status.FAILED if outcome.failed or told.bad else Status.SUCCESS


def _tell(made: Result, number: int, planned: int) -> None:
    """A line for each cell that ends: enough to watch a long study by."""
    ratio, faults = made.values.get("alloc_ratio"), made.values.get("minor_faults")
    shown = "n/a" if ratio is None or ratio.value is None else f"{100 * ratio.value:.1f}%"
    count = "n/a" if faults is None or faults.value is None else f"{faults.value:,}"
    text = f"{number:4}/{planned}  {made.run:36} Alloc.Ratio {shown:>6}  faults {count:>10}"
    print(text if made.outcome == "success" else f"{text}  {made.outcome}: {made.reason}", flush=True)


def _cells(count: int) -> str:
    return f"{count} cell{'' if count == 1 else 's'}"


def _summary(told: Told) -> str:
    parts = [f"{_cells(len(told.results))} run", f"{told.held} held"]
    parts += [f"{len(told.bad)} without success: {', '.join(each.run for each in told.bad)}"] if told.bad else []
    return "; ".join(parts)


def _local(names: Sequence[str], size: str, report: dict[str, Any]) -> int:
    """Every cell on this machine's own KVM: time is measured here, so one at a time. The report leaves them out."""
    from abh import cli
    from abh.commands import run as one_run
    from abh.study import local

    local.check()
    statuses = [one_run.run(cli.parse(["run", name, "--size", size, "--machine", "local"])) for name in names]
    outcomes: dict[int, str] = {status: outcome for outcome, status in one_run.EXIT.items()}
    print(f"{_cells(len(names))} in {local.MEASURED}")
    report |= {
        "results": str(local.MEASURED),
        "cells": [{"run": name, "outcome": outcomes[status]} for name, status in zip(names, statuses, strict=True)],
    }
    return Status.FAILED if set(statuses) - {Status.SUCCESS, Status.SKIP} else Status.SUCCESS


def _repeated(cells: Sequence[Cell], args: argparse.Namespace, report: dict[str, Any]) -> int:
    """Every cell several times, on this machine's own KVM or on one elsewhere."""
    from functools import partial

    from abh import cli, progress
    from abh.study import local, repeats, through

    lost: dict[str, str] = {}
    elsewhere, once = "", local.run
    if args.through is not None:
        words = through.words_of(args.through)
        through.check(words, cli.version())
        elsewhere, once = through.place_of(words), partial(through.run, words=words)
    else:
        local.check()
        lost = _lost(cells)
    told = {
        "repeats": args.repeats,
        "seed": SEED if args.seed is None else args.seed,
        "tell": progress.say,
        "elsewhere": elsewhere,
    }
    folder = local.MEASURED / paths.of_size(args.size)
    made = repeats.perform([each for each in cells if each.name not in lost], folder, once, **told)
    for each in made:
        _tell_measured(each)
    report |= {
        "results": str(repeats.measured_folder(elsewhere)),
        "cells": [{"run": each.run, "outcome": each.outcome, "reason": each.reason} for each in made],
        "left_out": lost,
    }
    return Status.SUCCESS if all(each.outcome in ("success", "skip") for each in made) else Status.FAILED


def _lost(cells: Sequence[Cell]) -> dict[str, str]:
    """The cells that this machine cannot run, with the reason, which is said."""
    from abh import progress
    from abh.study import local

    lost = {each.name: why for each in cells if (why := local.skipped(each))}
    for name, why in lost.items():
        progress.say(f"{name} is left out: {why}")
    return lost


def _tell_measured(made: Measured) -> None:
    value = made.values.get("elapsed")
    if value is None or value.value is None:
        print(f"{made.run:36} {made.outcome}: {made.reason}")
        return
    within = f" (95 %: {value.interval_low:.3f} to {value.interval_high:.3f})" if value.interval_low is not None else ""
    print(f"{made.run:36} {value.value:.3f} s{within}, median of {value.runs}")


def _report() -> int:
    from abh.commands import report

    words = {"json": False, "svg": None, "record_roots": False}
    return report.run(argparse.Namespace(results=Path(paths.MEASURED), out=Path(paths.REPORT_OUT), **words))
