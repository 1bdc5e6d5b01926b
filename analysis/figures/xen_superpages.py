# SPDX-License-Identifier: MIT
"""Xen's shadow page tables with superpages of their own, beside stock's, and beside the other kinds of guests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, modelled, panels, tables
from abh.report.study import Number, Study, within
from abh.schema.spec import Run

ORDER = 69
COMMAND = "abh study --group xen2m; abh study --group xen2m --mmu zen2"
TITLE = "Superpages in Xen's shadow"
CAPTION = (
    "Stock Xen splinters each hugepage of a guest with shadow page tables. With the patches of "
    "hypervisor/xen/4.20/shadow-superpages and their switch on (policies thp-xen2m and abh-xen2m) the shadow maps it "
    "by one entry. Beside them are the same guest with the switch off, Xen's guest with nested paging, and KVM's with "
    "shadow page tables. Host hugepages are those when the workload had ended; modelled numbers are of the program's "
    "accesses."
)
KINDS = ("counted", "modelled")
GROUP, ENVIRONMENT = "xen2m", "xen-shadow"
OF = {"thp-xen2m": "thp", "abh-xen2m": "abh"}
BESIDE = ("xen-hap", "kvm-shadow")


@dataclass(frozen=True)
class Quantity:
    """A number of a run, how it is printed, and whether the MMU model makes it."""

    title: str
    style: str
    value: Callable[[Study, Run], Number]
    modelled: bool = False


def _plain(key: str) -> Callable[[Study, Run], Number]:
    return lambda study, run: study.value(run, key)


def _share(top: str, bottom: str) -> Callable[[Study, Run], Number]:
    return lambda study, run: figures.share(study.value(run, top), study.value(run, bottom))


QUANTITIES = (
    Quantity("Memory of the guest that the host maps by hugepages, MiB", "mib", _plain("host_huge_kib")),
    Quantity("VM exits", "count", _plain("vm_exits")),
    Quantity("Page faults", "count", _plain("minor_faults")),
    Quantity("Instructions, host's included", "count", _plain("instructions")),
    Quantity("Pages of Xen's shadow", "count", _plain("superpages_shadow_pages")),
    Quantity("Superpage entries made", "count", _plain("superpages_direct")),
    Quantity("Given up for a page table", "count", _plain("superpages_demoted_table")),
    Quantity(
        "Page-walk cycles for each access", "times", _share("guest_user_walk_cycles", "guest_user_accesses"), True
    ),
    Quantity("References of page walks", "count", _plain("guest_user_walk_refs"), True),
    Quantity("TLB fills of 2 MiB, share", "percent", _share("guest_user_tlb_fills_2m", "guest_user_tlb_misses"), True),
)


def columns(workload: str) -> list[Run]:
    """What is shown of a workload, by policy: stock, with superpages, and the others."""
    return [
        run
        for ours, plain in OF.items()
        for run in (
            Run(workload, ENVIRONMENT, plain),
            Run(workload, ENVIRONMENT, ours),
            *(Run(workload, other, plain) for other in BESIDE),
        )
    ]


def _sources(study: Study) -> Iterator[tuple[str, Study]]:
    """Name and study of each set of results that the group was run in: counted, and for each processor modelled."""
    if group := within(study, GROUP):
        results = {**study.results, **group.results}
        yield "", Study(study.plan, results, study.folder, study.known)
    yield from modelled.studies(study).items()


def _workloads(one: Study) -> list[str]:
    return list(
        dict.fromkeys(run.workload for run in one.results if run.policy in OF and run.environment == ENVIRONMENT)
    )


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        {"cpu": cpu, **figures.cell_row(one, run, quantity.value(one, run), quantity=quantity.title)}
        for cpu, one in _sources(study)
        for workload in _workloads(one)
        for run in columns(workload)
        if run in one.results
        for quantity in QUANTITIES
        if quantity.modelled == bool(cpu)
    ]


def render(study: Study) -> Markup:
    """The HTML: a table for each quantity."""
    found = [(cpu, one) for cpu, one in _sources(study) if _workloads(one)]
    if not found:
        return Markup("<p>Not run here: <code>{}</code> does it.</p>").format(COMMAND)
    notes = panels.Notes("note-xen-superpages")
    heads = ["workload", *(f"{run.environment}~{run.policy}" for run in columns(""))]
    parts = []
    for cpu, one in found:
        for quantity in QUANTITIES:
            if quantity.modelled != bool(cpu):
                continue
            rows = [
                (name, [notes.show(quantity.value(one, run), quantity.style) for run in columns(name)])
                for name in _workloads(one)
            ]
            parts.append(tables.table(TITLE, heads, rows, f"{quantity.title}{f', {cpu}' if cpu else ''}"))
    return Markup("").join(parts) + notes.render()


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
