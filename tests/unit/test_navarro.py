# SPDX-License-Identifier: MIT
"""Navarro's experiments: their files, the job, what is read of what they print, the table and the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from abh import paths
from abh.errors import AbhError
from abh.schema import experiment as files
from abh.schema import spec
from abh.verify import navarro, testbed

LINUX, DISK = Path("/linux"), Path("/guest.erofs")


@pytest.fixture
def adversary() -> files.Experiment:
    found = files.SHELF.all(paths.CHECKOUT)["adversary"]
    return found.model_copy(
        update={
            "shows": ("instructions", "hugepages"),
            "policies": ("reg", "reservation-navarro"),
            "bounds": {"reservation-navarro": {"hugepages": (16, 16)}},
        }
    )


def printed(plan: list[tuple[files.Experiment, str]], numbers: Iterator[int], huge: int = 16) -> list[str]:
    """What a machine says whose programs count these instructions, one after the other."""
    lines = []
    for each, policy in plan:
        lines += [f"TEST run /navarro {each.name}", f"count instructions {next(numbers)} instructions"]
        lines += [f"count hugepages {0 if policy == 'reg' else huge} hugepages", "[    1.0] a clock was late"]
        lines += ["count resident n/a nobody has asked", "TEST status 0"]
    return [*lines, "TEST end well"]


def run(monkeypatch: pytest.MonkeyPatch, one: files.Experiment, lines: list[str]) -> dict[str, list[navarro.Counts]]:
    monkeypatch.setattr(testbed, "run", lambda *_, **__: testbed.Said(lines))
    return navarro.run(LINUX, [one], DISK, 1, lambda line: None)[one.name]


def test_each_file_has_its_program_and_names_what_is_there() -> None:
    known = files.SHELF.all(paths.CHECKOUT)
    folder = paths.CHECKOUT / "tests/kernel/navarro"
    policies = {*spec.policies(), *spec.policies(group="reservation"), *spec.policies(group="daemon")}
    alone = {"adversary", "bytes", "unpromoted", "sparse", "preemption", "files"}
    assert alone | {"fragmentation", "concurrent"} <= set(known)
    assert {path.stem for path in folder.glob("*.c")} == {*known, "count", "filled"}
    for each in known.values():
        assert f"EXPERIMENT({each.name})" in each.path.with_suffix(".c").read_text(), each.path
        assert each.reference and {*each.bounds} <= {*each.policies}, each.path
        assert {*each.policies} <= policies, each.path
    assert len({each.order for each in known.values()}) == len(known)


def test_policies_are_had_by_turns_and_each_begins_without_reservations(adversary: files.Experiment) -> None:
    once = adversary.model_copy(update={"name": "once", "turns": 1})
    plan = navarro.plan([adversary, once])
    order = [(each.name, policy) for each, policy in plan]
    of_adversary, of_once = ([(name, policy) for policy in adversary.policies] for name in ("adversary", "once"))
    assert order == [*of_adversary, *of_once, *of_adversary, *of_adversary]
    jobs = "\n".join(navarro.job(plan[:2])).split("run /navarro adversary")
    for part, on in zip(jobs[:2], (False, True), strict=True):
        off, _, rest = part.partition(f"{testbed.RESERVATION}/enabled 0")
        assert "transparent_hugepage" not in off
        assert (f"{testbed.RESERVATION}/enabled 1" in rest) is on


def test_the_median_is_shown_and_the_range_reported(
    monkeypatch: pytest.MonkeyPatch, adversary: files.Experiment
) -> None:
    told = run(monkeypatch, adversary, printed(navarro.plan([adversary]), iter((1000, 1100, 1010, 1200, 1020, 1300))))
    rows = [line.split() for line in navarro.table(adversary, told).splitlines()]
    assert ["instructions", "1,010", "1,200"] in rows
    assert ["beside", "reg", "+18.8", "%"] in rows
    assert ["hugepages", "0", "16"] in rows
    value = navarro.document(adversary, told)["policies"]["reg"]["instructions"]
    assert value == {"value": 1010, "unit": "instructions", "kind": "counted", "low": 1000, "high": 1020}


def test_what_is_not_known_is_said_with_why(monkeypatch: pytest.MonkeyPatch, adversary: files.Experiment) -> None:
    one = adversary.model_copy(update={"shows": ("resident",)})
    told = run(monkeypatch, one, printed(navarro.plan([one]), iter(range(1, 7))))
    assert ["resident", "n/a", "n/a"] in [line.split() for line in navarro.table(one, told).splitlines()]
    value = navarro.document(one, told)["policies"]["reg"]["resident"]
    assert (value["value"], value["reason"]) == (None, "nobody has asked")


def test_references_have_lines_and_a_kind_of_their_own(
    monkeypatch: pytest.MonkeyPatch, adversary: files.Experiment
) -> None:
    told = run(monkeypatch, adversary, printed(navarro.plan([adversary]), iter(range(1, 7))))
    line = next(line for line in navarro.table(adversary, told).splitlines() if "8.9 %" in line)
    assert line.startswith("  reference [X: confirmed by another source]")
    reference = navarro.document(adversary, told)["reference"]
    assert {each["kind"] for each in reference} == {"reference"} and {each["sure"] for each in reference} == {"X", "R"}


@pytest.mark.parametrize("lost", ["instructions", "hugepages"])
def test_a_count_that_is_missing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, adversary: files.Experiment, lost: str
) -> None:
    lines = printed(navarro.plan([adversary]), iter(range(1, 7)))
    lines.remove(next(line for line in reversed(lines) if line.startswith(f"count {lost} ")))
    with pytest.raises(AbhError, match="did not tell what it counts") as caught:
        run(monkeypatch, adversary, lines)
    assert caught.value.got == f"no {lost}"


@pytest.mark.parametrize("spoil", ["TEST status 0", "TEST run /navarro adversary"])
def test_a_program_that_failed_or_never_ran_is_an_error(
    monkeypatch: pytest.MonkeyPatch, adversary: files.Experiment, spoil: str
) -> None:
    lines = printed(navarro.plan([adversary]), iter(range(1, 7)))
    lines[lines.index(spoil)] = "TEST status 1" if "status" in spoil else "nothing"
    with pytest.raises(AbhError, match="not all experiments were done"):
        run(monkeypatch, adversary, lines)


def test_what_is_outside_its_bounds_is_told(monkeypatch: pytest.MonkeyPatch, adversary: files.Experiment) -> None:
    plan = navarro.plan([adversary])
    assert not navarro.outside(adversary, run(monkeypatch, adversary, printed(plan, iter(range(1, 7)))))
    faults = navarro.outside(adversary, run(monkeypatch, adversary, printed(plan, iter(range(1, 7)), huge=15)))
    assert len(faults) == 3 and "hugepages 15, 16 to 16 expected" in faults[0]
