# SPDX-License-Identifier: MIT
"""TLB misses of the program, by environment and policy, as the MMU model counts them (the paper's figure 8)."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.bench.spec import Run
from abh.report import figures, modelled
from abh.report.study import Number, Study

TITLE = "TLB misses"
CAPTION = (
    "Share of the program's own loads and stores that miss in every level of the TLB, so that tables are walked. The "
    "model of the MMU looks up every access that the emulated machine makes, in the page tables that its kernels and "
    "hypervisors built. Kernels and hypervisors share the TLB; their accesses are counted in the CSV."
)
KINDS = ("counted",)


def value(study: Study, run: Run) -> Number:
    """Misses per access of the program."""
    misses, accesses = (study.value(run, f"guest_user_{name}") for name in ("tlb_misses", "accesses"))
    return figures.share(misses, accesses)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    layers = ("guest_user", "guest_kernel", "hypervisor")
    more = {f"{layer}_{name}": f"{layer}_{name}" for layer in layers for name in ("tlb_misses", "accesses")}
    return modelled.rows(study, value, **more)


def render(study: Study) -> Markup:
    """The HTML."""
    return modelled.render(study, value, "percent", "tlb-misses")


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
