# SPDX-License-Identifier: MIT
"""In a guest whose free memory is in pieces there are no hugepages, aligned or not, and programs run all the same."""

from __future__ import annotations

import dataclasses

import pytest
from changed import with_guest

from abh.study import cell


@pytest.mark.parametrize(
    ("workload", "policy", "hugepages"), [("tlb-overflow", "thp", 48), ("sqlite", "abh", 8), ("dedup", "abh", 8)]
)
def test_a_fragmented_guest_refuses_what_another_gives(run_cell, workload, policy, hugepages):
    whole, split = (run_cell(f"{workload}@native~{name}") for name in (policy, f"{policy}-fragmented"))
    if whole.outcome == "skip":
        pytest.skip(whole.reason)
    assert whole.outcome == split.outcome == "success", split.reason
    numbers = {name: (whole.values[name].value, split.values[name].value) for name in split.values}
    assert numbers["huge_faults"][0] >= hugepages and numbers["huge_fallbacks"][0] == 0
    assert numbers["free_hugepages"][0] > 200 and numbers["free_hugepages"][1] == 0
    assert numbers["huge_faults"][1] <= 1 and numbers["huge_fallbacks"][1] >= hugepages
    assert numbers["alloc_ratio"][1] < 0.1, "one hugepage that khugepaged made room for is let pass"


def test_offsets_keep_chunks_from_being_congruent(run_cell):
    with_, without = (run_cell(f"set-conflict@native~{policy}") for policy in ("abh", "abh-no-offset"))
    if with_.outcome == "skip":
        pytest.skip(with_.reason)
    assert with_.outcome == without.outcome == "success"
    assert with_.values["congruent"].value < 8, "18 chunks at 32 offsets: fewer meet than a cache's set holds"
    assert without.values["congruent"].value == without.values["chunks"].value


def test_offsets_keep_mappings_from_being_congruent():
    """The kernel's half: mappings with a tail, which it extends. 52 KiB of slack each, so that all are in the bound."""

    def run_mapped(policy):
        one = cell.Cell.of(f"set-conflict@native~{policy}", "smoke")
        smoke = one.workload.size["smoke"] | {"map": 1, "chunk_kib": 4044, "answer": "6bacf93b191a941e"}
        mapped = one.workload.model_copy(update={"size": {"smoke": smoke}})
        return cell.run(dataclasses.replace(one, workload=mapped))

    with_, without = (run_mapped(policy) for policy in ("abh", "abh-no-mmap-offset"))
    for result in (with_, without):
        assert result.outcome == "success", result.reason
        assert result.values["huge_faults"].value >= 36, "two for each chunk: all were extended"
    assert with_.values["congruent"].value < 8, "18 chunks at 14 offsets: fewer meet than a cache's set holds"
    assert without.values["congruent"].value == 18


@pytest.mark.parametrize("command", ["/bin/false", "/no/such/program"])
def test_what_is_not_ready_before_the_workload_is_an_error(command):
    one = cell.Cell.of("sqlite@native~thp", "smoke")
    result = cell.run(with_guest(one, before=(command,)))
    assert result.outcome == "error"
    assert command in str(result.reason) and "not 'ready'" in str(result.reason)
