# SPDX-License-Identifier: MIT
"""How the packages of the Debian roots differ from those that the committed results were made with.

A root has what the mirror has on the day when it is made. docs/results/roots/<root>.txt says what the roots of the
committed results had, a line "package version" for each package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from abh import paths, progress
from abh.build import root
from abh.errors import AbhError
from abh.files import write_text
from abh.schema import spec
from abh.schema.result import Result

RECORDS = paths.CHECKOUT / "docs/results/roots"
HEADER = """\
# SPDX-License-Identifier: MIT
# Packages of the Debian root '{name}' that the committed results were made with: `abh report --record-roots`.
"""
FULL = "moved.txt"  # in the cache's folder of logs
# What results can depend on first: compilers, C library, libvirt, QEMU and its firmware, Xen. After these come the
# packages that a root's own file names, the workloads' libraries and programs among them; then all others.
FIRST = tuple(
    re.compile(pattern)
    for pattern in (
        r"(gcc|g\+\+|cpp|rustc|cargo)(-\d.*)?|binutils|libgcc.*|libstdc\+\+.*",
        r"libc6.*|libc-.*",
        r"libvirt.*",
        r"qemu-.*|seabios",
        r"(lib)?xen.*",
    )
)
SHOWN_LINES, SHOWN_EACH = 3, 3


@dataclass(frozen=True)
class Change:
    """A package whose version differs; None where it is not there at all."""

    package: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.package} {self.old or 'absent'} -> {self.new or 'absent'}"


def read(path: Path) -> dict[str, str]:
    """The packages of a record, with their versions."""
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#"):
            continue
        words = line.split(" ")
        if len(words) != 2 or not all(words) or words[0] in found:
            raise AbhError(
                "a record of a root's packages cannot be read",
                where=f"{path}:{number}",
                got=line,
                expected="a package that no line before has, and its version",
                next_step="restore the file from git",
            )
        found[words[0]] = words[1]
    return found


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[Change]:
    """What differs, by name."""
    names = sorted({*old, *new})
    return [Change(each, old.get(each), new.get(each)) for each in names if old.get(each) != new.get(each)]


def digests_of(results: Iterable[Result]) -> dict[str, str]:
    """The roots that these results were made with, and the digest of what was in each: one for all results."""
    found: dict[str, str] = {}
    for each in results:
        for name, digest in each.provenance.roots.items():
            if found.setdefault(name, digest) != digest:
                raise AbhError(
                    f"the results were made with different roots '{name}'",
                    where=each.run,
                    got=digest,
                    expected=f"{found[name]}, as in the results before it",
                    next_step="run the study again: what does not hold any more is then made anew",
                )
    if not found:
        raise AbhError("there is no result that would say which roots to record", next_step="run the study first")
    return found


def record(digests: Mapping[str, str], folder: Path | None = None) -> list[Path]:
    """Writes what is in the roots; the files written.

    digests: root -> digest of what was in it when the results were made, which must be what is in it now.
    """
    folder = folder or RECORDS
    held = {name: root.contents(name) for name in sorted(digests)}
    for name, each in held.items():
        if each.digest != digests[name]:
            raise AbhError(
                f"the root '{name}' is not the one that the results were made with",
                where=root.path_of(name),
                got=f"packages with digest {each.digest}",
                expected=digests[name],
                next_step="run the study again, then record the roots",
            )
    for name, each in held.items():
        lines = "".join(f"{package} {version}\n" for package, version in sorted(each.packages.items()))
        write_text(folder / f"{name}.txt", HEADER.format(name=name) + lines)
    return [folder / f"{name}.txt" for name in held]


def tell(names: Sequence[str], folder: Path = RECORDS) -> None:
    """Says on stderr, in at most five lines, how these roots differ from the recorded ones; nothing of others.

    To be called once in a study, when its roots have been made.
    """
    kept = {name: read(folder / f"{name}.txt") for name in names if (folder / f"{name}.txt").exists()}
    found: dict[Change, list[str]] = {}
    for name, old in kept.items():
        for change in changes(old, root.contents(name).packages):
            found.setdefault(change, []).append(name)
    if not found:
        return
    roots = spec.roots()
    ranked = sorted(found.items(), key=lambda item: _rank(item[0], item[1], roots))
    lines = [f"{change} ({', '.join(where)})" for change, where in ranked]
    full = paths.cache() / "logs" / FULL
    write_text(full, "".join(f"{line}\n" for line in lines))
    moved = ", ".join(sorted({name for where in found.values() for name in where}))
    progress.say(f"the mirror has moved on since the committed results: {len(lines)} packages differ, in {moved}")
    for start in range(0, min(len(lines), SHOWN_LINES * SHOWN_EACH), SHOWN_EACH):
        progress.say("  " + "; ".join(lines[start : start + SHOWN_EACH]))
    progress.say(f"  all of them: {full}")


def _rank(change: Change, where: Sequence[str], roots: Mapping[str, spec.RootFs]) -> tuple[int, str]:
    """Where a change stands: by what its package is, then by name."""
    for place, pattern in enumerate(FIRST):
        if pattern.fullmatch(change.package):
            return place, change.package
    named = any(change.package in roots[name].packages for name in where if name in roots)
    return len(FIRST) + (not named), change.package
