# SPDX-License-Identifier: MIT
"""What `abh collect` has measured on real hosts: by host, and of one kind in each table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup, escape

from abh.collect.session import FOLDER
from abh.report import panels, tables
from abh.report.study import Number, Study, one_axis
from abh.schema import measured
from abh.schema.measured import Measure, Measured


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A value, what it is called, and how it is printed."""

    name: str
    title: str
    style: str


def of(study: Study) -> dict[str, list[Measured]]:
    """Host to what was measured there."""
    folder = (study.folder or Path("/nonexistent")) / FOLDER.name
    hosts = sorted(path for path in folder.glob("*/") if path.is_dir())
    found = {host.name: [measured.read(path) for path in sorted(host.glob("[!.]*.json"))] for host in hosts}
    return {host: each for host, each in found.items() if each}


def number(result: Measured, name: str) -> Number:
    """The number, or why there is none; its range is the interval of the median, and where that is not known, none."""
    if result.outcome != "success":
        return Number(None, "", "", f"{result.outcome}: {result.reason}")
    value = result.values.get(name)
    if value is None:
        return Number(None, "", "", f"not measured: {name}")
    return Number(value.value, value.unit, value.kind, value.reason, value.interval_low, value.interval_high)


def rows(study: Study) -> Iterator[dict[str, object]]:
    """Every value of every result."""
    for host, results in of(study).items():
        for result in results:
            names = result.values if result.outcome == "success" else {"n/a": None}
            for name in names:
                yield {"host": host, "processor": result.processor, **_row(result, name)}


def _row(result: Measured, name: str) -> dict[str, object]:
    value = result.values.get(name) or Measure(
        value=None, unit="n/a", kind="measured", reason=f"{result.outcome}: {result.reason}"
    )
    return {
        "run": result.run,
        "name": name,
        "value": value.value,
        "low": value.low,
        "high": value.high,
        "interval_low": value.interval_low,
        "interval_high": value.interval_high,
        "runs": value.runs,
        "unit": value.unit,
        "kind": value.kind,
        "reason": value.reason or "",
    }


def table(title: str, name: str, results: Sequence[Measured], quantities: Sequence[Quantity], kind: str) -> Markup:
    """A table of numbers of one kind: a row for each run. What is wrong with a number is a note below, as is an n/a."""
    notes, remarks = panels.Notes(name), Remarks(f"{name}-remark")
    body = []
    for result in results:
        numbers = [number(result, each.name) for each in quantities]
        for each in numbers:
            if one_axis([each])[1] not in ("", kind):
                raise ValueError(f"{result.run}: a number that is {each.kind} in a table of those {kind}")
        cells = [
            remarks.show(notes.show(value, each.style), value) for value, each in zip(numbers, quantities, strict=True)
        ]
        body.append((result.run, cells))
    heads = ["run", *(each.title for each in quantities)]
    return tables.table(name, heads, body, title) + remarks.render() + notes.render()


class Remarks:
    """What is to be known of numbers that are known, each said once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._texts: dict[str, int] = {}

    def show(self, text: Markup, value: Number) -> Markup:
        """The number with the mark of its remark."""
        if value.value is None or not value.reason:
            return text
        place = self._texts.setdefault(value.reason, len(self._texts) + 1)
        mark = Markup('<sup><a href="#{}-{}" aria-label="remark {}">{}</a></sup>')
        return text + mark.format(self._name, place, place, chr(ord("a") + (place - 1) % 26))

    def render(self) -> Markup:
        """The list the marks point to."""
        if not self._texts:
            return Markup("")
        items = Markup("").join(
            Markup('<li id="{}-{}">{}</li>').format(self._name, place, escape(text))
            for text, place in self._texts.items()
        )
        lead = "To be known of these numbers"
        return Markup('<details class="notes" open><summary>{}</summary><ol type="a">{}</ol></details>').format(
            lead, items
        )
