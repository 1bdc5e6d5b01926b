# SPDX-License-Identifier: MIT
"""Where the two sources contradict themselves: which reading was taken, and what the other would give."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.model import organisations
from abh.report import figures, panels, reference, replays
from abh.report.study import BASE_POLICY, Number, Study, missing
from abh.schema.spec import Run

ORDER = 96
COMMAND = replays.COMMAND
TITLE = "Where the sources contradict themselves"
CAPTION = (
    "What Elphinstone (1999) and Jacob and Mudge (1998) say twice and differently, or leave open; which of it the "
    "model does, and why; and what the other reading would give. Numbers are of "
    f"{organisations.PROGRAM}, natively without hugepages, and of the made-up workloads: as taken, then as the other."
)
KINDS = ("modelled",)
SOURCES = {"elphinstone": "Elphinstone", "jacob-mudge": "Jacob and Mudge"}
RUN = Run(organisations.PROGRAM, organisations.NATIVE, BASE_POLICY)
MPT_MORE, STLB_LESS = 7, 1  # instructions
INTERRUPT = 50  # cycles: machines/jacob-mudge.toml
PAGES = 8192

# What is told, as taken, and as the other reading has it.
Two = tuple[str, Number, Number]
WORDS_ALONE: Two = ("", missing(""), missing(""))


def _replay(study: Study, organisation: str, machine: str) -> replays.Replay | None:
    """Of one that is not swept and not warm."""
    return next(
        (each for each in replays.replays(study)
         if (each.run, each.organisation, each.machine, each.superpages) == (RUN, organisation, machine, False)
         and not each.swept and not each.warm),
        None,
    )  # fmt: skip


def _more(number: Number, more: float) -> Number:
    """The number, and that much on top."""
    return number if number.value is None else Number(number.value + more, number.unit, number.kind)


def mpt_refill(study: Study) -> list[Two]:
    """Seven instructions more."""
    found = _replay(study, "mpt", "r4700")
    cycles = found.cycles if found else missing("not replayed")
    return [("mpt, cycles a refill", cycles, _more(cycles, MPT_MORE))]


def stlb_refill(study: Study) -> list[Two]:
    """One less, where the STLB had it."""
    two = []
    for name in ("g16-s8k", "g16-s128k"):
        found = _replay(study, name, "r4700")
        cycles = found.cycles if found else missing("not replayed")
        served = found.total["refills_short_cut"] / found.total["refills"] if found and found.total["refills"] else 0
        two.append((f"{name}, cycles a refill", cycles, _more(cycles, -STLB_LESS * served)))
    return two


def two_ways(study: Study) -> list[Two]:
    """2x4K, and what 2x64K has."""
    found = [_replay(study, name, "r4700") for name in ("g16-s2x4k", "g16-s2x64k")]
    mine, large = (each.cycles if each else missing("not replayed") for each in found)
    return [("g16-s2x4k, then g16-s2x64k, cycles a refill", mine, large)]


def chapter_6(study: Study) -> list[Two]:
    """Bytes a page, spaced equally and at random."""
    found = replays.made_up(study)

    def size(workload: str, name: str) -> Number:
        return found.get((workload, name, PAGES, "bytes a page"), missing("not run"))

    return [
        (f"{name}, bytes a page at {PAGES} pages", size("equal spacing", name), size("SPARSE-PAGE", name))
        for name in ("h8192", "c8192", "mpt")
    ]


def interrupts(study: Study) -> list[Two]:
    """VMCPI's part of interrupts: of all handlers, and of the first ones."""
    two = []
    for name in ("ultrix-48", "mach-48", "notlb-48", "pa-risc"):
        found = _replay(study, name, "jacob-mudge")

        def an_instruction(prefix: str, found: replays.Replay | None = found) -> Number:
            if found is None:
                return missing("not replayed")
            cycles = INTERRUPT * found.all_of(prefix)
            return replays.per(cycles, found.instructions, "cycles", "the trace counts no instructions")

        two.append((f"{name}, interrupts' VMCPI", an_instruction("interrupts_"), an_instruction("interrupts_user")))
    return two


NUMBERS: Mapping[str, Callable[[Study], list[Two]]] = {
    each.__name__: each for each in (mpt_refill, stlb_refill, two_ways, chapter_6, interrupts)
}


def _nothing(study: Study) -> bool:
    """Whether there is no number to any reading."""
    return not replays.replays(study) and not replays.made_up(study)


def table(study: Study) -> list[dict[str, object]]:
    """The CSV: all readings, and what numbers there are."""
    rows: list[dict[str, object]] = []
    if _nothing(study):
        return rows
    for paper in SOURCES:
        for each in reference.readings(paper):
            said = {"source": paper, "of": each.of, "says": each.says, "taken": each.taken, "other": each.other}
            for what, mine, others in NUMBERS[each.number](study) if each.number else [WORDS_ALONE]:
                numbers = {
                    "value": mine.value,
                    "value_other": others.value,
                    "unit": mine.unit,
                    "kind": mine.kind or "n/a",
                }
                rows.append({**said, "quantity": what, **numbers, "reason": mine.reason or ""})
    return rows


def render(study: Study) -> Markup:
    """The HTML: a row for each, with the numbers below the words."""
    if _nothing(study):
        return Markup("<p>Nothing was replayed: <code>{}</code> does.</p>").format(COMMAND)
    notes = panels.Notes("note-readings")
    heads = ("of", "the source says", "taken", "the other would give")
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in heads)
    body = Markup("")
    for paper, source in SOURCES.items():
        for each in reference.readings(paper):
            numbers = Markup("").join(
                Markup("<br>{}: {}, then {}").format(what, notes.show(mine, "plain"), notes.show(others, "plain"))
                for what, mine, others in (NUMBERS[each.number](study) if each.number else [])
            )
            body += Markup('<tr><th scope="row">{}: {}</th><td>{}</td><td>{}</td><td>{}{}</td></tr>').format(
                source, each.of, each.says, each.taken, each.other, numbers
            )
    return Markup(
        '<div class="wide" tabindex="0" role="region" aria-label="{}"><table><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>{}"
    ).format(TITLE, head, body, notes.render())


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
