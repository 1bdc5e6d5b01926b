# SPDX-License-Identifier: MIT
"""Other organisations of page tables and TLB refill: runs recorded once, replayed through each; made-up workloads."""

from __future__ import annotations

import argparse

from abh import arguments, output
from abh.errors import Status

HELP = "record runs, and replay each through other organisations of page tables and TLB refill"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    arguments.add_cell(
        parser,
        "cells",
        nargs="*",
        help="`abh list` shows the names; without any: one program natively and in guests of KVM and Xen, with ABH "
        "and without, and made-up workloads on the tables alone",
    )
    parser.add_argument("--size", choices=("smoke", "paper"), default="smoke", help="default: %(default)s")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Record, replay, write analysis/measured/mmu/organisations/<run>.json."""
    from abh import progress, schedule
    from abh.model import organisations
    from abh.study import replays

    with output.report(args.json) as report:
        runs = [
            replays.Run(name, args.size, organisations.wanted(None if args.cells else name))
            for name in args.cells or organisations.RUNS
        ]
        made_up = [] if args.cells else [replays.made_up()]
        programs = [] if args.cells else [replays.program(name) for name in organisations.PROGRAMS]
        files: list[replays.Run | replays.Other] = [*runs, *made_up, *programs]
        steps = [*replays.of_runs(runs), *(step for each in (*made_up, *programs) for step in each.steps())]
        total = sum(len(each.left) for each in runs)
        if total:
            progress.say(f"{total} batches of replays")
        schedule.run(steps).check()
        for each in files:
            print(each.path if each.made_now else f"{each.path}: holds")
        report.update(
            runs=[
                {"path": str(each.path), "made_now": each.made_now, "organisations": organisations.read(each.path)}
                for each in runs
            ]
        )
        for one in made_up:
            workloads = organisations.read_made_up(one.path)
            report.update(made_up={"path": str(one.path), "made_now": one.made_now, "workloads": workloads})
    return Status.SUCCESS
