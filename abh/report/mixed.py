# SPDX-License-Identifier: MIT
"""Results that stand side by side and are made of different things: no fair pair, and the page says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from abh.report import modelled
from abh.report.study import Study, within
from abh.schema import spec
from abh.schema.result import Result

MADE_OF = {"roots": "root", "components": "component", "series": "series"}  # of a result's provenance; in words


def differing(results: Iterable[Result]) -> list[str]:
    """What the results are made of in more than one version; what a result does not name is not compared."""
    results = list(results)
    found = []
    for key, word in MADE_OF.items():
        named = [getattr(result.provenance, key) for result in results]
        for name in sorted({name for each in named for name in each}):
            if len({each[name] for each in named if name in each}) > 1:
                found.append(f"{word} {name}")
    return found


def sentences(study: Study) -> list[str]:
    """One for each set of results that are compared with each other and differ."""
    return [
        f"No fair pair: {name} differ in {', '.join(found)}."
        for name, results in _sets(study)
        if (found := differing(results))
    ]


def _sets(study: Study) -> Iterator[tuple[str, list[Result]]]:
    yield "the study's results", list(study.results.values())
    for group in spec.groups():
        if inner := within(study, group):
            where = {(run.workload, run.environment) for run in inner.results}
            beside = [each for run, each in study.results.items() if (run.workload, run.environment) in where]
            yield (
                f"the results of policies {group} and those of the study beside them",
                [*inner.results.values(), *beside],
            )
    for cpu, one in modelled.studies(study).items():
        yield f"the results with the model of {cpu}", list(one.results.values())
