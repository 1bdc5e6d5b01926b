# SPDX-License-Identifier: MIT
"""What of a policy a VM of a libvirt host can have: the study's environments can have more of their guests."""

from __future__ import annotations

from abh.errors import AbhError, Status
from abh.paths import CHECKOUT
from abh.schema import spec
from abh.schema.policy import Policy


def check(policy: Policy, hypervisor: str) -> None:
    """Refuses a policy that no VM can have, or none of this hypervisor, xen or kvm."""
    apart = {each.group for each in spec.ENVIRONMENT.all(CHECKOUT).values()} - {""}
    got = None
    if policy.group in apart and policy.path.is_relative_to(CHECKOUT):
        got = f"a policy of the group {policy.group}, which is for another machine"
    elif policy.guest.before:
        got = f"guest.before: {' '.join(policy.guest.before)}, a program in the guest, which the bench alone has there"
    if got:
        raise AbhError(
            f"policy `{policy.name}` is not for VMs of a libvirt host",
            where=policy.path,
            got=got,
            next_step=f"take `{meant(policy)}`; `abh list vm-` shows those that are meant for VMs",
            status=Status.USAGE,
        )
    if policy.host.domain and hypervisor != "xen":
        raise AbhError(
            f"policy `{policy.name}` is for domains of Xen's, and this is none",
            where=policy.path,
            got=f"host.domain: {', '.join(policy.host.domain)}, which only Xen has",
            expected="a domain of type='xen'",
            next_step="take another policy; `abh list vm-` shows those that are meant for VMs",
            status=Status.USAGE,
        )


def not_applied(policy: Policy) -> list[str]:
    """What of a policy nobody outside the guest applies, in words for a user."""
    parts = {
        "guest.env": " ".join(f"{name}={value}" for name, value in policy.guest.env.items()),
        "guest.cmdline": policy.guest.cmdline,
        # Where a switch below it is set, `apply` and `verify` say whether it is there.
        "requires": " ".join(
            path for path in policy.requires if not any(each.startswith(f"{path}/") for each in policy.guest.sysfs)
        ),
    }
    whose = {
        "guest.env": "it is for programs in the guest",
        "guest.cmdline": "the guest's kernel has the command line of its domain or boot loader",
        "requires": "nobody looks in the guest whether it is there",
    }
    return [
        f"not applied: {part} ({text}): {whose[part]}; the policy that is meant for VMs is `{meant(policy)}`"
        for part, text in parts.items()
        if text
    ]


def meant(policy: Policy) -> str:
    """The policy of the group vm that comes nearest."""
    if policy.host.domain:
        return "vm-xen-shadow"
    abh = any(each.startswith("/sys/kernel/mm/abh") for each in (*policy.guest.sysfs, *policy.requires))
    if abh or any("malloc.abh" in value for value in policy.guest.env.values()):
        return "vm-abh"
    never = policy.host.sysfs.get("/sys/kernel/mm/transparent_hugepage/enabled") == "never"
    return "vm-base-pages" if never else "vm-thp"
