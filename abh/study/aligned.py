# SPDX-License-Identifier: MIT
"""The well-aligned share of a cell: what of the workload's memory is huge in guest and host at once.

No counter has it, and to ask for it page by page would cost instructions that are counted. So these are its bounds, of
totals that are counted: of g and h that lie in m, at least g + h - m are in both, and at most the smaller of the two.
"""

from __future__ import annotations

from collections.abc import Mapping

from abh.schema.result import Value

LEAST, MOST = "aligned_share_at_least", "aligned_share_at_most"
NATIVE = "no hypervisor: there are no two layers that could be aligned"
_OF = "of rss_peak_kib, what is huge in guest and host at once"
_NESTED = f"{_OF}; a bound, of guest_huge_kib, host_huge_kib and host_mapped_kib, as if of one moment"
_SHADOW = f"{_OF}; a bound: entries of the one table that is walked are huge only there, but the guest's kernel's, too"


def bounds(guest: float, host: float, mapped: float) -> tuple[float, float]:
    """The least and the most that can be huge in both."""
    return max(0, guest + host - mapped), min(guest, host)


def values_of(paging: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """Both bounds of a cell whose guest is paged so."""
    if paging == "native":
        return _unknown(NATIVE)
    names = ["guest_huge_kib", "host_huge_kib", "rss_peak_kib", *(["host_mapped_kib"] if paging == "hap" else [])]
    for name in names:
        if name not in values or values[name].value is None:
            why = values[name].reason if name in values else "the result does not have it"
            return _unknown(f"{name}: {why}")
    guest, host, used = (values[name].value for name in names[:3])
    least, most = (0, min(guest, host)) if paging != "hap" else bounds(guest, host, values["host_mapped_kib"].value)
    if least > most or not used:
        return _unknown("the guest had more in hugepages than the host had mapped when it was looked at")
    note = _NESTED if paging == "hap" else _SHADOW
    shares = {LEAST: min(1, least / used), MOST: min(1, most / used)}
    return {name: Value(value=share, unit="ratio", kind="counted", reason=note) for name, share in shares.items()}


def _unknown(why: str) -> dict[str, Value]:
    return dict.fromkeys((LEAST, MOST), Value.unknown("ratio", "counted", why))
