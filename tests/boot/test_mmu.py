# SPDX-License-Identifier: MIT
"""The MMU model beside real kernels and hypervisors: it finds the emulator's addresses, and repeats to the digit."""

from __future__ import annotations

import functools
import json
import tomllib

import pytest
from counted import number

from abh.bench import cell, mmu
from abh.bench.result import Result

CPU = "i7-3770"  # the paper's: separate entries for 2 MB pages
SHARED = "icelake-sp"  # its second level takes both sizes
FLAT = ("native", "kvm-shadow", "xen-shadow", "xen-pv")
NESTED = ("kvm-hap", "xen-hap")


@functools.cache
def modelled(name: str, cpu: str = CPU, check: bool = False, turn: int = 1) -> Result:
    result = cell.run(cell.Cell.of(name, "smoke", mmu=cpu, mmu_check=check))
    assert result.outcome == "success", result.reason
    return result


# The guest's kernel boots in the checked part too. A mismatch makes the run an error, with QEMU's log in its reason.
@pytest.mark.parametrize("policy", ["reg", "thp"])
@pytest.mark.parametrize("environment", [*FLAT, *NESTED])
def test_every_access_has_the_machine_address_that_the_emulator_uses(environment, policy):
    result = modelled(f"set-conflict@{environment}~{policy}", check=True)
    assert number(result, "accesses_checked") > 50_000_000
    assert number(result, "address_mismatches") == 0
    assert number(result, "accesses_not_followed") < number(result, "accesses") / 1000


# Of the program alone: the guest's kernel maps its own memory huge under every policy.
@pytest.mark.parametrize("environment", ["native", "kvm-shadow", *NESTED])
def test_hugepages_reach_the_hardware_where_both_layers_have_them(environment):
    huge, small = (modelled(f"set-conflict@{environment}~{policy}", check=True) for policy in ("thp", "reg"))
    assert number(huge, "guest_user_tlb_fills_2m") > 1000
    assert number(small, "guest_user_tlb_fills_2m") == 0
    if environment in NESTED:
        assert number(huge, "fills_2m_2m") >= number(huge, "guest_user_tlb_fills_2m")


@pytest.mark.parametrize("environment", ["xen-shadow", "xen-pv"])
def test_hugepages_do_not_reach_it_where_the_paper_says_so(environment):
    huge = modelled(f"set-conflict@{environment}~thp", check=True)
    assert number(huge, "guest_user_tlb_fills_2m") == 0 < number(huge, "guest_user_tlb_fills_4k")


def test_walks_have_two_dimensions_under_hap_only():
    for environment in FLAT:
        result = modelled(f"set-conflict@{environment}~thp", check=True)
        assert sum(number(result, f"fills_{guest}_{host}") for guest in ("4k", "2m") for host in ("4k", "2m")) == 0
    for environment in NESTED:
        assert number(modelled(f"set-conflict@{environment}~thp", check=True), "fills_flat_4k") > 0, "the hypervisor's"


def test_a_pattern_that_overflows_the_huge_entries_misses_more_with_hugepages(run_cell):
    """The paper's section 6.1: hugepages lose where the processor has few entries for them, and only there."""
    misses = {
        (cpu, policy): number(modelled(f"tlb-overflow@native~{policy}", cpu), "guest_user_tlb_misses")
        for cpu in (CPU, SHARED)
        for policy in ("reg", "thp")
    }
    assert misses[CPU, "thp"] > 10 * misses[CPU, "reg"]
    assert misses[SHARED, "thp"] <= misses[SHARED, "reg"]


def test_the_estimate_adds_up_what_is_counted():
    """Instructions and exits are those of the region, each at the cost that the processor has."""
    for environment in ("native", "kvm-hap", "kvm-shadow", "xen-pv"):
        result = modelled(f"set-conflict@{environment}~thp", check=True)
        cost = tomllib.loads((mmu.CPUS / f"{CPU}.toml").read_text())["cost"]
        parts = {part: number(result, f"{mmu.ESTIMATE}_{part}") for part in mmu.PARTS}
        assert parts["instructions"] == number(result, "instructions") * cost["instruction_cycles"]
        assert parts["exits"] == (result.values["vm_exits"].value or 0) * cost["exit_cycles"]
        assert parts["walks"] == number(result, "walk_cycles") > 0
        assert parts["data_stalls"] > 0
        assert number(result, mmu.ESTIMATE) == pytest.approx(sum(parts.values()))


def test_a_replay_has_the_live_models_counts_and_estimate(tmp_path):
    said = []
    trace = tmp_path / mmu.TRACE
    result = cell.run(cell.Cell.of("tlb-overflow@kvm-hap~thp", "smoke", mmu=CPU, trace=trace), said.append)
    assert result.outcome == "success", result.reason
    (replayed,) = json.loads(mmu.program(["replay", mmu.TRACE, "--cpu", CPU], tmp_path))
    assert replayed["counters"] == said[0]["counters"]
    assert replayed["estimate"] == said[0]["estimate"]


# What is checked takes a longer way in the plugin, for each access.
@pytest.mark.parametrize("environment", ["kvm-hap", "xen-pv"])
def test_to_be_checked_changes_no_count(environment):
    name = f"set-conflict@{environment}~thp"
    unchecked = modelled(name).values
    assert {key: modelled(name, check=True).values[key] for key in unchecked} == unchecked


def test_the_model_repeats_and_changes_nothing_of_the_run(run_cell):
    plain = run_cell("tlb-overflow@native~thp")
    first, again = (modelled("tlb-overflow@native~thp", turn=turn) for turn in (1, 2))
    assert first.values == again.values
    assert {name: first.values[name] for name in plain.values} == plain.values
