# SPDX-License-Identifier: MIT
"""What a VM has got of its policy: granted, denied or unknown, setting by setting, from what is seen at the moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from abh.errors import Status
from abh.policy import host, install
from abh.policy.evidence import Evidence
from abh.policy.memory import Mapping as Block
from abh.policy.memory import Unreadable
from abh.schema.policy import Policy

State = Literal["granted", "denied", "unknown"]
RUN_AS_ROOT = "run it as root on the VM's host"


@dataclass(frozen=True)
class Answer:
    """Whether a setting is had, what shows it, and what to do where it is not."""

    state: State
    evidence: str
    next_step: str = ""


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


def _blocks(seen: Evidence) -> list[Block]:
    return seen.blocks


def _host_thp(seen: Evidence) -> str:
    mode = host.setting(f"{host.THP}/enabled", seen.root)
    if mode is None:
        raise Unreadable(f"/{host.THP}/enabled is not there")
    return mode


def thp(wanted: Any, seen: Evidence) -> Answer:
    """Whether the kernel may give hugepages to the guest's memory: it says so itself of each mapping."""
    blocks = _blocks(seen)
    mode = _host_thp(seen)
    eligible = [each for each in blocks if each.eligible]
    huge = sum(each.huge_kib for each in blocks)
    said = f"{len(eligible)} of {len(blocks)} mappings eligible (smaps), {huge} KiB huge, /{host.THP}/enabled is {mode}"
    if wanted == "off":
        return _got(not eligible and not huge, said, f"echo never > /{host.THP}/enabled, and restart the VM")
    if len(eligible) == len(blocks):
        return Answer("granted", said)
    kinds = ", ".join(sorted({each.path or "anonymous" for each in blocks if not each.eligible}))
    step = f"echo madvise > /{host.THP}/enabled" if mode == "never" else f"memory of {kinds}: see `abh explain`"
    return Answer("denied", said, step)


def huge_share(wanted: Any, seen: Evidence) -> Answer:
    """What is in hugepages of what the host has mapped."""
    mapped = sum(each.mapped_kib for each in _blocks(seen))
    huge = sum(each.huge_kib for each in _blocks(seen))
    if not mapped:
        raise Unreadable("the host has mapped nothing of the guest's memory yet")
    said = f"{huge} of {mapped} KiB mapped are in hugepages (smaps): {huge / mapped:.1%}"
    if (kvm := host.kvm_mapped(seen.pid, seen.root)) is not None and kvm.kib:
        said += f"; KVM itself maps {kvm.huge_kib} of {kvm.kib} KiB so"
        if kvm.huge_kib < wanted * kvm.kib:  # a hugepage that is written down page by page is none for the guest
            huge = 0
    return _got(huge >= wanted * mapped, said, "`abh explain` says why; `abh policy apply` collapses, if it may")


def collapse(wanted: Any, seen: Evidence) -> Answer:
    """Whether it has been done for this very process."""
    pid = seen.pid
    record = seen.record()
    if record is not None and (wanted == "request" or record["by"] == "start"):
        return Answer(
            "granted", f"process {pid}: {record['made']} hugepages made; not made: {record['failed'] or 'none'}"
        )
    if wanted == "request":
        raise Unreadable("nobody has asked for it since the VM started: `abh policy apply`")
    state = install.examine().state
    if state != "installed":
        return Answer("denied", f"the hook is {state}", "abh policy hook install, restart libvirt's daemon and the VM")
    return Answer("denied", f"the hook has noted nothing of process {pid}", "look for abh in the system's log")


def hugetlb_kib(wanted: Any, seen: Evidence) -> Answer:
    """The page size by which the kernel maps the memory."""
    sizes = sorted({each.page_kib for each in _blocks(seen)})
    return _got(
        sizes == [wanted],
        f"mapped by pages of {', '.join(map(str, sizes))} KiB (smaps)",
        "`abh policy apply`, free pages in the pool, and a restart of the VM",
    )


def alignment_kib(wanted: Any, seen: Evidence) -> Answer:
    """The addresses at which the guest's memory begins."""
    starts = [each.start for each in _blocks(seen)]
    return _got(
        all(start % (wanted << 10) == 0 for start in starts),
        f"begins at {', '.join(map(hex, starts))} (smaps)",
        "memory that is neither memfd nor a file: take <source> out of <memoryBacking>, and restart the VM",
    )


def ksm(wanted: Any, seen: Evidence) -> Answer:
    """Whether the memory is offered for merging, and anybody merges."""
    offered = [each for each in _blocks(seen) if "mg" in each.flags]
    running = host.setting(host.KSM, seen.root) == "1"
    said = (
        f"{len(offered)} of {len(_blocks(seen))} mappings offered (smaps), /{host.KSM} is {'1' if running else 'not 1'}"
    )
    if wanted:
        return _got(bool(offered) and running, said, f"echo 1 > /{host.KSM}; `abh policy apply`; restart the VM")
    return _got(not offered, said, "`abh policy apply` and a restart of the VM")


def paging(wanted: Any, seen: Evidence) -> Answer:
    """KVM: the host's one mode. Xen: the domain's, as libvirt's Xen driver has it."""
    if not seen.running:
        raise Unreadable("the VM does not run")
    if seen.kind == "xen":
        hap = seen.tree.find("features/hap")
        state = None if hap is None else {"off": "shadow"}.get(hap.get("state", "on"), "hap")
        if state is None:
            raise Unreadable("the running domain's XML has no <hap>: it was started with Xen's default")
        return _got(
            state == wanted, f"<hap> of the running domain: {state}", "`abh policy apply` and a restart of the VM"
        )
    seen.here()
    if seen.kind == "qemu":
        return Answer(
            "denied", "the VM is emulated (type='qemu'): no hypervisor pages it", "use a domain of type='kvm'"
        )
    mode, said = host.paging(seen.root)
    if mode is None:
        raise Unreadable(said)
    return _got(mode == wanted, said, "load KVM's module with the other value while no VM runs, or move the VM")


Check = Callable[[Any, Evidence], Answer]
CHECKS: Mapping[str, Check] = {
    each.__name__: each for each in (thp, huge_share, collapse, hugetlb_kib, alignment_kib, ksm, paging)
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


def _domain(name: str) -> Check:
    def check(_wanted: Any, _seen: Evidence) -> Answer:
        raise Unreadable(f"Xen does not say of a domain whether {name} is on; its counters do (xen-superpages)")

    return check


TABLES: Mapping[str, Callable[[str], Check]] = {"guest": _guest, "host": _host, "domain": _domain}


def status(found: Iterable[Finding], *, strict: bool) -> Status:
    """Success: all that is required is granted; strict: all. Denied is worse than unknown."""
    counted: Sequence[Finding] = [each for each in found if strict or each.required]
    states = {each.answer.state for each in counted}
    if "denied" in states:
        return Status.FAILED
    return Status.ERROR if "unknown" in states else Status.SUCCESS
