# SPDX-License-Identifier: MIT
"""What the host's kernel says of itself. Of Python's own library alone: libvirt's hook has this module, too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
THP = "sys/kernel/mm/transparent_hugepage"
THP_2M = f"{THP}/hugepages-2048kB/enabled"  # Linux 6.8 and newer; `inherit` for the one switch of all sizes
KSM = "sys/kernel/mm/ksm/run"
POOL = "sys/kernel/mm/hugepages/hugepages-{kib}kB"
MODES = ("sys/module/kvm_amd/parameters/npt", "sys/module/kvm_intel/parameters/ept")  # nested paging, by maker
KVM_DEBUG = "sys/kernel/debug/kvm"
PAGES_KIB = {"pages_4k": 4, "pages_2m": 2048, "pages_1g": 1048576}
# Where switches are: the same as abh.schema.keys's, which has what this may not import. A policy is text that whoever
# may edit the domain has written: the hook, which is root, is not to read him other files of the host.
SWITCHES = ("/sys/kernel/mm/", "/sys/kernel/debug/abh/", "/proc/sys/vm/")


def text(path: str, root: Path = ROOT) -> str | None:
    """What a file of /sys or /proc holds; None where it is not there or may not be read."""
    try:
        return (root / path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def chosen(value: str) -> str:
    """The choice in `always [madvise] never`; else the value as it is."""
    marked = re.search(r"\[([^]]+)\]", value)
    return marked[1] if marked else value


def setting(path: str, root: Path = ROOT) -> str | None:
    """The value of a switch; None where it is not there, and for a path that is no switch's."""
    path = f"/{path.lstrip('/')}"
    if not path.startswith(SWITCHES) or ".." in path.split("/"):
        return None
    value = text(path[1:], root)
    return None if value is None else chosen(value)


def thp(root: Path = ROOT) -> tuple[str | None, str]:
    """What anonymous memory may have hugepages of 2 MiB: `always`, `madvise`, `never`; and where that is read."""
    own = setting(THP_2M, root)
    if own not in (None, "inherit"):
        return own, f"/{THP_2M} is {own}"
    mode = setting(f"{THP}/enabled", root)
    return mode, f"/{THP}/enabled is {mode or 'not there'}"


def paging(root: Path = ROOT) -> tuple[str | None, str]:
    """The mode in which KVM pages all guests of this host, `hap` or `shadow`, and where that is read."""
    for path in MODES:
        value = text(path, root)
        if value is not None:
            return ("hap" if value in ("Y", "1") else "shadow"), f"/{path} is {value}"
    return None, "neither kvm_amd nor kvm_intel is loaded"


@dataclass(frozen=True)
class Mapped:
    """What KVM itself maps for a guest at this moment."""

    kib: int
    huge_kib: int


def kvm_mapped(pid: int, root: Path = ROOT) -> Mapped | None:
    """What KVM's own counters say of the guests of a process; None where debugfs does not show them."""
    kib = huge = 0
    seen = False
    for folder in (root / KVM_DEBUG).glob(f"{pid}-*"):
        for name, unit in PAGES_KIB.items():
            value = text(f"{KVM_DEBUG}/{folder.name}/{name}", root)
            if value is None or not value.isdigit():
                continue
            seen = True
            kib += int(value) * unit
            huge += int(value) * unit if unit > 4 else 0
    return Mapped(kib, huge) if seen else None


def default_pool_kib(root: Path = ROOT) -> int | None:
    """The size of the pool's pages that the kernel calls its default, and libvirt takes where a domain names none."""
    found = re.search(r"^Hugepagesize:\s+(\d+) kB$", text("proc/meminfo", root) or "", re.MULTILINE)
    return int(found[1]) if found else None


def free_pool_kib(page_kib: int, root: Path = ROOT) -> int | None:
    """What a new guest may have of the pool of hugepages of that size; None where the kernel has no such pool.

    What is reserved counts as free, but is somebody's; what is over the pool is made when it is asked for, if it can.
    """

    def pages(name: str) -> int:
        value = text(f"{POOL.format(kib=page_kib)}/{name}", root)
        return int(value) if value is not None and value.isdigit() else 0

    if text(f"{POOL.format(kib=page_kib)}/free_hugepages", root) is None:
        return None
    over = max(0, pages("nr_overcommit_hugepages") - pages("surplus_hugepages"))
    return (max(0, pages("free_hugepages") - pages("resv_hugepages")) + over) * page_kib
