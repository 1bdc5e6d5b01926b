# SPDX-License-Identifier: MIT
"""What reports has --json: one document on stdout, and nothing else there."""

from __future__ import annotations

import argparse
import json
import subprocess

import pytest

from abh import cli, output, paths
from abh.build import series
from abh.compare import allocators
from abh.errors import AbhError, Status
from abh.study import cell
from tests.unit.test_run import RUN, made

# These report nothing of their own: `exec` becomes a program, `completion` prints a script, `lint` what its tools say,
# and `new-workload` writes files for a person to edit.
NO_REPORT = {"completion", "exec", "lint", "new-workload"}


def leaves(parser: argparse.ArgumentParser, name: str):
    """Each command that takes no further subcommand, with its parser."""
    nested = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not nested:
        yield name, parser
    for action in nested:
        for word, sub in action.choices.items():
            yield from leaves(sub, f"{name} {word}".strip())


LEAVES = dict(leaves(cli.make_parser(cli.command_names()), ""))


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_that_reports_has_json(name):
    assert ("--json" in LEAVES[name]._option_string_actions) == (name.split()[0] not in NO_REPORT)


def only_json(words, capfd, status=0):
    """The document, which must be all there is on stdout."""
    assert cli.main([*words, "--json"]) == status
    return json.loads(capfd.readouterr().out)


def test_what_is_printed_meanwhile_goes_to_stderr_also_by_programs(capfd):
    with output.report(True) as report:
        print("a line")
        subprocess.run(["echo", "another"], check=True)
        report["one"] = "\u2717"
    print("after")
    out, err = capfd.readouterr()
    assert out == '{\n  "one": "\\u2717"\n}\nafter\n' and err == "a line\nanother\n"


def test_without_json_all_is_printed_as_ever(capfd):
    with output.report(False) as report:
        print("a line")
        report["one"] = 1
    assert capfd.readouterr().out == "a line\n"


def test_an_error_leaves_no_document_that_could_be_taken_for_a_whole_one(capfd):
    with pytest.raises(AbhError), output.report(True):
        raise AbhError("no")
    assert capfd.readouterr().out == ""
    with pytest.raises(ValueError), output.report(True) as report:
        report["ratio"] = float("nan")
    assert capfd.readouterr().out == ""


def test_run(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("abh.study.matrix.fingerprint", lambda one: "f")
    for outcome, status in (("success", 0), ("skip", Status.SKIP), ("crash", Status.CRASH)):
        monkeypatch.setattr(cell, "run", lambda one, outcome=outcome, **_: made(outcome))
        found = only_json(["run", RUN, "--results", str(tmp_path)], capfd, status)
        assert found == {"path": str(tmp_path / f"{RUN}.json"), "result": made(outcome).model_dump()}


def test_a_held_explanation_of_a_skip_is_a_skip(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("abh.study.matrix.fingerprint", lambda one: "f")
    monkeypatch.setattr(cell, "run", lambda one, **_: made("skip"))
    words = ["run", RUN, "--explain", "--results", str(tmp_path)]
    assert cli.main(words) == Status.SKIP
    monkeypatch.setattr(cell, "run", lambda one, **_: pytest.fail("ran again"))
    capfd.readouterr()
    assert only_json(words, capfd, Status.SKIP)["result"]["outcome"] == "skip"


def test_a_trace_is_recorded_though_the_explanation_holds(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr("abh.study.matrix.fingerprint", lambda one: "f")
    monkeypatch.setattr(cell, "run", lambda one, **_: ran.append(one.trace) or made("success"))
    words = ["run", RUN, "--explain", "--results", str(tmp_path)]
    for more in ([], [], ["--trace", str(tmp_path / "t")]):
        assert cli.main([*words, *more]) == 0
    assert ran == [None, tmp_path / "t"]


def test_check_series(capfd):
    folders = series.find_series()
    found = only_json(["check-series"], capfd)["series"]
    assert [each["folder"] for each in found] == list(map(str, folders))
    assert all(each["problems"] == [] and "patches" in each["checked"] for each in found)


def test_check_series_with_problems_has_them_in_its_document(tmp_path, monkeypatch, capfd):
    (tmp_path / "BASE").touch()
    monkeypatch.setattr(series, "problems", lambda folder: ["series: no patch"])
    found = only_json(["check-series", str(tmp_path)], capfd, Status.FAILED)
    assert found == {"series": [{"folder": str(tmp_path), "problems": ["series: no patch"], "checked": None}]}


def test_allocators(tmp_path, monkeypatch, capfd):
    line = allocators.Line(
        "sqlite", "smoke", "stock", "madvise", 1, 0.5, 2, 1, 3, 1.0, 1.0, 1.0, 0.1, 1.0, 1.0, 1.0, 1.0
    )
    monkeypatch.setattr(allocators, "compare", lambda *words: ([line], []))
    found = only_json(["allocators", "sqlite", "--results", str(tmp_path)], capfd)
    assert found["csv"] == str(tmp_path / "allocators.csv") and found["kind"] == "measured"
    assert found["lines"][0]["workload"] == "sqlite" and found["lines"][0]["alloc_ratio"] == 0.5


def test_report(tmp_path, capfd):
    from abh.schema import result

    result.write(made("success"), tmp_path / "in" / f"{RUN}.json")
    found = only_json(["report", "--results", str(tmp_path / "in"), "--out", str(tmp_path / "out")], capfd)
    assert found["page"] == str(tmp_path / "out/report.html")
    assert (found["results"], found["outcomes"]) == (1, {"success": 1})
    assert sorted(found["tables"]) == sorted(str(path) for path in (tmp_path / "out").glob("*.csv"))


def test_man(tmp_path, capfd):
    found = only_json(["man", "--out", str(tmp_path)], capfd)
    assert sorted(found["pages"]) == sorted(str(path) for path in tmp_path.iterdir())


def test_what_is_in_the_checkout_is_listed(capfd):
    found = only_json(["list", "sqlite"], capfd)
    assert [row["name"] for row in found["workloads"]] == ["sqlite"] and found["policies"] == []
    assert (paths.WORKLOADS / "sqlite").is_dir()
