# SPDX-License-Identifier: MIT
"""agent/xen-superpages, with a Xen that says what a test wants (superpages_xen.c)."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from abh import paths
from abh.study import cell

SOURCES = ("agent/xen-superpages.c", "tests/integration/agent/superpages_xen.c")
ALL = ["live 100", "shadow_pages 101", "direct 102", "demoted_table 103", "demoted_mapping 104", "demoted_fault 105",
       "splintered_p2m 106", "splintered_dirty 107", "splintered_cache 108", "splintered_write 109",
       "splintered_page 110", "splintered_many 111", "splintered_wait 112", "promoted 113"]  # fmt: skip


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory, in_build_root: Callable[[Path, Path], list[str]]) -> Path:
    out = tmp_path_factory.mktemp("superpages")
    words = ["cc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-O1", "-static", "-Wl,--wrap=open,--wrap=ioctl"]
    done = subprocess.run(
        [*in_build_root(paths.CHECKOUT, out), *words, "-o", "/out/xen-superpages", *SOURCES],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out / "xen-superpages"


def run(program: Path, *words: str, **xen: int) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **{f"XEN_{name.upper()}": str(value) for name, value in xen.items()}}
    return subprocess.run([program, *words], env=env, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize(("counters", "told"), [(11, ALL[:11]), (14, ALL), (20, ALL)])
def test_people_are_told_whether_it_is_on_and_the_counters_that_both_know(program, mode, counters, told):
    done = run(program, "3", counters=counters, mode=mode)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"enabled {'yes' if mode else 'no'}", *told]


def test_the_bench_is_told_values_that_it_knows(program):
    done = run(program, "--values", "3", counters=14, mode=1)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [f"ABH value superpages_{line}" for line in ALL]
    told = dict(cell._reported(cell.listen(done.stdout.split("\n"))))
    assert told["superpages_promoted"].value == 113


@pytest.mark.parametrize("on", ["0", "1"])
def test_the_switch_says_nothing(program, on):
    done = run(program, "3", on)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"set {on} of domain 3\n")


@pytest.mark.parametrize(
    ("number", "status", "words"),
    [
        (errno.EINVAL, 3, "xen-hypervisor-abh has), or domain 3 is not paged by a shadow"),
        (errno.ENOSYS, 3, "this Xen has no superpages in the shadow"),
        (errno.EOPNOTSUPP, 3, "domain 3 is para-virtual"),
        (errno.ESRCH, 1, "there is no domain 3"),
        (errno.EPERM, 1, "only root of the control domain"),
        (errno.EACCES, 1, "another interface"),
        (errno.EFAULT, 1, "domain 3"),
    ],
)
def test_why_xen_refuses_is_said(program, number, status, words):
    for more in ((), ("1",)):
        done = run(program, "3", *more, errno=number)
        assert (done.returncode, done.stdout) == (status, "")
        assert done.stderr.startswith(f"xen-superpages: Xen refuses: {os.strerror(number)}: ") and words in done.stderr


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES])
def test_a_device_that_cannot_be_opened_is_told_with_its_own_error(program, number):
    done = run(program, "3", open=number)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        f"/dev/xen/hypercall: {os.strerror(number)}: is this a control domain of Xen, and are you root?" in done.stderr
    )


@pytest.mark.parametrize("words", [(), ("",), ("x",), ("-1",), (" 3",), ("3x",), ("32752",), ("3", "2"), ("3", ""),
                                   ("3", "1", "1"), ("--values",), ("--values", "3", "1"), ("3", "--values"),
                                   ("--help", "3")])  # fmt: skip
def test_wrong_usage_asks_nothing(program, words):
    done = run(program, *words, counters=13)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("usage: xen-superpages ")


def test_help_is_no_error(program):
    done = run(program, "--help")
    assert done.returncode == 0 and "--values" in done.stdout and done.stderr == ""


def test_what_cannot_be_said_is_an_error(program):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [program, "3"], env={"XEN_COUNTERS": "13"}, stdout=full, stderr=subprocess.PIPE, timeout=30
        )
    assert done.returncode == 1 and b"standard output" in done.stderr
