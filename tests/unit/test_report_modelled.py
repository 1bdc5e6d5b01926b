# SPDX-License-Identifier: MIT
"""Figures of runs with the MMU model: the right runs, the right shares, and words where there are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import test_report_matrix as matrix

from abh.report import figures, modelled
from abh.report.load import load
from abh.report.study import Study, make_study
from abh.schema.spec import Run

FIGURES = {
    name: figures.load(figures.FIGURES / f"{name}.py")
    for name in ("abh_prose", "organisations", "page_sizes", "tlb_misses", "tlb_sweep", "walk_cycles", "walk_share")
}
COUNTED = {
    "guest_user_tlb_misses": (20, "misses"),
    "guest_user_accesses": (1000, "accesses"),
    "guest_user_walk_cycles": (1500, "cycles"),
    "guest_user_walk_refs": (90, "references"),
    "walks_completed": (40, "walks"),
}


def write(folder: Path, environment: str, policy: str, **more: int) -> None:
    """One result with the model's values."""
    made = matrix.result("sqlite", environment, "reg") | {"policy": policy, "run": f"sqlite@{environment}~{policy}"}
    counted = COUNTED | {name: (number, "walks") for name, number in more.items()}
    for name, (number, unit) in counted.items():
        made["values"][name] = {"value": number, "unit": unit, "kind": "modelled"}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"sqlite@{environment}~{policy}.json").write_text(json.dumps(made))


@pytest.fixture(name="study")
def _study(tmp_path: Path) -> Study:
    matrix.write(tmp_path)
    write(tmp_path / "mmu/zen2", "native", "reg", fills_flat_4k=40)
    write(tmp_path / "mmu/zen2", "kvm-hap", "thp", fills_2m_2m=30, fills_2m_4k=10)
    write(tmp_path / "mmu/i7-3770", "native", "thp", fills_flat_2m=40)
    return make_study(matrix.PLAN, load(tmp_path), tmp_path)


def test_each_processor_has_the_runs_that_were_made_on_it(study: Study, tmp_path: Path) -> None:
    found = modelled.studies(study)
    assert list(found) == ["i7-3770", "zen2"]
    assert found["zen2"].plan.workloads == ("sqlite",)
    assert found["zen2"].plan.policies == study.plan.policies, "marks stay those of the whole plan"
    assert modelled.policies(found["zen2"]) == ("reg", "thp")
    write(tmp_path / "mmu/zen2", "native", "abh-no-offset")
    found = modelled.studies(study)
    assert modelled.policies(found["zen2"]) == ("reg", "thp"), "a policy that is no part of the study has no column"
    assert Run("sqlite", "native", "abh-no-offset") in found["zen2"].results


@pytest.mark.parametrize(("name", "share", "unit"), [
    ("tlb_misses", 0.02, "misses per accesses"), ("walk_cycles", 1.5, "cycles per accesses"),
])  # fmt: skip
def test_the_programs_own_accesses_are_what_a_number_is_of(study: Study, name: str, share: float, unit: str) -> None:
    rows = FIGURES[name].table(study)
    assert [(row["cpu"], row["environment"]) for row in rows] == [
        ("i7-3770", "native"), ("zen2", "native"), ("zen2", "kvm-hap"),
    ]  # fmt: skip
    assert {(row["value"], row["unit"], row["kind"]) for row in rows} == {(share, unit, "modelled")}
    html = str(FIGURES[name].render(study))
    assert html.count('<div class="panel">') == 2 and "<h4>zen2</h4>" in html
    assert "not run" in html, "a run that is missing beside others says so"


def test_page_sizes_are_shares_of_the_walks(study: Study) -> None:
    rows = FIGURES["page_sizes"].table(study)
    assert [(row["cpu"], row["policy"], row["pages"], row["value"]) for row in rows] == [
        ("i7-3770", "thp", "2m", 40), ("zen2", "reg", "4k", 40), ("zen2", "thp", "2m × 4k", 10),
        ("zen2", "thp", "2m × 2m", 30),
    ]  # fmt: skip
    html = str(FIGURES["page_sizes"].render(study))
    assert "75.0%" in html and "25.0%" in html and "1g" not in html


def test_the_walks_share_is_shown_as_the_model_says_it(study: Study, tmp_path: Path) -> None:
    for path in tmp_path.glob("mmu/*/*.json"):
        made = json.loads(path.read_text())
        for end, share in (("low", 0.125), ("high", 0.25)):
            name = f"walk_share_estimate_{end}"
            made["values"][name] = {"value": share, "unit": "ratio (estimate)", "kind": "modelled"}
        path.write_text(json.dumps(made))
    rows = FIGURES["walk_share"].table(study)
    assert [(row["value"], row["high"], row["unit"]) for row in rows] == [(0.125, 0.25, "ratio (estimate)")] * 3
    html = str(FIGURES["walk_share"].render(study))
    assert html.count("12.5%\N{EN DASH}25.0%") == 3
    assert "left:50.00%" in html and "left:100.00%" in html, "a mark at either end"
    assert "estimate" in FIGURES["walk_share"].caption and "estimate" in FIGURES["abh_prose"].caption


def test_a_picture_has_the_panels_of_every_processor(study: Study) -> None:
    drawn = FIGURES["tlb_misses"].chart(study)
    assert drawn and [panel.title for panel in drawn.panels] == ["sqlite, i7-3770", "sqlite, zen2"]
    assert drawn.kinds == "modelled" and {name for _, name in drawn.legend} == {"reg", "thp"}


def test_results_of_the_model_alone_are_shown(study: Study, tmp_path: Path) -> None:
    alone = make_study(matrix.PLAN, {}, tmp_path)
    assert alone.plan.policies == () and "2.0%" in FIGURES["tlb_misses"].render(alone)


def change(study: Study, quantity: str) -> dict[str, object]:
    (row,) = [row for row in FIGURES["abh_prose"].table(study) if row["quantity"] == quantity and row["cpu"] == "zen2"]
    return row


def test_the_papers_numbers_stand_beside_the_same_changes(study: Study, tmp_path: Path) -> None:
    quantity = "page_walk_cycles_change_abh_bound"
    row = change(study, quantity)
    assert (row["reference"], row["modelled_low"], row["reason"]) == (-0.9, None, "sqlite@kvm-hap~abh: not run")
    for policy, cycles in (("thp", 2000), ("abh", 500)):
        write(tmp_path / "mmu/zen2", "kvm-hap", policy, walk_cycles=cycles)
    found = change(study, quantity)
    assert found["modelled_low"] == found["modelled_high"] == -0.75, "no part of the estimate"
    html = str(FIGURES["abh_prose"].render(study))
    assert "-75.0%" in html and "-90.0%" in html and "n/a" in html


@pytest.mark.parametrize("name", FIGURES)
def test_without_the_model_a_figure_says_how_to_have_it(name: str, tmp_path: Path) -> None:
    matrix.write(tmp_path)
    study = make_study(matrix.PLAN, load(tmp_path), tmp_path)
    assert FIGURES[name].table(study) == []
    assert FIGURES[name].command in ("make mmu", "make organisations")
    assert FIGURES[name].command in str(FIGURES[name].render(study))


def test_two_kinds_share_no_axis(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "mmu/zen2/sqlite@native~reg.json"
    made = json.loads(path.read_text())
    made["values"]["guest_user_accesses"]["kind"] = "emulated"
    path.write_text(json.dumps(made))
    with pytest.raises(figures.AbhError, match="share one axis"):
        FIGURES["tlb_misses"].table(study)
    assert Run("sqlite", "native", "reg") in study.results


def test_a_sweep_is_a_row_for_each_processor_and_size(study: Study, tmp_path: Path) -> None:
    def replay(cpu: str, misses: int, entries: int | None = None) -> dict[str, object]:
        counted = {"guest_user": {"tlb_misses": misses, "accesses": 1000}}
        return {"cpu": cpu, "sweep": entries and {"tlb": "stlb", "entries": entries}, "counters": {"layers": counted}}

    replays = {"reg": [replay("zen2", 10), replay("zen2", 300, 128)], "thp": [replay("zen2", 20)]}
    for policy, each in replays.items():
        path = tmp_path / f"mmu/sweep/mcf@native~{policy}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"run": path.stem, "fingerprint": "", "replays": each}))
    rows = FIGURES["tlb_sweep"].table(study)
    assert [(row["run"], row["tlb"], row["value"]) for row in rows] == [
        ("mcf@native~reg", "as it is", 0.01), ("mcf@native~reg", "stlb of 128", 0.3),
        ("mcf@native~thp", "as it is", 0.02),
    ]  # fmt: skip
    html = str(FIGURES["tlb_sweep"].render(study))
    assert "zen2, stlb of 128" in html and "30.0%" in html and "not replayed" in html


def test_an_organisation_is_a_row_on_each_machine(study: Study, tmp_path: Path) -> None:
    def replay(name: str, refills: int, pages: int) -> dict[str, object]:
        counted = {"loads": 600, "stores": 300, "fetches": 100, "refills": refills, "refill_cycles": 37 * refills,
                   "table_loads_user_l1": 2 * refills, "table_loads_root_memory": refills}  # fmt: skip
        counters = {"layers": {"total": counted}, "table": {"bytes": 4000, "pages_mapped": pages}}
        more = {"counters": counters, "batch": "", "swept": {}, "warm": False, "fetches": "pages"}
        return {"organisation": name, "machine": "r4700", "superpages": name == "mpt", **more}

    path = tmp_path / "mmu/organisations/mcf@native~thp.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    replays = [replay("g16", 20, 100), replay("mpt", 0, 0)]
    path.write_text(json.dumps({"run": path.stem, "fingerprint": "", "replays": replays}))
    table = FIGURES["organisations"].table(study)
    rows = {(row["organisation"], row["machine"], row["quantity"]): row for row in table}
    values = [row["value"] for (name, *_), row in rows.items() if name == "g16"]
    assert values == [20.0, 37.0, 3.0, 40.0] and {row["kind"] for row in rows.values()} == {"modelled"}
    assert [row["value"] for (name, *_), row in rows.items() if name == "mpt"] == [0.0, None, None, None]
    html = str(FIGURES["organisations"].render(study))
    assert "37.00" in html and "r4700, large pages" in html and "nothing was refilled" in html
