# SPDX-License-Identifier: MIT
"""Runs with the MMU model beside them: a study of its own for each processor."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from markupsafe import Markup

from abh.model import mmu
from abh.report import figures, panels, svg
from abh.report.study import Number, Study, within
from abh.schema.spec import Run


def studies(study: Study) -> dict[str, Study]:
    """Processor to its study, over the workloads that were run on it and the policies of the plan."""
    found = {}
    for cpu in mmu.cpus():
        if one := within(study, f"{mmu.FOLDER}/{cpu}"):
            ran = {run.workload for run in one.results}
            workloads = tuple(name for name in one.plan.workloads if name in ran)
            plan = dataclasses.replace(one.plan, workloads=workloads, policies=study.known.policies)
            found[cpu] = dataclasses.replace(one, plan=plan)
    return found


def policies(study: Study) -> tuple[str, ...]:
    """The policies that were run; marks and order stay those of the whole plan."""
    ran = {run.policy for run in study.results}  # policies of other groups too, which have no column
    return tuple(name for name in study.plan.policies if name in ran)


@dataclass(frozen=True)
class Figure:
    """One number of each run: a counter for each of another, or a value as it is; `high` names the value at the other
    end, where it is a band. `more` are columns of the CSV."""

    name: str
    style: str
    top: str
    bottom: str | None = None
    more: tuple[str, ...] = ()
    high: str | None = None

    def value(self, study: Study, run: Run) -> Number:
        """The number."""
        top = study.value(run, self.top)
        return figures.share(top, study.value(run, self.bottom)) if self.bottom else top

    def table(self, study: Study) -> list[dict[str, object]]:
        """The CSV: a line for each processor and run."""
        return [
            {
                "cpu": cpu,
                **figures.cell_row(one, run, self.value(one, run)),
                **({"high": one.value(run, self.high).value} if self.high else {}),
                **{name: one.value(run, name).value for name in self.more},
            }
            for cpu, one in studies(study).items()
            for run in one.plan.runs()
            if run in one.results
        ]

    def render(self, study: Study) -> Markup:
        """Panels for each processor."""
        found = studies(study)
        return Markup("").join(self._panels(cpu, one) for cpu, one in found.items()) if found else nothing()

    def chart(self, study: Study) -> svg.Chart | None:
        """The picture: the panels of all processors."""
        drawn = {
            cpu: panels.chart(one, self._axis(one), self.name.replace("-", " "), policies(one))
            for cpu, one in studies(study).items()
        }
        charts = {cpu: each for cpu, each in drawn.items() if each}
        if not charts:
            return None
        shown = (
            dataclasses.replace(panel, title=f"{panel.title}, {cpu}")
            for cpu, each in charts.items()
            for panel in each.panels
        )
        legend = dict.fromkeys(entry for each in charts.values() for entry in each.legend)
        return dataclasses.replace(next(iter(charts.values())), legend=tuple(legend), panels=tuple(shown))

    def _axis(self, study: Study) -> panels.Axis:
        high = self.high
        return panels.Axis(
            lambda run: self.value(study, run), self.style, high=(lambda run: study.value(run, high)) if high else None
        )

    def _panels(self, cpu: str, study: Study) -> Markup:
        shown = panels.render(study, self._axis(study), f"{self.name}-{cpu}", policies(study))
        return Markup("<h4>{}</h4>{}").format(cpu, shown)


def nothing() -> Markup:
    """What stands where nothing was run with the model."""
    return Markup("<p>No run had the MMU model beside it: <code>make mmu</code> has some.</p>")
