# SPDX-License-Identifier: MIT
"""`abh exec`: it becomes the program, or says why it cannot."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys

import pytest

from abh import cli, paths
from abh.bench import series, testbed
from abh.commands import exec as command
from abh.errors import AbhError

HAS_ABH = command.ENABLED.exists()


@pytest.fixture
def kernel(monkeypatch, tmp_path):
    """A kernel that has ABH, as far as the command sees; returns what was chosen and what was run."""
    seen = []
    (tmp_path / "enabled").write_text("always [opt-in] never\n")
    monkeypatch.setattr(command, "ENABLED", tmp_path / "enabled")
    monkeypatch.setattr(command, "choose", seen.append)
    monkeypatch.setattr(os, "execvpe", lambda *words: seen.append(words))
    monkeypatch.setattr(command.signal, "signal", lambda *words: None)
    return seen


@pytest.mark.parametrize(("words", "choice"), [([], command.PR_ABH_ON), (["--off"], command.PR_ABH_OFF)])
def test_the_program_gets_its_words_and_nothing_of_ours(kernel, monkeypatch, words, choice):
    monkeypatch.setenv("PYTHONPATH", "ours")
    monkeypatch.setenv("PYTHONNOUSERSITE", "ours")
    monkeypatch.setenv("ABH_USER_PYTHONPATH", "theirs")
    args = cli.parse(["exec", *words, "ls", "-l", "--off", "--", "x"])
    command.run(args)
    chosen, (program, argv, environment) = kernel
    assert (chosen, program, argv) == (choice, "ls", ["ls", "-l", "--off", "--", "x"])
    assert environment["PYTHONPATH"] == "theirs" and environment["PATH"] == os.environ["PATH"]
    assert "PYTHONNOUSERSITE" not in environment and "ABH_USER_PYTHONPATH" not in environment


def test_bin_abh_keeps_what_the_user_had_set(tmp_path):
    """Without ABH in the kernel there is no exec: so Python itself says what it was given."""
    (tmp_path / "python").write_text("#!/bin/sh\nenv\n")
    script = (paths.CHECKOUT / "bin" / "abh").read_text()
    tail = script[script.index('[ -z "${PYTHONPATH+set}" ]') :].replace("$environment/bin", str(tmp_path))
    (tmp_path / "python").chmod(0o755)
    had = {"PATH": os.environ["PATH"], "PYTHONPATH": "a b", "checkout": "/ours"}
    said = subprocess.run(["sh", "-c", tail], env=had, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "ABH_USER_PYTHONPATH=a b" in said and "PYTHONPATH=/ours" in said
    assert not any(line.startswith("ABH_USER_PYTHONHOME") for line in said)


def test_a_system_that_says_never_is_told_of(kernel):
    command.ENABLED.write_text("always opt-in [never]\n")
    with pytest.raises(AbhError, match="off on this system"):
        command.run(cli.parse(["exec", "ls"]))


@pytest.mark.parametrize(("number", "status"), [(errno.ENOENT, 127), (errno.EACCES, 126)])
def test_a_program_that_cannot_be_run(kernel, monkeypatch, capsys, number, status):
    def fail(*words):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "execvpe", fail)
    with pytest.raises(AbhError, match="cannot run nothing-of-that-name"):
        command.run(cli.parse(["exec", "nothing-of-that-name"]))
    assert cli.main(["exec", "nothing-of-that-name"]) == status
    assert "cannot run nothing-of-that-name" in capsys.readouterr().err


def test_without_sysfs_the_kernel_alone_decides(kernel):
    command.ENABLED.unlink()
    command.run(cli.parse(["exec", "ls"]))
    assert kernel[0] == command.PR_ABH_ON and kernel[1][0] == "ls"


def test_what_it_asks_is_what_the_kernel_series_defines():
    whole = series.load(paths.CHECKOUT / testbed.KERNEL_SERIES)
    files = [part for name in whole.patches for part in (whole.folder / name).read_text().split("\ndiff --git ")]
    header = "\n".join(part for part in files if part.startswith("a/include/uapi/linux/prctl.h "))
    define = r"# ?define (PR_\w+)\s+(\w+)"
    defined = {name: int(value, 0) for name, value in re.findall(rf"^\+{define}", header, re.M)}
    for name in ("PR_SET_ABH", "PR_ABH_ON", "PR_ABH_OFF"):
        assert getattr(command, name) == defined[name]
    of_tests = (paths.CHECKOUT / "tests/kernel/abh.h").read_text()
    assert {name: int(value, 0) for name, value in re.findall(rf"^{define}", of_tests, re.M)} == defined


@pytest.mark.skipif(HAS_ABH, reason="this kernel has ABH")
def test_a_kernel_without_it():
    done = subprocess.run(
        [sys.executable, "-m", "abh", "exec", "true"], cwd=paths.CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "has no alignment-based hugepages" in done.stderr
