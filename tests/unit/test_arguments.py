# SPDX-License-Identifier: MIT
"""What a command refuses: each wrong word ends with status 2, says what was expected, and nothing is done."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys

import pytest

from abh import arguments, cli, paths
from abh.errors import AbhError, Status
from abh.study import cell

RUN = "sqlite@kvm-hap~thp"


def refused(words, capsys) -> str:
    """What the command line says of these words, which it must refuse."""
    try:
        status = cli.main(words)
    except SystemExit as caught:  # argparse's own errors
        status = caught.code
    out, err = capsys.readouterr()
    assert (status, out) == (Status.USAGE, ""), err
    return err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["kernel-test", "fuzz", "--ops", "-5"], "a whole number from 1"),
        (["kernel-test", "fuzz", "--ops", "0"], "a whole number from 1"),
        (["kernel-test", "fuzz", "--ops", "1e3"], "a whole number from 1"),
        (["kernel-test", "fuzz", "--ops", "9" * 5000], "a whole number from 1"),
        (["kernel-test", "fuzz", "--seed", "-1"], "a whole number from 0"),
        (["kernel-test", "fuzz", "--seed", str(2**64)], "a whole number from 0"),
        (["kernel-test", "fuzz", "--episode", "-1"], "a whole number from 0"),
        (["kernel-test", "semantics", "--minutes", "nan"], "a number above 0"),
        (["kernel-test", "selftests", "--minutes", "inf"], "a number above 0"),
        (["kernel-test", "fuzz", "--minutes", "0"], "a number above 0"),
        (["allocators", "--rounds", "0"], "a whole number from 1"),
        (["allocators", "--rounds", "١"], "a whole number from 1"),
        (["bench-model", "--runs", ""], "a whole number from 1"),
        (["run", RUN, "--results", ""], "expected a path"),
        (["run", RUN, "--trace", "/"], "expected the name of a file"),
        (["run", RUN, "--trace", "/nonexistent/x"], "no such folder: /nonexistent"),
        (["status", "--prometheus", "/nonexistent/x"], "no such folder: /nonexistent"),
        (["run", RUN, "--trace", "/etc/passwd/x"], "not a folder: /etc/passwd"),
        (["run", RUN, "--results", "/etc/passwd"], "not a folder"),
        (["report", "--svg", "/etc/passwd"], "not a folder"),
        (["list", "nothere"], "no name matches `nothere`"),
        (["policy", "set", "VM", "./zz/nope.toml"], "./zz/nope.toml: no such file"),
        (["deploy", "kvm", "--policy", "./zz/nope.toml"], "./zz/nope.toml: no such file"),
        (["report", "--results", "/nonexistent"], "no such folder"),
        (["report", "--results", "/etc/passwd"], "not a folder"),
        (["check-series", "/nonexistent"], "no such folder"),
        (["check-series", "/"], "it has no BASE"),
        (["check-series", "--tree", "/"], "--tree is the base of one series"),
        (["kernel-test", "fuzz", "--replay", "/"], "not a file"),
        (["kernel-test", "fuzz", "--replay", "/dev/null"], "not a file"),
        (["kernel-test", "fuzz", "--set", "nonsense=1", "--replay", "/"], "unknown switch of ABH `nonsense`"),
        (["kernel-test", "selftests", "--set", "heap_ends=1", "--minutes", "0"], "did you mean `heap_end`?"),
        (["allocators", "sqlit"], "did you mean `sqlite`?"),
        (["run", "sqlit@kvm-hap~thp"], "did you mean `sqlite`?"),
        (["run", ""], "<workload>@<environment>~<policy>"),
        (["run", RUN, "--mmu", "i7-3771"], "did you mean `i7-3770`?"),
        (["run", RUN, "--mmu", "zen2", "--perf", "guest"], "guest_user"),
        (["sweep", "sqlite@kvm-hap~th"], "did you mean `thp`?"),
        (["bench-model", "--cell", "x"], "<workload>@<environment>~<policy>"),
        (["new-workload", "A b"], "abh new-workload a-b"),
        (["xen-test", "sizs"], "unknown test of Xen `sizs`"),
        (["xen-test", "sizs"], "did you mean `sizes`?"),
        (["lsit"], "did you mean `list`?"),
        ([""], "unknown command"),
    ],
)
def test_a_wrong_word_is_refused_with_what_was_expected(words, expected, capsys):
    assert expected in refused(words, capsys)


def test_a_name_that_is_near_to_one_of_many_does_not_list_them_all(capsys):
    err = refused(["study", "--policy", "abh-xen2", "--dry-run"], capsys)
    assert "did you mean `abh-xen2m`?" in err and "thp-fragmented" not in err
    assert re.search(r"expected: one of \d\d names; the nearest is abh-xen2m", err)
    err = refused(["run", "sqlite@xen-shadow~abh-xen2"], capsys)
    assert "the nearest is abh-xen2m" in err and "thp-fragmented" not in err
    assert "thp-fragmented" in refused(["study", "--policy", "zzzzzz", "--dry-run"], capsys)  # there is no guess
    few = str(arguments.unknown("thing", "ab", ["abc", "xyz"]))
    assert "one of abc, xyz" in few and "did you mean `abc`?" in few


def test_a_number_is_not_taken_for_a_misspelt_one(capsys):
    err = refused(["xen-test", "--mutants", "99"], capsys)
    assert "no such mutant" in err and "next: take one of 1, 2, " in err and "did you mean" not in err
    err = refused(["itanium-study", "--pages", "6"], capsys)
    assert "name one of these" in err and "did you mean" not in err


@pytest.mark.parametrize(
    "words",
    [
        ["kernel-test", "semantics", "--ops", "5"],
        ["kernel-test", "semantics", "--set", "unused_kib=1"],
        ["kernel-test", "semantics", "--policy", "never"],
        ["kernel-test", "selftests", "--seed", "1"],
        ["kernel-test", "fuzz", "--ours"],
        ["kernel-test", "fuzz", "--stock", "--set", "unused_kib=1"],
        ["kernel-test", "fuzz", "--stock", "--policy", "never"],
        ["kernel-test", "fuzz", "--stock", "--reservations"],
        ["kernel-test", "selftests", "--stock", "--set", "unused_kib=1"],
        ["kernel-test", "fuzz", "--set", "enabled=never"],
        ["kernel-test", "selftests", "--set", "enabled=opt-in"],
        ["xen-test", "sizes", "--seed", "3"],
        ["study", "--seed", "3", "--dry-run"],
        ["deploy", "kvm.xml", "--dry-run", "--start"],
        ["run", RUN, "--free-running", "--machine", "local"],
        ["run", RUN, "--mmu", "zen2", "--machine", "local"],
        ["run", RUN, "--mmu-check"],
        ["run", RUN, "--perf"],
        ["run", RUN, "--mmu", "zen2", "--perf", "--json"],
        ["run", RUN, "--free"],
        ["run", RUN, "more"],
    ],
)
def test_an_option_that_would_be_ignored_is_refused(words, capsys, monkeypatch):
    monkeypatch.setattr(cell, "run", lambda one: pytest.fail("ran"))
    err = refused(words, capsys)
    assert "usage: abh [" not in err  # that of the command, if any


@pytest.mark.parametrize("option", ["--ops", "--seed", "--episode"])
def test_a_replay_draws_nothing(option, tmp_path, capsys):
    (tmp_path / "list").write_text("some words\nop 12ab 34\n")
    words = ["kernel-test", "fuzz", "--replay", str(tmp_path / "list")]
    assert "--replay with " + option in refused([*words, option, "1"], capsys)


def test_a_replay_of_nothing_is_refused(tmp_path, capsys):
    (tmp_path / "list").write_text("no op 12\n")
    assert "nothing to replay" in refused(["kernel-test", "fuzz", "--replay", str(tmp_path / "list")], capsys)


@pytest.mark.parametrize(("word", "value"), [("1", 1), ("1000", 1000), ("+7", 7), ("007", 7)])
def test_whole_numbers_within_their_bounds_are_read(word, value):
    assert arguments.whole(1, 1000)(word) == value


@pytest.mark.parametrize("word", ["1_000", " 1", "1 ", "0x1", "1.0", "--1", "+", "1001", "²"])
def test_other_forms_of_numbers_are_not(word):
    with pytest.raises(argparse.ArgumentTypeError, match="from 1 to 1,000"):
        arguments.whole(1, 1000)(word)


def test_numbers_within_their_bounds_are_read():
    assert arguments.number(0, 10)("0.5") == 0.5 and arguments.number(0, 10)("10") == 10
    for word in ("10.1", "-0", "", "x", "1e999"):
        with pytest.raises(argparse.ArgumentTypeError, match="above 0, up to 10"):
            arguments.number(0, 10)(word)


def test_every_kind_of_name_has_names_and_knows_them():
    for kind, names in arguments.NAMES.items():
        assert names(), kind
        assert all(arguments.name(kind)(each) == each for each in names())
        with pytest.raises(AbhError) as caught:
            arguments.name(kind)("no-such-name")
        assert not re.search(r"\w-\w", caught.value.what.removesuffix("`no-such-name`")), "plain words"
        assert caught.value.status == Status.USAGE and caught.value.next_step


def test_what_is_wrong_in_the_checkout_is_no_wrong_usage():
    with pytest.raises(AbhError) as caught:
        raise AbhError("a broken file")
    assert caught.value.status == Status.FAILED
    with pytest.raises(AbhError) as caught, arguments.usage():
        raise AbhError("an unknown name")
    assert caught.value.status == Status.USAGE


def shell(line: str, **environment: str) -> tuple[int, str, str]:
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(paths.CHECKOUT), "ABH": f"{sys.executable} -m abh", **environment}
    done = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_files_are_no_bug(closed):
    status, out, err = shell(f"$ABH list thp {closed}")
    assert (status, err) == (0, "") and ("thp-paper" in out) == (" >&-" not in f" {closed}")


def test_a_standard_file_that_is_closed_is_not_taken_by_another(tmp_path):
    # The first file that abh opens to write would be its stdout, and would get what is printed.
    status, _, err = shell(f"$ABH man --out {tmp_path} >&- <&-")
    assert (status, err) == (0, "")
    assert all(path.read_text().startswith(".TH ") for path in tmp_path.glob("*.1"))


def test_a_full_device_is_told_and_is_no_bug():
    status, _, err = shell("$ABH list > /dev/full")
    assert status == Status.FAILED and "No space left" in err and "bug" not in err


def test_a_current_folder_that_is_gone_is_no_bug(tmp_path):
    (tmp_path / "gone").mkdir()
    status, out, err = shell(f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && $ABH list thp")
    assert (status, err) == (0, "") and "thp-paper" in out


def test_without_home_and_on_a_terminal_that_knows_no_letters():
    status, out, err = shell("$ABH list thp", TERM="dumb", PYTHONIOENCODING="ascii", ABH_CACHE="")
    assert (status, err) == (0, "") and "thp-paper" in out


def test_letters_that_the_terminal_lacks_are_replaced():
    code = "from abh import cli; from abh.commands import list as it; it.run = lambda a: print('\\u2717') or 0; "
    status, out, err = shell(f"$PY -c \"{code}import sys; sys.exit(cli.main(['list']))\"", PY=sys.executable,
                             PYTHONIOENCODING="ascii")  # fmt: skip
    assert (status, out, err) == (0, "?\n", "")


def test_a_cache_that_cannot_be_made_is_told(monkeypatch):
    monkeypatch.setenv("ABH_CACHE", "/proc/no/such")
    with pytest.raises(AbhError, match="the cache cannot be made") as caught:
        paths.cache()
    assert "ABH_CACHE" in caught.value.next_step


@pytest.mark.parametrize(("words", "option"), [(["man", "--out"], "--out"), (["debs", "--out"], "--out"),
                                               (["allocators", "--results"], "--results")])  # fmt: skip
def test_a_place_that_cannot_be_written_names_the_option_that_the_command_has(words, option, capsys):
    assert cli.main([*words, "/dev/null/x"]) == Status.FAILED
    assert f"with {option}\n" in capsys.readouterr().err


def test_a_new_file_takes_the_place_of_no_pipe_or_device_and_of_no_link(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(argparse.ArgumentTypeError, match="pipe"):
        arguments.new_file(str(tmp_path / "pipe"))
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").write_text("")
    assert arguments.new_file(str(tmp_path / "link")) == tmp_path / "file"
    assert arguments.new_file(str(tmp_path / "not-there")) == tmp_path / "not-there"
