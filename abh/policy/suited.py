# SPDX-License-Identifier: MIT
"""What of a policy a VM of a libvirt host can have: the study's environments can have more of their guests."""

from __future__ import annotations

from abh.errors import AbhError, Status
from abh.paths import CHECKOUT
from abh.policy import change, hook, xml
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


PARAVIRTUAL = ("xen", "linux")  # <type> in <os>; the others are xenpvh and hvm


def no_shadow(policy: Policy, document: str, where: object) -> tuple[str, str] | None:
    """Why a domain of Xen's with this XML has none of the superpages that a policy wants in its shadow, and what to do;
    None where it can have them, or the policy wants none. What the XML leaves out is Xen's default: nested paging,
    where the hardware can."""
    if not policy.wants_superpages:
        return None
    tree = xml.parse(document, where)
    if (kind := tree.findtext("os/type")) in PARAVIRTUAL:
        return (
            f"shadow_superpages needs shadow paging, and the domain is para-virtual (<type> in <os> is {kind})",
            "take xenpvh or hvm as <type> in <os>, or another policy",
        )
    if (state := hook.hap(tree)) == "off":
        return None
    said = "is on" if state else "is not there, and Xen's default is nested paging"
    return (
        f"shadow_superpages needs shadow paging, and the domain has nested paging: <hap> {said}",
        'add paging = "shadow" to [vm], or take `vm-xen-shadow`',
    )


def check_shadow(policy: Policy, document: str, hypervisor: str, before: str, where: object) -> None:
    """Refuses superpages in the shadow of a domain that is to have none. `before` is what `apply` found where it has
    changed the domain: paging that an earlier policy has put there goes with that policy."""
    if not policy.wants_superpages:
        return
    made = change.apply(document, policy.vm, hypervisor, before, where)
    if found := no_shadow(policy, made.document, where):
        raise AbhError(
            f"policy `{policy.name}` wants superpages in a shadow that the domain does not have",
            where=policy.path,
            got=found[0],
            expected="<hap state='off'/> in the domain, or paging = \"shadow\" in the policy",
            next_step=found[1],
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
