# SPDX-License-Identifier: MIT
"""The one page: everything inline, so the file can be mailed, archived and opened without a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from abh.bench.result import Result
from abh.report import figures, panels, summary
from abh.report.study import Study

TEMPLATES = Path(__file__).resolve().parent / "templates"


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
    drawn = [(figure, figure.render(study)) for figure in found]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        css=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),
        study=study,
        plan=study.plan,
        state=summary.state(study),
        outcomes=summary.outcomes(study),
        overall=summary.overall(study),
        medians=summary.medians(study),
        notes=panels.Notes("note-medians"),
        headline=summary.headline(study),
        failed=study.failed(),
        not_run=_by_environment(study),
        ours=[pair for pair in drawn if "reference" not in pair[0].kinds],
        beside=[pair for pair in drawn if "reference" in pair[0].kinds],
        policies=[(policy, panels.marker(study, policy)) for policy in study.plan.policies],
        rooms=(
            ("Policies", "policy", study.plan.policies),
            ("Environments", "environment", study.plan.environments),
            ("Workloads", "workload", study.plan.workloads),
        ),
        facts=facts(study.results.values()),
        results=[study.results[run] for run in study.plan.runs() if run in study.results],
    )


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
