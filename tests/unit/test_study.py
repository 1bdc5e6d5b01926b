# SPDX-License-Identifier: MIT
"""`abh study`: one at a time, its cells and their folders, and a status that tells of failed cells."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import psutil
import pytest
from filelock import FileLock

from abh import cli, paths, schedule
from abh.build import cache, components, root
from abh.commands import report
from abh.errors import AbhError
from abh.schema import result
from abh.study import cell, matrix

RUN = "sqlite@kvm-hap~thp"
ONE = ("--workload", "sqlite", "--environment", "kvm-hap", "--policy", "thp")


class Study:
    """What a study did, and how each part of it ends; everything is there that cells need."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.cells: list[cell.Cell] = []
        self.outcomes: dict[str, result.Outcome] = {}
        self.report = 0

    def run(self, one: cell.Cell) -> result.Result:
        self.done.append("cell")
        self.cells.append(one)
        outcome = self.outcomes.get(str(one.run), "success")
        values = {
            "alloc_ratio": result.Value.of(0.25, "ratio", "counted"),
            "minor_faults": result.Value.of(12345, "faults", "counted"),
        }
        return cell.result_of(one, outcome, None if outcome == "success" else "why so", values)

    @property
    def names(self) -> set[str]:
        return {str(one.run) for one in self.cells}


@pytest.fixture
def study(own_cache, tmp_path, monkeypatch) -> Study:
    made = Study()
    provenance = result.Provenance(
        commit="c", series={}, components={}, roots={}, command="abh run", seed=1, machine="m",
        when="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    monkeypatch.setattr(paths, "MEASURED", tmp_path / "measured")
    monkeypatch.setattr(components, "path_of", lambda name: tmp_path)
    monkeypatch.setattr(root, "contents", lambda name: root.Contents({}))
    monkeypatch.setattr(matrix, "fingerprint", lambda one: f"{one.name} {one.size} {one.mmu} {one.draws}")
    monkeypatch.setattr(cell, "provenance", lambda one: provenance)
    monkeypatch.setattr(cell, "frozen_state", lambda one: made.done.append("boot"))
    monkeypatch.setattr(cell, "run", made.run)
    monkeypatch.setattr(cache, "sweep_scratch", lambda: made.done.append("sweep"))
    monkeypatch.setattr(report, "run", lambda args: made.done.append(f"report {args.results}") or made.report)
    return made


def run(*words: str) -> int:
    args = cli.parse(["study", *words])
    return int(args.run(args))


def policies(group: str = "") -> set[str]:
    return {file.stem for file in (paths.VM_CONFIGS / "policies" / group).glob("*.toml")}


def kept(place: str = "") -> set[str]:
    return {file.stem for file in (paths.MEASURED / place).glob("*.json")}


def test_a_study_sweeps_boots_runs_and_reports(study, tmp_path):
    assert run("--workload", "sqlite", "--environment", "kvm-hap", "--size", "paper", "--cores", "1") == 0
    cells = {f"sqlite@kvm-hap~{name}" for name in policies()}
    assert study.done == ["sweep", "boot", *["cell"] * len(cells), f"report {tmp_path / 'measured'}"]
    assert study.names == kept("paper") == cells and {one.size for one in study.cells} == {"paper"}
    assert kept() == set()


def test_one_cell_is_one_cell(study, capsys):
    assert run(*ONE) == 0
    assert "abh: 1 cell; those" in (said := capsys.readouterr().err) and "1 cell run; 0 held" in said


def test_each_cell_says_what_it_found_when_it_ends(study, capsys):
    study.outcomes["sqlite@kvm-hap~abh"] = "crash"
    assert run(*ONE, "--policy", "abh", "--cores", "1") == 1
    said = capsys.readouterr()
    bad, good = said.out.splitlines()
    assert bad.split() == "1/2 sqlite@kvm-hap~abh Alloc.Ratio 25.0% faults 12,345 crash: why so".split()
    assert good.split() == f"2/2 {RUN} Alloc.Ratio 25.0% faults 12,345".split()
    assert "2 cells run; 0 held; 1 without success: sqlite@kvm-hap~abh" in said.err


def test_the_same_command_goes_on_where_it_was_and_cells_that_are_stale_run_again(study, monkeypatch):
    study.outcomes[RUN] = "failure"
    assert run(*ONE, "--policy", "abh") == 1
    study.cells.clear()
    study.outcomes.clear()
    assert run(*ONE, "--policy", "abh") == 0
    assert study.names == {RUN}, "what has succeeded holds"
    study.cells.clear()
    assert run(*ONE) == 0 and study.names == set()
    monkeypatch.setattr(matrix, "fingerprint", lambda one: "another")
    assert run(*ONE) == 0 and study.names == {RUN}


def test_results_with_the_mmu_model_have_a_folder_of_their_own(study):
    assert run(*ONE, "--mmu", "zen2") == 0
    assert kept("mmu/zen2") == {RUN} and kept() == set()
    assert [one.mmu for one in study.cells] == ["zen2"]
    with pytest.raises(AbhError, match="unknown processor"):
        run("--mmu", "zen22")
    with pytest.raises(AbhError, match="own KVM runs one cell at a time"):
        run("--mmu", "zen2", "--machine", "local")


def test_a_group_of_policies_runs_when_asked_for_into_a_folder_of_its_own(study):
    assert run("--workload", "sqlite", "--environment", "native", "--group", "ablation") == 0
    assert study.names == kept("ablation") == {f"sqlite@native~{name}" for name in policies("ablation")}
    assert len(study.names) > 20 and kept() == set()
    with pytest.raises(AbhError, match="unknown group") as caught:
        run("--group", "ablatoin")
    assert caught.value.next_step == "did you mean `ablation`?"


def test_draws_are_run_one_by_one_and_their_median_is_the_result(study):
    assert run(*ONE, "--draws", "3") == 0
    assert sorted(one.draw for one in study.cells) == [0, 1, 2]
    assert kept() == kept("draws/0") == kept("draws/2") == {RUN}
    assert result.read(paths.MEASURED / f"{RUN}.json").draws == 3
    with pytest.raises(SystemExit) as caught:
        run("--draws", "0")
    assert caught.value.code == 2
    with pytest.raises(AbhError, match="own KVM runs one cell at a time"):
        run("--draws", "3", "--machine", "local")


@pytest.mark.parametrize(
    ("outcome", "reported", "status"), [("success", 0, 0), ("crash", 0, 1), ("success", 1, 1), ("skip", 0, 0)]
)
def test_failed_cells_are_reported_first_and_then_fail_the_study(study, outcome, reported, status):
    study.outcomes[RUN], study.report = outcome, reported
    assert run(*ONE) == status
    assert study.done[-1].startswith("report") and kept() == {RUN}


def test_a_machine_that_does_not_boot_fails_the_study_after_all_other_cells(study, monkeypatch, capsys):
    def freeze(one: cell.Cell) -> None:
        if one.environment.name == "kvm-hap":
            raise AbhError("no boot")

    with monkeypatch.context() as patch:
        patch.setattr(cell, "frozen_state", freeze)
        assert (
            run("--workload", "sqlite", "--environment", "kvm-hap", "--environment", "native", "--policy", "thp") == 1
        )
    assert study.names == {"sqlite@native~thp"} and study.done[-1].startswith("report")
    said = capsys.readouterr().err
    assert (
        "boot kvm-hap smoke FAILED: no boot" in said and f"{RUN} was not tried: it needs 'boot kvm-hap smoke'" in said
    )
    assert run(*ONE) == 0, "and lets the next one in"


@pytest.mark.parametrize("machine", ["emulated", "local"])
def test_a_dry_run_names_the_cells_and_does_nothing(study, capsys, monkeypatch, tmp_path, machine):
    monkeypatch.setattr("abh.study.local.check", lambda: pytest.fail("a dry run probes nothing"))
    monkeypatch.setattr("abh.study.local.PAGING", [npt := tmp_path / "npt"])
    npt.write_text("1\n")
    assert run("--machine", machine, "--dry-run", "--workload", "sqlite", "--environment", "kvm-hap") == 0
    assert set(capsys.readouterr().out.split()) == {f"sqlite@kvm-hap~{name}" for name in policies()}
    assert study.done == [] and not paths.MEASURED.exists()


def test_a_dry_run_on_this_machine_leaves_out_what_it_cannot_run(study, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("abh.study.local.PAGING", [npt := tmp_path / "npt"])
    npt.write_text("1\n")
    words = ("--machine", "local", "--dry-run", "--workload", "sqlite", "--policy", "thp")
    assert run(*words) == 0
    out, err = capsys.readouterr()
    assert out.split() == [RUN] and "sqlite@native~thp is left out: " in err
    assert run(*words, "--repeats", "3", "--through", "ssh host") == 0
    assert len(capsys.readouterr().out.split()) > 1, "what another machine can run is not known here"


def test_a_second_study_is_refused_while_the_first_runs(study):
    paths.MEASURED.mkdir()
    with FileLock(paths.MEASURED / ".study.lock"):
        with pytest.raises(AbhError, match="another study is running in this checkout") as caught:
            run(*ONE)
        assert caught.value.next_step
    assert study.done == []
    assert run(*ONE) == 0, "and is possible once that has ended"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--workload", "sqlit"], "unknown workload"),
        (["--environment", "kvm"], "unknown environment"),
        (["--policy", "THP"], "unknown policy"),
    ],
)
def test_an_unknown_name_is_refused_before_anything_is_done(study, words, what):
    with pytest.raises(AbhError, match=what):
        run(*words)
    assert study.done == []
    assert not paths.MEASURED.exists()


def test_an_interrupted_study_ends_its_cells_and_lets_the_next_one_in(study, monkeypatch):
    started: list[subprocess.Popen[bytes]] = []

    def emulate(one: cell.Cell) -> result.Result:
        with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"]) as process:
            started.append(process)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            process.wait()
        raise AbhError("the machine went off")

    with monkeypatch.context() as patch:
        patch.setattr(cell, "run", emulate)
        with pytest.raises(KeyboardInterrupt):
            run(*ONE, "--policy", "abh", "--cores", "1")
    (process,) = started
    assert not psutil.pid_exists(process.pid)
    assert not [line for line in study.done if line.startswith("report")]
    assert run(*ONE, "--policy", "abh") == 0
    assert study.names == {RUN, "sqlite@kvm-hap~abh"}, "a cell that was ended is run again"


def test_the_schedule_is_given_the_cores(study, monkeypatch):
    given = []
    real = schedule.run
    monkeypatch.setattr(schedule, "run", lambda steps, **options: given.append(options["workers"]) or real(steps))
    assert run(*ONE, "--cores", "3") == 0 and given == [3]
