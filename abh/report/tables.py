# SPDX-License-Identifier: MIT
"""Tables of numbers that a phone scrolls in their own box, with cells that stand out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

from abh.report import panels
from abh.report.study import Number, Study
from abh.schema.spec import Run


def shown(notes: panels.Notes, value: Number, style: str, stands_out: str = "", *, bad: bool = True) -> Markup:
    """A number, or a marked n/a. What stands out says why, on hover and by its sign: colour alone is not enough."""
    text = notes.show(value, style)
    if value.value is None or not stands_out:
        return text
    sign = "\N{BLACK UP-POINTING SMALL TRIANGLE}" if bad else "\N{NOT EQUAL TO}"
    return Markup('<b class="{}" title="{}"><span aria-hidden="true">{}</span>{}</b>').format(
        "out" if bad else "differs", stands_out, sign, text
    )


def table(
    name: str, heads: Sequence[str | Markup], rows: Iterable[tuple[str | Markup, Sequence[Markup]]], caption: str = ""
) -> Markup:
    """A table; the first head is that of the rows' names, and all other columns are numbers."""
    head = Markup('<th scope="col">{}</th>').format(heads[0])
    head += Markup("").join(Markup('<th scope="col" class="num">{}</th>').format(each) for each in heads[1:])
    body = Markup("")
    for title, cells in rows:
        numbers = Markup("").join(Markup('<td class="num">{}</td>').format(each) for each in cells)
        body += Markup('<tr><th scope="row">{}</th>{}</tr>').format(title, numbers)
    above = Markup("<caption>{}</caption>").format(caption) if caption else Markup("")
    return Markup(
        '<div class="wide" tabindex="0" role="region" aria-label="{}"><table>{}<thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(f"{name}: {caption}" if caption else name, above, head, body)


def of_workload(
    study: Study, name: str, workload: str, policies: Sequence[str], cell: Callable[[Run], Markup], what: str = ""
) -> Markup:
    """A table of one workload's runs: a row for each environment, a column for each of the policies."""
    heads = [Markup("{}{}").format(panels.marker(study, policy), policy) for policy in policies]
    rows = [
        (environment, [cell(Run(workload, environment, policy)) for policy in policies])
        for environment in study.plan.environments
    ]
    return table(name, ["environment", *heads], rows, f"{workload}, {what}" if what else workload)


def listing(lead: str, items: Sequence[str], nothing: str) -> Markup:
    """What stands out, in words."""
    if not items:
        return Markup("<p>{}</p>").format(nothing)
    each = Markup("").join(Markup("<li>{}</li>").format(item) for item in items)
    return Markup('<p>{}</p><ul class="items">{}</ul>').format(lead, each)
