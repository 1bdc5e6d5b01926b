# SPDX-License-Identifier: MIT
"""Figures of policies that are no part of the plain study: ablation and controls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import test_report_matrix as matrix

from abh.bench import spec
from abh.bench.spec import Run
from abh.report import figures, groups
from abh.report.load import load
from abh.report.study import Plan, Study, make_study

ABLATION = figures.load(figures.FIGURES / "ablation.py")
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
    assert study.plan.policies == PLAN.policies, "the study itself is not widened"


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
    assert html.count("<table>") == 3 and html.count('class="out"') == 7
    assert re.findall(r'<th scope="col"[^>]*>([\w-]+)</th>', html) == ["policy", "sqlite"] * 3
    assert "no such difference to mcf" in html
    order = re.findall(r'<th scope="row"><span title="[^"]*">([\w-]+)</span>', html)
    assert order[:6] == ["thp", "abh-none", "abh-only-heap-end", "abh", "abh-no-heap-end", "abh-no-malloc"]


def test_each_mechanism_is_left_out_and_what_is_off_alone_is_off_in_none() -> None:
    known = spec.policies(group="ablation")
    whole = spec.policy("abh")
    switches = [path for path in whole.guest.sysfs if path.startswith("/sys/kernel/mm/abh/") and "enabled" not in path]
    assert len(switches) == 9
    for name, each in known.items():
        assert each.guest.sysfs["/sys/kernel/mm/abh/enabled"] == "always", name
        assert list(each.guest.sysfs)[-1] == "/sys/kernel/mm/abh/enabled", "the switch of all is the last to be set"
        changed = [path for path in switches if each.guest.sysfs[path] != whole.guest.sysfs[path]]
        if name.startswith("abh-no-"):
            assert len(changed) + (each.guest.env != whole.guest.env) == 1, name
    off = {path for path in switches for name, each in known.items() if name.startswith("abh-no-")
           and each.guest.sysfs[path] != whole.guest.sysfs[path]}  # fmt: skip
    assert off == set(switches)
    none = known["abh-none"]
    assert {none.guest.sysfs[path] for path in switches if "threshold" not in path} == {"0", "2048"}
