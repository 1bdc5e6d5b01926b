# SPDX-License-Identifier: MIT
"""Build components into the cache, and say where they are.

Without a name: all that a study needs. Those that only tests of the kernel need are built when named.
"""

from __future__ import annotations

import argparse

from abh import arguments, output
from abh.errors import Status

HELP = "build all components, or the ones named, into the cache"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    component = parser.add_argument(
        "component",
        nargs="*",
        type=arguments.name("component"),
        metavar="COMPONENT",
        help="linux, xen, qemu, glibc, workloads, … (default: all that a study needs)",
    )
    arguments.completed(component, "component")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Build them in the order of their needs."""
    from abh.build import components

    with output.report(args.json) as report:
        for name in args.component or [each.name for each in components.COMPONENTS.values() if not each.on_demand]:
            path = components.path_of(name)
            print(f"{name:16} {path}", flush=True)
            report[name] = str(path)
    return Status.SUCCESS
