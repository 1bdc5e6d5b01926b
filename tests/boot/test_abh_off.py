# SPDX-License-Identifier: MIT
"""With every switch of ABH off, a program's cell counts what policy thp counts, to the digit; addresses are fixed."""

from __future__ import annotations

import pytest

from abh.bench import cell

# All that depends on the instant at which the program starts, by the clock or among other work.
ELSEWHERE = {"elapsed", "instructions"}


@pytest.fixture(scope="module")
def counted(fixed_addresses):
    return lambda policy: _counted(fixed_addresses(cell.Cell.of(f"sqlite@native~{policy}", "smoke")))


def _counted(one):
    result = cell.run(one)
    if result.outcome == "skip":
        pytest.skip(result.reason)
    assert result.outcome == "success", result.reason
    return {name: (each.value, each.unit) for name, each in result.values.items() if name not in ELSEWHERE}


@pytest.fixture(scope="module")
def off(counted):
    return counted("abh-off")


def test_abh_off_is_thp(off, counted):
    assert off == counted("thp")


def test_abh_on_is_not(off, counted):
    """Else the comparison above would show nothing."""
    on = counted("abh-kernel")
    assert on["alloc_ratio"] > off["alloc_ratio"] and on["minor_faults"] < off["minor_faults"]
