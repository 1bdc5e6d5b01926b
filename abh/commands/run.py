# SPDX-License-Identifier: MIT
"""One run: one workload in one environment under one policy, to one result file.

Exit status: 0 success or skip, 1 a problem before the run, 2 usage, 3 error, 4 failure, 5 crash.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from abh import paths
from abh.errors import AbhError

if TYPE_CHECKING:
    from abh.bench.result import Result

HELP = "run one cell, as sqlite@kvm-hap~thp, and write its result"
# A finding is not a fault of the command line (2) or of the bench itself (1): distinct statuses, worst last.
EXIT = {"success": 0, "skip": 0, "error": 3, "failure": 4, "crash": 5}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    # Not "run": that name is the command's function.
    parser.add_argument("cell", metavar="WORKLOAD@ENVIRONMENT~POLICY", help="`abh list` shows the names")
    parser.add_argument("--size", choices=("smoke", "paper"), default="smoke", help="default: %(default)s")
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help=f"where the result goes (default: {paths.MEASURED}, or its folder local/ with --machine local)",
    )
    parser.add_argument(
        "--machine",
        choices=("emulated", "local"),
        default="emulated",
        help="local: this machine's own KVM, once a probe guest has booted on it (default: %(default)s)",
    )
    parser.add_argument(
        "--free-running", action="store_true", help="faster, but two runs no longer agree to the last digit"
    )
    parser.add_argument(
        "--mmu",
        metavar="CPU",
        help="count TLB misses and page walks as this processor's MMU would have them; the result goes to a folder of "
        "the processor's own (hypervisor/mmu-model/cpus has them)",
    )
    parser.add_argument(
        "--mmu-check",
        action="store_true",
        help="with --mmu: compare every machine address that the model finds with the emulator's (slower)",
    )
    parser.add_argument(
        "--perf",
        nargs="?",
        const="total",
        metavar="LAYER",
        help="with --mmu: print the model's counts as `perf stat -j` does, under perf's names for that processor's "
        "events where they mean the same; of all layers, or of guest_user, guest_kernel or hypervisor",
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="record every access and the page tables it needs, for abh-mmu to replay (hypervisor/mmu-model/README.md)",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="say why each page fault got a hugepage or not; the result goes to the folder explained/ of the others, "
        "and a run that is there already is not run again",
    )


def run(args: argparse.Namespace) -> int:
    """Run it; the exit status says the outcome."""
    from abh.bench import cell, faults, local, matrix, mmu, progress, result

    here = args.machine == "local"
    _check_together(args)
    one = cell.Cell.of(
        args.cell,
        args.size,
        icount=not args.free_running,
        explain=args.explain,
        mmu=args.mmu,
        mmu_check=args.mmu_check,
        trace=args.trace and args.trace.absolute(),
    )
    folder = _folder(args, one.policy.group)
    path = folder / f"{one.run}.json"
    repeats = not (args.free_running or here)
    if args.explain and repeats and matrix.holds(folder, one):
        print(faults.explain(result.read(path)))
        return EXIT["success"]
    _check_writable(folder)  # a bad place fails before the run, not after
    if one.trace:
        _check_writable(one.trace.parent)
    if here:
        local.check()
    perf: list[str] = []
    hear = {"heard": lambda said: perf.extend(mmu.perf_lines(said, args.perf))} if args.perf else {}
    with progress.step(f"running {one.run} ({args.size})"):
        try:
            made = local.run(one) if here else cell.run(one, **hear)
        except AbhError as error:  # a build, a boot, an agent's garbage: the report says it too
            made = cell.result_of(one, "error", str(error), {})
    matrix.write_mark(folder, one, repeats=repeats)
    result.write(made, path)
    if args.perf:
        print("".join(f"{each}\n" for each in perf), end="")
    else:
        _print(made, path, zeros=not args.mmu)
    if args.explain:
        print(f"\n{faults.explain(made)}")
    if made.reason:
        print(f"{made.run}: {made.outcome}: {made.reason}", file=sys.stderr)
    return EXIT[made.outcome]


def _print(made: Result, path: Path, *, zeros: bool) -> None:
    for name, value in made.values.items():
        if name.startswith("faults_"):
            continue  # 20 and more: --explain shows them as a table
        if value.value == 0 and not zeros:
            continue  # of 100 counters of the model, most are for page sizes or dimensions that a run does not have
        shown = f"n/a ({value.reason})" if value.value is None else f"{value.value:g} {value.unit}, {value.kind}"
        print(f"{name:24} {shown}")
    print(f"{made.outcome}: {path}")


def _folder(args: argparse.Namespace, group: str) -> Path:
    """A place of its own for results that are not a study's: their numbers are others, or more than it asks for."""
    from abh.bench import faults, local, mmu

    own = local.MEASURED if args.machine == "local" else paths.MEASURED / paths.of_size(args.size)
    folder = args.results or own
    if args.explain:
        folder /= faults.EXPLAINED
    if args.mmu:
        return folder / mmu.FOLDER / mmu.check_cpu(args.mmu)
    return folder if args.explain else folder / group


def _check_together(args: argparse.Namespace) -> None:
    from abh.bench import mmu

    if (args.mmu or args.trace) and (args.machine == "local" or args.free_running):
        raise AbhError(
            "the MMU model runs in the emulated machine only, and counts instructions there",
            got="--mmu or --trace with " + ("--free-running" if args.free_running else "--machine local"),
            next_step="leave one of them out",
        )
    for option, given in (("--mmu-check", args.mmu_check), ("--perf", args.perf)):
        if given and not args.mmu:
            raise AbhError(f"{option} needs --mmu CPU", next_step="add it")
    if args.perf:
        mmu.check_layer(args.perf)


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise AbhError(
            "results cannot be written here",
            where=folder,
            got=error.strerror,
            next_step="free it, or name another folder with --results",
        ) from error
