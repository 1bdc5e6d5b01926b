# SPDX-License-Identifier: MIT
"""Figures of policies that are no part of the plain study: ablation and controls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import test_report_matrix as matrix

from abh.compare import allocators
from abh.report import figures, groups
from abh.report.load import load
from abh.report.study import Plan, Study, make_study
from abh.schema import spec
from abh.schema.spec import Run

ABLATION = figures.load(figures.FIGURES / "ablation.py")
CONTROLS = figures.load(figures.FIGURES / "controls.py")
CONFLICT = figures.load(figures.FIGURES / "set_conflict.py")
PARTS = "/sys/kernel/debug/abh/"  # switches of the kernel series's
PLAN = Plan(("sqlite", "mcf"), ("native",), ("reg", "thp", "abh"))


def put(folder: Path, run: str, size: str = "smoke", **values: float) -> None:
    """A result of this run; the values given are counted."""
    workload, environment, policy = run.replace("~", "@").split("@")
    data: dict[str, Any] = matrix.result(workload, environment, "thp")
    data |= {"run": run, "policy": policy, "size": size, "outcome": "success", "reason": None}
    data["values"] = {name: {"value": value, "unit": "count", "kind": "counted"} for name, value in values.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{run}.json").write_text(json.dumps(data), encoding="utf-8")


def ran(folder: Path, policy: str, ratio: float, faults: int, rss: int, *, workload: str = "sqlite") -> None:
    own = folder if policy in PLAN.policies else folder / "ablation"
    put(own, f"{workload}@native~{policy}", alloc_ratio=ratio, minor_faults=faults, rss_peak_kib=rss)


@pytest.fixture(name="study")
def _study(tmp_path: Path) -> Study:
    ran(tmp_path, "thp", 0.10, 1000, 20000)
    ran(tmp_path, "abh", 0.90, 100, 22000)
    ran(tmp_path, "abh-none", 0.105, 1010, 20000)
    ran(tmp_path, "abh-only-heap-end", 0.30, 990, 20300)
    ran(tmp_path, "abh-no-heap-end", 0.895, 104, 22400)
    ran(tmp_path, "abh-no-malloc", 0.40, 700, 20500)
    for policy in ("thp", "abh", "abh-none", "abh-no-malloc"):
        ran(tmp_path, policy, 0.99, 50, 30000, workload="mcf")
    return make_study(PLAN, load(tmp_path), tmp_path)


def test_nothing_run_says_what_to_run(tmp_path: Path) -> None:
    ran(tmp_path, "thp", 0.1, 1000, 20000)
    study = make_study(PLAN, load(tmp_path), tmp_path)
    assert groups.study_of(study, "ablation", ("thp",)) is None
    assert ABLATION.table(study) == [] and "make ablation" in ABLATION.render(study)


def test_a_group_has_its_own_policies_in_order_beside_the_studys(study: Study) -> None:
    found = groups.study_of(study, "ablation", ("thp", "abh"))
    assert found and found.plan.policies == (
        "thp", "abh", "abh-none", "abh-only-heap-end", "abh-no-heap-end", "abh-no-malloc",
    )  # fmt: skip
    assert found.plan.environments == ("native",) and "policy abh-none" in found.plan.purposes
    assert study.known.policies == PLAN.policies, "the study itself is not widened"


def test_a_result_of_the_study_at_another_size_stays_out(study: Study, tmp_path: Path) -> None:
    put(tmp_path, "sqlite@native~abh", "paper", alloc_ratio=0.99, minor_faults=1, rss_peak_kib=1)
    found = groups.study_of(make_study(PLAN, load(tmp_path), tmp_path), "ablation", ("thp", "abh"))
    assert found and Run("sqlite", "native", "abh") not in found.results
    assert Run("sqlite", "native", "thp") in found.results and Run("mcf", "native", "abh") in found.results


def test_what_makes_a_difference_is_marked(study: Study) -> None:
    rows = {(row["workload"], row["policy"], row["quantity"]): row for row in ABLATION.table(study)}
    marked = {key for key, row in rows.items() if row["differs"]}
    assert marked == {
        ("sqlite", "abh", "alloc_ratio"), ("sqlite", "abh", "minor_faults"), ("sqlite", "abh", "rss_peak_kib"),
        ("sqlite", "abh-only-heap-end", "alloc_ratio"),
        ("sqlite", "abh-no-malloc", "alloc_ratio"), ("sqlite", "abh-no-malloc", "minor_faults"),
        ("sqlite", "abh-no-malloc", "rss_peak_kib"),
    }  # fmt: skip
    assert rows["sqlite", "abh-no-malloc", "alloc_ratio"]["base"] == "abh"
    assert rows["sqlite", "abh-only-heap-end", "alloc_ratio"]["base"] == "abh-none"


def test_the_ablation_is_shown_where_it_differs(study: Study) -> None:
    html = str(ABLATION.render(study))
    assert html.count("<table>") == 3 and html.count('class="differs"') == 7 and 'class="out"' not in html
    assert re.findall(r'<th scope="col"[^>]*>([\w-]+)</th>', html) == ["policy", "sqlite"] * 3
    assert "no such difference to mcf" in html
    order = re.findall(r'<th scope="row"><span title="[^"]*">([\w-]+)</span>', html)
    assert order[:6] == ["thp", "abh-none", "abh-only-heap-end", "abh", "abh-no-heap-end", "abh-no-malloc"]


def test_each_mechanism_is_left_out_and_what_is_off_alone_is_off_in_none() -> None:
    halves = ("abh-kernel", "abh-malloc")
    known = {name: each for name, each in spec.policies(group="ablation").items() if name not in halves}
    whole = spec.policy("abh")
    unused = "/sys/kernel/mm/abh/unused_kib"
    assert {path for path in whole.guest.sysfs if "/abh/" in path} == {unused, "/sys/kernel/mm/abh/enabled"}
    switches = {path for each in known.values() for path in each.guest.sysfs if path.startswith(PARTS)} | {unused}
    assert len(switches) == 12
    off = set()
    for name, each in known.items():
        assert each.guest.sysfs["/sys/kernel/mm/abh/enabled"] == "always", name
        changed = {
            path for path in switches & each.guest.sysfs.keys() if each.guest.sysfs[path] != whole.guest.sysfs.get(path)
        }
        if name.startswith(("abh-no-", "abh-with-")):
            assert len(changed) + (each.guest.env != whole.guest.env) == 1, name
        if name.startswith("abh-no-"):
            off |= changed
    assert off == switches - {f"{PARTS}heap_start"}, "which is off by itself"
    none = known["abh-none"]
    parts = {path: value for path, value in none.guest.sysfs.items() if path.startswith(PARTS)}
    assert len(parts) == 8 and set(parts.values()) == {"0", "2048"}, "all but the thresholds"


# --- controls ---------------------------------------------------------------------------------------------------


def fragmented(folder: Path) -> Study:
    """One workload in guests with memory in one piece and without."""
    for policy, ratio, refused, free in (
        ("thp-paper", 0.0, 0, 300), ("thp", 0.5, 0, 300), ("abh", 0.95, 0, 300),
        ("thp-fragmented", 0.0, 5, 0), ("abh-fragmented", 0.01, 9, 0),
    ):  # fmt: skip
        own = folder / "controls" if policy.endswith("fragmented") else folder
        put(own, f"sqlite@kvm-hap~{policy}", alloc_ratio=ratio, huge_fallbacks=refused, free_hugepages=free)
    put(folder, "mcf@kvm-hap~thp", alloc_ratio=0.1)
    plan = Plan(("sqlite", "mcf"), ("kvm-hap",), ("thp-paper", "thp", "abh"))
    return make_study(plan, load(folder), folder)


def test_a_fragmented_guest_is_beside_one_that_is_not(tmp_path: Path) -> None:
    study = fragmented(tmp_path)
    rows = {(row["policy"], row["quantity"]): row["value"] for row in CONTROLS.table(study)}
    assert len(rows) == 15 and {row["workload"] for row in CONTROLS.table(study)} == {"sqlite"}
    assert (rows["abh", "alloc_ratio"], rows["abh-fragmented", "alloc_ratio"]) == (0.95, 0.01)
    assert (rows["thp-fragmented", "huge_fallbacks"], rows["thp-fragmented", "free_hugepages"]) == (5, 0)
    html = str(CONTROLS.render(study))
    assert html.count("<table>") == 3 and html.count("sqlite@kvm-hap") == 3 and "mcf" not in html
    assert '<td class="num">95.0%</td>' in html and '<td class="num">1.0%</td>' in html


def test_without_a_fragmented_guest_there_are_no_controls(tmp_path: Path) -> None:
    put(tmp_path, "set-conflict@native~abh", congruent=1)
    put(tmp_path / "controls", "set-conflict@native~abh-no-offset", congruent=18)
    study = make_study(PLAN, load(tmp_path), tmp_path)
    assert CONTROLS.table(study) == [] and "make controls" in CONTROLS.render(study)


def test_every_policy_in_a_fragmented_guest_is_its_base_but_for_the_fragments() -> None:
    known = spec.policies(group="controls")
    for name in ("thp", "abh"):
        whole, split = spec.policy(name), known[f"{name}-fragmented"]
        assert split.guest.before and not whole.guest.before
        assert (split.guest.sysfs, split.guest.env) == (whole.guest.sysfs, whole.guest.env)


def test_abh_switched_off_is_beside_stock(tmp_path: Path) -> None:
    off = figures.load(figures.FIGURES / "abh_off.py")
    put(tmp_path, "sqlite@native~thp", alloc_ratio=0.5, minor_faults=1000)
    put(tmp_path, "mcf@native~thp", alloc_ratio=0.1)
    assert off.table(make_study(PLAN, load(tmp_path), tmp_path)) == []
    put(tmp_path / "controls", "sqlite@native~abh-off", alloc_ratio=0.5, minor_faults=1002)
    study = make_study(PLAN, load(tmp_path), tmp_path)
    rows = {(row["workload"], row["policy"], row["quantity"]): row["value"] for row in off.table(study)}
    assert (rows["sqlite", "thp", "minor_faults"], rows["sqlite", "abh-off", "minor_faults"]) == (1000, 1002)
    assert len(rows) == 8 and "mcf" not in off.render(study)


# --- offsets ----------------------------------------------------------------------------------------------------


def data_refs(l1: int, l2: int, l3: int, memory: int) -> dict[str, float]:
    cycles = l1 + 10 * memory
    served = {"data_refs_l1": l1, "data_refs_l2": l2, "data_refs_l3": l3, "data_refs_memory": memory}
    return {**served, "cycles_estimate_low": cycles - l1 // 2, "cycles_estimate_high": cycles}


def conflict(folder: Path, without: dict[str, float]) -> Study:
    put(folder, "set-conflict@native~abh", congruent=1)
    put(folder, "sqlite@native~abh", alloc_ratio=1)
    put(folder / "controls", "set-conflict@native~abh-no-offset", congruent=18)
    put(folder / "mmu/zen2", "set-conflict@native~abh", **data_refs(90, 5, 3, 2))
    put(folder / "mmu/zen2", "set-conflict@native~abh-no-offset", **without)
    return make_study(PLAN, load(folder), folder)


def test_offsets_are_counted_in_chunks_and_in_caches(tmp_path: Path) -> None:
    study = conflict(tmp_path, data_refs(10, 0, 0, 90))
    rows = {(row["cpu"], row["policy"], row["quantity"]): row["value"] for row in CONFLICT.table(study)}
    assert (rows["n/a", "abh", "congruent"], rows["n/a", "abh-no-offset", "congruent"]) == (1, 18)
    assert rows["zen2", "abh", "data_refs_l1"] == pytest.approx(0.9)
    assert rows["zen2", "abh-no-offset", "data_refs_memory"] == pytest.approx(0.9)
    html = str(CONFLICT.render(study))
    assert html.count("<table>") == 2 and "data accesses, zen2" in html
    assert '<td class="num">8.27\N{EN DASH}13.92</td>' in html, "910 cycles over 110, 905 over 65"
    assert html.count("90.0%") == 2 and '<td class="num">18</td>' in html


def test_a_model_without_data_in_its_caches_is_na(tmp_path: Path) -> None:
    study = conflict(tmp_path, data_refs(0, 0, 0, 0))
    rows = {(row["cpu"], row["policy"], row["quantity"]): row for row in CONFLICT.table(study)}
    assert rows["zen2", "abh-no-offset", "data_refs_l1"]["value"] is None
    assert "not told" in str(rows["zen2", "abh-no-offset", "data_refs_l1"]["reason"])


def test_offsets_are_measured_where_the_allocators_were(tmp_path: Path) -> None:
    samples = {
        name: [allocators.Sample(99, 1, 200_000, seconds, seconds)]
        for name, seconds in (("stock", 2.0), ("patched abh=1", 1.0), ("patched abh=1, no offset", 3.0), ("other", 9.0))
    }
    put(tmp_path, "sqlite@native~thp", alloc_ratio=1)
    for workload in ("sqlite", "set-conflict"):
        lines = allocators.summarize(workload, "paper", "always", samples)
        allocators.write(tmp_path / allocators.RESULT, lines)
    study = make_study(PLAN, load(tmp_path), tmp_path)
    rows = CONFLICT.table(study)
    assert [(row["policy"], row["value"], row["kind"]) for row in rows] == [
        ("stock", 1, "measured"), ("patched abh=1", 0.5, "measured"), ("patched abh=1, no offset", 1.5, "measured"),
    ]  # fmt: skip
    assert "1.50 (1.50–1.50)" in CONFLICT.render(study) and "other" not in CONFLICT.render(study)
    assert {name for name in ("patched abh=1", "patched abh=1, no offset")} < {
        each.name for each in allocators.ALLOCATORS
    }


def test_no_offset_is_abh_without_any() -> None:
    whole, without = spec.policy("abh"), spec.policy("abh-no-offset")
    changed = without.guest.sysfs.items() - whole.guest.sysfs.items()
    assert changed == {(f"{PARTS}mmap_offset", "0")}
    assert "abh_offset=0" in without.guest.env["GLIBC_TUNABLES"]
