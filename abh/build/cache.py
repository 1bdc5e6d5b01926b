# SPDX-License-Identifier: MIT
"""What is built is kept outside the checkout, keyed by the content it was made from."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from abh import paths, progress, schedule
from abh.errors import AbhError

KEY_CHARS = 16
SCRATCH = re.compile(rf"\.(?P<entry>.+-[0-9a-f]{{{KEY_CHARS}}})-[a-z0-9_]{{8}}")  # made by produce()


def digest_files(files: Iterable[Path], base: Path) -> str:
    """SHA-256 (hex) over names relative to `base`, executable bits and contents, in sorted order."""
    total = hashlib.sha256()
    for path in sorted(files):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        mode = "x" if os.access(path, os.X_OK) else "-"
        total.update(f"{path.relative_to(base)} {mode} {content}\n".encode())
    return total.hexdigest()


def digest_tree(folder: Path, ignore: Callable[[Path], bool] = lambda path: False) -> str:
    """SHA-256 (hex) over every file under `folder` that `ignore` does not name; or over one file."""
    if folder.is_file():
        return digest_files([folder], folder.parent)
    files = (path for path in folder.rglob("*") if path.is_file() and not ignore(path))
    return digest_files(files, folder)


def key_of(*parts: str) -> str:
    """A short key over ordered parts (texts or digests)."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:KEY_CHARS]


def _free_mib(folder: Path) -> int:
    return shutil.disk_usage(folder).free // (1 << 20)


def remove(path: Path) -> None:
    """Removes a tree even where a build left folders without write permission."""

    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        path.chmod(0o700)
        for folder, names, _ in os.walk(path):  # top down: a folder is opened up before it is entered
            for inner in (Path(folder) / name for name in names):
                if not inner.is_symlink():
                    inner.chmod(0o700)
        shutil.rmtree(path)


def _lock_file(name: str) -> FileLock:
    folder = paths.cache() / "locks"
    folder.mkdir(exist_ok=True)
    return FileLock(folder / name)


def _acquire(held: FileLock) -> None:
    """Waits for a lock, but not while all is being ended."""
    while True:
        with contextlib.suppress(Timeout):
            held.acquire(timeout=1)
            return
        if schedule.stopping.is_set():
            raise AbhError("ended while waiting for another abh", next_step="run the same command again to go on")


@contextlib.contextmanager
def lock(name: str, waiting_for: str) -> Iterator[None]:
    """Holds a lock of this cache; a second holder waits, and is told for what."""
    held = _lock_file(name)
    try:
        held.acquire(timeout=0)
    except Timeout:
        progress.say(f"waiting for another abh that is {waiting_for}")
        _acquire(held)
    try:
        yield
    finally:
        held.release()


def produce(kind: str, name: str, key: str, make: Callable[[Path], None], *, about: str, needs_mib: int = 200) -> Path:
    """The folder <cache>/<kind>/<name>-<key>, made by `make(folder)` if it is not there.

    Made in a scratch folder and renamed when whole: an interruption leaves nothing
    half-made under the final name, and two callers never make the same thing twice.
    Entries of the same name that nobody asked for in a month are removed.
    """
    folder = paths.cache() / kind
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"{name}-{key}"
    if final.exists():
        _note_use(final)
        return final
    with lock(f"{kind}-{name}-{key}", about):
        if final.exists():
            return final
        if (free := _free_mib(folder)) < needs_mib:
            raise AbhError(
                f"not enough disk space for {about}",
                where=folder,
                got=f"{free} MiB free",
                expected=f"at least {needs_mib} MiB",
                next_step="free some space, or set ABH_CACHE to a folder on a larger disk",
            )
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}-{key}-", dir=folder))
        scratch.chmod(0o755)
        try:
            with progress.step(about):
                make(scratch)
            scratch.rename(final)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise AbhError(
                f"the disk filled up while {about}",
                where=folder,
                next_step="free some space and run the same command again",
            ) from error
        finally:
            if scratch.exists():
                remove(scratch)
        _forget_old(folder, name)
    return final


def _note_use(entry: Path, after_s: float = 86400) -> None:
    """Makes an entry young, once a day: somebody may be packing it, and tar complains of a folder that changes."""
    if entry.stat().st_mtime < time.time() - after_s:
        os.utime(entry)


def _forget_old(folder: Path, name: str, days: int = 30) -> None:
    limit = time.time() - days * 86400
    for entry in folder.glob(f"{name}-*"):
        if len(entry.name) == len(name) + 1 + KEY_CHARS and entry.stat().st_mtime < limit:
            remove(entry)


def sweep_scratch() -> None:
    """Removes what killed runs left half-made: scratch folders of entries that nobody is making now."""
    for scratch in paths.cache().glob("*/.*"):
        if not (match := SCRATCH.fullmatch(scratch.name)):
            continue
        # Its maker holds this lock as long as it lives; orphans of a killed one may still write: the next sweep's.
        with contextlib.suppress(Timeout, OSError), _lock_file(f"{scratch.parent.name}-{match['entry']}").acquire(0):
            remove(scratch)
