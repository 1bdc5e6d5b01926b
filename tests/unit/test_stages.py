# SPDX-License-Identifier: MIT
"""`abh test`: what its stages make of what they are given. Nothing is built or run."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import pytest

from abh.bench import build, testbed
from abh.commands import allocators, test
from abh.errors import AbhError

SUM = [f"PASS: malloc/{name}" for name in ("tst-realloc", test.OF_LAYOUT, *test.OF_HUGEPAGES)]


def unsupported(*names: str) -> list[str]:
    return [line.replace("PASS", "UNSUPPORTED") if line.partition("/")[2] in names else line for line in SUM]


@pytest.fixture
def malloc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the stage of malloc with that summary of its tests, on a machine with hugepages."""
    monkeypatch.setattr(build, "path_of", lambda name: tmp_path)
    monkeypatch.setattr(build, "THP", tmp_path)
    monkeypatch.setattr(allocators, "check_all_off_is_stock", lambda: None)
    (tmp_path / "enabled").write_text("[always] madvise never\n")
    (tmp_path / "hpage_pmd_size").write_text("2097152\n")

    def stage(lines: list[str]) -> bool:
        (tmp_path / "malloc.sum").write_text("\n".join(lines))
        return test.STAGES["malloc"]()

    return stage


def test_malloc_passes_where_its_tests_pass(malloc, capsys):
    assert malloc(SUM)
    assert "NOT SHOWN" not in capsys.readouterr().out
    assert not malloc([])


@pytest.mark.parametrize("name", test.OF_HUGEPAGES)
def test_with_hugepages_the_tests_of_them_must_pass(malloc, capsys, name):
    for lines in (unsupported(name), [line for line in SUM if not line.endswith(name)]):
        assert not malloc(lines)
        said = capsys.readouterr().out
        assert f"malloc/{name} must pass on this machine" in said and "NOT SHOWN" not in said


def test_hugepages_may_be_scarce_and_that_is_said(malloc, capsys):
    assert malloc(unsupported(test.OF_LAYOUT))
    assert f"({test.OF_LAYOUT}): the kernel had too few hugepages" in capsys.readouterr().out


def test_without_hugepages_it_is_said_that_nothing_was_shown(malloc, tmp_path, capsys):
    (tmp_path / "hpage_pmd_size").write_text("4194304\n")
    assert malloc(unsupported(test.OF_LAYOUT, *test.OF_HUGEPAGES))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("NOT SHOWN on this machine")]
    assert all(name in line for name in test.OF_HUGEPAGES) and line.endswith("have 4194304 bytes")
    assert not malloc([line for line in SUM if not line.endswith("limits")])  # but each must have run


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("enabled", "always [madvise] never\n", None),
        ("enabled", "always madvise [never]\n", "off on this machine"),
        ("enabled", None, "no transparent hugepages"),
        ("hpage_pmd_size", "33554432\n", "have 33554432 bytes"),
    ],
)
def test_why_a_machine_has_no_hugepages(malloc, tmp_path, file, text, why):
    if text is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_text(text)
    said = test._no_hugepages()
    assert said is None if why is None else why in said


def test_malloc_that_is_not_stock_with_its_tunable_off_fails_the_stage(malloc, monkeypatch):
    def differ() -> None:
        raise AbhError("patched off is not stock malloc", where="system calls of sqlite (smoke)")

    monkeypatch.setattr(allocators, "check_all_off_is_stock", differ)
    with pytest.raises(AbhError, match="not stock malloc"):
        malloc(SUM)


def test_a_stage_that_ends_in_an_error_fails_and_the_next_runs(monkeypatch, capsys):
    def broken() -> bool:
        raise AbhError("no room", where="/tmp")

    monkeypatch.setattr(test, "STAGES", {"first": broken, "second": lambda: True})
    assert test.run(argparse.Namespace(stage=[])) == 1
    said = capsys.readouterr().out
    assert "no room" in said and "stages: 1 passed, 1 failed" in said


@pytest.mark.parametrize("fails", [None, "semantics"])
def test_each_test_of_the_kernel_runs_and_one_that_fails_fails_the_stage(monkeypatch, tmp_path, capsys, fails):
    monkeypatch.setattr(build, "path_of", lambda name: tmp_path)
    monkeypatch.setattr(testbed, "kernel", lambda name, stock=False: tmp_path)

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        words = command[command.index("kernel-test") + 1 :]
        return subprocess.CompletedProcess(command, int(words[0] == fails), f"said {' '.join(words)}\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert test.STAGES["kernel"]() == (fails is None)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("said ")]
    assert len(said) == 8 and {line.split()[1] for line in said} == {"semantics", "fuzz", "selftests"}
