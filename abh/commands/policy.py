# SPDX-License-Identifier: MIT
"""Say for each VM of a libvirt host how its memory is backed and paged, and see whether it is: docs/policy.md.

The policy is kept in the domain's own metadata. `set` stores it, `apply` changes the domain and what runs, `verify`
says of each setting whether it is granted, denied or unknown, from what the host shows at the moment.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from abh import output
from abh.arguments import completed, folder, vm_policy
from abh.errors import AbhError, Status

if TYPE_CHECKING:
    from abh.policy.domain import Domain
    from abh.policy.verify import Finding

HELP = "how each VM of a libvirt host is backed and paged"
MARKS = {"granted": " ", "denied": "✗", "unknown": "?"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The steps of a policy's life."""
    steps = parser.add_subparsers(dest="step", required=True)
    set_ = _step(steps, "set", "store a policy in a domain; nothing else changes yet", set_policy)
    set_.add_argument("vm", metavar="VM", help="its name, or its UUID")
    completed(
        set_.add_argument("policy", metavar="POLICY", type=vm_policy, help="a name (vm-configs/policies), or a file"),
        "policy",
    )
    set_.add_argument("--replace", action="store_true", help="also one that a newer abh has written")
    for word, text, do in (
        ("get", "print a domain's policy", get),
        ("unset", "remove it, and take back what `apply` changed in the domain", unset),
        ("apply", "make domain and running VM so; says what needs a restart", apply),
        ("verify", "granted, denied or unknown, for each setting", verify),
    ):
        step = _step(steps, word, text, do)
        step.add_argument("vm", metavar="VM", help="its name, or its UUID")
        if word == "verify":
            step.add_argument("--strict", action="store_true", help="what is best-effort counts for the status, too")
    _step(steps, "list", "all domains, with their policies", list_)
    hook = steps.add_parser("hook", help="what libvirt runs when a VM starts", allow_abbrev=False)
    parts = hook.add_subparsers(dest="part", metavar="STEP", required=True)
    for word, text in (("install", "put it in place"), ("uninstall", "remove it"), ("status", "is it in place?")):
        part = parts.add_parser(word, help=text, allow_abbrev=False)
        completed(
            part.add_argument("--hooks", metavar="DIR", type=folder, help="libvirt's (default: /etc/libvirt/hooks)"),
            "directory",
        )
        output.add_json(part)
        part.set_defaults(do=hook_)


def _step(steps: Any, word: str, text: str, do: Any) -> argparse.ArgumentParser:
    step: argparse.ArgumentParser = steps.add_parser(word, help=text, description=text, allow_abbrev=False)
    output.add_connect(step)
    output.add_json(step)
    step.set_defaults(do=do)
    return step


def run(args: argparse.Namespace) -> int:
    """One step."""
    with output.report(args.json) as report:
        status = int(args.do(args, report))
    return status


def set_policy(args: argparse.Namespace, report: dict[str, Any]) -> Status:
    """Stores the policy, and keeps what else is there."""
    from dataclasses import replace

    from abh.policy import apply as applying
    from abh.policy import binding, claim, domain, suited
    from abh.schema import spec

    policy = spec.vm_policy(args.policy)
    with binding.connection(args.connect) as connection:
        one = domain.find(connection, args.vm)
        suited.check(policy, applying.hypervisor_of(one))
        with claim.claim(one):
            try:
                kept = one.kept()
            except AbhError:
                if not args.replace:
                    raise
                kept = applying.salvaged(one)
            suited.check_shadow(policy, one.document(), applying.hypervisor_of(one), kept.before, one.where)
            one.keep(replace(domain.Kept.of(policy), before=kept.before, deployed=kept.deployed))
        left = suited.not_applied(policy)
        report.update(
            vm=one.name, policy=policy.name, replaced=kept.name or None, running=one.running, not_applied=left
        )
        instead = f" in place of {kept.name}" if kept.name not in ("", policy.name) else ""
        print(f"{one.name}: policy {policy.name}{instead}; next: `abh policy apply`, and `abh policy verify`")
        for line in left:
            print(f"! {line}")
        _earlier(applying.earlier(one), report)
    return Status.SUCCESS


def get(args: argparse.Namespace, report: dict[str, Any]) -> Status:
    """Prints the policy as it is stored: TOML, so what is said beside it is a comment."""
    from abh.policy import apply as applying
    from abh.policy import binding, domain

    with binding.connection(args.connect, read_only=True) as connection:
        one = domain.find(connection, args.vm)
        _earlier(applying.earlier(one, of_policy=True), report, "# !")
        policy = _policy(one)
        report.update(vm=one.name, policy=policy.name, settings=policy.settings(), required=list(policy.vm.required))
        print(f"# policy {policy.name} of {one.name}\n{one.kept().policy}", end="")
    return Status.SUCCESS


def unset(args: argparse.Namespace, report: dict[str, Any]) -> Status:
    """Takes all back; what runs keeps what it has until it ends."""
    from abh.policy import apply as applying
    from abh.policy import binding, domain

    with binding.connection(args.connect) as connection:
        one = domain.find(connection, args.vm)
        changed = applying.unset(one)
        kept = applying.outlived(one)
        report.update(vm=one.name, changed=list(changed), restart=bool(kept))
        print("\n".join([f"{one.name}: no policy", *(f"  {line}" for line in changed)]))
        if kept:
            print(f"  what runs keeps {', '.join(kept)} as it is, until the VM is restarted")
        _earlier(applying.earlier(one), report)
    return Status.SUCCESS


def apply(args: argparse.Namespace, report: dict[str, Any]) -> Status:
    """Fails if something that was to be changed was not."""
    from abh.policy import apply as applying
    from abh.policy import binding, domain

    with binding.connection(args.connect) as connection:
        one = domain.find(connection, args.vm)
        done = applying.apply(one, _policy(one))
        report.update(vm=one.name, changed=list(done.changed), failed=list(done.failed))
        report.update(restart=done.restart, hint=done.hint)
        print("\n".join([f"{one.name}:", *(f"  {line}" for line in done.changed or ["nothing to change"])]))
        for line in done.failed:
            print(f"✗ {line}")
        _earlier(done.earlier, report)
        if done.hint:
            print(f"! {done.hint}")
        if done.restart and not done.earlier:
            print("  a restart of the VM is needed (not a reboot of its guest): `virsh shutdown`, then `virsh start`")
    return Status.FAILED if done.failed else Status.SUCCESS


def verify(args: argparse.Namespace, report: dict[str, Any]) -> Status:
    """0: all that is required is granted. 1: something is denied. 3: something cannot be seen."""
    from abh.policy import apply as applying
    from abh.policy import binding, domain
    from abh.policy import verify as verifying
    from abh.policy.evidence import Evidence

    with binding.connection(args.connect) as connection:
        one = domain.find(connection, args.vm)
        policy = _policy(one)
        found = verifying.findings(policy, Evidence(one))
        status = verifying.status(found, strict=args.strict)
        report.update(vm=one.name, policy=policy.name, status=int(status), findings=[each.as_json() for each in found])
        _show(one.name, policy.name, found)
        _earlier(applying.earlier(one), report)
    return status


def _show(vm: str, policy: str, found: list[Finding]) -> None:
    """Switches of one table that have one answer are one line, unless they are denied."""
    print(f"{vm}: policy {policy}")
    groups: dict[object, list[Finding]] = {}
    for each in found:
        table, _, switch = each.setting.partition(" ")
        said = each.answer.evidence if each.answer.state == "unknown" else ""
        alone = not switch or each.answer.state == "denied"
        groups.setdefault(each.setting if alone else (table, each.answer.state, said), []).append(each)
    for group in groups.values():
        first = group[0]
        level = "required" if first.required else "best-effort"
        what = f"{first.setting} = {first.wanted}"
        said = first.answer.evidence
        if len(group) > 1:
            what = f"{first.setting.partition(' ')[0]}: {len(group)} switches"
            said = said if first.answer.state == "unknown" else "each is as the policy has it"
        print(f"{MARKS[first.answer.state]} {first.answer.state:8} {what} ({level})\n             {said}")
        if first.answer.next_step:
            print(f"             next: {first.answer.next_step}")


def list_(args: argparse.Namespace, report: dict[str, Any]) -> Status:
    """Every domain; one whose policy cannot be read is in the list, with the reason."""
    from abh.policy import apply as applying
    from abh.policy import binding, domain, guest

    rows: list[dict[str, Any]] = []
    with binding.connection(args.connect, read_only=True) as connection:
        for one in domain.every(connection):
            row: dict[str, Any] = {"vm": one.name, "policy": None, "reason": None, "earlier": None}
            try:
                row["running"] = one.running
                row["policy"] = one.kept().name or None
                row["earlier"] = applying.earlier(one, of_policy=True)
            except binding.NoDomain:  # it has gone since
                continue
            except AbhError as error:
                row["reason"] = f"{error.what}: {error.got}"
            rows.append(row)
    report["domains"] = rows
    lines = [(guest.plain(row["vm"]), guest.plain(row["policy"] or row["reason"] or "(none)")) for row in rows]
    width = max((len(vm) for vm, _ in lines), default=0)
    for row, (vm, said) in zip(rows, lines, strict=True):
        print(f"{vm:{width}}  {'running' if row['running'] else 'off':8}{said}")
    for row, (vm, _) in zip(rows, lines, strict=True):
        if row["earlier"]:
            print(f"! {vm}: {guest.plain(row['earlier'])}")
    if not rows:
        print("this connection has no domains")
    return Status.SUCCESS


def hook_(args: argparse.Namespace, report: dict[str, Any]) -> Status:
    """Installs, removes or looks at the hook."""
    from abh.policy import install

    hooks = args.hooks or install.HOOKS
    if args.part == "status":
        found = install.examine(hooks)
    else:
        found = install.install(hooks) if args.part == "install" else install.uninstall(hooks)
    report.update(state=found.state, files=list(found.files))
    print("\n".join([found.state, *(f"  {file}" for file in found.files)]))
    if args.part == "install":
        print("restart libvirtd, or virtqemud and virtxend: they look for hooks when they start; VMs run on meanwhile")
    return Status.SUCCESS if args.part != "status" or found.state == "installed" else Status.FAILED


def _earlier(said: str | None, report: dict[str, Any], mark: str = "!") -> None:
    from abh.policy import guest

    report["earlier"] = said
    if said:
        print(f"{mark} {guest.plain(said)}")


def _policy(one: Domain) -> Any:
    policy = one.policy()
    if policy is None:
        raise AbhError(
            "the domain has no policy", where=one.where, next_step="`abh policy set VM POLICY`; `abh list` names them"
        )
    return policy
