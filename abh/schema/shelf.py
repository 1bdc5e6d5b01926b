# SPDX-License-Identifier: MIT
"""Where the files of one kind are found, by globbing, and how each becomes its object."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar, cast

from abh.errors import AbhError
from abh.schema.keys import Spec
from abh.schema.strict import KEBAB, did_you_mean, kebab, one_of, read_toml, validate

S = TypeVar("S", bound=Spec)


@functools.lru_cache(maxsize=4096)
def _object(model: type[Spec], path: Path, name: str, content: bytes) -> Spec:
    """The object in a file of this content: a study asks for all of them thousands of times."""
    return validate(model, read_toml(path), path, {"name": name, "path": path})


@dataclass(frozen=True)
class Shelf(Generic[S]):
    """Where files of one kind are."""

    label: str
    model: type[S]
    glob: str

    def name_of(self, path: Path) -> str:
        """The name a file gives its object: its folder's if all files are called alike, else its own."""
        return path.stem if self.glob.endswith("*.toml") else path.parent.name

    def paths(self, root: Path) -> dict[str, Path]:
        """Name to file, unread."""
        found = {self.name_of(path): path for path in sorted(root.glob(self.glob)) if path.is_file()}
        for name, path in found.items():
            if not KEBAB.fullmatch(name):
                raise AbhError(
                    f"ill-formed name of a {self.label}",
                    where=path,
                    got=name,
                    expected="kebab-case: small letters and digits, joined by -",
                    next_step=f"rename it, as {kebab(name)}",
                )
        return found

    def load(self, path: Path) -> S:
        """The object in one file."""
        content = path.read_bytes() if path.is_file() else b""  # what is not there, read_toml() says
        return cast(S, _object(self.model, path, self.name_of(path), content))

    def one(self, name: str, root: Path) -> S:
        """The object of this name; AbhError suggests the nearest."""
        return self.load(self.find(name, root))

    def find(self, name: str, root: Path) -> Path:
        """The file of this name; AbhError suggests the nearest."""
        known = self.paths(root)
        if name not in known:
            raise AbhError(
                f"unknown {self.label} `{name}`",
                where=root / self.glob,
                got=name,
                expected=one_of(name, known),
                next_step=did_you_mean(name, known, "`abh list` shows what there is"),
            )
        return known[name]

    def all(self, root: Path) -> dict[str, S]:
        """Every object, by order and then name."""
        loaded = [self.load(path) for path in self.paths(root).values()]
        return {each.name: each for each in sorted(loaded, key=lambda each: (getattr(each, "order", 0), each.name))}


@dataclass(frozen=True)
class GroupedShelf(Shelf[S]):
    """Where some files lie in a folder more than others: their group. A name is one file's, whatever its group."""

    def paths(self, root: Path) -> dict[str, Path]:
        """Name to file, over those of no group and of all groups; a run names neither."""
        room, _, rest = self.glob.partition("*")
        found = super().paths(root)
        for folder in sorted(path for path in root.glob(f"{room}[!._]*/") if path.is_dir()):
            more = Shelf(self.label, self.model, f"{folder.relative_to(root)}/*{rest}").paths(root)
            for name in sorted(more.keys() & found.keys()):
                raise AbhError(
                    f"two files of one name, a {self.label}'s",
                    where=more[name],
                    got=name,
                    next_step=f"rename it, or {found[name]}",
                )
            found |= more
        return found
