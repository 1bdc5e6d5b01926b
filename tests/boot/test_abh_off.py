# SPDX-License-Identifier: MIT
"""With every switch of ABH off, a program's cell counts what policy thp counts, to the digit.

Addresses are not random here: where they are, faults on files depend on them, and any instruction more before the
program starts, even the writing of a switch, draws others.
"""

from __future__ import annotations

import dataclasses

import pytest

from abh.bench import cell

# All that depends on the instant at which the program starts, by the clock or among other work.
ELSEWHERE = {"elapsed", "instructions"}


def counted(policy):
    one = cell.Cell.of(f"sqlite@native~{policy}", "smoke")
    fixed = {**one.policy.guest.sysfs, "/proc/sys/kernel/randomize_va_space": "0"}
    guest = one.policy.guest.model_copy(update={"sysfs": fixed})
    result = cell.run(dataclasses.replace(one, policy=one.policy.model_copy(update={"guest": guest})))
    if result.outcome == "skip":
        pytest.skip(result.reason)
    assert result.outcome == "success", result.reason
    return {name: (each.value, each.unit) for name, each in result.values.items() if name not in ELSEWHERE}


@pytest.fixture(scope="module")
def off():
    return counted("abh-off")


def test_abh_off_is_thp(off):
    assert off == counted("thp")


def test_abh_on_is_not(off):
    """Else the comparison above would show nothing."""
    on = counted("abh-kernel")
    assert on["alloc_ratio"] > off["alloc_ratio"] and on["minor_faults"] < off["minor_faults"]
