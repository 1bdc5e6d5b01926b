# SPDX-License-Identifier: MIT
"""Upstream sources: the distribution's source packages, pinned by version and SHA-256 in <series>/BASE."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from abh import paths, progress
from abh.build import cache, root
from abh.build.series import Base
from abh.errors import AbhError
from abh.files import write_text

APT = ("apt-get", "-o", "APT::Sandbox::User=root", "-qq")
URI_LINE = re.compile(r"'(?P<uri>[^']+)' (?P<name>\S+) \d+ SHA256:(?P<sha256>[0-9a-f]{64})")

COMPLAINTS = 3  # lines of apt's that are told; the first ones repeat, one for each index
TREE = "tree"  # the top of an unpacked source, in the folder it was unpacked to


@dataclass(frozen=True)
class Source:
    """The files of one source package, fetched and checked."""

    package: str
    version: str
    files: tuple[Path, ...]

    @property
    def digest(self) -> str:
        """Names the content: SHA-256 (hex) over version and files' hashes."""
        return cache.key_of(self.package, self.version, *(path.parent.name for path in self.files))


def _entered(**more: object) -> list[str]:
    return root.enter(root.path_of("build"), network=True, root_writable=True, **more)  # type: ignore[arg-type]


def _complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What apt says went wrong: its errors and warnings, or the last words of what failed without any."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(("E:", "W:"))]
    if done.returncode and not marked:
        return lines[-1:] or [f"exit status {done.returncode}"]
    return marked


def _apt(base: Base) -> list[str]:
    """What apt is told besides: a suite that is not the root's has an index of its own, which nothing else sees."""
    if base.suite is None:
        return []
    top = root.path_of("build")
    listed = (top / "etc/apt/sources.list").read_text().splitlines()
    _, mirror, _, *parts = next(line for line in listed if line.startswith("deb ")).split()
    kind, name = ("deb-src", f"{base.suite}-sources") if base.kind == "source" else ("deb", base.suite)
    (top / f"etc/apt/{name}.list").write_text(f"{kind} {mirror} {base.suite} {' '.join(parts)}\n")
    (top / f"var/lib/apt/{name}/partial").mkdir(parents=True, exist_ok=True)
    places = (f"Dir::Etc::SourceList=/etc/apt/{name}.list", "Dir::Etc::SourceParts=/dev/null",
              f"Dir::State::Lists=/var/lib/apt/{name}")  # fmt: skip
    return [word for place in places for word in ("-o", place)]


def _ask(words: Sequence[str]) -> str:
    """What apt prints. What it complains of is told: an answer of nothing has a reason."""
    done = subprocess.run([*_entered(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    for line in _complaints(done)[-COMPLAINTS:]:
        progress.say(f"{words[0]}: {line}")
    return done.stdout


def _offers(base: Base, version: str) -> list[tuple[str, str, str]]:
    """(uri, file name, sha256) of a package's source at a version; empty where the mirror has no such version."""
    verb = ["download"] if base.kind == "binary" else ["source", "--only-source"]
    text = _ask([*APT, *_apt(base), *verb, "--print-uris", f"{base.package}={version}"])
    found = []
    for match in URI_LINE.finditer(text):
        name = urllib.parse.unquote(match["name"])
        if not name.endswith(".dsc"):
            found.append((match["uri"], name, match["sha256"]))
    return found


def _newest(base: Base) -> str | None:
    """The newest version of the package that the mirror lists, of the same upstream series (first two numbers)."""
    words = ["apt-cache", *_apt(base), "madison", base.package]
    upstream = re.match(r"(?:\d+:)?(\d+\.\d+)", base.version)
    for line in _ask(words).splitlines():
        columns = [column.strip() for column in line.split("|")]
        wanted = "Sources" in columns[-1] if base.kind == "source" else "Packages" in columns[-1]
        if len(columns) == 3 and wanted and upstream and re.match(rf"(\d+:)?{re.escape(upstream[1])}\b", columns[1]):
            return columns[1]
    return None


def _slot(name: str, sha256: str) -> Path:
    return paths.cache() / "downloads" / sha256 / name


def _download(uri: str, name: str, sha256: str) -> Path:
    final = _slot(name, sha256)
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch = final.with_name(f".{name}.part")
    scratch.unlink(missing_ok=True)
    helper = ["/usr/lib/apt/apt-helper", "-o", "APT::Sandbox::User=root", "download-file", uri, f"/out/{scratch.name}"]
    done = subprocess.run(
        [*_entered(writable={"/out": final.parent}), *helper],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode or not scratch.exists():
        raise AbhError(
            f"could not download {name}",
            where=urllib.parse.urlsplit(uri).path,
            got="; ".join(_complaints(done)[-COMPLAINTS:]) or "no file, and no word of why",
            next_step="check the network and run the same command again: finished downloads are kept",
        )
    verify(scratch, name, sha256)
    scratch.rename(final)
    return final


def verify(path: Path, name: str, sha256: str) -> None:
    """Refuses, and removes, a file whose content is not the one expected."""
    with path.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != sha256:
        path.unlink()
        raise AbhError(
            f"{name} is corrupt",
            where=path,
            got=f"SHA-256 {got}",
            expected=f"SHA-256 {sha256}",
            next_step="run the same command again; if it happens again, the mirror serves a wrong file",
        )


def _pinned(base: Base) -> Source | None:
    """The pinned files, if all of them have been downloaded before."""
    files = tuple(_slot(file.name, file.sha256) for file in base.file)
    return Source(base.package, base.version, files) if all(path.exists() for path in files) else None


def _moved(base: Base) -> Path:
    key = cache.key_of(base.package, base.version, *(file.sha256 for file in base.file))
    return paths.cache() / "downloads" / f"{base.package}-{key}.moved.json"


def _from_record(record: Path) -> Source | None:
    if not record.exists():
        return None
    try:
        data = json.loads(record.read_text())
        files = tuple(_slot(name, sha256) for name, sha256 in data["files"])
        found = Source(data["package"], data["version"], files)
    except (ValueError, KeyError, TypeError):  # cut short by a full disk or a power cut: it is written anew
        return None
    return found if all(path.exists() for path in files) else None


def fetch(base: Base) -> Source:
    """The source a BASE names. Where the mirror's index has moved on, the pool may still have it; where that has too,
    a newer point release, and saying so."""
    have = _pinned(base) or _from_record(_moved(base))
    if have:
        return have
    with cache.lock("downloads", f"downloading {base.package}"):
        if have := _pinned(base) or _from_record(_moved(base)):  # by the one that we waited for
            return have
        progress.say(f"downloading {base.package} {base.version}")
        # An index that could not be renewed may still list what is wanted: that it is old is told.
        _ask([*APT, *_apt(base), "update"])
        wanted = [(file.name, file.sha256) for file in base.file]
        listed = {(name, sha256): uri for uri, name, sha256 in _offers(base, base.version)}
        if all(each in listed for each in wanted):
            return _take(base.package, base.version, [(listed[each], *each) for each in wanted])
        return _fetch_unlisted(base)


def _take(package: str, version: str, offers: Sequence[tuple[str, str, str]]) -> Source:
    """The source made of these files: (uri, file name, sha256) of each."""
    return Source(package, version, tuple(_download(*each) for each in offers))


def _fetch_unlisted(base: Base) -> Source:
    version = _newest(base)
    offers = _offers(base, version) if version else []
    if not offers or version is None:
        raise AbhError(
            f"the mirror has neither {base.package} {base.version} nor a newer release of the same series",
            where="the BASE file of its series",
            next_step="read what apt-get says above; check the network, or pin a version that the mirror has",
        )
    # An index lists what is current. The pool keeps the release before it for a while, and a mirror whose index is
    # ahead of its pool has that one alone. What it must be is known from its hash.
    pool = offers[0][0].rsplit("/", 1)[0]
    try:
        pinned = [(f"{pool}/{urllib.parse.quote(file.name)}", file.name, file.sha256) for file in base.file]
        return _take(base.package, base.version, pinned)
    except AbhError as error:
        why = f"{error.what}: {error.got}"
        progress.say(f"the mirror has moved on: taking {base.package} {version} instead of {base.version} ({why})")
    newer = _take(base.package, version, offers)
    record = {"package": base.package, "version": version, "files": [[p.name, p.parent.name] for p in newer.files]}
    write_text(_moved(base), json.dumps(record))
    return newer


def unpack(source: Source, out: Path, log: Path) -> Path:
    """Unpacks a source package below `out`, applies the distribution's own patches, returns the tree's top."""
    tree = out / TREE
    tree.mkdir()
    script = """
set -e
cd /out
for file in /in/*; do
    case $file in
    *.deb) dpkg-deb --fsys-tarfile "$file" | tar -xO --wildcards './usr/src/*.tar.xz' |
        tar -xJ --no-same-owner -C tree --strip-components=1 ;;
    *.orig.tar.*) tar -xf "$file" --no-same-owner -C tree --strip-components=1 ;;
    esac
done
for file in /in/*.debian.tar.*; do
    [ ! -e "$file" ] || tar -xf "$file" --no-same-owner -C tree
done
[ -e tree/debian/patches/series ] || exit 0
sed '/^#/d' tree/debian/patches/series | while read -r name _; do
    [ -z "$name" ] || patch -s -d tree -p1 -F0 -N --no-backup-if-mismatch -i "debian/patches/$name"
done
"""
    staging = out / "in"
    staging.mkdir()
    for path in source.files:
        verify(path, path.name, path.parent.name)
        (staging / path.name).hardlink_to(path)
    binds = root.enter(root.path_of("build"), read_only={"/in": staging}, writable={"/out": out})
    root.run(
        binds,
        [*root.SHELL, "-c", script],
        log=log,
        what=f"unpacking {source.package} {source.version}",
    )
    return tree
