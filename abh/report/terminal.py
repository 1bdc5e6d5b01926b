# SPDX-License-Identifier: MIT
"""The matrix as text: one line per run, narrow enough for 60 columns, reasons as numbered notes below."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from abh.bench.spec import Run
from abh.report.figures import number
from abh.report.panels import shorten
from abh.report.study import Number, Study
from abh.report.summary import state


def show(study: Study, console: Console) -> None:
    """Print every run of the matrix, then why numbers are missing."""
    reasons: list[str] = []
    for workload in study.plan.workloads:
        console.print(_table(study, workload, reasons))
    for place, reason in enumerate(reasons, 1):
        console.print(Text(f"[{place}] {reason}"))
    console.print(Text(state(study)))


def _table(study: Study, workload: str, reasons: list[str]) -> Table:
    table = Table(
        title=Text(f"\n{workload}", style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for name, justify in (("environment", "left"), ("policy", "left"), ("Alloc.Ratio", "right"), ("faults", "right")):
        table.add_column(name, justify=justify, no_wrap=True)
    table.add_column("host huge", justify="right", no_wrap=True)
    for environment in study.plan.environments:
        for place, policy in enumerate(study.plan.policies):
            run = Run(workload, environment, policy)
            table.add_row(
                Text(environment if place == 0 else ""),
                Text(policy),
                _number(study.value(run, "alloc_ratio"), "percent", reasons),
                _number(study.value(run, "minor_faults"), "count", reasons),
                _number(study.host_coverage(run), "percent", reasons),
            )
    return table


def _number(value: Number, style: str, reasons: list[str]) -> Text:
    if value.value is not None:
        return Text(number(value, style))
    reason = shorten(value.reason or "no reason given")
    if reason not in reasons:
        reasons.append(reason)
    return Text(f"n/a[{reasons.index(reason) + 1}]", style="dim")
