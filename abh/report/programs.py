# SPDX-License-Identifier: MIT
"""Real programs under ABH beside stock: the table of verdicts, on the terminal and on the page."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence

from abh.compare.programs import AIMS, OUTCOME, Verdict
from abh.report.figures import printed

MISSED, EXPLAINED, CHANCE = "\N{BLACK UP-POINTING SMALL TRIANGLE}", "\N{DOUBLE DAGGER}", "\N{ALMOST EQUAL TO}"
SHARE = ("alloc_ratio",)  # shown as both numbers: a change of a share says little


def rows(verdicts: Sequence[Verdict]) -> list[tuple[str, Mapping[str, Verdict]]]:
    """What each row is of, and its verdicts by quantity."""
    groups = itertools.groupby(verdicts, key=lambda each: each.run)
    return [(f"{run.workload}@{run.environment}", {each.quantity: each for each in own}) for run, own in groups]


def text(verdict: Verdict | None) -> str:
    """What a cell shows: both numbers of a share, else stock's and the change; n/a where there is none to have."""
    if verdict and verdict.not_judged:
        return MISSED + "not judged"
    if verdict is None or verdict.stock is None or verdict.abh is None:
        return "n/a"
    mark = MISSED if verdict.is_missed else EXPLAINED if verdict.line else CHANCE if verdict.is_chance else ""
    if isinstance(verdict.stock, str) or isinstance(verdict.abh, str):
        same = verdict.stock == verdict.abh
        return mark + (str(verdict.abh) if same else f"{verdict.stock} \N{RIGHTWARDS ARROW} {verdict.abh}")
    style = next(aim.style for aim in AIMS if aim.quantity == verdict.quantity)
    stock, abh = printed(verdict.stock, style), printed(verdict.abh, style)
    if verdict.quantity in SHARE or not verdict.stock:
        return f"{mark}{stock} \N{RIGHTWARDS ARROW} {abh}"
    return f"{mark}{stock} {100 * (verdict.abh / verdict.stock - 1):+.1f}%"


def heads() -> list[str]:
    """The columns."""
    return [OUTCOME, *(aim.title + (", MiB" if aim.style == "mib" else "") for aim in AIMS)]


def show(verdicts: Sequence[Verdict]) -> None:
    """The table on the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    if not verdicts:
        return
    console = Console(highlight=False, width=None if os.isatty(1) else 180)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("program")
    for name in heads():
        table.add_column(name, justify="right")
    for name, own in rows(verdicts):
        table.add_row(name, *(text(own.get(quantity)) for quantity in (OUTCOME, *(aim.quantity for aim in AIMS))))
    console.print(table)
    print(f"{MISSED} outside an aim, or not judged; {EXPLAINED} explained; {CHANCE} worse by chance alone\n")
