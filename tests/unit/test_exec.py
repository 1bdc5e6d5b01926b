# SPDX-License-Identifier: MIT
"""`abh exec`: it becomes the program, or says why it cannot."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys

import pytest

from abh import cli, paths
from abh.build import series
from abh.commands import exec as command
from abh.errors import AbhError
from abh.host import given
from abh.verify import testbed

HAS_ABH = command.ENABLED.exists()
OF_A_SHELL = ("_", "SHLVL", "OLDPWD")  # some shells that may be /bin/sh set them for what they run
# A Python that bin/abh can use, without any package, for which every kernel has ABH.
PATCHED = """#!{python} -BIS
import ctypes, sys, types
if sys.argv[1] == "-V":
    print("Python", sys.version.split()[0])
else:
    ctypes.CDLL = lambda *_, **__: types.SimpleNamespace(prctl=lambda *_: 0)
    code = sys.argv[sys.argv.index("-c") + 1]
    del sys.argv[1 : sys.argv.index("-c") + 2]
    exec(code)
"""


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
def test_the_program_gets_its_words(kernel, words, choice):
    command.run(cli.parse(["exec", *words, "ls", "-l", "--off", "--", "x"]))
    chosen, (program, argv, _) = kernel
    assert (chosen, program, argv) == (choice, "ls", ["ls", "-l", "--off", "--", "x"])


def test_without_proc_the_environment_is_what_python_makes_of_it(kernel, monkeypatch, tmp_path):
    monkeypatch.setattr(given, "ENVIRONMENT", tmp_path / "none")
    command.run(cli.parse(["exec", "ls"]))
    assert kernel[1][2] == os.environb


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


@pytest.fixture
def launcher(tmp_path):
    """Runs bin/abh of a copy of the checkout: with an empty cache, and on PATH only what finds the checkout."""
    for folder in ("bin", "abh"):
        copied = tmp_path / "checkout" / folder
        shutil.copytree(paths.CHECKOUT / folder, copied, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("cache", "path"):
        (tmp_path / name).mkdir()
    (tmp_path / "path/readlink").symlink_to(shutil.which("readlink"))
    (tmp_path / "python").write_text(PATCHED.format(python=sys.executable))
    (tmp_path / "python").chmod(0o755)
    had = {"PATH": f"{tmp_path}/path", "PWD": str(tmp_path), "HOME": str(tmp_path), "ABH_CACHE": f"{tmp_path}/cache"}

    def run(*words, **environment):
        """What bin/abh did, and the environment it was started with."""
        before, given = sorted(tmp_path.rglob("*")), {**had, "ABH_PYTHON": f"{tmp_path}/python", **environment}
        program = tmp_path / "checkout/bin/abh"
        done = subprocess.run([program, *words], env=given, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert sorted(tmp_path.rglob("*")) == before  # nothing is made
        return done, given

    return run


@pytest.mark.skipif(HAS_ABH, reason="this kernel has ABH")
def test_a_kernel_without_it(launcher):
    done, _ = launcher("exec", "/bin/true", ABH_PYTHON=sys.executable)
    assert done.returncode == 1 and "has no alignment-based hugepages" in done.stderr


def test_bin_abh_gives_the_program_the_users_own_environment(launcher):
    # What Python heeds, what bin/abh itself calls things, and no locale, for which Python would set one.
    odd = {"PYTHONPATH": "a b", "PYTHONHOME": "/x", "PYTHONNOUSERSITE": "", "python": "1", "checkout": "2", "path": "3"}
    done, given = launcher("exec", "--off", shutil.which("env"), "-0", **odd)
    got = dict(each.split("=", 1) for each in done.stdout.split("\0") if each)
    assert done.returncode == 0, done.stderr
    assert {name: value for name, value in got.items() if name not in OF_A_SHELL} == given


@pytest.mark.parametrize(
    ("words", "status"), [(["nothing-of-that-name"], 127), (["/"], 126), (["/bin/sh", "-c", "exit 7"], 7)]
)
def test_bin_abh_ends_as_the_program_does(launcher, words, status):
    done, _ = launcher("exec", "--off", *words)
    assert done.returncode == status and ("cannot run" in done.stderr) == (status != 7), done.stderr


def test_bin_abh_without_the_python_named_says_so_and_gets_none(launcher):
    done, _ = launcher("exec", "true", ABH_PYTHON="/nonexistent/python3")
    assert done.returncode == 1 and "got: /nonexistent/python3" in done.stderr and "3.11 or newer" in done.stderr
