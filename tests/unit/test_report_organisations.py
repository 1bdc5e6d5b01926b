# SPDX-License-Identifier: MIT
"""The report's figures of other page tables: what they say of replays that are known."""

from __future__ import annotations

import itertools
import json
from html import unescape
from pathlib import Path

import pytest
import test_report_matrix as matrix

from abh.model import organisations
from abh.report import figures, reference
from abh.report.study import Study

FIGURES = {figure.name: figure for figure in figures.find()}
PARTS = ("uhandler", "khandler", "rhandler", "pte-L2", "pte-MEM", "handler-L2", "handler-MEM", "interrupts")
NAMES = ("organisations_answers", "organisations", "thesis_refill", "thesis_programs", "thesis_tables", "vmcpi")


def write(folder: Path, run: str, replays: list[dict[str, object]]) -> None:
    path = folder / f"mmu/organisations/{run}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"run": run, "fingerprint": "", "replays": replays}))


@pytest.fixture(name="study")
def _study(tmp_path: Path) -> Study:
    return matrix.study(tmp_path)


def test_without_results_each_figure_says_what_makes_them(study: Study) -> None:
    for name in NAMES:
        assert FIGURES[name].table(study) == [] and FIGURES[name].order // 10 == 9
        assert "make organisations" in str(FIGURES[name].render(study))


def test_the_four_questions_are_answered_in_words_numbers_and_pictures(study: Study, tmp_path: Path) -> None:
    costs = {"radix": 40, "g16": 30, "h8192": 20, "c8192": 25}
    for environment, policy in itertools.product(organisations.ENVIRONMENTS, ("reg", "abh")):
        share = 0.5 if policy == "abh" else 1
        flat = [
            matrix.replay(f"{guest}/{host}", "i7-3770", costs[guest] + costs[host]) for guest in costs for host in costs
        ]
        large = [
            matrix.replay(f"{name}/{name}{more}", "i7-3770", int(share * cost * times), superpages=True)
            for name, cost in costs.items()
            for more, times in (("", 1), ("+stlb", 0.5), ("+ntlb", 1))
        ]
        write(tmp_path, f"sqlite@{environment}~{policy}", flat + large)
    html = unescape(str(FIGURES["organisations_answers"].render(study)))
    for question in ("(a) Natively", "(b) Within a hypervisor", "(c) With ABH", "(d) A software TLB"):
        assert question in html
    assert "h8192 costs least, 400.0 cycles for a thousand accesses, 50% less than radix's 800.0" in html
    assert all(f"sqlite@{nested}~reg: h8192/h8192 costs least" in html for nested in organisations.NESTED)
    assert "radix's in both 800.0" in html
    for nested in organisations.NESTED:
        assert f"{nested}, ABH's hugepages take away, of the cycles of walks: radix 50%, g16 50%" in html
    assert "sqlite@kvm-shadow~reg: a software TLB takes away 50%" in html
    assert html.count("<svg") >= 5 and "n/a" not in html
    rows = FIGURES["organisations_answers"].table(study)
    assert {row["kind"] for row in rows} == {"modelled"} and all(row["value"] is not None for row in rows)


def test_what_was_not_replayed_is_not_answered(study: Study, tmp_path: Path) -> None:
    write(tmp_path, "sqlite@native~reg", [matrix.replay("radix/radix", "i7-3770", 40)])
    html = str(FIGURES["organisations_answers"].render(study))
    assert "Not everything that this compares was replayed." in html and "not replayed" in html


def test_refills_stand_beside_the_thesis(study: Study, tmp_path: Path) -> None:
    write(tmp_path, "mcf@native~reg", [matrix.replay("g16-s128k", "r4700", 77), matrix.replay("g16", "i7-3770", 9)])
    rows = FIGURES["thesis_refill"].table(study)
    assert [(row["organisation"], row["value"], row["reference"]) for row in rows] == [("g16-s128k", 77.0, 31.5)]
    html = str(FIGURES["thesis_refill"].render(study))
    assert "G16+S128K (g16-s128k)" in html and "31.50" in html and "77.00" in html


def test_made_up_workloads_stand_beside_the_thesis(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "mmu/organisations" / organisations.MADE_UP
    path.parent.mkdir(parents=True)
    lines = [("task", 2, "cycles", 12_300.0), ("SPARSE-PAGE", 8192, "bytes a page", 49.5)]
    path.write_text(json.dumps({"fingerprint": "", "kind": "modelled", "lines": [
        {"workload": workload, "organisation": "mpt", "at": at, "quantity": quantity, "unit": quantity, "value": value}
        for workload, at, quantity, value in lines
    ]}))  # fmt: skip
    assert [row["value"] for row in FIGURES["thesis_tables"].table(study)] == [12_300.0, 49.5]
    html = str(FIGURES["thesis_tables"].render(study))
    assert "123.00" in html and "2032.00" in html and "49.50" in html and "not run" in html


def test_vmcpi_is_the_sum_of_its_parts(study: Study, tmp_path: Path) -> None:
    loads = {"table_loads_user_l2": 2, "table_loads_root_memory": 1, "handler_fetches_memory": 1}
    instructions = {"handler_instructions_user": 100, "handler_instructions_root": 40}
    software = matrix.replay("ultrix-48", "jacob-mudge", 0, interrupts_user=3, **loads, **instructions)
    hardware = matrix.replay("intel-48", "jacob-mudge", 33, table_loads_user_l2=1)
    write(tmp_path, "mcf@native~reg", [software, hardware])
    rows = {(row["organisation"], row["part"]): row["value"] for row in FIGURES["vmcpi"].table(study)}
    ultrix = {part: value for (name, part), value in rows.items() if name == "ultrix-48"}
    assert ultrix["uhandler"] == 0.1 and ultrix["rhandler"] == 0.04 and ultrix["pte-L2"] == 0.04
    assert ultrix["pte-MEM"] == 0.52 and ultrix["handler-MEM"] == 0.52 and ultrix["interrupts"] == 0.15
    for name in ("ultrix-48", "intel-48"):
        parts = [value for (of, part), value in rows.items() if of == name and part in PARTS]
        assert rows[name, "VMCPI"] == pytest.approx(sum(parts))
    for price, total in ((10, 1.25), (200, 1.82)):
        assert rows["ultrix-48", f"VMCPI, interrupts of {price}"] == pytest.approx(total)
    assert rows["intel-48", "VMCPI, interrupts of 200"] == pytest.approx(0.33), "it takes none"
    assert rows["intel-48", "VMCPI"] == pytest.approx(0.33), "hardware's is all that its refills cost"
    assert rows["ultrix-48", "MCPI"] is None, "instructions were not all recorded"


def test_displacement_is_what_a_program_waits_for_beyond_what_it_would_without_virtual_memory(
    study: Study, tmp_path: Path
) -> None:
    def one(name: str, kib: int, **counted: int) -> dict[str, object]:
        more = {"swept": {"l1": kib} if kib else {}, "warm": kib > 0, "fetches": "lines"}
        return {**matrix.replay(name, "jacob-mudge", 7, **counted), **more}

    replays = []
    for kib in (0, 1, 8, 128):
        base = {"data_refs_l2": 10 + kib, "fetch_refs_l2": 5, "fetch_refs_memory": 1}
        replays += [one("base", kib, **base), one("ultrix-48", kib, **base | {"data_refs_l2": 20 + kib})]
    write(tmp_path, "mcf@native~reg", replays)
    rows = {
        (row["organisation"], row["swept"], row["part"]): row["value"]
        for row in FIGURES["vmcpi"].table(study)
    }  # fmt: skip
    assert rows["base", "", "MCPI"] == pytest.approx((20 * 15 + 520) / 1000)
    assert [rows["ultrix-48", at, "displacement"] for at in ("", "L1 8 KiB")] == [pytest.approx(0.2)] * 2
    assert rows["base", "L1 8 KiB", "MCPI"] == pytest.approx((20 * 23 + 520) / 1000)
    html = str(FIGURES["vmcpi"].render(study))
    assert html.count("<svg") == 1 and "L1 of 1, 8, 128 KiB a side, warm" in html and html.count("<table") == 3
    rows_of_others = FIGURES["organisations"].table(study)
    assert len(rows_of_others) == 2 * 4, "sweeps are shown here only"


def test_every_organisation_of_the_thesis_is_in_its_numbers() -> None:
    for table in ("refill", "sizes", "operations"):
        rows = reference.read("elphinstone", table)
        assert set(rows) <= set(organisations.IN_THESIS.values()), table
    assert set(organisations.IN_THESIS.values()) == set(reference.read("elphinstone", "refill"))


def test_each_contradiction_of_a_source_is_told_with_what_the_other_reading_gives(study: Study, tmp_path: Path) -> None:
    served = {"refills_short_cut": 5}  # of ten refills
    entered = {"interrupts_user": 10, "interrupts_kernel": 6}
    write(tmp_path, "sqlite@native~reg", [
        matrix.replay("mpt", "r4700", 100), matrix.replay("g16-s8k", "r4700", 46, **served),
        matrix.replay("mpt", "r4700", 55, superpages=True), matrix.replay("ultrix-48", "jacob-mudge", 7, **entered),
    ])  # fmt: skip
    rows = FIGURES["readings"].table(study)
    told = {row["quantity"]: (row["value"], row["value_other"]) for row in rows}
    assert told["mpt, cycles a refill"] == (100, 107)
    assert told["g16-s8k, cycles a refill"] == (46, 45.5)
    assert told["ultrix-48, interrupts' VMCPI"] == (0.8, 0.5)
    assert told["h8192, bytes a page at 8192 pages"] == (None, None), "made-up workloads were not run"
    html = unescape(str(FIGURES["readings"].render(study)))
    assert "100.00, then 107.00" in html and "S' = 6" in html and "not replayed" in html
    assert {each.number for paper in ("elphinstone", "jacob-mudge") for each in reference.readings(paper)} == {
        "", "mpt_refill", "stlb_refill", "chapter_6", "two_ways", "interrupts"
    }  # fmt: skip


def test_programs_written_anew_stand_beside_the_thesis(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "mmu/organisations" / organisations.of_program("mm")
    path.parent.mkdir(parents=True)
    replays = [matrix.replay("g2", "r4700", 200), matrix.replay("g16-s128k", "r4700", 33)]
    path.write_text(json.dumps({"program": "mm", "fingerprint": "", "kind": "modelled", "replays": replays}))
    rows = {
        (row["organisation"], row["quantity"]): (row["value"], row["reference"])
        for row in FIGURES["thesis_programs"].table(study)
    }
    assert rows["g2", "refill"] == (200, 229.6) and rows["g16-s128k", "refill"] == (33, 31.5)
    assert rows["g2", "bytes"] == (4096, 47376) and rows["g16-s128k", "bytes"] == (4096, None)
    html = str(FIGURES["thesis_programs"].render(study))
    assert "229.60" in html and "200.00" in html and "not replayed" in html
    assert FIGURES["organisations"].table(study) == [], "they are no run's"


def test_what_the_thesis_prints_of_programs_is_of_those_that_were_written_anew() -> None:
    rows = reference.read("elphinstone", "programs")
    assert set(rows) <= set(organisations.IN_THESIS.values())
    printed = {quantity for row in rows.values() for quantity in row}
    assert printed == {f"{name}_{what}" for name in organisations.PROGRAMS for what in ("refill", "bytes")}


def test_the_cycles_of_a_refill_that_the_thesis_prints_follow_from_its_seconds_and_misses() -> None:
    printed, measured = reference.read("elphinstone", "programs"), reference.read("elphinstone", "misses")
    for system, program in itertools.product(measured, organisations.PROGRAMS):
        seconds, misses = (measured[system][f"{program}_{what}"].value for what in ("seconds", "misses"))
        assert seconds and misses
        # Of 100 MHz. Three or four digits are printed of each, and one place after the point of the quotient.
        cycles = printed[system][f"{program}_refill"].value
        assert cycles == pytest.approx(1e8 * seconds / misses, abs=0.05, rel=1e-3), (system, program)
    assert len(measured) == len(organisations.GUARDED)
