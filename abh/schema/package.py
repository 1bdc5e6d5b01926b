# SPDX-License-Identifier: MIT
"""packages/<name>/package.toml: a Debian package, filled by the stage.sh beside it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from abh.schema.keys import InsidePath, Line, Name, Sentence, Spec, Word, no_repeat
from abh.schema.shelf import Shelf

# What dpkg runs and reads: files beside package.toml of these names go into the package.
SCRIPTS = ("preinst", "postinst", "prerm", "postrm", "triggers", "conffiles")


class Package(Spec):
    """`purpose` is the first line of its description; `{version}` in depends is that of its base, `{self}` its own."""

    details: tuple[Sentence, ...]  # paragraphs of the description
    architecture: Literal["all", "amd64"]
    section: Word
    licence: Word  # of what is in it, as in debian/copyright
    depends: tuple[Line, ...] = ()
    recommends: tuple[Line, ...] = ()
    needs: Annotated[tuple[Name, ...], AfterValidator(no_repeat)] = ()  # components; the first has the series
    reads: Annotated[tuple[InsidePath, ...], AfterValidator(no_repeat)] = ()  # of the checkout, that stage.sh reads


PACKAGE: Shelf[Package] = Shelf("package", Package, "packages/*/package.toml")
