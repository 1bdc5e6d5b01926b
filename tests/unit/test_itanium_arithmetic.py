# SPDX-License-Identifier: MIT
"""What Wienand's thesis derives from its own measurements, done again: what follows from them, and what does not.

The numbers are the thesis' (kind: reference). Nothing of ours is compared with them: these are what a reader who
repeats the thesis must know of its tables.
"""

from __future__ import annotations

import pytest

HERTZ = 1.5e9  # of the processor
BASE_KIB = 16


def effectiveness(cycles: float, misses: float, latency: float) -> float:
    """Equation 6.1: the part of the time that is not spent on misses of the TLB."""
    return cycles / misses / (cycles / misses + latency)


def covered(total: int, of_walker: int) -> float:
    """Per cent of misses that the walker served."""
    return round(100 * of_walker / total, 2)


@pytest.mark.parametrize(("gradient", "cycles"), [(1.28181e-8, 19.23), (4.09793e-8, 61.47), (5.35105e-8, 80.27)])
def test_table_6_3_a_miss_in_cycles_is_the_gradient_times_the_clock(gradient, cycles):
    assert gradient * HERTZ == pytest.approx(cycles, abs=0.005)


@pytest.mark.parametrize(
    ("allocated", "shares"),
    [
        ({0: 4872, 2: 3374, 4: 545, 6: 11}, (17.53, 48.56, 31.38, 2.53)),  # table 6.6, vortex
        ({0: 5497, 2: 1028, 4: 96, 6: 39, 8: 17, 10: 9}, (20.20, 15.11, 5.65, 9.17, 15.99, 33.87)),  # table 6.9, mcf
    ],
)
def test_tables_6_6_and_6_9_the_share_of_an_order_is_of_memory_not_of_pages(allocated, shares):
    kib = {order: count * BASE_KIB << order for order, count in allocated.items()}
    # Table 6.9 cuts what others round.
    assert [100 * each / sum(kib.values()) for each in kib.values()] == pytest.approx(shares, abs=0.01)
    assert all(order % 2 == 0 for order in allocated), "64 KiB, 256 KiB, 1 MiB ...: the processor has no others"


@pytest.mark.parametrize(
    ("cycles", "misses", "of_a_miss"),
    [(167_011_979_645, 767_849_589, 218), (154_402_232_842, 402_959, 383_171)],
)
def test_table_6_7_mcf_has_more_cycles_to_a_miss_with_superpages(cycles, misses, of_a_miss):
    assert round(cycles / misses) == of_a_miss


def test_table_6_11_the_walker_served_nearly_all_and_the_text_counts_too_few_seconds():
    total, walked = 636_254_917, 635_071_787
    assert (covered(total, walked), covered(240, 188)) == (99.81, 78.33)
    assert round(walked * 19.23 / HERTZ) == 8, "section 6.3.6 says 6 s"


def test_table_6_14_one_cell_is_of_another_count_and_the_difference_all_but_goes():
    software, walker = 61, 18
    plain, large = {"all": 5711, "walked": 5554}, {"all": 2127, "walked": 378}
    of_software = [software * (each["all"] - each["walked"]) for each in (plain, large)]
    of_walker = [walker * each["walked"] for each in (plain, large)]
    assert of_software == [9_577, 106_689] and of_walker[0] == 99_972
    assert walker * (large["all"] - large["walked"]) == 31_482, "the cell has the misses that the walker did not serve"
    assert of_walker[1] == 6_804, "what it is to have"
    totals = [sum(pair) for pair in zip(of_software, of_walker, strict=True)]
    assert totals == [109_549, 113_493], "the thesis has 100,929 and 138,171"
    assert (round(138_171 / 100_929, 2), round(totals[1] / totals[0], 3)) == (1.37, 1.036)


def test_equation_6_2_vortex_needs_1987_cycles_to_a_miss_not_1972():
    cycles, latency, misses = 213_254_629_975, 61.47, 107_296_307
    assert effectiveness(cycles, misses, latency) == pytest.approx(0.97, abs=1e-6)
    assert int(cycles / misses) == 1987
    assert effectiveness(1972, 1, latency) == pytest.approx(0.97, abs=3e-4), "close, all the same"
