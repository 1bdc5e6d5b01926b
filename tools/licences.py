# SPDX-License-Identifier: MIT
"""Which licence a file is under, and whether it says so in its first lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

DEFAULT = "MIT"
# A folder's licence is that of the program its patches change.
BY_FOLDER = {
    "kernel-patches/": "GPL-2.0-only",
    "hypervisor/xen/": "GPL-2.0-only",
    "hypervisor/qemu/": "GPL-2.0-or-later",
    "hypervisor/mmu-model/plugin/": "GPL-2.0-or-later",  # loaded into QEMU
    "glibc-patches/": "LGPL-2.1-or-later",
}
# Files that carry no SPDX line, and why.
EXEMPT = {
    "LICENSE": "says which licence is where",
    "LICENSES/*": "the licences themselves",
    "*.md": "prose: a line on top of a page serves no reader; MIT",
    "*.patch": "under the licence of its folder; added files are checked by check-series",
    "analysis/reference/*.csv": "data read by its first line; facts printed in the papers",
    "workloads/*/sample-output.txt": "a program's output, byte for byte",
    "*.png": "binary",
}
HEAD_LINES = 5
SPDX = re.compile(r"SPDX-License-Identifier:\s*(.+?)\s*(?:\*/|-->)?\s*$", re.MULTILINE)

HASH = "# {}"
C = "/* {} */"
# How a comment is written, by name or suffix; what is not here gets its line by hand.
COMMENTS = {
    **dict.fromkeys((".py", ".sh", ".toml", ".conf", ".config", ".yaml", ".yml", ".cfg"), HASH),
    **dict.fromkeys(("BASE", "series", "Makefile", ".gitignore", ".clang-format", "Dockerfile"), HASH),
    **dict.fromkeys((".c", ".h", ".css", ".S", ".inc", ".cc", ".cpp"), C),
    **dict.fromkeys((".xml", ".html", ".xsl", ".svg"), "<!-- {} -->"),
    ".rs": "// {}",
}


def licence_of(path: Path) -> str:
    """The licence a file of this project is under, by its place."""
    name = path.as_posix()
    return next((licence for folder, licence in BY_FOLDER.items() if name.startswith(folder)), DEFAULT)


def is_exempt(path: Path) -> bool:
    """Whether a file needs no SPDX line."""
    return any(fnmatch(path.as_posix(), pattern) for pattern in EXEMPT)


def stated(text: str) -> str | None:
    """The licence in the first lines of a text."""
    match = SPDX.search("\n".join(text.splitlines()[:HEAD_LINES]))
    return match[1] if match else None


def problems(checkout: Path, files: Iterable[Path]) -> dict[Path, str]:
    """The files (relative to the checkout) that do not state their licence, or another one, and what is wrong."""
    found = {}
    for path in files:
        if is_exempt(path):
            continue
        got, expected = stated((checkout / path).read_text(encoding="utf-8", errors="replace")), licence_of(path)
        if got is None:
            found[path] = f"no SPDX-License-Identifier in its first {HEAD_LINES} lines (expected {expected})"
        elif got != expected:
            found[path] = f"states {got}, but its folder is under {expected}"
    return found


def with_line(path: Path, text: str) -> str | None:
    """The text of a file with its SPDX line put in; None where the form of a comment is not known."""
    form = COMMENTS.get(path.name) or COMMENTS.get(path.suffix)
    if form is None:
        return None
    line = form.format(f"SPDX-License-Identifier: {licence_of(path)}")
    first, newline, rest = text.partition("\n")
    # These must stay first: they tell the system or the parser what follows.
    if first.startswith(("#!", "<?xml", "<!doctype", "<!DOCTYPE")):
        return f"{first}{newline}{line}\n{rest}"
    return f"{line}\n{text}"


def check(checkout: Path, files: Iterable[Path], *, fix: bool) -> bool:
    """Print what is wrong; with fix, put lines in first. Whether all is well."""
    files = list(files)
    if fix:
        for path in problems(checkout, files):
            text = (checkout / path).read_text(encoding="utf-8")
            new = with_line(path, text) if stated(text) is None else None
            if new is not None:
                (checkout / path).write_text(new, encoding="utf-8")
    left = problems(checkout, files)
    for path, problem in left.items():
        print(f"{path}: {problem}")
    return not left
