# SPDX-License-Identifier: MIT
"""Small multiples: one panel per workload, one line per environment, one mark per policy on one axis.

Each panel is an HTML table, so the numbers are text on every screen and to every screen reader; the track with the
marks only repeats them. No image and no script: the page's own colours, light and dark, apply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from abh.bench.spec import Run
from abh.report.figures import number
from abh.report.study import Number, Study, one_axis

REASON_LENGTH = 160  # arbitrary: enough to recognise the reason; the page lists it whole under "What failed"
MARKS = 8  # shapes in page.css


@dataclass
class Notes:
    """Reasons, each numbered once."""

    name: str
    reasons: list[str] = field(default_factory=list)

    def mark(self, reason: str) -> Markup:
        """An n/a that says why: on hover, and in the numbered note."""
        short = shorten(reason)
        if short not in self.reasons:
            self.reasons.append(short)
        place = self.reasons.index(short) + 1
        return Markup(
            '<span class="na" title="{}">n/a<a href="#{}-{}" aria-label="reason {}"><sup>{}</sup></a></span>'
        ).format(short, self.name, place, place, place)

    def show(self, value: Number, style: str) -> Markup:
        """The number as text, or the marked n/a."""
        if value.value is None:
            return self.mark(value.reason or "no reason given")
        return escape(number(value, style))

    def render(self) -> Markup:
        """The list the marks point to."""
        if not self.reasons:
            return Markup("")
        items = Markup("").join(
            Markup('<li id="{}-{}">{}</li>').format(self.name, place, reason)
            for place, reason in enumerate(self.reasons, 1)
        )
        return Markup('<details class="notes" open><summary>Why n/a</summary><ol>{}</ol></details>').format(items)


@dataclass(frozen=True)
class Axis:
    """What the marks stand for: the number of one run, how it is printed, and where the axis ends."""

    value: Callable[[Run], Number]
    style: str
    end: float | None = None  # None: the panel's largest number
    label: str = ""


def shorten(reason: str) -> str:
    """One line of a reason, which may be a console's tail."""
    line = " ".join(reason.split())
    return line if len(line) <= REASON_LENGTH else line[: REASON_LENGTH - 1] + "\N{HORIZONTAL ELLIPSIS}"


def render(study: Study, axis: Axis, name: str, policies: tuple[str, ...] | None = None) -> Markup:
    """All panels and their notes; one axis for all of them, so one kind and one unit."""
    chosen = study.plan.policies if policies is None else policies
    one_axis(axis.value(run) for run in study.plan.runs() if run.policy in chosen)
    notes = Notes(f"note-{name}")
    panels = [_panel(study, axis, workload, chosen, notes) for workload in study.plan.workloads]
    width = 160 + 66 * len(chosen)  # px: names and track, then the columns; a phone scrolls them in the panel
    return Markup('<div class="panels" style="--panel:{}px">{}</div>{}').format(
        width, Markup("").join(panels), notes.render()
    )


def marker(study: Study, policy: str) -> Markup:
    """The policy's mark; its place in the plan chooses shape and colour, so it is the same in every figure."""
    return Markup('<i class="mark m{}"></i>').format(study.plan.policies.index(policy) % MARKS)


def _panel(study: Study, axis: Axis, workload: str, policies: tuple[str, ...], notes: Notes) -> Markup:
    grid = {
        environment: {policy: axis.value(Run(workload, environment, policy)) for policy in policies}
        for environment in study.plan.environments
    }
    known = [value.value for line in grid.values() for value in line.values() if value.value is not None]
    end = axis.end if axis.end is not None else max([*known, 0]) or 1
    head = Markup("").join(
        Markup('<th scope="col" class="num">{}<span>{}</span></th>').format(marker(study, policy), policy)
        for policy in policies
    )
    body = Markup("").join(_line(study, axis, environment, line, end, notes) for environment, line in grid.items())
    ends = Markup("<span>0</span><span>{}</span>").format(
        number(Number(end, "", ""), axis.style).replace(".0%", "%") if known else ""
    )
    return Markup(
        '<div class="panel"><table><caption>{}</caption><thead><tr>'
        '<th scope="col">environment</th>'
        '<th class="track" aria-hidden="true"><div class="ends">{}</div></th>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(workload, ends, head, body)


def _line(study: Study, axis: Axis, environment: str, line: dict[str, Number], end: float, notes: Notes) -> Markup:
    marks, cells = [], []
    for policy, value in line.items():
        cells.append(Markup('<td class="num">{}</td>').format(notes.show(value, axis.style)))
        if value.value is None:
            continue
        place = min(max(value.value / end, 0), 1) * 100
        style = Markup('<i class="mark m{}" style="left:{}%"></i>')
        marks.append(style.format(study.plan.policies.index(policy) % MARKS, f"{place:.2f}"))
    return Markup(
        '<tr><th scope="row">{}</th><td class="track" aria-hidden="true"><div class="rail">{}</div></td>{}</tr>'
    ).format(escape(environment), Markup("").join(marks), Markup("").join(cells))
