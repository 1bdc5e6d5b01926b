# SPDX-License-Identifier: MIT
"""Debian root file systems, and running commands inside them.

All builds and the emulator run inside a Debian 13 root, so that the user's
distribution does not matter. A root is unpacked as files of the calling user and
entered with bubblewrap: no root needed, and nothing stays mounted or running when
the caller dies.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from debian.deb822 import Deb822

from abh.build import cache
from abh.errors import AbhError
from abh.schema import spec

TAIL_LINES = 25
# What a root is made with besides its packages; part of its key, so that a changed error text rebuilds nothing.
OPTIONS = ("--variant=minbase", '--aptopt=Apt::Install-Recommends "false"')
# The index of a suite that is not released expires after a week, also on a mirror that is renewed less often.
OPTIONS_SID = ('--aptopt=Acquire::Check-Valid-Until "false"',)
CONTENTS = ".abh-packages"  # in a root: a line for each package, its name and its version
MOUNT_POINTS = ("src", "out", "obj", "main", "cache", "in")
# Runs a POSIX script. Debian's sh knows a pipe's last status alone: `tar | tar` whose first one failed made an image.
SHELL = ("bash", "--posix", "-o", "pipefail")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}


def tail_of(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, for an error."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:  # what fails before it says a word leaves no log
        return ""


def _unpack(root: spec.RootFs, out: Path, log: Path) -> None:
    mode = "root" if os.geteuid() == 0 else "unshare"
    make = [
        "mmdebstrap",
        f"--mode={mode}",
        *OPTIONS,
        *(OPTIONS_SID if root.suite == "sid" else ()),
        "--format=tar",
        f"--include={','.join(root.packages)}",
        root.suite,
        "-",
    ]
    unpack = ["tar", "-x", "-p", "--no-same-owner", "--exclude=./dev/*", "-C", str(out)]
    with log.open("wb") as errors:
        try:
            source = subprocess.Popen(make, stdout=subprocess.PIPE, stderr=errors)
        except FileNotFoundError:
            raise AbhError("mmdebstrap is not installed", where=make[0], next_step="see `abh doctor`") from None
        try:
            target = subprocess.run(unpack, stdin=source.stdout, stderr=errors, check=False)
        except BaseException:
            source.terminate()  # an interruption must not leave it downloading
            raise
        finally:
            assert source.stdout is not None
            source.stdout.close()
            status = source.wait()
    if unknown := re.search(r"Unable to locate package (\S+)", tail_of(log, 200)):
        raise AbhError(
            f"there is no Debian package `{unknown[1]}`",
            where=f"the Debian root '{root.name}' ({root.suite}): vm-configs/roots, or `packages` of a workload",
            next_step="correct its name; `apt-cache search WORD` finds it",
        )
    if status or target.returncode:
        raise AbhError(
            f"the Debian root '{root.name}' could not be made",
            where=shlex.join(make),
            got=f"exit status {status or target.returncode}",
            next_step="check the network and that 'abh doctor' finds mmdebstrap usable, then run the same again",
            tail=tail_of(log),
        )


def _make(root: spec.RootFs, out: Path) -> None:
    log = out / ".mmdebstrap.log"
    _unpack(root, out, log)
    for folder in MOUNT_POINTS:
        (out / folder).mkdir(exist_ok=True)
        (out / folder).chmod(0o755)
    lists = (out / "etc/apt/sources.list").read_text()
    sources = [line.replace("deb ", "deb-src ", 1) for line in lists.splitlines() if line.startswith("deb ")]
    (out / "etc/apt/sources.list.d/sources.list").write_text("\n".join(sources) + "\n")
    (out / CONTENTS).write_text("".join(f"{name} {version}\n" for name, version in _installed(out).items()))


def _installed(tree: Path) -> dict[str, str]:
    """The packages of an unpacked root with their versions, as dpkg has noted them."""
    with (tree / "var/lib/dpkg/status").open(encoding="utf-8") as status:
        found = [each for each in Deb822.iter_paragraphs(status) if each["Status"].endswith(" installed")]
    return {each["Package"]: each["Version"] for each in sorted(found, key=lambda each: str(each["Package"]))}


@dataclass(frozen=True)
class Contents:
    """What is in a root: the version of each package."""

    packages: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Names the content: a root made at another time, of other versions, has another."""
        return cache.key_of(*(f"{name} {version}" for name, version in sorted(self.packages.items())))


@functools.cache
def contents(name: str) -> Contents:
    """What is in the root `name`, which is made on first use."""
    lines = (path_of(name) / CONTENTS).read_text().splitlines()
    return Contents(dict(line.split(" ", 1) for line in lines))


def path_of(name: str) -> Path:
    """The unpacked root `name` of vm-configs/roots, made on first use; the root it extends, if it has no more in it."""
    roots = spec.roots()
    root = roots[name]
    if root.extends and (root.suite, root.packages) == (roots[root.extends].suite, roots[root.extends].packages):
        return path_of(root.extends)
    key = cache.key_of(root.suite, *sorted(root.packages), *OPTIONS, *MOUNT_POINTS, CONTENTS)
    return cache.produce(
        "roots", name, key, lambda out: _make(root, out), about=f"making the Debian root '{name}'", needs_mib=1500
    )


def enter(
    root: Path,
    *,
    read_only: Mapping[str, Path] | None = None,
    writable: Mapping[str, Path] | None = None,
    network: bool = False,
    root_writable: bool = False,
    scratch: str = "",
    env: Mapping[str, str] | None = None,
    chdir: str = "/",
) -> list[str]:
    """The command prefix that runs what follows inside `root`, with what is bound in (name inside -> outside).

    `scratch` names folders that are empty there, and that others can be bound into.
    """
    if shutil.which("bwrap") is None:
        raise AbhError("bubblewrap is not installed", where="bwrap", next_step="see `abh doctor`")
    words = ["bwrap", "--bind" if root_writable else "--ro-bind", str(root), "/"]
    if os.geteuid():
        words += ["--unshare-user", "--uid", "0", "--gid", "0"]
    words += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-pid", "--unshare-ipc"]
    words += ["--die-with-parent", "--clearenv"]
    for name, value in {**ENVIRONMENT, **(env or {})}.items():
        words += ["--setenv", name, value]
    if network:
        for name in ("http_proxy", "https_proxy", "no_proxy"):
            if proxy := os.environ.get(name):
                words += ["--setenv", name, proxy]
        words += ["--ro-bind", "/etc/resolv.conf", "/etc/resolv.conf"]
    else:
        words += ["--unshare-net"]
    for each in scratch.split():
        words += ["--tmpfs", each]
    for inside, outside in (read_only or {}).items():
        words += ["--ro-bind", str(outside), inside]
    for inside, outside in (writable or {}).items():
        words += ["--bind", str(outside), inside]
    return [*words, "--chdir", chdir]


def run(prefix: Sequence[str], command: Sequence[str], *, log: Path, what: str, timeout_s: float = 5400) -> None:
    """Runs a command inside a root; its output goes to `log`, whose end is shown if it fails."""
    start = time.monotonic()
    with log.open("ab") as out:
        out.write(f"$ {shlex.join(command)}\n".encode())
        out.flush()
        try:
            status: int | str = subprocess.run(
                [*prefix, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=timeout_s, check=False,
                umask=0o022,  # the user's own would be in the images that are made here
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            status = f"still running after {time.monotonic() - start:.0f} s"
    if status != 0:
        raise AbhError(
            f"{what} failed",
            where=shlex.join(command),
            got=status if isinstance(status, str) else f"exit status {status}",
            next_step=f"read {log}",
            tail=tail_of(log),
        )
