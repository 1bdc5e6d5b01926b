# SPDX-License-Identifier: MIT
"""Build components into the cache, and say where they are.

Without a name: all that a study needs. Those that only tests of the kernel need are built when named.
"""

from __future__ import annotations

import argparse

HELP = "build all components, or the ones named, into the cache"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument(
        "component", nargs="*", help="linux, xen, qemu, glibc, workloads, … (default: all that a study needs)"
    )


def run(args: argparse.Namespace) -> int:
    """Build them in the order of their needs."""
    from abh.bench import build
    from abh.bench.strict import did_you_mean
    from abh.errors import AbhError

    for name in args.component:
        if name not in build.COMPONENTS:
            raise AbhError(
                "unknown component",
                got=name,
                expected="one of " + ", ".join(build.COMPONENTS),
                next_step=did_you_mean(name, build.COMPONENTS, "name one of these"),
            )
    for name in args.component or [each.name for each in build.COMPONENTS.values() if not each.on_demand]:
        print(f"{name:16} {build.path_of(name)}", flush=True)
    return 0
