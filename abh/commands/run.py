# SPDX-License-Identifier: MIT
"""One run: one workload in one environment under one policy, to one result file. The exit status says the outcome."""

from __future__ import annotations

import argparse
import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from abh import arguments, output, paths
from abh.errors import AbhError, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from abh.schema.result import Result
    from abh.study.cell import Cell

HELP = "run one cell, as sqlite@kvm-hap~thp, and write its result"
EXIT = {
    "success": Status.SUCCESS,
    "skip": Status.SKIP,
    "error": Status.ERROR,
    "failure": Status.FAILURE,
    "crash": Status.CRASH,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    # Not "run": that name is the command's function.
    arguments.add_cell(parser, "cell")
    parser.add_argument("--size", choices=("smoke", "paper"), default="smoke", help="default: %(default)s")
    results = parser.add_argument(
        "--results",
        type=arguments.new_folder,
        metavar="DIR",
        help="where the result goes (default: analysis/measured, or its folder local/ with --machine local)",
    )
    arguments.completed(results, "directory")
    parser.add_argument(
        "--machine",
        choices=("emulated", "local"),
        default="emulated",
        help="local: this machine's own KVM, once a probe guest has booted on it (default: %(default)s)",
    )
    parser.add_argument(
        "--free-running", action="store_true", help="faster, but two runs no longer agree to the last digit"
    )
    processor = parser.add_argument(
        "--mmu",
        type=arguments.name("processor"),
        metavar="CPU",
        help="count TLB misses and page walks as this processor's MMU would have them; the result goes to a folder of "
        "the processor's own (hypervisor/mmu-model/cpus has them)",
    )
    arguments.completed(processor, "processor")
    parser.add_argument(
        "--mmu-check",
        action="store_true",
        help="with --mmu: compare every machine address that the model finds with the emulator's (slower)",
    )
    form = parser.add_mutually_exclusive_group()
    output.add_json(form)
    perf = form.add_argument(
        "--perf",
        nargs="?",
        const="total",
        type=arguments.name("layer"),
        metavar="LAYER",
        help="with --mmu: print the model's counts as `perf stat -j` does, under perf's names for that processor's "
        "events where they mean the same; of all layers, or of guest_user, guest_kernel or hypervisor",
    )
    arguments.completed(perf, "layer")
    trace = parser.add_argument(
        "--trace",
        type=arguments.new_file,
        metavar="FILE",
        help="record every access and the page tables it needs, for abh-mmu to replay (hypervisor/mmu-model/README.md)",
    )
    arguments.completed(trace, "file")
    parser.add_argument(
        "--every-fetch",
        action="store_true",
        help="with --trace: record a fetch of each line of 16 bytes, as instruction caches need it, not of each page",
    )
    parser.add_argument(
        "--draws",
        type=arguments.draws,
        default=1,
        metavar="N",
        help="N runs with other random addresses; the result is their median, with the range",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="say why each page fault got a hugepage or not; the result goes to the folder explained/ of the others, "
        "and a run that is there already is not run again",
    )


def run(args: argparse.Namespace) -> int:
    """Run it; the exit status says the outcome."""
    _check_together(args)
    with output.report(args.json) as report:
        made, path = _made(args, report)
        report.update(path=str(path), result=made.model_dump())
    return EXIT[made.outcome]


def _made(args: argparse.Namespace, report: dict[str, Any]) -> tuple[Result, Path]:
    """The result, and its file; all that there is to say is printed."""
    from abh import progress
    from abh.model import mmu
    from abh.schema import result
    from abh.study import cell, computers, draws, faults, graph, local, matrix

    here = args.machine == "local"
    one = cell.Cell.of(
        args.cell,
        args.size,
        icount=not args.free_running,
        explain=args.explain,
        mmu=args.mmu,
        mmu_check=args.mmu_check,
        trace=args.trace and args.trace.absolute(),
        every_fetch=args.every_fetch,
        draws=len(draws.numbers(args.draws)),
    )
    if here:
        local.check_possible([one])
    folder = _folder(args, Path(*dict.fromkeys((one.workload.group, one.policy.group))))
    path = folder / f"{one.run}.json"
    repeats = not (args.free_running or here)
    # The trace, and what perf would print, are no part of a result.
    if args.explain and repeats and not (args.trace or args.perf) and matrix.holds(folder, one):
        held = result.read(path)
        print(faults.explain(held))
        return held, path
    output.check_writable(folder)  # a bad place fails before the run, not after
    if one.trace:
        output.check_writable(one.trace.parent)
    if here:
        local.check()
    perf: list[str] = []

    def heard(said: Mapping[str, Any]) -> None:
        perf.extend(mmu.perf_lines(said, args.perf) if args.perf else [])

    with progress.step(f"running {one.run} ({args.size})"):
        if one.draws > 1:
            made = _all_draws(one, folder)
        else:
            once = local.run if here else partial(computers.of(one).run, heard=heard)
            with _printed_if_lost(once, report, zeros=not args.mmu) as run_once:
                made = graph.perform(one, folder, run_once, repeats=repeats)
    if args.perf:
        print("".join(f"{each}\n" for each in perf), end="")
    else:
        _print(made, path, zeros=not args.mmu)
    if args.explain:
        print(f"\n{faults.explain(made)}")
    if made.reason:
        print(f"{made.run}: {made.outcome}: {made.reason}", file=sys.stderr)
    return made, path


@contextlib.contextmanager
def _printed_if_lost(
    once: Callable[[Cell], Result], report: dict[str, Any], *, zeros: bool
) -> Iterator[Callable[[Cell], Result]]:
    """What runs a cell within; where its result cannot be written, it is at least printed before the error."""
    from abh import schedule

    ran: list[Result] = []

    def run_once(one: Cell) -> Result:
        ran.append(once(one))
        return ran[-1]

    try:
        yield run_once
    except (AbhError, OSError):
        if ran and not schedule.stopping.is_set():
            report.update(path=None, result=ran[-1].model_dump())
            _print(ran[-1], None, zeros=zeros)
        raise


def _all_draws(one: Cell, folder: Path) -> Result:
    """Runs the draws of a cell that are not there yet, as many at a time as the machine carries, and their median."""
    from abh import schedule
    from abh.schema import result
    from abh.study import graph

    told = graph.Told(one.draws, lambda *_: None)
    schedule.run(graph.of_cells([one], folder, told)).check()
    return result.read(folder / f"{one.run}.json")


def _print(made: Result, path: Path | None, *, zeros: bool) -> None:
    for name, value in made.values.items():
        if name.startswith("faults_"):
            continue  # 20 and more: --explain shows them as a table
        if value.value == 0 and not zeros:
            continue  # of 100 counters of the model, most are for page sizes or dimensions that a run does not have
        shown = f"n/a ({value.reason})" if value.value is None else f"{value.value:g} {value.unit}, {value.kind}"
        if value.low is not None:
            shown += f" (median of {made.draws} draws, {value.low:g} to {value.high:g})"
        print(f"{name:24} {shown}")
    print(f"{made.outcome}: {path or 'not kept'}")


def _folder(args: argparse.Namespace, groups: Path) -> Path:
    """A place of its own for results that are not a study's: of the groups that workload and policy are of, and where
    numbers are others, or more than it asks for."""
    from abh.model import mmu
    from abh.study import faults, local

    own = local.MEASURED if args.machine == "local" else paths.MEASURED / paths.of_size(args.size)
    folder = args.results or own
    if args.explain:
        folder /= faults.EXPLAINED
    if args.mmu:
        return folder / mmu.FOLDER / mmu.check_cpu(args.mmu)
    return folder if args.explain else folder / groups


def _check_together(args: argparse.Namespace) -> None:
    here = args.machine == "local"
    if args.draws > 1 and (here or args.free_running or args.trace or args.perf):
        raise arguments.wrong(
            "draws are runs of the emulated machine that repeat, each with a result only",
            got="--draws with --machine local, --free-running, --trace or --perf",
            next_step="leave one of them out",
        )
    if args.every_fetch and (args.mmu or not args.trace):
        raise arguments.wrong(
            "every fetch is for a trace only: the model beside a run has no instruction caches",
            got="--every-fetch with --mmu" if args.mmu else "--every-fetch without --trace",
            next_step="give --trace FILE, and replay that",
        )
    if (args.mmu or args.trace) and (here or args.free_running):
        raise arguments.wrong(
            "the MMU model runs in the emulated machine only, and counts instructions there",
            got="--mmu or --trace with " + ("--free-running" if args.free_running else "--machine local"),
            next_step="leave one of them out",
        )
    if here and args.free_running:
        raise arguments.wrong(
            "--free-running is of the emulated machine",
            got="--free-running with --machine local",
            next_step="leave one of them out",
        )
    for option, given in (("--mmu-check", args.mmu_check), ("--perf", args.perf)):
        if given and not args.mmu:
            raise arguments.wrong(f"{option} needs --mmu CPU", got=option, next_step="add --mmu CPU")
