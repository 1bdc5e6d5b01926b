# SPDX-License-Identifier: MIT
"""Cells that a test has changed: no file of vm-configs says what they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from abh.study.cell import Cell

# khugepaged sleeps after a first look.
KHUGEPAGED = "/sys/kernel/mm/transparent_hugepage/khugepaged"
SLEEPS = {f"{KHUGEPAGED}/pages_to_scan": "1", f"{KHUGEPAGED}/scan_sleep_millisecs": "4294967295"}


def with_guest(one: Cell, **parts: object) -> Cell:
    """The cell with these parts of its guest's policy replaced, as before=(…)."""
    guest = one.policy.guest.model_copy(update=parts)
    return dataclasses.replace(one, policy=one.policy.model_copy(update={"guest": guest}))


def with_sysfs(one: Cell, files: Mapping[str, str]) -> Cell:
    """The cell with these files of its guest written as well, or otherwise: path -> text."""
    return with_guest(one, sysfs={**one.policy.guest.sysfs, **files})


def with_fixed_addresses(one: Cell) -> Cell:
    """The cell without random addresses. Where they are, faults on files depend on them, and any instruction more
    before the program starts, even the writing of a switch, draws others."""
    return with_sysfs(one, {"/proc/sys/kernel/randomize_va_space": "0"})
