# SPDX-License-Identifier: MIT
"""The MMU model beside real kernels and hypervisors: it finds the emulator's addresses, and repeats to the digit."""

from __future__ import annotations

import functools
import json
import tomllib

import pytest
from counted import number

from abh.model import mmu
from abh.schema.result import Result
from abh.study import cell

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


# Each processor forgets and remembers by its own rules, and each program changes tables in its own way: dedup maps and
# unmaps much, xalan's memory is small and spread out.
@pytest.mark.parametrize(
    ("cpu", "name"),
    [
        *((cpu, "set-conflict@kvm-hap~thp") for cpu in mmu.cpus() if cpu != CPU),
        ("zen2", "set-conflict@xen-shadow~thp"),
        ("zen5", "set-conflict@kvm-shadow~thp"),
        ("icelake-sp", "xalan@xen-hap~abh"),
        (CPU, "dedup@kvm-hap~abh"),
        ("zen2", "dedup@native~abh"),
    ],
)
def test_every_processors_model_finds_the_emulators_addresses(cpu, name):
    result = modelled(name, cpu, check=True)
    assert number(result, "accesses_checked") > 50_000_000
    assert number(result, "address_mismatches") == 0


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


def test_hypervisors_flush_a_guest_as_the_processor_lets_them():
    """KVM asks for a flush of the guest's ASID. Xen takes a new ASID, and flushes only after the last one."""
    shadow = modelled("set-conflict@kvm-shadow~thp", check=True)
    assert number(shadow, "tlb_control_3") == number(shadow, "flushes_vmrun_asid") > 100
    assert number(shadow, "flushes_asid_change") == number(shadow, "flushes_vmrun_all") == 0
    xen = modelled("set-conflict@xen-hap~thp", check=True)
    assert number(xen, "flushes_asid_change") > 50 and number(xen, "abandoned_entries") > 0
    assert number(xen, "flushes_vmrun_all") == 0
    for result in (shadow, xen):
        controls = [number(result, f"tlb_control_{value}") for value in (0, 1, 3, 7, "reserved")]
        assert sum(controls) == number(result, "vm_exits")


def test_the_estimate_adds_up_what_is_counted():
    """Instructions and exits are those of the region, each at the cost that the processor has."""
    for environment in ("native", "kvm-hap", "kvm-shadow", "xen-pv"):
        result = modelled(f"set-conflict@{environment}~thp", check=True)
        cost = tomllib.loads((mmu.CPUS / f"{CPU}.toml").read_text())["cost"]
        parts = {part: number(result, f"{mmu.ESTIMATE}_{part}") for part in mmu.PARTS}
        assert parts["instructions"] == number(result, "instructions") * cost["instruction_cycles"]
        assert parts["exits"] == (result.values["vm_exits"].value or 0) * cost["exit_cycles"]
        assert parts["data_stalls"] > 0
        others = sum(parts[part] for part in ("instructions", "second_level_tlb", "data_stalls", "exits"))
        for end, exposed in zip(mmu.ENDS, cost["exposed_walk_share"], strict=True):
            assert parts[f"walks_{end}"] == pytest.approx(exposed * number(result, "walk_cycles"))
            assert parts[f"walks_{end}"] > 0
            assert number(result, f"{mmu.ESTIMATE}_{end}") == pytest.approx(others + parts[f"walks_{end}"])
        low, high = (number(result, name) for name in mmu.SHARES)
        assert 0 < low < high < 1


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
