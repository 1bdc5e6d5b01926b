# SPDX-License-Identifier: MIT
"""Small multiples: one panel per workload, one line per environment, one mark per policy on one axis.

Each panel is an HTML table, so the numbers are text on every screen and to every screen reader; the track with the
marks only repeats them. No image and no script: the page's own colours, light and dark, apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from abh.report import scale, svg
from abh.report.figures import number, printed, spread
from abh.report.scale import Scale
from abh.report.study import Number, Study, one_axis
from abh.schema.spec import Run

REASON_LENGTH = 160  # arbitrary: enough to recognise the reason; the page lists it whole under "What failed"


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
        """The number as text, with the range of its draws below it, or the marked n/a."""
        if value.value is None:
            return self.mark(value.reason or "no reason given")
        ends = spread(value, style)
        below = Markup('<br><small class="soft">{}</small>').format(ends) if ends else Markup("")
        return escape(number(value, style)) + below

    def between(self, low: Number, high: Number, style: str) -> Markup:
        """A band by its ends, the lesser first; one number where both are printed alike."""
        ends = [self.show(end, style) for end in sorted((low, high), key=lambda end: end.value or 0)]
        return ends[0] if ends[0] == ends[1] else Markup("{}\N{EN DASH}{}").format(*ends)

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
    """What the marks stand for: the number of one run, how it is printed, and its axis."""

    value: Callable[[Run], Number]
    style: str
    end: float | None = None  # None: the panel's largest number
    log: bool = False
    high: Callable[[Run], Number] | None = None  # the other end, where the number is a band

    def ends(self, run: Run) -> tuple[Number, Number]:
        """Both ends of the band; of a single number they are one."""
        low = self.value(run)
        return low, self.high(run) if self.high else low

    def scale(self, numbers: Iterable[Number]) -> Scale:
        """A panel's, with room for its numbers and their ranges."""
        known = [end for each in numbers if each.value is not None for end in each.range or (each.value,)]
        return scale.logarithmic(known) if self.log else scale.linear(known, self.end)


def shorten(reason: str) -> str:
    """One line of a reason, which may be a console's tail."""
    line = " ".join(reason.split())
    return line if len(line) <= REASON_LENGTH else line[: REASON_LENGTH - 1] + "\N{HORIZONTAL ELLIPSIS}"


def render(study: Study, axis: Axis, name: str, policies: tuple[str, ...] | None = None) -> Markup:
    """All panels and their notes; one axis for all of them, so one kind and one unit."""
    chosen = study.plan.policies if policies is None else policies
    one_axis(end for run in study.plan.runs() if run.policy in chosen for end in axis.ends(run))
    notes = Notes(f"note-{name}")
    panels = [_panel(study, axis, workload, chosen, notes) for workload in study.plan.workloads]
    width = 160 + 66 * len(chosen)  # px: names and track, then the columns; a phone scrolls them in the panel
    return Markup('<div class="panels" style="--panel:{}px">{}</div>{}').format(
        width, Markup("").join(panels), notes.render()
    )


def chart(study: Study, axis: Axis, title: str, policies: tuple[str, ...] | None = None) -> svg.Chart | None:
    """The same panels as a picture; None where no number is known."""
    chosen = study.plan.policies if policies is None else policies
    unit, kind = one_axis(end for run in study.plan.runs() if run.policy in chosen for end in axis.ends(run))
    if not unit:
        return None
    found = []
    for workload in study.plan.workloads:
        grid = _grid(study, axis, workload, chosen)
        lines = tuple(
            (environment, tuple(svg.Mark(place(study, name), end) for name, ends in line.items() for end in set(ends)))
            for environment, line in grid.items()
        )
        found.append(svg.Panel(workload, unit, _scale(axis, grid), axis.style, lines))
    return svg.Chart(title, tuple((place(study, policy), policy) for policy in chosen), tuple(found), kind)


def place(study: Study, policy: str) -> int:
    """The policy's place in all that is known: it chooses shape and colour, the same in every figure."""
    return study.known.policies.index(policy) % svg.MARKS


def marker(study: Study, policy: str) -> Markup:
    """The policy's mark."""
    return Markup('<i class="mark m{}"></i>').format(place(study, policy))


Grid = dict[str, dict[str, tuple[Number, Number]]]  # environment -> policy -> the ends of its band


def _grid(study: Study, axis: Axis, workload: str, policies: tuple[str, ...]) -> Grid:
    return {
        environment: {policy: axis.ends(Run(workload, environment, policy)) for policy in policies}
        for environment in study.plan.environments
    }


def _scale(axis: Axis, grid: Grid) -> Scale:
    return axis.scale(end for line in grid.values() for ends in line.values() for end in ends)


def _panel(study: Study, axis: Axis, workload: str, policies: tuple[str, ...], notes: Notes) -> Markup:
    grid = _grid(study, axis, workload, policies)
    along = _scale(axis, grid)
    head = Markup("").join(
        Markup('<th scope="col" class="num">{}<span>{}</span></th>').format(marker(study, policy), policy)
        for policy in policies
    )
    body = Markup("").join(_line(study, axis, environment, line, along, notes) for environment, line in grid.items())
    known = any(end.value is not None for line in grid.values() for ends in line.values() for end in ends)
    ends = [printed(end, axis.style).replace(".0%", "%") if known else "" for end in (along.start, along.end)]
    return Markup(
        '<div class="panel"><table><caption>{}</caption><thead><tr>'
        '<th scope="col">environment</th>'
        '<th class="track" aria-hidden="true"><div class="ends"><span>{}</span><span>{}</span></div></th>{}</tr>'
        "</thead>"
        "<tbody>{}</tbody></table></div>"
    ).format(workload, *(end if along.log or place else "0" for place, end in enumerate(ends)), head, body)


def _line(
    study: Study, axis: Axis, environment: str, line: dict[str, tuple[Number, Number]], along: Scale, notes: Notes
) -> Markup:
    marks, cells = Markup(""), []
    for policy, (low, high) in line.items():
        cells.append(Markup('<td class="num">{}</td>').format(notes.between(low, high, axis.style)))
        for end in (low,) if low.value == high.value else (low, high):  # a band has a mark at either end
            marks += _mark(place(study, policy), end, along)
    return Markup(
        '<tr><th scope="row">{}</th><td class="track" aria-hidden="true"><div class="rail">{}</div></td>{}</tr>'
    ).format(escape(environment), marks, Markup("").join(cells))


def _mark(shape: int, value: Number, along: Scale) -> Markup:
    """The mark, and a bar from the least to the most of several draws."""
    bar = Markup("")
    if value.value is None:
        return bar
    if value.range:
        left, right = (100 * along.place(end) for end in value.range)
        bar = Markup('<i class="bar b{}" style="left:{}%;width:{}%"></i>').format(
            shape, f"{left:.2f}", f"{right - left:.2f}"
        )
    at = Markup('<i class="mark m{}" style="left:{}%"></i>').format(shape, f"{100 * along.place(value.value):.2f}")
    return bar + at
