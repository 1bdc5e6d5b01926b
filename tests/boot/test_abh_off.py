# SPDX-License-Identifier: MIT
"""With every switch of ABH off, a program's cell has the values of policy thp, to the digit."""

from __future__ import annotations

import pytest


def values(result):
    if result.outcome == "skip":
        pytest.skip(result.reason)
    assert result.outcome == "success", result.reason
    return {name: (each.value, each.unit, each.kind) for name, each in result.values.items()}


def test_abh_off_is_thp(run_cell):
    assert values(run_cell("sqlite@native~abh-off")) == values(run_cell("sqlite@native~thp"))


def test_abh_on_is_not(run_cell):
    """Else the comparison above would show nothing."""
    on, off = (values(run_cell(f"sqlite@native~{policy}")) for policy in ("abh-kernel", "abh-off"))
    assert on["alloc_ratio"] > off["alloc_ratio"] and on["minor_faults"] < off["minor_faults"]
