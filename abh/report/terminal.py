# SPDX-License-Identifier: MIT
"""The matrix as text: one line per run, narrow enough for 60 columns, reasons as numbered notes below."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from abh.report import answer, mixed
from abh.report.figures import number, spread
from abh.report.panels import shorten
from abh.report.study import Number, Study
from abh.report.summary import state
from abh.schema.spec import Run

WIDE = 72  # columns: VM exits have room


def show(study: Study, console: Console) -> None:
    """Print what ABH changes, every run, then why numbers are missing."""
    for sentence in (*mixed.sentences(study), *answer.words(study)):
        console.print(Text(sentence))
    reasons: list[str] = []
    for workload in study.plan.workloads:
        console.print(_table(study, workload, reasons, exits=console.width >= WIDE))
    for place, reason in enumerate(reasons, 1):
        console.print(Text(f"[{place}] {reason}"))
    console.print(Text(state(study)))


def _table(study: Study, workload: str, reasons: list[str], *, exits: bool) -> Table:
    table = Table(
        title=Text(f"\n{workload}", style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for name in ("environment", "policy"):
        table.add_column(name, no_wrap=True)
    for name in ("Alloc.Ratio", "faults", *(("VM exits",) if exits else ()), "host huge"):
        table.add_column(name, justify="right", no_wrap=True)
    for environment in study.plan.environments:
        for place, policy in enumerate(study.plan.policies):
            run = Run(workload, environment, policy)
            table.add_row(
                Text(environment if place == 0 else ""),
                Text(policy),
                _number(study.value(run, "alloc_ratio"), "percent", reasons),
                _number(study.value(run, "minor_faults"), "count", reasons),
                *((_number(study.value(run, "vm_exits"), "count", reasons),) if exits else ()),
                _number(study.host_coverage(run), "percent", reasons),
            )
    return table


def _number(value: Number, style: str, reasons: list[str]) -> Text:
    if value.value is not None:
        return Text("\n".join(filter(None, (number(value, style), spread(value, style)))))
    reason = shorten(value.reason or "no reason given")
    if reason not in reasons:
        reasons.append(reason)
    return Text(f"n/a[{reasons.index(reason) + 1}]", style="dim")
