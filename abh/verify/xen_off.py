# SPDX-License-Identifier: MIT
"""Xen with the series and its switch off, beside Xen without the series: small guests must run alike, to the counter.

Both are built with Xen's performance counters, and each guest of tests/xen runs on both. What the counters say of
shadow paging, of walks and of VM exits by reason is the guest's alone, as the control domain is para-virtual, and a
guest alone does the same each time; what depends on when something happens is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from abh import paths
from abh.build import components, series
from abh.errors import AbhError
from abh.verify import xen

COMPONENT = "xen-counted"
SERIES = paths.CHECKOUT / "hypervisor/xen/4.20"
# Counters of the guest alone.
COUNTED = re.compile(r"shadow|guest_pagetable_walks|vmexits\[")
# But how often Xen interrupts a guest, or the guest waits for its console to be read, is a matter of time: exits by a
# (virtual) interrupt, pause, halt and hypercall (AMD APM vol. 2, appendix C).
TIMED = {f"vmexits[{code}]" for code in (0x60, 0x64, 0x77, 0x78, 0x81)}
# What does not end, and what two processors do, which is a matter of who comes first.
LEFT_OUT = ("canary", "race")
# A guest that knows how much it is to do, and how much where nothing else says so.
ARGUMENTS = {"fuzz": "operations=5000 seed=1", "wide": "rounds=1", "churn": "rounds=400"}
SAVED_ROUNDS = 3000  # so many that it is at work for as long as a save takes
NEEDS_SWITCH = "drop"  # which drops all shadows by way of it
TIMES = re.compile(r"ticks \d+")  # of a guest's clock


def jobs(switch: str) -> list[str]:
    """What the host is to do (tests/xen/run): each guest without and with shadow paging; `switch` is 0, or none where
    Xen has none. Guests that another is at work beside, or that the host interrupts, come first and are not counted."""
    made = []
    for paging in ("hap 0", f"shadow {switch}"):
        made += [
            f"{kind} {name} {paging} rounds={SAVED_ROUNDS}" for kind, name in xen.MOVED.items() if kind != NEEDS_SWITCH
        ]
    for name in xen.names():
        if name in alone() or name.removesuffix(xen.PAE) in LEFT_OUT:
            continue
        for paging in _pagings(name, switch):
            partner, *arguments = xen.beside(name)
            made += [f"beside {partner} {paging} {' '.join(arguments)}".rstrip(), f"test {name} {paging}"]
    made.append("count all")
    for name in alone():
        given = ARGUMENTS.get(name.removesuffix(xen.PAE), "")
        made += [f"test {name} {paging} {given}".rstrip() for paging in _pagings(name, switch)]
    return made


def _pagings(name: str, switch: str) -> list[str]:
    return [f"shadow {switch}"] if name.endswith(xen.PAE) else ["hap 0", f"shadow {switch}"]


def alone() -> list[str]:
    """The guests that are counted: those that end, and need no other."""
    return [
        name
        for name in xen.names()
        if (folder := name.removesuffix(xen.PAE)) in ARGUMENTS or not (folder in LEFT_OUT or xen.beside(name))
    ]


def without_series() -> Path:
    """Stock Xen of the same version and options."""
    return components.build_series(replace(series.load(SERIES), patches=()), COMPONENT)


def differences(ours: Sequence[xen.Verdict], stock: Sequence[xen.Verdict]) -> list[str]:
    """What the guests did otherwise on Xen with the series than without."""
    if len(ours) != len(stock):
        raise AbhError("not the same guests", got=f"{len(ours)} with the series, {len(stock)} without")
    return [line for pair in zip(ours, stock, strict=True) for line in _of_one(*pair)]


def _of_one(ours: xen.Verdict, stock: xen.Verdict) -> Iterator[str]:
    name = stock.variant.removesuffix("-none")
    for what, a, b in (
        ("outcome", f"{ours.outcome} {ours.reason}", f"{stock.outcome} {stock.reason}"),
        ("last lines", _untimed(ours.said), _untimed(stock.said)),
    ):
        if a != b:
            yield f"{name}: its {what} with the series: {a}; without: {b}"
    counted = ours.variant.startswith("test:") and ours.variant.split("~")[0].removeprefix("test:") in alone()
    if counted and not (compared(ours) and compared(stock)):
        yield f"{name}: nothing was counted, so nothing is shown"
    for event in sorted(compared(ours).keys() | compared(stock).keys()):
        with_it, without = (each.events.get(event, 0) for each in (ours, stock))
        if with_it != without:
            yield f"{name}: {event} is {with_it} with the series, {without} without"


def _untimed(said: Sequence[str]) -> list[str]:
    return [TIMES.sub("ticks", line) for line in said]


def compared(one: xen.Verdict) -> dict[str, int]:
    """The counters of a guest that have to be the same."""
    return {name: count for name, count in one.events.items() if COUNTED.search(name) and name not in TIMED}
