# SPDX-License-Identifier: MIT
"""The machine that tests kernels: its initramfs, how its words are judged, and how two runs are compared."""

from __future__ import annotations

import json
import re

import pytest

from abh import cli, paths
from abh.build import series
from abh.commands import kernel_test
from abh.errors import AbhError, Status
from abh.verify import selftests, testbed

WELL = ["[    0.1] Linux", "TEST run /fuzz --ops 5", "PASS: 5 operations", "TEST status 0", "TEST end well"]


def judged(lines, late=None):
    said = testbed.Said(list(lines))
    said.judge(late)
    return said


def test_a_swap_header_is_one_page_and_counts_the_rest():
    header = testbed.swap_header(1 << 20)
    assert len(header) == 4096 and header.endswith(b"SWAPSPACE2")
    assert header[1024:1032] == bytes([1, 0, 0, 0, 255, 0, 0, 0])


def test_a_job_done_is_well():
    said = judged(WELL)
    assert said.ok and said.problem is None and said.statuses == ["0"]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (WELL[:-1], "went off"),
        ([*WELL[:-1], "TEST end a setting was refused"], "a setting was refused"),
        ([*WELL[:2], "[ 1.0] BUG: KASAN: use-after-free in x", *WELL[2:]], "the kernel complained"),
        ([*WELL[:2], "[ 1.0] WARNING: possible circular locking dependency detected", *WELL[2:]], "complained"),
        ([*WELL[:2], "[ 1.0] Kernel panic - not syncing", *WELL[2:]], "complained"),
    ],
)
def test_what_goes_wrong_with_the_machine_is_told(lines, problem):
    said = judged(lines)
    assert not said.ok and problem in said.problem


def test_a_program_that_fails_or_never_ran_is_no_success():
    assert not judged([*WELL[:3], "TEST status 1", "TEST end well"]).ok
    assert not judged(["TEST end well"]).ok


def test_a_machine_out_of_time_is_told():
    assert judged(WELL[:2], TimeoutError("no end within 9 s")).problem == "over its time limit: no end within 9 s"


def test_outputs_belong_to_their_programs():
    lines = [*WELL[:4], "TEST run /semantics layout", "heap 0x1", "[ 2.0] noise", "TEST status 0", "TEST end well"]
    assert testbed.outputs(lines) == [
        ("/fuzz --ops 5", ["PASS: 5 operations", "TEST status 0"]),
        ("/semantics layout", ["heap 0x1", "TEST status 0"]),
    ]


TEST = ["TEST run /cow", "ok 1 at 0x7f00", "not ok 2 size 4096 # skip", "TEST status 1"]


def selftest_lines(policy, *lines):
    return [f"TEST set {testbed.KNOB} {policy}", *lines]


def test_the_series_own_selftests_must_pass_even_if_they_fail_alike():
    failed = ("status 1", "ok arena", "not ok three arenas")
    said = {"/abh": failed, "/cow": failed, "/skip_anon_align": ("status 0", "ok placed")}
    others = ("explain_thp_faults", *selftests.RESERVATIONS)
    whole = said | {f"/{name}": ("status 0",) for name in others}
    assert selftests.ours_failed(whole) == ["/abh: status 1", "  not ok three arenas"]
    assert selftests.ours_failed(whole, ["skip_anon_align", "explain_thp_faults"]) == []
    assert "/explain_thp_faults: was not built" in selftests.ours_failed(said)
    assert set(selftests.OURS) <= set(selftests.COMMANDS)


def test_selftests_are_compared_without_what_differs_each_time():
    parts = selftests.split_by_policy(
        [*selftest_lines("never", *TEST), *selftest_lines("always", *(x.replace("7f00", "8f11") for x in TEST))]
    )
    off, on = ({c: selftests.outcome(o) for c, o in testbed.outputs(parts[p])} for p in ("never", "always"))
    assert off == {"/cow": ("status 1", "ok at N", "not ok size N # skip")}
    assert selftests.differences(off, on) == []


def test_a_selftest_that_says_otherwise_is_found():
    off = {"/cow": ("status 0", "ok a"), "/x": ("status 0",)}
    on = {"/cow": ("status 1", "not ok a")}
    assert selftests.differences(off, on) == [
        "/cow: off: status 0, on: status 1",
        "  only off: ok a",
        "  only on:  not ok a",
        "/x: off: status 0, on: not run",
    ]


def test_a_selftest_without_a_status_is_found_even_if_it_is_so_under_all_policies():
    lines = ["TEST run /cow", "ok 1 a", "TEST run /khugepaged all:anon", "TEST status signal 14"]
    outcomes = {name: selftests.outcome(each) for name, each in testbed.outputs(lines)}
    found = selftests.unfinished(["cow", "khugepaged all:anon", "mdwe_test"], outcomes)
    assert found == ["/cow: no status", "/mdwe_test: not run"]


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """No kernel, no emulator: what would be run, and what it would say."""
    seen = {"has_abh": True, "lines": WELL}

    def run(linux, job, **options):
        seen.update(linux=linux, job=job, **options)
        return judged(seen["lines"])

    monkeypatch.setattr(testbed, "run", run)
    monkeypatch.setattr(testbed, "has_abh", lambda: seen["has_abh"])
    monkeypatch.setattr(testbed, "kernel", lambda name, stock=False: tmp_path / f"{name}{'-stock' if stock else ''}")
    return seen


def command(*words):
    args = cli.parse(["kernel-test", *words])
    return args.run(args)


def test_fuzz_sets_the_policy_and_lets_extensions_be(machine):
    assert command("fuzz", "--ops", "7", "--seed", "3", "--set", "heap_threshold_kib=4") == 0
    *knobs, last = machine["job"]
    unbounded = f"unused_kib {kernel_test.NO_BOUND}"
    of_administrators = [f"set {kernel_test.KNOBS}/{each}" for each in (unbounded, "enabled always")]
    assert knobs == [of_administrators[0], f"set {kernel_test.PARTS}/heap_threshold_kib 4", of_administrators[1]]
    assert last == "run /fuzz --seed 3 --ops 7 --episode 0 --surplus --slack"
    assert machine["linux"].name == "linux"


def test_fuzz_has_small_mappings_reserve_if_asked(machine):
    assert command("fuzz", "--policy", "never", "--reservations", "--pressure") == 0
    *_, threshold, spare, covered, switch, last = machine["job"]
    assert [threshold, spare, covered, switch] == list(testbed.WITH_RESERVATIONS)
    assert last.endswith(" --reservations --pressure")
    assert command("fuzz", "--reservations", "whole") == 0
    assert set(testbed.WITH_WHOLE) < set(machine["job"]) and machine["job"][-1].count(" --reservations ") == 1


@pytest.mark.parametrize("pair", ["unused_kib", "unused_kib=", "a b=1", "unused_kib=1\nrun /slack"])
def test_a_setting_that_is_none_is_an_error_that_says_how(machine, pair, capsys):
    for what in ("fuzz", "selftests"):
        with pytest.raises(SystemExit) as caught:
            command(what, "--set", pair)
        assert caught.value.code == Status.USAGE and "expected KNOB=VALUE" in capsys.readouterr().err
        assert "job" not in machine


def test_a_prefix_of_the_series_is_fuzzed_as_stock_and_with_what_it_has(machine, tmp_path):
    whole = series.load(paths.CHECKOUT / testbed.KERNEL_SERIES)
    for prefix in series.prefixes(whole):
        testbed.try_prefix(prefix, tmp_path)
        has_abh = any(name.startswith(testbed.TOPIC) for name in prefix.patches)
        assert (f"set {testbed.KNOB} always" in machine["job"]) == has_abh
        reserves = any(name.startswith("reservation/") for name in prefix.patches)
        assert (f"set {testbed.RESERVATION}/enabled 1" in machine["job"]) == reserves
        assert ["--extended" in line for line in machine["job"] if line.startswith("run")] == [False, True, False][
            : 1 + has_abh + reserves
        ]
    machine["lines"] = [*WELL[:2], "FAIL: read of 0x1", "TEST status 1", "TEST end well"]
    with pytest.raises(AbhError, match="does not do its job"):
        testbed.try_prefix(whole, tmp_path)


def test_fuzz_asks_where_only_those_that_ask_get_it(machine):
    for policy in kernel_test.POLICIES:
        assert command("fuzz", "--policy", policy) == 0
        assert ("--ask" in machine["job"][-1].split()) == (policy == "opt-in")


@pytest.mark.parametrize("words", [["--policy", "never"], ["--stock"]])
def test_fuzz_is_strict_where_nothing_may_be_extended(machine, words):
    assert command("fuzz", *words) == 0
    assert "--extended" not in machine["job"][-1] and "--surplus" not in machine["job"][-1]


def test_fuzz_asks_for_a_surplus_where_there_can_be_one(machine, tmp_path):
    (tmp_path / "list").write_text("op 1\n")
    for words in (["--set", "heap_end=0"], ["--replay", str(tmp_path / "list")]):
        assert command("fuzz", *words) == 0
        assert "--extended" in machine["job"][-1] and "--surplus" not in machine["job"][-1]
    assert command("fuzz", "--set", "mmap_extend=0") == 0
    assert "--surplus" in machine["job"][-1] and "--slack" not in machine["job"][-1]


@pytest.fixture
def built(tmp_path, monkeypatch):
    """The kernel's selftests, as if they were built."""
    monkeypatch.setattr(selftests.components, "path_of", lambda name: tmp_path)
    for each in selftests.COMMANDS:
        (tmp_path / each.split()[0]).write_bytes(b"program")
    return tmp_path


def selftest_run(but=None, status="TEST status 0"):
    """What a machine says that runs all under both policies; one of them ends otherwise."""
    lines = []
    for policy in ("never", "always"):
        lines += selftest_lines(policy)
        for each in selftests.COMMANDS:
            lines += [f"TEST run /{each}", *([status] if each == but else ["TEST status 0"])]
    return [*lines, "TEST end well"]


def test_selftests_that_say_the_same_pass(machine, built):
    machine["lines"] = selftest_run()
    assert command("selftests") == 0


def test_selftests_with_other_thresholds_leave_out_the_one_that_wants_the_defaults(machine, built):
    machine["lines"] = [line for line in selftest_run() if line != "TEST run /abh"]
    assert command("selftests", "--set", "mmap_threshold_kib=0") == 0
    knob, policy = "set /sys/kernel/debug/abh/mmap_threshold_kib 0", "set /sys/kernel/mm/abh/enabled never"
    assert machine["job"].index(knob) < machine["job"].index(policy)
    assert "run /abh" not in machine["job"] and "run /cow" in machine["job"]


def test_a_selftest_that_was_not_built_fails_the_command(machine, built, capsys):
    (built / "khugepaged").unlink()
    machine["lines"] = [line for line in selftest_run() if "khugepaged" not in line]
    assert command("selftests") == 1
    assert "/khugepaged: was not built\n" in capsys.readouterr().out
    assert not any("khugepaged" in line for line in machine["job"])


def test_a_selftest_that_never_ends_fails_the_command(machine, built, capsys):
    machine["lines"] = selftest_run(but="cow", status="ok 1 a")
    assert command("selftests") == 1
    said = capsys.readouterr().out
    assert "/cow: no status (never)\n/cow: no status (always)\n" in said and "the same under" in said


def test_json_has_every_case_of_every_program(machine, monkeypatch, capsys):
    lines = ["TEST run /semantics", "ok 1 - on: a heap", "not ok 2 - on: a mapping", "[   1.0] ok 9 - noise",
             "ok 3 - on: KUnit of heaps # SKIP no debug kernel", "TEST status 1", "TEST run /slack"]  # fmt: skip
    monkeypatch.setattr(
        testbed, "run", lambda *words, tell, **options: [tell(line) for line in lines] and judged(lines)
    )
    machine["has_abh"] = False
    monkeypatch.setattr(testbed, "same_layout", lambda *words: (True, ""))
    assert cli.main(["kernel-test", "semantics", "--debug-kernel", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["test"], found["passed"]) == ("semantics", False)
    (made,) = found["machines"]
    assert made["problem"] == "the machine went off before its job was done"
    assert made["programs"] == [
        {"command": "/semantics", "policy": None, "status": "1", "cases": [
            {"name": "on: a heap", "result": "ok", "remark": None},
            {"name": "on: a mapping", "result": "not ok", "remark": None},
            {"name": "on: KUnit of heaps", "result": "skip", "remark": "SKIP no debug kernel"},
        ]},
        {"command": "/slack", "policy": None, "status": None, "cases": []},
    ]  # fmt: skip


def test_json_of_selftests_says_under_which_policy(machine, built, monkeypatch, capsys):
    lines = selftest_run()
    monkeypatch.setattr(
        testbed, "run", lambda *words, tell, **options: [tell(line) for line in lines] and judged(lines)
    )
    assert cli.main(["kernel-test", "selftests", "--json"]) == 0
    (made,) = json.loads(capsys.readouterr().out)["machines"]
    assert made["problem"] is None
    assert [(each["policy"], each["command"]) for each in made["programs"]] == [
        (policy, f"/{name}") for policy in ("never", "always") for name in selftests.COMMANDS
    ]


def test_a_failed_run_fails_the_command(machine):
    machine["lines"] = [*WELL[:2], "FAIL: read of 0x1", "TEST status 1", "TEST end well"]
    assert command("fuzz") == 1


def test_the_debug_kernel_is_another_component(machine):
    command("fuzz", "--debug-kernel")
    assert machine["linux"].name == "linux-debug"


@pytest.mark.parametrize(("off", "status"), [("heap 0x1", 0), ("heap 0x2", 1)])
def test_semantics_compares_with_the_unpatched_kernel(machine, monkeypatch, off, status):
    def run(linux, job, **options):
        heap = "heap 0x1" if linux.name.endswith("-stock") else off
        return judged(["TEST run /semantics layout", heap, "TEST status 0", "TEST end well"])

    monkeypatch.setattr(testbed, "run", run)
    assert command("semantics") == status


@pytest.mark.parametrize(
    ("words", "name", "status"),
    [
        ([], "KUnit of heaps", 0),
        (["--debug-kernel"], "KUnit of heaps", 1),
        (["--debug-kernel", "--stock"], "KUnit of heaps", 0),
        ([], "counters of limits and locks", 1),
        (["--stock"], "counters of limits and locks", 0),
        (["--stock"], "swapping under pressure", 1),
    ],
)
def test_a_case_that_is_skipped_without_a_reason_fails_the_command(machine, words, name, status):
    machine["lines"] = ["TEST run /semantics", f"ok 7 - on: {name} # SKIP", "TEST status 0", "TEST end well"]
    assert command("semantics", *words) == status


def test_cases_have_names_of_their_own_and_only_they_may_be_skipped():
    folder = paths.CHECKOUT / "tests/kernel"
    sources = "".join(path.read_text() for path in folder.glob("s*/*.c"))
    names = re.findall(r'^\t\{ "(.*)", \w+, (?:true|false) \},$', sources, re.M)
    assert sorted(names) == sorted(set(names))
    assert set(names) > kernel_test.OF_DEBUG | kernel_test.OF_ABH


def test_memory_is_in_as_many_nodes_as_asked():
    words = testbed._words(1024, 2, 2, "")
    assert [word for word in words if word.startswith(("memory-", "node,"))] == [
        "memory-backend-ram,id=node0,size=512M",
        "node,memdev=node0,cpus=0-1",
        "memory-backend-ram,id=node1,size=512M",
        "node,memdev=node1",
    ]
    assert "-numa" not in testbed._words(1024, 2, 1, "")


def test_the_stock_kernel_is_the_series_without_abh(monkeypatch):
    built = {}
    whole = series.load(testbed.paths.CHECKOUT / testbed.KERNEL_SERIES)
    with_abh = series.Series(whole.folder, whole.base, ("thp-paper/0001-a.patch", "abh/0001-b.patch"))
    monkeypatch.setattr(testbed.series, "load", lambda folder: with_abh)
    monkeypatch.setattr(testbed.components, "path_of", lambda name: ("whole", name))
    monkeypatch.setattr(
        testbed.components, "build_series", lambda patches, name: built.update(it=patches.patches) or name
    )
    assert testbed.kernel("linux-debug") == ("whole", "linux-debug")
    assert testbed.kernel("linux-debug", stock=True) == "linux-debug"
    assert built["it"] == ("thp-paper/0001-a.patch",)


@pytest.mark.parametrize(("second", "same"), [("r-xp 0000a000 00:02 82   /semantics", True),
                                              ("r-xp 0000b000 00:02 18   /semantics", False),
                                              ("rwxp 0000a000 00:02 18   /semantics", False)])  # fmt: skip
def test_layouts_are_alike_where_all_but_the_numbers_of_files_is(monkeypatch, tmp_path, second, same):
    said = iter(["r-xp 0000a000 00:02 18   /semantics", second])
    monkeypatch.setattr(
        testbed, "run", lambda *_, **__: testbed.Said(["TEST run /semantics layout", f"7ffff7-7ffff8 {next(said)}"])
    )
    found, text = testbed.same_layout(tmp_path, tmp_path)
    assert found is same and ("the same as" in text) is same
