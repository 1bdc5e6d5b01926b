# SPDX-License-Identifier: MIT
"""Run small programs of Wienand's thesis (tests/itanium/thesis) on the Itanium machine under Linux, in each mode of the
walker, without superpages and with them (-lp), and print what a round of each counts.

`instructions`: all; `uncollected`: of these, those while interruptions are not collected, as in handlers of misses;
`misses`: of the data TLB's second level; `walked`: of these, inserted by the walker; `ended`: walks that inserted
nothing; `faults`: of the vectors of misses of data; `nested`: those of a handler. All is counted, nothing timed.
A round is the difference of two runs, divided by the rounds that one has more: where the two boots are not alike to the
last miss, or tick of the timer, a count of few may come to less than 0.
"""

from __future__ import annotations

import argparse

from abh import arguments, output, progress
from abh.errors import Status

BEGINS_ANEW = True
HELP = "count what programs of a thesis do on the Itanium machine"
LEGEND = "Counted, a round each. What the thesis has beside it (reference) is of a real processor, and in seconds:"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    names = parser.add_argument(
        "program", nargs="*", type=arguments.name("itanium-program"), help="which of them (default: all)"
    )
    arguments.completed(names, "itanium-program")
    arguments.add_itanium_pages(parser)
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Build what is needed, run all, and print the table."""
    from abh.schema.thesis import programs
    from abh.verify import thesis

    pages = int(args.pages)
    known = {name: thesis.of_pages(program, pages) for name, program in programs().items()}
    chosen = [known[name] for name in dict.fromkeys(args.program or known)]
    with output.report(args.json) as report:
        rows = thesis.study(((program, mode) for program in chosen for mode in thesis.MODES), pages, progress.say)
        print(thesis.table(rows), LEGEND, sep="\n")
        for program in chosen:
            print(f"  {program.name}: {program.purpose} Thesis, {program.thesis}")
        wrong = "".join(thesis.outside(known[one.program], one) for one in rows)
        print(wrong or "all bounds are kept")
        report.update(
            kind="counted",
            pages_kib=pages,
            rows=[{"program": one.program, "mode": one.mode, **one.counted, "superpages": one.faulted} for one in rows],
            outside=wrong.splitlines(),
        )
    return Status.FAILED if wrong else Status.SUCCESS
