# SPDX-License-Identifier: MIT
"""What the paper's text says in numbers of walks, flushes, caches and time, beside the MMU model's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.model import mmu
from abh.report import figures, modelled, panels, reference
from abh.report.study import Number, Study, divide, missing, one_axis
from abh.schema.spec import Run

ORDER = 84
COMMAND = "make mmu"
TITLE = "The paper's numbers and the model's"
CAPTION = (
    "Changes that the paper's text gives in numbers, each beside the same change in our nearest run. Time is the "
    "model's estimate of cycles, a proportion of stated costs, from half of a page walk's cycles to all of them. The "
    "paper's programs, kernel and machine are others: the sign is what to compare, not the size. In runs as short as "
    "size smoke, clearing hugepages weighs more."
)
KINDS = ("reference", "modelled")
# Flushes of more than single addresses: what perf calls tlb_flush.dtlb_thread on the paper's processor.
FLUSHES = tuple(f"flushes_{cause}" for cause in (
    "cr3", "control", "invpcid", "vmrun_all", "vmrun_asid", "vmrun_nonglobal", "world_switch"))  # fmt: skip
L3 = tuple(f"{what}_refs_{where}" for what in ("data", "walk") for where in ("l3", "memory"))
STALLS = f"{mmu.ESTIMATE}_data_stalls"
L1_MISSES = tuple(f"data_refs_{where}" for where in ("l2", "l3", "memory"))


@dataclass(frozen=True)
class Statement:
    """One number of the paper's text, and how ours is made: the change of a sum of values against a base. A value's
    name may leave the end of the estimate's band open."""

    row: str  # these two name the line of analysis/reference/abh/prose.csv
    quantity: str
    words: str
    of: tuple[str, ...]
    workload: str
    environment: str
    policy: str
    base: str
    over: tuple[str, ...] = ()  # ours is of a mean: the sum for each of these
    gain: bool = False  # told as a gain: less is positive

    def changes(self, study: Study) -> tuple[Number, Number]:
        """The model's, at either end of the band."""
        low, high = (self._change(study, end) for end in mmu.ENDS)
        return low, high

    def _change(self, study: Study, end: str) -> Number:
        runs = [Run(self.workload, self.environment, policy) for policy in (self.policy, self.base)]
        of = tuple(name.format(end=end) for name in self.of)
        after, before = (self._sum(study, run, of) for run in runs)
        if self.over:
            after, before = (
                figures.share(part, self._sum(study, run, self.over))
                for part, run in zip((after, before), runs, strict=True)
            )
        ratio = divide(after, before)
        if ratio.value is None:
            return ratio
        unit = "ratio (estimate)" if "(estimate)" in after.unit else ratio.unit
        return Number((ratio.value - 1) * (-1 if self.gain else 1), unit, ratio.kind)

    @staticmethod
    def _sum(study: Study, run: Run, names: tuple[str, ...]) -> Number:
        numbers = [study.value(run, name) for name in names]
        unit, kind = one_axis(numbers)
        if unknown := next((number for number in numbers if number.value is None), None):
            return missing(f"{run}: {unknown.reason}")
        return Number(sum(number.value or 0 for number in numbers), unit, kind)


TIME = (mmu.ESTIMATE + "_{end}",)
STATEMENTS = (
    Statement("any", "page_walk_cycles_change_abh_bound", "walk cycles, ABH over THP; the paper's largest fall",
              ("walk_cycles",), "sqlite", "kvm-hap", "abh", "thp"),
    Statement("stress test", "slowdown_hugepage_tlb_overflow", "estimated time past the huge entries, THP over reg",
              TIME, "tlb-overflow", "native", "thp", "reg"),
    Statement("459.GemsFDTD", "slowdown_without_offset", "estimated time, ABH without offsets over ABH",
              TIME, "set-conflict", "native", "abh-no-offset", "abh"),
    *(Statement("dedup", f"improvement_abh_{environment.replace('-', '_')}", "gain in estimated time, ABH over THP",
                TIME, "dedup", environment, "abh", "thp", gain=True)
      for environment in ("native", "kvm-hap", "kvm-shadow")),
    Statement("dedup", "slowdown_thp_shadow", "estimated time, THP over reg",
              TIME, "dedup", "kvm-shadow", "thp", "reg"),
    Statement("dedup", "tlb_flush_change_thp_over_reg_kvm_shadow", "TLB flushes, THP over reg",
              FLUSHES, "dedup", "kvm-shadow", "thp", "reg"),
    Statement("dedup", "tlb_flush_change_abh_over_reg", "TLB flushes, ABH over reg",
              FLUSHES, "dedup", "kvm-shadow", "abh", "reg"),
    Statement("dedup", "tlb_flush_change_abh_over_thp", "TLB flushes, ABH over THP",
              FLUSHES, "dedup", "kvm-shadow", "abh", "thp"),
    Statement("483.xalancbmk", "l3_references_change_abh", "references to L3, ABH over THP",
              L3, "xalan", "native", "abh", "thp"),
    Statement("483.xalancbmk", "l1_miss_cycles_change_abh", "estimated stall of an L1 miss, ABH over THP",
              (STALLS,), "xalan", "native", "abh", "thp", over=L1_MISSES),
)  # fmt: skip


def lines(study: Study) -> Iterator[tuple[str, Statement, Number, tuple[Number, Number]]]:
    """Processor, statement, the paper's number, ours at either end."""
    printed = reference.read("abh", "prose")
    for cpu, one in modelled.studies(study).items():
        for each in STATEMENTS:
            theirs = printed[each.row][each.quantity]
            yield cpu, each, Number((theirs.value or 0) / 100, "ratio", theirs.kind), each.changes(one)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV."""
    return [
        {
            "cpu": cpu,
            "row": each.row,
            "quantity": each.quantity,
            "workload": each.workload,
            "environment": each.environment,
            "policy": each.policy,
            "base": each.base,
            "reference": theirs.value,
            **{f"modelled_{end}": number.value for end, number in zip(mmu.ENDS, ours, strict=True)},
            "unit": ours[0].unit or "n/a",
            "reason": ours[0].reason or "",
        }
        for cpu, each, theirs, ours in lines(study)
    ]


def render(study: Study) -> Markup:
    """The HTML."""
    found: dict[str, list[tuple[Statement, Number, tuple[Number, Number]]]] = {}
    for cpu, *line in lines(study):
        found.setdefault(cpu, []).append(tuple(line))
    return Markup("").join(_one(cpu, each) for cpu, each in found.items()) if found else modelled.nothing()


def _one(cpu: str, found: list[tuple[Statement, Number, tuple[Number, Number]]]) -> Markup:
    notes = panels.Notes(f"note-abh-prose-{cpu}")
    row = Markup(
        '<tr><th scope="row">{}<br><span class="soft">{}</span></th><td class="num">{}</td><td>{}@{}</td>'
        '<td class="num">{}</td></tr>'
    )
    body = Markup("").join(
        row.format(
            each.words,
            each.row,
            notes.show(theirs, "percent"),
            each.workload,
            each.environment,
            notes.between(*ours, "percent"),
        )
        for each, theirs, ours in found
    )
    return Markup(
        '<h4>{}</h4><div class="wide" tabindex="0" role="region" aria-label="{} of {}"><table><thead><tr>'
        '<th scope="col">change<br>paper\'s benchmark</th><th scope="col" class="num">paper<br>reference</th>'
        '<th scope="col">our run</th><th scope="col" class="num">model<br>modelled</th></tr></thead>'
        "<tbody>{}</tbody></table></div>{}"
    ).format(cpu, TITLE, cpu, body, notes.render())


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
