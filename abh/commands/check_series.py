# SPDX-License-Identifier: MIT
"""Check the patch series: BASE, the list of patches, every patch's header and licence.

With --tree, also that the patches apply in order, without fuzz, to an unpacked base (which is left as it is). With
--build, also that the series builds after every patch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from abh import paths
from abh.errors import AbhError

HELP = "check that the patch series are complete, ordered and documented"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("series", nargs="*", type=Path, metavar="FOLDER", help="series to check (default: all)")
    parser.add_argument("--tree", type=Path, help="unpacked base of the one series named: check that it applies")
    parser.add_argument("--build", action="store_true", help="build after every patch, and boot the kernel (slow)")


def run(args: argparse.Namespace) -> int:
    """Check every series, report all problems, then fail if there was one."""
    from abh.bench import series

    folders = [_existing(folder) for folder in args.series] or series.find_series()
    if not folders:
        raise AbhError("there is no patch series here", next_step="a series is a folder with BASE, below a series root")
    if args.tree and len(folders) != 1:
        raise AbhError("--tree is the base of one series", got=f"{len(folders)} series", next_step="name that one")
    faults = 0
    for folder in folders:
        found = series.problems(folder)
        faults += len(found)
        for problem in found:
            print(f"{folder}/{problem}")
        if not found:
            print(f"{_check_deeper(folder, args)}: sound")
    if faults:
        raise AbhError(f"{faults} problem(s) in the patch series; they are listed above")
    return 0


def _existing(folder: Path) -> Path:
    if not (folder / "BASE").is_file():
        raise AbhError("not a patch series: it has no BASE", where=folder, next_step="name a folder that has one")
    return folder


def _check_deeper(folder: Path, args: argparse.Namespace) -> str:
    from abh.bench import series

    one = series.load(folder)
    done = [f"{len(one.patches)} patches"]
    if args.tree:
        series.check_applies(one, args.tree)
        done.append("they apply")
    if args.build:
        from abh.bench import build, testbed

        boots = folder.resolve() == paths.CHECKOUT / testbed.KERNEL_SERIES
        with build.PrefixBuilder(testbed.try_prefix) if boots else build.PrefixBuilder() as builder:
            series.check_prefixes(one, builder)
        done.append("each prefix builds and boots" if boots else "each prefix builds")
    return f"{one.name} ({', '.join(done)})"
