# SPDX-License-Identifier: MIT
"""Run GCC's own tests of execution under Linux on the Itanium machine, in a mode of its page table's walker.

Those that fail must be those of tests/itanium/known-failures, which says why. The stage `itanium` runs those of one
level of optimization in one mode.
"""

from __future__ import annotations

import argparse

from abh import arguments, output
from abh.errors import Status

BEGINS_ANEW = True
HELP = "run GCC's tests of execution under Linux on the Itanium machine"
LEVELS = ("O0", "O2", "O3")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument(
        "--level", action="append", choices=LEVELS, help="of optimization; may be given again (default: all)"
    )
    mode = parser.add_argument(
        "--mode",
        type=arguments.name("itanium-mode"),
        default="lf-lp",
        metavar="MODE",
        help="of the walker: a policy of the group itanium (default: %(default)s)",
    )
    arguments.completed(mode, "itanium-mode")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Build what is needed, and run them."""
    from abh.verify import itanium

    levels = args.level or LEVELS
    with output.report(args.json) as report:
        well, said = itanium.torture(levels, args.mode)
        print(said, end="")
        report.update(kind="counted", levels=list(levels), mode=args.mode, as_known=well, said=said.splitlines())
    return Status.SUCCESS if well else Status.FAILED
