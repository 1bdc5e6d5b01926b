# SPDX-License-Identifier: MIT
"""Define a domain on a libvirt host from its XML: a file, or the name of a domain in vm-configs/libvirt.

The same again changes nothing. A domain that abh did not define, or that another has changed since, is left alone
unless --adopt says otherwise. libvirt's own schemas judge the XML. `virsh undefine` takes the domain away again.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from abh import output
from abh.arguments import completed, vm_policy, wrong
from abh.errors import AbhError, Status

if TYPE_CHECKING:
    from abh.policy.deploy import Plan

HELP = "define a domain on a libvirt host"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The domain, and how."""
    completed(parser.add_argument("domain", metavar="DOMAIN", help="a file, or a name of vm-configs/libvirt"), "file")
    parser.add_argument("--name", help="the domain's name, if not that of its XML")
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        type=_assignment,
        action="append",
        default=[],
        help="a ${variable} of the XML; may be repeated",
    )
    completed(
        parser.add_argument("--policy", metavar="POLICY", type=vm_policy, help="what it is to have: a name, or a file"),
        "policy",
    )
    parser.add_argument("--adopt", action="store_true", help="also if abh did not define it, or another has changed it")
    parser.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")
    parser.add_argument("--start", action="store_true", help="start it, if it does not run")
    output.add_connect(parser)
    output.add_json(parser)


def _assignment(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals or not re.fullmatch(r"[a-z_][a-z0-9_]*", key, re.ASCII):
        raise argparse.ArgumentTypeError(f"got {word!r}, expected NAME=VALUE")
    return key, value


def run(args: argparse.Namespace) -> int:
    """Define it, or say what that would do."""
    if args.dry_run and args.start:
        raise wrong("--dry-run starts nothing", got="--dry-run with --start", next_step="leave one of them out")
    from abh.policy import binding, deploy, source
    from abh.schema import spec

    policy = spec.vm_policy(args.policy) if args.policy else None
    text = source.source(args.domain, dict(args.set), args.name)
    note = source.check(text, args.domain)
    with output.report(args.json) as report, binding.connection(args.connect, read_only=args.dry_run) as connection:
        vm = deploy.name_of(text)
        if args.dry_run:
            plan = deploy.plan(text, policy, deploy.existing(connection, vm), secrets=False)
            _tell(plan, note, report)
            return Status.SUCCESS
        with deploy.claimed(connection, vm) as old:
            plan = deploy.plan(text, policy, old)
            _tell(plan, note, report)
            if args.start and old and old.saved:
                raise AbhError(
                    "what would be started is a saved state, as it was then: nothing has been done",
                    where=f"domain {vm!r}",
                    next_step=f"start it and shut it down; or `virsh managedsave-remove {vm}`, which loses it",
                )
            if plan.notes and not args.adopt:
                raise AbhError(
                    "this domain is not abh's to change",
                    where=f"domain {vm!r}",
                    got="; ".join(plan.notes),
                    next_step="look at it with --dry-run; --adopt changes it",
                )
            if plan.document:
                deploy.execute(connection, plan)
                report["done"] = True
                runs = "; it runs on as it was started, until it is restarted" if old and old.running else ""
                print(f"{vm}: defined{runs}")
        if args.start:
            _start(connection, vm)
    return Status.SUCCESS


def _tell(plan: Plan, note: str | None, report: dict[str, Any]) -> None:
    report.update(vm=plan.name, changes=bool(plan.document), difference=list(plan.difference))
    report.update(lost=list(plan.lost), policy_changes=list(plan.said))
    report.update(notes=[*plan.notes, *plan.remarks, *([note] if note else [])], done=False)
    lines = list(plan.difference)
    if plan.lost:
        lines += [f"{plan.name}: what is lost (-), but for what libvirt puts there by itself:", *plan.lost]
    lines += [f"{plan.name}: policy: {line}" for line in plan.said]
    nothing = "the XML and the policy are those of the last time" if plan.document else "nothing to change"
    print("\n".join(lines) or f"{plan.name}: {nothing}")
    for line in report["notes"]:
        print(f"! {line}")


def _start(connection: object, vm: str) -> None:
    from abh.policy import deploy

    one = deploy.existing(connection, vm)
    if one is None:
        raise AbhError("another has removed this domain meanwhile", where=f"domain {vm!r}")
    if one.running:
        print(f"{vm}: runs already")
        return
    with one.errors("see what the hook and the hypervisor say"):
        one.handle.create()
    print(f"{vm}: started")
