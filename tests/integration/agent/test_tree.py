# SPDX-License-Identifier: MIT
"""What the agent counts of a workload's processes, and how it ends them (agent/tree.h), on the kernel tests run on.

The harness is the first process of a PID namespace in the build root, as the agent is of a guest.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from abh import paths
from abh.build import root

HARNESS = "tests/integration/agent/tree_harness.c"
SERVER_MIB = 64
# Touches its memory, says so by a file, and stays: twice forked, in a session of its own.
SERVER = f"""\
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
memory = bytearray({SERVER_MIB} << 20)
memory[::4096] = b"x" * len(memory[::4096])
open("/tmp/ready", "w").close()
time.sleep(1000)
"""
WAIT = "until [ -e /tmp/ready ]; do sleep 0.01; done"
TOUCH = f"""\
import mmap
memory = mmap.mmap(-1, {SERVER_MIB} << 20)
for at in range(0, len(memory), 4096): memory[at] = 1
open("/tmp/ready", "w").close()
"""


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory, in_build_root: Callable[[Path, Path], list[str]]) -> Path:
    out = tmp_path_factory.mktemp("tree")
    words = ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-static"]
    done = subprocess.run(
        [*in_build_root(paths.CHECKOUT, out), *words, "-Iagent", "-o", "/out/harness", HARNESS],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (out / "server.py").write_text(SERVER)
    (out / "touch.py").write_text(TOUCH)
    (out / "stay.py").write_text(TOUCH + "import time; time.sleep(1000)\n")
    return out / "harness"


def run(harness: Path, command: str, **env: str) -> dict[str, int]:
    enter = root.enter(root.path_of("build"), read_only={"/in": harness.parent}, env=env)
    at = enter.index("--unshare-pid")
    done = subprocess.run(
        [*enter[:at], "--as-pid-1", *enter[at:], "/in/harness", command],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    said = [line.split() for line in done.stdout.splitlines()]
    return {name: int(value) for name, value in said}


def test_one_process_is_counted_as_it_always_was(harness):
    got = run(harness, "exec true")
    assert (got["gone"], got["status"], got["left"], got["together_kib"]) == (1, 0, 0, 0)
    assert 0 < got["peak_kib"] < 8 * 1024
    assert run(harness, "exit 7")["status"] == 7 << 8
    assert run(harness, "kill -9 $$")["status"] == 9


def test_a_server_in_the_background_is_counted_and_ended(harness):
    got = run(harness, f"python3 /in/server.py; {WAIT}")
    assert (got["gone"], got["status"], got["left"]) == (1, 0, 1)
    assert got["peak_kib"] > SERVER_MIB * 1024


def test_two_servers_weigh_what_they_have_together(harness):
    got = run(harness, f"python3 /in/server.py; {WAIT}; rm /tmp/ready; python3 /in/server.py; {WAIT}")
    assert (got["gone"], got["left"]) == (1, 2)
    assert got["peak_kib"] < 1.9 * SERVER_MIB * 1024 < got["together_kib"]


@pytest.mark.parametrize("command", ["python3 /in/touch.py", f"(python3 /in/touch.py &) ; {WAIT}"])
def test_a_grandchild_that_dies_early_is_counted_whoever_its_parent_is(harness, command):
    got = run(harness, f"sh -c '{command}'; true")
    assert (got["gone"], got["status"]) == (1, 0)
    assert got["peak_kib"] > SERVER_MIB * 1024


def test_the_mappings_of_the_process_that_has_most_are_counted(harness):
    few = run(harness, f"python3 /in/server.py; {WAIT}")["mappings"]
    # Of other rights in turn, so that the kernel joins none of them.
    many = "import mmap; kept = [mmap.mmap(-1, 4096, prot=1 + n % 2 * 2) for n in range(500)]; "
    server = many + "open('/tmp/ready', 'w').close(); import time; time.sleep(1000)"
    got = run(harness, f'python3 /in/server.py; {WAIT}; rm /tmp/ready; python3 -c "{server}" & {WAIT}')["mappings"]
    assert 20 < few < 300 and few + 400 < got < few + 600


def test_a_zombie_that_nobody_waited_for_is_counted(harness):
    leave = "import os, time\nif os.fork(): time.sleep(1000)\nelse: os.execvp('python3', ['python3', '/in/touch.py'])"
    got = run(harness, f'python3 -c "{leave}" & {WAIT}; sleep 0.5')
    assert (got["gone"], got["left"]) == (1, 1)
    assert got["peak_kib"] > SERVER_MIB * 1024


def test_a_small_fork_bomb_is_ended_in_bounded_time(harness):
    start = time.monotonic()
    got = run(
        harness,
        "ulimit -v 4000000; b() { [ $1 = 0 ] || { b $(($1 - 1)) & b $(($1 - 1)) & }; sleep 1000; }; b 6 & sleep 1",
    )
    assert (got["gone"], got["status"]) == (1, 0)
    assert got["left"] > 60
    assert time.monotonic() - start < 30


def test_what_stands_beside_the_workload_is_ended_and_not_counted(harness):
    got = run(harness, WAIT, BESIDE="exec python3 /in/stay.py")
    assert (got["gone"], got["left"]) == (1, 0)
    assert got["peak_kib"] < SERVER_MIB * 1024


def test_there_is_no_table_of_faults_where_the_kernel_has_none(harness):
    assert run(harness, "true")["reasons"] == 0
