# SPDX-License-Identifier: MIT
"""The VMs of a libvirt host, and what of their memory is in hugepages.

guest: of what its programs use, by the guest's own account. host: of what the host has mapped. both: of what the
guest's programs use, in hugepages of guest and host at once. trend: of these, since the last look. n/a is what cannot
be seen; the reason is below the table.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from abh import output
from abh.arguments import completed, new_file, wrong
from abh.errors import AbhError, Status

if TYPE_CHECKING:
    from abh.policy.status import Row

HELP = "the VMs of a libvirt host, and what of their memory is huge"
EVERY_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How it is shown."""
    parser.add_argument("--watch", action="store_true", help=f"look again every {EVERY_S:.0f} s, with what has changed")
    completed(
        parser.add_argument(
            "--prometheus", metavar="FILE", type=new_file, help="write it for the node exporter's textfile collector"
        ),
        "file",
    )
    output.add_connect(parser)
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table, once or again and again."""
    if args.watch and args.json:
        raise wrong("--json is one document", got="--watch --json", next_step="leave one of them out")
    looked = False
    while True:
        try:
            uri, found = _look(args)
            looked = True
            _show(args, uri, found)
        except AbhError as error:
            if not (args.watch and looked):
                raise
            # The daemon may have been restarted, as its package does at each update: the VMs run on.
            print(f"abh: {error}\nabh: looking again in {EVERY_S:.0f} s", file=sys.stderr, flush=True)
        if not args.watch:
            return Status.SUCCESS
        time.sleep(EVERY_S)
        print()


def _look(args: argparse.Namespace) -> tuple[str, list[Row]]:
    from abh.policy import binding, status

    with binding.connection(args.connect) as connection, binding.errors("libvirt", "does its daemon run?"):
        return str(connection.getURI()), status.rows(connection)


def _show(args: argparse.Namespace, uri: str, found: list[Row]) -> None:
    from abh import files
    from abh.policy import status, trend

    before = trend.last(uri)
    if args.prometheus:
        files.write_text(Path(args.prometheus), status.prometheus(found))
    with output.report(args.json) as report:
        report["trend_since"] = before.when or None
        report["vms"] = [row.as_json() | {"trend_kib": before.change_kib(row.uuid, row.shares)} for row in found]
    if not args.json:
        print(status.table(found, before) if found else "this connection has no domains", flush=True)
    trend.keep(uri, trend.of((row.uuid, row.shares) for row in found))
