# SPDX-License-Identifier: MIT
"""One run: one workload in one environment under one policy, to one result file."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from abh import paths
from abh.errors import AbhError

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


def run(args: argparse.Namespace) -> int:
    """Run it; the exit status says the outcome."""
    from abh.bench import cell, local, matrix, progress, result

    here = args.machine == "local"
    folder = args.results or (local.MEASURED if here else paths.MEASURED)
    one = cell.Cell.of(args.cell, args.size, icount=not args.free_running)
    _check_writable(folder)  # a bad place fails before the run, not after
    if here:
        local.check()
    with progress.step(f"running {one.run} ({args.size})"):
        try:
            made = local.run(one) if here else cell.run(one)
        except AbhError as error:  # a build, a boot, an agent's garbage: the report says it too
            made = cell.result_of(one, "error", str(error), {})
    path = folder / f"{one.run}.json"
    matrix.write_mark(folder, args.cell, None if args.free_running or here else args.size)
    result.write(made, path)
    for name, value in made.values.items():
        shown = f"n/a ({value.reason})" if value.value is None else f"{value.value:g} {value.unit}, {value.kind}"
        print(f"{name:24} {shown}")
    print(f"{made.outcome}: {path}")
    if made.reason:
        print(f"{made.run}: {made.outcome}: {made.reason}", file=sys.stderr)
    return EXIT[made.outcome]


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
