# SPDX-License-Identifier: MIT
"""The command line: finding commands, and every way for one to end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from abh import cli, paths
from abh.errors import AbhError

PATIENCE_S = 30
COMMAND = '''
"""Text of the command."""
import os, signal, sys, time
from abh.errors import AbhError
HELP = "one line"
def add_arguments(parser):
    parser.add_argument("way", nargs="?")
def run(args):
    try:
        return ways()[args.way]()
    finally:
        print("cleaned up", file=sys.stderr)
def ways():
    return {
        "well": lambda: 0,
        "none": lambda: None,
        "three": lambda: 3,
        "error": lambda: fail(AbhError("no such thing", where="/x", next_step="do y")),
        "bug": lambda: fail(ZeroDivisionError("oops")),
        "full": lambda: fail(OSError(28, "No space left on device")),
        "lost": lambda: fail(FileNotFoundError(2, "No such file", "/gone")),
        "wait": wait,
        "line": lambda: print(sys.stdin.read() or "a line"),
        "chatter": lambda: [print("x" * 1000) for _ in range(10000)] and 0,
    }
def fail(error):
    raise error
def wait():
    print("waiting", flush=True)
    time.sleep(30)
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with two commands; one of them cannot even be imported."""
    package = tmp_path / "abh"
    (package / "commands").mkdir(parents=True)
    for name in ("__init__.py", "__main__.py", "cli.py", "errors.py", "paths.py"):
        (package / name).write_text((paths.CHECKOUT / "abh" / name).read_text())
    (package / "commands/__init__.py").touch()
    (package / "commands/try_it.py").write_text(COMMAND)
    (package / "commands/anew.py").write_text(f"{COMMAND}BEGINS_ANEW = True\n")
    (package / "commands/broken.py").write_text("raise SystemError('imported')\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "abh"\nversion = "9.8.7"\n')
    return tmp_path


def start(tree: Path, *arguments: str, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "abh", *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        **options,
    )


def run(tree: Path, *arguments: str) -> tuple[int, str, str]:
    process = start(tree, *arguments)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


@pytest.mark.parametrize(("way", "status"), [("well", 0), ("none", 0), ("three", 3)])
def test_the_status_is_what_the_command_returns(tree, way, status):
    assert run(tree, "try-it", way)[0] == status


def test_an_error_is_printed_with_its_next_step(tree):
    assert run(tree, "try-it", "error") == (1, "", "cleaned up\nabh: no such thing\n  where: /x\n  next: do y\n")


def test_a_bug_says_so_and_keeps_the_traceback(tree):
    status, out, err = run(tree, "try-it", "bug")
    assert (status, out) == (1, "")
    assert "abh: this is a bug in abh: ZeroDivisionError: oops" in err
    assert "Traceback" in err
    assert "try_it.py" in err


def test_a_full_disk_is_not_called_a_bug(tree):
    status, _, err = run(tree, "try-it", "full")
    assert status == 1
    assert "No space left" in err
    assert "bug" not in err
    assert "next:" in err


def test_a_file_that_is_gone_is_a_bug(tree):
    status, _, err = run(tree, "try-it", "lost")
    assert status == 1
    assert "bug" in err


@pytest.mark.parametrize("arguments", [[], ["try-it", "--no-such"]])
def test_wrong_usage_is_2(tree, arguments):
    (tree / "abh/commands/broken.py").unlink()
    status, out, err = run(tree, *arguments)
    assert (status, out) == (2, "")
    assert "usage: abh" in err


def test_an_unknown_command_is_2_and_lists_the_known(tree):
    (tree / "abh/commands/broken.py").unlink()
    status, _, err = run(tree, "nope")
    assert status == 2
    assert "try-it" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_cleans_up_and_says_how_to_go_on(tree, number):
    process = start(tree, "try-it", "wait")
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "cleaned up" in err
    assert "abh: interrupted; run the same command again to go on" in err
    assert "Traceback" not in err


def test_an_interruption_of_what_is_not_kept_says_that_it_begins_anew(tree):
    process = start(tree, "anew", "wait")
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "abh: interrupted; run the same command again: it begins anew" in err
    assert "to go on" not in err


def test_commands_that_keep_nothing_say_so_and_those_that_resume_do_not():
    anew = {name for name in cli.command_names() if getattr(cli.load(name), "BEGINS_ANEW", False)}
    assert {"itanium", "itanium-study", "itanium-torture", "xen-test", "kernel-test"} <= anew
    assert not {"build", "study", "run", "collect", "organisations", "compat"} & anew


def test_nohup_is_respected(tree):
    process = start(tree, "try-it", "wait", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130


@pytest.mark.parametrize("way", ["chatter", "line"])
def test_a_reader_that_leaves_is_no_error(tree, way):
    # One is told while it prints, the other when its only line is flushed at the end.
    process = start(tree, "try-it", way, stdin=subprocess.PIPE)
    assert process.stdin and process.stdout and process.stderr
    process.stdout.close()
    process.stdin.close()
    err = process.stderr.read()
    assert process.wait(PATIENCE_S) == 141
    assert err == "cleaned up\n"


def test_only_the_module_of_the_command_is_imported(tree):
    # broken.py cannot be imported: everything that works here did not try.
    assert run(tree, "try-it", "well")[0] == 0
    assert run(tree, "--version") == (0, "abh 9.8.7\n", "")
    assert run(tree, "broken")[0] == 1


def test_help_lists_every_command_and_each_has_its_own(tree):
    (tree / "abh/commands/broken.py").unlink()
    status, out, _ = run(tree, "--help")
    assert status == 0
    assert re.search(r"try-it +one line", out)
    assert "Text of the command." in run(tree, "try-it", "--help")[1]


def test_every_command_of_this_checkout_has_what_it_must():
    names = cli.command_names()
    assert {"check-series", "doctor", "lint"} <= set(names)
    for name in names:
        module = cli.load(name)
        assert module.__doc__, name
        assert "\n" not in module.HELP and not module.HELP.endswith("."), name
        assert callable(module.run) and callable(module.add_arguments), name
    cli.make_parser(names)


def test_heavy_libraries_stay_out_of_the_front():
    code = "import sys, abh.cli; abh.cli.parse(['doctor']); print(*sys.modules)"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(paths.CHECKOUT)}
    done = subprocess.run([sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert not {"pydantic", "matplotlib", "snakemake", "rich", "jinja2"} & set(done.stdout.split())


def checkout_at(path: Path) -> Path:
    (path / "abh").mkdir(parents=True)
    (path / "abh/cli.py").touch()
    (path / "pyproject.toml").touch()
    return path


def test_the_checkout_is_named_or_around_the_source_or_above_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("ABH_CHECKOUT", raising=False)
    source, here, named = (checkout_at(tmp_path / name) for name in ("source", "here", "named"))
    below = here / "a/b"
    below.mkdir(parents=True)
    bare = tmp_path / "site-packages"
    assert paths.find_checkout(source, below) == source
    assert paths.find_checkout(bare, below) == here
    monkeypatch.setenv("ABH_CHECKOUT", str(named))
    assert paths.find_checkout(source, below) == named
    monkeypatch.setenv("ABH_CHECKOUT", str(tmp_path))
    with pytest.raises(AbhError, match="ABH_CHECKOUT is not"):
        paths.find_checkout(source, below)
    monkeypatch.delenv("ABH_CHECKOUT")
    with pytest.raises(AbhError, match="no checkout") as caught:
        paths.find_checkout(bare, tmp_path)
    assert "ABH_CHECKOUT" in (caught.value.next_step or "")


def targets() -> dict[str, str]:
    text = (paths.CHECKOUT / "Makefile").read_text()
    return dict(re.findall(r"^([a-z][a-z-]*):.*?((?:\n\t.*)*)$", text, re.MULTILINE))


def test_every_make_target_is_listed():
    argv = ["make", "-s", "help"]
    listed = subprocess.run(argv, cwd=paths.CHECKOUT, capture_output=True, text=True, check=True).stdout
    assert len(targets()) > 10
    for name in targets():
        assert re.search(rf"^  make {name} +\S", listed, re.MULTILINE), name


def test_every_make_target_is_a_command_that_exists():
    known = set(cli.command_names())
    for name, recipe in targets().items():
        for command in re.findall(r"\$\(ABH\) ([a-z][a-z-]*)", recipe):
            assert command in known, f"make {name}: no command {command}"


def test_ci_runs_the_readme_s_test_command():
    assert re.search(r"^(timeout .* )?make test\b", (paths.CHECKOUT / ".ci/run").read_text(), re.MULTILINE)
    assert os.access(paths.CHECKOUT / ".ci/run", os.X_OK)


@pytest.mark.parametrize(
    ("quick", "full", "minutes", "said"),
    [
        (0, 0, "80", "test --full --changed --minutes 80"),
        (1, 0, "80", ""),
        (0, 1, "80", "test --full --changed --minutes 80"),
        (0, 0, "0", "no time is left of 0 minutes"),
    ],
)
def test_ci_runs_the_quick_stages_then_what_there_is_time_for_and_ends_as_they_end(
    tmp_path, quick, full, minutes, said
):
    for folder in (".ci", "bin"):
        (tmp_path / folder).mkdir()
    (tmp_path / ".ci/run").write_text((paths.CHECKOUT / ".ci/run").read_text())
    (tmp_path / "Makefile").write_text(f"test:\n\t@exit {quick}\n")
    (tmp_path / "bin/abh").write_text(f'#!/bin/sh\necho "$*"\nexit {full}\n')
    (tmp_path / "bin/abh").chmod(0o755)
    words = ["bash", str(tmp_path / ".ci/run")]
    environment = {**os.environ, "ABH_CI_MINUTES": minutes}
    done = subprocess.run(words, cwd="/", env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode == 0) is (not quick and not full)
    assert done.stdout.startswith(said) and bool(done.stdout) is bool(said)
