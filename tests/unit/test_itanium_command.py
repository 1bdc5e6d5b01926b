# SPDX-License-Identifier: MIT
"""`abh itanium`: what it refuses before a boot and after it, and with which status it ends."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abh import cli
from abh.errors import Status
from abh.machine import itanium as machine
from abh.verify import itanium

COUNTED = {"instructions": 7, "seconds": 1.0}
WELL = f"init: here\nok fuzz\n{itanium.WELL}\n[    2.1] reboot: Restarting system\n"
UNKNOWN = (
    "init: here\ninit: no program has this name: nosuch 5\ninit: programs: fuzz linear\ninit: something is wrong\n"
)
LF = "[    0.000000] vhpt: vhpt=foo: none, sf or lf expected; sf is used\n"
SIZE = "[    0.000000] superpages: superpages=5M: a page size above 16K, up to 32M, or 0 expected; there are none\n"

Ends = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Ends:
    """Has each run end so; the runs."""
    ran: list[dict[str, Any]] = []

    def so(console: str = WELL, status: int = 0, report: str = "") -> list[dict[str, Any]]:
        def run(words: list[str], **named: Any) -> machine.Ended:
            ran.append({"words": words, **named})
            return machine.Ended(status, console, report, {} if status == machine.REFUSED else COUNTED)

        monkeypatch.setattr(itanium, "run", run)
        return ran

    return so


def test_a_boot_whose_test_is_well_is_a_success(ends: Ends, capsys: pytest.CaptureFixture[str]) -> None:
    ends(report="the kernel asked for reset 1, status 0\n")
    assert cli.main(["itanium", "--json"]) == Status.SUCCESS
    out, err = capsys.readouterr()
    assert json.loads(out) == {"status": 0, **COUNTED}
    assert "asked for reset" in err


@pytest.mark.parametrize(
    ("console", "said"),
    [
        (UNKNOWN, "got: init: no program has this name: nosuch 5; init: something is wrong"),
        ("init: here\nFAILED fuzz\ninit: something is wrong\n", "got: FAILED fuzz; init: something is wrong"),
        ("a message of the kernel\n", "got: nothing of the first process"),
        (f"{itanium.WELL}\ninit: something is wrong\n", "got: init: something is wrong"),
    ],
)
def test_a_boot_whose_test_is_not_well_has_failed(
    ends: Ends, capsys: pytest.CaptureFixture[str], console: str, said: str
) -> None:
    ends(console)
    assert cli.main(["itanium", "--append", "nosuch 5", "--json"]) == Status.FAILED
    out, err = capsys.readouterr()
    assert json.loads(out)["instructions"] == 7
    assert "the test that the machine ran has failed\n  where: --append=nosuch 5\n" in err
    assert said in err and f"expected: {itanium.WELL}" in err and "next: " in err


def test_another_ram_disk_has_a_test_of_its_own(ends: Ends, tmp_path: Path) -> None:
    (disk := tmp_path / "disk").write_text("070701")
    ends("TEST end well\n")
    assert cli.main(["itanium", "--ramdisk", str(disk)]) == Status.SUCCESS
    assert cli.main(["itanium", "--kernel", str(disk)]) == Status.FAILED
    ends("TEST end well\n", status=1)
    assert cli.main(["itanium", "--ramdisk", str(disk)]) == Status.FAILED


@pytest.mark.parametrize("line", [LF, SIZE])
def test_a_word_that_the_benchs_kernel_did_not_take_is_an_error(
    ends: Ends, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    ends(f"booting\n{line}{WELL}")
    assert cli.main(["itanium", "--append", "vhpt=foo"]) == Status.FAILED
    err = capsys.readouterr().err
    assert "the kernel did not take a word of its command line" in err
    assert line.split(": ", 1)[1].strip() in err
    # What another kernel says of its words is not known.
    (kernel := tmp_path / "vmlinux").write_text("kernel")
    assert cli.main(["itanium", "--kernel", str(kernel), "--append", "vhpt=foo"]) == Status.SUCCESS


def test_what_the_kernel_says_of_words_it_took_is_none() -> None:
    console = "[    0.000000] vhpt: long format, 65536 entries\n[    0.1] vhpt: the walker is off\nsf is used\n"
    assert itanium.untaken(console) == []
    assert len(itanium.untaken(LF + SIZE)) == 2
    assert itanium.untaken("[    0.0] vhpt: vhpt_spread needs 19 bits of region identifiers; it is not used\n")


@pytest.mark.parametrize("line", ["vhpt=lf fuzz 5 vhpt=sf", "superpages=1M superpages=16M"])
def test_a_word_with_two_values_is_refused_before_the_boot(
    ends: Ends, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    ran = ends()
    assert cli.main(["itanium", "--append", line]) == Status.USAGE
    err = capsys.readouterr().err
    assert all(word in err for word in line.split() if "=" in word)
    assert not ran
    assert cli.main(["itanium", "--append", "vhpt=lf vhpt_size=64M superpages=16M vhpt=lf"]) == Status.SUCCESS


@pytest.mark.parametrize(
    ("line", "meant"),
    [("superpage=16M", "superpages=16M"), ("vpht=lf", "vhpt=lf"), ("fuzz 5 hugepagesz=64K hugepage=4", "hugepages=4")],
)
def test_a_word_that_the_kernel_would_pass_over_is_refused_before_the_boot(
    ends: Ends, capsys: pytest.CaptureFixture[str], line: str, meant: str
) -> None:
    ran = ends()
    assert cli.main(["itanium", "--append", line]) == Status.USAGE
    assert f"did you mean `{meant}`?" in capsys.readouterr().err
    assert not ran
    assert (
        cli.main(["itanium", "--append", "console=ttyS0 loglevel=3 vhpt_spread=1 -- superpage=16M"]) == Status.SUCCESS
    )


@pytest.mark.parametrize("option", ["--kernel", "--ramdisk"])
@pytest.mark.parametrize(
    ("name", "said"),
    [("none", "no such file"), ("empty", "an empty file"), (".", "a folder"), ("pipe", "a device, pipe or socket")],
)
def test_what_is_no_file_to_start_with_is_refused_before_the_boot(
    ends: Ends, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, name: str, said: str
) -> None:
    ran = ends()
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / name
    assert cli.main(["itanium", option, str(path)]) == Status.USAGE
    err = capsys.readouterr().err
    assert f"where: {path}\n" in err and f"got: {'no file but ' if name == 'pipe' else ''}{said}\n" in err
    assert option in err and "next: name another file" in err
    assert not ran


def test_a_file_that_the_machine_refuses_is_named_with_the_reason(
    ends: Ends, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel, disk = tmp_path / "vmlinux", tmp_path / "disk"
    kernel.write_text("no kernel")
    disk.write_text("no archive")
    words = ["itanium", "--kernel", str(kernel), "--ramdisk", str(disk)]
    for path, option in ((kernel, "--kernel"), (disk, "--ramdisk")):
        ends("", machine.REFUSED, f"itanium: {path}: it is cut off\n")
        assert cli.main(words) == Status.USAGE
        err = capsys.readouterr().err
        assert f"where: {path}\n  got: it is cut off\n" in err and f"leave {option} out" in err
    ends("", machine.REFUSED, "itanium: the command line has more than 2047 bytes, or a zero\n")
    assert cli.main(words) == Status.USAGE
    assert "got: the command line has more than 2047 bytes" in capsys.readouterr().err


def test_a_boot_that_did_not_end_is_a_failure_with_the_machines_report(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    ends("Kernel panic\n", status=1, report="itanium: the kernel has panicked\n")
    assert cli.main(["itanium"]) == Status.FAILED
    assert "itanium: the kernel has panicked\n" in capsys.readouterr().err
