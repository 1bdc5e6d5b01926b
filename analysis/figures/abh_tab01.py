# SPDX-License-Identifier: MIT
"""abh Table 1 (native, hugepages on) beside our native counts, for workloads that name a counterpart."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, reference
from abh.report.study import BASE_POLICY, Number, Study, missing
from abh.schema.spec import Run

ORDER = 80
TITLE = "Table 1 beside ours"
CAPTION = (
    "The paper's native page faults with hugepages on, and ours from the workload that stands in for its benchmark. "
    "Inputs, kernel and libc differ, so fault counts show scale only; Alloc.Ratio is what compares. "
    "Our regular faults are the minor faults that were not huge."
)
KINDS = ("reference", "counted")  # in columns of their own, never on one axis
ENVIRONMENT = "native"
QUANTITIES = (
    ("alloc_ratio", "Alloc.Ratio", "percent"),
    ("regular_faults", "regular faults", "count"),
    ("huge_faults", "huge faults", "count"),
)


@dataclass(frozen=True)
class Line:
    """One number of the paper, and ours under one policy."""

    run: Run
    counterpart: str
    quantity: str
    theirs: Number
    ours: Number

    @property
    def ratio(self) -> Number:
        """Ours over theirs: the one place where two kinds meet, and the result is on no axis."""
        if self.ours.value is None or self.theirs.value is None:
            return missing(self.ours.reason or self.theirs.reason or "no number")
        if self.theirs.value == 0:
            return missing("the paper's number is 0")
        return Number(self.ours.value / self.theirs.value, "ratio", self.ours.kind)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        {
            "workload": line.run.workload,
            "counterpart": line.counterpart,
            "environment": line.run.environment,
            "policy": line.run.policy,
            "quantity": line.quantity,
            "reference": line.theirs.value,
            "value": line.ours.value,
            "low": line.ours.low,
            "high": line.ours.high,
            "unit": line.theirs.unit or line.ours.unit or "n/a",
            "kind": line.ours.kind or "n/a",
            "ratio": line.ratio.value,
            "reason": line.ours.reason or line.theirs.reason or line.ratio.reason or "",
        }
        for quantity, _, _ in QUANTITIES
        for line in lines(study, quantity)
    ]


def policies(study: Study) -> tuple[str, ...]:
    """Those with hugepages on, as in the paper's table."""
    return tuple(policy for policy in study.plan.policies if policy != BASE_POLICY)


def lines(study: Study, quantity: str) -> list[Line]:
    """Every workload with a counterpart, under every policy with hugepages."""
    printed = reference.read("abh", "tab01")
    found = []
    for workload in study.plan.workloads:
        row = study.plan.counterparts.get(workload)
        for policy in policies(study) if row else ():
            run = Run(workload, ENVIRONMENT, policy)
            theirs = printed.get(row, {}).get(quantity) or missing(f"the paper's Table 1 has no row {row}")
            if theirs.unit == "percent":
                theirs = Number(theirs.value / 100, "ratio", theirs.kind)
            found.append(Line(run, row, quantity, theirs, count(study, run, quantity)))
    return found


def count(study: Study, run: Run, quantity: str) -> Number:
    """Our number; regular faults are the minor faults that were not huge, unless the result counts them itself."""
    ours = study.value(run, quantity)
    if quantity != "regular_faults" or ours.value is not None:
        return ours
    minor, huge = study.value(run, "minor_faults"), study.value(run, "huge_faults")
    if minor.value is None or huge.value is None:
        return minor if minor.value is None else huge
    return Number(minor.value - huge.value, minor.unit, minor.kind)


def render(study: Study) -> Markup:
    """The HTML: a table per quantity, so that no column mixes units."""
    notes = panels.Notes("note-abh-tab01")
    tables = [_table(study, *quantity, notes) for quantity in QUANTITIES if lines(study, quantity[0])]
    if not tables:
        return Markup("<p>No workload of this checkout names a counterpart in the paper's Table 1.</p>")
    return Markup('<div class="row">{}</div>{}').format(Markup("").join(tables), notes.render())


def _table(study: Study, quantity: str, name: str, style: str, notes: panels.Notes) -> Markup:
    heads = Markup("").join(
        Markup('<th scope="col" class="num">{}{}<br>counted</th><th scope="col" class="num">ratio</th>').format(
            panels.marker(study, policy), policy
        )
        for policy in policies(study)
    )
    grouped: dict[str, list[Line]] = {}
    for line in lines(study, quantity):
        grouped.setdefault(line.run.workload, []).append(line)
    rows = Markup("").join(_row(group, style, notes) for group in grouped.values())
    return Markup(
        '<div class="wide" tabindex="0" role="region" aria-label="{}"><table><caption>{}</caption><thead><tr>'
        '<th scope="col">workload<br>paper\'s benchmark</th><th scope="col" class="num">paper<br>reference</th>'
        "{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(name, name, heads, rows)


def _row(group: list[Line], style: str, notes: panels.Notes) -> Markup:
    shown = [(group[0].theirs, style)]
    for line in group:
        shown += [(line.ours, style), (line.ratio, "times")]
    cells = Markup("").join(Markup('<td class="num">{}</td>').format(notes.show(*each)) for each in shown)
    first = group[0]
    return Markup('<tr><th scope="row">{}<br><span class="soft">{}</span></th>{}</tr>').format(
        first.run.workload, first.counterpart, cells
    )


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
