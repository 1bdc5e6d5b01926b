# SPDX-License-Identifier: MIT
"""Malloc implementations on the machine at hand, as `abh allocators` measured them."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.compare import allocators
from abh.report import figures
from abh.report.study import Study

ORDER = 68
COMMAND = "make allocators"
TITLE = "Malloc implementations, natively"
CAPTION = (
    "Patched ptmalloc with its tunable off and on, against the distribution's and other implementations, with their "
    "defaults where no setting is named, on the hardware and the unpatched kernel of the machine that measured. Faults "
    "are counted, times are measured; ratios are to the distribution's malloc in the same round."
)
KINDS = ("counted", "measured")  # in columns of their own, never on one axis


def _lines(study: Study) -> list[allocators.Line]:
    return allocators.read(study.folder / allocators.RESULT) if study.folder else []


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [dataclasses.asdict(line) for line in _lines(study)]


def render(study: Study) -> Markup:
    """The HTML."""
    lines = _lines(study)
    if not lines:
        return Markup("<p>Not measured here: <code>make allocators</code> does it.</p>")
    columns = ("", "malloc", *allocators.COLUMNS)
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in columns)
    body = Markup("")
    for workload, group in itertools.groupby(lines, key=lambda line: line.workload):
        for place, line in enumerate(group):
            cells = Markup("").join(Markup('<td class="num">{}</td>').format(cell) for cell in allocators.cells(line))
            body += Markup("<tr><th scope='row'>{}</th><td>{}</td>{}</tr>\n").format(
                workload if place == 0 else "", line.allocator, cells
            )
    whole = Markup(
        '<div class="wide" tabindex="0" role="region" aria-label="{}"><table><thead><tr>{}</tr></thead>\n'
        "<tbody>{}</tbody></table></div>"
    ).format(TITLE, head, body)
    return Markup("<p>{}</p>\n{}").format(allocators.title(lines), whole)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
