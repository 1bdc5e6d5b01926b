# SPDX-License-Identifier: MIT
"""Make Debian packages: abh itself, its C library beside the system's, its kernel, its Xen and xl.

What they are made of is built first, into the cache, where it is not there yet: the kernel takes half an hour. Their
versions say which base they are of, and which series is on it.
"""

from __future__ import annotations

import argparse
import shutil

from abh import arguments, output, paths
from abh.errors import Status

HELP = "make Debian packages"
OUT = paths.CHECKOUT / "build" / "debs"
OWN = "abh"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which, and where they go."""
    package = parser.add_argument(
        "package", nargs="*", type=arguments.name("package"), metavar="PACKAGE", help="default: all"
    )
    arguments.completed(package, "package")
    out = parser.add_argument(
        "--out", type=arguments.new_folder, default=OUT, metavar="DIR", help="default: build/debs of the checkout"
    )
    arguments.completed(out, "directory")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Make them, and say where they are."""
    from abh import cli
    from abh.build import debs
    from abh.schema import package

    output.check_writable(args.out, "--out")
    with output.report(args.json) as report:
        for name in args.package or package.PACKAGE.paths(paths.CHECKOUT):
            made = debs.path_of(name, cli.version(), _generated() if name == OWN else None)
            target = args.out / made.name
            shutil.copyfile(made, target)
            print(target, flush=True)
            report[name] = str(target.resolve())
    return Status.SUCCESS


def _generated() -> dict[str, str]:
    """Manual pages and completions, which are made from the parser."""
    from abh.commands import completion, man

    return man.pages() | {shell: completion.script(shell) for shell in completion.SHELLS}
