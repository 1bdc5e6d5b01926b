# SPDX-License-Identifier: MIT
"""One run of a program, counted: by perf, by its control group, by samples of its memory, by the machine's counters."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from abh.collect import around, perf
from abh.collect.passes import Counted, Pass
from abh.errors import AbhError, Status
from abh.host import given
from abh.schema.result import Kind, Value, alloc_ratio

# It waits for perf, then becomes the program: /bin/sh takes a digit for a file, so the pipe has this number.
GATE = 9
GATED = f'read -r go <&{GATE} && exec "$@" {GATE}<&-'
# What Python ignores for itself, and the program is not to.
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
STOP_S = 5.0
SEEN = 0.9  # of the peak of the largest process, arbitrary: else the samples have missed it
MACHINE_NOTE = "of the whole machine: what else ran meanwhile is in it"
GROUP_NOTE = "of all processes of the program, by its control group"
SAMPLED_NOTE = "of its processes at the peak of samples, four a second at the end"
TIME_NOTE = "with the millisecond of a shell that becomes the program"
Values = dict[str, Value]


@dataclass(frozen=True)
class Observed:
    """What one run came to."""

    status: int  # as waitstatus_to_exitcode: below 0, the signal that ended it
    values: Values

    @property
    def problem(self) -> str | None:
        """What went wrong, in a few words."""
        if self.status < 0:
            return f"the program was ended by {signal.Signals(-self.status).name}"
        return f"the program's exit status was {self.status}" if self.status else None


def check(command: Sequence[str]) -> None:
    """An error unless the program is there and can be run."""
    if shutil.which(command[0]):
        return
    there = os.path.exists(command[0]) and "/" in command[0]
    raise AbhError(
        "the program cannot be run" if there else "there is no such program",
        where=command[0],
        got="not an executable file" if there else "nothing of that name, on PATH either",
        next_step="name a program; after -- come its arguments",
        status=Status.CANNOT_RUN if there else Status.NOT_FOUND,
    )


@contextmanager
def gated(command: Sequence[str]) -> Iterator[tuple[int, int]]:
    """A process that becomes the program once something is written: its id, and where to write. Not waited for."""
    gate, go = os.pipe()
    argv = ["/bin/sh", "-c", GATED, "sh", *command]
    try:
        child = os.posix_spawn(
            argv[0], argv, given.environment(), file_actions=[(os.POSIX_SPAWN_DUP2, gate, GATE)], setsigdef=IGNORED
        )
    finally:
        os.close(gate)
    try:
        yield child, go
    finally:
        os.close(go)  # a process that still waits there reads the end, and leaves
        _stop(child)


def _stop(child: int) -> None:
    """Ends the process if it has not been waited for, as after an error or a Ctrl-C."""
    for number, seconds in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
        try:
            if os.waitpid(child, os.WNOHANG) != (0, 0):
                return
            os.kill(child, number)
        except (ChildProcessError, ProcessLookupError):
            return
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if os.waitpid(child, os.WNOHANG) != (0, 0):
                    return
            except ChildProcessError:
                return
            time.sleep(0.01)


def run(command: Sequence[str], one: Pass, tool: perf.Perf) -> Observed:
    """Runs the program once, and counts it."""
    names = [each.printed for each in one.counted]
    floor = around.table(Path("/proc/self/status").read_text(encoding="utf-8"))["VmHWM"]
    with gated(command) as (child, go), around.group() as group:
        group.enter(child)
        with perf.counting(tool, child, one.specs) as counting, around.sampled(child) as peaks:
            before, entered = around.vmstat(), group.counters()
            start = time.monotonic()
            os.write(go, b"\n")
            _, status, usage = os.wait4(child, 0)
            elapsed = time.monotonic() - start
            after, left = around.vmstat(), group.counters()
            readings = counting.end(names)
    values: Values = {
        "elapsed": Value.of(elapsed, "s", "measured"),
        "user_time": _value(usage.ru_utime, "s", "measured", TIME_NOTE),
        "system_time": _value(usage.ru_stime, "s", "measured", TIME_NOTE),
        "rss_peak_kib": _rss(usage.ru_maxrss, floor),
    }
    values |= of_readings(one.counted, readings)
    values |= _of_group(group, entered, left)
    values |= _of_peaks(peaks, usage.ru_maxrss)
    values |= of_machine(before, after)
    return Observed(os.waitstatus_to_exitcode(status), values)


def _value(number: float | None, unit: str, kind: Kind, note: str) -> Value:
    return Value(value=number, unit=unit, kind=kind, reason=note)


def _rss(kib: int, floor: int) -> Value:
    """The kernel's count of a process begins with the peak of the one that it was started by, which is this one."""
    if kib <= floor:
        return Value.unknown("KiB", "counted", f"no more than {floor} KiB, from where the kernel's count began")
    return _value(kib, "KiB", "counted", "the largest of the program's processes")


def of_readings(counted: Sequence[Counted], readings: Mapping[str, perf.Reading]) -> Values:
    """perf's numbers as values, with what is wrong with an event beside it."""
    found: Values = {}
    for each in counted:
        read = readings[each.printed]
        number, why = read.value, read.reason
        if number == 0 and each.hardware:
            number, why = None, "the counter stayed at zero, as one that does not count does"
        if number is None:
            found[each.name] = Value.unknown(each.unit, each.kind, why or "perf gave no reason")
            continue
        whole = int(number) if number.is_integer() and each.unit != "ms" else number
        found[each.name] = Value(value=whole, unit=each.unit, kind=each.kind, reason="; ".join(each.notes) or None)
    return found


def _of_group(group: around.Group, entered: Mapping[str, int], left: Mapping[str, int]) -> Values:
    """Hugepages that the program's faults got, which the kernel counts for a group alone."""
    units = {"huge_faults": "faults", "huge_collapses": "hugepages", "alloc_ratio": "ratio", "memory_peak_kib": "KiB"}
    if not group.folder:
        why = f"there is no control group for it: {group.why_not}"
        return {name: Value.unknown(unit, "counted", why) for name, unit in units.items()}

    def grown(name: str) -> int | None:
        return left[name] - entered[name] if name in left and name in entered else None

    huge, every = grown("thp_fault_alloc"), grown("pgfault")
    no_such = "this kernel does not count it for a control group"
    found = {
        "huge_faults": _value(huge, "faults", "counted", GROUP_NOTE if huge is not None else no_such),
        "huge_collapses": _value(grown("thp_collapse_alloc"), "hugepages", "counted", GROUP_NOTE),
        "memory_peak_kib": _value(left.get("peak_kib"), "KiB", "counted", f"{GROUP_NOTE}; files that it read, too"),
        "processes_left": _value(len(group.left), "processes", "counted", "still there when the program had ended"),
    }
    found = {name: each if each.value is not None else _lost(each, no_such) for name, each in found.items()}
    if huge is None or every is None:
        return found | {"alloc_ratio": Value.unknown("ratio", "counted", no_such)}
    return found | {"alloc_ratio": alloc_ratio(huge, max(every - huge, 0))}


def _lost(value: Value, why: str) -> Value:
    return value.model_copy(update={"reason": why})


def _of_peaks(peaks: around.Peaks, rss_kib: int) -> Values:
    if peaks.all_kib < SEEN * rss_kib:
        why = "no sample of its memory was taken near the peak: it came and went too soon"
        return {
            "memory_sampled_kib": Value.unknown("KiB", "counted", why),
            "memory_huge_share": Value.unknown("ratio", "counted", why),
        }
    return {
        "memory_sampled_kib": _value(peaks.all_kib, "KiB", "counted", SAMPLED_NOTE),
        "memory_huge_share": _value(peaks.huge_kib / peaks.all_kib, "ratio", "counted", SAMPLED_NOTE),
    }


def of_machine(before: Mapping[str, int], after: Mapping[str, int]) -> Values:
    """The machine's counters, each after `machine_`."""
    found = around.differences(before, after)
    no_such = "this kernel has no such counter"
    return {
        f"machine_{name}": _value(
            number, around.MACHINE[name], "counted", MACHINE_NOTE if number is not None else no_such
        )
        for name, number in found.items()
    }
