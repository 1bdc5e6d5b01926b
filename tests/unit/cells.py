# SPDX-License-Identifier: MIT
"""A run as the tests of what a machine is asked, and of what its answers mean, take it."""

from __future__ import annotations

from abh.study import cell

THP = "/sys/kernel/mm/transparent_hugepage"


def one(name: str = "sqlite@kvm-hap~thp", size: str = "smoke") -> cell.Cell:
    """The run of that name."""
    return cell.Cell.of(name, size)
