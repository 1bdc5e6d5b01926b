# SPDX-License-Identifier: MIT
"""Charts as SVG: a panel for each quantity or workload, a line for each environment, a mark for each policy.

The page has the panels one by one, so that a phone shows them below each other; a file of its own has all of them, with
its style in it, light and dark, for where no page is around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape

from abh.report.figures import number, printed
from abh.report.scale import Scale
from abh.report.study import Number

STYLE = Path(__file__).resolve().parent / "templates" / "chart.css"
MARKS = 8  # shapes below, and colours in chart.css
WIDTH, LEFT, RIGHT = 372, 92, 246  # px: of a panel; where its axis begins and ends
TOP, ROW, FOOT = 44, 24, 22  # px: above the lines, of a line, below them
GAP, COLUMNS, MARGIN = 16, 3, 16  # of a file of its own


@dataclass(frozen=True)
class Mark:
    """One policy's number in a line; `points` are the numbers that it is the middle of."""

    shape: int
    value: Number
    points: tuple[float, ...] = ()


@dataclass(frozen=True)
class Panel:
    """One axis, of one kind and unit; a line with no known mark says n/a. `base` is a place to compare with."""

    title: str
    note: str
    scale: Scale
    style: str
    lines: tuple[tuple[str, tuple[Mark, ...]], ...]
    base: float | None = None

    @property
    def height(self) -> int:
        """In px."""
        return TOP + ROW * len(self.lines) + FOOT


@dataclass(frozen=True)
class Chart:
    """All panels, and what the marks stand for."""

    title: str
    legend: tuple[tuple[int, str], ...]
    panels: tuple[Panel, ...]
    kinds: str


def panel(one: Panel, x: int = 0, y: int = 0) -> Markup:
    """One panel; x and y are its place in a file of its own."""
    parts = [_text(0, 14, one.title, "title"), _text(0, 30, one.note, "soft"), _axis(one)]
    parts += [_line(one, TOP + ROW * place + ROW // 2, *line) for place, line in enumerate(one.lines)]
    return Markup(
        '<svg class="chart" x="{}" y="{}" width="{}" height="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        "{}</svg>"
    ).format(x, y, WIDTH, one.height, WIDTH, one.height, f"{one.title}; {_words(one)}", Markup("").join(parts))


def standalone(chart: Chart) -> str:
    """A file of its own."""
    columns = min(COLUMNS, len(chart.panels)) if len(chart.panels) != 4 else 2
    width = max(2 * MARGIN + columns * WIDTH + (columns - 1) * GAP, 560)
    body, top = Markup(""), 76
    for start in range(0, len(chart.panels), columns):
        row = chart.panels[start : start + columns]
        body += Markup("").join(panel(one, MARGIN + at * (WIDTH + GAP), top) for at, one in enumerate(row))
        top += max(one.height for one in row) + GAP
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="{}" viewBox="0 0 {} {}">\n<title>{}</title>\n'
        '<style>\n{}</style>\n<rect class="paper" width="100%" height="100%"/>\n'
        '<g class="chart">{}{}{}</g>\n{}\n</svg>\n'
    ).format(
        width, top, width, top, chart.title, Markup(STYLE.read_text(encoding="utf-8")),
        _text(MARGIN, 28, chart.title, "title"), _legend(chart.legend),
        _text(width - MARGIN, 28, chart.kinds, "soft end"), body,
    )  # fmt: skip


def _legend(legend: Sequence[tuple[int, str]]) -> Markup:
    found, x = Markup(""), MARGIN + 6
    for shape, name in legend:
        found += _shape(shape, x, 52) + _text(x + 11, 56, name)
        x += 34 + 7 * len(name)
    return found


def _words(one: Panel) -> str:
    return "; ".join(
        f"{name}: {', '.join(number(mark.value, one.style) for mark in marks)}" for name, marks in one.lines
    )


def _axis(one: Panel) -> Markup:
    bottom = one.height - FOOT
    found = Markup("")
    for tick in one.scale.ticks():
        x = _x(one, tick)
        found += Markup('<line class="grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(x, TOP - 4, bottom)
        found += _text(x, bottom + 15, _tick(tick, one.style), "soft middle")
    if one.base is not None:
        x = _x(one, one.base)
        found += Markup('<line class="base" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(x, TOP - 4, bottom)
    return found


def _tick(value: float, style: str) -> str:
    shown = f"{value:g}" if style in ("times", "plain") else printed(value, style)
    return shown.replace(".0%", "%").replace("+0%", "0%").replace("-0%", "0%").removesuffix(".0")


def _line(one: Panel, y: int, name: str, marks: tuple[Mark, ...]) -> Markup:
    known = [mark for mark in marks if mark.value.value is not None]
    found = _text(0, y + 4, name)
    found += Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(LEFT, RIGHT, y, y)
    apart = 10 if any(mark.value.range or mark.points for mark in known) else 0
    for place, mark in enumerate(known):
        found += _mark(one, mark, y + apart * (place - (len(known) - 1) / 2))
    if not known:
        return found + _text(WIDTH, y + 4, "n/a", "soft end")
    if len(marks) > 2 or len({mark.shape for mark in marks}) < len(marks):
        return found  # numbers of many marks, or of a band, have no room; the figure's table has them
    return found + _text(WIDTH, y + 4, " \N{RIGHTWARDS ARROW} ".join(number(m.value, one.style) for m in marks), "end")


def _mark(one: Panel, mark: Mark, y: float) -> Markup:
    found = Markup("")
    for point in mark.points:
        found += Markup('<line class="s{0}" x1="{1}" x2="{1}" y1="{2:.1f}" y2="{3:.1f}"/>').format(
            mark.shape, _x(one, point), y - 3, y + 3
        )
    if mark.value.range:
        low, high = mark.value.range
        found += Markup('<line class="s{} whisker" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
            mark.shape, _x(one, low), _x(one, high), y, y
        )
    return found + _shape(mark.shape, _x(one, mark.value.value or 0), y)


def _x(one: Panel, value: float) -> float:
    return round(LEFT + one.scale.place(value) * (RIGHT - LEFT), 1)


def _shape(shape: int, x: float, y: float) -> Markup:
    """The same shapes as the page's marks (page.css)."""
    forms = (
        '<circle class="s{} open" cx="{}" cy="{:.1f}" r="5.5"/>',
        '<path class="f{}" d="M{} {:.1f}m0 -5l5 5l-5 5l-5 -5z"/>',
        '<circle class="f{}" cx="{}" cy="{:.1f}" r="4"/>',
        '<path class="f{}" d="M{} {:.1f}m0 -5.5l5 9.5h-10z"/>',
        '<path class="s{} open" d="M{} {:.1f}m-4 -4h8v8h-8z"/>',
        '<path class="f{}" d="M{} {:.1f}m-4.5 -4.5h9v9h-9z"/>',
        '<path class="f{}" d="M{} {:.1f}m0 5.5l5 -9.5h-10z"/>',
        '<path class="s{} open" d="M{} {:.1f}m0 -5l5 5l-5 5l-5 -5z"/>',
    )
    return Markup(forms[shape % MARKS]).format(shape % MARKS, x, y)


def _text(x: float, y: float, text: str, style: str = "") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}">{}</text>').format(style, x, y, escape(text))
