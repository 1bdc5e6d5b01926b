# SPDX-License-Identifier: MIT
"""Negative controls: contiguous memory without alignment, alignment without contiguous memory."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, groups
from abh.report.study import Study
from abh.schema.spec import Run

ORDER = 64
COMMAND = "make controls"
TITLE = "Contiguity and alignment"
CAPTION = (
    "A hugepage needs both. thp-paper has memory in one piece and aligns nothing, thp a little. In a fragmented guest "
    "most memory is free, but no 2 MiB of it in one piece: what ABH aligns then gets small pages, the program runs on, "
    "and the kernel counts each refusal. khugepaged moves pages about and makes one piece now and then."
)
KINDS = ("counted",)
GROUP = "controls"
COLUMNS = {
    "thp-paper": "contiguous",
    "thp": "contiguous, partly aligned",
    "abh": "contiguous, aligned",
    "thp-fragmented": "partly aligned",
    "abh-fragmented": "aligned",
}
QUANTITIES = (
    ("free_hugepages", "Free hugepages at the start", "count"),
    ("alloc_ratio", "Alloc.Ratio", "percent"),
    ("huge_fallbacks", "Hugepages refused", "count"),
)


def controlled(study: Study) -> Study | None:
    """The runs in fragmented guests, with the study's of the same workloads."""
    found = groups.study_of(study, GROUP, [name for name in COLUMNS if not name.endswith("-fragmented")])
    return found if found and any(run.policy.endswith("-fragmented") for run in found.results) else None


def runs(study: Study) -> list[tuple[str, str]]:
    """Workload and environment of every run in a fragmented guest."""
    have = {(run.workload, run.environment) for run in study.results if run.policy.endswith("-fragmented")}
    return [
        each for each in dict.fromkeys((run.workload, run.environment) for run in study.plan.runs()) if each in have
    ]


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    found = controlled(study)
    return [
        figures.cell_row(found, run, found.value(run, key), quantity=key)
        for workload, environment in (runs(found) if found else ())
        for run in (Run(workload, environment, policy) for policy in COLUMNS)
        for key, _, _ in QUANTITIES
        if found and run in found.results
    ]


def render(study: Study) -> Markup:
    """The HTML."""
    found = controlled(study)
    if not found:
        return Markup("<p>Not run here: <code>make controls</code> does it.</p>")
    return groups.by_run(found, TITLE, COLUMNS, QUANTITIES, runs(found))


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
