# SPDX-License-Identifier: MIT
"""Memory, as abh Table 2 has it: what THP costs over small pages, and every other policy over THP."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.report import figures, panels, reference, tables
from abh.report.study import BASE_POLICY, STOCK_POLICY, Number, Study, missing
from abh.schema.spec import Run

ORDER = 82
TITLE = "The cost in memory"
CAPTION = (
    "Peak resident memory of the workload in the native system, in MiB, and how much more it is: for THP over 4 KiB "
    "pages, for every other policy over THP. A policy of ABH is marked where it takes over 3% more than THP and THP "
    "takes 50 MiB or more, or over 2 MiB more and THP takes less; below, all such runs of every environment are named. "
    "Then the paper's Table 2, of other programs."
)
KINDS = ("counted", "reference")  # in tables of their own, never on one axis
ENVIRONMENT = "native"
KEY = "rss_peak_kib"
LARGE_KIB, LARGE_SHARE, SMALL_KIB = 50 * 1024, 0.03, 2 * 1024
REFERENCE = ("memory_reg", "extra_thp_over_reg", "memory_thp", "extra_abh_over_thp", "memory_abh")


def base_of(policy: str) -> str:
    """The policy that this one's memory is compared with."""
    return BASE_POLICY if policy == STOCK_POLICY else STOCK_POLICY


def extra(study: Study, run: Run) -> Number:
    """How much more memory than under the base policy, as a ratio; negative where it is less."""
    return study.change(run, KEY, base_of(run.policy))


def too_much(study: Study, run: Run) -> str:
    """By what a policy of ABH exceeds its bound; "" if it does not, or is none."""
    more, base = extra(study, run).value, study.value(Run(run.workload, run.environment, STOCK_POLICY), KEY).value
    if not run.policy.startswith("abh") or more is None or base is None:
        return ""
    if base >= LARGE_KIB:
        return (
            f"{100 * more:.1f}% more than {STOCK_POLICY}, over {100 * LARGE_SHARE:.0f}%" if more > LARGE_SHARE else ""
        )
    kib = round(more * base)
    return f"{kib} KiB more than {STOCK_POLICY}, over {SMALL_KIB} KiB" if kib > SMALL_KIB else ""


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    rows = []
    for run in study.plan.runs():
        compared = run.policy != BASE_POLICY
        more = {"base": base_of(run.policy), "extra": extra(study, run).value} if compared else {}
        more |= {"too_much": too_much(study, run) if compared else ""}
        rows.append(figures.cell_row(study, run, study.value(run, KEY), **{"base": "n/a", "extra": None, **more}))
    return rows


def render(study: Study) -> Markup:
    """The HTML: ours, what is over its bound, the paper's."""
    notes = panels.Notes("note-abh-tab02")
    native = (
        _native(study, notes) if ENVIRONMENT in study.plan.environments else Markup("<p>Nothing native was run.</p>")
    )
    over = [f"{run}: {why}" for run in study.plan.runs() if (why := too_much(study, run))]
    listed = tables.listing("Over the bound, in any environment:", over, "No run is over the bound.")
    return native + listed + notes.render() + _printed()


def _native(study: Study, notes: panels.Notes) -> Markup:
    """Each policy's memory, in front of it how much more it is where its base was run."""
    columns: list[tuple[str, bool]] = []
    for policy in study.plan.policies:
        compared = policy != BASE_POLICY and base_of(policy) in study.plan.policies
        columns += [(policy, True), (policy, False)] if compared else [(policy, False)]
    heads = [
        f"over {base_of(policy)}" if compared else Markup("{}{}").format(panels.marker(study, policy), policy)
        for policy, compared in columns
    ]
    rows = [
        (workload, [_cell(study, workload, *column, notes) for column in columns]) for workload in study.plan.workloads
    ]
    return tables.table(TITLE, ["workload", *heads], rows, f"{ENVIRONMENT}, counted")


def _cell(study: Study, workload: str, policy: str, compared: bool, notes: panels.Notes) -> Markup:
    run = Run(workload, ENVIRONMENT, policy)
    if compared:
        return tables.shown(notes, extra(study, run), "percent", too_much(study, run))
    return notes.show(study.value(run, KEY), "mib")


def _printed() -> Markup:
    """The paper's table, in its unit."""
    notes = panels.Notes("note-abh-tab02-paper")
    heads = ["benchmark", "REG", "over REG", "THP", "over THP", "ABH"]
    rows = []
    for name, row in reference.read("abh", "tab02").items():
        numbers = [row.get(key) or missing("not printed") for key in REFERENCE]
        styles = ["percent" if key.startswith("extra") else "plain" for key in REFERENCE]
        rows.append((name, [notes.show(*each) for each in zip(numbers, styles, strict=True)]))
    return tables.table(TITLE, heads, rows, "the paper's Table 2, MB, reference") + notes.render()


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
