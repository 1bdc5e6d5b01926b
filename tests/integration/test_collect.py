# SPDX-License-Identifier: MIT
"""`abh collect` with a real perf, Debian 13's, counting what every kernel counts."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from abh import paths
from abh.build import root
from abh.schema import measured

# 40 MiB that are touched: 10,240 base pages, or 20 hugepages.
MIB = 40
TOUCH = f"memory = bytearray({MIB} << 20); import time; time.sleep(0.6)"
PAGES = MIB << 20 >> 12


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A PATH with that perf in front: run by its own loader, as a process between it and us would get its signals."""
    inside = root.path_of("perf")
    program = tmp_path_factory.mktemp("bin") / "perf"
    libraries = inside / "usr/lib/x86_64-linux-gnu"
    words = f"{libraries}/ld-linux-x86-64.so.2 --library-path {libraries} {inside}/usr/bin/perf"
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}{os.pathsep}{os.environ['PATH']}"


def collect(tmp_path, path, *words):
    argv = [sys.executable, "-m", "abh", "collect", "--results", str(tmp_path), "--software", *words]
    return subprocess.Popen(
        argv, cwd=paths.CHECKOUT, env={**os.environ, "PATH": path}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def only(tmp_path):
    (found,) = tmp_path.glob("[!.]*.json")
    return measured.read(found)


def test_a_programs_faults_are_counted(tmp_path, path):
    ended(collect(tmp_path, path, "--repeats", "2", "--name", "touch", "--", sys.executable, "-c", TOUCH))
    made = only(tmp_path)
    values = made.values
    assert re.fullmatch(r"6\.12\.\d+.*", made.provenance.components["perf"])
    huge = 512 * (values["memory_huge_share"].value or 0) * values["memory_sampled_kib"].value / 2048
    assert values["page_faults"].value + huge >= 0.9 * PAGES
    assert values["page_faults"].value == pytest.approx(
        values["minor_faults"].value + values["major_faults"].value, abs=1.1
    )
    assert values["memory_sampled_kib"].value >= MIB << 10
    assert 0.6 < values["elapsed"].value < 60
    assert 0 < values["task_clock"].value < 1000 * values["elapsed"].value


def test_a_program_has_the_environment_that_abh_was_given(tmp_path, path):
    mark = tmp_path / "environment"
    words = ["--repeats", "1", "--results", str(tmp_path), "--", "sh", "-c", 'env > "$1"', "sh", str(mark)]
    given = {"PATH": path, "HOME": os.environ["HOME"], "MINE": "1"}
    done = subprocess.run(
        [paths.CHECKOUT / "bin/abh", "collect", "--software", *words],
        cwd=tmp_path, env=given, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in mark.read_text().splitlines())
    assert {name: found[name] for name in given} == given
    assert found.keys() - given <= {"PWD", "OLDPWD", "SHLVL", "_"}  # shells set these


def test_a_process_that_runs_is_counted_and_runs_on(tmp_path, path):
    busy = subprocess.Popen([sys.executable, "-c", "while True: bytearray(1 << 20)"])
    try:
        ended(collect(tmp_path, path, "--repeats", "2", "--pid", str(busy.pid), "--seconds", "0.5"))
        assert busy.poll() is None
    finally:
        busy.kill()
        busy.wait()
    values = only(tmp_path).values
    assert 0.5 <= values["elapsed"].value < 5
    assert 0 < values["task_clock"].value <= 1100 * values["elapsed"].value


def test_a_program_is_ended_with_the_command(tmp_path, path):
    mark = tmp_path / "pid"
    script = 'echo $$ > "$1"; exec sleep 60'
    process = collect(tmp_path, path, "--repeats", "1", "--", "sh", "-c", script, "sh", str(mark))
    deadline = time.monotonic() + 60
    while not (mark.exists() and mark.read_text().strip()):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "run the same command again" in err
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
    assert not list(tmp_path.glob("*.json"))
