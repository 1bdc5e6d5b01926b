# SPDX-License-Identifier: MIT
"""What other page tables would be worth today: natively, within a hypervisor, with ABH, and behind a software TLB."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.model import organisations
from abh.report import figures, panels, replays, scale, svg, tables
from abh.report.study import ABH_POLICY, BASE_POLICY, Number, Study, missing
from abh.schema.spec import Run

ORDER = 90
COMMAND = replays.COMMAND
TITLE = "Would another page table do better today?"
CAPTION = (
    f"{organisations.PROGRAM} on an {organisations.PROCESSOR}, whose hardware walks other tables than its "
    "own: radix is x86-64's four levels, without paging-structure caches; g16 a guarded table, h8192 a "
    "hashed one and c8192 a clustered one of Elphinstone (1999). A walk costs what its references to memory "
    "wait for in the caches. Under a hypervisor a guest's table lies in memory that the host's table "
    "translates, so each of its references takes a walk of the host's: 24 references in all, where both have "
    "four levels. Cycles are of all walks, for a thousand accesses of all software."
)
KINDS = ("modelled",)
NAMES = organisations.WALKED
QUANTITIES = ("references", "cycles", "cost")
PLAIN, NESTED_TLB, SOFTWARE_TLB = "", "+ntlb", "+stlb"
NATIVE, NESTED, SHADOW = organisations.NATIVE, organisations.NESTED, organisations.SHADOW

Found = dict[tuple[Run, str, bool], replays.Replay]


def _found(study: Study) -> Found:
    return {
        (each.run, each.organisation, each.superpages): each
        for each in replays.replays(study)
        if each.machine == organisations.PROCESSOR
    }


def _run(environment: str, policy: str) -> Run:
    return Run(organisations.PROGRAM, environment, policy)


def _of(found: Found, run: Run, organisation: str, superpages: bool, quantity: str) -> Number:
    """A quantity of a replay: cost, references or cycles."""
    replay = found.get((run, organisation, superpages))
    return missing("not replayed") if replay is None else getattr(replay, quantity)


def _same(name: str, more: str = PLAIN) -> str:
    return f"{name}/{name}{more}"


def table(study: Study) -> list[dict[str, object]]:
    """The CSV: every replay of hardware's walks."""
    return [
        {"run": str(run), "organisation": name, "superpages": large, "quantity": quantity,
         "value": value.value, "unit": value.unit, "kind": value.kind, "reason": value.reason or ""}
        for (run, name, large), each in _found(study).items()
        if "/" in name
        for quantity in QUANTITIES
        for value in [getattr(each, quantity)]
    ]  # fmt: skip


def render(study: Study) -> Markup:
    """The HTML: an answer, its picture and its numbers for each of the four questions."""
    found = _found(study)
    if not any("/" in name for _, name, _ in found):
        return Markup("<p>Nothing was replayed: <code>{}</code> does.</p>").format(COMMAND)
    notes = panels.Notes("note-organisations-answers")
    parts = [natively(found, notes), nested(found, notes), with_abh(found, notes), software_tlb(found, notes)]
    return Markup("").join(parts) + notes.render()


def _answer(question: str, words: str, picture: Markup, numbers: Markup) -> Markup:
    return Markup('<h4>{}</h4><p class="answer">{}</p><div class="pictures">{}</div>{}').format(
        question, words, picture, numbers
    )


def _cheapest(numbers: dict[str, Number]) -> str:
    """In words: who costs least, and how radix compares."""
    known = {name: value.value for name, value in numbers.items() if value.value is not None}
    if len(known) < 2 or "radix" not in known:
        return "Not everything that this compares was replayed."
    least = min(known, key=lambda name: known[name])
    if least == "radix":
        second = min((name for name in known if name != "radix"), key=lambda name: known[name])
        ours, theirs = known[least], known[second]
        return f"Radix costs least, {ours:.1f} cycles for a thousand accesses; next is {second}, {theirs:.1f}."
    saved = 1 - known[least] / known["radix"] if known["radix"] else 0.0
    return (
        f"{least} costs least, {known[least]:.1f} cycles for a thousand accesses, {100 * saved:.0f}% less than "
        f"radix's {known['radix']:.1f}."
    )


def _picture(title: str, note: str, lines: Sequence[tuple[str, Sequence[Number]]], style: str = "plain") -> Markup:
    """A panel with a line for each name; where it has two numbers, the second is the filled one's successor."""
    known = [value.value for _, values in lines for value in values if value.value is not None]
    if not known:
        return Markup("")
    marks = tuple((name, tuple(svg.Mark(shape, value) for shape, value in enumerate(values))) for name, values in lines)
    return svg.panel(svg.Panel(title, note, scale.linear(known), style, marks))


def natively(found: Found, notes: panels.Notes) -> Markup:
    """(a)"""
    run = _run(NATIVE, BASE_POLICY)
    costs = {name: _of(found, run, _same(name), False, "cost") for name in NAMES}
    rows = [
        (name, [notes.show(_of(found, run, _same(name), False, each), "plain") for each in QUANTITIES])
        for name in NAMES
    ]
    heads = ["table", "references a walk", "cycles a walk", "cycles for 1,000 accesses"]
    return _answer(
        "(a) Natively",
        _cheapest(costs),
        _picture(str(run), "cycles for 1,000 accesses", [(name, [value]) for name, value in costs.items()]),
        tables.table(TITLE, heads, rows, f"{run}, base pages, modelled"),
    )


def nested(found: Found, notes: panels.Notes) -> Markup:
    """(b)"""
    words, pictures, grids = [], Markup(""), Markup("")
    for run in (_run(environment, BASE_POLICY) for environment in NESTED):
        pairs = {
            f"{guest}/{host}": _of(found, run, f"{guest}/{host}", False, "cost") for guest in NAMES for host in NAMES
        }
        costs = {"radix" if name == _same("radix") else name: value for name, value in pairs.items()}
        said = _cheapest(costs).replace("Radix", "Radix in both").replace("radix's", "radix's in both")
        words.append(f"{run}: {said}")
        for quantity, what in (("references", "references a walk"), ("cost", "cycles for 1,000 accesses")):
            rows = [
                (guest, [notes.show(_of(found, run, f"{guest}/{host}", False, quantity), "plain") for host in NAMES])
                for guest in NAMES
            ]
            grids += tables.table(TITLE, ["guest's, host's", *NAMES], rows, f"{run}, base pages, {what}, modelled")
        lines = [(name, [_of(found, run, _same(name), False, "references")]) for name in NAMES]
        pictures += _picture(str(run), "references a walk, both tables alike", lines)
    return _answer("(b) Within a hypervisor: a guest's table by a host's", " ".join(words), pictures, grids)


def with_abh(found: Found, notes: panels.Notes) -> Markup:
    """(c)"""
    words, pictures, rows = [], Markup(""), []
    for environment in (NATIVE, *NESTED):
        lines = []
        for name in NAMES:
            two = [
                _of(found, _run(environment, policy), _same(name), True, "cost") for policy in (BASE_POLICY, ABH_POLICY)
            ]
            lines.append((name, two))
            rows.append((f"{environment}, {name}", [notes.show(value, "plain") for value in two]))
        pictures += _picture(f"{environment}: {BASE_POLICY}, then {ABH_POLICY}", "cycles for 1,000 accesses", lines)
        known = {name: two for name, two in lines if all(value.value for value in two)}
        saved = {name: 1 - (two[1].value or 0) / (two[0].value or 1) for name, two in known.items()}
        if saved:
            said = ", ".join(f"{name} {100 * share:.0f}%" for name, share in saved.items())
            words.append(f"{environment}, ABH's hugepages take away, of the cycles of walks: {said}.")
    words.append(
        "Hashed and clustered tables have a large page's entry in each base page's slot: fewer misses of the TLB, "
        "but no smaller tables."
    )
    heads = ["environment, table", BASE_POLICY, ABH_POLICY]
    return _answer(
        "(c) With ABH and without",
        " ".join(words),
        pictures,
        tables.table(TITLE, heads, rows, "large pages mapped as such; cycles for 1,000 accesses, modelled"),
    )


def software_tlb(found: Found, notes: panels.Notes) -> Markup:
    """(d)"""
    words, rows, lines = [], [], []
    for environment in (*NESTED, SHADOW):
        for policy in (BASE_POLICY, ABH_POLICY):
            run = _run(environment, policy)
            without, by, both = (_of(found, run, _same("radix", more), True, "cost") for more in
                                 (PLAIN, SOFTWARE_TLB, NESTED_TLB))  # fmt: skip
            rows.append((str(run), [notes.show(value, "plain") for value in (without, by, both)]))
            lines.append((f"{environment}~{policy}", [without, by]))
            if without.value and by.value is not None:
                share = 100 * (1 - by.value / without.value)
                words.append(f"{run}: a software TLB {'takes away' if share >= 0 else 'adds'} {abs(share):.0f}%.")
    heads = ["run", "radix", "software TLB before it", "nested TLB instead"]
    return _answer(
        "(d) A software TLB of 128 KB before the tables, or before a shadow",
        " ".join(words) or "Not everything that this compares was replayed.",
        _picture("radix, then behind a software TLB", "cycles for 1,000 accesses", lines),
        tables.table(TITLE, heads, rows, "cycles for 1,000 accesses, modelled"),
    )


if __name__ == "__main__":
    sys.exit(figures.alone(__file__))
