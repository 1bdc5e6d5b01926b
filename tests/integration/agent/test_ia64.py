# SPDX-License-Identifier: MIT
"""The Itanium machine's agent and its C library, compiled for this computer: its calls of the kernel are mapped."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from abh import paths
from abh.schema import spec
from abh.study import cell, itanium

HARNESS = "tests/integration/agent/ia64_calls.c"
FLAGS = "-std=gnu17 -O2 -Wall -Wextra -ffreestanding -fno-stack-protector -nostdlib -static -z noexecstack".split()
LIBRARY = ["-fno-tree-loop-distribute-patterns", "-isystem", "agent/ia64/include", "-I", "agent/ia64"]
WORKLOADS = [each for group in ("", "itanium") for each in spec.workloads(group=group).values()
             if not (each.build_packages or itanium.why_not(each))]  # fmt: skip
SUPERPAGES = "64K faulted 3 failed 1 demoted 2\n16384K faulted 7 failed 0 demoted 5\n"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, in_build_root) -> Callable[..., Path]:
    """A program of a source in the checkout, with the library."""
    out = tmp_path_factory.mktemp("ia64")

    def compile_(source: str, *more: str) -> Path:
        program = Path(source).stem
        words = ["cc", *FLAGS, *LIBRARY, *more, "-o", f"/out/{program}", source, "agent/ia64/libc.c", HARNESS]
        subprocess.run([*in_build_root(paths.CHECKOUT, out), *words], check=True)
        return out / program

    return compile_


@pytest.fixture(scope="module")
def agent(compiled) -> Path:
    return compiled("agent/ia64/init.c", '-DROOT="."', "-DMARK(number)=")


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: each.name)
def test_a_workload_gives_its_answer_with_that_library(compiled, workload) -> None:
    (source,) = workload.folder.glob("*.c")
    program = compiled(str(source.relative_to(paths.CHECKOUT)))
    words = [str(program), *workload.argv_for("smoke")[1:]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert workload.check_output("smoke", done.stdout)[0], done.stdout
    wrong = subprocess.run([program, "--nonsense"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "expected" in wrong.stdout


def test_the_library_has_memory_and_text(compiled) -> None:
    done = subprocess.run([compiled("tests/integration/agent/ia64_library.c")], capture_output=True, text=True,
                          timeout=120, check=False)  # fmt: skip
    assert (done.stdout, done.returncode) == ("all is well\n", 0)


def says(agent: Path, folder: Path, text: str) -> cell.Said:
    (folder / "cell").write_text(text)
    (folder / "proc").mkdir(exist_ok=True)
    (folder / "proc/superpages").write_text(SUPERPAGES)
    done = subprocess.run([agent], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return cell.listen(done.stdout.split("\n"))


def run_of(*words: str, timeout_s: int = 50) -> str:
    lines = [f"ABHCELL {cell.PROTOCOL}", "env A=b c", "cwd /usr", f"timeout {timeout_s}", *(f"arg {x}" for x in words)]
    return "\n".join([*lines, "end", ""])


def test_a_cell_is_run_and_what_was_counted_is_said(agent, tmp_path) -> None:
    said = says(agent, tmp_path, run_of("/bin/sh", "-c", 'pwd; echo "$A"; echo oops >&2; exit 3'))
    # The program's folder is not the agent's: its output is found again all the same.
    assert said.output == ["/usr", "b c", "oops"]
    assert said.end == "exit 3"
    assert int(said.values["minor_faults"]) > 10 and int(said.values["rss_peak_kib"]) > 100
    assert said.values.keys() == {*itanium.REPORTED, "superpages_64k", "superpages_16384k"}


def test_superpages_are_those_of_the_workload(agent, tmp_path) -> None:
    after = r"64K faulted 5 failed 1 demoted 2\n16384K faulted 8 failed 4 demoted 15\n"
    said = says(agent, tmp_path, run_of("/bin/sh", "-c", f"printf '{after}' > {tmp_path}/proc/superpages"))
    found = {name: int(value) for name, value in said.values.items() if name.startswith("superpages_")}
    assert said.end == "exit 0"
    assert found == {
        "superpages_64k": 2,
        "superpages_16384k": 1,
        "superpages_failed": 4,
        "superpages_demoted": 10,
    }


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (run_of("/bin/sh", "-c", "kill -9 $$"), "signal 9"),
        (run_of("/bin/sleep", "20", timeout_s=1), "timeout 1"),
        (run_of("/nothing"), "exit 127"),
        (run_of("/bin/true").replace("cwd /usr", "cwd /nothing"), "exit 126"),
        (run_of("/bin/true").replace("cwd", "require /nothing\ncwd"), "skip this system has no /nothing"),
        (run_of("/bin/true").replace("cwd", "require /usr\ncwd"), "exit 0"),
        (run_of("/bin/true").replace("cwd", "set /proc/x 1\ncwd"), "error unknown line: set"),
        (run_of("/bin/true").replace("ABHCELL", "CELL"), f"error not a cell: starts with 'CELL {cell.PROTOCOL}'"),
        (run_of(), "error the cell has no command, no folder or no time limit"),
        (run_of(*["x"] * 65), "error more than 64 words"),
    ],
)
def test_how_it_ends(agent, tmp_path, text: str, end: str) -> None:
    assert says(agent, tmp_path, text).end == end


def test_its_marks_are_those_that_the_bench_looks_for() -> None:
    source = (paths.CHECKOUT / "agent/ia64/init.c").read_text()
    # GNU as puts the bits from the fourth on two places further.
    begin, end = (number & 15 | number >> 6 << 4 for number in (itanium.BEGIN, itanium.END))
    assert f"BEGIN = {begin:#x}, END = {end:#x}" in source
