# SPDX-License-Identifier: MIT
"""Which events are counted together: no more at a time than there are counters, so that perf need not share these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from abh.schema.events import ALWAYS, Microarchitecture, Ratio
from abh.schema.result import Kind, Value

# What the kernel counts by itself, on any machine, in every pass: perf's name, and unit. These may well be 0.
SOFTWARE = {
    "page_faults": ("page-faults", "faults"),
    "minor_faults": ("minor-faults", "faults"),
    "major_faults": ("major-faults", "faults"),
    "context_switches": ("context-switches", "switches"),
    "cpu_migrations": ("cpu-migrations", "migrations"),
    "task_clock": ("task-clock", "ms"),
}
# The two sides of a virtual machine's process: perf's modifier.
SIDES = {"guest": "G", "host": "H"}
KVM_EXIT = "kvm:kvm_exit"


@dataclass(frozen=True)
class Counted:
    """One number to be had from perf."""

    name: str  # of the value
    spec: str  # what perf is told
    printed: str  # what perf calls it
    unit: str
    kind: Kind
    hardware: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pass:
    """What is counted together in one run."""

    counted: tuple[Counted, ...]

    @property
    def specs(self) -> list[str]:
        """What perf is told."""
        return [each.spec for each in self.counted]


def software(*, user_only: bool = False, kvm: bool = False) -> list[Counted]:
    """What needs no counter of the processor's."""
    suffix = ":u" if user_only else ""
    notes = ("of the program's own doing alone: this user may not count the kernel's",) if user_only else ()
    found = [
        Counted(name, f"{event}{suffix}", event, unit, "measured" if unit == "ms" else "counted", False, notes)
        for name, (event, unit) in SOFTWARE.items()
    ]
    return found + ([Counted("vm_exits", KVM_EXIT, KVM_EXIT, "exits", "counted", False)] if kvm else [])


def hardware(
    micro: Microarchitecture, name: str, *, sides: Sequence[str] = (), user_only: bool = False
) -> list[Counted]:
    """One event, for each side that is counted apart."""
    event = micro.event[name]
    notes = tuple(event.lies)
    if user_only:
        notes += ("user mode alone: this user may not count the kernel",)
    found = []
    for side in sides or ("",):
        own = f"{side}_{name}" if side else name
        modifier = SIDES.get(side, "") + ("u" if user_only else "")
        spec = f"{micro.pmu}/{event.code},name={own}/{modifier}"
        found.append(Counted(own, spec, own, event.unit, "measured", True, notes))
    return found


def split(
    micro: Microarchitecture,
    names: Iterable[str],
    *,
    watchdog: bool,
    sides: Sequence[str] = (),
    user_only: bool = False,
    kvm: bool = False,
) -> list[Pass]:
    """The passes that count all these events, with those of ALWAYS in each."""

    def of(each: str) -> list[Counted]:
        return hardware(micro, each, sides=sides, user_only=user_only)

    always = [counted for name in ALWAYS for counted in of(name)]
    # A fixed counter is one: an event that is counted for two sides takes a general one for the second.
    width = max(len(sides), 1)
    taken = sum(width - micro.event[name].fixed for name in ALWAYS)
    room = (micro.counters - watchdog - taken) // width
    base = software(user_only=user_only, kvm=kvm)
    if room >= 1:
        groups = packed(together(micro, names), room)
        return [Pass((*base, *always, *(one for name in group for one in of(name)))) for group in groups]
    # Both sides, and the watchdog beside them: what is in every pass otherwise has one of its own.
    groups = packed(together(micro, names), max((micro.counters - watchdog) // width, 1))
    alone = [Pass((*base, *(one for name in group for one in of(name)))) for group in groups if group]
    return [Pass((*base, *always)), *alone]


def together(micro: Microarchitecture, names: Iterable[str]) -> list[list[str]]:
    """The events, those of one ratio in one list."""
    left = [name for name in names if name not in ALWAYS]
    found = []
    for ratio in micro.ratio.values():
        group = [name for name in ratio.parts if name in left]
        left = [name for name in left if name not in group]
        found += [group] if group else []
    return found + [[name] for name in left]


def packed(groups: Sequence[Sequence[str]], room: int) -> list[list[str]]:
    """The groups in as few passes as first fit finds; one that is too large is taken apart."""
    fitting = [part for group in groups for part in ([group] if len(group) <= room else [[name] for name in group])]
    passes: list[list[str]] = []
    for group in fitting:
        place = next((each for each in passes if len(each) + len(group) <= room), None)
        if place is None:
            passes.append(place := [])
        place += group
    return passes or [[]]


def ratios(micro: Microarchitecture, values: Mapping[str, Value], sides: Sequence[str] = ()) -> dict[str, Value]:
    """The ratios whose events were counted in this run."""
    found = {}
    for name, ratio in micro.ratio.items():
        for prefix in [f"{side}_" for side in sides] or [""]:
            parts = [values.get(f"{prefix}{part}") for part in ratio.parts]
            if all(part is None for part in parts[:-1]):
                continue  # of another pass
            found[f"{prefix}{name}"] = _ratio(ratio, parts, micro)
    return found


def _ratio(ratio: Ratio, parts: Sequence[Value | None], micro: Microarchitecture) -> Value:
    unit = "ratio" if ratio.per == "cycles" else f"{micro.event[ratio.of[0]].unit} each"
    if any(part is None for part in parts):
        why = "its parts were counted in different runs, as the counters are too few"
        return Value.unknown(unit, "measured", why)
    lost = next((part for part in parts if part is not None and part.value is None), None)
    if lost is not None:
        return Value.unknown(unit, "measured", f"a part of it is not known: {lost.reason}")
    *of, per = (part.value for part in parts if part is not None)
    # What is wrong with its parts is wrong with it.
    lies = dict.fromkeys((*ratio.lies, *(lie for part in ratio.of for lie in micro.event[part].lies)))
    return Value(value=sum(of) / per, unit=unit, kind="measured", reason="; ".join(lies) or None)
