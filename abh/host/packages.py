# SPDX-License-Identifier: MIT
"""The Debian packages this machine must have: requirements-system.txt, read here as bin/abh reads it."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from abh import paths
from abh.errors import AbhError

REQUIREMENTS = "requirements-system.txt"


@dataclass(frozen=True)
class Package:
    """A Debian package, how its presence shows, and why it is needed."""

    name: str
    probe: str  # a command; /a/path; or python3:module
    who: str  # all; or user: needed only where one is not root
    why: str

    def present(self) -> bool:
        """Whether its probe finds something."""
        if self.probe.startswith("/"):
            return Path(self.probe).exists()
        if self.probe.startswith("python3:"):
            return importlib.util.find_spec(self.probe.partition(":")[2]) is not None
        return shutil.which(self.probe) is not None


def load(checkout: Path = paths.CHECKOUT) -> list[Package]:
    """Every package of requirements-system.txt."""
    path = checkout / REQUIREMENTS
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split(None, 3)
        if len(words) != 4 or words[2] not in ("all", "user"):
            raise AbhError(
                "a line is not understood",
                where=f"{path}:{number}",
                got=line,
                expected="package, probe, all or user, why",
                next_step="correct the line",
            )
        found.append(Package(*words))
    return found


def missing(packages: Iterable[Package], *, root: bool | None = None) -> list[Package]:
    """Those of the packages that this user needs and this machine lacks."""
    is_root = os.geteuid() == 0 if root is None else root
    return [each for each in packages if not (each.who == "user" and is_root) and not each.present()]


def install_line(packages: Iterable[Package], *, root: bool | None = None) -> str:
    """One line to paste that installs them."""
    is_root = os.geteuid() == 0 if root is None else root
    install = f"apt-get install -y --no-install-recommends {shlex.join(each.name for each in packages)}"
    if is_root:
        return f"apt-get update && {install}"
    if shutil.which("sudo"):
        return f"sudo apt-get update && sudo {install}"
    return f"su -c {shlex.quote(f'apt-get update && {install}')}"
