# SPDX-License-Identifier: MIT
"""Check the style of every source in the checkout; with --fix, rewrite what a tool can rewrite.

Python by ruff, shell by shellcheck, C and C++ by clang-format (.clang-format), Rust by cargo fmt where there is a
Cargo.toml; and the SPDX line of every file. What git ignores is left alone; files not yet added to git are checked.
"""

from __future__ import annotations

import argparse
import sys

from abh.errors import AbhError
from abh.paths import CHECKOUT

HELP = "check the style of Python, shell, C and Rust"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--fix", action="store_true", help="rewrite the sources where a tool can")


def run(args: argparse.Namespace) -> int:
    """Run every check, then fail if one of them did."""
    sys.path.append(str(CHECKOUT))  # tools/ is the checkout's: an abh installed with pip does not hold it
    from tools import lint

    failed = lint.run(fix=args.fix)
    if failed:
        raise AbhError(
            f"lint: {', '.join(failed)} found fault; their words are above",
            next_step="`make format` mends what a tool can mend",
        )
    return 0
