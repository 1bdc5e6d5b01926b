# SPDX-License-Identifier: MIT
"""Real hardware: what `abh collect` has measured with perf, and what the same kernels counted."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, measured
from abh.report.measured import Quantity
from abh.report.study import Study

ORDER = 38
COMMAND = "bin/abh collect -- PROGRAM"
TITLE = "On real hardware"
CAPTION = (
    "Programs and virtual machines on the hosts named, counted with perf: medians, and below them the interval that "
    "holds the true median with 95 % confidence, where there are six runs or more. These numbers are measured, so "
    "they are in tables of their own, and on no axis with what the model says; what the hosts' kernels counted is in "
    "tables beside them. An event that shared its counter, or that the processor does not have, is n/a. What is known "
    "to be wrong with an event is said below its table."
)
KINDS = ("measured", "counted")
PROCESSOR = (
    Quantity("elapsed", "elapsed, s", "plain"),
    Quantity("cycles", "cycles", "count"),
    Quantity("walk_share", "page walks, of cycles", "percent"),
    Quantity("dtlb_load_walks", "walks of loads", "count"),
    Quantity("dtlb_walks", "walks of data (AMD)", "count"),
    Quantity("itlb_walks", "walks of fetches", "count"),
)
MACHINE = (
    Quantity("guest_cycles", "cycles of the guest", "count"),
    Quantity("guest_walk_share", "page walks, of the guest's cycles", "percent"),
    Quantity("guest_dtlb_load_walks", "walks of loads", "count"),
    Quantity("guest_dtlb_walks", "walks of data (AMD)", "count"),
    Quantity("host_cycles", "cycles of the host for it", "count"),
)
KERNEL = (
    Quantity("alloc_ratio", "Alloc.Ratio", "percent"),
    Quantity("minor_faults", "minor faults", "count"),
    Quantity("memory_huge_share", "huge, of memory at its peak", "percent"),
    Quantity("rss_peak_kib", "peak RSS, MiB", "mib"),
)
MONITOR = (
    Quantity("host_huge_share", "huge, of what the host has mapped", "percent"),
    Quantity("host_memory_kib", "mapped by the host, MiB", "mib"),
    Quantity("vm_exits", "VM exits", "count"),
)
FROM_HOST = "from-host"


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return list(measured.rows(study))


def render(study: Study) -> Markup:
    """The HTML."""
    found = measured.of(study)
    if not found:
        return Markup("<p>Not run here: <code>bin/abh collect -- PROGRAM</code> does it, on a machine with a PMU.</p>")
    text = Markup("")
    for host, results in found.items():
        text += Markup("<h4>{}: {}</h4>").format(host, results[0].processor)
        programs = [each for each in results if each.environment != FROM_HOST]
        machines = [each for each in results if each.environment == FROM_HOST]
        for part, own in (
            (programs, ((PROCESSOR, "measured"), (KERNEL, "counted"))),
            (machines, ((MACHINE, "measured"), (MONITOR, "counted"))),
        ):
            for quantities, kind in own if part else ():
                name = f"{host}-{kind}-{'program' if part is programs else 'machine'}"
                text += measured.table(f"{host}, {kind}", name, part, quantities, kind)
    return text


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
