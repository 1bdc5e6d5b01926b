# SPDX-License-Identifier: MIT
"""Memory natively, as abh Table 2 has it: what THP costs over small pages, and every other policy over THP."""

from __future__ import annotations

import sys
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.bench.spec import Run
from abh.report import figures, panels
from abh.report.study import BASE_POLICY, STOCK_POLICY, Number, Study

TITLE = "The cost in memory"
CAPTION = (
    "Peak resident memory of the workload in the native system, in MiB, and how much more it is: for THP over 4 KiB "
    "pages, for every other policy over THP. The columns are those of the paper's Table 2; its programs are not ours."
)
KINDS = ("counted",)
ENVIRONMENT = "native"
KEY = "rss_peak_kib"


def base_of(policy: str) -> str:
    """The policy that this one's memory is compared with."""
    return BASE_POLICY if policy == STOCK_POLICY else STOCK_POLICY


def extra(study: Study, run: Run) -> Number:
    """How much more memory than under the base policy, as a ratio; negative where it is less."""
    ratio = study.relative(run, KEY, base_of(run.policy))
    return ratio if ratio.value is None else Number(ratio.value - 1, ratio.unit, ratio.kind)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    rows = []
    for run in study.plan.runs():
        if run.environment == ENVIRONMENT:
            compared = run.policy != BASE_POLICY
            more = {"base": base_of(run.policy), "extra": extra(study, run).value} if compared else {}
            rows.append(figures.cell_row(study, run, study.value(run, KEY), **{"base": "n/a", "extra": None, **more}))
    return rows


def render(study: Study) -> Markup:
    """The HTML."""
    if BASE_POLICY not in study.plan.policies:
        return Markup("<p>There is no policy {} to compare with.</p>").format(BASE_POLICY)
    notes = panels.Notes("note-abh-tab02")
    policies = [policy for policy in study.plan.policies if policy != BASE_POLICY]
    head = Markup("").join(
        Markup('<th scope="col" class="num">over {}</th><th scope="col" class="num">{}{}</th>').format(
            base_of(policy), panels.marker(study, policy), policy
        )
        for policy in policies
    )
    body = Markup("").join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(workload, _cells(study, workload, policies, notes))
        for workload in study.plan.workloads
    )
    return Markup(
        '<div class="wide" tabindex="0" role="region" aria-label="{}"><table><thead><tr><th scope="col">workload</th>'
        '<th scope="col" class="num">{}{}</th>{}</tr></thead><tbody>{}</tbody></table></div>{}'
    ).format(TITLE, panels.marker(study, BASE_POLICY), BASE_POLICY, head, body, notes.render())


def _cells(study: Study, workload: str, policies: list[str], notes: panels.Notes) -> Markup:
    shown = [(study.value(Run(workload, ENVIRONMENT, BASE_POLICY), KEY), "mib")]
    for policy in policies:
        run = Run(workload, ENVIRONMENT, policy)
        shown += [(extra(study, run), "percent"), (study.value(run, KEY), "mib")]
    return Markup("").join(Markup('<td class="num">{}</td>').format(notes.show(*each)) for each in shown)


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
