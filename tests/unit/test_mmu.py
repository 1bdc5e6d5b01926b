# SPDX-License-Identifier: MIT
"""The MMU model beside a run: what it is told, and what its line means."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from abh import cli, paths, schedule
from abh.build import components
from abh.commands import bench_model
from abh.errors import AbhError
from abh.machine import emulated
from abh.model import mmu, organisations
from abh.schema import result, spec
from abh.study import cell, graph, matrix, replays

RUN = "tlb-overflow@kvm-hap~thp"
COUNTERS = {"accesses": 1000, "loads": 600, "stores": 300, "tlb_misses": 20, "tlb_fills_4k": 15, "tlb_fills_2m": 4,
            "tlb_fills_1g": 0,
            "walk_refs": 90, "walk_cycles": 900, "walk_refs_l1": 80, "flushes_cr3": 3, "flushed_entries": 7,
            "abandoned_entries": 2, "tlb_flushes": 2, "tlb_flushes_empty": 1, "faults": 0, "walks_unreadable": 0,
            "nested_tlb_hits": 2, "partial_walks_level2": 9, "fills_2m_4k": 1, "well_aligned_share": 0.5}  # fmt: skip

PARTS = {"of_walks_low": 300.0, "of_walks_high": 900.0, "of_exits": 2700.0}
ESTIMATE = {f"of_{part}": 0.0 for part in mmu.PARTS} | PARTS
CYCLES = {"estimated_cycles_low": 3000.0, "estimated_cycles_high": 3600.0}


def line(*, share: float | None = 0.5, check: dict[str, int] | None = None, lost: str = "", **changed: Any) -> str:
    layers = {name: COUNTERS for name in (*mmu.LAYERS, "guest_other")}
    layers |= {"total": {**COUNTERS, "accesses": 4000, "well_aligned_share": share, **({lost: 1} if lost else {})}}
    said = {"region": 1, "instructions": 7000, "vmrun": 30, "tlb_control": {"0": 29, "3": 1}, "cpu": "made up",
            "not_followed": 5, "check": check,
            "counters": {"layers": layers},
            "estimate": {"kind": "estimate", **CYCLES, **ESTIMATE},
            "perf": {"total": {"dTLB-loads": 42}, "hypervisor": {"dTLB-loads": 2}}}  # fmt: skip
    return json.dumps({**said, **changed}) + "\n"


def test_every_processor_of_the_model_is_known():
    assert {"i7-3770", "zen2", "zen5"} <= set(mmu.cpus())


@pytest.mark.parametrize(
    ("environment", "stack"),
    [("native", "native"), ("kvm-hap", "hvm"), ("kvm-shadow", "hvm"), ("xen-hap", "hvm"), ("xen-shadow", "hvm"),
     ("xen-pv", "pv")],
)  # fmt: skip
def test_the_plugin_is_told_what_stands_between_machine_and_workload(environment, stack):
    where = spec.environment(environment)
    assert mmu.arguments(where, "zen2") == f"stack={stack},check=off,cpu=zen2"
    assert mmu.arguments(where, "zen2", check=True) == f"stack={stack},check=on,cpu=zen2"
    assert mmu.arguments(where, None, trace=True) == f"stack={stack},check=off,trace=/run/mmu.trace"


def test_values_have_units_and_are_the_models():
    values = mmu.values_of(mmu.read(line()))
    assert values["tlb_misses"] == result.Value.of(20, "misses", "modelled")
    assert values["walk_refs"].unit == values["walk_refs_l1"].unit == "references"
    assert (values["accesses"].value, values["guest_user_accesses"].value) == (4000, 1000)
    assert values["accesses_not_followed"].value == 5
    assert values["tlb_control_3"] == result.Value.of(1, "VM entries", "counted")
    units = {"tlb_fills_2m": "walks", "walk_cycles": "cycles", "flushes_cr3": "flushes", "flushed_entries": "entries",
             "tlb_flushes_empty": "flushes", "abandoned_entries": "entries", "walks_unreadable": "walks",
             "nested_tlb_hits": "hits", "partial_walks_level2": "walks", "well_aligned_share": "ratio"}  # fmt: skip
    assert {name: values[name].unit for name in units} == units
    seen = {name for name, each in values.items() if each.kind != "modelled"}
    assert seen == {"loads", "stores", "accesses_not_followed", "tlb_control_0", "tlb_control_3"}
    assert {values[name].kind for name in seen} == {"counted"}
    assert "accesses_checked" not in values


def test_an_estimate_says_that_it_is_one():
    values = mmu.values_of(mmu.read(line()))
    assert values["cycles_estimate_high"] == result.Value.of(3600.0, "cycles (estimate)", "modelled")
    assert values["cycles_estimate_low"].value == 3000
    assert values["cycles_estimate_exits"].value == 2700
    assert values["walk_share_estimate_low"] == result.Value.of(0.1, "ratio (estimate)", "modelled")
    assert values["walk_share_estimate_high"].value == 0.25
    unknown = {**ESTIMATE, "estimated_cycles_low": None, "estimated_cycles_high": None, "of_instructions": None}
    values = mmu.values_of(mmu.read(line(estimate=unknown)))
    for name in ("cycles_estimate_low", "cycles_estimate_instructions", "walk_share_estimate_high"):
        assert values[name].value is None and values[name].reason, name


def test_a_share_of_nothing_is_not_known():
    share = mmu.values_of(mmu.read(line(share=None)))["well_aligned_share"]
    assert share.value is None and share.reason


@pytest.mark.parametrize("text", ["", "{", line() * 2, line()[:-9], "[]\n", '{"counters": {}}\n'])
def test_a_line_that_is_not_whole_is_an_error(text):
    with pytest.raises(AbhError, match="did not report the one marked region"):
        mmu.read(text)


@pytest.mark.parametrize(("accesses", "mismatches", "right"), [(100, 0, True), (100, 1, False), (0, 0, False)])
def test_a_wrong_address_makes_the_run_an_error(monkeypatch, accesses, mismatches, right):
    text = line(check={"accesses": accesses, "mismatches": mismatches, "faults": 0, "unchecked": 9})
    outcome, reason, values = ended_with(text, monkeypatch, check=True)
    assert (outcome, reason is None) == (("success", True) if right else ("error", False))
    assert (values["accesses_checked"].value, values["accesses_unchecked"].value) == (accesses, 9)
    assert (values["instructions"].value, values["vm_exits"].value) == (7000, 30), "of the one plugin there is"


def ended_with(text: str, monkeypatch, check: bool) -> Any:
    """Outcome, reason and values of a cell of which the plugin said this."""
    monkeypatch.setattr(emulated, "parts_of", lambda *_, mmu: None)
    monkeypatch.setattr(cell, "frozen_state", lambda _: None)
    monkeypatch.setattr(cell, "judge", lambda *_: ("success", None))
    monkeypatch.setattr(cell, "result_of", lambda _one, outcome, reason, values, _said: (outcome, reason, values))
    monkeypatch.setattr(emulated, "run", lambda *_, **given: emulated.Ended([], "", text, 1.0, None))
    return cell.run(cell.Cell.of(RUN, "smoke", mmu="zen2", mmu_check=check))


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("lost", ["", "faults", "walks_unreadable"])
def test_an_access_that_the_model_finds_nothing_for_makes_the_run_an_error(monkeypatch, check, lost):
    checked = {"accesses": 100, "mismatches": 0, "faults": 0, "unchecked": 0}
    outcome, reason, _ = ended_with(line(lost=lost, check=checked if check else None), monkeypatch, check)
    assert outcome == ("error" if lost else "success")
    assert not lost or "for 1 accesses that the emulator made" in reason


def test_without_the_model_its_values_are_not_there(monkeypatch):
    one = cell.Cell.of(RUN, "smoke")
    assert one.model is None
    monkeypatch.setattr(cell, "REPORTED", {})
    assert "tlb_misses" not in cell.values_of(one, cell.Said(), "")


def run(*words: object) -> int:
    args = cli.parse(["run", RUN, *map(str, words)])
    return int(args.run(args))


@pytest.fixture
def seen(monkeypatch) -> list[cell.Cell]:
    """The cells that were run."""
    cells: list[cell.Cell] = []

    def ran(one: cell.Cell, heard=lambda _: None) -> result.Result:
        cells.append(one)
        heard(mmu.read(line()))
        return cell.result_of(one, "success", None, mmu.values_of(mmu.read(line())))

    provenance = result.Provenance(
        commit="0",
        series={},
        roots={},
        components={},
        command="abh run",
        seed=1,
        machine="none",
        when="2026-01-01T00:00:00+00:00",
    )
    monkeypatch.setattr(cell, "run", ran)
    monkeypatch.setattr(cell, "provenance", lambda _: provenance)
    monkeypatch.setattr(matrix, "fingerprint", lambda one: f"{one.run} {one.model}")
    return cells


def test_a_run_with_the_model_has_a_folder_of_its_own(seen, tmp_path, capsys):
    assert run("--results", tmp_path, "--mmu", "zen2", "--mmu-check") == 0
    assert (seen[0].mmu, seen[0].mmu_check) == ("zen2", True)
    path = tmp_path / "mmu/zen2" / f"{RUN}.json"
    assert result.read(path).values["tlb_misses"].value == 20
    assert not (tmp_path / path.name).exists()
    printed = capsys.readouterr().out
    assert "tlb_misses" in printed and "tlb_fills_1g" not in printed, "what is 0 is not printed"


@pytest.mark.parametrize(("layer", "count"), [([], 42), (["hypervisor"], 2)])
def test_counts_can_be_printed_as_perf_prints_them(seen, tmp_path, capsys, layer, count):
    assert run("--results", tmp_path, "--mmu", "zen2", "--perf", *layer) == 0
    assert [json.loads(each) for each in capsys.readouterr().out.splitlines()] == [
        {"counter-value": f"{count}.000000", "unit": "", "event": "dTLB-loads", "event-runtime": 0, "pcnt-running": 100}
    ]
    assert (tmp_path / "mmu/zen2" / f"{RUN}.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mmu", "i7-377"], "did you mean `i7-3770`?"),
        (["--mmu", "zen2", "--free-running"], "emulated machine only"),
        (["--mmu", "zen2", "--machine", "local"], "emulated machine only"),
        (["--mmu-check"], "needs --mmu"),
        (["--perf"], "--perf needs --mmu"),
        (["--mmu", "zen2", "--perf", "hyperviser"], "did you mean `hypervisor`?"),
    ],
)
def test_what_cannot_be_is_refused(seen, tmp_path, words, message):
    with pytest.raises(AbhError, match=message.replace("?", r"\?")) as caught:
        run("--results", tmp_path, *words)
    assert not seen and "next" in str(caught.value)


def test_the_command_that_made_a_result_names_the_model(monkeypatch):
    monkeypatch.setattr(cell.components, "version_of", lambda _: "1")
    monkeypatch.setattr(cell.root, "contents", lambda name: cell.root.Contents({name: "1"}))
    one = cell.Cell.of(RUN, "smoke", mmu="zen2", mmu_check=True)
    assert cell.provenance(one).command == f"abh run {RUN} --size smoke --mmu zen2 --mmu-check"


# --- traces -------------------------------------------------------------------------------------------------------


def test_a_trace_is_kept_and_leaves_the_result_what_it_is(seen, monkeypatch, tmp_path):
    kept = {}
    monkeypatch.setattr(emulated, "parts_of", lambda *_, mmu: kept.update(mmu=mmu))
    monkeypatch.setattr(cell, "frozen_state", lambda _: None)
    monkeypatch.setattr(emulated, "run", lambda *_, **given: kept.update(given))
    assert run("--results", tmp_path, "--trace", tmp_path / "t") == 0
    cell.emulate(seen[0])
    assert kept["mmu"] == "stack=hvm,check=off,trace=/run/mmu.trace" and kept["keep"] == {mmu.TRACE: tmp_path / "t"}
    assert (tmp_path / f"{RUN}.json").exists()


def replay(cpu: str, misses: int, tlb: dict[str, object] | None = None) -> dict[str, object]:
    counted = {"guest_user": {"tlb_misses": misses, "accesses": 1000}}
    return {"cpu": cpu, "sweep": tlb, "counters": {"layers": counted}}


@pytest.fixture
def swept(monkeypatch, tmp_path) -> list[list[str]]:
    """What abh-mmu was asked; each replay misses as often as it has words."""
    asked: list[list[str]] = []

    def program(words: list[str], folder: Path) -> str:
        asked.append(words)
        assert (folder / mmu.TRACE).read_text() == "a trace"
        return json.dumps([replay(words[3], len(words))])

    def ran(one: cell.Cell) -> result.Result:
        assert one.trace and one.mmu is None
        one.trace.write_text("a trace")
        return cell.result_of(one, "success", None, {})

    provenance = result.Provenance(
        commit="0",
        series={},
        components={},
        roots={},
        command="abh run",
        seed=1,
        machine="m",
        when="2026-01-01T00:00:00+00:00",
    )
    monkeypatch.setattr(cell, "run", ran)
    monkeypatch.setattr(cell, "provenance", lambda _: provenance)
    monkeypatch.setattr(matrix, "fingerprint", lambda one: f"{one.run} {one.size}")
    monkeypatch.setattr(components, "key_of", lambda name: f"{name} 1")
    monkeypatch.setattr(mmu, "program", program)
    monkeypatch.setattr(paths, "MEASURED", tmp_path)
    return asked


def sweep() -> int:
    args = cli.parse(["sweep", RUN])
    return int(args.run(args))


def test_a_sweep_replays_on_every_processor_and_is_made_once(swept, monkeypatch, tmp_path):
    assert sweep() == 0
    assert [word for word in swept[0] if word in mmu.cpus()] == mmu.cpus()
    assert all("--sweep" in words for words in swept[1:]) and len(swept) > 2
    written = mmu.read_sweep(tmp_path / "mmu/sweep" / f"{RUN}.json")
    assert (written["run"], len(written["replays"])) == (RUN, len(swept))
    asked = len(swept)
    assert sweep() == 0 and len(swept) == asked, "it holds"
    monkeypatch.setattr(components, "key_of", lambda name: f"{name} 2")
    assert sweep() == 0 and len(swept) == 2 * asked, "another model"


@pytest.mark.parametrize("command", ["sweep", "organisations"])
def test_replays_of_another_size_have_a_place_of_their_own(request, tmp_path, command):
    request.getfixturevalue({"sweep": "swept", "organisations": "replayed"}[command])
    for size in ("smoke", "paper"):
        args = cli.parse([command, RUN, "--size", size])
        assert args.run(args) == 0
    for place, size in ((".", "smoke"), ("paper", "paper")):
        assert json.loads((tmp_path / place / "mmu" / command / f"{RUN}.json").read_text())["size"] == size


def test_a_run_that_fails_is_not_replayed(swept, monkeypatch, tmp_path):
    monkeypatch.setattr(cell, "run", lambda one: cell.result_of(one, "crash", "the kernel panicked", {}))
    with pytest.raises(AbhError, match="did not succeed: crash"):
        sweep()
    assert not swept and not (tmp_path / "mmu").exists()


def test_a_broken_sweep_is_an_error(tmp_path):
    path = tmp_path / "sweep.json"
    for text in ("", "{}", "[]", '{"run": "x", "replays": []}'):
        path.write_text(text)
        with pytest.raises(AbhError, match="no sweep"):
            mmu.read_sweep(path)


def test_the_models_speed_is_told_in_one_object(monkeypatch, capsys):
    def emulate(one: cell.Cell) -> emulated.Ended:
        if one.trace:
            one.trace.write_bytes(bytes(500))
        return emulated.Ended([], "", line() if one.mmu else "", 10.0 if one.mmu else 4.0, None)

    processor_seconds = itertools.cycle((2.0, 6.0))
    monkeypatch.setattr(cell, "emulate", emulate)
    monkeypatch.setattr(bench_model, "_watch", lambda seen, over: seen.__setitem__(0, next(processor_seconds)))

    def program(words: list[str], folder: Path) -> str:
        if words[0] == "replay":
            return ""
        assert words[-5:] == ["--jobs", "1", "--first", "20000000", "--speed"]
        return json.dumps([each | {"accesses_per_processor_second": 2e7} for each in organised(words)])

    monkeypatch.setattr(mmu, "program", program)
    args = cli.parse(["bench-model", "--runs", "1", "--json"])
    assert args.run(args) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ratio"], found["live_accesses_per_second"], found["trace_bits_per_access"]) == (2.5, 400, 1)
    assert (found["processor_ratio"], found["added_accesses_per_processor_second"]) == (3, 1000)
    assert len(found["load_before_and_after"]) == 2
    named = {f"{name} on {batch.name}" for batch in organisations.BATCHES for name in batch.organisations}
    assert {name for name in named if "--sweep" not in name} == set(found["organisations"])
    assert set(found["organisations"].values()) == {2e7}
    assert found["kind"] == "measured" and found["replay_accesses_per_second_1_threads"] > 0
    monkeypatch.setattr(cell, "emulate", lambda one: emulated.Ended([], "", "", 1.0, "it hung"))
    with pytest.raises(AbhError, match="did not end well"):
        args.run(args)


# --- organisations ------------------------------------------------------------------------------------------------


def organised(words: list[str]) -> list[dict[str, object]]:
    """What abh-mmu says to such words: a replay for each organisation named."""
    options = list(itertools.pairwise(words))
    machine, large = (next(value for key, value in options if key == name) for name in ("--machine", "--superpages"))
    counted = {"total": {"refills": 10, "refill_cycles": 300, "table_loads_user_l1": 20, "loads": 1000, "stores": 0,
                         "fetches": 0}}  # fmt: skip
    return [
        {"organisation": name, "machine": machine, "superpages": large == "on", "swept": {}, "warm": False,
         "fetches": "pages", "counters": {"layers": counted, "table": {"bytes": 4096, "pages_mapped": 100}}}
        for key, name in options
        if key == "--organisation"
    ]  # fmt: skip


@pytest.fixture
def replayed(swept, monkeypatch, tmp_path) -> list[list[str]]:
    """What abh-mmu was asked, which now answers as for organisations."""
    asked: list[list[str]] = []
    monkeypatch.setattr(paths, "cache", lambda: tmp_path / "cache")

    def program(words: list[str], folder: Path, *, writes: bool = False) -> str:
        asked.append(words)
        assert writes == (words[0] == "synth"), "nothing else writes"
        if words == ["thesis"]:
            keys = {"workload": "task", "organisation": "g16", "at": 2, "quantity": "cycles", "unit": "cycles"}
            return json.dumps({"kind": "modelled", "lines": [{**keys, "value": 1}]})
        if words[:2] == ["synth", mmu.TRACE]:
            assert words[2:] == ["--program", words[3], "--accesses", str(organisations.PROGRAMS[words[3]])]
            (folder / mmu.TRACE).write_text("a trace")
            return ""
        assert words[:4] == ["organisations", mmu.TRACE, "--jobs", "1"]
        assert (folder / mmu.TRACE).read_text() == "a trace"
        return json.dumps(organised(words))

    def nothing() -> None:
        pass

    monkeypatch.setattr(mmu, "program", program)
    monkeypatch.setattr(graph, "of_boot", lambda one: [schedule.Step(f"boot {one.environment.name}", nothing)])
    monkeypatch.setattr(graph, "of_components", lambda names: [schedule.Step(name, nothing) for name in names])
    return asked


def organise(*names: str) -> int:
    args = cli.parse(["organisations", *(names or [RUN])])
    return int(args.run(args))


def test_each_batch_of_organisations_is_replayed_once(replayed, monkeypatch, tmp_path):
    assert organise() == 0
    assert len(replayed) == len(organisations.BATCHES)
    written = organisations.read(tmp_path / "mmu/organisations" / f"{RUN}.json")
    assert len(written["replays"]) == sum(len(batch.organisations) for batch in organisations.BATCHES)
    assert organise() == 0 and len(replayed) == len(organisations.BATCHES), "they hold"
    monkeypatch.setattr(components, "key_of", lambda name: f"{name} 2")
    assert organise() == 0 and len(replayed) == 2 * len(organisations.BATCHES), "another model"
    path = tmp_path / "mmu/organisations" / f"{RUN}.json"
    path.write_text(json.dumps({"run": RUN, "fingerprint": "of before", "replays": [{}]}))
    assert organise() == 0 and len(replayed) == 3 * len(organisations.BATCHES), "another version's"


def test_an_interrupted_replay_goes_on_where_it_stopped(replayed, monkeypatch, tmp_path):
    program, run = mmu.program, schedule.run
    monkeypatch.setattr(schedule, "run", lambda steps: run(steps, workers=1))

    def interrupted(words: list[str], folder: Path) -> str:
        if len(replayed) == 2:
            raise KeyboardInterrupt
        return program(words, folder)

    monkeypatch.setattr(mmu, "program", interrupted)
    with pytest.raises(KeyboardInterrupt):
        organise()
    kept = [path for path in (tmp_path / "cache/traces").rglob("*") if path.is_file()]
    assert kept and {path.name for path in kept} == {mmu.TRACE}, "they are kept"
    there = {path.parent.name.endswith("-every-fetch") for path in kept}
    monkeypatch.setattr(mmu, "program", program)
    recorded = cell.run
    monkeypatch.setattr(
        cell, "run", lambda one: pytest.fail("it was kept") if one.every_fetch in there else recorded(one)
    )
    assert organise() == 0
    asked = [words[4:] for words in replayed]
    assert sorted(asked) == sorted(batch.words for batch in organisations.BATCHES), "each one once"
    assert not list((tmp_path / "cache/traces").iterdir()), "and go when all is done"


def test_three_traces_are_there_at_once_and_no_more(replayed):
    runs = [replays.Run(name, "smoke", organisations.wanted(name)) for name in organisations.RUNS]
    steps = {step.name: step for step in replays.of_runs(runs)}
    recordings = [name for name in steps if name.startswith("record ")]
    assert len(recordings) == len(organisations.RUNS) + 1, "one of them with every fetch, too"
    for before, name in zip([None, None, None, *recordings], recordings, strict=False):
        assert {f"after {before}"} & steps[name].needs == ({f"after {before}"} if before else set())
        of_trace = steps[f"after {name}"].needs
        assert of_trace and all(steps[batch].needs == {name} for batch in of_trace)
    longest = max(steps.values(), key=lambda step: step.minutes)
    assert "radix/g16" in longest.name, "all pairs of a guest's and a host's tables"


def test_a_recording_that_fails_leaves_nothing(replayed, monkeypatch, tmp_path):
    monkeypatch.setattr(cell, "run", lambda one: cell.result_of(one, "crash", "the kernel panicked", {}))
    with pytest.raises(AbhError, match="did not succeed: crash"):
        organise()
    assert not replayed and not list((tmp_path / "cache/traces").iterdir()) and not (tmp_path / "mmu").exists()


def test_without_a_run_all_runs_and_the_made_up_workloads_are_replayed(replayed, tmp_path):
    args = cli.parse(["organisations"])
    assert args.run(args) == 0
    folder = tmp_path / "mmu/organisations"
    for name in organisations.RUNS:
        replays = organisations.read(folder / f"{name}.json")["replays"]
        assert len(replays) == sum(len(batch.organisations) for batch in organisations.wanted(name)) > 0, name
    assert ["thesis"] in replayed
    for name in organisations.PROGRAMS:
        of_program = organisations.read_program(folder / organisations.of_program(name))
        assert [each["organisation"] for each in of_program["replays"]] == [
            *organisations.THESIS,
            *organisations.GUARDED,
        ]
    assert organisations.read_made_up(folder / organisations.MADE_UP)["lines"][0]["workload"] == "task"
    asked = len(replayed)
    assert args.run(args) == 0 and len(replayed) == asked, "they hold"


def test_broken_replays_of_organisations_are_an_error(tmp_path):
    path = tmp_path / "replays.json"
    for text in ("", "{}", '{"run": "x", "fingerprint": "y", "replays": [{}]}'):
        path.write_text(text)
        with pytest.raises(AbhError, match="no replays of organisations"):
            organisations.read(path)
    for text in ("", "{}", '{"fingerprint": "", "kind": "modelled", "lines": [{}]}'):
        path.write_text(text)
        with pytest.raises(AbhError, match="no results of made-up workloads"):
            organisations.read_made_up(path)
    for text in ("", "{}", '{"fingerprint": "", "program": "mm", "replays": [{}]}'):
        path.write_text(text)
        with pytest.raises(AbhError, match="no replays of a program"):
            organisations.read_program(path)


def test_organisations_and_machines_are_those_of_the_model():
    known = (mmu.CPUS.parent / "organisations/src/catalogue.rs").read_text()
    machines = {path.stem for path in (mmu.CPUS.parent / "organisations/machines").glob("*.toml")} | set(mmu.cpus())
    for batch in organisations.BATCHES:
        assert batch.machine in machines
        for each in batch.organisations:
            for name in each.removesuffix("+ntlb+stlb").removesuffix("+ntlb").removesuffix("+stlb").split("/"):
                assert f'"{name}": "' in known, name
