# SPDX-License-Identifier: MIT
"""`abh list` shows what there is; `abh new-workload` writes something that works as it is."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from abh import paths
from abh.commands import list as list_command
from abh.commands import new_workload
from abh.errors import AbhError
from abh.schema import spec


def arguments(module: object, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)  # type: ignore[attr-defined]
    return parser.parse_args(words)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two policies, one stub workload and no environment."""
    policies = tmp_path / "vm-configs" / "policies"
    policies.mkdir(parents=True)
    (policies / "thp.toml").write_text('purpose = "On."\norder = 2\n', encoding="utf-8")
    (policies / "reg.toml").write_text('purpose = "Off."\norder = 1\n', encoding="utf-8")
    new_workload.write_stub("a-program", tmp_path / "workloads")
    monkeypatch.setattr(list_command, "CHECKOUT", tmp_path)
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    monkeypatch.setattr(paths, "WORKLOADS", tmp_path / "workloads")
    return tmp_path


def test_a_line_for_each_name_in_order(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list_command.run(arguments(list_command)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "policies:",
        "  reg        Off.",
        "  thp        On.",
        "",
        "workloads:",
        "  a-program  Stub: writes a table of random numbers and adds them up.",
    ]


def test_a_program_of_one_size_says_which(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_command.run(arguments(list_command, "postgres")) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(" (size paper alone)")
    assert list_command.run(arguments(list_command, "sqlite")) == 0
    assert "alone)" not in capsys.readouterr().out


def test_json(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    list_command.run(arguments(list_command, "--json"))
    found = json.loads(capsys.readouterr().out)
    assert {kind: [row["name"] for row in rows] for kind, rows in found.items()} == {
        "environments": [],
        "policies": ["reg", "thp"],
        "workloads": ["a-program"],
    }
    assert found["workloads"][0]["sizes"] == ["smoke", "paper"]


def test_groups_of_policies_are_listed_by_themselves(tree: Path) -> None:
    (tree / "vm-configs/policies/extra").mkdir()
    (tree / "vm-configs/policies/extra/less.toml").write_text('purpose = "Less."\norder = 1\n', encoding="utf-8")
    found = list_command.listing(tree)
    assert [row["name"] for row in found["policies"]] == ["reg", "thp"]
    assert [row["name"] for row in found["policies of the group extra"]] == ["less"]


@pytest.mark.parametrize(
    ("wanted", "names"), [("th", ["thp"]), ("*p", ["thp"]), ("?e?", ["reg"]), ("p", ["thp", "a-program"])]
)
def test_filter(tree: Path, wanted: str, names: list[str]) -> None:
    found = list_command.listing(tree, wanted)
    assert [row["name"] for rows in found.values() for row in rows] == names


def test_a_filter_without_match_suggests(tree: Path) -> None:
    with pytest.raises(AbhError, match=r"(?s)no name matches `tph`.*did you mean `thp`"):
        list_command.run(arguments(list_command, "tph"))


def test_an_empty_checkout_says_so(tmp_path: Path) -> None:
    assert "nothing to list" in list_command.render(list_command.listing(tmp_path))


def test_a_bad_file_stops_the_list(tree: Path) -> None:
    (tree / "vm-configs/policies/bad.toml").write_text("=", encoding="utf-8")
    with pytest.raises(AbhError, match=r"bad\.toml:1"):
        list_command.listing(tree)


def test_the_stub_loads_and_its_sample_is_right(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert new_workload.run(arguments(new_workload, "my-program")) == 0
    assert "abh run my-program@native~thp" in capsys.readouterr().out
    stub = spec.workload("my-program", tree)
    right, metrics = stub.check_output("smoke", (stub.folder / "sample-output.txt").read_text(encoding="utf-8"))
    assert right
    assert metrics["rows"].value == 1000


@pytest.mark.parametrize(
    ("name", "near"), [("My_Program", "my-program"), ("", "my-name"), ("../x", "x"), ("a b", "a-b"), ("-x", "x")]
)
def test_an_ill_formed_name_is_refused(tree: Path, name: str, near: str) -> None:
    with pytest.raises(AbhError, match="ill-formed name") as caught:
        new_workload.write_stub(name, tree / "workloads")
    assert caught.value.next_step == f"abh new-workload {near}"
    assert [each.name for each in (tree / "workloads").iterdir()] == ["a-program"]


def test_an_existing_workload_is_left_alone(tree: Path) -> None:
    kept = tree / "workloads" / "a-program" / "workload.toml"
    kept.write_text("mine", encoding="utf-8")
    with pytest.raises(AbhError, match="already"):
        new_workload.write_stub("a-program", tree / "workloads")
    assert kept.read_text(encoding="utf-8") == "mine"
