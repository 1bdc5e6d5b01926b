# SPDX-License-Identifier: MIT
"""The memory of a guest as the kernel has it: which process, which of its mappings, which pages are hugepages.

Of Python's own library alone: libvirt's hook has this module, too. All of it is read from /proc of the moment.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
PID_FILE = "qemu/{name}.pid"  # below the folder of the system's libvirt
HUGE = 2 << 20  # bytes of a hugepage of x86-64
PAGE = 4096
# Of a hugepage's 512 pages, at least so many are there where it is made one: at worst it doubles what they take. The
# kernel itself would fill up a single one. Arbitrary.
AT_LEAST = 256
# include/uapi/linux/fs.h, asm-generic/mman-common.h, and the numbers of system calls that all architectures share.
PAGEMAP_SCAN = 0xC0606610
PRESENT, SWAPPED, IS_ZERO, IS_HUGE = 1 << 3, 1 << 4, 1 << 5, 1 << 6
MADV_COLLAPSE = 25
PIDFD_OPEN, PROCESS_MADVISE = 434, 440


class Unreadable(Exception):
    """Why something of a process cannot be seen, in words for a user."""


@dataclass(frozen=True)
class Mapping:
    """A mapping of a process, as its smaps has it; several that touch and are alike are one."""

    start: int
    end: int
    path: str
    flags: frozenset[str]
    page_kib: int  # of the page size it is mapped by: more than 4 for hugetlb
    mapped_kib: int  # that the host has mapped
    huge_kib: int  # of that, in hugepages
    eligible: bool  # for transparent hugepages, as the kernel says

    @property
    def kib(self) -> int:
        """Its size."""
        return (self.end - self.start) >> 10

    @property
    def is_file(self) -> bool:
        """Whether it is of a file, as memfd is: a name in brackets is none."""
        return bool(self.path) and not self.path.startswith("[")


def process_of(uuid: str, proc: Path = PROC, pid_file: Path | None = None) -> int | None:
    """The process of libvirt's QEMU for the domain of that UUID; None if there is none, or more than one.

    Any user can have a process whose command line looks like it: libvirt's own note, where there is one, decides.
    """
    found = []
    for path in proc.glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # it has ended, or is hidden
            continue
        if b"-uuid" in words and words[words.index(b"-uuid") + 1 :][:1] == [uuid.encode()]:
            found.append(int(path.parent.name))
    if pid_file is not None:
        with contextlib.suppress(OSError, ValueError):  # not there, or hidden
            noted = int(pid_file.read_text())
            return noted if noted in found else None
    return found[0] if len(found) == 1 else None


def started(pid: int, proc: Path = PROC) -> str:
    """When the process started, in the kernel's ticks: with its number it names one process of this boot."""
    return (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]


def mappings(pid: int, proc: Path = PROC) -> list[Mapping]:
    """All mappings of a process."""
    path = proc / str(pid) / "smaps"
    try:
        text = path.read_text(errors="replace")
    except PermissionError:
        raise Unreadable(f"{path} is not yours to read: run this as root") from None
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    heads = list(re.finditer(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+ *(.*)$", text, re.MULTILINE))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return [_mapping(head, text[head.end() : end]) for head, end in zip(heads, ends, strict=True)]


def _mapping(head: re.Match[str], body: str) -> Mapping:
    numbers = {key: int(value) for key, value in re.findall(r"^(\w+): +(\d+)", body, re.MULTILINE)}
    flags = re.search(r"^VmFlags: (.*)$", body, re.MULTILINE)
    hugetlb = numbers.get("Shared_Hugetlb", 0) + numbers.get("Private_Hugetlb", 0)
    transparent = sum(numbers.get(name, 0) for name in ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"))
    return Mapping(
        int(head[1], 16),
        int(head[2], 16),
        head[4],
        frozenset(flags[1].split() if flags else ()),
        numbers.get("KernelPageSize", 4),
        numbers.get("Rss", 0) + hugetlb,
        transparent + hugetlb,
        numbers.get("THPeligible", 0) == 1,
    )


def guest_memory(all_of_it: Sequence[Mapping], sizes_kib: Sequence[int]) -> list[Mapping]:
    """The mappings that are the guest's memory: for each size that libvirt says, one that has just this size.

    QEMU maps each of its memory's blocks by itself; nothing else of it has the size of one but by chance, and of
    several the one with most in it is taken. The kernel splits a mapping where a part is advised otherwise: parts that
    touch and have the size together are one.
    """
    found: list[Mapping] = []
    for size in sizes_kib:
        fitting = [each for each in _of_size(all_of_it, size) if each not in found]
        if not fitting:
            raise Unreadable(f"no mapping of QEMU's has the {size} KiB of the guest's memory")
        found.append(max(fitting, key=lambda each: each.mapped_kib))
    return found


def _of_size(parts: Sequence[Mapping], size_kib: int) -> Iterator[Mapping]:
    for first, start in enumerate(parts):
        run: list[Mapping] = []
        for each in parts[first:]:
            if "wr" not in each.flags or each.path != start.path or (run and run[-1].end != each.start):
                break
            run.append(each)
            kib = (each.end - start.start) >> 10
            if kib == size_kib:
                yield _joined(run)
            if kib >= size_kib:
                break


def _joined(run: Sequence[Mapping]) -> Mapping:
    if len(run) == 1:
        return run[0]
    return Mapping(
        run[0].start,
        run[-1].end,
        run[0].path,
        frozenset().union(*(each.flags for each in run)),
        run[0].page_kib,
        sum(each.mapped_kib for each in run),
        sum(each.huge_kib for each in run),
        all(each.eligible for each in run),
    )


@dataclass(frozen=True)
class Range:
    """Bytes of a process that it has touched: all in hugepages, all in base pages, or all swapped out."""

    start: int
    end: int
    huge: bool = False
    swapped: bool = False


def ranges(pid: int, start: int, end: int, proc: Path = PROC) -> Iterator[Range]:
    """What of these bytes has been touched, by ranges (Linux 6.7 and newer)."""
    path = proc / str(pid) / "pagemap"
    regions = (ctypes.c_uint64 * (3 * 4096))()
    at = start
    try:
        with path.open("rb", buffering=0) as pagemap:
            while at < end:
                vector = (ctypes.addressof(regions), len(regions) // 3)
                # Inverted, all of, any of, told: not the page of zeros, which is there for all that was only read.
                which = (IS_ZERO, IS_ZERO, PRESENT | SWAPPED, PRESENT | SWAPPED | IS_HUGE)
                argument = bytearray(struct.pack("12Q", 96, 0, at, end, 0, *vector, 0, *which))
                count = fcntl.ioctl(pagemap, PAGEMAP_SCAN, argument)
                for number in range(count):
                    first, last, kind = regions[3 * number : 3 * number + 3]
                    yield Range(first, last, bool(kind & IS_HUGE), bool(kind & SWAPPED))
                at = struct.unpack_from("Q", argument, 32)[0]
    except PermissionError:
        raise Unreadable(f"{path} is not yours to read: run this as root") from None
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EINVAL):
            raise Unreadable("this kernel cannot say it by ranges (PAGEMAP_SCAN is of Linux 6.7)") from None
        raise Unreadable(f"{path}: {error.strerror}") from None


def not_huge(pid: int, start: int, end: int, proc: Path = PROC) -> list[int]:
    """Where hugepages could be and are not, of a process's memory."""
    return base_places(ranges(pid, start, end, proc), start, end)


def base_places(inside: Iterable[Range], start: int, end: int) -> list[int]:
    """The boundaries of 2 MiB within that have base pages in memory, as many as make it worth a hugepage."""
    pages: dict[int, int] = {}
    for each in inside:
        if not each.huge and not each.swapped:
            for at in range(each.start // HUGE * HUGE, each.end, HUGE):
                there = (min(each.end, at + HUGE) - max(each.start, at)) // PAGE
                pages[at] = pages.get(at, 0) + there
    return sorted(at for at, there in pages.items() if there >= AT_LEAST and start <= at and at + HUGE <= end)


@dataclass
class Collapsed:
    """What came of collapsing: hugepages made, and how many were not, by error."""

    made: int = 0
    failed: dict[str, int] | None = None


def collapse(pid: int, places: Sequence[int]) -> Collapsed:
    """Has the kernel make a hugepage of the base pages at each place of another process.

    First of none: that the kernel refuses, too, where it cannot, or this process may not.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.syscall(PIDFD_OPEN, pid, 0)
    if handle < 0:
        raise Unreadable(f"process {pid}: {os.strerror(ctypes.get_errno())}")
    done = Collapsed()
    failed: dict[str, int] = {}
    try:
        for place, length in ((0, 0), *((each, HUGE) for each in places)):
            piece = (ctypes.c_size_t * 2)(place, length)
            if libc.syscall(PROCESS_MADVISE, handle, piece, ctypes.c_size_t(1), MADV_COLLAPSE, 0) == length:
                done.made += length // HUGE
                continue
            name = errno.errorcode.get(ctypes.get_errno(), "?")
            if length == 0 or name in ("EPERM", "ENOSYS", "ESRCH"):
                raise Unreadable(f"process_madvise(MADV_COLLAPSE): {os.strerror(ctypes.get_errno())}")
            failed[name] = failed.get(name, 0) + 1
    finally:
        os.close(handle)
    done.failed = failed
    return done
