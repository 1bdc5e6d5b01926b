# SPDX-License-Identifier: MIT
"""`abh test`: which stages run, what is remembered of them, and what they make of what they are given."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from abh import cli, paths
from abh.build import components, root
from abh.commands import test
from abh.compare import allocators
from abh.errors import AbhError
from abh.schema import spec
from abh.study import cell
from abh.verify import itanium, stages, testbed, thesis
from abh.verify.stages import Ended, Stage
from tools import lint

OF_HUGEPAGES = (*stages.OWN_REASONS, *stages.OF_HUGEPAGES)
SUM = [f"PASS: malloc/{name}" for name in ("tst-realloc", *OF_HUGEPAGES)]


def unsupported(*names: str) -> list[str]:
    return [line.replace("PASS", "UNSUPPORTED") if line.partition("/")[2] in names else line for line in SUM]


@pytest.fixture
def malloc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the stage of malloc with that summary of its tests, on a machine with hugepages."""
    monkeypatch.setattr(components, "path_of", lambda name: tmp_path)
    monkeypatch.setattr(paths, "THP", tmp_path)
    monkeypatch.setattr(allocators, "check_all_off_is_stock", lambda: None)
    (tmp_path / "enabled").write_text("[always] madvise never\n")
    (tmp_path / "hpage_pmd_size").write_text("2097152\n")

    def stage(lines: list[str]) -> Ended:
        (tmp_path / "malloc.sum").write_text("\n".join(lines))
        return stages.STAGES["malloc"].do()

    return stage


def test_malloc_passes_where_its_tests_pass(malloc):
    assert malloc(SUM).passed
    assert "NOT SHOWN" not in malloc(SUM).text
    assert not malloc([]).passed


@pytest.mark.parametrize("name", stages.OF_HUGEPAGES)
def test_with_hugepages_the_tests_of_them_must_pass(malloc, name):
    for lines in (unsupported(name), [line for line in SUM if not line.endswith(name)]):
        ended = malloc(lines)
        assert not ended.passed
        assert f"malloc/{name} must pass on this machine" in ended.text and "NOT SHOWN" not in ended.text


@pytest.mark.parametrize(("name", "why"), stages.OWN_REASONS.items())
def test_what_else_a_test_may_lack_is_said(malloc, name, why):
    ended = malloc(unsupported(name))
    assert ended.passed and f"({name}): {why}\n" in ended.text
    for lines in ([line.replace("PASS", "FAIL") for line in SUM], [line for line in SUM if not line.endswith(name)]):
        ended = malloc([SUM[0], *lines])
        assert not ended.passed and f"malloc/{name} must pass on this machine" in ended.text


def test_no_test_of_hugepages_is_passed_over_without_a_word():
    patches = (each.read_text() for each in (paths.CHECKOUT / "glibc-patches/2.41/abh").glob("*.patch"))
    ours = re.findall(r"^\+\+\+ b/malloc/(tst-malloc-abh.*)\.c$", "".join(patches), re.MULTILINE)
    anywhere = {"tst-malloc-abh-calloc", "tst-malloc-abh-check"}  # hugepages or not
    assert set(ours) - anywhere == set(OF_HUGEPAGES)


def test_without_hugepages_it_is_said_that_nothing_was_shown(malloc, tmp_path):
    (tmp_path / "hpage_pmd_size").write_text("4194304\n")
    ended = malloc(unsupported(*OF_HUGEPAGES))
    assert ended.passed
    (line,) = [line for line in ended.text.splitlines() if line.startswith("NOT SHOWN on this machine")]
    assert all(name in line for name in OF_HUGEPAGES) and line.endswith("have 4194304 bytes")
    assert not malloc([line for line in SUM if not line.endswith("limits")]).passed  # but each must have run


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("enabled", "always [madvise] never\n", None),
        ("enabled", "always madvise [never]\n", "off on this machine"),
        ("enabled", None, "no transparent hugepages"),
        ("hpage_pmd_size", "33554432\n", "have 33554432 bytes"),
        ("hugepages-2048kB/enabled", "always [inherit] madvise never\n", None),
        ("hugepages-2048kB/enabled", "always inherit madvise [never]\n", "of 2 MiB are off"),
    ],
)
def test_why_a_machine_has_no_hugepages(malloc, tmp_path, file, text, why):
    if text is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    said = stages._no_hugepages()
    assert said is None if why is None else why in said


def test_malloc_that_is_not_stock_with_its_tunable_off_fails_the_stage(monkeypatch):
    def differ() -> None:
        raise AbhError("patched off is not stock malloc", where="system calls of sqlite (smoke)")

    monkeypatch.setattr(allocators, "check_all_off_is_stock", differ)
    with pytest.raises(AbhError, match="not stock malloc"):
        stages.STAGES["off"].do()


@pytest.mark.parametrize("fails", [None, "semantics"])
def test_each_test_of_the_kernel_runs_and_one_that_fails_fails_the_stage(monkeypatch, tmp_path, fails):
    monkeypatch.setattr(components, "path_of", lambda name: tmp_path)
    monkeypatch.setattr(testbed, "kernel", lambda name, stock=False: tmp_path)

    def run_command(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        words = command[command.index("kernel-test") + 1 :]
        return subprocess.CompletedProcess(command, int(words[0] == fails), f"said {' '.join(words)}\n")

    monkeypatch.setattr(subprocess, "run", run_command)
    ended = stages.STAGES["kernel"].do()
    assert ended.passed == (fails is None)
    said = [line for line in ended.text.splitlines() if line.startswith("said ")]
    kinds = {line.split()[1] for line in said}
    assert len(said) == 10 and kinds == {"semantics", "fuzz", "selftests", "cost", "navarro"}


@pytest.mark.parametrize("built", [True, False])
def test_the_slice_of_itanium_says_where_linux_was_not_shown(monkeypatch, built):
    monkeypatch.setattr(components, "is_built", lambda name: built or name != "linux-ia64")
    monkeypatch.setattr(stages, "_cargo", lambda component: Ended(True, f"{component}\n"))
    monkeypatch.setattr(itanium, "boots_alike", lambda modes: (True, f"{' '.join(modes)}\n"))
    monkeypatch.setattr(thesis, "checks", lambda slice_alone: (not slice_alone, "counts outside their bounds\n"))
    ended = stages.STAGES["itanium-slice"].do()
    assert ended.passed is not built
    shown = "sf lf-lp\ncounts outside their bounds\n"
    assert ended.text == f"itanium-mmu-tests\n{shown if built else stages.NO_ITANIUM_LINUX}"


# --- which stages run, and what is remembered ---------------------------------------------------------------------


def test_what_a_stage_is_about_and_what_it_needs_is_there():
    for stage in stages.STAGES.values():
        assert stage.about and all((paths.CHECKOUT / each).exists() for each in stage.about), stage.name
        assert set(stage.needs) <= components.COMPONENTS.keys(), stage.name
        assert set(stage.roots) <= spec.roots().keys() and set(stage.boots) <= spec.environments().keys(), stage.name
    quick = {name for name, stage in stages.STAGES.items() if stage.quick}
    assert {"lint", "unit", "claims"} <= quick < stages.STAGES.keys()


def test_every_stage_is_a_step_of_its_own_alone_and_beside_all_others():
    every = list(stages.STAGES.values())
    for todo in (*([each] for each in every), every):
        steps = {step.name: step for step in test._steps(todo, [], {}, None)}
        assert {f"stage {each.name}" for each in todo} <= steps.keys()
        assert all(step.needs <= steps.keys() for step in steps.values())


@pytest.mark.parametrize(("text", "passed"), [("4 passed, 1 skipped in 1s", True), ("1 failed, 2 passed in 1s", True),
                                              ("3 skipped in 1s", False), ("no tests ran in 1s", False)])  # fmt: skip
def test_tests_of_which_none_has_passed_have_shown_nothing(monkeypatch, text, passed):
    monkeypatch.setattr(stages, "_said", lambda *words, **_: Ended(True, f"{text}\n"))
    assert stages._pytest("tests/plugin").passed is passed


def test_of_a_long_log_what_failed_is_repeated_and_not_its_progress():
    of_failure = [
        "NOT AS SAID  6  flush when a page leaves the p2m",
        "failure  test:sizes~shadow-1  round 3",
        "xen-test: superpages are on, and there were none",
        "abh: lint: clang-format found fault; its words are above",
        "abh: building linux failed",
    ]
    progress = ["abh: running Xen's guests", "abh: still running Xen's guests (30 s)", "abh: done: running them (31 s)"]
    log = [*progress * test.LINES, *of_failure, *["as it should"] * test.LINES]
    assert test.in_short("\n".join(log)).splitlines() == [*of_failure, *log[-test.LINES :]]


@pytest.fixture
def checkout(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of four files, with a cache of its own."""
    folder = tmp_path / "checkout"
    for name in ("abh/a.py", "abh/README.md", "agent/b.c", "tests/c.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    monkeypatch.setattr(paths, "CHECKOUT", folder)
    monkeypatch.setattr(
        lint, "sources", lambda checkout: sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    )
    return folder


def stage(name: str, do: Callable[[], Ended] = lambda: Ended(True, "said\n"), **options: object) -> Stage:
    return Stage(name, f"shows {name}", 0.1, do, **{"about": ("abh",), "quick": True, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("about", "file", "changes"),
    [
        (("abh",), "abh/a.py", True),
        (("abh/a.py",), "abh/a.py", True),
        (("abh",), "abh/new.py", True),
        (("abh",), "abh/README.md", False),
        (("abh",), "agent/b.c", False),
        (("abh", "agent"), "agent/b.c", True),
        (("a",), "abh/a.py", False),
        ((".",), "abh/README.md", True),
    ],
)
def test_the_key_of_a_stage_changes_with_the_files_it_is_about(checkout, about, file, changes):
    one = stage("one", about=about)
    before = stages.key_of(one, lint.sources(checkout))
    (checkout / file).write_text("changed")
    assert (stages.key_of(one, lint.sources(checkout)) != before) is changes
    assert stages.key_of(stage("two", about=about), lint.sources(checkout)) != before


@pytest.fixture
def run(checkout, monkeypatch, capsys) -> Callable[..., tuple[int, list[str], str]]:
    """Runs `abh test` over some stages: its status, the stages that ran, and all that was said."""
    monkeypatch.setattr(components, "path_of", lambda name: checkout)
    monkeypatch.setattr(root, "contents", lambda name: root.Contents({}))
    monkeypatch.setattr(cell, "frozen_state", lambda one: checkout)

    def command(given: list[Stage], *words: str) -> tuple[int, list[str], str]:
        monkeypatch.setattr(stages, "STAGES", {each.name: each for each in given})
        args = cli.parse(["test", *words])
        status = int(args.run(args))
        captured = capsys.readouterr()
        ran = [line.split()[1] for line in captured.out.splitlines() if line.startswith("== ") and ":" not in line]
        return status, ran, captured.out + captured.err

    return command


def failing() -> Ended:
    return Ended(False, "assertion\n")


def broken() -> Ended:
    raise AbhError("no room", where="/tmp")


def test_the_quick_stages_run_all_or_those_named(run):
    given = [stage("a"), stage("b"), stage("slow", quick=False)]
    status, ran, _ = run(given)
    assert status == 0 and sorted(ran) == ["a", "b"]
    assert sorted(run(given, "--full")[1]) == ["a", "b", "slow"]
    assert run(given, "slow")[1] == ["slow"]
    status, ran, said = run(given, "--list")
    assert (status, ran) == (0, []) and "shows slow" in said
    with pytest.raises(AbhError, match="unknown stage") as caught:
        run(given, "a", "slo")
    assert caught.value.status == 2


@pytest.mark.parametrize(("bad", "text"), [(failing, "assertion"), (broken, "no room")])
def test_a_stage_that_fails_fails_alone_and_fails_the_tests(run, bad, text):
    status, ran, said = run([stage("bad", bad), stage("good")])
    assert status == 1 and sorted(ran) == ["bad", "good"]
    assert text in said and "== bad: FAILED" in said and "stages: 1 passed, 1 failed, 0 skipped" in said


def test_what_a_failed_stage_said_of_it_is_repeated_at_the_end(run):
    def fails() -> Ended:
        return Ended(False, "\n".join(["not ok 7 unmapped is unmapped", *(f"ok {each}" for each in range(1000))]))

    _, _, said = run([stage("bad", fails), stage("good")])
    _, _, end = said.partition("== bad: FAILED; of what it said:\n")
    lines = end.splitlines()
    assert "not ok 7 unmapped is unmapped" in lines and "ok 999" in lines and len(lines) < 50, "the log may be cut"


def test_a_stage_whose_component_does_not_build_is_not_tried_and_fails(run, monkeypatch):
    def path_of(name: str) -> Path:
        raise AbhError(f"building {name}")

    monkeypatch.setattr(components, "path_of", path_of)
    status, ran, said = run([stage("bad", needs=("plugin",)), stage("good")])
    assert status == 1 and ran == ["good"]
    assert "FAILED: building" in said and "stage bad was not tried" in said and "1 passed, 1 failed" in said


def test_with_changed_what_has_passed_with_the_same_files_is_left_out(run, checkout):
    given = [stage("a"), stage("b", about=("agent",)), stage("bad", failing)]
    run(given)
    status, ran, said = run(given, "--changed")
    assert status == 1 and ran == ["bad"], "a stage that fails is not remembered"
    assert "passed here before with the same files: a, b" in said
    (checkout / "agent/b.c").write_text("changed")
    assert sorted(run(given, "--changed")[1]) == ["b", "bad"]
    assert sorted(run(given)[1]) == ["a", "b", "bad"], "without the option all are run"


def test_a_stage_is_remembered_by_the_files_it_started_with(run, checkout):
    def edit() -> Ended:
        (checkout / "abh/a.py").write_text("edited meanwhile")
        return Ended(True, "")

    run([stage("a", edit)])
    assert run([stage("a")], "--changed")[1] == ["a"]


def test_what_the_time_is_too_short_for_is_named_and_is_no_failure(run):
    sleep = partial(stages._said, "-c", "import time; time.sleep(300)")
    start = time.monotonic()
    given = [stage("first"), stage("long", sleep)]
    status, _, said = run(given, "--minutes", "0.02", "--cores", "1")
    assert time.monotonic() - start < 60
    assert status == 0 and "stages: 1 passed, 0 failed, 1 skipped" in said
    assert "NOT REACHED within the time: long; `bin/abh test long` runs them" in said and "FAILED" not in said
    assert sorted(run([stage("first"), stage("long")], "--changed")[1]) == ["long"]


def test_a_stage_says_what_its_command_said_and_how_it_ended():
    script = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(%d)"
    assert stages._said("-c", script % 0).passed
    ended = stages._said("-c", script % 3)
    assert not ended.passed and sorted(ended.text.split()) == ["err", "out"]
    assert stages._said("-c", "import os; print(os.environ['X_Y'])", X_Y="z") == Ended(True, "z\n")


def test_the_policy_stage_runs_each_file_of_its_tests_once(monkeypatch):
    runs = []

    def pytest_(*words):
        given = [paths.CHECKOUT / word for word in words if word.startswith("tests/")]
        left = {paths.CHECKOUT / word.partition("=")[2] for word in words if word.startswith("--ignore=")}
        files = {file for each in given for file in (each.glob("test_*.py") if each.is_dir() else [each])}
        runs.extend(files - left)
        return Ended(len(runs) > 0, "")

    monkeypatch.setattr(stages, "_pytest", pytest_)
    assert stages.STAGES["policy"].do().passed
    assert sorted(runs) == sorted((paths.CHECKOUT / "tests/policy").glob("test_*.py"))
