# SPDX-License-Identifier: MIT
"""Every environment boots a fresh guest, runs a real program in it, and its counters mean what they say."""

from __future__ import annotations

import pytest
from counted import number

from abh.schema import spec

ENVIRONMENTS = sorted(spec.environments())
# One native, one KVM, one Xen: what must agree to the last digit.
REPEATED = ["native", "kvm-hap", "xen-hap"]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_real_program_runs_and_is_counted(run_cell, environment):
    result = run_cell(f"sqlite@{environment}~thp")
    assert result.outcome == "success", result.reason
    assert number(result, "minor_faults") > 4000, "40,000 rows touch some 5,000 pages"
    assert number(result, "instructions") > 500_000_000, "natively counted: over 700 million"
    assert 0 <= number(result, "alloc_ratio") <= 1
    assert number(result, "rss_peak_kib") > 16 * 1024


@pytest.mark.parametrize("environment", ["kvm-hap", "kvm-shadow", "xen-hap", "xen-shadow"])
def test_a_hardware_guest_leaves_guest_mode(run_cell, environment):
    assert number(run_cell(f"sqlite@{environment}~thp"), "vm_exits") > 100


@pytest.mark.parametrize("environment", ["native", "xen-pv"])
def test_no_guest_mode_means_not_available_not_zero(run_cell, environment):
    exits = run_cell(f"sqlite@{environment}~thp").values["vm_exits"]
    assert exits.value is None and exits.reason


def test_shadow_paging_exits_more_than_nested(run_cell):
    for hypervisor in ("kvm", "xen"):
        shadow, nested = (run_cell(f"sqlite@{hypervisor}-{paging}~thp") for paging in ("shadow", "hap"))
        assert number(shadow, "vm_exits") > 2 * number(nested, "vm_exits"), hypervisor


@pytest.mark.parametrize("environment", REPEATED)
def test_the_same_cell_twice_gives_the_same_digits(run_cell, environment):
    first, second = (run_cell(f"sqlite@{environment}~thp", turn) for turn in (1, 2))
    assert first.outcome == second.outcome == "success"
    assert first.values == second.values


@pytest.mark.parametrize("environment", ["native", "kvm-hap"])
def test_policies_decide_over_hugepages(run_cell, environment):
    without = run_cell(f"tlb-overflow@{environment}~reg")
    always = run_cell(f"tlb-overflow@{environment}~thp")
    assert number(without, "huge_faults") == 0 and number(without, "alloc_ratio") == 0
    assert number(without, "guest_huge_kib") == 0
    assert number(always, "huge_faults") >= 48, "one for each of its 2 MB regions"
    assert number(always, "guest_huge_kib") >= 48 * 2048


def test_the_host_says_how_much_of_the_guest_is_huge(run_cell):
    without, always = (run_cell(f"tlb-overflow@kvm-hap~{policy}") for policy in ("reg", "thp"))
    assert number(without, "host_huge_kib") == 0 < number(without, "host_mapped_kib")
    assert 48 * 2048 <= number(always, "host_huge_kib") < number(always, "host_mapped_kib")


def test_xen_says_by_which_page_sizes_the_hardware_walks_a_guest(run_cell):
    hap, shadow, pv = (run_cell(f"sqlite@xen-{paging}~thp") for paging in ("hap", "shadow", "pv"))
    ram_kib = spec.environment("xen-hap").memory_mib["smoke"] * 1024
    assert ram_kib / 2 < number(hap, "host_huge_kib") == number(hap, "p2m_huge_kib") <= ram_kib
    assert number(hap, "host_huge_kib") < number(hap, "host_mapped_kib") <= ram_kib
    assert number(shadow, "host_huge_kib") == 0 < number(shadow, "p2m_huge_kib")
    assert number(pv, "host_huge_kib") == 0 and "p2m_huge_kib" not in pv.values


def test_the_paper_s_policy_packs_mappings_that_stock_aligns(run_cell):
    aligned, packed = (run_cell(f"cc1@native~{policy}") for policy in ("thp", "thp-paper"))
    assert aligned.outcome == packed.outcome == "success"
    assert number(aligned, "alloc_ratio") > 0.2, "6.7's alignment serves the compiler's largest mappings"
    assert number(packed, "alloc_ratio") < number(aligned, "alloc_ratio") / 2


def test_para_virt_has_no_hugepages(run_cell):
    result = run_cell("tlb-overflow@xen-pv~thp")
    assert result.outcome == "success", result.reason
    assert number(result, "huge_faults") == 0
