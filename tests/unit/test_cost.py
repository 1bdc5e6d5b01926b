# SPDX-License-Identifier: MIT
"""What memory calls cost: the table, and the verdict."""

from pathlib import Path

import pytest

from abh import cli
from abh.commands import kernel_test
from abh.errors import AbhError
from abh.verify import cost, testbed

STOCK, PATCHED = Path("/stock"), Path("/patched")


def _machines(monkeypatch: pytest.MonkeyPatch, off: int, lines: tuple[str, ...] = ()) -> None:
    """Machines that tell 1,000 instructions of a call, and `off` with ABH's patches and nobody who has ABH."""

    def run(linux: Path, job: tuple[str, ...], **_: object) -> testbed.Said:
        number = 1000 if linux == STOCK or len(job) > 1 else off
        return testbed.Said([*(lines or (f"cost {number} brk() by 4 KiB, and back",)), "TEST status 0"])

    monkeypatch.setattr(testbed, "run", run)


def _compare() -> bool:
    return cost.compare(STOCK, PATCHED, 1, lambda about: lambda line: None)


def test_each_state_has_a_column(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _machines(monkeypatch, off=1010)
    _compare()
    assert capsys.readouterr().out.splitlines()[1].split()[-5:] == ["1,000", "1,010", "1,000", "1,000", "1,000"]


def test_a_machine_that_tells_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _machines(monkeypatch, off=1000, lines=("nothing",))
    with pytest.raises(AbhError, match="what calls cost was not told"):
        _compare()


@pytest.mark.parametrize(("off", "holds"), [(1014, True), (1016, False), (900, True)])
def test_who_has_no_abh_pays_no_more_than_the_bound(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], off: int, holds: bool
) -> None:
    _machines(monkeypatch, off=off)
    assert _compare() is holds
    assert ("kernel-test: brk() by 4 KiB, and back: 1,016" in capsys.readouterr().out) is not holds


def test_the_bound_is_each_state_s_own() -> None:
    told = {state: {"fork()": number} for state, number in (("without", 1000), ("others", 1021), ("on", 5000))}
    assert len(cost.excess(told)) == 1


def test_another_series_has_states_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _machines(monkeypatch, off=1031)
    assert not cost.compare(STOCK, PATCHED, 1, lambda about: lambda line: None, cost.NEWEST, cost.MOST_NEWEST)
    said = capsys.readouterr().out.splitlines()
    assert said[0].split()[-3:] == ["without", "off", "on"] and said[1].split()[-3:] == ["1,000", "1,031", "1,000"]


@pytest.mark.parametrize("more", [["--stock"], ["--newest", "--debug-kernel"]])
def test_a_cost_that_there_is_not_is_refused(more: list[str]) -> None:
    with pytest.raises(AbhError, match=r"without ABH's patches|no debug kernel"):
        kernel_test.run(cli.parse(["kernel-test", "cost", *more]))
