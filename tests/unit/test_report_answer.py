# SPDX-License-Identifier: MIT
"""What ABH changes: pairs of like with like, medians and ranges that are theirs, and words that say no more."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import test_report_matrix as matrix

from abh.errors import AbhError
from abh.files import write_csv
from abh.report import answer, figures, mixed, scale, svg
from abh.report.load import load
from abh.report.study import Number, Plan, Study, make_study

FIGURE = figures.load(figures.FIGURES / "what_abh_changes.py")
PLAN = Plan(("sqlite", "mcf", "cc1"), ("native", "kvm-shadow", "xen-pv"), ("reg", "thp", "abh"))
UNITS = {"alloc_ratio": "ratio", "rss_peak_kib": "KiB", "vm_exits": "exits", "walk_cycles": "cycles"}


def put(folder: Path, run: str, size: str = "smoke", kind: str = "counted", **values: float | None) -> Path:
    """A result with these values; None is one that nobody has."""
    workload, environment, policy = run.replace("~", "@").split("@")
    data = matrix.result(workload, "native", "thp-paper") | {"run": run, "environment": environment, "policy": policy}
    data |= {"size": size, "outcome": "success", "reason": None}
    data["values"] = {}
    for name, value in values.items():
        data["values"][name] = {"value": value, "unit": UNITS.get(name, "count"), "kind": kind}
        if value is None:
            data["values"][name]["reason"] = "no counter"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run}.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def read(folder: Path) -> Study:
    return make_study(PLAN, load(folder), folder)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    for workload, stock, abh, faults in (("sqlite", 0.0, 0.9, 100), ("mcf", 0.5, 0.96, 500), ("cc1", 0.2, 1.0, 50)):
        for environment, exits in (("native", None), ("kvm-shadow", 4000)):
            more = {"rss_peak_kib": 1000, "vm_exits": exits}
            put(tmp_path, f"{workload}@{environment}~thp", alloc_ratio=stock, minor_faults=1000, **more)
            more = {"rss_peak_kib": 1020, "vm_exits": exits and 1000}
            put(tmp_path, f"{workload}@{environment}~abh", alloc_ratio=abh, minor_faults=faults, **more)
        for policy in ("thp", "abh"):
            put(tmp_path, f"{workload}@xen-pv~{policy}", alloc_ratio=0.0, minor_faults=1000, rss_peak_kib=1000)
    return tmp_path


def rows(folder: Path) -> dict[tuple[object, ...], dict[str, object]]:
    return {(row["quantity"], row["environment"], row["of"]): dict(row) for row in FIGURE.table(read(folder))}


def test_medians_and_ranges_are_those_of_the_workloads(folder: Path) -> None:
    found = rows(folder)
    for of, value, low, high in (("thp", 0.2, 0.0, 0.5), ("abh", 0.96, 0.9, 1.0), ("change", 0.8, 0.46, 0.9)):
        row = found["alloc_ratio", "native", of]
        assert (row["value"], row["low"], row["high"]) == tuple(map(pytest.approx, (value, low, high)))
        assert (row["kind"], row["workloads"], row["planned"]) == ("counted", 3, 3)
    change = found["minor_faults", "kvm-shadow", "change"]
    assert (change["value"], change["low"], change["high"]) == tuple(map(pytest.approx, (-0.9, -0.95, -0.5)))
    exits = found["vm_exits", "native", "abh"]
    assert (exits["value"], exits["reason"], exits["workloads"]) == (None, "no counter", 0), "missing is no zero"


def test_the_words_are_computed(folder: Path) -> None:
    first, second = answer.words(read(folder))
    assert first == (
        "With abh 96.0% of the memory that programs get in page faults is hugepages, with thp 20.0%; page faults "
        "fall by 90.0%; peak memory grows by 2.0% (medians over 3 workloads in each of 2 environments); VM exits fall "
        "by 75.0% (medians over 3 workloads in kvm-shadow)."
    )
    assert second == "No hugepage under either policy in xen-pv."
    put(folder, "sqlite@kvm-shadow~abh", alloc_ratio=0.9, minor_faults=1100, rss_peak_kib=900, vm_exits=8000)
    put(folder, "mcf@kvm-shadow~abh", alloc_ratio=0.9, minor_faults=1200, rss_peak_kib=900, vm_exits=8000)
    first, *_ = answer.words(read(folder))
    assert "page faults change by -90.0% to +10.0%" in first and "peak memory changes by -10.0% to +2.0%" in first
    assert "VM exits grow by 100.0%" in first and "90.0% to 96.0% of the memory" in first


def test_only_pairs_of_like_with_like_count(folder: Path) -> None:
    put(folder, "sqlite@native~abh", "paper", alloc_ratio=0.1, minor_faults=1)
    path = put(folder, "mcf@native~thp", alloc_ratio=0.5, minor_faults=1000)
    data = json.loads(path.read_text()) | {"outcome": "crash", "reason": "no console", "values": {}}
    path.write_text(json.dumps(data))
    row = rows(folder)["alloc_ratio", "native", "abh"]
    assert (row["value"], row["workloads"], row["planned"]) == (1.0, 1, 3), "cc1 alone"
    assert "1 to 3 of 3 workloads" in answer.words(read(folder))[0]
    path = put(folder, "cc1@native~abh", kind="emulated", alloc_ratio=1.0)
    with pytest.raises(AbhError, match="share one axis"):
        FIGURE.table(read(folder))


def test_without_both_policies_it_says_what_to_run(tmp_path: Path) -> None:
    put(tmp_path, "sqlite@native~thp", alloc_ratio=0.5)
    study = read(tmp_path)
    assert FIGURE.table(study) == [] and answer.words(study) == [] and FIGURE.chart(study) is None
    assert "<code>bin/abh study --policy thp --policy abh</code> runs them" in FIGURE.render(study)


def test_walks_are_the_models_in_a_panel_of_their_own(folder: Path) -> None:
    assert "make mmu" in FIGURE.render(read(folder))
    for policy, cycles in (("thp", 1000), ("abh", 250)):
        put(folder / "mmu/zen2", f"sqlite@kvm-shadow~{policy}", kind="modelled", walk_cycles=cycles)
    study = read(folder)
    assert answer.words(study)[-1] == "As the model of zen2 counts them, cycles of page walks fall by 75.0%."
    row = rows(folder)["walk_cycles", "kvm-shadow", "change"]
    assert (row["cpu"], row["value"], row["kind"]) == ("zen2", -0.75, "modelled")
    drawn = FIGURE.chart(study)
    assert drawn and [(panel.title.split(",")[0], panel.note) for panel in drawn.panels] == [
        ("Alloc.Ratio", "counted"), ("Page faults", "counted"), ("Peak memory", "counted"), ("VM exits", "counted"),
        ("Cycles of page walks", "modelled"),
    ]  # fmt: skip
    html = str(FIGURE.render(study))
    assert html.count('<svg class="chart"') == 5 and "make mmu" not in html
    assert html.count("<caption>") == 5 and "Cycles of page walks, zen2, modelled" in html


def test_the_picture_has_the_numbers(folder: Path) -> None:
    drawn = FIGURE.chart(read(folder))
    assert drawn
    ratio, faults, memory, exits = drawn.panels
    assert [name for name, _ in ratio.lines] == ["native", "kvm-shadow", "xen-pv"]
    assert [len(marks) for _, marks in ratio.lines] == [2, 2, 2]
    assert faults.lines[0][1][0].value == Number(pytest.approx(0.1), "ratio", "counted", None, pytest.approx(0.05), 0.5)
    assert (faults.base, memory.base, faults.scale.log) == (1.0, 0.0, True)
    text = svg.standalone(drawn)
    assert "20.0% \N{RIGHTWARDS ARROW} 96.0%" in text and "+2.0%" in text
    native = str(svg.panel(exits))
    assert native.count(">n/a<") == 2, "no exits natively and under para-virt"


def test_a_table_of_rows_with_other_columns_is_whole(tmp_path: Path) -> None:
    write_csv(tmp_path / "x.csv", [{"a": 1}, {"b": 2}])
    assert list(csv.DictReader(io.StringIO((tmp_path / "x.csv").read_text()))) == [
        {"a": "1", "b": "n/a"}, {"a": "n/a", "b": "2"},
    ]  # fmt: skip


# --- axes -------------------------------------------------------------------------------------------------------


def test_a_logarithmic_axis_has_equal_ratios() -> None:
    axis = scale.logarithmic([3, 700])
    assert (axis.start, axis.end) == (2, 1000)
    assert axis.place(20) - axis.place(2) == pytest.approx(axis.place(200) - axis.place(20))
    assert (axis.place(2), axis.place(1000), axis.place(0), axis.place(10**9)) == (0, 1, 0, 1)
    assert axis.ticks() == (2, 10, 100, 1000) and scale.logarithmic([0.3, 0.9]).ticks() == (0.2, 1)
    assert scale.logarithmic([]).ticks() == (1, 2) and scale.logarithmic([5, 5]).start == 5


def test_an_axis_around_zero_names_it() -> None:
    axis = scale.around_zero([-0.02, 0.19])
    assert axis.ticks() == tuple(map(pytest.approx, (-0.1, 0, 0.1, 0.2))) and axis.place(0) == pytest.approx(1 / 3)
    assert scale.around_zero([]).ticks() == (0, 0.01)
    for ends in ([-0.03, 2.74], [0.19], [-1.0, 1.0], [1e9]):
        assert 2 <= len(scale.around_zero(ends).ticks()) <= 4 and 0 in scale.around_zero(ends).ticks(), ends
    assert scale.linear([7, 3]).ticks() == (0, 3.5, 7) and scale.linear([], 1.0).end == 1


# --- provenance -------------------------------------------------------------------------------------------------


def remade(path: Path, **parts: dict[str, str]) -> None:
    data = json.loads(path.read_text())
    for key, names in parts.items():
        data["provenance"][key] |= names
    path.write_text(json.dumps(data))


def test_results_of_other_parts_are_no_fair_pair(folder: Path) -> None:
    assert mixed.sentences(read(folder)) == []
    remade(folder / "mcf@native~abh.json", roots={"build": "1"}, series={"kernel-patches/6.12": "0", "another": "1"})
    assert mixed.sentences(read(folder)) == [
        "No fair pair: the study's results differ in root build, series kernel-patches/6.12."
    ], "what one result alone names is not compared"


def test_a_group_is_compared_with_what_stands_beside_it(folder: Path) -> None:
    path = put(folder / "ablation", "sqlite@native~abh-none", alloc_ratio=0.1)
    assert mixed.sentences(read(folder)) == []
    remade(path, components={"linux": "6.12.200"})
    assert mixed.sentences(read(folder)) == [
        "No fair pair: the results of policies ablation and those of the study beside them differ in component linux."
    ]
    put(folder / "mmu/zen2", "sqlite@native~thp", walk_cycles=1)
    remade(put(folder / "mmu/zen2", "sqlite@native~abh", walk_cycles=1), roots={"build": "1"})
    assert mixed.sentences(read(folder))[1] == "No fair pair: the results with the model of zen2 differ in root build."
