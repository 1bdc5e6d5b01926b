# SPDX-License-Identifier: MIT
"""`abh run --explain` on real programs: every minor fault has one reason, and the reasons are the right ones."""

from __future__ import annotations

import functools

import pytest
from changed import with_fixed_addresses
from counted import number

from abh.schema.result import Result
from abh.study import cell, faults


@functools.cache
def explained(name: str) -> Result:
    result = cell.run(cell.Cell.of(name, "smoke", explain=True))
    assert result.outcome == "success", result.reason
    return result


# One program alone; one with threads; a server in the background; one without hugepages; one with ABH, whose series
# moves the places where reasons are set; a guest in each hypervisor, the last without any THP.
@pytest.mark.parametrize(
    "name",
    ["sqlite@native~thp", "dedup@native~thp", "redis@native~thp", "sqlite@native~reg", "sqlite@native~abh",
     "sqlite@kvm-hap~thp", "sqlite@xen-hap~thp", "sqlite@xen-pv~thp"],
)  # fmt: skip
def test_every_minor_fault_has_one_reason(name):
    result = explained(name)
    rows = [number(result, f"faults_{each}") for each in faults.REASONS if each != faults.MAJOR]
    assert sum(rows) == number(result, "minor_faults") > 300, "under abh there are the fewest"
    assert number(result, "faults_major") == number(result, "major_faults")
    assert faults.unexplained(result.values) == 0


@pytest.mark.parametrize(
    "name", ["sqlite@native~thp", "dedup@native~thp", "tlb-overflow@native~thp", "sqlite@native~abh"]
)
def test_hugepages_are_those_that_the_control_group_counts(name):
    assert number(explained(name), "faults_huge") == number(explained(name), "huge_faults")


def test_a_heap_that_grows_by_less_than_a_hugepage_is_not_covered_when_it_is_touched():
    result = explained("sqlite@native~thp")
    assert number(result, "faults_not_covered_heap") > number(result, "minor_faults") / 2
    assert number(result, "faults_not_enabled") == 0


@pytest.mark.parametrize("name", ["sqlite@native~reg", "sqlite@xen-pv~thp"])
def test_without_hugepages_the_reason_is_that_they_are_off(name):
    result = explained(name)
    assert number(result, "faults_not_enabled") > number(result, "minor_faults") / 2
    assert number(result, "faults_huge") == number(result, "faults_not_covered") == 0


def test_to_be_asked_changes_no_fault_and_costs_next_to_nothing():
    # Without hugepages: khugepaged would come by at another instruction, and find another heap.
    plain, asked = (
        cell.run(with_fixed_addresses(cell.Cell.of("sqlite@native~reg", "smoke", explain=explain)))
        for explain in (False, True)
    )
    assert not faults.explained(plain.values)
    for name in ("major_faults", "huge_faults", "alloc_ratio"):
        assert plain.values[name] == asked.values[name]
    # A fault in a file maps what lies around it and is there: that may be a page more, an instruction later.
    assert abs(number(plain, "minor_faults") - number(asked, "minor_faults")) <= 2
    assert number(asked, "instructions") < 1.002 * number(plain, "instructions")
