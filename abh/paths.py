# SPDX-License-Identifier: MIT
"""Where things are: the checkout and the cache outside it."""

from __future__ import annotations

import os
from pathlib import Path

from abh.errors import AbhError


def is_checkout(path: Path) -> bool:
    """Whether this folder is the top of a checkout of this project."""
    return (path / "pyproject.toml").is_file() and (path / "abh" / "cli.py").is_file()


def find_checkout(source: Path, cwd: Path | None = None) -> Path:
    """$ABH_CHECKOUT, else the tree this module is in, else the current folder or one above it.

    The last is for an `abh` installed with pip: patches, workloads and settings are data of a checkout.
    """
    named = os.environ.get("ABH_CHECKOUT")
    if named:
        path = Path(named).absolute()
        if not is_checkout(path):
            raise AbhError("ABH_CHECKOUT is not a checkout of abh", where=path, next_step="correct or unset it")
        return path
    if is_checkout(source):
        return source
    try:
        cwd = cwd or Path.cwd()
    except OSError as error:
        raise AbhError(
            "the current folder is gone, or may not be read", got=error.strerror, next_step="go to another folder"
        ) from error
    for path in (cwd, *cwd.parents):
        if is_checkout(path):
            return path
    raise AbhError(
        "no checkout of abh here",
        where=cwd,
        next_step="run abh inside a checkout, or set ABH_CHECKOUT to one",
    )


CHECKOUT = find_checkout(Path(__file__).resolve().parent.parent)
VM_CONFIGS = CHECKOUT / "vm-configs"
WORKLOADS = CHECKOUT / "workloads"
MEASURED = Path(os.environ.get("ABH_RESULTS") or CHECKOUT / "analysis" / "measured").absolute()
LOCAL = MEASURED / "local"  # of this machine's own hypervisor
REPORT_OUT = CHECKOUT / "analysis" / "out"
THP = Path("/sys/kernel/mm/transparent_hugepage")  # of this machine's own kernel
SERIES_BASES = ("*-patches/*/BASE", "hypervisor/*/*/BASE")  # of what is not a hypervisor, and of what is


def of_size(size: str) -> Path:
    """The folder within that of the results: those of size paper have one of their own, as a report compares likes."""
    return Path("paper" if size == "paper" else "")


def cache() -> Path:
    """The cache folder: $ABH_CACHE, else abh in the user's cache directory (made if missing)."""
    base = os.environ.get("ABH_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "abh"
    )
    path = Path(base).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AbhError(
            "the cache cannot be made", where=path, got=error.strerror, next_step="set ABH_CACHE to a folder of yours"
        ) from error
    return path
