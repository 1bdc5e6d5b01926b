# SPDX-License-Identifier: MIT
"""The thesis' programs on the Itanium machine: their files, what a round counts by two runs, bounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from abh import paths
from abh.errors import AbhError
from abh.schema import thesis as files
from abh.verify import itanium, thesis


def ended(instructions: int, misses: int, walked: int, pages: int = 8) -> itanium.Ended:
    data = {"second_misses": misses, "walker_insertions": walked}
    faults = {"VhptData": 3, "DataTlb": 4, "AlternateData": 5, "DataNested": 6, "InstructionTlb": 7}
    counted: dict[str, Any] = {
        "instructions": instructions,
        "uncollected": instructions // 10,
        "counters": {"data": data, "aborts": {"Attribute": 8, "Tag": 9}, "faults": faults},
    }
    return itanium.Ended(0, f"16384K faulted {pages} failed 0 demoted 0\n{itanium.WELL}\n", "", counted)


def test_each_program_has_a_function_and_all_modes_are_known() -> None:
    known = files.programs()
    bounded = {name for name, each in known.items() if each.quick and each.bounds}
    assert {"strided", "linear", "transposition"} <= bounded
    for each in known.values():
        assert f"PROGRAM({each.name})" in each.path.with_suffix(".c").read_text(), each.path
    functions = (paths.CHECKOUT / "tests/itanium/thesis").glob("*.c")
    assert {path.stem for path in functions} == set(known)
    assert tuple(itanium.MODES) == thesis.MODES


def test_a_round_is_what_lies_between_two_runs() -> None:
    strided = files.programs()["strided"]
    rounds = strided.rounds[1] - strided.rounds[0]
    one = thesis.row(strided, "sf", ended(1000, 50, 5), ended(1000 + 7 * rounds, 50 + 2 * rounds, 5, 8 + 3 * rounds))
    assert one.counted["instructions"] == 7
    assert (one.counted["misses"], one.counted["walked"], one.counted["nested"]) == (2, 0, 0)
    assert one.faulted == {"16384K": 3}
    assert thesis.counters(ended(10, 1, 0).counted)["faults"] == 12
    assert thesis.counters(ended(10, 1, 0).counted)["ended"] == 17


def told_runs(monkeypatch: pytest.MonkeyPatch, broken: int | None = None) -> list[str]:
    """Has runs end without a machine, the one of this number not well; the command lines of those that began."""
    began: list[str] = []

    def runs(wanted: Iterable[list[str]], _: int) -> Generator[itanium.Ended, None, None]:
        for number, words in enumerate(wanted):
            began.append(words[0])
            one = ended(1000 + number, 50, 5)
            yield one if number != broken else itanium.Ended(1, "init: something is wrong", "", one.counted)

    monkeypatch.setattr(itanium, "in_turn", runs)
    monkeypatch.setattr(itanium, "unlike", lambda *_: "")
    return began


def test_each_program_and_mode_is_told_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    known, told = files.programs(), list[str]()
    began = told_runs(monkeypatch)
    pairs = [(known[name], mode) for name in ("strided", "linear") for mode in thesis.MODES]
    rows = thesis.study(pairs, tell=told.append)
    assert [(one.program, one.mode) for one in rows] == [(program.name, mode) for program, mode in pairs]
    assert told[0] == f"strided, {thesis.MODES[0]}: 1 of 12"
    assert told[5:7] == [f"strided, {thesis.MODES[5]}: 6 of 12", f"linear, {thesis.MODES[0]}: 7 of 12"]
    assert len(told) == 12 and len(began) == 24


def test_after_a_run_that_is_not_well_no_other_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[str]()
    began = told_runs(monkeypatch, broken=3)
    strided = files.programs()["strided"]
    with pytest.raises(AbhError, match="did not end well") as caught:
        thesis.study([(strided, mode) for mode in thesis.MODES], tell=told.append)
    assert f"mode {thesis.MODES[1]}, {strided.rounds[1]} rounds" in str(caught.value)
    assert len(told) == 1 and len(began) == 4


def test_runs_in_turn_begin_no_more_when_they_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[object] = []

    def run(words: object, **_: object) -> itanium.Ended:
        began.append(words)
        return ended(1, 1, 1)

    monkeypatch.setattr(itanium, "build", lambda _: None)
    monkeypatch.setattr(itanium.schedule, "processors", lambda: 1)
    monkeypatch.setattr(itanium, "run", lambda words, **_: (time.sleep(0.05), run(words))[1])
    runs = itanium.in_turn([str(number)] for number in range(100))
    assert next(runs).status == 0
    runs.close()
    assert len(began) < 10


def test_a_count_outside_its_bounds_is_named() -> None:
    strided = files.programs()["strided"]
    good = thesis.Row("strided", "sf", {**dict.fromkeys(thesis.COUNTERS, 0.0), "misses": 520.0, "faults": 512.0}, {})
    assert thesis.outside(strided, good) == ""
    bad = thesis.Row("strided", "sf", {**good.counted, "walked": 500.0}, {})
    assert "strided, sf: walked of a round 500.0, 0 to 16 expected (strided.toml)" in thesis.outside(strided, bad)
    assert thesis.outside(strided, thesis.Row("strided", "none-lp", bad.counted, {})) == ""
    edges = files.programs()["edges"]
    sizes = thesis.Row("edges", "lf-lp", good.counted, {size: float(count) for size, count in edges.faulted.items()})
    assert thesis.outside(edges, sizes) == ""
    fewer = thesis.Row("edges", "lf-lp", good.counted, {**sizes.faulted, "256K": 5.5})
    assert "edges, lf-lp: pages of 256K of a round 5.5, 6 to 6 expected" in thesis.outside(edges, fewer)
    assert "superpages: 6 of 64K, 5.5 of 256K" in thesis.table([fewer])
    assert "strided        sf                   0" in thesis.table([good])


def test_a_program_under_other_base_pages_is_as_its_table_for_them_says() -> None:
    known = files.programs()
    assert thesis.of_pages(known["strided"], 16) is known["strided"]
    wide = thesis.of_pages(known["strided"], 64)
    assert (wide.superpages, wide.bounds["sf"]["walked"]) == ("256K", (470, 500))
    assert "none" in known["strided"].bounds and "none" not in wide.bounds
    narrow = thesis.of_pages(known["edges"], 4)
    assert (narrow.superpages, narrow.faulted["8K"]) == ("1M", 2)
    assert thesis.of_pages(known["medium"], 4).superpages == "64K"
    assert thesis.of_pages(known["hugetlb"], 64).words == "hugepagesz=256K hugepages=256"
    bare = thesis.of_pages(known["linear"], 64)
    assert (bare.superpages, bare.bounds, bare.faulted) == ("16M", {}, {})


@pytest.mark.parametrize("wrong", ["", "boots_alike", "checks", "fuzz"])
def test_other_base_pages_are_shown_until_something_is_wrong(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    def shows(name: str) -> Callable[..., tuple[bool, str]]:
        def show(*words: object, pages: int = 0) -> tuple[bool, str]:
            kib = pages or words[-1]
            return (name, kib) != (wrong, 64), f"{name} {kib}\n"

        return show

    monkeypatch.setattr(itanium, "boots_alike", shows("boots_alike"))
    monkeypatch.setattr(itanium, "fuzz", shows("fuzz"))
    monkeypatch.setattr(thesis, "checks", shows("checks"))
    every = [f"{name} {kib}" for kib in (4, 64) for name in ("boots_alike", "checks", "fuzz")]
    well, said = thesis.other_pages(7)
    assert well == (not wrong)
    assert said.splitlines() == (every[: every.index(f"{wrong} 64") + 1] if wrong else every)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rounds = [3, 2]", "two numbers of rounds"),
        ("rounds = [1, 2]\n[bounds.xx]\nmisses = [1, 2]", "bounds.xx"),
        ("rounds = [1, 2]\n[bounds.sf]\nmisses = [2, 1]", "the least and the greatest"),
        ("rounds = [1, 2]\n[bounds.sf]\nmissed = [1, 2]", "bounds.sf.missed"),
        ("rounds = [1, 2]\n[pages.8k]\nwords = ''", "pages.8k"),
        ("rounds = [1, 2]\n[pages.4k]\nword = ''", "pages.4k.word"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_its_key(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "tests/itanium/thesis/wrong.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f'purpose = "x"\nthesis = "y"\n{line}\n')
    with pytest.raises(AbhError) as told:
        files.SHELF.all(tmp_path)
    assert said in str(told.value) and "wrong.toml" in str(told.value)
