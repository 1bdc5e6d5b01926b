# SPDX-License-Identifier: MIT
"""Why a guest's memory is not in hugepages: for each range of it, what is there, and what of the host explains it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from abh.policy import host
from abh.policy.evidence import Evidence
from abh.policy.memory import AT_LEAST, HUGE, PAGE, Mapping, Range

PAGES = HUGE // PAGE
ORDER = 9  # of a hugepage, in the kernel's lists of free memory


@dataclass(frozen=True)
class Part:
    """A range of the guest's memory, at an offset in one of its blocks, and why it is as it is."""

    block: int
    start: int
    end: int
    huge: bool
    reason: str

    def as_json(self) -> dict[str, object]:
        """For --json."""
        return {
            "block": self.block,
            "offset_kib": self.start >> 10,
            "kib": (self.end - self.start) >> 10,
            "huge": self.huge,
            "reason": self.reason,
        }


def parts(seen: Evidence) -> list[Part]:
    """All of the guest's memory, in order; neighbours with one reason are one part."""
    found: list[Part] = []
    for number, (block, inside) in enumerate(zip(seen.blocks, seen.ranges, strict=True)):
        why = _of_block(block, seen)
        for start, end, huge, reason in _pieces(block, inside, why or _of_host(block, seen)):
            last = found[-1] if found else None
            if last and (last.block, last.end, last.huge, last.reason) == (number, start, huge, reason):
                found[-1] = Part(number, last.start, end, huge, reason)
            else:
                found.append(Part(number, start, end, huge, reason))
    return found


def _of_block(block: Mapping, seen: Evidence) -> str | None:
    """Why nothing of a block can be a hugepage; None if it can."""
    if block.page_kib > 4 or (block.eligible and (block.is_file or host.thp(seen.root)[0] != "never")):
        return None
    mode, told = host.thp(seen.root)
    shmem = host.setting(f"{host.THP}/shmem_enabled", seen.root)
    if block.is_file:
        return (
            f"it is {block.path.split(' ')[0]}, for which /{host.THP}/shmem_enabled counts, which is {shmem}: "
            "use anonymous memory (no <source> in <memoryBacking>) or hugetlb"
        )
    if mode == "never":
        return told
    if "nh" in block.flags:
        return "the process has advised against hugepages (madvise(MADV_NOHUGEPAGE))"
    if "hg" not in block.flags and mode == "madvise":
        return f"{told}, and the process has not advised"
    return "the kernel calls it not eligible: is PR_SET_THP_DISABLE set?"


def _of_host(block: Mapping, seen: Evidence) -> str:
    """What may explain base pages where hugepages could be: facts of the moment, not of when they were given."""
    facts = []
    free = free_hugepages(host.text("proc/buddyinfo", seen.root) or "")
    if free == 0:
        facts.append("the host has no free memory in pieces of 2 MiB just now")
    if "mg" in block.flags and host.setting(host.KSM, seen.root) == "1":
        facts.append("KSM runs, and splits hugepages to merge their pages")
    defrag = host.setting(f"{host.THP}/defrag", seen.root)
    if not facts and defrag in ("never", "defer"):
        facts.append(f"/{host.THP}/defrag is {defrag}: a fault does not wait for memory to be compacted")
    told = "; ".join(facts) or "given when there was no hugepage to be had, or split since (swap, balloon, migration)"
    return f"{told}: `abh policy apply` collapses where the policy has `collapse`"


def free_hugepages(buddyinfo: str) -> int | None:
    """How many hugepages the host could give at once, of /proc/buddyinfo; None where it says nothing."""
    counts = [[int(word) for word in line.split()[4:]] for line in buddyinfo.splitlines() if line.startswith("Node")]
    if not counts:
        return None
    return sum(count << (order - ORDER) for zone in counts for order, count in enumerate(zone) if order >= ORDER)


def _pieces(block: Mapping, inside: Sequence[Range], why: str) -> Iterator[tuple[int, int, bool, str]]:
    """By boundaries of 2 MiB of the process, as hugepages are: offsets in the block."""
    touched: dict[int, list[tuple[Range, int]]] = {}
    for each in inside:
        for at in range(each.start // HUGE * HUGE, each.end, HUGE):
            pages = (min(each.end, at + HUGE) - max(each.start, at)) // PAGE
            touched.setdefault(at, []).append((each, pages))
    edges = [block.start, *range(block.start // HUGE * HUGE + HUGE, block.end, HUGE), block.end]
    for start, end in itertools.pairwise(edges):
        huge, reason = _piece(start, end, touched.get(start // HUGE * HUGE, []), why)
        yield start - block.start, end - block.start, huge, reason


def _piece(start: int, end: int, there: Sequence[tuple[Range, int]], why: str) -> tuple[bool, str]:
    if not there:
        return False, "the guest has not touched it yet"
    if all(each.huge for each, _ in there):
        return True, "a hugepage"
    if end - start < HUGE:
        return False, "an end of the block that does not reach a boundary of 2 MiB"
    swapped = sum(pages for each, pages in there if each.swapped)
    if swapped:
        return False, "some of it is swapped out"
    pages = sum(pages for _, pages in there)
    part = ", some of it not touched" if pages < PAGES else ""
    if pages < AT_LEAST:
        part = ", less than half of it touched, which a collapse leaves as it is"
    return False, f"base pages{part}: {why}"
