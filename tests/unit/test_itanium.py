# SPDX-License-Identifier: MIT
"""The Itanium machine's runs: what is wrong with one, and how two differ."""

from __future__ import annotations

from dataclasses import replace

from abh.verify import itanium

SIDE = {"walker_insertions": 0}
COUNTED = {"faults": {}, "aborts": {}, "instruction": SIDE, "data": SIDE}
WELL = itanium.Ended(0, f"booting\n{itanium.WELL}\n", "", {"instructions": 7, "seconds": 1.0, "counters": {"walks": 3}})


def test_a_run_is_well_when_its_first_process_says_so_and_ends_it() -> None:
    assert itanium.fault(WELL) == ""
    assert "status 1" in itanium.fault(replace(WELL, status=1))
    assert "expected" in itanium.fault(replace(WELL, console=f"{itanium.WELL}\ninit: something is wrong\n"))
    assert "a wild jump" in itanium.fault(replace(WELL, console="booting", report="a wild jump"))


def test_two_runs_are_alike_but_for_the_seconds() -> None:
    assert itanium.differ(WELL, replace(WELL, counted={**WELL.counted, "seconds": 2.0})) == ""
    assert "instructions" in itanium.differ(WELL, replace(WELL, counted={**WELL.counted, "instructions": 8}))
    said = itanium.differ(WELL, replace(WELL, console=f"halting\n{itanium.WELL}\n"))
    assert "- booting\n+ halting" in said


def test_a_walker_counts_what_its_mode_can_have() -> None:
    walked = {**COUNTED, "data": {"walker_insertions": 5000}}
    assert itanium.unlike("none", COUNTED) == ""
    assert "the walker inserted" in itanium.unlike("none", walked)
    assert itanium.unlike("lf", walked) == ""
    assert "it inserted nothing" in itanium.unlike("lf", COUNTED)
    assert "the table was not there" in itanium.unlike("lf", {**walked, "faults": {"VhptData": 5000}})
    assert "a miss was nested" in itanium.unlike("lf", {**walked, "faults": {"DataNested": 5000}})
    assert itanium.unlike("sf", {**walked, "faults": {"VhptData": 7}}) == ""
    assert "another tag" in itanium.unlike("sf", {**walked, "faults": {"VhptData": 7}, "aborts": {"Tag": 1}})
    assert "always there" in itanium.unlike("sf", walked)


def test_a_kernel_with_other_base_pages_is_told_sizes_that_it_has() -> None:
    assert itanium.sizes() == [4, 16, 64]
    assert itanium.words("lf-lp") == "vhpt=lf superpages=16M"
    assert itanium.words("lf-lp", 4, "fuzz 7") == "vhpt=lf superpages=1M fuzz 7"
    assert itanium.words("sf", 64, "fuzz 7") == "fuzz 7"


def test_random_calls_without_a_superpage_show_nothing_of_one() -> None:
    console = "64K faulted 3 failed 0 demoted 0\n256K faulted 0 failed 0 demoted {}\n"
    assert itanium.unshown("sf-lp", console.format(1)) == ""
    assert "3 superpages, 0 demoted" in itanium.unshown("sf-lp", console.format(0))
    assert "0 superpages, 0 demoted" in itanium.unshown("sf-lp", "")
    assert itanium.unshown("sf", "") == ""
    assert "none expected" in itanium.unshown("sf", console.format(0))


def test_superpages_are_also_read_where_the_fuzzer_of_kernels_tells_of_them() -> None:
    assert itanium.unshown("lf-lp", "counted: 64K faulted 3 failed 0 demoted 1\n") == ""
    assert "none expected" in itanium.unshown("lf", "counted: 64K faulted 3 failed 0 demoted 1\n")


def test_a_program_that_tests_a_kernel_is_well_when_its_status_says_so() -> None:
    assert itanium.undone(replace(WELL, console=f"PASS\n{itanium.PROGRAM_DONE}\nTEST end well\n")) == ""
    assert "status 1" in itanium.undone(replace(WELL, status=1, console=f"{itanium.PROGRAM_DONE}\n"))
    assert "expected" in itanium.undone(replace(WELL, console="FAIL: a page\nTEST status 1\nTEST end well\n"))


def test_programs_that_fail_under_linux_are_those_that_are_known() -> None:
    console = "torture: t/O2/pr1 ended by signal 11\ntorture: 7 programs, 1 failed\n"
    assert itanium.tortured(console, {"O2/pr1"}) == (True, "7 programs, 1 failed\n")
    assert "O2/pr1 ended by signal 11" in itanium.tortured(console, set())[1]
    assert "O2/pr2 is known to fail" in itanium.tortured(console, {"O2/pr1", "O2/pr2"})[1]


def test_programs_that_did_not_run_have_not_passed() -> None:
    assert itanium.tortured("", set()) == (False, "none of GCC's programs ran\n")
    assert itanium.tortured("torture: 0 programs, 0 failed\n", set())[0] is False
