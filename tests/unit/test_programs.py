# SPDX-License-Identifier: MIT
"""Real programs under ABH beside stock: what is judged, what is explained, and what the command and the page say."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_report_matrix as matrix

from abh import paths
from abh.build import components
from abh.commands import compat, study
from abh.compare import programs
from abh.compare.programs import AIMS, Line
from abh.errors import AbhError
from abh.report import figures
from abh.report import programs as report
from abh.report.load import load
from abh.report.study import Plan, make_study
from abh.schema import spec

FIGURE = figures.load(figures.FIGURES / "compat.py")
MIB = 1024
STOCK = {
    "alloc_ratio": 0.5, "guest_huge_kib": 40 * MIB, "memory_peak_kib": 200 * MIB, "memory_idle_1s_kib": 20 * MIB,
    "memory_idle_10s_kib": 20 * MIB, "creep_kib": 0, "instructions": 1_000_000, "mappings_peak": 100,
}  # fmt: skip


def put(folder: Path, run: str, outcome: str = "success", **values: float) -> None:
    """A result of this run; the values given are counted."""
    workload, environment, policy = run.replace("~", "@").split("@")
    data: dict[str, Any] = matrix.result(workload, environment, "thp")
    data |= {"run": run, "policy": policy, "size": "paper", "outcome": outcome}
    data["reason"] = None if outcome == "success" else "it did not"
    data["values"] = {name: {"value": value, "unit": "count", "kind": "counted"} for name, value in values.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{run}.json").write_text(json.dumps(data), encoding="utf-8")


def judged(folder: Path, *lines: Line, outcome: str = "success", **changed: float) -> dict[str, programs.Verdict]:
    put(folder, "xz@native~thp", **STOCK)
    put(folder, "xz@native~abh", outcome, **{**STOCK, **changed})
    return {each.quantity: each for each in programs.judge(load(folder), lines)}


def line(quantity: str, **more: Any) -> Line:
    return Line(**{"program": "xz", "allows": {"native": 0.1}, "quantity": quantity, "reason": "So it is.", **more})


def put_draws(folder: Path, policy: str, quantity: str, low: float, middle: float, high: float) -> None:
    put(folder, f"xz@native~{policy}", **{**STOCK, quantity: middle})
    change(folder, f"xz@native~{policy}", lambda data: data["values"][quantity].update(low=low, high=high))


def change(folder: Path, run: str, how: Callable[[dict[str, Any]], object]) -> None:
    path = folder / f"{run}.json"
    data = json.loads(path.read_text())
    how(data)
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("quantity", "kept", "missed"),
    [
        ("alloc_ratio", 0.4951, 0.494),
        ("guest_huge_kib", 40 * MIB, 40 * MIB - 1),
        ("memory_peak_kib", 206 * MIB, 206 * MIB + 1),  # 3 %
        ("memory_idle_1s_kib", 22 * MIB, 22 * MIB + 1),  # 2 MiB, of which 3 % is less
        ("memory_idle_10s_kib", 22 * MIB, 22 * MIB + 1),
        ("creep_kib", 6 * MIB, 6 * MIB + 1),  # 3 % of stock's peak
        ("instructions", 1_005_000, 1_005_001),
        ("mappings_peak", 116, 117),
    ],
)
def test_each_aim_has_its_bound(tmp_path, quantity, kept, missed):
    assert {aim.quantity for aim in AIMS} == set(STOCK)
    for value, is_missed in ((kept, False), (missed, True)):
        found = judged(tmp_path, **{quantity: value})
        assert {name for name, each in found.items() if each.is_missed} == ({quantity} if is_missed else set())


def test_better_is_within_every_aim(tmp_path):
    better = {name: value * (2 if name in ("alloc_ratio", "guest_huge_kib") else 0.5) for name, value in STOCK.items()}
    assert not any(each.is_missed for each in judged(tmp_path, **better).values())


def test_an_outcome_that_differs_is_missed_and_nothing_else_is_compared(tmp_path):
    found = judged(tmp_path, outcome="failure")
    assert list(found) == ["outcome"] and found["outcome"].is_missed
    assert found["outcome"].words == "xz@native~abh: failure, under thp success"


@pytest.mark.parametrize("quantity", STOCK)
@pytest.mark.parametrize(("policy", "other"), [("abh", "thp"), ("thp", "abh")])
@pytest.mark.parametrize("is_null", [True, False])
def test_what_is_known_of_one_alone_is_missed(tmp_path, quantity, policy, other, is_null):
    put(tmp_path, f"xz@native~{other}", **STOCK)
    put(tmp_path, f"xz@native~{policy}", **STOCK)
    unknown = {"value": None, "unit": "count", "kind": "counted", "reason": "the agent said nothing"}
    run = f"xz@native~{policy}"
    change(tmp_path, run, lambda data: data["values"].pop(quantity))
    if is_null:
        change(tmp_path, run, lambda data: data["values"].update({quantity: unknown}))
    allowed = line(quantity, allows={"native": 1.0})
    found = {each.quantity: each for each in programs.judge(load(tmp_path), [allowed])}
    assert found[quantity].is_missed and found[quantity].line is None, "no line explains what is not known"
    assert f"is not known under {policy}" in found[quantity].words and report.text(found[quantity]) == "▴not judged"
    assert programs.not_needed(list(found.values()), [allowed]) == []


def test_what_neither_was_asked_for_is_not_missed_and_what_both_lack_is(tmp_path):
    asked_of_all = {name: value for name, value in STOCK.items() if "idle" not in name and name != "creep_kib"}
    for policy in ("thp", "abh"):
        put(tmp_path, f"xz@native~{policy}", **asked_of_all)
    assert not any(each.is_missed for each in programs.judge(load(tmp_path), ()))
    for quantity in asked_of_all:
        for policy in ("thp", "abh"):
            put(tmp_path, f"xz@native~{policy}", **asked_of_all)
            change(tmp_path, f"xz@native~{policy}", lambda data, name=quantity: data["values"].pop(name))
        assert {each.quantity for each in programs.judge(load(tmp_path), ()) if each.is_missed} == {quantity}


@pytest.mark.parametrize(
    ("quantity", "stock", "abh", "is_chance"),
    [
        ("memory_peak_kib", (190, 200, 219), (198, 208, 240), True),
        ("memory_peak_kib", (190, 200, 219), (198, 212, 240), True),  # twice 3 %
        ("memory_peak_kib", (190, 200, 219), (198, 213, 240), False),  # more
        ("memory_peak_kib", (190, 200, 207), (198, 208, 240), False),  # none of stock's is so high
        ("memory_peak_kib", (190, 200, 219), (201, 208, 240), False),  # and none of ABH's so low
        ("memory_peak_kib", (199, 200, 300), (300, 400, 600), False),
        ("memory_peak_kib", (199, 200, 300), (199, 240, 241), False),
        ("memory_peak_kib", (190, 200, 219), (199, 203, 204), False),  # within the aim
        ("guest_huge_kib", (36, 40, 40), (36, 36, 40), True),  # two hugepages
        ("guest_huge_kib", (34, 40, 40), (34, 34, 40), False),
        ("guest_huge_kib", (0, 40, 40), (0, 0, 0), False),
        ("alloc_ratio", (0.45, 0.5, 0.6), (0.3, 0.492, 0.51), True),
        ("alloc_ratio", (0.45, 0.5, 0.6), (0.3, 0.488, 0.51), False),
    ],
)
def test_chance_excuses_draws_that_lie_among_each_other_and_no_more_than_twice_the_aim(
    tmp_path, quantity, stock, abh, is_chance
):
    unit = MIB if quantity.endswith("kib") else 1
    for policy, draws in (("thp", stock), ("abh", abh)):
        put_draws(tmp_path, policy, quantity, *(each * unit for each in draws))
    allowed = line(quantity, allows={"native": 1.0})
    (found,) = [each for each in programs.judge(load(tmp_path), [allowed]) if each.quantity == quantity]
    assert found.is_chance == is_chance and found.is_missed is False
    assert (found.line is None) == (is_chance or found.is_kept), "chance needs no line"
    assert programs.not_needed([found], [allowed]) == ([] if found.line else [(allowed, "native")])
    (found,) = [each for each in programs.judge(load(tmp_path), ()) if each.quantity == quantity]
    assert found.is_missed == (not found.is_kept and not is_chance)


def test_a_program_is_run_as_often_as_it_asks_for(monkeypatch):
    asked = []
    monkeypatch.setattr(study, "perform", lambda cells, *_: asked.extend(cells) or 0)
    monkeypatch.setattr(compat, "_judged", lambda *_: 0)
    compat.run(words("gawk", "waves", "--environment", "native"))
    assert {(each.workload.name, each.draws) for each in asked} == {("gawk", 1), ("waves", 15)}
    asked.clear()
    compat.run(words("waves", "--environment", "native", "--draws", "2"))
    assert {each.draws for each in asked} == {2}


def other_root(data: dict[str, Any]) -> None:
    data["provenance"]["roots"]["build"] = "1"


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (lambda data: data.update(size="smoke"), "size is paper under thp, smoke under abh"),
        (lambda data: data.update(draws=3), "draws is 1 under thp, 3 under abh"),
        (
            lambda data: data["provenance"]["series"].update({"kernel-patches/6.12": "ef" * 32}),
            "kernel-patches/6.12 is abababababababababab under thp, efefefefefefefefefef under abh",
        ),
        (lambda data: data["provenance"]["components"].pop("qemu"), "under thp, absent under abh"),
        (other_root, "root build is 0 under thp, 1 under abh"),
    ],
)
def test_results_of_what_is_not_the_same_are_not_judged_and_missed(tmp_path, how, says):
    judged(tmp_path)
    change(tmp_path, "xz@native~abh", how)
    (found,) = programs.judge(load(tmp_path), [line("outcome", allows={"native": 1.0})])
    assert found.is_missed and found.words.startswith("xz@native~abh: not judged: ") and says in found.words


def test_a_commit_and_a_host_may_differ(tmp_path):
    judged(tmp_path)
    change(tmp_path, "xz@native~abh", lambda data: data["provenance"].update(commit="1", machine="another", seed=2))
    assert not any(each.is_missed for each in programs.judge(load(tmp_path), ()))


def test_what_was_asked_for_and_has_no_result_is_not_judged_and_missed(tmp_path):
    put(tmp_path, "xz@native~thp", **STOCK)
    put(tmp_path, "xz@kvm-hap~abh", **STOCK)
    put(tmp_path, "gawk@native~abh-kernel", **STOCK)  # of another comparison
    asked = spec.Run("git-gc", "native", "abh")
    found = programs.judge(load(tmp_path), (), [asked])
    assert all(each.is_missed for each in found)
    assert {each.words for each in found} == {
        "xz@native~abh: not judged: there is no result under abh",
        "xz@kvm-hap~abh: not judged: there is no result under thp",
        "git-gc@native~abh: not judged: there is no result under thp",
    }


def test_what_is_explained_is_not_missed_as_far_as_the_line_goes(tmp_path):
    within, beyond = line("memory_peak_kib"), line("memory_peak_kib", allows={"native": 0.05, "kvm-hap": 0.1})
    assert not judged(tmp_path, within, memory_peak_kib=218 * MIB)["memory_peak_kib"].is_missed
    found = judged(tmp_path, beyond, memory_peak_kib=218 * MIB)["memory_peak_kib"]
    assert found.is_missed and "worse by 9.0%, more than the 5% explained" in found.words
    elsewhere = line("memory_peak_kib", allows={"kvm-hap": 0.1})
    assert judged(tmp_path, elsewhere, memory_peak_kib=218 * MIB)["memory_peak_kib"].is_missed


def test_another_policy_is_judged_beside_stock_and_has_lines_of_its_own(tmp_path):
    put(tmp_path, "xz@native~thp", **STOCK)
    put(tmp_path, "xz@native~abh", **STOCK)
    put(tmp_path, "xz@native~reservation", **{**STOCK, "memory_peak_kib": 218 * MIB})
    put(tmp_path, "gawk@native~abh", **STOCK)  # of another comparison
    abhs, own = line("memory_peak_kib"), line("memory_peak_kib", policy="reservation")
    for given, is_missed in ((abhs, True), (own, False)):
        found = programs.judge(load(tmp_path), [given], policy="reservation")
        assert {str(each.run) for each in found} == {"xz@native~reservation"}
        assert [each.quantity for each in found if each.is_outside] == ["memory_peak_kib"]
        assert any(each.is_missed for each in found) == is_missed
    assert programs.not_needed(programs.judge(load(tmp_path), [own]), [own]) == [], (
        "another policy's line is no concern"
    )


def test_creep_is_beside_the_peak(tmp_path):
    found = judged(tmp_path, line("creep_kib", allows={"native": 0.05}), creep_kib=10 * MIB)["creep_kib"]
    assert found.words == "xz@native~abh: creep 0 -> 10,240, worse by 5.0% of peak memory" and not found.is_missed


def test_of_a_line_each_environment_is_told_that_does_not_need_it(tmp_path):
    needed, idle = line("memory_peak_kib"), line("instructions")
    half = line("memory_peak_kib", allows={"native": 0.1, "kvm-hap": 0.1})
    verdicts = list(judged(tmp_path, memory_peak_kib=218 * MIB).values())
    assert not programs.not_needed(verdicts, [needed, half, line("instructions", allows={"kvm-hap": 0.1})])
    assert programs.not_needed(verdicts, [needed, half, idle]) == [(idle, "native")]
    for policy in ("thp", "abh"):
        put(tmp_path, f"xz@kvm-hap~{policy}", **STOCK)
    assert programs.not_needed(programs.judge(load(tmp_path), ()), [half]) == [(half, "kvm-hap")]


LINE = 'program = "xz"\nquantity = "instructions"\nallows = { native = 1 }\nreason = "x"'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('program = "xzz"\nquantity = "instructions"\nallows = { native = 1 }\nreason = "x"', "xzz"),
        ('program = "xz"\nquantity = "instruction"\nallows = { native = 1 }\nreason = "x"', "instruction"),
        ('program = "xz"\nquantity = "instructions"\nallows = { xen-pv = 1 }\nreason = "x"', "xen-pv"),
        ('program = "xz"\nquantity = "instructions"\nallows = { native = -1.0 }\nreason = "x"', "allows"),
        ('program = "xz"\nquantity = "instructions"\npolicy = "ahb"\nallows = { native = 1 }\nreason = "x"', "ahb"),
        ('program = "xz"\nquantity = "instructions"\nallows = {}\nreason = "x"', "allows"),
        ('program = "xz"\nquantity = "instructions"\nallows = { native = 1 }', "reason"),
        ('program = "xz"\nquantity = "instructions"\npolicy = "thp"\nallows = { native = 1 }\nreason = "x"', "thp"),
        ('program = "xz"\nquantity = "instructions"\nallow = { native = 1 }\nreason = "x"', "did you mean `allows`"),
        (f"{LINE}\n[[line]]\n{LINE}", "line 2, of xz and instructions"),
    ],
)
def test_a_line_of_what_there_is_not_is_refused(tmp_path, text, says):
    folder = tmp_path / "workloads" / programs.GROUP / "xz"
    folder.mkdir(parents=True)
    source = paths.WORKLOADS / programs.GROUP / "xz/workload.toml"
    (folder / source.name).write_text(source.read_text())
    (tmp_path / programs.EXPLAINED).write_text(f"[[line]]\n{text}\n")
    with pytest.raises(AbhError, match=str(programs.EXPLAINED)) as caught:
        programs.explained(tmp_path)
    assert says in str(caught.value)


def test_the_projects_own_lines_are_of_programs_that_there_are():
    assert all(each.program in spec.workloads(group=programs.GROUP) for each in programs.explained())


# --- the command and the page -----------------------------------------------------------------------------------


def words(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    compat.add_arguments(parser)
    return parser.parse_args(given)


def test_the_cells_are_all_programs_in_both_environments_under_both_policies(capsys):
    assert compat.run(words("--dry-run")) == 0
    found = [spec.Run.parse(each) for each in capsys.readouterr().out.split()]
    assert len(found) == len(set(found)) == 4 * len(spec.workloads(group=programs.GROUP)) > 80
    assert {(run.environment, run.policy) for run in found} == {
        (environment, policy) for environment in programs.ENVIRONMENTS for policy in ("thp", "abh")
    }
    assert compat.run(words("xz", "--environment", "native", "--dry-run")) == 0
    assert capsys.readouterr().out.split() == ["xz@native~thp", "xz@native~abh"]
    assert compat.run(words("xz", "--environment", "native", "--policy", "reservation", "--dry-run")) == 0
    assert capsys.readouterr().out.split() == ["xz@native~thp", "xz@native~reservation"]
    with pytest.raises(AbhError, match="stock is what a policy stands beside"):
        compat.run(words("xz", "--policy", "thp"))
    with pytest.raises(AbhError, match="policy `sf` is not for environment `native`"):
        compat.run(words("xz", "--environment", "native", "--policy", "sf", "--dry-run"))


@pytest.mark.parametrize(("peak", "status"), [(200 * MIB, 0), (218 * MIB, 1)])
def test_the_status_says_whether_anything_is_outside(tmp_path, monkeypatch, capsys, peak, status):
    monkeypatch.setattr(paths, "MEASURED", tmp_path)
    monkeypatch.setattr(programs, "explained", tuple)

    def perform(cells, folder, cores, report):
        assert folder == tmp_path / "paper/compat" and {each.size for each in cells} == {"paper"}
        judged(folder, memory_peak_kib=peak)
        put(folder, "gawk@native~thp", **STOCK)  # of another run, of programs that were not asked for
        put(folder, "gawk@native~abh", "crash")
        return 0

    monkeypatch.setattr(study, "perform", perform)
    assert compat.run(words("xz", "--environment", "native")) == status
    said = capsys.readouterr().out
    assert "gawk" not in said and f"outside an aim: {status}" in said
    assert ("xz@native~abh: peak memory 204,800 -> 223,232, worse by 9.0%" in said) == bool(status)


@pytest.mark.parametrize(("allowed", "explained"), [(0.08, 0), (0.1, 1)])
def test_what_goes_beyond_its_line_is_told_once(tmp_path, monkeypatch, capsys, allowed, explained):
    monkeypatch.setattr(paths, "MEASURED", tmp_path)
    monkeypatch.setattr(programs, "explained", lambda: (line("memory_peak_kib", allows={"native": allowed}),))

    def perform(cells, folder, cores, report):
        judged(folder, memory_peak_kib=218 * MIB)
        return 0

    monkeypatch.setattr(study, "perform", perform)
    assert compat.run(words("xz", "--environment", "native")) == 1 - explained
    said = capsys.readouterr().out
    assert f"outside an aim: {1 - explained}\n" in said and f"explained: {explained}\n" in said


def test_json_has_each_number_with_what_was_judged_of_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "MEASURED", tmp_path)
    monkeypatch.setattr(programs, "explained", lambda: (line("memory_peak_kib", allows={"native": 0.1}),))
    monkeypatch.setattr(study, "perform", lambda cells, folder, *_: judged(folder, memory_peak_kib=218 * MIB) and 0)
    report: dict[str, Any] = {}
    assert compat._run(words("xz", "git-gc", "--environment", "native"), report) == 1
    rows = {(row["run"], row["quantity"]): row for row in report["verdicts"]}
    peak = rows["xz@native~abh", "memory_peak_kib"]
    assert (peak["stock"], peak["abh"], peak["allowed"]) == (200 * MIB, 218 * MIB, 0.1)
    assert peak["verdict"] == "explained" and peak["worse_by"] == pytest.approx(0.09) and peak["reason"] == "So it is."
    assert rows["xz@native~abh", "instructions"]["verdict"] == "within"
    lost = rows["git-gc@native~abh", programs.OUTCOME]
    assert lost["verdict"] == "not judged" and lost["stock"] is lost["abh"] is lost["worse_by"] is None
    assert json.loads(json.dumps(report["verdicts"])) == report["verdicts"]


@pytest.mark.parametrize("policy", ["thp", "abh"])
def test_the_status_says_that_a_pair_was_not_judged(tmp_path, monkeypatch, capsys, policy):
    monkeypatch.setattr(paths, "MEASURED", tmp_path)
    monkeypatch.setattr(programs, "explained", tuple)

    def perform(cells, folder, cores, report):
        judged(folder)
        (folder / f"xz@native~{policy}.json").unlink()
        put(folder, "gawk@native~thp", **STOCK)
        put(folder, "gawk@native~abh", **STOCK)
        return 0

    monkeypatch.setattr(study, "perform", perform)
    report: dict[str, Any] = {}
    assert compat._run(words("xz", "gawk", "git-gc", "--environment", "native"), report) == 1
    said = capsys.readouterr().out
    assert "not judged, which counts as outside: 2\n" in said and "outside an aim: 0\n" in said
    assert f"xz@native~abh: not judged: there is no result under {policy}" in said
    assert "git-gc@native~abh: not judged" in said and len(report["missed"]) == 2


def test_a_line_that_a_run_does_not_need_is_told_and_no_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "MEASURED", tmp_path)
    monkeypatch.setattr(programs, "explained", lambda: (line("instructions"),))
    monkeypatch.setattr(study, "perform", lambda cells, folder, *_: judged(folder) and 0)
    report: dict[str, Any] = {}
    assert compat._run(words("xz", "--environment", "native"), report) == 0
    assert "explained, and within the aim in this run: 1\n  xz@native: instructions\n" in capsys.readouterr().out
    assert report["not_needed"] == ["xz@native: instructions"] and not report["explained"]


def test_the_page_marks_what_is_outside_and_gives_the_reasons(tmp_path, monkeypatch):
    lines = (line("instructions", allows={"native": 0.2}),)
    monkeypatch.setattr(programs, "explained", lambda: lines)
    plan = Plan(("sqlite",), ("native",), ("thp", "abh"))
    assert "make compat" in FIGURE.render(make_study(plan, {}, tmp_path)) and FIGURE.table(make_study(plan, {})) == []
    judged(tmp_path / "paper/compat", *lines, memory_peak_kib=218 * MIB, instructions=1_100_000)
    study_ = make_study(plan, {}, tmp_path)
    html = str(FIGURE.render(study_))
    assert html.count('class="out"') == 1 and "200.0 +9.0%" in html
    assert html.count('class="differs"') == 1 and "So it is." in html
    rows = {row["quantity"]: row for row in FIGURE.table(study_)}
    assert (rows["memory_peak_kib"]["missed"], rows["instructions"]["missed"]) == (True, False)
    assert rows["instructions"]["reason"] == "So it is." and rows["alloc_ratio"]["value"] == 0.5


def test_a_line_that_explains_builds_no_program_anew():
    reads_not = components._unread(components.COMPONENTS["compat-workloads"])
    assert reads_not(paths.CHECKOUT / programs.EXPLAINED)
    assert not reads_not(paths.CHECKOUT / "workloads/compat/xz/workload.toml")
