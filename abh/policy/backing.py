# SPDX-License-Identifier: MIT
"""Whether a guest's memory is backed as a policy says, by its mappings: of what there is from the start on.

Of Python's own library alone: libvirt's hook has this module, too, and goes by it as soon as the VM is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abh.policy import host
from abh.policy.memory import Mapping as Block


@dataclass(frozen=True)
class Had:
    """Whether a setting is had, what shows it, and what to do where it is not."""

    holds: bool
    evidence: str
    next_step: str


def thp(wanted: Any, blocks: Sequence[Block], root: Path = host.ROOT) -> Had:
    """Whether the kernel may give hugepages to the memory: it says so itself of each mapping, but for any size."""
    mode, told = host.thp(root)
    eligible = [each for each in blocks if each.eligible and (each.is_file or mode not in (None, "never"))]
    huge = sum(each.huge_kib for each in blocks)
    said = f"{len(eligible)} of {len(blocks)} mappings eligible (smaps), {huge} KiB huge, {told}"
    if wanted == "off":
        return Had(not eligible and not huge, said, f"echo never > /{host.THP}/enabled, and restart the VM")
    kinds = ", ".join(sorted({each.path or "anonymous" for each in blocks if each not in eligible}))
    step = f"{told}: echo madvise > it" if mode == "never" else f"memory of {kinds}: see `abh explain`"
    return Had(len(eligible) == len(blocks), said, step)


def hugetlb_kib(wanted: Any, blocks: Sequence[Block], _root: Path = host.ROOT) -> Had:
    """The page size by which the kernel maps the memory."""
    sizes = sorted({each.page_kib for each in blocks})
    return Had(
        sizes == [wanted],
        f"mapped by pages of {', '.join(map(str, sizes))} KiB (smaps)",
        "`abh policy apply`, free pages in the pool, and a restart of the VM",
    )


def alignment_kib(wanted: Any, blocks: Sequence[Block], _root: Path = host.ROOT) -> Had:
    """The addresses at which the memory begins."""
    off = [each for each in blocks if each.start % (wanted << 10)]
    step = "memory that is neither memfd nor a file: take <source> out of <memoryBacking>, and restart the VM"
    if not any(each.is_file and each.page_kib == 4 for each in off):
        step = "QEMU begins such memory at multiples of 2 MiB: ask for that, or for pages of that size (`hugetlb_kib`)"
    return Had(not off, f"begins at {', '.join(hex(each.start) for each in blocks)} (smaps)", step)


def ksm(wanted: Any, blocks: Sequence[Block], root: Path = host.ROOT) -> Had:
    """Whether the memory is offered for merging, and anybody merges."""
    offered = [each for each in blocks if "mg" in each.flags]
    running = host.setting(host.KSM, root) == "1"
    said = f"{len(offered)} of {len(blocks)} mappings offered (smaps), /{host.KSM} is {'1' if running else 'not 1'}"
    if wanted:
        return Had(bool(offered) and running, said, f"echo 1 > /{host.KSM}; `abh policy apply`; restart the VM")
    return Had(not offered, said, "`abh policy apply` and a restart of the VM")


CHECKS: Mapping[str, Callable[[Any, Sequence[Block], Path], Had]] = {
    each.__name__: each for each in (thp, hugetlb_kib, alignment_kib, ksm)
}
