# SPDX-License-Identifier: MIT
"""The answer first: Alloc.Ratio, faults, memory, VM exits and walks under ABH beside stock THP, by environment."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import answer, figures, panels, scale, svg, tables
from abh.report.study import ABH_POLICY, STOCK_POLICY, Number, Study

ORDER = 0
TITLE = f"{ABH_POLICY} beside {STOCK_POLICY}"
COMMAND = f"bin/abh study --policy {STOCK_POLICY} --policy {ABH_POLICY}"
CAPTION = (
    "Medians over the workloads that have both numbers, with the range from the least to the most of them; changes are "
    "of each workload, then their median. In the picture a mark is a median, its line the range, each tick a workload; "
    f"but for Alloc.Ratio and memory, {ABH_POLICY} is shown as a multiple of {STOCK_POLICY}, which is the dashed line."
)
KINDS = ("counted", "modelled")  # in panels and tables of their own, never on one axis
OF = (STOCK_POLICY, ABH_POLICY, "change")


def table(study: Study) -> list[dict[str, object]]:
    """The CSV: low and high are the range over workloads."""
    return [
        {
            "quantity": line.quantity.key,
            "cpu": line.cpu or "n/a",
            "environment": line.environment,
            "of": of,
            "value": middle.number.value,
            "low": middle.number.low,
            "high": middle.number.high,
            "unit": middle.number.unit or "n/a",
            "kind": middle.number.kind or "n/a",
            "workloads": len(middle.points),
            "planned": line.planned,
            "reason": middle.number.reason or "",
        }
        for line in answer.lines(study)
        for of, middle in zip(OF, (line.stock, line.abh, line.change), strict=True)
    ]


def render(study: Study) -> Markup:
    """The HTML: words, the picture, the numbers."""
    said = Markup(" ").join(answer.words(study))
    if not said:
        return Markup(
            "<p>No workload has a result under both {} and {} in one environment: <code>{}</code> runs them.</p>"
        ).format(STOCK_POLICY, ABH_POLICY, COMMAND)
    drawn = chart(study)
    notes = panels.Notes("note-what-abh-changes")
    parts = [_table(found, notes) for found in _groups(study)]
    if not any(line.cpu for line in answer.lines(study)):
        parts.append(Markup("<p>No walks here: <code>make mmu</code> runs the model of the MMU that counts them.</p>"))
    picture = Markup("").join(svg.panel(each) for each in drawn.panels) if drawn else Markup("")
    return Markup(
        '<p class="answer">{}</p><p class="key">{}</p><div class="pictures">{}</div><div class="row">{}</div>{}'
    ).format(
        said,
        Markup(" ").join(Markup("<span>{}{}</span>").format(panels.marker(study, name), name) for name in OF[:2]),
        picture, Markup("").join(parts), notes.render(),
    )  # fmt: skip


def _groups(study: Study) -> list[list[answer.Line]]:
    """A list of lines for each quantity, and for each processor of the model."""
    found = itertools.groupby(answer.lines(study), key=lambda line: (line.quantity.key, line.cpu))
    return [list(each) for _, each in found]


def _title(line: answer.Line) -> str:
    name = line.quantity.title + (", MiB" if line.quantity.style == "mib" else "")
    return f"{name}, {line.cpu}" if line.cpu else name


def _table(found: list[answer.Line], notes: panels.Notes) -> Markup:
    first = found[0]
    kind = next((line.abh.number.kind for line in found if line.abh.number.kind), "")
    rows = []
    for line in found:
        style = line.quantity.style
        cells = [notes.show(line.stock.number, style), notes.show(line.abh.number, style)]
        cells.append(notes.show(line.change.number, "points" if line.quantity.is_share else "signed"))
        rows.append((line.environment, [*cells, Markup("{} of {}").format(line.known, line.planned)]))
    heads = [*OF[:2], "change, points" if first.quantity.is_share else "change"]
    return tables.table(
        TITLE, ["environment", *heads, "workloads"], rows, ", ".join(filter(None, (_title(first), kind)))
    )


def chart(study: Study) -> svg.Chart | None:
    """The picture."""
    panels_of = [_panel(study, found) for found in _groups(study) if any(line.known for line in found)]
    if not panels_of:
        return None
    legend = tuple((panels.place(study, name), name) for name in OF[:2])
    return svg.Chart(f"What ABH changes: {TITLE}", legend, tuple(panels_of), "median and range over workloads")


def _panel(study: Study, found: list[answer.Line]) -> svg.Panel:
    quantity, kind = found[0].quantity, next(line.abh.number.kind for line in found if line.known)
    stock, abh = (panels.place(study, name) for name in OF[:2])
    if quantity.is_share:
        lines = tuple(
            (line.environment, tuple(svg.Mark(shape, each.number, each.points)
             for shape, each in ((stock, line.stock), (abh, line.abh)))) for line in found
        )  # fmt: skip
        return svg.Panel(_title(found[0]), kind, scale.linear((), 1.0), quantity.style, lines)
    shown = [(line.environment, line.change.number, line.change.points) for line in found]
    if quantity.style == "mib":
        along, style, base = scale.around_zero(each for *_, points in shown for each in points), "signed", 0.0
    else:
        shown = [(name, _times(value), tuple(point + 1 for point in points)) for name, value, points in shown]
        along, style, base = scale.logarithmic([1.0, *(each for *_, points in shown for each in points)]), "times", 1.0
    lines = tuple((name, (svg.Mark(abh, value, points),)) for name, value, points in shown)
    return svg.Panel(
        f"{_title(found[0]).removesuffix(', MiB')}, {TITLE.replace('beside', 'over')}", kind, along, style, lines, base
    )


def _times(change: Number) -> Number:
    return change.map(lambda each: each + 1)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
