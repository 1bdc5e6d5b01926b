# SPDX-License-Identifier: MIT
"""Figure scripts: how they are found, what they must offer, and how one runs alone.

A script in analysis/figures/ is a module with ORDER (its place in the argument, and by its tens the page's section),
TITLE, CAPTION, KINDS (the kinds of number it shows), table(study), which gives the rows of its CSV, and render(study),
which gives its HTML. It may have COMMAND (what makes its results, where `make study` does not) and chart(study), which
gives its picture, for a file of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from markupsafe import Markup

from abh import paths
from abh.errors import AbhError
from abh.files import write_csv
from abh.report.study import Number, Study, divide, read_study
from abh.schema.result import Kind
from abh.schema.spec import Run

if TYPE_CHECKING:  # it prints numbers as this module does
    from abh.report import svg

SIGNED = ("change", "signed", "points")  # styles that a dash between two numbers would look like a sign in
REASONS = 2  # named of an empty figure; arbitrary
FIGURES = paths.CHECKOUT / "analysis" / "figures"
Row = Mapping[str, object]


@dataclass(frozen=True)
class Figure:
    """One script of analysis/figures/."""

    name: str
    order: int
    title: str
    caption: str
    kinds: tuple[str, ...]
    table: Callable[[Study], Sequence[Row]]
    render: Callable[[Study], Markup]
    command: str = "make study"
    chart: Callable[[Study], svg.Chart | None] = lambda _: None

    def empty(self, study: Study) -> str:
        """Why there is nothing to show; "" where any number is known, as it is in a row that gives no reason."""
        rows = self.table(study)
        if any(row.get("value") is not None or not row.get("reason") for row in rows):
            return ""
        reasons = Counter(str(row["reason"]) for row in rows if row.get("reason"))
        return "; ".join(reason for reason, _ in reasons.most_common(REASONS)) or "not run"


def find(directory: Path = FIGURES) -> list[Figure]:
    """Every figure script, in the order of the argument."""
    found = [load(path) for path in sorted(directory.glob("*.py")) if not path.name.startswith("_")]
    return sorted(found, key=lambda figure: (figure.order, figure.name))


def load(path: Path) -> Figure:
    """Import one script and check its interface."""
    spec = importlib.util.spec_from_file_location(f"abh_figure_{path.stem}", path)
    assert spec and spec.loader, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    needed = ("ORDER", "TITLE", "CAPTION", "KINDS", "table", "render")
    if lost := [name for name in needed if not hasattr(module, name)]:
        raise AbhError(
            "A figure script is incomplete.", where=path, got=f"no {', '.join(lost)}", expected=", ".join(needed)
        )
    if unknown := sorted(set(module.KINDS) - set(get_args(Kind))):
        raise AbhError(
            "A figure script shows an unknown kind.", where=path, got=unknown, expected=", ".join(get_args(Kind))
        )
    if type(module.ORDER) is not int or module.ORDER < 0:
        raise AbhError("A figure script has no place.", where=path, got=module.ORDER, expected="ORDER, 0 or more")
    optional = {name.lower(): getattr(module, name) for name in ("COMMAND", "chart") if hasattr(module, name)}
    return Figure(
        path.stem,
        module.ORDER,
        module.TITLE,
        module.CAPTION,
        tuple(module.KINDS),
        module.table,
        module.render,
        **optional,
    )


def cell_row(study: Study, run: Run, value: Number, **more: object) -> dict[str, object]:
    """The CSV line of one run; every figure over the matrix uses these columns."""
    result = study.results.get(run)
    return {
        **dataclasses.asdict(run),
        "size": result.size if result else "n/a",
        "value": value.value,
        "low": value.low,
        "high": value.high,
        "draws": result.draws if result else "n/a",
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
    """How a number is printed in one of the styles below; n/a if missing."""
    return "n/a" if value.value is None else printed(value.value, style)


def spread(value: Number, style: str) -> str:
    """How the range of several draws is printed; "" where there is one draw, or all say the same."""
    low, high = (printed(end, style) for end in value.range or (0, 0))
    between = " to " if style in SIGNED else "\N{EN DASH}"
    return f"[{low}{between}{high}]" if value.range and low != high else ""


def printed(value: float, style: str) -> str:
    """A known number in a style."""
    styles = {
        "percent": lambda x: (
            f"{100 * x:.1f}%" if x == 0 or abs(x) >= 0.0005 else f"{100 * x:.2g}%"
        ),  # no 0 that is none
        "change": lambda x: f"{100 * x:+.2f}%",
        "signed": lambda x: f"{100 * x:+.1f}%",
        "points": lambda x: f"{100 * x:+.1f}",
        "times": lambda x: f"{x:.3f}" if x < 1 else f"{x:.2f}",
        "plain": lambda x: f"{x:.2f}",
        "count": lambda x: f"{x:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}"),
        "mib": lambda x: f"{x / 1024:.1f}",
    }
    return styles[style](value)


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
