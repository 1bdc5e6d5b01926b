# SPDX-License-Identifier: MIT
"""Compare malloc implementations natively: on this machine and its kernel as they are, without root.

Every implementation runs the bench's workloads in turn, several rounds of it, inside one Debian root. Before that it is
checked that patched malloc with its tunable off makes the same system calls for memory as the distribution's.
"""

from __future__ import annotations

import argparse
import dataclasses

from abh import arguments, output, paths
from abh.errors import Status

BEGINS_ANEW = True
HELP = "compare malloc implementations on this machine, with its own kernel"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    workloads = parser.add_argument(
        "workloads",
        nargs="*",
        type=arguments.name("workload"),
        metavar="WORKLOAD",
        help="workloads to run (default: all)",
    )
    arguments.completed(workloads, "workload")
    parser.add_argument("--size", choices=("smoke", "paper"), default="smoke", help="default: %(default)s")
    parser.add_argument(
        "--rounds", type=arguments.whole(1, 1000), default=3, metavar="N", help="runs of each (default: %(default)s)"
    )
    parser.add_argument(
        "--modes",
        nargs="+",
        choices=("madvise", "always"),
        default=(),
        help="modes of transparent hugepages to measure in, for all of this machine: root sets them, and sets back what"
        " was there (default: the one that is set)",
    )
    results = parser.add_argument(
        "--results",
        type=arguments.new_folder,
        default=paths.MEASURED,
        metavar="DIR",
        help="where the CSV goes (default: analysis/measured)",
    )
    arguments.completed(results, "directory")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Check, measure, write the CSV, print the table."""
    from abh.compare import allocators, idle
    from abh.schema import spec

    known = spec.workloads()
    chosen = [known[name] for name in dict.fromkeys(args.workloads or sorted(known))]
    path = (args.results / allocators.RESULT).resolve()
    output.check_writable(args.results)
    with output.report(args.json) as report:
        lines, idle_lines = allocators.compare(chosen, args.size, args.rounds, args.results, args.modes)
        allocators.show(lines)
        idle.show(idle_lines)
        print(f"CSV: {path}")
        report.update(
            csv=str(path),
            kind="measured",
            lines=[dataclasses.asdict(each) for each in lines],
            idle=[dataclasses.asdict(each) for each in idle_lines],
        )
    return Status.SUCCESS
