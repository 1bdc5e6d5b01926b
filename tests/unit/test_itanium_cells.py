# SPDX-License-Identifier: MIT
"""Cells on the Itanium machine: which there are, what the machine is told, and what its answers become."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from abh import paths, schedule
from abh.build import components, root
from abh.errors import AbhError, Status
from abh.machine import itanium as machine
from abh.report import figures
from abh.report.study import read_study
from abh.schema import costs, result, spec
from abh.schema.result import Result
from abh.study import cell, code, computers, graph, itanium, matrix
from abh.verify import itanium as verify

RUN = "tlb-overflow@itanium~sf-lp"
ANSWER = "ABH out answer: 5f592c78dab0c580"
OF_SIDE = {theirs: 0 for theirs, _, _ in itanium.OF_SIDE}


def counts(**more: Any) -> dict[str, Any]:
    """What the machine has counted at a mark."""
    mmu = {"instruction": OF_SIDE, "data": OF_SIDE, "walks": 0, "walks_missed": 0, "aborts": {}, "faults": {}}
    return {"instructions": 0, "uncollected": 0, "idle": 0, "counters": {**mmu, **more.pop("counters", {})}, **more}


BEFORE = counts(instructions=100, idle=7, counters={"faults": {"DataTlb": 3}, "aborts": {"Attribute": 1}})
AFTER = counts(
    instructions=2_000_000_100,
    uncollected=40,
    idle=7,
    counters={
        "data": {**OF_SIDE, "lookups": 90, "first_misses": 50, "second_misses": 10, "walker_insertions": 4},
        "instruction": {**OF_SIDE, "second_misses": 2, "walker_insertions": 2},
        "walks": 10,
        "aborts": {"Attribute": 3, "NotPresent": 2},
        "faults": {"DataTlb": 8, "VhptData": 1},
    },
)
CONSOLE = f"""
ABH begin
{ANSWER}
ABH value minor_faults 30
ABH value major_faults 0
ABH value rss_peak_kib 4096
ABH value superpages_64k 2
ABH value superpages_16384k 1
ABH value superpages_failed 0
ABH value superpages_demoted 5
ABH end exit 0
"""
ENDED = machine.Ended(0, CONSOLE, "reset", {"marks": [[itanium.BEGIN, BEFORE], [itanium.END, AFTER]]})


@pytest.fixture(autouse=True)
def _nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    made = result.Provenance(commit="1", series={}, components={}, roots={}, command="abh run", seed=1,
                             machine="one", when="2026-01-01T00:00:00+00:00")  # fmt: skip
    monkeypatch.setattr(cell, "provenance", lambda _: made)


def judged(ended: machine.Ended = ENDED, run: str = RUN) -> Result:
    return itanium.judged(cell.Cell.of(run, "smoke"), ended)


# --- which cells there are --------------------------------------------------------------------------------------


def test_the_modes_of_the_walker_are_the_environments_own_policies() -> None:
    names = matrix.select(["tlb-overflow"], group="itanium")
    assert names == [f"tlb-overflow@itanium~{mode}" for mode in ("none", "sf", "lf", "none-lp", "sf-lp", "lf-lp")]
    assert "itanium" not in {spec.Run.parse(name).environment for name in matrix.select()}


def test_a_group_runs_the_workloads_that_can_be_had_there() -> None:
    ran = {spec.Run.parse(name).workload for name in matrix.select(group="itanium")}
    assert {"tlb-overflow", "set-conflict", "cactus", "sqlite"} <= ran
    assert "redis" not in ran


def test_the_recipe_builds_the_workloads_that_ask_for_what_is_built_for_it() -> None:
    recipe = ast.parse((paths.CHECKOUT / "recipes/ia64-workloads.py").read_text())
    assigned = {ast.unparse(each.targets[0]): each.value for each in recipe.body if isinstance(each, ast.Assign)}
    assert ast.literal_eval(assigned["BUILT"]) == itanium.BUILT


@pytest.mark.parametrize(
    ("run", "what"),
    [
        ("tlb-overflow@itanium~thp", "policy `thp` is not for environment `itanium`"),
        ("tlb-overflow@native~lf", "policy `lf` is not for environment `native`"),
    ],
)
def test_a_policy_of_another_environment_is_wrong_usage(run: str, what: str) -> None:
    with pytest.raises(AbhError, match=what) as caught:
        cell.Cell.of(run, "smoke")
    assert caught.value.status == Status.USAGE


def test_policies_of_the_study_are_not_chosen_there() -> None:
    with pytest.raises(AbhError, match="environment `itanium` has policies of the group itanium") as caught:
        matrix.select(environments=["itanium"])
    assert caught.value.next_step == "add --group itanium"


@pytest.mark.parametrize(
    "options", [{"icount": False}, {"explain": True}, {"mmu": "zen2"}, {"trace": Path("t")}, {"draws": 3}]
)
def test_what_only_qemu_has_is_wrong_usage(options: dict[str, Any]) -> None:
    with pytest.raises(AbhError, match="no such option"):
        cell.Cell.of(RUN, "smoke", **options)


def test_a_workload_that_cannot_be_built_for_it_is_skipped() -> None:
    made = itanium.run(cell.Cell.of("redis@itanium~sf", "smoke"))
    assert made.outcome == "skip" and "redis-server" in str(made.reason)
    assert "built by" in str(itanium.why_not(spec.workload("cpython").model_copy(update={"packages": ()})))


# --- what the machine is told -----------------------------------------------------------------------------------


def test_the_policy_is_words_of_the_kernels_command_line() -> None:
    words = itanium.told(cell.Cell.of("tlb-overflow@itanium~lf-lp", "smoke"))
    assert words[words.index("--command-line") + 1].endswith(" vhpt=lf superpages=16M")
    assert words[words.index("--memory") + 1] == "512"
    assert "\narg --regions\n" in words[6] and "\nrequire /proc/superpages\n" in words[6]


def test_the_cell_is_a_file_of_the_ram_disk() -> None:
    archive, found = machine.archive({"cell": b"ABHCELL 2\n", "empty": b""}), {}
    while archive:  # as Documentation/driver-api/early-userspace/buffer-format.rst has it
        assert archive[:6] == b"070701"
        mode, length, name_length = (int(archive[at : at + 8], 16) for at in (14, 54, 94))
        begin = -(-(110 + name_length) // 4) * 4
        name = archive[110 : 110 + name_length]
        found[name] = (mode, archive[begin : begin + length])
        archive = archive[-(-(begin + length) // 4) * 4 :]
    assert found == {
        b"cell\0": (0o100444, b"ABHCELL 2\n"),
        b"empty\0": (0o100444, b""),
        b"TRAILER!!!\0": (0o100444, b""),
    }


def test_its_own_code_and_costs_are_part_of_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    one = cell.Cell.of(RUN, "smoke")
    assert computers.of(one) is itanium and computers.of(cell.Cell.of("sqlite@native~thp", "smoke")) is cell
    assert {"abh.study.itanium", "abh.study.cell", "abh.machine.itanium"} <= set(code.modules(itanium.__name__))
    assert "abh.study.itanium" not in code.modules()
    before = itanium.told(one)
    table = costs.of("madison")
    dearer = table.model_copy(update={"software": table.software.model_copy(update={"high": 114})})
    monkeypatch.setattr(costs, "of", lambda cpu: dearer)
    assert itanium.told(one) != before


def test_its_components_are_machine_kernel_and_ram_disk() -> None:
    assert cell.Cell.of(RUN, "smoke").components == ["itanium", "linux-ia64", "ia64-initramfs"]


def test_a_study_boots_each_cell_and_not_again_what_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    booted: list[str] = []

    def boot(words: Sequence[str], *, ramdisk: Path, **_: object) -> machine.Ended:
        assert ramdisk.read_bytes().startswith(b"packed070701")  # the workloads, and behind them the cell
        booted.append(words[words.index("--command-line") + 1])
        return ENDED

    def study(*modes: str) -> graph.Told:
        cells = [cell.Cell.of(f"tlb-overflow@itanium~{mode}", "smoke") for mode in modes]
        told = graph.Told(len(cells), lambda *_: None)
        schedule.run(graph.of_cells(cells, tmp_path / "results", told), workers=1).check()
        return told

    (tmp_path / machine.RAMDISK_FILE).write_bytes(b"packed")
    monkeypatch.setattr(components, "path_of", lambda name: tmp_path)
    monkeypatch.setattr(components, "key_of", lambda name: name)
    monkeypatch.setattr(root, "contents", lambda name: root.Contents({}))
    monkeypatch.setattr(machine, "run", boot)
    assert not study("sf", "lf-lp").bad
    assert sorted(line.partition("quiet")[2] for line in booted) == ["", " vhpt=lf superpages=16M"]
    assert study("sf", "lf-lp").held == 2 and len(booted) == 2
    monkeypatch.setattr(components, "key_of", lambda name: f"another {name}" if name == "linux-ia64" else name)
    assert study("sf").held == 0 and len(booted) == 3


# --- what the answers become ------------------------------------------------------------------------------------


def test_what_lies_between_the_marks_is_the_cells() -> None:
    made = judged()
    values = {name: each.value for name, each in made.values.items()}
    assert made.outcome == "success", made.reason
    assert (values["instructions"], values["instructions_in_handlers"], values["elapsed"]) == (2_000_000_000, 40, 2.0)
    assert (values["data_tlb_lookups"], values["data_tlb_misses_l1"], values["data_tlb_misses_l2"]) == (90, 50, 10)
    assert (values["instruction_tlb_walker_insertions"], values["data_tlb_walker_insertions"]) == (2, 4)
    assert (values["walks_ended"], values["walks_ended_attribute"], values["walks_ended_not_present"]) == (4, 2, 2)
    assert (values["vector_data_tlb"], values["vector_vhpt_data"]) == (5, 1)
    assert (values["superpages_64k"], values["superpages_demoted"], values["rss_peak_kib"]) == (2, 5, 4096)
    assert values["regions"] is not None or made.values["regions"].reason  # the workload's own metrics


def test_superpages_count_by_their_bytes() -> None:
    huge, regular = 2 * 64 + 16384, 27 * 16
    assert judged().values["alloc_ratio"].value == pytest.approx(huge / (huge + regular))


def test_cycles_are_counts_times_costs_and_are_modelled() -> None:
    values, table = judged().values, costs.of("madison")
    for end in ("low", "high"):
        hit, software = getattr(table.walker_hit, end), getattr(table.software, end)
        assert values[f"reload_cycles_{end}"].value == 6 * hit + 6 * software
        assert values[f"cycles_a_reload_{end}"].value == (6 * hit + 6 * software) / 12
        assert values[f"fault_cycles_{end}"].value == 30 * getattr(table.page_fault, end)
        assert {values[f"{name}_{end}"].kind for name in ("reload_cycles", "cycles_a_reload")} == {"modelled"}
    silent = replace(ENDED, counted={"marks": [[itanium.BEGIN, BEFORE], [itanium.END, BEFORE]]})
    assert judged(silent).values["cycles_a_reload_low"].value is None


def test_the_report_has_the_modes_beside_each_other(tmp_path: Path) -> None:
    for run in ("tlb-overflow@itanium~sf", RUN):
        result.write(judged(run=run), tmp_path / "itanium" / f"{run}.json")
    study, figure = read_study(tmp_path), figures.load(figures.FIGURES / "itanium.py")
    rows = {(row["policy"], row["quantity"]): row for row in figure.table(study)}
    assert rows["sf-lp", "misses"]["value"] == 12 and rows["sf-lp", "walker_share"]["value"] == 0.5
    assert rows["sf-lp", "cycles_a_reload_low"]["kind"] == "modelled"
    assert rows["sf-lp", "cycles_a_reload_high"]["value"] == (25 + 113) / 2
    html = str(figure.render(study))
    assert "51.50\N{EN DASH}69.00" in html  # a reload
    assert "reference: thesis, vortex" in html and "61.47" in html
    assert html.count("not run</li>") == 1  # of the other modes, said once


def test_cells_beside_each_other_miss_less_with_superpages_and_repeat() -> None:
    def missing(misses: int, mode: str, **more: Any) -> Result:
        data = {**OF_SIDE, "second_misses": misses}
        after = counts(instructions=10, counters={"data": data}, **more)
        return judged(replace(ENDED, counted={"marks": [[itanium.BEGIN, counts()], [itanium.END, after]]}),
                      f"tlb-overflow@itanium~{mode}")  # fmt: skip

    well = {"sf": missing(7, "sf"), "sf-lp": missing(6, "sf-lp")}
    assert verify.amiss(well, well["sf-lp"]) == ""
    as_many = {**well, "sf-lp": missing(7, "sf-lp")}
    assert "7 misses of the data TLB, fewer than the 7" in verify.amiss(as_many, as_many["sf-lp"])
    assert "counts elapsed otherwise" in verify.amiss(well, missing(6, "sf-lp", idle=3))
    crashed = judged(replace(ENDED, console="booting\n", report="a wild jump"))
    for cells, again in ((well, crashed), ({**well, "sf": crashed}, well["sf-lp"])):
        assert "crash: a wild jump" in verify.amiss(cells, again)


@pytest.mark.parametrize(
    ("ended", "outcome", "what"),
    [
        (replace(ENDED, console=CONSOLE.replace("5f59", "0000")), "failure", "answer is not the one expected"),
        (replace(ENDED, console=CONSOLE.replace("exit 0", "signal 11")), "failure", "ended with signal 11"),
        (replace(ENDED, console=CONSOLE.replace("exit 0", "skip no /proc/vhpt")), "skip", "no /proc/vhpt"),
        (replace(ENDED, console="booting\n", report="a wild jump"), "crash", "a wild jump"),
        (machine.Ended(machine.LATE, "booting\n", "no end within 400 s", {}), "crash", "no end within 400 s"),
        (replace(ENDED, counted={"marks": []}), "error", "0 marks"),
        (replace(ENDED, counted={"marks": [[itanium.END, AFTER], [itanium.BEGIN, BEFORE]]}), "error", "2 marks"),
    ],
)
def test_how_a_cell_ends_is_its_outcome(ended: machine.Ended, outcome: str, what: str) -> None:
    made = judged(ended)
    assert made.outcome == outcome
    assert what in str(made.reason)


def test_what_the_machine_writes_is_kept_by_stream() -> None:
    for limit_s in (60, None):
        told = machine._ran(["sh", "-c", "echo booting; echo stopped >&2; exit 1"], limit_s)
        assert told == (1, "booting\n", "stopped\n")


def test_a_live_console_is_seen_as_it_comes_and_kept(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    # It goes on when the test has seen what it said.
    read, write = os.pipe()
    seen: list[bytes] = []

    def see(piece: bytes) -> None:
        seen.append(piece)
        os.write(write, b"\n")

    with pytest.MonkeyPatch.context() as patched, os.fdopen(read), os.fdopen(write, "wb"):
        patched.setattr(machine, "_show", see)
        words = ["sh", "-c", f"echo booting; read -r _ </proc/{os.getpid()}/fd/{read}; echo on; echo stopped >&2"]
        assert machine._ran(words, 60, live=True) == (0, "booting\non\n", "stopped\n")
    assert seen == [b"booting\n", b"on\n"]
    assert (
        machine._ran(["sh", "-c", "printf 'h\\303\\244\\377\\r\\n'; echo no >&2"], None, live=True)[1] == "hä\ufffd\n"
    )
    out, err = capfdbinary.readouterr()
    assert (out, err) == (b"h\303\244\377\r\n", b"")


def test_a_machine_that_hangs_is_ended_and_its_console_kept() -> None:
    status, console, report = machine._ran(["sh", "-c", "echo booting; exec sleep 1000"], 0.3)
    assert (status, console) == (machine.LATE, "booting\n")
    assert report.startswith("no end within 0.3 s of processor time or 1.2 s of real time")
