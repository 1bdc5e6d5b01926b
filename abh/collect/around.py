# SPDX-License-Identifier: MIT
"""The kernel's own counters around a program: the machine's (vmstat), its control group's, its processes' (smaps)."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

VMSTAT = Path("/proc/vmstat")
GROUPS = Path("/sys/fs/cgroup")
# Of the whole machine: whatever else ran meanwhile is in them.
MACHINE = {
    "thp_fault_alloc": "hugepages",
    "thp_fault_fallback": "faults",
    "thp_collapse_alloc": "hugepages",
    "thp_split_page": "hugepages",
    "thp_split_pmd": "hugepages",
    "thp_deferred_split_page": "hugepages",
    "compact_stall": "stalls",
    "compact_fail": "failures",
    "pgfault": "faults",
}
# What smaps_rollup says is huge, and all that is there.
HUGE = ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped", "Shared_Hugetlb", "Private_Hugetlb")
ALL = ("Rss", "Shared_Hugetlb", "Private_Hugetlb")  # hugetlb is no part of Rss
# Arbitrary: at first often, for programs that end soon; later seldom, as the kernel walks all page tables for a sample.
FIRST_SAMPLE_S, LAST_SAMPLE_S = 0.01, 0.25
_LINE = re.compile(r"^(\w+):?\s+(\d+)", re.MULTILINE)


def table(text: str) -> dict[str, int]:
    """Lines of a name and a number."""
    return {name: int(number) for name, number in _LINE.findall(text)}


def vmstat() -> dict[str, int]:
    """The machine's counters now."""
    return table(VMSTAT.read_text(encoding="ascii"))


def differences(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int | None]:
    """How far each of MACHINE went; None where this kernel has no such counter."""
    return {name: after[name] - before[name] if name in before and name in after else None for name in MACHINE}


@dataclass
class Peaks:
    """The most memory that a program's processes had together, and how much of that was huge."""

    all_kib: int = 0
    huge_kib: int = 0
    samples: int = 0

    def add(self, sampled: Iterable[tuple[int, int]]) -> None:
        """One sample: all and huge KiB of each process."""
        both = list(sampled)
        if not both:
            return
        self.samples += 1
        every = sum(each for each, _ in both)
        if every > self.all_kib:
            self.all_kib, self.huge_kib = every, sum(huge for _, huge in both)


def memory_of(pid: int) -> tuple[int, int] | None:
    """All and huge KiB of a process; None if it has none, or is gone."""
    try:
        found = table(Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii"))
    except OSError:
        return None
    every = sum(found.get(name, 0) for name in ALL)
    return (every, sum(found.get(name, 0) for name in HUGE)) if every else None


def _tree(pid: int) -> list[int]:
    try:
        process = psutil.Process(pid)
        return [pid, *(each.pid for each in process.children(recursive=True))]
    except psutil.Error:
        return []


@contextmanager
def sampled(pid: int) -> Iterator[Peaks]:
    """Samples a process and what it starts until the block ends."""
    peaks, done = Peaks(), threading.Event()

    def watch() -> None:
        pause = FIRST_SAMPLE_S
        while not done.wait(pause):
            peaks.add(found for each in _tree(pid) if (found := memory_of(each)))
            pause = min(2 * pause, LAST_SAMPLE_S)

    thread = threading.Thread(target=watch, name="samples", daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        done.set()
        thread.join()


@dataclass
class Group:
    """A control group of a program's own: it counts all its processes, and them alone."""

    folder: Path | None
    why_not: str = ""
    home: Path = GROUPS  # where this process is
    left: list[int] = field(default_factory=list)

    def enter(self, pid: int) -> None:
        """Puts a process into it."""
        if self.folder:
            (self.folder / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def counters(self) -> dict[str, int]:
        """Its memory.stat, with its peak; nothing where there is no group."""
        if not self.folder:
            return {}
        # To read cpu.stat makes the kernel add up all counters at once.
        with contextlib.suppress(OSError):
            (self.folder / "cpu.stat").read_text(encoding="ascii")
        found = table((self.folder / "memory.stat").read_text(encoding="ascii"))
        with contextlib.suppress(OSError, ValueError):
            found["peak_kib"] = int((self.folder / "memory.peak").read_text(encoding="ascii")) // 1024
        return found

    def dissolve(self) -> None:
        """Ends it; what the program has left in the background lives on, where it came from."""
        if not self.folder:
            return
        self.left = [int(each) for each in (self.folder / "cgroup.procs").read_text(encoding="ascii").split()]
        for pid in self.left:
            with contextlib.suppress(OSError):
                (self.home / "cgroup.procs").write_text(str(pid), encoding="ascii")
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def own_group(text: str | None = None) -> str:
    """The unified control group of this process, below the first one."""
    lines = (Path("/proc/self/cgroup").read_text(encoding="utf-8") if text is None else text).splitlines()
    return next((line.removeprefix("0::").strip("/") for line in lines if line.startswith("0::")), "")


def _no_group(root: Path) -> str | None:
    """Why a group cannot be made directly below the first one, where alone no rule stands against it."""
    try:
        controllers = (root / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return "this system has no unified control groups (cgroup v2)"
    if "memory" not in controllers:
        return f"memory is not handed on by {root}/cgroup.subtree_control"
    if not os.access(root / "cgroup.procs", os.W_OK) or not os.access(root, os.W_OK):
        return "only root may make a control group here"
    return None


@contextmanager
def group(root: Path = GROUPS) -> Iterator[Group]:
    """A group of a program's own, where one can be had; gone when the block ends."""
    if why := _no_group(root):
        yield Group(None, why)
        return
    folder = root / f"abh-collect-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        yield Group(None, f"{folder} cannot be made: {error.strerror}")
        return
    one = Group(folder, home=root / own_group())
    try:
        yield one
    finally:
        one.dissolve()
