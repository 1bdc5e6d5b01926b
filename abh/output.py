# SPDX-License-Identifier: MIT
"""What a command reports: text for people, or with --json one JSON document, alone on stdout."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from abh.errors import AbhError

ROOM = 1 << 20  # bytes; no result has as many


def add_json(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """The option --json, in the same words for every command."""
    parser.add_argument("--json", action="store_true", help="print one JSON document, and all else on standard error")


def add_connect(parser: argparse.ArgumentParser) -> None:
    """The option --connect, in the same words for every command that talks to libvirt."""
    parser.add_argument("--connect", metavar="URI", help="of libvirt, as qemu:///system (default: libvirt's own)")


@contextlib.contextmanager
def report(as_json: bool) -> Iterator[dict[str, Any]]:
    """The report, to be filled within; with as_json it is printed as JSON at the end, else dropped.

    With as_json, whatever is printed within goes to stderr, also by programs that are started within. Where an
    exception ends it, there is a document only if the report was filled before.
    """
    document: dict[str, Any] = {}
    if not as_json:
        yield document
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield document
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        if document:
            print(json.dumps(document, indent=2, allow_nan=False))


def check_writable(folder: Path, option: str = "--results") -> None:
    """Makes the folder; an error unless a file can be written in it. A bad place fails before the work, not after.

    As much is written as results have: that shows a file system that is full, and a quota that is.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(ROOM))
            file.flush()
            os.fsync(file.fileno())  # where space is given to a file only when it is written back
    except OSError as error:
        raise AbhError(
            "files cannot be written here",
            where=folder,
            got=error.strerror,
            next_step=f"free it, or name another folder with {option}",
        ) from error
