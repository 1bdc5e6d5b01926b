# SPDX-License-Identifier: MIT
"""Several draws of one cell: their median, and what the guest is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from abh.errors import AbhError
from abh.schema import result
from abh.schema.result import Outcome, Result, Value
from abh.study import cell, draws

RUN = "sqlite@native~thp"


def provenance(command: str = "abh run") -> result.Provenance:
    return result.Provenance(
        commit="c", series={}, components={}, roots={}, command=command, seed=1, machine="m",
        when="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


def made(outcome: Outcome = "success", reason: str | None = None, **values: Value) -> Result:
    return Result(
        run=RUN, workload="sqlite", environment="native", policy="thp", size="smoke", outcome=outcome,
        reason=reason, values=values, provenance=provenance(),
    )  # fmt: skip


def faults(*numbers: float | None) -> Value:
    """The median of that many draws' faults; None: unknown in that draw."""
    each = [
        Value.unknown("faults", "counted", f"not told by draw {draw}") if number is None
        else Value.of(number, "faults", "counted")
        for draw, number in enumerate(numbers)
    ]  # fmt: skip
    return draws.median([made(faults=value) for value in each], provenance()).values["faults"]


@pytest.mark.parametrize(
    ("numbers", "middle", "low", "high"),
    [
        ((9, 1, 5), 5, 1, 9),
        ((4, 8), 6, 4, 8),
        ((4, 7), 5.5, 4, 7),
        ((1, 2, 4, 100), 3, 1, 100),
        ((0.25, 0.75), 0.5, 0.25, 0.75),
        ((1.0, 3.0), 2.0, 1.0, 3.0),
        ((7,), 7, 7, 7),
        ((0, 0, 0), 0, 0, 0),
    ],
)
def test_the_median_and_the_range(numbers, middle, low, high):
    value = faults(*numbers)
    assert (value.value, value.low, value.high) == (middle, low, high)
    assert type(value.value) is type(middle), "what is counted stays whole where it can"
    assert (value.unit, value.kind) == ("faults", "counted")


def test_what_one_draw_does_not_know_the_median_does_not():
    value = faults(1, None, 3)
    assert value == Value.unknown("faults", "counted", "not told by draw 1")


def test_a_value_that_only_some_draws_have_is_of_those():
    both = draws.median([made(a=Value.of(1, "x", "counted")), made(b=Value.of(2, "x", "counted"))], provenance())
    assert {name: value.value for name, value in both.values.items()} == {"a": 1, "b": 2}


@pytest.mark.parametrize("worst", ["skip", "error", "failure", "crash"])
def test_the_outcome_is_the_worst_with_its_reason(worst):
    all_of_them = draws.median([made(), made(worst, "why"), made()], provenance())
    assert (all_of_them.outcome, all_of_them.reason) == (worst, "why")
    later = draws.median([made("crash", "panic"), made(worst, "why")], provenance())
    assert later.outcome == "crash"


def test_a_median_is_a_result_that_says_of_how_many_draws_it_is(tmp_path):
    of_three = draws.median([made(), made(), made()], provenance("abh run --draws 3"))
    assert of_three.draws == 3 and of_three.provenance.command == "abh run --draws 3"
    result.write(of_three, tmp_path / f"{RUN}.json")
    assert result.read(tmp_path / f"{RUN}.json") == of_three


@pytest.mark.parametrize("number", [1, 5, 99])
def test_draws_are_numbered_from_none_on(number):
    assert list(draws.numbers(number)) == list(range(number))


@pytest.mark.parametrize("number", [0, -1, 100])
def test_a_number_of_draws_that_cannot_be_is_refused_as_usage(number):
    with pytest.raises(AbhError, match="no such number of draws") as caught:
        draws.numbers(number)
    assert caught.value.status == 2 and caught.value.expected == "1 to 99"


def test_the_only_draw_is_kept_among_the_results_each_of_several_beside_them():
    one = cell.Cell.of(RUN, "smoke")
    assert draws.folder_of(Path("/r"), one) == Path("/r")
    several = replace(one, draws=2)
    folders = {draws.folder_of(Path("/r"), replace(several, draw=draw)) for draw in (0, 1)}
    assert folders == {Path("/r/draws/0"), Path("/r/draws/1")}


@pytest.mark.parametrize("environment", ["native", "kvm-hap", "xen-pv"])
def test_the_guest_is_told_of_every_draw_but_the_machines_own(environment):
    one = cell.Cell.of(f"sqlite@{environment}~abh", "smoke", draws=3)
    guest = {draw: cell.guest_lines(replace(one, draw=draw)).splitlines() for draw in (0, 1, 2)}
    assert not [line for line in guest[0] if line.startswith("draw")]
    for draw in (1, 2):
        assert [line for line in guest[draw] if line not in guest[0]] == [f"draw {draw}"]
    whole = cell.cell_text(replace(one, draw=2))
    assert whole.partition("@host")[0].count("\ndraw 2\n") == 1 and "draw" not in whole.partition("@host")[2]
    assert cell.setup_text(replace(one, draw=2)) == cell.setup_text(one), "a frozen machine serves every draw"
