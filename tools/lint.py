# SPDX-License-Identifier: MIT
"""Which checker reads which file, and how they are run: what is behind `abh lint`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from abh.errors import AbhError
from abh.paths import CHECKOUT
from tools import licences

C_SUFFIXES = {".c", ".h", ".cc", ".cpp", ".hpp"}
# Programs under study keep the look their authors gave them; generated input is nobody's style.
C_EXEMPT = ("workloads/",)


def sources(checkout: Path) -> list[Path]:
    """Every file git tracks or would track, relative to the checkout."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(argv, cwd=checkout, capture_output=True, check=False)
    if done.returncode:
        raise AbhError(
            "git cannot list the files of the checkout",
            where=checkout,
            got=done.stderr.decode(errors="replace").strip(),
            next_step="run this in a clone of the repository",
        )
    listed = done.stdout.decode()
    paths = sorted({Path(name) for name in listed.split("\0") if name})
    return [p for p in paths if (checkout / p).is_file() and not (checkout / p).is_symlink()]


def is_shell(path: Path) -> bool:
    """Whether this is a shell script: by its suffix, else by its first line."""
    if path.suffix in (".sh", ".bash"):
        return True
    if path.suffix:
        return False
    with path.open("rb") as file:
        first = file.readline(80).split()
    return bool(first) and first[0].startswith(b"#!") and first[-1].rpartition(b"/")[2] in (b"sh", b"bash", b"dash")


def is_c(path: Path) -> bool:
    """Whether this is C or C++ of ours to format."""
    return path.suffix in C_SUFFIXES and not path.as_posix().startswith(C_EXEMPT)


def commands(checkout: Path, files: Iterable[Path], *, fix: bool) -> list[tuple[str, list[str]]]:
    """Name and command line of every check there is something to run on."""
    files = list(files)
    bin_dir = Path(sys.executable).parent
    shell = [str(p) for p in files if is_shell(checkout / p)]
    c_files = [str(p) for p in files if is_c(p)]
    crates = [str(p) for p in files if p.name == "Cargo.toml" and "[workspace]" in (checkout / p).read_text("utf-8")]
    crates = crates or [str(p) for p in files if p.name == "Cargo.toml"]
    ruff = str(bin_dir / "ruff")
    found = [
        ("ruff check", [ruff, "check", "--quiet", *(["--fix"] if fix else []), "."]),
        ("ruff format", [ruff, "format", "--quiet", *([] if fix else ["--diff"]), "."]),
    ]
    found.append(("mypy", [str(bin_dir / "mypy"), "--no-error-summary"]))
    if shell:
        found.append(("shellcheck", [str(bin_dir / "shellcheck"), *shell]))
    if c_files:
        mode = ["-i"] if fix else ["--dry-run", "-Werror"]
        found.append(("clang-format", [str(bin_dir / "clang-format"), *mode, *c_files]))
    for crate in crates:
        mode = [] if fix else ["--check"]
        found.append((f"cargo fmt ({crate})", ["cargo", "fmt", "--all", "--manifest-path", crate, *mode]))
    return found


def run(*, fix: bool = False, checkout: Path = CHECKOUT) -> list[str]:
    """Run every check to its end; returns the names of those that found fault."""
    files = sources(checkout)
    failed = [] if licences.check(checkout, files, fix=fix) else ["licences"]
    sys.stdout.flush()
    # Tools that start others by name find ours first.
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"}
    for name, argv in commands(checkout, files, fix=fix):
        try:
            status = subprocess.run(argv, cwd=checkout, env=env, timeout=600).returncode
        except FileNotFoundError:
            print(f"{name}: {argv[0]} is not here; its files were not checked", file=sys.stderr)
            status = 0 if argv[0] == "cargo" else 1
        if status:
            failed.append(name)
    return failed
