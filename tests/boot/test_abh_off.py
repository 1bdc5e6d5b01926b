# SPDX-License-Identifier: MIT
"""With every switch of ABH off, a program's cell counts what it counts on a kernel without ABH's patches, to the digit.

Programs do the same at any instant; what is around them does not, and another kernel gets there at another instant. So
addresses are fixed, files are in memory before the program asks for them, and khugepaged sleeps after a first look.
"""

from __future__ import annotations

import functools

import pytest
from changed import SLEEPS, with_fixed_addresses, with_guest, with_sysfs

from abh.study import cell, faults
from abh.verify import testbed

READ_FILES = "find /usr/lib/x86_64-linux-gnu . -type f -exec cat {} + >/dev/null && echo ready; kill -STOP $$"
# For all, as one variable more, whatever it says, moves the stack, and sqlite's peak by 16 pages.
ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.malloc.abh=0"}
# Not of the program: the clock; the agent's own faults, who reads a longer /proc/vmstat; memory before the start. And
# the sums of all faults, as one on the stack comes or not, by the boot: it finds its page there, and allocates nothing.
ELSEWHERE = {
    "elapsed",
    "instructions",
    "system_faults",
    "free_hugepages",
    "minor_faults",
    "alloc_ratio",
    "memory_peak_kib",
}
# The group's peak has the kernel's own memory in it, and is charged by up to 64 pages ahead for each processor.
CHARGED_AHEAD_KIB = 256
# Two rows are not of the program either, which does not fork. The agent does, to start it: of the two, whoever writes
# first to a page that they share copies it, and the other finds it his own.
AGENT = ("faults_other", "faults_cow")


def alone(one: cell.Cell) -> cell.Cell:
    """The cell with nothing beside its program that comes at an instant of its own."""
    script = f"cd /abh/workloads/{one.workload.name} && {READ_FILES}"
    before = ("/usr/bin/busybox", "sh", "-c", script)
    return with_guest(with_sysfs(one, SLEEPS), before=before, env=ENVIRONMENT)


@pytest.fixture(scope="module")
def run():
    """Runs a cell once; where asked to, on the kernel without ABH's patches."""

    @functools.cache
    def values_of(name, *, stock=False):
        linux = testbed.kernel("linux", stock=True) if stock else None
        result = cell.run(alone(with_fixed_addresses(cell.Cell.of(name, "smoke", linux=linux, explain=True))))
        assert result.outcome == "success", result.reason
        return {name: each.value for name, each in result.values.items()}

    return values_of


def counted(values):
    """The values that must be the same, and the sum of faults in them."""
    agents = {f"{row}{region}" for row in AGENT for region in ("", *(f"_{each}" for each in faults.REGIONS))}
    kept = {name: value for name, value in values.items() if name not in ELSEWHERE | agents}
    return kept | {"program_faults": values["minor_faults"] - sum(values[row] for row in AGENT)}


# Not dedup: its threads take turns by the clock, and fault more or less often for the same page.
@pytest.mark.parametrize("program", ["sqlite", "mcf"])
@pytest.mark.parametrize("policy", ["thp", "abh-off", "abh-none"])
def test_off_is_the_kernel_without_the_patches(run, program, policy):
    stock, off = run(f"{program}@native~thp", stock=True), run(f"{program}@native~{policy}")
    assert counted(off) == counted(stock)
    assert abs(off["memory_peak_kib"] - stock["memory_peak_kib"]) <= CHARGED_AHEAD_KIB
    assert off["instructions"] < 1.005 * stock["instructions"]


def test_abh_on_is_not(run):
    """Else the comparison above would show nothing."""
    off, on = (run(f"sqlite@native~{policy}") for policy in ("abh-off", "abh-kernel"))
    assert on["alloc_ratio"] > off["alloc_ratio"] and on["minor_faults"] < off["minor_faults"]
