# SPDX-License-Identifier: MIT
"""Check the patch series: BASE, the list of patches, every patch's header and licence.

With --tree, also that the patches apply in order, without fuzz, to an unpacked base (which is left as it is). With
--build, also that the series builds after every patch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from abh import arguments, output
from abh.errors import AbhError, Status

if TYPE_CHECKING:
    from abh.build.series import Series

HELP = "check that the patch series are complete, ordered and documented"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    series = parser.add_argument(
        "series", nargs="*", type=arguments.folder, metavar="FOLDER", help="series to check (default: all)"
    )
    arguments.completed(series, "directory")
    tree = parser.add_argument(
        "--tree",
        type=arguments.folder,
        metavar="DIR",
        help="unpacked base of the one series named: check that it applies",
    )
    arguments.completed(tree, "directory")
    parser.add_argument("--apply", action="store_true", help="fetch each base, and check that the series applies to it")
    output.add_json(parser)
    parser.add_argument("--build", action="store_true", help="build after every patch, and boot what boots (slow)")


def run(args: argparse.Namespace) -> int:
    """Check every series, report all problems, then fail if there was one."""
    from abh.build import series

    folders = [_existing(folder) for folder in args.series] or series.find_series()
    if not folders:
        raise AbhError("there is no patch series here", next_step="docs/map.md says where they are")
    if args.tree and len(folders) != 1:
        raise arguments.wrong(
            "--tree is the base of one series", got=f"{len(folders)} series", next_step="name that one"
        )
    with output.report(args.json) as report:
        checked = report["series"] = []
        for folder in folders:
            found = series.problems(folder)
            checked.append({"folder": str(folder), "problems": found, "checked": None})
            for problem in found:
                print(f"{folder}/{problem}")
            if not found:
                checked[-1]["checked"] = _check_deeper(folder, args)
                print(f"{checked[-1]['checked']}: sound")
    if faults := sum(len(each["problems"]) for each in checked):
        raise AbhError(f"{faults} problem(s) in the patch series; they are listed above")
    return Status.SUCCESS


def _existing(folder: Path) -> Path:
    if not (folder / "BASE").is_file():
        raise arguments.wrong("not a patch series: it has no BASE", got=str(folder), next_step="name one that has it")
    return folder


def _check_deeper(folder: Path, args: argparse.Namespace) -> str:
    from abh.build import series

    one = series.load(folder)
    done = [f"{len(one.patches)} patches"]
    if args.tree:
        series.check_applies(one, args.tree)
        done.append("they apply")
    if args.apply:
        from abh.build import components

        components.check_applies(one)
        done.append("they apply in order")
    if args.build:
        from abh.build import components

        attempt = _attempt(components.prefix_of(folder).name)
        with components.PrefixBuilder(attempt) if attempt else components.PrefixBuilder() as builder:
            series.check_prefixes(one, builder)
        done.append("each prefix builds and boots" if attempt else "each prefix builds")
    return f"{one.name} ({', '.join(done)})"


def _attempt(component: str) -> Callable[[Series, Path], None] | None:
    """How a prefix that was built is tried: kernels and hypervisors boot."""
    from abh.verify import testbed, xen

    return {"linux-prefix": testbed.try_prefix, "xen-prefix": xen.try_prefix}.get(component)
