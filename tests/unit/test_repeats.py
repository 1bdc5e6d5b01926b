# SPDX-License-Identifier: MIT
"""A study on this machine's own KVM: every cell several times, in random order, kept as it goes."""

import pytest

from abh import cli
from abh.collect import session
from abh.commands import study
from abh.errors import AbhError
from abh.schema import measured
from abh.schema.result import Value
from abh.study import cell, local, matrix, repeats

CELLS = ("sqlite@kvm-hap~reg", "sqlite@kvm-hap~thp", "sqlite@kvm-hap~abh")
WORDS = ("--workload", "sqlite", "--environment", "kvm-hap", "--policy", "reg", "--policy", "thp", "--policy", "abh")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine whose KVM takes 1, 2, 3, … seconds for the runs of a cell; the runs in their order."""
    ran = []

    def run(one):
        ran.append(str(one.run))
        if ran[-1:] == run.fails:
            run.fails = []
            raise KeyboardInterrupt
        values = {"elapsed": Value.of(float(ran.count(str(one.run))), "s", "measured")}
        outcome, why = run.outcomes.get(str(one.run), ("success", None))
        return cell.result_of(one, outcome, why, values)

    run.fails, run.outcomes = [], {}
    monkeypatch.setattr(local, "MEASURED", tmp_path / "local")
    monkeypatch.setattr(session, "FOLDER", tmp_path / "collect")
    monkeypatch.setattr(local, "check", lambda: None)
    monkeypatch.setattr(local, "skipped", lambda one: None if one.environment.name == "kvm-hap" else "not here")
    monkeypatch.setattr(local, "run", run)
    monkeypatch.setattr(matrix, "fingerprint", lambda one: f"of {one.run}")
    monkeypatch.setattr(cell, "provenance", lambda one: PROVENANCE)
    run.ran = ran
    return run


PROVENANCE = session.Provenance(
    commit="c", series={}, components={}, roots={}, command="abh run", seed=1, machine="m",
    when="2026-01-31T12:00:00+00:00",
)  # fmt: skip


def run(*words):
    return study.run(cli.parse(["study", "--machine", "local", *WORDS, *words]))


def results(tmp_path):
    found = {path.stem: measured.read(path) for path in (tmp_path / "collect").glob("*/*.json")}
    return {name: found[name] for name in sorted(found)}


def test_every_cell_runs_as_often_as_asked_in_random_order(machine, tmp_path, capsys):
    assert run("--repeats", "7") == 0
    assert sorted(machine.ran) == sorted(CELLS * 7)
    rounds = [machine.ran[at : at + 3] for at in range(0, 21, 3)]
    assert any(len(set(each)) < 3 for each in rounds)  # not one round of all cells after the other
    assert set(results(tmp_path)) == set(CELLS)
    for each in results(tmp_path).values():
        elapsed = each.values["elapsed"]
        assert (elapsed.value, elapsed.low, elapsed.high, elapsed.runs, elapsed.kind) == (4, 1, 7, 7, "measured")
        assert (elapsed.interval_low, elapsed.interval_high) == (1, 7)
    assert "median of 7" in capsys.readouterr().out


def test_the_seed_decides_the_order(machine):
    cells = [cell.Cell.of(name, "smoke") for name in CELLS]
    first, again, other = (repeats.order(cells, 5, seed) for seed in (1, 1, 2))
    assert first == again != other


def test_it_goes_on_where_it_was_ended(machine, tmp_path):
    machine.fails = ["sqlite@kvm-hap~abh"]
    with pytest.raises(KeyboardInterrupt):
        run("--repeats", "3")
    assert not results(tmp_path)
    before = len(machine.ran)
    assert run("--repeats", "3") == 0
    assert len(machine.ran) == 9 + 1 and before >= 1  # the one that was ended is run again, no other
    assert {each.values["elapsed"].runs for each in results(tmp_path).values()} == {3}
    run("--repeats", "4")
    assert len(machine.ran) == 12 + 1


def test_a_run_that_fails_is_the_cells_outcome(machine, tmp_path):
    machine.outcomes = {"sqlite@kvm-hap~thp": ("crash", "the guest died")}
    assert run("--repeats", "2") == 1
    found = results(tmp_path)
    assert (found["sqlite@kvm-hap~thp"].outcome, found["sqlite@kvm-hap~thp"].reason) == ("crash", "the guest died")
    assert found["sqlite@kvm-hap~reg"].outcome == "success"


def test_runs_of_another_machine_are_not_mixed_in(machine, tmp_path, monkeypatch):
    run("--repeats", "1")
    (tmp_path / "local" / "repeats" / "machine").write_text("another kernel")
    with pytest.raises(AbhError, match="another machine") as caught:
        run("--repeats", "2")
    assert "move the folder away" in str(caught.value)


def test_the_emulated_machine_needs_no_repeats():
    with pytest.raises(AbhError, match="the same numbers again"):
        study.run(cli.parse(["study", *WORDS, "--repeats", "3"]))
