# SPDX-License-Identifier: MIT
"""The mode of transparent hugepages on this machine: read, and set for a while."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from abh.errors import AbhError


def thp_mode(path: Path) -> str:
    """The mode of transparent hugepages on this machine; an error where there are none."""
    try:
        text = path.read_text(encoding="ascii")
    except OSError as error:
        raise AbhError(
            "this kernel has no transparent hugepages",
            where=path,
            got=error.strerror,
            next_step="use a kernel with CONFIG_TRANSPARENT_HUGEPAGE, or `abh run`, which brings its own",
        ) from error
    found = re.search(r"\[(\w+)\]", text)
    mode = found[1] if found else text.strip()
    if mode not in ("always", "madvise"):
        raise AbhError(
            "transparent hugepages are off on this machine: no implementation could get any",
            where=path,
            got=mode,
            expected="always or madvise",
            next_step=f"as root: echo madvise > {path}",
        )
    return mode


@contextlib.contextmanager
def thp_mode_set(path: Path, mode: str) -> Iterator[None]:
    """That mode of transparent hugepages for as long as this lasts; then what was there before."""
    before = thp_mode(path)
    if before == mode:
        yield
        return
    try:
        path.write_text(mode, encoding="ascii")
    except OSError as error:
        raise AbhError(
            f"the mode of transparent hugepages cannot be set to {mode}",
            where=path,
            got=error.strerror,
            next_step="run it as root, or without `--modes`",
        ) from error
    try:
        yield
    finally:
        path.write_text(before, encoding="ascii")
