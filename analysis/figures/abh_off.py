# SPDX-License-Identifier: MIT
"""ABH's patches with every switch off, beside stock: what is left between the two is chance."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, groups
from abh.report.study import STOCK_POLICY, Study

ORDER = 65
COMMAND = "make controls"
TITLE = "ABH switched off"
CAPTION = (
    f"abh-off has ABH's patches in kernel and malloc and every switch of them off, so it must do what {STOCK_POLICY} "
    "does. Addresses drawn otherwise are a hugepage or two more or less, and a hypervisor does other things meanwhile."
)
KINDS = ("counted",)
GROUP = "controls"
OFF = "abh-off"
COLUMNS = {STOCK_POLICY: "stock", OFF: "patched, off"}
QUANTITIES = (
    ("alloc_ratio", "Alloc.Ratio", "percent"),
    ("minor_faults", "minor faults", "count"),
    ("rss_peak_kib", "peak RSS, MiB", "mib"),
    ("instructions", "instructions", "count"),
)


def beside(study: Study) -> tuple[Study, list[tuple[str, str]]] | None:
    """The runs of the group with stock's, and the workloads and environments that were run switched off."""
    found = groups.study_of(study, GROUP, (STOCK_POLICY,))
    if not found or OFF not in found.plan.policies:
        return None
    return found, [
        (run.workload, run.environment) for run in found.plan.runs() if run.policy == OFF if run in found.results
    ]


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    if not (both := beside(study)):
        return []
    found, where = both
    return [
        figures.cell_row(found, run, found.value(run, key), quantity=key)
        for run in found.plan.runs()
        if run.policy in COLUMNS and (run.workload, run.environment) in where
        for key, _, _ in QUANTITIES
    ]


def render(study: Study) -> Markup:
    """The HTML."""
    if not (both := beside(study)):
        return Markup("<p>Not run here: <code>{}</code> does it.</p>").format(COMMAND)
    found, where = both
    return groups.by_run(found, TITLE, COLUMNS, QUANTITIES, where)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
