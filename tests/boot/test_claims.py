# SPDX-License-Identifier: MIT
"""The main claims, natively and in a guest of each hypervisor: the part of these tests that `make test` runs."""

from __future__ import annotations

import pytest
from counted import number

from abh.study import cell

pytestmark = pytest.mark.claim
ENVIRONMENTS = ["native", "kvm-hap", "xen-hap"]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_program_that_gets_no_hugepages_gets_them_with_abh(run_cell, environment):
    """Counted: 0.0% and, of five draws natively, 89.7% to 91.3%; random addresses decide over some pages."""
    stock, abh = (number(run_cell(f"sqlite@{environment}~{policy}"), "alloc_ratio") for policy in ("thp", "abh"))
    assert stock < 0.1 and abh >= 0.85


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_they_save_page_faults(run_cell, environment):
    stock, abh = (number(run_cell(f"sqlite@{environment}~{policy}"), "minor_faults") for policy in ("thp", "abh"))
    assert abh < stock / 3


@pytest.mark.parametrize("environment", ["native", "kvm-hap"])
def test_a_cell_run_twice_is_bit_identical(run_cell, environment):
    first, second = (run_cell(f"sqlite@{environment}~abh", turn) for turn in (1, 2))
    assert first.outcome == second.outcome == "success"
    assert first.values == second.values


def test_the_mmu_model_finds_the_addresses_that_the_emulator_uses():
    result = cell.run(cell.Cell.of("set-conflict@kvm-hap~abh", "smoke", mmu="i7-3770", mmu_check=True))
    assert number(result, "accesses_checked") > 50_000_000
    assert number(result, "address_mismatches") == 0
