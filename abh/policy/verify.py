# SPDX-License-Identifier: MIT
"""What a VM has got of its policy: granted, denied or unknown, setting by setting, from what is seen at the moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from abh.errors import Status
from abh.policy import backing, host, install, xen
from abh.policy.evidence import Evidence
from abh.policy.memory import Unreadable
from abh.schema.policy import Policy

State = Literal["granted", "denied", "unknown"]
# Of collapsible places, what may be base pages still: pages that are pinned, or just touched. Arbitrary.
LEFT, LEFT_SHARE = 2, 0.1
RUN_AS_ROOT = "run it as root on the VM's host"


@dataclass(frozen=True)
class Answer:
    """Whether a setting is had, what shows it, and what to do where it is not."""

    state: State
    evidence: str
    next_step: str = ""


Check = Callable[[Any, Evidence], Answer]


@dataclass(frozen=True)
class Finding:
    """An answer, with what was asked for."""

    setting: str
    wanted: object
    required: bool
    answer: Answer

    def as_json(self) -> dict[str, object]:
        """For --json."""
        return {
            "setting": self.setting,
            "wanted": self.wanted,
            "level": "required" if self.required else "best-effort",
            "state": self.answer.state,
            "evidence": self.answer.evidence,
            "next_step": self.answer.next_step or None,
        }


def _got(holds: bool, evidence: str, next_step: str) -> Answer:
    return Answer("granted", evidence) if holds else Answer("denied", evidence, next_step)


def _backing(name: str) -> Check:
    """Of what the mappings of the memory show from the start on, and the hook goes by, too."""

    def check(wanted: Any, seen: Evidence) -> Answer:
        had = backing.CHECKS[name](wanted, seen.blocks, seen.root)
        return _got(had.holds, had.evidence, had.next_step)

    return check


def huge_share(wanted: Any, seen: Evidence) -> Answer:
    """What is in hugepages of what the host has mapped."""
    mapped = sum(each.mapped_kib for each in seen.blocks)
    huge = sum(each.huge_kib for each in seen.blocks)
    if not mapped:
        raise Unreadable("the host has mapped nothing of the guest's memory yet")
    said = f"{huge} of {mapped} KiB mapped are in hugepages (smaps): {huge / mapped:.1%}"
    if (kvm := host.kvm_mapped(seen.pid, seen.root)) is not None and kvm.kib:
        said += f"; KVM itself maps {kvm.huge_kib} of {kvm.kib} KiB so"
        if kvm.huge_kib < wanted * kvm.kib:  # a hugepage that is written down page by page is none for the guest
            huge = 0
    return _got(huge >= wanted * mapped, said, "`abh explain` says why; `abh policy apply` collapses, if it may")


def collapse(wanted: Any, seen: Evidence) -> Answer:
    """Whether what the guest has touched is hugepages now, but for a few: it goes on touching after each pass."""
    huge, left = seen.collapsible
    if huge + left == 0:
        raise Unreadable("the guest has not touched as much as half of any hugepage yet")
    said = f"{left} of {huge + left} places of 2 MiB that the guest has touched are base pages (pagemap)"
    step = "`abh policy apply`"
    if wanted == "start":
        state = install.examine().state
        said += f"; the hook is {state}"
        if state != "installed":
            step = (
                "abh policy hook install, and restart libvirt's daemon; until the VM's next start, `abh policy apply`"
            )
        else:
            step += "; what the hook did, the system's log says: `journalctl -t abh`"
    return _got(left < huge and left <= max(LEFT, LEFT_SHARE * (huge + left)), said, step)


# What to do about it, by how the domain is paged, or else by what kind of a domain it is.
PAGED_OTHERWISE = {
    "emulated": "use a domain of type='kvm'",
    "pv": "its page tables are its own: another <type> in <os>, xenpvh or hvm",
    "xen": "`abh policy apply` and a restart of the VM",
    "kvm": "load KVM's module with the other value while no VM runs, or move the VM",
}


def paging(wanted: Any, seen: Evidence) -> Answer:
    """KVM: the host's one mode. Xen: the domain's, as Xen itself says; its XML says only what was asked for."""
    if not seen.running:
        raise Unreadable("the VM does not run")
    found, said = seen.paging
    return _got(found == wanted, said, PAGED_OTHERWISE.get(found) or PAGED_OTHERWISE[seen.kind])


CHECKS: Mapping[str, Check] = {
    **{name: _backing(name) for name in backing.CHECKS},
    **{each.__name__: each for each in (huge_share, collapse, paging)},
}


def findings(policy: Policy, seen: Evidence) -> list[Finding]:
    """An answer for each setting; tables of switches have one for each switch."""
    required = policy.vm.required
    found = []
    for name, wanted in policy.settings().items():
        if name in CHECKS:
            answer = _answered(CHECKS[name], wanted, seen)
            found.append(Finding(name, wanted, name in required, answer))
        elif isinstance(wanted, Mapping):
            check = TABLES[name]
            found += [
                Finding(f"{name} {key}", value, name in required, _answered(check(key), value, seen))
                for key, value in wanted.items()
            ]
    return found


def _answered(check: Check, wanted: Any, seen: Evidence) -> Answer:
    try:
        return check(wanted, seen)
    except Unreadable as error:
        return Answer("unknown", str(error), RUN_AS_ROOT if "as root" in str(error) else "")


def _guest(path: str) -> Check:
    def check(wanted: Any, seen: Evidence) -> Answer:
        now = host.chosen(seen.switch(path))
        return _got(now == wanted, f"the guest says {now!r}", "`abh policy apply`")

    return check


def _host(path: str) -> Check:
    def check(wanted: Any, seen: Evidence) -> Answer:
        seen.here()
        now = host.setting(path, seen.root)
        if now is None:
            return Answer("denied", f"{path} is not there, or not yours to read", "another kernel of the host's")
        return _got(now == wanted, f"{path} is {now}", f"echo {wanted} > {path}: it is for all VMs of the host")

    return check


def _shadow_superpages(wanted: Any, seen: Evidence) -> Answer:
    if not seen.running:
        raise Unreadable("the VM does not run")
    on, said = seen.superpages
    if seen.paging[0] != "shadow":
        step = (
            PAGED_OTHERWISE.get(seen.paging[0]) or 'paging = "shadow" in [vm], `abh policy apply`, a restart of the VM'
        )
    elif on is None:
        step = "boot the Xen of the package xen-hypervisor-abh (`abh debs`)"
    elif (state := install.examine().state) == "installed":
        step = "what the hook did at its start, the system's log says: `journalctl -t abh`"
    else:
        step = f"the hook is {state}: abh policy hook install, restart libvirt's daemon, and then the VM"
    if on is not None:
        step += f"; or at once, as root: {xen.TOOL} {seen.tree.get('id')} {wanted}"
    return _got(bool(on) == (wanted == "1"), said, step)


def _domain(name: str) -> Check:
    return {"shadow_superpages": _shadow_superpages}[name]


TABLES: Mapping[str, Callable[[str], Check]] = {"guest": _guest, "host": _host, "domain": _domain}


def status(found: Iterable[Finding], *, strict: bool) -> Status:
    """Success: all that is required is granted; strict: all. Denied is worse than unknown."""
    counted: Sequence[Finding] = [each for each in found if strict or each.required]
    states = {each.answer.state for each in counted}
    if "denied" in states:
        return Status.FAILED
    return Status.ERROR if "unknown" in states else Status.SUCCESS
