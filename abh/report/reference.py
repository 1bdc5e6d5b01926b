# SPDX-License-Identifier: MIT
"""The papers' numbers: analysis/reference/<paper>/<id>.csv, one number per line, kind "reference"."""

from __future__ import annotations

import csv
from pathlib import Path

from abh import paths
from abh.errors import AbhError
from abh.report.study import Number
from abh.schema.strict import Strict, read_toml, validate

REFERENCE = paths.CHECKOUT / "analysis" / "reference"
COLUMNS = ["row", "quantity", "value", "unit", "place", "method"]


def read(paper: str, table: str, root: Path = REFERENCE) -> dict[str, dict[str, Number]]:
    """row -> quantity -> value."""
    path = root / paper / f"{table}.csv"
    numbers: dict[str, dict[str, Number]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            if reader.fieldnames != COLUMNS:
                raise AbhError(
                    "A reference table has other columns.", where=path, got=reader.fieldnames, expected=COLUMNS
                )
            for line in reader:
                row = numbers.setdefault(line["row"], {})
                if line["quantity"] in row:
                    raise AbhError("A reference number is there twice.", where=f"{path}:{reader.line_num}", got=line)
                row[line["quantity"]] = Number(float(line["value"]), line["unit"], "reference")
    except (OSError, TypeError, ValueError) as error:
        raise AbhError("A reference table cannot be read.", where=path, got=error) from error
    return numbers


class Reading(Strict):
    """A place where a paper contradicts itself or leaves something open."""

    of: str
    says: str
    taken: str
    other: str  # what the other reading would give
    number: str = ""  # who tells it in numbers: analysis/figures/readings.py


class _Readings(Strict):
    reading: tuple[Reading, ...]


def readings(paper: str, root: Path = REFERENCE) -> tuple[Reading, ...]:
    """analysis/reference/<paper>/readings.toml."""
    path = root / paper / "readings.toml"
    return validate(_Readings, read_toml(path), path).reading
