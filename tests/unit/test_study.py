# SPDX-License-Identifier: MIT
"""`abh study`: one at a time, its steps in order, and a status that tells of failed cells."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

from abh import cli, paths
from abh.bench import cache, cell, matrix
from abh.commands import report, study
from abh.errors import AbhError


class Steps:
    """What the study did, and how each step ends."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.words: list[str] = []
        self.names: list[str] = []
        self.workflow = self.report = 0


@pytest.fixture
def steps(own_cache, tmp_path, monkeypatch) -> Steps:
    made = Steps()

    def run(words: list[str], _environment: dict[str, str]) -> int:
        made.done.append("workflow")
        made.words = words
        return made.workflow

    def prepare(cells: list[cell.Cell]) -> None:
        made.done.append("prepare")
        made.names = [str(one.run) for one in cells]

    monkeypatch.setattr(paths, "MEASURED", tmp_path / "measured")
    monkeypatch.setattr(matrix, "prepare", prepare)
    monkeypatch.setattr(matrix, "drop_stale", lambda *_: made.done.append("drop"))
    monkeypatch.setattr(cache, "sweep_scratch", lambda: made.done.append("sweep"))
    monkeypatch.setattr(study, "_run", run)
    monkeypatch.setattr(report, "run", lambda args: made.done.append(f"report {args.results}") or made.report)
    return made


def run(*words: str) -> int:
    args = cli.parse(["study", *words])
    return int(args.run(args))


def test_a_study_sweeps_prepares_runs_and_reports(steps, tmp_path):
    assert run("--workload", "sqlite", "--environment", "kvm-hap", "--size", "paper", "--cores", "3") == 0
    assert steps.done == ["sweep", "prepare", "drop", "workflow", f"report {tmp_path / 'measured'}"]
    targets = steps.words[steps.words.index("--") + 1 :]
    assert targets == [f"analysis/measured/paper/{name}.json" for name in steps.names]
    policies = {file.stem for file in (paths.VM_CONFIGS / "policies").glob("*.toml")}
    assert set(targets) == {f"analysis/measured/paper/sqlite@kvm-hap~{name}.json" for name in policies}
    assert steps.words[steps.words.index("--cores") + 1] == "3"
    assert "size=paper" in steps.words
    assert Path(steps.words[steps.words.index("--snakefile") + 1]).is_file()


def test_results_with_the_mmu_model_have_a_folder_of_their_own(steps):
    assert run("--workload", "sqlite", "--environment", "kvm-hap", "--policy", "thp", "--mmu", "zen2") == 0
    assert steps.words[-1] == "analysis/measured/mmu/zen2/sqlite@kvm-hap~thp.json"
    assert {"folder=analysis/measured/mmu/zen2", "options=--mmu zen2"} <= set(steps.words)
    with pytest.raises(AbhError, match="unknown processor"):
        run("--mmu", "zen22")
    with pytest.raises(AbhError, match="emulated machine only"):
        run("--mmu", "zen2", "--machine", "local")


def test_a_group_of_policies_runs_when_asked_for_into_a_folder_of_its_own(steps):
    assert run("--workload", "sqlite", "--environment", "native", "--group", "ablation") == 0
    targets = steps.words[steps.words.index("--") + 1 :]
    policies = {file.stem for file in (paths.VM_CONFIGS / "policies" / "ablation").glob("*.toml")}
    assert set(targets) == {f"analysis/measured/ablation/sqlite@native~{name}.json" for name in policies}
    assert len(policies) > 20 and "folder=analysis/measured/ablation" in steps.words
    with pytest.raises(AbhError, match="unknown group") as caught:
        run("--group", "ablatoin")
    assert caught.value.next_step == "did you mean `ablation`?"


@pytest.mark.parametrize(("workflow", "reported", "status"), [(0, 0, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1)])
def test_failed_cells_are_reported_first_and_then_fail_the_study(steps, workflow, reported, status):
    steps.workflow, steps.report = workflow, reported
    assert run() == status
    assert steps.done[-1].startswith("report")


@pytest.mark.parametrize("status", [0, 1])
def test_a_dry_run_boots_nothing_and_reports_nothing(steps, status):
    steps.workflow = status
    assert run("--dry-run") == status
    assert steps.done == ["sweep", "workflow"]
    assert "--dry-run" in steps.words


def test_a_dry_run_on_this_machine_names_the_cells_and_runs_none(steps, capsys, monkeypatch):
    monkeypatch.setattr("abh.bench.local.check", lambda: pytest.fail("a dry run probes nothing"))
    assert run("--machine", "local", "--dry-run", "--workload", "sqlite", "--environment", "kvm-hap") == 0
    policies = {file.stem for file in (paths.VM_CONFIGS / "policies").glob("*.toml")}
    assert set(capsys.readouterr().out.split()) == {f"sqlite@kvm-hap~{name}" for name in policies}


def test_a_second_study_is_refused_while_the_first_runs(steps):
    paths.MEASURED.mkdir()
    with FileLock(paths.MEASURED / ".study.lock"):
        with pytest.raises(AbhError, match="another study is running in this checkout") as caught:
            run()
        assert caught.value.next_step
    assert steps.done == []
    assert run() == 0, "and is possible once that has ended"


def test_a_study_that_fails_lets_the_next_one_in(steps, monkeypatch):
    def prepare(*_: object) -> None:
        raise AbhError("no boot")

    with monkeypatch.context() as patch:
        patch.setattr(matrix, "prepare", prepare)
        with pytest.raises(AbhError, match="no boot"):
            run()
    assert run() == 0


def test_an_unknown_name_is_refused_before_anything_is_done(steps):
    with pytest.raises(AbhError, match="unknown workload"):
        run("--workload", "sqlit")
    assert steps.done == []
    assert not paths.MEASURED.exists()


def is_running(pid: int) -> bool:
    """Not gone, and not dead either: nobody need reap an orphan in a container without an init."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_interrupted_study_ends_the_engine_and_its_cells(tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    script = f"trap '' TERM; sh -c 'echo $$ >{pid}; exec sleep 300' & wait"

    def interrupted(self: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        while not pid.exists() or not pid.read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            study._run(["sh", "-c", script], {"PATH": os.environ["PATH"]})
    deadline = time.monotonic() + 20
    while is_running(int(pid.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.05)
