# SPDX-License-Identifier: MIT
"""Each mechanism of ABH alone, and each left out: what it is good for, and what it costs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, groups, panels, tables
from abh.report.study import STOCK_POLICY, Number, Study
from abh.schema.spec import Run

ORDER = 62
COMMAND = "make ablation"
TITLE = "Ablation"
CAPTION = (
    "ABH with one mechanism alone (only) and with one left out (no), and each half (abh-kernel, abh-malloc), between "
    "stock THP and the whole. A marked number "
    "differs, of one alone from abh-none, of one left out from abh: by 2% of all memory (Alloc.Ratio), by 15% of the "
    "faults, or by 2% of peak memory, and by half a hugepage. Random addresses decide over a hugepage more or less."
)
KINDS = ("counted",)
GROUP = "ablation"
WHOLE, NONE = "abh", "abh-none"


@dataclass(frozen=True)
class Quantity:
    """A number of a run, how it is printed, and how far apart two of them differ: by both, a share and a step."""

    key: str
    title: str
    style: str
    share: float = 0.0
    step: float = 0.0

    def differs(self, one: Number, other: Number) -> bool:
        """Whether two numbers are far enough apart to be told from chance."""
        if one.value is None or other.value is None:
            return False
        apart = abs(one.value - other.value)
        return apart > self.step and apart > self.share * abs(other.value)


QUANTITIES = (
    Quantity("alloc_ratio", "Alloc.Ratio", "percent", step=0.02),
    Quantity("minor_faults", "minor faults", "count", share=0.15, step=256),
    Quantity("rss_peak_kib", "peak RSS, MiB", "mib", share=0.02, step=1024),
)


def ablated(study: Study) -> Study | None:
    """The runs of the group, with stock THP first."""
    return groups.study_of(study, GROUP, (STOCK_POLICY, WHOLE))


def base_of(policy: str) -> str:
    """What a policy is compared with."""
    return WHOLE if policy.startswith(("abh-no-", "abh-with-")) else NONE


def policies(study: Study) -> list[str]:
    """Stock, nothing of ABH, one mechanism at a time; then the whole, and all but one, or one more."""
    alone = [name for name in study.plan.policies if name != WHOLE and base_of(name) == NONE]
    return [*alone, WHOLE, *(name for name in study.plan.policies if base_of(name) == WHOLE)]


def differs(study: Study, run: Run, quantity: Quantity) -> bool:
    """Whether the run's number is another than that of the policy it is compared with."""
    base = Run(run.workload, run.environment, base_of(run.policy))
    here, there = study.results.get(run), study.results.get(base)
    if not here or not there or here.size != there.size:
        return False
    return quantity.differs(study.value(run, quantity.key), study.value(base, quantity.key))


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    found = ablated(study)
    return list(_lines(found)) if found else []


def _lines(study: Study) -> Iterator[dict[str, object]]:
    for run in study.plan.runs():
        for quantity in QUANTITIES if run in study.results else ():
            yield figures.cell_row(
                study, run, study.value(run, quantity.key),
                quantity=quantity.key, base=base_of(run.policy), differs=differs(study, run, quantity),
            )  # fmt: skip


def render(study: Study) -> Markup:
    """The HTML: a table for each quantity and environment."""
    found = ablated(study)
    if not found:
        return Markup("<p>Not run here: <code>make ablation</code> does it.</p>")
    notes = panels.Notes("note-ablation")
    parts = [_environment(found, environment, notes) for environment in found.plan.environments]
    return Markup("").join(parts) + notes.render()


def _environment(study: Study, environment: str, notes: panels.Notes) -> Markup:
    touched = [name for name in study.plan.workloads if _touched(study, name, environment)]
    same = [name for name in study.plan.workloads if name not in touched]
    parts = [_quantity(study, environment, touched, quantity, notes) for quantity in QUANTITIES if touched]
    if same:
        parts.append(Markup("<p>{}: ABH makes no such difference to {}.</p>").format(environment, ", ".join(same)))
    return Markup("").join(parts)


def _touched(study: Study, workload: str, environment: str) -> bool:
    """Whether ABH, whole or in part, changes anything for the workload."""
    runs = [Run(workload, environment, policy) for policy in policies(study)]
    return any(differs(study, run, quantity) for run in runs for quantity in QUANTITIES)


def _quantity(study: Study, environment: str, workloads: list[str], quantity: Quantity, notes: panels.Notes) -> Markup:
    def row(policy: str) -> tuple[Markup, list[Markup]]:
        title = Markup('<span title="{}">{}</span>').format(study.plan.purposes.get(f"policy {policy}", ""), policy)
        runs = [Run(workload, environment, policy) for workload in workloads]
        marks = [f"not as {base_of(policy)}" if differs(study, run, quantity) else "" for run in runs]
        return title, [
            tables.shown(notes, study.value(run, quantity.key), quantity.style, mark, bad=False)
            for run, mark in zip(runs, marks, strict=True)
        ]

    rows = [row(policy) for policy in policies(study)]
    return tables.table(TITLE, ["policy", *workloads], rows, f"{quantity.title}, {environment}")


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
