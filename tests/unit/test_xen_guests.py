# SPDX-License-Identifier: MIT
"""Superpages in Xen's shadow: the switch of a domain, and what the host says of the small guests."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest

from abh import paths
from abh.build import components, series
from abh.commands import xen_test
from abh.errors import AbhError, Status
from abh.machine import emulated
from abh.schema import spec
from abh.study import cell
from abh.verify import xen as xen_guests
from abh.verify import xen_counted, xen_mutants

SAID = """ABH test
ABH said test:sizes~shadow-1 sizes begins
ABH counted test:sizes~shadow-1 superpages_direct 12
ABH counted test:sizes~shadow-1 superpages_shadow_pages 40
ABH verdict test:sizes~shadow-1 ABH test sizes success
ABH verdict test:views~hap ABH test views failure 4 KiB view, offset 0
ABH counted test:sizes~other superpages_direct 12
""".splitlines()
JOBS = ["key O", "test sizes shadow 1 rounds=5", "test views hap 0", "test frames shadow 0"]


def _arguments(**given: Any) -> argparse.Namespace:
    usual = {"tests": [], "audit": False, "fuzz": None, "seed": 1, "rounds": None}
    return argparse.Namespace(**(usual | given))


def test_setting_of_the_domain_reaches_only_the_environment_that_has_it() -> None:
    line = "domain shadow_superpages 1"
    with_it = {
        name for name in spec.environments() if line in cell.host_lines(cell.Cell.of(f"mcf@{name}~abh-xen2m", "smoke"))
    }
    assert with_it == {"xen-shadow"}
    assert "domain " not in cell.host_lines(cell.Cell.of("mcf@xen-shadow~abh", "smoke"))


def test_policies_differ_from_those_they_extend_by_the_switch_alone() -> None:
    for name in ("thp", "abh"):
        plain, ours = spec.policy(name), spec.policy(f"{name}-xen2m")
        assert ours.guest == plain.guest and ours.host.sysfs == plain.host.sysfs
        assert plain.host.domain == {} and ours.host.domain == {"shadow_superpages": "1"}


def test_counters_have_the_names_that_xen_gives_their_places() -> None:
    """A name more does no harm: a Xen that has fewer counters says so."""
    places: dict[int, str] = {}
    xen = series.load(paths.CHECKOUT / "hypervisor/xen/4.20")
    for patch in xen.patches:
        for name, at in re.findall(
            r"^\+#define XEN_DOMCTL_SHADOW_SP_(\w+) +(\d+)", (xen.folder / patch).read_text(), re.M
        ):
            places[int(at)] = name
    array = (paths.CHECKOUT / "agent/xen-superpages.c").read_text().split("names[] = {")[1].split("};")[0]
    known = [name.removeprefix("shadow_") for name in re.findall(r'"(\w+)"', array)]
    count = max(places)  # XEN_DOMCTL_SHADOW_SP_nr
    assert known[:count] == [places[at] for at in range(count)] and count > 11


def test_verdicts_of_the_jobs() -> None:
    sizes, views, frames = xen_guests.read(SAID, JOBS)
    assert (sizes.outcome, sizes.counters) == ("success", {"direct": 12, "shadow_pages": 40})
    assert (views.outcome, views.reason) == ("failure", "4 KiB view, offset 0")
    assert frames.outcome == "crash"  # nothing was said of it


def test_superpages_that_did_not_show_are_a_failure() -> None:
    on, off = (xen_guests.Verdict(f"test:sizes~shadow-{each}", "success") for each in (1, 0))
    assert len(xen_counted.unshown([on, off])) == 1
    on.counters = {"direct": 1}
    off.counters = {"direct": 0, "shadow_pages": 7}
    assert xen_counted.unshown([on, off]) == []
    off.counters = {"splintered_p2m": 1}
    assert len(xen_counted.unshown([on, off])) == 1


def test_jobs() -> None:
    assert [job for job in xen_test.jobs(_arguments(tests=["sizes"]))] == [
        "test sizes hap 0", "test sizes shadow 0", "test sizes shadow 1",
    ]  # fmt: skip
    assert xen_test.jobs(_arguments(tests=["linux"], rounds=7))[2] == "test linux shadow 1 rounds=7 spreads=4"
    every = xen_test.jobs(_arguments())
    assert "test linux hap 0 rounds=8 spreads=4" in every
    assert not any("canary" in job or "fuzz" in job or "test wide" in job for job in every)
    alone = [job for job in every if job.startswith("test ")]
    small = [name for name in xen_guests.names() if name.endswith(xen_guests.PAE)]
    whole = [name for name in xen_guests.names() if name not in small]
    assert {"linux", "upper", "modes-pae"} < {*small, *whole} and not {"linux-pae", "upper-pae", "modes"} & {
        *small,
        *whole,
    }
    assert len(alone) == 3 * (len(whole) - len(xen_test.ASKED)) + 2 * (len(small) - len(xen_test.ASKED))
    assert not any(job.split()[1:3] == ["sizes-pae", "hap"] for job in alone)
    assert "save churn shadow 1 rounds=3000 holes=1" in every
    assert [job for job in every if "pieces" in job] == ["pieces churn shadow 1 rounds=3000"]
    assert [job for job in every if "unrestored" in job] == ["unrestored churn shadow 1 rounds=3000"]
    assert [job for job in every if "vain" in job] == ["vain tables shadow 1 rounds=3000"]
    assert [job for job in every if "turns" in job] == ["turns linux shadow 1 rounds=100 spreads=0 turns=100"]
    assert every[-2:] == list(xen_guests.REFUSED) == xen_test.jobs(_arguments(tests=["refuse"]))
    fuzz = xen_test.adversaries(_arguments(fuzz=7, seed=3, audit=True))
    assert fuzz[0] == ["key O", "beside canary shadow 1", "draws fuzz shadow 1 3 3 operations=7"]
    assert len(fuzz) == 2 and fuzz[1][2] == "draws fuzz shadow 0 3 3 operations=7"


def test_adversary_of_many_operations_is_many_guests() -> None:
    at_once = xen_test.OPERATIONS
    assert xen_test.adversaries(_arguments(fuzz=at_once))[0][-1] == f"draws fuzz shadow 1 1 1 operations={at_once}"
    assert xen_test.adversaries(_arguments(fuzz=2 * at_once + 1, seed=5))[0][-1] == (
        f"draws fuzz shadow 1 5 7 operations={(2 * at_once + 3) // 3}"
    )
    # A machine has so many of them, and is told all of it in one small block.
    many = [each[-1].split()[4:6] for each in xen_test.adversaries(_arguments(fuzz=12 * at_once))]
    assert many == 2 * [["1", "5"], ["6", "10"], ["11", "12"]]
    assert len("\n".join(xen_test.adversaries(_arguments(fuzz=12 * at_once))[0])) < 200


def test_what_came_of_guests_one_machine_after_the_other_is_added() -> None:
    name, canary = "draws:fuzz~shadow-1", xen_guests.Verdict("beside:canary~shadow-1", "success")
    all_of_it = xen_guests.Ended([], [])
    all_of_it.and_then(
        xen_guests.Ended([xen_guests.Verdict(name, "success", "", {"direct": 2}, ["first"], {"stale": 0})], ["odd"])
    )
    all_of_it.and_then(
        xen_guests.Ended(
            [canary, xen_guests.Verdict(name, "failure", "at 9", {"direct": 3}, ["last"], {"stale": 1})], []
        )
    )
    one, beside = all_of_it.verdicts
    assert (one.outcome, one.reason, one.said) == ("failure", "at 9", ["last"])
    assert (one.counters, one.checked) == ({"direct": 5}, {"stale": 1})
    assert (beside, all_of_it.complaints) == (canary, ["odd"])


def test_verdict_of_many_guests_is_that_of_the_last() -> None:
    one = "draws:fuzz~shadow-1"
    lines = [f"ABH verdict {one} ABH test fuzz success", f"ABH verdict {one} ABH test fuzz failure at 9"]
    lines[:0] = [f"ABH counted {one} superpages_direct 5"]
    lines[2:2] = [f"ABH counted {one} superpages_direct 6"]
    (verdict,) = xen_guests.read(lines, ["draws fuzz shadow 1 1 2 operations=7"])
    assert (verdict.outcome, verdict.reason, verdict.counters) == ("failure", "at 9", {"direct": 11})


def test_what_runs_beside_a_test() -> None:
    assert xen_test.jobs(_arguments(tests=["grants"]))[:2] == [
        "beside grants hap 0 owner=1", "test grants hap 0",
    ]  # fmt: skip
    assert xen_guests.beside("grants-pae") == ["grants-pae", "owner=1"]


def test_guest_that_was_moved_has_its_superpages_again() -> None:
    below = dict.fromkeys(("before_p2m_huge_kib", "p2m_huge_kib"), 90 << 10)
    below |= dict.fromkeys(("before_host_mapped_kib", "host_mapped_kib"), 94 << 10)
    on = xen_guests.Verdict("save:churn~shadow-1", "success", "", {"before_live": 3, "direct": 2, **below})
    off = xen_guests.Verdict(
        "save:churn~shadow-0", "success", "", {"before_shadow_pages": 3, "before_direct": 0, **below}
    )
    nested = xen_guests.Verdict("migrate:churn~hap", "success", "", dict(below))
    assert xen_counted.unshown([on, off, nested]) == []
    on.counters["direct"] = 0  # whoever restored it did not turn them on
    nested.counters["p2m_huge_kib"] -= 2048  # or 2 MiB page by page
    assert len(xen_counted.unshown([on, off, nested])) == 2
    nested.counters = below | {"host_mapped_kib": 95 << 10}  # or a page that it had given back
    assert len(xen_counted.unshown([on, off, nested])) == 2
    on.counters, off.counters, nested.counters = {"direct": 3, **below}, {"before_direct": 1, **below}, {}
    assert len(xen_counted.unshown([on, off, nested])) == 4


def test_guest_that_was_restored_in_pieces_has_none() -> None:
    mapped = {"before_host_mapped_kib": 96 << 10, "host_mapped_kib": 96 << 10, "before_p2m_huge_kib": 96 << 10}
    good = {"before_live": 3, "splintered_p2m": 2, "refused": 16, **mapped}
    for wrong in ({}, {"refused": 0}, {"refused": 17}, {"p2m_huge_kib": 2048}, {"host_mapped_kib": 90 << 10}):
        one = xen_guests.Verdict("pieces:churn~shadow-1", "success", "", good | wrong)
        assert len(xen_counted.unshown([one])) == bool(wrong)


def test_guest_whose_writes_are_recorded_has_no_superpages_meanwhile() -> None:
    on = xen_guests.Verdict("dirty:churn~shadow-1", "success")
    on.counters = {"before_live": 12, "during_splintered_dirty": 12, "live": 12}
    assert xen_counted.unshown([on]) == []
    on.counters["during_live"] = 1
    assert xen_counted.unshown([on]) == ["dirty:churn~shadow-1: during_live is 1, not 0"]


def test_guest_whose_superpages_come_and_go_has_thousands() -> None:
    enough = {"demoted_table": 9, **dict.fromkeys(("taken_live", "splintered_dirty", "direct"), 2000)}
    on = xen_guests.Verdict("turns:linux~shadow-1", "success", "", dict(enough))
    assert xen_counted.unshown([on]) == []
    for few in ("taken_live", "splintered_dirty", "direct"):
        on.counters = enough | {few: 1999}
        assert xen_counted.unshown([on]) == [f"turns:linux~shadow-1: {few} is 1999, not 2000 or more"]


CHECKED = [
    "beside canary shadow 1 rounds=5", "test fuzz shadow 1", "key O", "test sizes shadow 0", "test sizes-pae shadow 1",
    "test sizes hap 0",
]  # fmt: skip


def _lines(*changes: dict[str, int], told: tuple[str, ...] = ()) -> str:
    """What the model says of each region: its counters go on from the last."""
    sums = dict.fromkeys((*xen_guests.COMPARED, *xen_guests.WRONG), 0)
    lines = []
    for more in changes:
        sums = {name: count + more.get(name, 0) for name, count in sums.items()}
        lines.append(json.dumps({"check": {**sums, "told": told}}))
    return "".join(f"{line}\n" for line in lines)


def _compared(text: str) -> tuple[dict[str, xen_guests.Verdict], list[str]]:
    verdicts = xen_guests.read([], CHECKED)
    return {each.variant: each for each in verdicts}, xen_guests.compared(text, verdicts, CHECKED)


def test_each_job_has_what_the_model_compared_meanwhile() -> None:
    whole = {"accesses": 10, "fetches": 7, "guests": 5, "entries": 20}
    narrow = {"accesses": 3, "fetches": 2}
    verdicts, wrong = _compared(_lines(whole, whole, narrow, narrow))
    assert wrong == []
    nothing = dict.fromkeys(xen_guests.WRONG, 0)
    assert verdicts["test:fuzz~shadow-1"].checked == verdicts["test:sizes~shadow-0"].checked == whole | nothing
    assert verdicts["test:sizes~hap"].checked == narrow | {"guests": 0, "entries": 0} | nothing
    assert verdicts["beside:canary~shadow-1"].checked == {}


def test_what_the_model_finds_wrong_is_said_of_its_job() -> None:
    whole = {"accesses": 10, "fetches": 7, "guests": 5, "entries": 20}
    verdicts, wrong = _compared(_lines(whole, whole | {"stale": 2}, whole, whole, told=("an address",)))
    assert wrong == ["test:sizes~shadow-0: the MMU model: 0 mismatches, 0 faults, 2 stale"]
    assert verdicts["test:sizes~shadow-0"].checked["stale"] == 2
    _, wrong = _compared(_lines(whole | {"mismatches": 1}, whole, whole, whole, told=("an address",)))
    assert wrong == ["test:fuzz~shadow-1: the MMU model: 1 mismatches, 0 faults, 0 stale", "an address"]


def test_a_job_of_which_the_model_compared_nothing_has_failed() -> None:
    narrow = {"accesses": 3, "fetches": 2}
    _, wrong = _compared(_lines(narrow, {}, narrow))
    assert wrong == [
        "test:fuzz~shadow-1: the MMU model compared no guests, entries",
        "test:sizes~shadow-0: the MMU model compared no accesses, fetches, guests, entries",
        "test:sizes~hap: the MMU model compared no accesses, fetches",
    ]


def test_the_limit_of_a_run_is_that_of_its_boot_too(monkeypatch: pytest.MonkeyPatch) -> None:
    booted: list[spec.Machine] = []

    def run(machine: spec.Machine, *_: object, **more: object) -> emulated.Ended:
        booted.append(machine)
        assert more["limit_s"] == 5400
        return emulated.Ended(["ABH end end host"], "", "", 1.0, None)

    monkeypatch.setattr(emulated, "run", run)
    monkeypatch.setattr(components, "path_of", Path)
    ended, _ = xen_guests.run([], xen=Path("xen-debug"), limit_s=5400)
    assert ended.passed and booted[0].boot_timeout_s == 5400


@pytest.mark.parametrize("debug", [True, False])
def test_an_audit_takes_a_xen_with_assertions_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], debug: bool
) -> None:
    ran = []

    def machine(_jobs: list[str], *, xen: Path, **_: object) -> tuple[xen_guests.Ended, None]:
        ran.append(xen)
        return xen_guests.Ended([], []), None

    monkeypatch.setattr(xen_guests, "run", machine)
    monkeypatch.setattr(xen_guests, "frozen_state", lambda *_: None)
    monkeypatch.setattr(components, "path_of", Path)
    more = {"mutants": None, "json": None, "debug": debug, "mmu_check": False, "minutes": 5}
    xen_test.run(_arguments(tests=["sizes"], audit=True, seed=None, **more))
    assert ran == [Path("xen-debug")]
    assert ("--audit: Xen with its assertions" in capsys.readouterr().err) != debug


def test_each_machine_of_the_adversary_has_the_whole_limit_and_says_that_it_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limits: list[float] = []

    def machine(jobs: list[str], *, limit_s: float, **_: object) -> tuple[xen_guests.Ended, None]:
        limits.append(limit_s)
        return xen_guests.Ended([], []), None

    monkeypatch.setattr(xen_guests, "run", machine)
    monkeypatch.setattr(xen_guests, "frozen_state", lambda *_: None)
    monkeypatch.setattr(components, "path_of", Path)
    more = {"mutants": None, "json": None, "debug": True, "mmu_check": False, "minutes": 5}
    xen_test.run(_arguments(fuzz=1, **more))
    assert limits == [300, 300]
    said = capsys.readouterr().err
    assert "running Xen's guests, machine 1 of 2\n" in said and "done: running Xen's guests, machine 2 of 2 (" in said


def test_a_prefix_of_the_series_runs_guests_of_each_paging(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    outcome = "success"

    def machine(jobs: list[str], *, xen: Path, limit_s: float) -> tuple[xen_guests.Ended, None]:
        asked[:] = jobs
        return xen_guests.Ended([xen_guests.Verdict("test:sizes~hap", outcome)], []), None

    monkeypatch.setattr(xen_guests, "run", machine)
    pagings = []
    for prefix in series.prefixes(series.load(paths.CHECKOUT / "hypervisor/xen/4.20")):
        xen_guests.try_prefix(prefix, Path("/built"))
        pagings.append({" ".join(job.split()[2:]) for job in asked})
    assert pagings[0] == {"hap 0", "shadow none"} and pagings[-1] == {"hap 0", "shadow 0", "shadow 1"}
    outcome = "crash"
    with pytest.raises(AbhError, match="does not run its guests"):
        xen_guests.try_prefix(prefix, Path("/built"))


def test_host_of_the_tests_boots_once_for_each_xen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    booted: list[tuple[float, str | None]] = []

    def freeze(machine: spec.Machine, size: str, parts: emulated.Parts, setup: str, out: Path) -> None:
        booted.append((machine.boot_timeout_s, parts.xen.name if parts.xen else None))
        assert parts.mmu is None and parts.tests is not None

    monkeypatch.setattr(emulated, "freeze", freeze)
    monkeypatch.setattr(components, "path_of", Path)
    monkeypatch.setenv("ABH_CACHE", str(tmp_path))
    states = [xen_guests.frozen_state(Path(each), 600) for each in ("xen-a", "xen-b", "xen-a")]
    assert booted == [(600, "xen-a"), (600, "xen-b")]
    assert states[0] == states[2] != states[1]


def _mutant(shows: str) -> xen_mutants.Mutant:
    told = {"key": "3", "taken": "a flush", "jobs": ("test sizes shadow 1",), "shows": shows}
    return xen_mutants.Mutant.model_validate(told | ({"because": "it is empty"} if shows == "nothing" else {}))


def _ended(outcome: str = "success", stale: int = 0, direct: int = 3) -> xen_guests.Ended:
    checked, counters = {"entries": 7, "stale": stale}, {"direct": direct}
    one = xen_guests.Verdict("test:sizes~shadow-1", outcome, "", checked=checked, counters=counters)
    return xen_guests.Ended([one], ["2 stale"] if stale else [])


@pytest.mark.parametrize(
    ("shows", "ended", "as_said"),
    [
        ("stale", _ended(stale=2), True),
        ("stale", _ended(), False),
        ("stale", _ended("crash", stale=2), False),  # which is for another line to say
        ("failure", _ended("failure"), True),
        ("failure", _ended(stale=2), False),
        ("nothing", _ended(), True),
        ("nothing", _ended(stale=2), False),
        ("nothing", _ended(direct=0), False),
        ("counters", _ended(direct=0), True),
        ("counters", _ended(), False),
        ("counters", _ended("failure", direct=0), False),
    ],
)
def test_whether_a_mutant_shows_as_its_file_says(shows: str, ended: xen_guests.Ended, as_said: bool) -> None:
    seen = xen_mutants.judged(_mutant(shows), ended)
    assert seen.as_said is as_said
    assert "of 7 compared; test:sizes~shadow-1 " in seen.told


def test_each_mutant_is_a_key_of_the_patch_and_its_jobs_are_there() -> None:
    patch = (xen_mutants.FILE.parent / "mutants.patch").read_text()
    mutants = xen_mutants.chosen([])
    assert all(f"'{each.key}'" in patch for each in mutants)
    for job in (job for each in mutants for job in each.jobs):
        kind, name, *_ = job.split()
        assert name in xen_guests.names() and kind in ("test", *xen_guests.MOVED)


def test_mutants_are_named_by_their_keys() -> None:
    assert [each.key for each in xen_mutants.chosen(["3", "1"])] == ["3", "1"]
    with pytest.raises(AbhError, match="no such mutant"):
        xen_mutants.chosen(["x"])


def test_mutant_that_nothing_shows_says_why_and_each_has_a_key(tmp_path: Path) -> None:
    file = tmp_path / "mutants.toml"
    one = '[[mutant]]\nkey = "1"\ntaken = "a flush"\njobs = ["test sizes shadow 1"]\nshows = '
    file.write_text(one + '"nothing"\n')
    with pytest.raises(AbhError, match="because"):
        xen_mutants.chosen([], file)
    file.write_text(one + '"stale"\n' + one + '"failure"\n')
    with pytest.raises(AbhError, match="one key"):
        xen_mutants.chosen([], file)


def test_mutants_fail_the_command_where_one_does_not_show(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from abh import cli

    monkeypatch.setattr(components, "path_of", Path)
    shown = {"1": True, "3": True}

    def tried(mutant: xen_mutants.Mutant, built: Path, limit_s: float) -> xen_mutants.Seen:
        return xen_mutants.Seen(mutant.key, shown[mutant.key], 5, "5 stale")

    monkeypatch.setattr(xen_mutants, "tried", tried)
    assert cli.main(["xen-test", "--mutants", "1", "3"]) == 0
    shown["3"] = False
    assert cli.main(["xen-test", "--mutants", "1", "3"]) == 1
    out, err = capsys.readouterr()
    assert out.count("NOT AS SAID") == 1 and "running Xen's guests on the mutant of key 1" in err
    assert cli.main(["xen-test", "sizes", "--mutants"]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mutants", "--rounds", "3"], "--rounds"),
        (["--mutants", "--debug"], "--debug"),
        (["--mutants", "1", "--mmu-check"], "--mmu-check"),
        (["sizes", "--rounds", "3"], "--rounds without the test linux"),
        (["--fuzz", "5", "--rounds", "3"], "--rounds without the test linux"),
    ],
)
def test_options_that_xen_test_would_ignore_are_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    from abh import cli

    monkeypatch.setattr(components, "path_of", lambda _: pytest.fail("built"))
    assert cli.main(["xen-test", *words]) == Status.USAGE
    assert said in capsys.readouterr().err
