# SPDX-License-Identifier: MIT
"""agent/abh-watch, compiled for the machine the tests run on: what it says of the host's counters."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from abh import paths


@pytest.fixture(name="watch", scope="session")
def _watch(tmp_path_factory: pytest.TempPathFactory, in_build_root: Callable[[Path, Path], list[str]]) -> Path:
    out = tmp_path_factory.mktemp("watch")
    words = ["cc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover"]
    done = subprocess.run(
        [*in_build_root(paths.CHECKOUT, out), *words, "-static", "-o", "/out/abh-watch", "agent/abh-watch.c"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out / "abh-watch"


def said(watch: Path, folder: Path, sample: str) -> list[str]:
    """The values it reports of a guest that has just ended."""
    (folder / "console").write_text("ABH begin\nABH end exit 0\n")
    told, words = folder / "told", [str(watch), "watch", str(folder / "console"), "true", sample, ""]
    process = subprocess.Popen(words, env={"abh_out": str(told), "PATH": "/usr/bin:/bin"})
    try:
        with pytest.raises(subprocess.TimeoutExpired):  # it stays, as a first process must
            process.wait(1)
    finally:
        process.kill()
        process.wait()
    assert "ABH end host" in told.read_text()
    return [line.removeprefix("ABH value ") for line in told.read_text().splitlines() if line.startswith("ABH value")]


def counters(folder: Path, **pages: int) -> None:
    for name, number in pages.items():
        vm, _, size = name.partition("_")
        (folder / vm).mkdir(exist_ok=True)
        (folder / vm / f"pages_{size}").write_text(f"{number}\n")


def test_huge_is_a_part_of_all_that_is_mapped(watch: Path, tmp_path: Path) -> None:
    counters(tmp_path, vm1_4k=5, vm1_2m=3, vm1_1g=1, vm2_4k=1, vm2_2m=0, vm2_1g=0)
    sample = " ".join(f"{kib} {tmp_path}/vm*/pages_{size}" for kib, size in ((4, "4k"), (2048, "2m"), (1 << 20, "1g")))
    huge = 3 * 2048 + (1 << 20)
    assert said(watch, tmp_path, sample) == [f"host_huge_kib {huge}", f"host_mapped_kib {huge + 6 * 4}"]


@pytest.mark.parametrize("sample", ["", "4 {}/none", "4 {}/none 2048 {}/vm*/pages_2m"])
def test_a_counter_that_is_not_there_is_no_zero(watch: Path, tmp_path: Path, sample: str) -> None:
    counters(tmp_path, vm1_2m=3)
    assert said(watch, tmp_path, sample.replace("{}", str(tmp_path))) == []


def test_no_hugepage_is_zero_of_what_is_mapped(watch: Path, tmp_path: Path) -> None:
    counters(tmp_path, vm1_4k=7, vm1_2m=0)
    sample = f"4 {tmp_path}/vm1/pages_4k 2048 {tmp_path}/vm1/pages_2m"
    assert said(watch, tmp_path, sample) == ["host_huge_kib 0", "host_mapped_kib 28"]
