# SPDX-License-Identifier: MIT
"""The result file: what goes in comes out, nothing wrong gets in, and Alloc.Ratio is the paper's."""

from __future__ import annotations

import csv
import datetime
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from abh.errors import AbhError
from abh.paths import CHECKOUT
from abh.schema import result
from abh.schema.result import Provenance, Result, Value, alloc_ratio, kind_of_unit

# Table 1 of the paper: regular faults, huge faults, printed ratio in percent.
TABLE_1 = {
    "403.gcc": (679035, 3862, "74.44"),
    "429.mcf": (1574, 835, "99.63"),
    "471.omnetpp": (46702, 0, "0.00"),
    "473.astar": (153892, 105, "25.89"),
    "483.xalancbmk": (124534, 0, "0.00"),
    "433.milc": (876160, 17560, "91.12"),
    "434.zeusmp": (471, 254, "99.64"),
    "436.cactusADM": (476194, 323, "25.78"),
    "450.soplex": (59761, 173, "59.71"),
    "459.GemsFDTD": (38761, 358, "82.54"),
    "dedup": (3404457, 675, "9.22"),
    "canneal": (195282, 87, "18.57"),
    "streamcluster": (2832, 49, "89.86"),
}

texts = st.text(min_size=1).filter(lambda text: bool(text.strip()))
words = st.from_regex(r"[a-z][a-z0-9]{0,9}(-[a-z0-9]{1,5})?", fullmatch=True)
kinds = st.sampled_from(["counted", "modelled", "emulated", "measured", "reference"])
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
known = st.builds(
    Value,
    value=numbers,
    unit=texts,
    kind=kinds,
    reason=st.none() | texts,
    low=st.none() | numbers,
    high=st.none() | numbers,
)
unknown = st.builds(Value, value=st.none(), unit=texts, kind=kinds, reason=texts)
provenances = st.builds(
    Provenance,
    commit=texts,
    series=st.dictionaries(texts, texts, max_size=3),
    components=st.dictionaries(texts, texts, max_size=3),
    roots=st.dictionaries(texts, texts, max_size=3),
    command=texts,
    seed=st.integers(),
    machine=texts,
    when=st.datetimes(timezones=st.just(datetime.UTC)).map(lambda moment: moment.isoformat()),
)


@st.composite
def results(draw: st.DrawFn) -> Result:
    workload, environment, policy = draw(words), draw(words), draw(words)
    outcome = draw(st.sampled_from(result.OUTCOMES))
    names = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
    return Result(
        run=f"{workload}@{environment}~{policy}",
        workload=workload,
        environment=environment,
        policy=policy,
        size=draw(st.sampled_from(["smoke", "paper"])),
        outcome=outcome,
        reason=None if outcome == "success" else draw(texts),
        values=draw(st.dictionaries(names, known | unknown, max_size=4)),
        provenance=draw(provenances),
        draws=draw(st.integers(1, 99)),
    )


def example(**changes: Any) -> dict[str, Any]:
    """A file's content as the contract in docs/map.md shows it, with changes."""
    table: dict[str, Any] = {
        "run": "sqlite@kvm-hap~thp",
        "workload": "sqlite",
        "environment": "kvm-hap",
        "policy": "thp",
        "size": "smoke",
        "outcome": "success",
        "reason": None,
        "values": {
            "alloc_ratio": {"value": 0.42, "unit": "ratio", "kind": "counted"},
            "host_huge_kib": {"value": None, "unit": "KiB", "kind": "counted", "reason": "no counter"},
        },
        "provenance": {
            "commit": "abc",
            "series": {"kernel-patches/6.12": "sha256:1"},
            "roots": {"build": "0"},
            "components": {"linux": "6.12.117-1"},
            "command": "abh run sqlite@kvm-hap~thp",
            "seed": 1,
            "machine": "kvm",
            "when": "2026-01-01T00:00:00+00:00",
        },
        "draws": 1,
    }
    return {**table, **changes}


def refused(tmp_path: Path, content: object, *expected: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(AbhError) as caught:
        result.read(path)
    for text in (str(path), *expected):
        assert text in str(caught.value)


def test_an_object_that_is_no_result_is_to_be_made_anew(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(AbhError, match="missing key") as caught:
        result.read(tmp_path / "run.json")
    assert caught.value.next_step == "delete it and run again"


@given(given=results())
def test_what_is_written_is_read_back(given: Result, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "one.json"  # a folder for each of 100 examples takes long
    result.write(given, path)
    assert result.read(path) == given
    assert [type(value.value) for value in result.read(path).values.values()] == [
        type(value.value) for value in given.values.values()
    ]


def test_the_file_is_the_contract(tmp_path: Path) -> None:
    source, copy = tmp_path / "source.json", tmp_path / "new" / "copy.json"
    source.write_text(json.dumps(example()), encoding="utf-8")
    result.write(result.read(source), copy)
    assert json.loads(copy.read_text(encoding="utf-8")) == example()
    assert copy.stat().st_mode & 0o777 == 0o644


def test_a_result_that_does_not_say_of_how_many_draws_it_is_is_of_one(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps({name: each for name, each in example().items() if name != "draws"}), encoding="utf-8")
    assert result.read(path).draws == 1


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(example()), encoding="utf-8")
    before = path.read_bytes()
    changed = result.read(path).model_copy(update={"size": "paper"})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AbhError, match="cannot write"):
        result.write(changed, path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]


def test_the_content_is_on_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source.json").write_text(json.dumps(example()), encoding="utf-8")
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda old, new: (calls.append("rename"), replace(old, new)))
    result.write(result.read(tmp_path / "source.json"), tmp_path / "x.json")
    assert calls == ["fsync", "rename", "fsync"]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), True, "1"])
def test_only_a_finite_number_is_a_value(number: Any) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Value(value=number, unit="count", kind="counted")


def test_a_value_smuggled_past_the_type_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "source.json").write_text(json.dumps(example()), encoding="utf-8")
    nan = Value.model_construct(value=float("nan"), unit="count", kind="counted", reason=None)
    wrong = result.read(tmp_path / "source.json").model_copy(update={"values": {"x": nan}})
    with pytest.raises(ValueError):
        result.write(wrong, tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"value": None, "unit": "count", "kind": "counted"}, "without a reason"),
        ({"value": 1, "unit": "", "kind": "counted"}, "values.v.unit"),
        ({"value": 1, "kind": "counted"}, "missing key `values.v.unit`"),
        ({"value": 1, "unit": "s", "kind": "count"}, "did you mean `counted`"),
        ({"value": True, "unit": "s", "kind": "counted"}, "values.v.value"),
        ({"value": "1", "unit": "s", "kind": "counted"}, "values.v.value"),
        ({"value": 1, "unit": "s", "kind": "counted", "reson": "x"}, "did you mean `reason`"),
    ],
)
def test_an_ill_formed_value_is_refused(tmp_path: Path, value: dict[str, Any], expected: str) -> None:
    refused(tmp_path, example(values={"v": value}), expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"run": "sqlite@kvm-hap~reg"}, "sqlite@kvm-hap~thp"),
        ({"outcome": "succes"}, "did you mean `success`"),
        ({"outcome": "skip"}, "skip without a reason"),
        ({"outcome": "crash", "reason": "  "}, "reason"),
        ({"reason": "fine"}, "a success with a reason"),
        ({"size": "large"}, "smoke, paper"),
        ({"extra": 1}, "unknown key `extra`"),
        ({"values": {"Not-Snake": {"value": 1, "unit": "s", "kind": "counted"}}}, "snake_case"),
        ({"values": []}, "a table"),
        ({"provenance": {**example()["provenance"], "when": "2026-01-01T00:00:00"}}, "ISO 8601"),
        ({"provenance": {**example()["provenance"], "seed": 1.5}}, "a whole number"),
    ],
)
def test_a_departure_from_the_contract_is_refused(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    refused(tmp_path, example(**changes), expected)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("NaN", "NaN is not JSON"), ("Infinity", "is not JSON"), ("-Infinity", "is not JSON"), ("1e999", "finite number")],
)
def test_a_number_that_is_not_one_is_refused_in_the_file(tmp_path: Path, word: str, expected: str) -> None:
    refused(tmp_path, json.dumps(example()).replace("0.42", word), expected)


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"run": 1, "run": 2}', "[" * 100_000])
def test_a_file_that_is_no_json_object_is_refused(tmp_path: Path, content: str) -> None:
    refused(tmp_path, content, "run again")


def test_a_missing_file_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(AbhError, match=r"nothing\.json"):
        result.read(tmp_path / "nothing.json")


@pytest.mark.parametrize("row", TABLE_1)
def test_alloc_ratio_reproduces_table_1(row: str) -> None:
    regular, huge, printed = TABLE_1[row]
    value = alloc_ratio(huge, regular)
    assert value.value is not None
    assert f"{100 * value.value:.2f}" == printed
    assert (value.unit, value.kind) == ("ratio", "counted")


def test_the_reference_file_has_the_same_table_1() -> None:
    kept: dict[str, dict[str, str]] = {}
    with (CHECKOUT / "analysis/reference/abh/tab01.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            kept.setdefault(row["row"], {})[row["quantity"]] = row["value"]
    assert {row: (int(each["regular_faults"]), int(each["huge_faults"])) for row, each in kept.items()} == {
        row: (regular, huge) for row, (regular, huge, _) in TABLE_1.items()
    }


def test_alloc_ratio_of_no_fault_is_unknown() -> None:
    value = alloc_ratio(0, 0)
    assert value.value is None
    assert value.reason == "no page fault was counted"


@pytest.mark.parametrize("faults", [(-1, 0), (0, -1), (1.0, 2), (True, 2), (None, 1)])
def test_alloc_ratio_refuses_what_is_no_count(faults: tuple[Any, Any]) -> None:
    with pytest.raises(AbhError, match="not a number of faults"):
        alloc_ratio(*faults)


@pytest.mark.parametrize(
    ("unit", "kind"),
    [("s", "emulated"), ("us", "emulated"), ("MiB/s", "emulated"), ("count", "counted"), ("KiB", "counted")],
)
def test_a_time_is_never_counted(unit: str, kind: str) -> None:
    assert kind_of_unit(unit) == kind
