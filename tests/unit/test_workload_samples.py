# SPDX-License-Identifier: MIT
"""Every workload's sample output is read in full by its own patterns, and its answer is one it expects."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from abh.paths import CHECKOUT, WORKLOADS
from abh.schema import spec

FOLDERS = sorted(path.parent for path in WORKLOADS.rglob("workload.toml"))


def test_there_are_workloads() -> None:
    assert FOLDERS, f"no workload under {WORKLOADS}: the tests below would prove nothing"
    found = [name for group in ("", *spec.workload_groups()) for name in spec.workloads(group=group)]
    assert sorted(found) == sorted(folder.name for folder in FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_sample_is_read_in_full(folder: Path) -> None:
    workload = spec.workload(folder.name)
    sample = (folder / "sample-output.txt").read_text(encoding="utf-8")
    expected = {size: workload.answer_for(size) for size in workload.size}
    found = workload.answers_in(sample)
    if workload.answer is not None:
        assert found, f"`answer` matches nothing in sample-output.txt: {workload.answer}"
        assert set(found) <= set(expected.values()), f"the sample is of no declared size: {found}, {expected}"
    size = next((name for name, answer in expected.items() if answer in found), "smoke")
    right, metrics = workload.check_output(size, sample)
    assert right, f"{size}: {found}"
    assert {name: value.reason for name, value in metrics.items() if value.value is None} == {}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_expected_answer_is_one_the_pattern_can_find(folder: Path) -> None:
    workload = spec.workload(folder.name)
    sample = (folder / "sample-output.txt").read_text(encoding="utf-8")
    printed = set(workload.answers_in(sample))
    for size in workload.size if workload.answer is not None else ():
        answer = workload.answer_for(size)
        assert answer is not None
        found = {each for old in printed for each in workload.answers_in(sample.replace(old, answer))}
        assert found == {answer}, f"no run of size {size} could succeed: {answer!r} does not fit {workload.answer}"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_commands_are_complete_at_every_size(folder: Path) -> None:
    workload = spec.workload(folder.name)
    for size in workload.size:
        assert all(workload.argv_for(size))
    assert "{out}" not in str(workload.build_for("/abh/workloads/x"))


def test_a_counterpart_is_a_row_of_the_papers_table() -> None:
    with (CHECKOUT / "analysis/reference/abh/tab01.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["row"] for row in csv.DictReader(file)}
    named = {each.name: each.counterpart for each in spec.workloads().values() if each.counterpart is not None}
    assert {name: row for name, row in named.items() if row not in rows} == {}
