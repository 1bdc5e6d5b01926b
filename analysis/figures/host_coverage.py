# SPDX-License-Identifier: MIT
"""The layer below: how much of what the host has mapped for the guest is huge, and how much is huge in both."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, svg, tables
from abh.report.study import GUEST_HUGE, HOST_HUGE, HOST_MAPPED, Number, Study, divide, missing
from abh.schema.spec import Run
from abh.study import aligned

ORDER = 20
TITLE = "Host coverage"
CAPTION = (
    "Share of what the host (KVM) or hypervisor (Xen) has mapped for the guest that it maps by hugepages: the second "
    "layer, which Alloc.Ratio does not see. A guest hugepage on 4 KiB backing is walked as 4 KiB pages. KVM maps what "
    "is touched, Xen all of a domain at its creation. KVM's shadow tables, and the para-virtual guest's own, are "
    "entries: memory that is mapped twice counts twice. Below, for nested paging, the share that is huge in guest and "
    "host: no counter has it, so these are its bounds, of the guest's and host's totals g and h as if of one moment: "
    "at least g + h − mapped, at most the smaller of g and h. What walks meet in both is the next figure, modelled."
)
KINDS = ("counted",)
NESTED = "hap"


def bounds(study: Study, run: Run) -> tuple[Number, Number]:
    """The least and the most that can be huge in both, as shares of what the host has mapped."""
    if study.plan.paging.get(run.environment) != NESTED:
        one = missing("one table alone is walked: a page there is huge only where it is huge in both")
        return one, one
    huge, mapped = study.host_coverage(run), study.value(run, HOST_MAPPED)
    guest = divide(study.value(run, GUEST_HUGE), mapped)
    if huge.value is None or guest.value is None:
        return (huge if huge.value is None else guest,) * 2
    if guest.value > 1:
        return (missing("the guest had more in hugepages than the host had mapped when it was looked at"),) * 2
    least, most = aligned.bounds(guest.value, huge.value, 1)
    return Number(least, huge.unit, huge.kind), Number(most, huge.unit, huge.kind)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        figures.cell_row(
            study,
            run,
            study.host_coverage(run),
            host_huge_kib=study.value(run, HOST_HUGE).value,
            host_mapped_kib=study.value(run, HOST_MAPPED).value,
            guest_huge_kib=study.value(run, GUEST_HUGE).value,
            both_at_least=bounds(study, run)[0].value,
            both_at_most=bounds(study, run)[1].value,
        )
        for run in study.plan.runs()
    ]


def axis(study: Study) -> panels.Axis:
    """What the marks stand for."""
    return panels.Axis(study.host_coverage, "percent", end=1.0)


def render(study: Study) -> Markup:
    """The HTML: the host's share, then the bounds of what is huge in both."""
    notes = panels.Notes("note-both-huge")
    nested = [name for name in study.plan.environments if study.plan.paging.get(name) == NESTED]
    parts = [_bounds(study, environment, notes) for environment in nested]
    return panels.render(study, axis(study), "host-coverage") + Markup('<div class="row">{}</div>{}').format(
        Markup("").join(parts), notes.render()
    )


def _bounds(study: Study, environment: str, notes: panels.Notes) -> Markup:
    def cell(run: Run) -> Markup:
        least, most = bounds(study, run)
        if least.value is None:
            return notes.show(least, "percent")
        return Markup("{} to {}").format(figures.number(least, "percent"), figures.number(most, "percent"))

    heads = [Markup("{}{}").format(panels.marker(study, policy), policy) for policy in study.plan.policies]
    rows = [
        (workload, [cell(Run(workload, environment, policy)) for policy in study.plan.policies])
        for workload in study.plan.workloads
    ]
    return tables.table(TITLE, ["workload", *heads], rows, f"huge in guest and host, bounds, {environment}")


def chart(study: Study) -> svg.Chart | None:
    """The picture."""
    return panels.chart(study, axis(study), TITLE)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
