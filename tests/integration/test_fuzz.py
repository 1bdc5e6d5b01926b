# SPDX-License-Identifier: MIT
"""The kernel fuzzer on this machine's own kernel: it passes there, and finds every kind of fault made for it."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from abh import paths

FOLDER = paths.CHECKOUT / "tests/kernel"
PARTS = "fuzz model draw access map advise remap ops maps".split()
PATIENCE_S = 300


@pytest.fixture(scope="module")
def program(tmp_path_factory, in_build_root):
    out = tmp_path_factory.mktemp("fuzz")
    words = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o", "/out/fuzz", *(f"{name}.c" for name in PARTS)]
    subprocess.run([*in_build_root(FOLDER, out), *words], check=True)
    return out / "fuzz"


def fuzz(program, *words):
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout


def kinds(program):
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stderr
    return text.partition("NAME is one of: nothing ")[2].split()


def test_the_kernel_of_this_machine_keeps_to_the_model(program):
    if os.geteuid():
        pytest.skip("locking memory wants root")
    status, out = fuzz(program, "--ops", "20000")
    assert status == 0 and out.endswith("PASS: 20000 operations\n"), out


def test_every_kind_of_fault_is_found_and_shrunk(program):
    assert len(kinds(program)) == 10
    for kind in kinds(program):
        status, out = fuzz(program, "--ops", "200000", "--break", kind)
        assert status == 1 and out.startswith("FAIL: "), f"{kind}: {out}"
        shrunk = re.search(r"to (\d+) operations", out)
        assert shrunk and int(shrunk[1]) <= 60, f"{kind}: {out}"


def test_what_is_kept_beside_a_mapping_has_no_more_rights(program):
    status, out = fuzz(program, "--extended", "--no-shrink", "--break", "rights")
    assert status == 1 and re.match(r"FAIL: .* rw-p\), and has more rights than what it lies beside\n", out), out


def test_what_a_failure_prints_can_be_replayed(program, tmp_path):
    _, out = fuzz(program, "--break", "leak")
    (tmp_path / "log").write_text(out)
    assert fuzz(program, "--break", "leak", "--replay", str(tmp_path / "log"))[0] == 1
    assert fuzz(program, "--replay", str(tmp_path / "log"))[0] == 0


def test_the_same_seed_does_the_same(program):
    first, second = (fuzz(program, "--seed", "5", "--ops", "3000")[1].splitlines()[-2] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("flag", "complaint"), [("--surplus", "a heap without a surplus"), ("--slack", "mappings without slack")]
)
def test_a_run_without_what_it_should_test_fails(program, flag, complaint):
    if os.path.exists("/sys/kernel/mm/abh"):
        pytest.skip("this kernel may keep some")
    status, out = fuzz(program, "--ops", "2000", flag)
    assert status == 1 and f"FAIL: {complaint}" in out, out
