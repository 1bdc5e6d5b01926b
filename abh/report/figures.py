# SPDX-License-Identifier: MIT
"""Figure scripts: how they are found, what they must offer, and how one runs alone.

A script in analysis/figures/ is a module with TITLE, CAPTION and KINDS (the kinds of number it shows),
table(study), which gives the rows of its CSV, and render(study), which gives its HTML.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from markupsafe import Markup

from abh import paths
from abh.bench.result import Kind
from abh.bench.spec import Run
from abh.errors import AbhError
from abh.report.study import Number, Study, divide, read_study
from abh.report.write import write_csv

FIGURES = paths.CHECKOUT / "analysis" / "figures"
Row = Mapping[str, object]


@dataclass(frozen=True)
class Figure:
    """One script of analysis/figures/."""

    name: str
    title: str
    caption: str
    kinds: tuple[str, ...]
    table: Callable[[Study], Sequence[Row]]
    render: Callable[[Study], Markup]


def find(directory: Path = FIGURES) -> list[Figure]:
    """Every figure script, by file name."""
    return [load(path) for path in sorted(directory.glob("*.py")) if not path.name.startswith("_")]


def load(path: Path) -> Figure:
    """Import one script and check its interface."""
    spec = importlib.util.spec_from_file_location(f"abh_figure_{path.stem}", path)
    assert spec and spec.loader, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    needed = ("TITLE", "CAPTION", "KINDS", "table", "render")
    if lost := [name for name in needed if not hasattr(module, name)]:
        raise AbhError(
            "A figure script is incomplete.", where=path, got=f"no {', '.join(lost)}", expected=", ".join(needed)
        )
    if unknown := sorted(set(module.KINDS) - set(get_args(Kind))):
        raise AbhError(
            "A figure script shows an unknown kind.", where=path, got=unknown, expected=", ".join(get_args(Kind))
        )
    return Figure(path.stem, module.TITLE, module.CAPTION, tuple(module.KINDS), module.table, module.render)


def cell_row(study: Study, run: Run, value: Number, **more: object) -> dict[str, object]:
    """The CSV line of one run; every figure over the matrix uses these columns."""
    result = study.results.get(run)
    return {
        **dataclasses.asdict(run),
        "size": result.size if result else "n/a",
        "value": value.value,
        "unit": value.unit or "n/a",
        "kind": value.kind or "n/a",
        "reason": value.reason or "",
        **more,
    }


def share(part: Number, whole: Number) -> Number:
    """A number for each of another unit, of the same kind: misses per access, cycles per access."""
    found = divide(part, dataclasses.replace(whole, unit=part.unit))
    return found if found.value is None else dataclasses.replace(found, unit=f"{part.unit} per {whole.unit}")


def all_values(study: Study) -> list[dict[str, object]]:
    """Every number of every run, one per line; a run without numbers has one line that says why."""
    rows = []
    for run in study.plan.runs():
        result = study.results.get(run)
        outcome = result.outcome if result else "not run"
        names = sorted(result.values) if result and outcome == "success" else []
        for name in names or ["n/a"]:
            rows.append(cell_row(study, run, study.value(run, name), outcome=outcome, name=name))
    return rows


def number(value: Number, style: str) -> str:
    """How a number is printed: percent, change (a share with its sign), times, count, plain, mib; n/a if missing."""
    if value.value is None:
        return "n/a"
    printed = {
        "percent": lambda x: f"{100 * x:.1f}%",
        "change": lambda x: f"{100 * x:+.2f}%",
        "times": lambda x: f"{x:.3f}" if x < 1 else f"{x:.2f}",
        "plain": lambda x: f"{x:.2f}",
        "count": lambda x: f"{x:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}"),
        "mib": lambda x: f"{x / 1024:.1f}",
    }
    return printed[style](value.value)


def alone(script: str) -> int:
    """Run one script: print its table, write its CSV."""
    path = Path(script).resolve()
    parser = argparse.ArgumentParser(description=f"Write {path.stem}.csv and print it.")
    parser.add_argument("--results", type=Path, default=paths.MEASURED, metavar="DIR", help="result files to read")
    parser.add_argument("--out", type=Path, default=paths.REPORT_OUT, metavar="DIR", help="where the CSV goes")
    args = parser.parse_args()
    try:
        rows = load(path).table(read_study(args.results))
        target = args.out / f"{path.stem}.csv"
        write_csv(target, rows)
    except AbhError as error:
        print(error, file=sys.stderr)
        return 1
    for row in rows:
        print("  ".join("n/a" if item is None else str(item) for item in row.values()))
    print(target)
    return 0
