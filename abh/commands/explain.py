# SPDX-License-Identifier: MIT
"""Why memory of a VM is not in hugepages of the host's: each range of it, and the reason.

`abh run --explain` is about page faults of a program in the bench; this is about a VM on a libvirt host.
"""

from __future__ import annotations

import argparse

from abh import output
from abh.errors import AbhError, Status, as_root

HELP = "why memory of a VM is not in hugepages"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which VM."""
    parser.add_argument("vm", metavar="VM", help="its name, or its UUID")
    output.add_connect(parser)
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the ranges."""
    from abh.policy import binding, domain, explain
    from abh.policy.evidence import Evidence
    from abh.policy.memory import Unreadable

    with output.report(args.json) as report, binding.connection(args.connect) as connection:
        one = domain.find(connection, args.vm)
        try:
            parts = explain.parts(Evidence(one))
        except Unreadable as error:
            step = as_root("see that the VM runs, and on this machine")
            raise AbhError("the VM's memory cannot be seen", where=one.where, got=error, next_step=step) from None
        report.update(vm=one.name, ranges=[each.as_json() for each in parts])
        huge = sum(each.end - each.start for each in parts if each.huge) >> 10
        whole = sum(each.end - each.start for each in parts) >> 10
        print(f"{one.name}: {huge} of {whole} KiB are in hugepages of the host's")
        for each in parts:
            if not each.huge:
                kib = (each.end - each.start) >> 10
                print(f"  block {each.block}, from {each.start >> 10} KiB: {kib} KiB: {each.reason}")
    return Status.SUCCESS
