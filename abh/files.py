# SPDX-License-Identifier: MIT
"""Files appear whole or not at all."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from abh.errors import AbhError


def write_bytes(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write beside the target, then rename over it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            # By the handle: whoever may write to the folder could put a link to another's file under the name.
            os.fchmod(stream.fileno(), mode)
            stream.write(content)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write_text(path: Path, text: str) -> None:
    """The same of text; that it cannot be written is an error for users."""
    try:
        write_bytes(path, text.encode())
    except OSError as error:
        raise AbhError(
            "a file cannot be written",
            where=path,
            got=error.strerror,
            next_step="make it writable and free space there, or name another place",
        ) from error


def write_csv(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """A table with a header line; a missing number, or one that a row has no column for, is "n/a", never empty or 0."""
    rows = list(rows)
    stream = io.StringIO()
    columns = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _field(row.get(key)) for key in columns} for row in rows)
    write_text(path, stream.getvalue())


def _field(value: object) -> object:
    if value is None:
        return "n/a"
    return f"{value:.10g}" if isinstance(value, float) else value
