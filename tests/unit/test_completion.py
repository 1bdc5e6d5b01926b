# SPDX-License-Identifier: MIT
"""`abh completion`: what bash completes, asked of bash; and that every shell's script has the same names."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest

from abh import arguments, cli
from abh.commands import completion


@pytest.fixture(scope="module")
def bash(tmp_path_factory):
    """Completes the last of these words as an interactive bash does."""
    script = tmp_path_factory.mktemp("bash") / "abh"
    script.write_text(completion.script("bash"))

    def complete(*words: str) -> list[str]:
        line = f"source {script}; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _shtab_abh; "
        line += "printf '%s\\n' \"breaks:$COMP_WORDBREAKS\" \"${COMPREPLY[@]}\" | sed 's/^breaks:.*@/SPLIT/'"
        argv = ["bash", "-c", f"COMP_WORDBREAKS='\"@><=;|&(:'; compopt() {{ :; }}; {line}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        breaks, *found = done.stdout.splitlines()
        assert "SPLIT" not in breaks and done.stderr == ""
        return found

    return complete


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["abh", "kernel"], ["kernel-test"]),
        (["abh", "run", "sqlite@kvm-hap~thp-p"], ["sqlite@kvm-hap~thp-paper"]),
        (["abh", "run", "--mmu", "i7"], ["i7-3770"]),
        (["abh", "run", "--size", "p"], ["paper"]),
        (["abh", "kernel-test", "s"], ["selftests", "semantics"]),
        (["abh", "kernel-test", "fuzz", "--policy", "o"], ["opt-in"]),
        (["abh", "kernel-test", "fuzz", "--ep"], ["--episode"]),
        (["abh", "kernel-test", "semantics", "--ep"], []),
        (["abh", "allocators", "xalan", "sql"], ["sqlite"]),
        (["abh", "completion", "z"], ["zsh"]),
        (["abh", "report", "--out", "/us"], ["/usr"]),
    ],
)
def test_bash_completes(bash, words, found):
    assert bash(*words) == found


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_every_shell_is_told_of_every_command_and_name(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in (*cli.command_names(), "semantics", "--free-running"):
        assert word in script or word.removeprefix("--") in script, word
    for kind in ("workload", "environment", "policy", "processor"):
        for name in arguments.NAMES[kind]():
            assert name in script, name
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_every_kind_that_an_argument_names_is_one_that_shells_complete():
    def kinds(parser):
        for action in parser._actions:
            yield from [action.complete] if hasattr(action, "complete") else []
            if action.dest == "command" or action.dest == "test":
                for each in action.choices.values():
                    yield from kinds(each)

    found = set(kinds(cli.make_parser(cli.command_names())))
    assert {"workload", "cell", "file", "directory"} <= found
    assert found <= {*arguments.NAMES, arguments.CELL, "file", "directory"}


def test_a_run_s_name_needs_more_than_one_name_of_each_part():
    # {one} in braces is not expanded by a shell.
    for kind in ("workload", "environment", "policy"):
        assert len(arguments.NAMES[kind]()) > 1
