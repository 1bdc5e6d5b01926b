# SPDX-License-Identifier: MIT
"""`abh run`: every outcome has its exit status, every result its file, and a bad folder is found before the run."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest

from abh import cli, output, paths, schedule
from abh.errors import AbhError, Status
from abh.schema import result
from abh.schema.result import Value
from abh.study import cell, graph, matrix

RUN = "sqlite@kvm-hap~thp"
STATUS = {"success": 0, "skip": 77, "error": 3, "failure": 4, "crash": 5}


def made(outcome: str) -> result.Result:
    provenance = result.Provenance(
        commit="c",
        series={},
        components={},
        roots={},
        command="abh run",
        seed=1,
        machine="m",
        when="2026-01-01T00:00:00+00:00",
    )
    return result.Result(
        run=RUN, workload="sqlite", environment="kvm-hap", policy="thp", size="smoke",
        outcome=outcome, reason=None if outcome == "success" else "why so",  # type: ignore[arg-type]
        values={
            "minor_faults": Value.of(12, "faults", "counted"),
            "vm_exits": Value.unknown("exits", "counted", "no VM"),
        },
        provenance=provenance,
    )  # fmt: skip


def run(*words: object) -> int:
    args = cli.parse(["run", *map(str, words)])
    return int(args.run(args))


@pytest.mark.parametrize("words", [["run", RUN], ["study"], ["build"]])
def test_no_argument_takes_the_place_of_the_commands_function(words):
    assert callable(cli.parse(words).run)


@pytest.fixture(autouse=True)
def known_fingerprint(monkeypatch):
    monkeypatch.setattr(matrix, "fingerprint", lambda one: f"{one.run} {one.size}")


def test_there_is_a_status_for_every_outcome():
    assert set(STATUS) == set(result.OUTCOMES)


@pytest.mark.parametrize(("outcome", "status"), STATUS.items())
def test_every_outcome_has_its_status_and_its_file(tmp_path, monkeypatch, capsys, outcome, status):
    monkeypatch.setattr(cell, "run", lambda one, **_: made(outcome))
    assert run(RUN, "--results", tmp_path / "new/deep") == status
    path = tmp_path / "new/deep" / f"{RUN}.json"
    assert result.read(path) == made(outcome)
    assert sorted(os.listdir(path.parent)) == [".fingerprints", path.name]
    out, err = capsys.readouterr()
    assert f"{outcome}: {path}" in out
    assert "12 faults, counted" in out and "n/a (no VM)" in out
    assert (f"{RUN}: {outcome}: why so" in err) == (outcome != "success")


def test_what_goes_wrong_before_the_guest_starts_is_a_result_too(tmp_path, monkeypatch, capsys):
    def fail(one, **_):
        raise AbhError("the machine does not boot", got="a panic", next_step="read its console")

    monkeypatch.setattr(cell, "run", fail)
    monkeypatch.setattr(cell, "provenance", lambda one: made("success").provenance)
    assert run(RUN, "--results", tmp_path) == STATUS["error"]
    written = result.read(tmp_path / f"{RUN}.json")
    assert (written.outcome, written.values) == ("error", {})
    assert "does not boot" in str(written.reason) and "read its console" in str(written.reason)
    assert "does not boot" in capsys.readouterr().err


def test_options_reach_the_cell(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        cell, "run", lambda one, **_: seen.append((str(one.run), one.size, one.icount)) or made("success")
    )
    run(RUN, "--results", tmp_path)
    run(RUN, "--results", tmp_path, "--size", "paper", "--free-running")
    assert seen == [(RUN, "smoke", True), (RUN, "paper", False)]


def test_results_of_a_group_of_policies_have_a_folder_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(cell, "run", lambda one, **_: made("success"))
    name = "sqlite@kvm-hap~abh-none"
    for words, place in (([], "ablation"), (["--explain"], "explained"), (["--mmu", "zen2"], "mmu/zen2")):
        run(name, "--results", tmp_path, *words)
        assert (tmp_path / place / f"{name}.json").is_file()
        assert not (tmp_path / f"{name}.json").exists()


def test_results_of_size_paper_have_a_folder_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(cell, "run", lambda one, **_: made("success"))
    monkeypatch.setattr(paths, "MEASURED", tmp_path)
    run(RUN, "--size", "paper")
    assert (tmp_path / "paper" / f"{RUN}.json").is_file() and not (tmp_path / f"{RUN}.json").exists()


@pytest.mark.parametrize("place", ["file/inner", "/proc/results", "/proc/1"])
def test_a_bad_folder_fails_before_the_run(tmp_path, monkeypatch, place):
    (tmp_path / "file").touch()
    monkeypatch.setattr(cell, "run", lambda one, **_: pytest.fail("ran"))
    with pytest.raises(AbhError, match="files cannot be written here") as caught:
        run(RUN, "--results", tmp_path / place)
    assert "--results" in caught.value.next_step


def test_a_full_folder_fails_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(cell, "run", lambda one, **_: pytest.fail("ran"))
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(output.tempfile, "TemporaryFile", lambda **_: contextlib.nullcontext(full))
        with pytest.raises(AbhError, match="files cannot be written here") as caught:
            run(RUN, "--results", tmp_path)
    assert caught.value.got == "No space left on device"


@pytest.mark.parametrize("fails", ["result.write", "write_text"])
def test_what_cannot_be_written_at_the_end_is_printed_all_the_same(tmp_path, monkeypatch, capsys, fails):
    def full(*_):
        raise AbhError("cannot write the result", got="No space left on device")

    monkeypatch.setattr(f"abh.study.matrix.{fails}", full)
    monkeypatch.setattr(cell, "run", lambda one, **_: made("success"))
    assert cli.main(["run", RUN, "--results", str(tmp_path)]) == Status.FAILED
    out, err = capsys.readouterr()
    assert "12 faults, counted" in out and "success: not kept" in out and "No space left on device" in err
    assert cli.main(["run", RUN, "--results", str(tmp_path), "--json"]) == Status.FAILED
    said = json.loads(capsys.readouterr().out)
    assert said["path"] is None and said["result"] == made("success").model_dump()


def test_a_size_that_a_program_does_not_have_is_refused_before_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cell, "run", lambda one, **_: pytest.fail("ran"))
    for name in ("postgres@kvm-hap~abh", "gcc@itanium~sf"):
        assert cli.main(["run", name, "--results", str(tmp_path / "none")]) == Status.USAGE
        err = capsys.readouterr().err
        assert "running" not in err and "next: --size paper" in err and not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("name", "step"), [("sqlit@kvm-hap~thp", "did you mean `sqlite`?"), ("sqlite", "`abh list` shows the names")]
)
def test_an_unknown_run_is_refused(tmp_path, monkeypatch, name, step):
    monkeypatch.setattr(cell, "run", lambda one, **_: pytest.fail("ran"))
    with pytest.raises(AbhError) as caught:
        run(name, "--results", tmp_path / "none")
    assert caught.value.next_step == step
    assert not (tmp_path / "none").exists()


def test_a_result_holds_until_what_it_depends_on_changes(tmp_path, monkeypatch):
    path = tmp_path / f"{RUN}.json"

    def holds(size: str = "smoke") -> bool:
        return matrix.holds(tmp_path, cell.Cell.of(RUN, size))

    def after(outcome: str, *options: str) -> bool:
        monkeypatch.setattr(cell, "run", lambda one, **_: made(outcome))
        run(RUN, "--results", tmp_path, *options)
        return holds()

    assert not holds(), "nothing is there"
    assert after("success") and after("skip")
    assert not any(after(outcome) for outcome in ("error", "failure", "crash"))
    assert not after("success", "--free-running")
    assert after("success") and not holds("paper")
    path.write_text(path.read_text()[:-20])
    assert not holds(), "a broken file"
    assert after("success")
    monkeypatch.setattr(matrix, "fingerprint", lambda one: "another")
    assert not holds(), "another patch, policy or program"


def test_a_run_of_several_draws_says_their_median_and_range(tmp_path, monkeypatch, capsys):
    steps = []

    def schedule_run(given, **_):
        steps.extend(given)
        median = made("success").model_copy(
            update={"draws": 3, "values": {"x": Value(value=5, unit="faults", kind="counted", low=1, high=9)}}
        )
        result.write(median, tmp_path / f"{RUN}.json")
        return schedule.Outcome()

    monkeypatch.setattr(schedule, "run", schedule_run)
    assert run(RUN, "--results", tmp_path, "--draws", 3) == 0
    assert [each.name for each in steps if each.name.startswith(RUN)] == [
        *(f"{RUN} draw {draw}" for draw in range(3)), f"{RUN} of 3 draws",
    ]  # fmt: skip
    assert "5 faults, counted (median of 3 draws, 1 to 9)" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--free-running"], ["--machine", "local"], ["--trace", "t"]])
def test_draws_are_of_the_emulated_machine_that_repeats(tmp_path, options):
    with pytest.raises(AbhError, match="draws are runs of the emulated machine") as caught:
        run(RUN, "--results", tmp_path / "none", "--draws", 3, *options)
    assert caught.value.status == 2 and not (tmp_path / "none").exists()


@pytest.mark.parametrize(("outcomes", "status"), [(("success", "success"), 0), (("success", "crash"), 1),
                                                  (("crash", "crash"), 1), (("skip", "skip"), 1)])  # fmt: skip
def test_runs_that_come_to_nothing_are_not_the_same_each_time(monkeypatch, capsys, outcomes, status):
    ended = iter(outcomes)
    monkeypatch.setattr(cell, "run", lambda one: made(next(ended)))
    monkeypatch.setattr(graph, "of_boot", lambda one: [schedule.Step("boot", lambda: None)])
    assert cli.main(["repeat", RUN, "--times", "2", "--cores", "1"]) == status
    assert ("why so" in capsys.readouterr().out) is bool(status)
