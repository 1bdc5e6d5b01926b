# SPDX-License-Identifier: MIT
"""What ABH is for, at least, in programs of size smoke: the aims are for size paper (`make aims`)."""

from __future__ import annotations

import pytest
from counted import number

from abh.bench import cell


# Counted: 93.5% and 86.0% in both environments; natively under thp 0%. Random addresses decide over some pages.
@pytest.mark.parametrize("environment", ["native", "kvm-hap"])
@pytest.mark.parametrize(("program", "least"), [("sqlite", 0.9), ("cpython", 0.8)])
def test_most_memory_comes_as_hugepages(run_cell, environment, program, least):
    assert number(run_cell(f"{program}@{environment}~abh"), "alloc_ratio") >= least


def test_what_gives_memory_back_splits_no_hugepage(run_cell):
    result = run_cell("dedup@native~abh")
    assert number(result, "huge_faults") >= 8, "counted: 10, or there is nothing to split"
    assert number(result, "huge_pmd_splits") == number(result, "huge_splits") == 0


def test_mappings_that_are_to_be_left_alone_cost_no_more(fixed_addresses):
    """Where addresses are random, instructions differ by 3% from draw to draw, under thp as under abh."""
    off, on = (cell.run(fixed_addresses(cell.Cell.of(f"cactus@native~{policy}", "smoke"))) for policy in ("thp", "abh"))
    assert number(on, "minor_faults") <= number(off, "minor_faults")
    assert number(on, "instructions") <= 1.005 * number(off, "instructions")
