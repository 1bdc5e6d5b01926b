# SPDX-License-Identifier: MIT
"""The heap's half of ABH on the newest kernel (kernel-patches/7.3): off is stock, and what it does when it is on."""

from __future__ import annotations

import functools
import re

import pytest
from changed import SLEEPS, with_fixed_addresses, with_sysfs
from counted import number

from abh.build import components
from abh.study import cell
from abh.verify import selftests, testbed

pytestmark = pytest.mark.newest

SWITCH = "/sys/kernel/mm/transparent_hugepage/brk_ahead"
OWN = "brk_ahead"
# Time is instructions, so a program that reads the clock of the processor counts them.
COUNTED = ("-icount", "shift=0,sleep=off")
LIMIT_S = 600
HUGE_KIB = 2048


def said_by(name, *jobs, linux, **options):
    """What a program for this kernel prints, after each of the jobs: (lines of each run, all that was said)."""
    program = (components.path_of("newest-tests") / name).read_bytes()
    job = [line for lines in jobs for line in (*lines, f"run /{name}")]
    said = testbed.run(linux, job, limit_s=LIMIT_S, files={name: program}, **options)
    assert said.ok, said.tail()
    return [lines for _, lines in testbed.outputs(said.lines)]


@functools.cache
def kernel(*, stock=False):
    """The small one: what is compared with stock is what both of them do."""
    return testbed.kernel("linux-newest-prefix", stock=stock)


@functools.cache
def quiet(policy):
    """A cell of sqlite with nothing beside it that comes at an instant of its own."""
    one = cell.Cell.of(f"sqlite@native-newest~{policy}", "smoke")
    return cell.run(with_sysfs(with_fixed_addresses(one), SLEEPS))


def test_its_own_tests_pass():
    """The self-test, and the KUnit test, which runs at boot."""
    program = (components.path_of("mm-selftests-newest") / OWN).read_bytes()
    words = "loglevel=7 kunit.enable=1"
    said = testbed.run(kernel(), [f"run /{OWN}"], limit_s=LIMIT_S, files={OWN: program}, cmdline=words)
    ((_, lines),) = testbed.outputs(said.lines)
    status, *results = selftests.outcome(lines)
    assert said.problem is None and status == selftests.PASSED, "\n".join(lines)
    assert len(results) >= 20 and all(each.startswith("ok") for each in results)
    assert any(re.search(rf"\bok \d+ {OWN}$", line) for line in said.lines), "the KUnit test"


def test_off_is_stock():
    """A program's memory is laid out alike."""
    same, text = testbed.same_layout(kernel(stock=True), kernel())
    assert same, text


def test_off_costs_a_call_next_to_nothing():
    """Instructions of a call, off against stock."""
    stock, off = (costs(said_by("cost", [], linux=each, more=COUNTED)[0]) for each in (kernel(stock=True), kernel()))
    assert stock.keys() == off.keys() and len(stock) == 4
    for name, least in stock.items():
        assert off[name] <= least + 15, f"{name}: {least} on stock, {off[name]} with the switch off"


def costs(lines):
    return {name: float(each) for word, name, each in (line.split() for line in lines if line.startswith("cost "))}


def test_a_heap_comes_as_hugepages():
    off, on = quiet("thp-newest"), quiet("abh-heap")
    assert number(off, "alloc_ratio") < 0.05
    assert number(on, "alloc_ratio") > 0.6
    assert number(on, "minor_faults") < number(off, "minor_faults")
    assert number(on, "instructions") <= 1.005 * number(off, "instructions")
    more = number(on, "memory_peak_kib") - number(off, "memory_peak_kib")
    assert more <= HUGE_KIB + 256, "less than a hugepage ahead of the break, and what is charged ahead"


def test_heaps_start_at_as_many_places():
    off, on = said_by("places", [], [f"set {SWITCH} 1"], linux=kernel())
    assert off[0] == on[0] and int(off[0].split()[1]) >= 18
