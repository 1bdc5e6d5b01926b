# SPDX-License-Identifier: MIT
"""The one page: everything inline, so the file can be mailed, archived and opened without a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from abh.report import figures, mixed, panels, summary, svg
from abh.report.study import Study
from abh.schema.result import Result

TEMPLATES = Path(__file__).resolve().parent / "templates"


# The argument, by the tens of a figure's ORDER.
SECTIONS = (
    (10, "hugepages", "Hugepages and faults"),
    (20, "below", "The layer below"),
    (30, "walks", "TLB misses and walks"),
    (40, "cost", "What it costs"),
    (60, "others", "Other policies, other mallocs"),
    (80, "paper", "Beside the paper"),
    (90, "organisations", "Other page tables and TLB refills"),
    (100, "itanium", "Itanium"),
)


@dataclass(frozen=True)
class Section:
    """Figures that belong together, each with its HTML."""

    name: str
    title: str
    drawn: tuple[tuple[figures.Figure, Markup], ...]


@dataclass(frozen=True)
class Fact:
    """One thing the results were made with: each of its values, and how many runs have it."""

    name: str
    values: tuple[tuple[str, int], ...]
    code: bool = False  # a hash, shown as code
    may_differ: bool = False  # more than one value is no sign of mixed experiments

    @property
    def mixed(self) -> bool:
        """Whether runs that differ in this do not compare."""
        return len(self.values) > 1 and not self.may_differ


def render(study: Study, found: Iterable[figures.Figure]) -> str:
    """The page as text; the same results give the same bytes."""
    found = list(found)
    answers = [figure for figure in found if figure.order < SECTIONS[0][0]]
    rest = [(figure, figure.empty(study)) for figure in found if figure not in answers]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        css=Markup("").join(Markup(path.read_text(encoding="utf-8")) for path in (svg.STYLE, TEMPLATES / "page.css")),
        study=study,
        plan=study.plan,
        counts=summary.counts(study.plan),
        state=summary.state(study),
        outcomes=summary.outcomes(study),
        overall=summary.overall(study),
        medians=summary.medians(study),
        notes=panels.Notes("note-medians"),
        mixed=mixed.sentences(study),
        answers=[(figure, figure.render(study)) for figure in answers],
        sections=sections(study, [figure for figure, why in rest if not why]),
        empty=[each for each in rest if each[1]],
        failed=study.failed(),
        not_run=_by_environment(study),
        policies=[(policy, panels.marker(study, policy)) for policy in study.plan.policies],
        rooms=(
            ("Policies", "policy", study.plan.policies),
            ("Environments", "environment", study.plan.environments),
            ("Workloads", "workload", study.plan.workloads),
        ),
        facts=facts(study.results.values()),
        results=[study.results[run] for run in study.plan.runs() if run in study.results],
    )


def sections(study: Study, found: Iterable[figures.Figure]) -> list[Section]:
    """The figures in the sections of the argument; a section without any is left out."""
    drawn: dict[int, list[tuple[figures.Figure, Markup]]] = {first: [] for first, _, _ in SECTIONS}
    for figure in found:
        place = max(first for first in drawn if first <= figure.order)
        drawn[place].append((figure, figure.render(study)))
    return [Section(name, title, tuple(drawn[first])) for first, name, title in SECTIONS if drawn[first]]


def facts(results: Iterable[Result]) -> list[Fact]:
    """Commit, size, machine, components and series over all results."""
    results = list(results)
    sources = [result.provenance for result in results]
    when = sorted(source.when for source in sources)
    span = f"{len(when)}, from {when[0]} to {when[-1]}" if when else "none of the plain study"
    found = [
        Fact("runs", ((span, len(when)),)),
        Fact("commit", _tally(source.commit for source in sources), code=True),
        Fact("size", _tally(result.size for result in results)),
        Fact("machine", _tally(source.machine for source in sources), may_differ=True),
    ]
    for name in sorted({name for source in sources for name in source.components}):
        found.append(Fact(name, _tally(each.components[name] for each in sources if name in each.components)))
    for name in sorted({name for source in sources for name in source.roots}):
        each_root = _tally(each.roots[name] for each in sources if name in each.roots)
        found.append(Fact(f"root {name}", each_root, code=True))
    for name in sorted({name for source in sources for name in source.series}):
        found.append(Fact(name, _tally(each.series[name] for each in sources if name in each.series), code=True))
    return found


def _tally(values: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(values).items()))


def _by_environment(study: Study) -> list[tuple[str, list[str]]]:
    absent: dict[str, list[str]] = {}
    for run in study.not_run():
        absent.setdefault(run.environment, []).append(str(run))
    return list(absent.items())
