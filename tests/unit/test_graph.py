# SPDX-License-Identifier: MIT
"""A study as steps: what is in them, what each needs, and what is run. Nothing is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from abh import schedule
from abh.build import components, root
from abh.errors import AbhError
from abh.machine import emulated
from abh.schema import result, spec
from abh.study import cell, code, graph, matrix

RUN = "sqlite@native~thp"


def made(one: cell.Cell, outcome: result.Outcome = "success", faults: int = 10) -> result.Result:
    provenance = result.Provenance(
        commit="c", series={}, components={}, roots={}, command="abh run", seed=1, machine="m",
        when="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    return result.Result(
        run=str(one.run), workload=one.run.workload, environment=one.run.environment, policy=one.run.policy,
        size=one.size, outcome=outcome, reason=None if outcome == "success" else "why",
        values={"minor_faults": result.Value.of(faults, "faults", "counted")}, provenance=provenance,
    )  # fmt: skip


def steps_of(*names: str, **options: object) -> dict[str, schedule.Step]:
    cells = [cell.Cell.of(name, "smoke", **options) for name in names]
    steps = graph.of_cells(cells, Path("/none"), graph.Told(len(cells), lambda *_: None))
    named = {step.name: step for step in steps}
    assert len(named) == len(steps), "each step once"
    return named


def all_needs(steps: dict[str, schedule.Step], name: str) -> set[str]:
    needs = set(steps[name].needs)
    return needs.union(*(all_needs(steps, need) for need in needs))


def test_the_whole_matrix_builds_and_boots_everything_once():
    names = matrix.select()
    steps = steps_of(*names)
    assert all(step.needs <= steps.keys() for step in steps.values())
    boots = {name for name in steps if name.startswith("boot ")}
    assert boots == {f"boot {environment} smoke" for environment in spec.environments()}
    assert steps.keys() >= set(names) | {"linux", "qemu", "plugin", "xen", "root guest", "root host", "root build"}
    assert steps.keys() - boots - set(names) <= components.COMPONENTS.keys() | {f"root {each}" for each in spec.roots()}


def test_a_cell_needs_its_own_machine_only():
    # Those of `make demo`: no Xen and no host need be built to see first results.
    demo = steps_of(*(f"{program}@native~{policy}" for program in ("sqlite", "cpython", "cc1")
                      for policy in ("thp", "abh")))  # fmt: skip
    assert not {"xen", "host-image", "host-initramfs", "root host", "mmu"} & demo.keys()
    assert {"linux", "qemu", "guest-initramfs", "glibc", "boot native smoke"} <= all_needs(demo, RUN)
    kvm = steps_of("sqlite@kvm-hap~thp")
    assert "xen" not in kvm and {"host-initramfs", "root host"} <= all_needs(kvm, "sqlite@kvm-hap~thp")
    both = steps_of("sqlite@kvm-hap~thp", "sqlite@xen-hap~thp")
    assert "xen" not in all_needs(both, "sqlite@kvm-hap~thp") and "xen" in all_needs(both, "sqlite@xen-hap~thp")


def test_every_boot_needs_just_what_its_machine_is_made_of():
    for name, environment in spec.environments().items():
        one = cell.Cell.of(f"sqlite@{name}~thp", "smoke")
        boot = graph.of_boot(one)[0]
        assert boot.needs == frozenset(emulated.component_names(spec.machine(environment.machine)))


def test_a_component_needs_what_its_key_is_made_of():
    steps = {step.name: step for step in graph.of_components(components.COMPONENTS)}
    for name, each in components.COMPONENTS.items():
        assert steps[name].needs == {*each.needs, f"root {each.root}", *(f"root {other}" for other in each.roots)}


def test_the_mmu_model_is_built_for_cells_with_it_only():
    assert "mmu" not in steps_of(RUN) and "mmu" in all_needs(steps_of(RUN, mmu="zen2"), RUN)


def test_the_memory_of_a_cell_is_its_machines_and_the_emulators():
    for size in ("smoke", "paper"):
        one = cell.Cell.of("sqlite@kvm-hap~thp", size)
        steps = {each.name: each for each in graph.of_cells([one], Path("/none"), graph.Told(1, lambda *_: None))}
        assert steps[str(one.run)].memory_mib == one.machine.memory_mib[size] + graph.EMULATOR_MIB
        assert steps[f"boot kvm-hap {size}"].memory_mib == steps[str(one.run)].memory_mib


def test_draws_are_steps_of_their_own_and_the_median_needs_all():
    steps = steps_of(RUN, draws=3)
    assert RUN not in steps
    assert steps[f"{RUN} of 3 draws"].needs == {f"{RUN} draw {draw}" for draw in range(3)}
    assert all(steps[f"{RUN} draw {draw}"].needs == {"boot native smoke"} for draw in range(3))


# --- what the steps do -------------------------------------------------------------------------------------------


class Study:
    """A study whose components, roots and machines are there; cells end as told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran: list[str] = []
        self.heard: list[tuple[str, int, int]] = []
        self.prints = "one"
        self.outcomes: dict[str, result.Outcome] = {}
        self.broken = ""

    def run(self, one: cell.Cell) -> result.Result:
        self.ran.append(one.name)
        if one.name == self.broken:
            raise AbhError("the emulator did not start", where=one.name)
        return made(one, self.outcomes.get(one.name, "success"), faults=10 + one.draw**2)

    def __call__(self, *names: str, **options: object) -> graph.Told:
        self.ran.clear()
        self.heard.clear()
        cells = [cell.Cell.of(name, "smoke", **options) for name in names]
        told = graph.Told(
            sum(one.draws for one in cells), lambda made, number, all_: self.heard.append((made.run, number, all_))
        )
        self.outcome = schedule.run(graph.of_cells(cells, self.folder, told), workers=1)
        return told

    def result(self, name: str, where: str = ".") -> result.Result:
        return result.read(self.folder / where / f"{name}.json")


@pytest.fixture
def study(tmp_path, monkeypatch) -> Study:
    one = Study(tmp_path / "results")
    monkeypatch.setattr(components, "path_of", lambda name: tmp_path)
    monkeypatch.setattr(root, "contents", lambda name: root.Contents({}))
    monkeypatch.setattr(cell, "frozen_state", lambda cell: tmp_path)
    monkeypatch.setattr(cell, "run", one.run)
    monkeypatch.setattr(cell, "provenance", lambda cell: made(cell).provenance)
    monkeypatch.setattr(matrix, "fingerprint", lambda cell: f"{one.prints} {cell.name} {cell.draws}")
    return one


def test_each_cell_is_run_kept_and_told_of(study):
    names = [RUN, "mcf@native~thp"]
    told = study(*names)
    assert sorted(study.ran) == sorted(names) and not told.bad
    assert [number for _, number, _ in study.heard] == [1, 2] and {planned for *_, planned in study.heard} == {2}
    assert all(study.result(name).outcome == "success" for name in names)


def test_what_still_holds_is_not_run_again_and_what_is_stale_is(study):
    study("dedup@native~thp", "mcf@native~thp")
    told = study("dedup@native~thp", "mcf@native~thp", RUN)
    assert study.ran == [RUN] and told.held == 2
    assert study.heard == [(RUN, 3, 3)]
    study.prints = "another"
    assert study(RUN).held == 0 and study.ran == [RUN]


@pytest.mark.parametrize(("outcome", "again"), [("success", False), ("skip", False), ("failure", True),
                                                ("error", True), ("crash", True)])  # fmt: skip
def test_what_did_not_succeed_is_run_again(study, outcome, again):
    study.outcomes[RUN] = outcome
    assert bool(study(RUN).bad) == again
    study(RUN)
    assert study.ran == [RUN] * again


def test_a_result_that_is_gone_or_garbled_is_run_again(study):
    study(RUN)
    file = study.folder / f"{RUN}.json"
    for harm in (file.unlink, lambda: file.write_text("{")):
        harm()
        study(RUN)
        assert study.ran == [RUN] and study.result(RUN).outcome == "success"


def test_a_result_that_its_mark_is_not_of_is_run_again(study):
    study(RUN)
    file, mark = study.folder / f"{RUN}.json", study.folder / ".fingerprints" / RUN
    for harm in (
        lambda: file.write_text(file.read_text().replace("10", "11")),  # edited, or of another run at the same time
        lambda: mark.write_bytes(b"\xff\xfe"),
        lambda: mark.write_bytes(b""),
    ):
        harm()
        study(RUN)
        assert study.ran == [RUN] and study.result(RUN).values["minor_faults"].value == 10
        study(RUN)
        assert study.ran == []


def test_what_is_edited_while_a_cell_runs_is_no_part_of_its_result(study, monkeypatch):
    def edited(one: cell.Cell) -> result.Result:
        study.prints = "after the edit"
        return study.run(one)

    monkeypatch.setattr(cell, "run", edited)
    study(RUN)
    study(RUN)
    assert study.ran == [RUN], "the result is of what was there before"
    study(RUN)
    assert study.ran == []


def test_a_study_names_its_code_before_it_builds(study, monkeypatch):
    told = []
    monkeypatch.setattr(code, "digest", lambda start: told.append("code"))
    monkeypatch.setattr(components, "path_of", lambda name: told.append("built"))
    study(RUN)
    assert told[0] == "code"


def test_a_cell_whose_machine_we_end_leaves_what_was_there(study, monkeypatch):
    study(RUN)
    study.prints = "another"

    def ended(one: cell.Cell) -> result.Result:
        schedule.stopping.set()
        return made(one, "crash")

    with monkeypatch.context() as patch:
        patch.setattr(cell, "run", ended)
        study(RUN)
    assert list(study.outcome.failed) == [RUN] and study.heard == []
    assert study.result(RUN).outcome == "success", "the old one, which holds no more"
    study(RUN)
    assert study.ran == [RUN]


def test_a_result_that_could_not_be_written_is_no_old_one_that_holds(study, monkeypatch):
    study(RUN)
    study.prints = "another"
    with monkeypatch.context() as patch:
        patch.setattr(result, "write", lambda *_: (_ for _ in ()).throw(AbhError("disk full")))
        study(RUN)
    assert study.outcome.failed
    study(RUN)
    assert study.ran == [RUN]


def test_an_error_on_the_way_to_a_result_is_one_and_the_others_are_run(study):
    study.broken = RUN
    told = study(RUN, "mcf@native~thp")
    assert [each.run for each in told.bad] == [RUN] and not study.outcome.failed
    kept = study.result(RUN)
    assert kept.outcome == "error" and "the emulator did not start" in str(kept.reason) and not kept.values
    assert study.result("mcf@native~thp").outcome == "success"


def test_a_machine_that_does_not_boot_takes_only_its_cells_with_it(study, monkeypatch):
    def freeze(one: cell.Cell) -> None:
        if one.environment.name == "kvm-hap":
            raise AbhError("no boot")

    monkeypatch.setattr(cell, "frozen_state", freeze)
    study("sqlite@kvm-hap~thp", RUN)
    assert study.ran == [RUN] and list(study.outcome.failed) == ["boot kvm-hap smoke"]
    assert study.outcome.skipped == {"sqlite@kvm-hap~thp": "boot kvm-hap smoke"}


def test_several_draws_become_their_median_and_are_kept_themselves(study):
    study(RUN, draws=3)
    value = study.result(RUN).values["minor_faults"]
    assert (value.value, value.low, value.high) == (11, 10, 14) and study.result(RUN).draws == 3
    assert [study.result(RUN, f"draws/{draw}").values["minor_faults"].value for draw in range(3)] == [10, 11, 14]
    assert study(RUN, draws=3).held == 3 and study.ran == []
