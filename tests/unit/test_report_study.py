# SPDX-License-Identifier: MIT
"""Results are read strictly, and no arithmetic invents a number or mixes kinds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import test_report_matrix as matrix

from abh.errors import AbhError
from abh.files import write_csv, write_text
from abh.report import page
from abh.report.load import load
from abh.report.study import Number, Plan, divide, make_study, missing, one_axis
from abh.schema.spec import Run

RUN = Run("sqlite", "kvm-hap", "thp")


def put(folder: Path, data: dict[str, Any], name: str | None = None) -> Path:
    path = folder / f"{name or data['run']}.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_no_results_says_what_to_run(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(AbhError) as caught:
            load(folder)
        assert "make study" in str(caught.value) and str(folder) in str(caught.value)


def test_results_of_a_model_alone_are_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local/a.json").touch()
    with pytest.raises(AbhError, match="no results to report"):
        load(tmp_path)
    (tmp_path / "mmu/i7-3770").mkdir(parents=True)
    (tmp_path / "mmu/i7-3770/a.json").touch()
    assert load(tmp_path) == {}
    assert "none" in page.facts([])[0].values[0][0]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("outcome", "fine", ("outcome", '"fine"', "success")),
        ("values", {"alloc_ratio": {"value": None, "unit": "ratio", "kind": "counted"}}, ("alloc_ratio", "reason")),
        ("values", {"alloc_ratio": {"value": "0.4", "unit": "ratio", "kind": "counted"}}, ("alloc_ratio", "0.4")),
        ("values", {"alloc_ratio": {"value": 0.4, "unit": "ratio", "kind": "guessed"}}, ("kind", "guessed", "counted")),
        ("run", "sqlite@kvm-hap~reg", ("sqlite@kvm-hap~reg", "sqlite@kvm-hap~thp")),
        ("colour", "blue", ("colour",)),
    ],
)
def test_a_malformed_result_names_file_and_key(tmp_path: Path, key: str, value: object, told: tuple[str, ...]) -> None:
    path = put(tmp_path, {**matrix.result("sqlite", "kvm-hap", "thp"), key: value}, str(RUN))
    with pytest.raises(AbhError) as caught:
        load(tmp_path)
    for word in (str(path), *told):
        assert word in str(caught.value)
    assert caught.value.next_step


def test_a_cut_off_or_misnamed_file_is_an_error(tmp_path: Path) -> None:
    path = put(tmp_path, matrix.result("sqlite", "kvm-hap", "thp"), "other")
    with pytest.raises(AbhError, match="name is not that of its run"):
        load(tmp_path)
    path.write_text('{"run": ', encoding="utf-8")
    with pytest.raises(AbhError, match="JSON") as caught:
        load(tmp_path)
    assert str(path) in str(caught.value)


def test_a_half_written_file_is_not_read(tmp_path: Path) -> None:
    put(tmp_path, matrix.result("sqlite", "kvm-hap", "thp"))
    (tmp_path / ".sqlite@kvm-hap~reg.json.x1.json").write_text("{", encoding="utf-8")
    assert list(load(tmp_path)) == [RUN]


def test_a_missing_number_says_why(tmp_path: Path) -> None:
    study = matrix.study(tmp_path)
    assert study.value(Run("xalan", "xen-shadow", "reg"), "alloc_ratio").reason == "not run"
    assert (study.value(Run("mcf", "xen-pv", "reg"), "alloc_ratio").reason or "").startswith("crash: no answer")
    assert study.value(Run("mcf", "native", "reg"), "host_huge_kib").reason == "no layer below the native system"
    assert study.value(Run("mcf", "native", "reg"), "speed").reason == "the result has no value `speed`"
    assert study.relative(Run("mcf", "xen-pv", "thp"), "minor_faults").reason == (
        "mcf@xen-pv~reg: " + str(study.value(Run("mcf", "xen-pv", "reg"), "minor_faults").reason)
    )


def test_numbers_of_an_unsuccessful_run_do_not_count(tmp_path: Path) -> None:
    data = {**matrix.result("sqlite", "kvm-hap", "thp"), "outcome": "failure", "reason": "wrong answer"}
    put(tmp_path, data)
    assert data["values"]
    assert make_study(Plan(), load(tmp_path)).value(RUN, "alloc_ratio") == missing("failure: wrong answer")


def test_relative_needs_the_same_size(tmp_path: Path) -> None:
    put(tmp_path, matrix.result("sqlite", "kvm-hap", "thp"))
    put(tmp_path, {**matrix.result("sqlite", "kvm-hap", "reg"), "size": "paper"})
    study = make_study(Plan(), load(tmp_path))
    assert study.relative(RUN, "minor_faults").reason == "this run's size is smoke, that of sqlite@kvm-hap~reg is paper"


def test_relative_and_coverage_are_ratios(tmp_path: Path) -> None:
    study = matrix.study(tmp_path)
    faults = {policy: study.value(Run("sqlite", "kvm-hap", policy), "minor_faults").value for policy in ("reg", "thp")}
    expected = Number(faults["thp"] / faults["reg"], "ratio", "counted")
    assert study.relative(RUN, "minor_faults") == expected
    huge, mapped = (study.value(RUN, f"host_{name}_kib").value for name in ("huge", "mapped"))
    assert study.host_coverage(RUN) == Number(huge / mapped, "ratio", "counted")


def test_kinds_and_units_do_not_mix() -> None:
    counted, emulated = Number(1, "s", "counted"), Number(1, "s", "emulated")
    assert one_axis([counted, counted, missing("not run")]) == ("s", "counted")
    for other in (emulated, Number(1, "KiB", "counted"), Number(None, "s", "emulated", "lost")):
        with pytest.raises(AbhError, match="share one axis"):
            one_axis([counted, other])
        with pytest.raises(AbhError, match="share one axis"):
            divide(counted, other)


def test_dividing_by_zero_is_not_a_number() -> None:
    zero = Number(0, "count", "counted")
    assert divide(zero, zero, "base: ") == missing("base: the number to divide by is 0")
    assert divide(zero, Number(5, "count", "counted")).value == 0


def test_a_study_is_what_was_run(tmp_path: Path) -> None:
    for environment, policy in (("kvm-hap", "thp"), ("native", "reg")):
        put(tmp_path, matrix.result("sqlite", environment, policy))
    put(tmp_path, matrix.result("sqlite", "native", "reg") | {"run": "zlib@native~reg", "workload": "zlib"})
    known = Plan(("sqlite", "cc1"), ("native", "xen-pv", "kvm-hap"), ("reg", "thp", "abh"))
    study = make_study(known, load(tmp_path))
    assert study.plan.workloads == ("sqlite", "zlib"), "what only the results know comes last"
    assert (study.plan.environments, study.plan.policies) == (("native", "kvm-hap"), ("reg", "thp"))
    assert len(study.not_run()) == 5, "of what was run at all, each missing cell is one"
    assert study.known.policies == known.policies and study.known.workloads == ("sqlite", "cc1", "zlib")


def test_a_median_over_draws_keeps_its_range() -> None:
    top, bottom = Number(30, "count", "counted", None, 20, 60), Number(10, "count", "counted", None, 8, 20)
    assert divide(top, bottom) == Number(3.0, "ratio", "counted", None, 1.0, 7.5)
    assert divide(top, Number(10, "count", "counted")) == Number(3.0, "ratio", "counted", None, 2.0, 6.0)
    assert top.map(lambda value: -value) == Number(-30, "count", "counted", None, -60, -20)
    assert missing("not run").map(lambda value: -value) == missing("not run")


def test_writing_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "new" / "x.csv"
    write_csv(target, [{"a": None, "b": 0, "c": 0.25}])
    assert target.read_text() == "a,b,c\nn/a,0,0.25\n"

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(AbhError, match="cannot be written"):
        write_text(target, "half")
    assert target.read_text().startswith("a,b,c") and os.listdir(target.parent) == ["x.csv"]
