# SPDX-License-Identifier: MIT
"""A table of the VMs of a host: what of their memory is huge, in the guest, on the host, and in both at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from abh.errors import AbhError
from abh.policy import binding, domain, guest, host, verify
from abh.policy.evidence import Evidence, Shares

METRICS = {
    "mapped_kib": ("abh_vm_mapped_bytes", "Guest memory that the host has mapped."),
    "host_huge_kib": ("abh_vm_host_huge_bytes", "Of that, in hugepages of the host's."),
    "guest_used_kib": ("abh_vm_guest_used_bytes", "Memory of the guest's programs, as the guest says."),
    "guest_huge_kib": ("abh_vm_guest_huge_bytes", "Of that, in hugepages of the guest's."),
    "both_kib": ("abh_vm_both_huge_bytes", "In hugepages of guest and host at once."),
}
STATES: tuple[verify.State, ...] = ("granted", "denied", "unknown")


@dataclass(frozen=True)
class Row:
    """One VM."""

    vm: str
    uuid: str
    running: bool
    paging: str | None
    policy: str | None
    counts: dict[str, int]  # of its policy's settings, by state
    shares: Shares

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        shares = self.shares
        return {
            "vm": self.vm,
            "uuid": self.uuid,
            "running": self.running,
            "paging": self.paging,
            "policy": self.policy,
            "settings": self.counts,
            **{name: getattr(shares, name) for name in METRICS},
            "guest_share": shares.guest_share,
            "host_share": shares.host_share,
            "aligned_share": shares.aligned_share,
            "reasons": list(shares.reasons),
        }


def rows(connection: Any) -> list[Row]:
    """All domains of the connection, by name, but those that have gone while they were looked at."""
    found = []
    for one in domain.every(connection):
        with contextlib.suppress(binding.NoDomain):
            found.append(_row(one))
    return found


def _row(one: domain.Domain) -> Row:
    seen = Evidence(one)
    counts: dict[str, int] = {}
    try:
        policy = one.policy()
        name = policy.name if policy else None
        if policy and seen.running:
            states = [each.answer.state for each in verify.findings(policy, seen)]
            counts = {str(state): states.count(state) for state in STATES}
    except binding.NoDomain:
        raise
    except AbhError as error:
        name = f"({error.what})"
    shares = seen.shares() if seen.running else Shares(reasons=("it does not run",))
    return Row(one.name, one.uuid, seen.running, _paging(seen) if seen.running else None, name, counts, shares)


def _paging(seen: Evidence) -> str | None:
    if seen.kind == "xen":
        hap = seen.tree.find("features/hap")
        return None if hap is None else {"off": "shadow"}.get(hap.get("state", "on"), "hap")
    if seen.kind == "qemu":
        return "emulated"
    return host.paging(seen.root)[0] if seen.kind == "kvm" else None


def table(found: Sequence[Row], before: Iterable[Row] = ()) -> str:
    """For people. What is not known is n/a; a trend needs an earlier look."""
    earlier = {row.uuid: row.shares for row in before}
    heads = ("VM", "guest", "host", "both", "trend", "paging", "policy", "granted", "denied", "unknown")
    lines: list[tuple[str, ...]] = [heads]
    for row in found:
        shares = row.shares
        lines.append(
            (
                guest.plain(row.vm),
                _share(shares.guest_share),
                _share(shares.host_share),
                _share(shares.aligned_share),
                _trend(earlier.get(row.uuid), shares),
                row.paging or "n/a",
                row.policy or "(none)",
                *(str(row.counts[state]) if row.counts else "" for state in STATES),
            )
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    text = ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    notes = [f"{guest.plain(row.vm)}: {reason}" for row in found if row.running for reason in row.shares.reasons]
    return "\n".join([*text, *(["", *notes] if notes else [])])


def _share(share: float | None) -> str:
    return "n/a" if share is None else f"{share:.0%}"


def _trend(before: Shares | None, now: Shares) -> str:
    """Of the memory huge in both, or, where that is not known, on the host."""
    if before is None:
        return ""
    for name in ("both_kib", "host_huge_kib"):
        was, is_ = getattr(before, name), getattr(now, name)
        if was is not None and is_ is not None:
            return "=" if was == is_ else f"{(is_ - was) / 1024:+.0f} MiB"
    return "n/a"


def prometheus(found: Sequence[Row]) -> str:
    """For the textfile collector of Prometheus' node exporter. What is not known has no sample."""
    lines = []
    for name, (metric, text) in METRICS.items():
        lines += [f"# HELP {metric} {text}", f"# TYPE {metric} gauge"]
        lines += [
            f"{metric}{{{_labels(row)}}} {value * 1024}"
            for row in found
            if (value := getattr(row.shares, name)) is not None
        ]
    lines += ["# HELP abh_vm_settings Settings of the VM's policy, by state.", "# TYPE abh_vm_settings gauge"]
    lines += [
        f'abh_vm_settings{{{_labels(row)},state="{state}"}} {count}'
        for row in found
        for state, count in row.counts.items()
    ]
    return "".join(f"{line}\n" for line in lines)


def _labels(row: Row) -> str:
    values = {"vm": row.vm, "uuid": row.uuid, "policy": row.policy or ""}
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
