# SPDX-License-Identifier: MIT
"""Patch series: what one is, what makes it well-formed, and the one place where its patches are applied.

A series is a folder with BASE (TOML: the upstream source), `series` (quilt's format: one patch a line, in order) and
the patches, <topic>/NNNN-name.patch. The folder is the record: nothing else lists patches.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from abh import paths
from abh.build import dep3
from abh.errors import AbhError
from abh.schema.strict import Strict, bad, read_toml, validate

PATCH_TIMEOUT_S = 120
TAIL_LINES = 15
PATCH_NAME = re.compile(r"[a-z0-9][a-z0-9-]*/[0-9]{4}-[A-Za-z0-9._-]+\.patch")

Word = Annotated[str, StringConstraints(pattern=r"^\S+$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[^/\s]+$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class BaseFile(Strict):
    """One file of the upstream source package."""

    name: FileName
    sha256: Sha256


class Base(Strict):
    """BASE: the upstream source a series applies to."""

    package: Word
    kind: Literal["source", "binary"]  # of package that the source comes in
    version: Word
    suite: Word | None = None  # that the package is of; None: of those of the root `build`
    file: Annotated[tuple[BaseFile, ...], Field(min_length=1)]

    @field_validator("file")
    @classmethod
    def _named_once(cls, files: tuple[BaseFile, ...]) -> tuple[BaseFile, ...]:
        names = [file.name for file in files]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise bad("a file is listed twice", got=", ".join(twice), next_step="keep one [[file]] of that name")
        return files

    @property
    def files(self) -> tuple[BaseFile, ...]:
        """The files, by the name that reads better."""
        return self.file


@dataclass(frozen=True)
class Series:
    """A patch series, or the first patches of one."""

    folder: Path
    base: Base
    patches: tuple[str, ...]  # relative to folder, in order

    @property
    def updated(self) -> str:
        """The newest day that a patch names, as 20260131, so that a later one is a larger number; "0" if none does."""
        texts = ((self.folder / each).read_text(encoding="utf-8") for each in self.patches)
        days = [day for text in texts if (day := dep3.updated(text))]
        return f"{max(days):%Y%m%d}" if days else "0"

    @property
    def name(self) -> str:
        """How results and messages name it: the folder, relative to the checkout where it is inside."""
        try:
            return self.folder.relative_to(paths.CHECKOUT).as_posix()
        except ValueError:
            return str(self.folder)


def find_series(checkout: Path = paths.CHECKOUT) -> list[Path]:
    """Every folder with a BASE, where a series is: <program>-patches/<base> or hypervisor/<program>/<base>."""
    return sorted(base.parent for pattern in paths.SERIES_BASES for base in checkout.glob(pattern))


def load_base(folder: Path) -> Base:
    """BASE of a series, checked."""
    path = folder / "BASE"
    return validate(Base, read_toml(path), path)


def listed(folder: Path) -> list[str]:
    """The patch names in the file `series`, in order, as they stand there."""
    path = folder / "series"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AbhError(
            "a series has no readable file `series`", where=path, got=error, next_step="add it; empty will do"
        ) from error
    return [name for line in lines if (name := line.partition("#")[0].strip())]


def listing_problems(folder: Path) -> list[str]:
    """Where the file `series` and the patches present disagree."""
    names = listed(folder)
    present = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.suffix in (".patch", ".diff")}
    problems = [f"series: {name}: not of the form topic/0001-name.patch" for name in names if not _well_named(name)]
    problems += [f"series: {name}: listed twice" for name in sorted(set(names)) if names.count(name) > 1]
    problems += [f"series: {name}: listed, but not there" for name in names if name not in present]
    problems += [f"{name}: there, but not listed in series" for name in sorted(present - set(names))]
    return problems


def _well_named(name: str) -> bool:
    return PATCH_NAME.fullmatch(name) is not None


def load(folder: Path) -> Series:
    """The series in a folder; an AbhError if its listing is not sound."""
    folder = folder.resolve()
    base = load_base(folder)
    if problems := listing_problems(folder):
        raise AbhError(
            "a patch series is not sound",
            where=folder,
            got="; ".join(problems),
            next_step="make its file `series` list exactly the patches that are there",
        )
    return Series(folder, base, tuple(listed(folder)))


def problems(folder: Path) -> list[str]:
    """Everything wrong with a series that shows without its source; empty when all is well."""
    found = []
    try:
        load_base(folder)
    except AbhError as error:
        found.append("BASE: " + str(error).replace("\n", ";"))
    try:
        found += listing_problems(folder)
        names = [n for n in dict.fromkeys(listed(folder)) if _well_named(n) and (folder / n).is_file()]
    except AbhError as error:
        return [*found, f"series: {error.got}"]
    for name in names:
        try:
            text = (folder / name).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            found.append(f"{name}: not UTF-8: {error}")
            continue
        found += [f"{name}: {problem}" for problem in dep3.problems(text)]
    return found


def series_hash(series: Series) -> str:
    """SHA-256 (hex) over what decides the patched tree: the base, and the patches in order, by name and content."""
    # Parsed, not byte for byte: a comment in BASE or `series` rebuilds nothing, a prefix differs from the whole.
    total = hashlib.sha256(json.dumps(series.base.model_dump(exclude_none=True), sort_keys=True).encode())
    for name in series.patches:
        content = hashlib.sha256((series.folder / name).read_bytes()).hexdigest()
        total.update(f"\n{name} {content}".encode())
    return total.hexdigest()


def apply_series(series: Series, tree: Path) -> None:
    """Apply every patch, in order, to an unpacked base. A hunk may have moved; its context must match whole."""
    for name in series.patches:
        _apply(series.folder / name, tree, label=f"{series.name}/{name}")


def _apply(patch: Path, tree: Path, *, label: str) -> None:
    argv = ["patch", "-p1", "--fuzz=0", "--forward", "--batch", "--no-backup-if-mismatch", "--reject-file=-"]
    # patch reads its own variables and speaks the user's language; neither may change what we get.
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    try:
        with patch.open("rb") as text:
            done = subprocess.run(
                argv,
                cwd=tree,
                env=env,
                stdin=text,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PATCH_TIMEOUT_S,
                check=False,
            )
    except FileNotFoundError as error:
        raise AbhError("cannot apply a patch", where=label, got=error, next_step="see `abh doctor`") from error
    except subprocess.TimeoutExpired as error:
        raise AbhError(
            "patch did not end", where=label, got=f"still running after {error.timeout} s", next_step="see `abh doctor`"
        ) from error
    output = done.stdout.decode(errors="replace")
    if done.returncode:
        raise AbhError(
            "a patch does not apply to its base",
            where=label,
            got=f"patch ended with status {done.returncode}, in {tree}",
            expected="every hunk applies, with no fuzz",
            next_step="refresh the patch against the base that BASE names and the patches before it in `series`",
            tail="\n".join(output.splitlines()[-TAIL_LINES:]),
        )


def check_applies(series: Series, tree: Path) -> None:
    """Apply a series to copies of the files it touches: says whether it applies, and leaves the tree as it is."""
    touched = {name for patch in series.patches for name in dep3.touched((series.folder / patch).read_text("utf-8"))}
    with tempfile.TemporaryDirectory(prefix="abh-series-") as scratch:
        for name in sorted(touched):
            source, copy = tree / name, Path(scratch) / name
            if ".." in Path(name).parts or not source.is_file():
                continue  # added by the series, or patch itself says what is wrong
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
        apply_series(series, Path(scratch))


def prefixes(series: Series) -> Iterator[Series]:
    """The series cut after each of its patches, shortest first; the last one is the whole."""
    for end in range(1, len(series.patches) + 1):
        yield replace(series, patches=series.patches[:end])


def check_prefixes(series: Series, build: Callable[[Series], object]) -> None:
    """Build every prefix: `build` takes a Series, applies and builds it, and raises AbhError if that fails."""
    for prefix in prefixes(series):
        try:
            build(prefix)
        except AbhError as error:
            raise AbhError(
                "a prefix of a series does not build",
                where=f"{series.name}, up to {prefix.patches[-1]}",
                got=error.what,
                next_step="mend that patch: whoever bisects stops at it",
                tail=error.tail or str(error),
            ) from error
