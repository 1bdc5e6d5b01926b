# SPDX-License-Identifier: MIT
"""Programs of the build root on what is made here: the stub of a new workload, and an initramfs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from abh import paths
from abh.build import root
from abh.commands import new_workload
from abh.errors import AbhError
from abh.schema import spec
from abh.verify import testbed


def test_the_stub_runs_and_gives_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_build_root: Callable[[Path, Path], list[str]]
) -> None:
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    monkeypatch.setattr(paths, "WORKLOADS", tmp_path / "workloads")
    new_workload.write_stub("a-program", tmp_path / "workloads")
    stub = spec.workload("a-program", tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    for command in stub.build_for("/out"):
        words = [*in_build_root(stub.folder, out), *command, "-Werror", "-static"]
        subprocess.run(words, check=True, timeout=60)
    for size in stub.size:
        done = subprocess.run(stub.argv_for(size), cwd=out, check=True, timeout=60, capture_output=True, text=True)
        assert stub.check_output(size, done.stdout)[0], f"{size}: {done.stdout}"
        if size == "smoke":
            assert done.stdout == (stub.folder / "sample-output.txt").read_text(encoding="utf-8")


def test_an_initramfs_unpacks_to_what_went_in(tmp_path, in_build_root):
    files = {"init": b"#!/bin/sh\n", "sub/deep/data": b"12345", "empty": b""}
    testbed.write_initramfs(files, tmp_path)
    with (tmp_path / "initramfs").open("rb") as packed:
        words = [*in_build_root(tmp_path, tmp_path), "cpio", "-idD/out/tree", "--quiet"]
        (tmp_path / "tree").mkdir()
        subprocess.run(words, stdin=packed, check=True)
    assert {name: (tmp_path / "tree" / name).read_bytes() for name in files} == files
    assert (tmp_path / "tree/init").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "initramfs").read_bytes()[:6] == b"070701"


def test_an_initramfs_that_cannot_be_packed_is_an_error(tmp_path, in_build_root, monkeypatch):
    monkeypatch.setattr(testbed, "PACK", testbed.PACK.replace("find .", "find ./nothing"))
    with pytest.raises(AbhError, match="packing an initramfs failed") as caught:
        testbed.write_initramfs({"init": b""}, tmp_path)
    assert "nothing" in str(caught.value)


def test_half_of_a_pipe_that_fails_fails_the_recipe(in_build_root, tmp_path):
    (tmp_path / "recipe.sh").write_text("set -eu\nfalse | cat >/out/made\necho after >/out/after\n")
    with pytest.raises(AbhError, match="exit status 1"):
        root.run(
            in_build_root(tmp_path, tmp_path),
            [*root.SHELL, "/src/recipe.sh"],
            log=tmp_path / "log",
            what="a recipe",
        )
    assert not (tmp_path / "after").exists()
