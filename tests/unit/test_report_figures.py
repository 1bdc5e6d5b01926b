# SPDX-License-Identifier: MIT
"""Every figure script keeps the interface, one kind per axis, and n/a apart from 0; the paper's tables add up."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import test_report_matrix as matrix

from abh.errors import AbhError
from abh.report import figures, reference, svg
from abh.report.load import load
from abh.report.study import Number, Plan, Study, make_study, read_plan
from abh.schema.result import alloc_ratio
from abh.schema.spec import Run

FIGURES = {figure.name: figure for figure in figures.find()}
OVER_MATRIX = ["alloc_ratio", "faults", "host_coverage", "memory", "vm_exits"]


@pytest.fixture(name="study", scope="module")
def _study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return matrix.study(tmp_path_factory.mktemp("measured"))


def test_the_figures_are_found() -> None:
    assert {"abh_tab01", "abh_tab02", "alloc_ratio", "faults", "host_coverage", "memory", "vm_exits"} <= set(FIGURES)


@pytest.mark.parametrize("name", OVER_MATRIX)
def test_a_figure_has_a_line_for_every_cell(name: str, study: Study) -> None:
    rows = FIGURES[name].table(study)
    assert [(row["workload"], row["environment"], row["policy"]) for row in rows] == [
        (run.workload, run.environment, run.policy) for run in study.plan.runs()
    ]
    for row in rows:
        assert (row["value"] is None) == bool(row["reason"]), row


@pytest.mark.parametrize("name", OVER_MATRIX)
def test_na_is_never_zero_in_a_figure(name: str, study: Study) -> None:
    html = str(FIGURES[name].render(study))
    values = {(row["workload"], row["environment"], row["policy"]): row["value"] for row in FIGURES[name].table(study)}
    shown = 0
    for workload, panel in zip(study.plan.workloads, html.split('<div class="panel">')[1:], strict=True):
        policies = re.findall(r"<span>([\w-]+)</span></th>", panel)
        for line in re.findall(r'<tr><th scope="row">.*?</tr>', panel[: panel.index("</table>")]):
            environment = re.findall(r'<th scope="row">([\w-]+)', line)[0]
            cells = re.findall(r'<td class="num">(.*?)</td>', line)
            for policy, cell in zip(policies, cells, strict=True):
                known = values[workload, environment, policy] is not None
                assert cell.startswith("<span") != known, (workload, environment, policy, cell)
                assert known or re.match(r'<span class="na" title="[^"]+">n/a<a', cell)
                shown += 1
            drawn = sum(values[workload, environment, policy] is not None for policy in policies)
            assert line.count('<i class="mark') == drawn, "an unknown number has a mark"
    assert shown >= 96


@pytest.mark.parametrize("name", OVER_MATRIX)
def test_every_note_is_there(name: str, study: Study) -> None:
    html = str(FIGURES[name].render(study))
    links, notes = set(re.findall(r'href="#([^"]+)"', html)), set(re.findall(r'<li id="([^"]+)"', html))
    assert links == notes and notes


@pytest.mark.parametrize(
    ("name", "key"), [("alloc_ratio", "alloc_ratio"), ("memory", "rss_peak_kib"), ("faults", "minor_faults")]
)
def test_a_figure_refuses_two_kinds(name: str, key: str, tmp_path: Path) -> None:
    path = matrix.write(tmp_path) / "mcf@native~thp.json"
    data = json.loads(path.read_text())
    data["values"][key]["kind"] = "emulated"
    path.write_text(json.dumps(data))
    with pytest.raises(AbhError, match="share one axis"):
        FIGURES[name].render(make_study(matrix.PLAN, load(tmp_path)))


def test_hostile_text_is_escaped_in_a_figure(study: Study) -> None:
    html = str(FIGURES["alloc_ratio"].render(study))
    assert "<script" not in html and "&lt;script&gt;" in html and "&#34;quoted&#34;" in html


def test_an_axis_ends_where_its_numbers_do(study: Study) -> None:
    places = [float(place) for place in re.findall(r"left:([\d.]+)%", str(FIGURES["memory"].render(study)))]
    assert min(places) > 0 and max(places) == 100


def test_table_1_is_beside_ours(study: Study) -> None:
    rows = FIGURES["abh_tab01"].table(study)
    keys = [(row["workload"], row["policy"], row["quantity"]) for row in rows]
    assert len(keys) == len(set(keys)) == 4 * 2 * 3
    by_key = dict(zip(keys, rows, strict=True))
    gcc = by_key["cc1", "thp", "alloc_ratio"]
    ours = study.value(Run("cc1", "native", "thp"), "alloc_ratio").value
    assert gcc["reference"] == pytest.approx(0.7444) and gcc["value"] == ours
    assert gcc["ratio"] == pytest.approx(ours / 0.7444)
    minor, huge = (study.value(Run("cc1", "native", "thp"), key).value for key in ("minor_faults", "huge_faults"))
    assert by_key["cc1", "thp", "regular_faults"]["value"] == minor - huge
    xalan = by_key["xalan", "thp", "alloc_ratio"]
    assert (xalan["reference"], xalan["ratio"], xalan["reason"]) == (0, None, "the paper's number is 0")


def test_table_1_without_our_numbers_is_na(tmp_path: Path) -> None:
    run = "cc1@kvm-hap~thp"
    (tmp_path / f"{run}.json").write_text(json.dumps(matrix.result("cc1", "kvm-hap", "thp")))
    plan = Plan(("cc1",), ("native", "kvm-hap"), ("thp",), {"cc1": "no.such"})
    study = make_study(plan, load(tmp_path))
    for row in FIGURES["abh_tab01"].table(study):
        assert (row["reference"], row["value"], row["ratio"], row["reason"]) == (None, None, None, "not run")
    html = str(FIGURES["abh_tab01"].render(study))
    assert "no row no.such" in html and html.count("n/a<a") == 9


def test_table_2_compares_thp_with_reg_and_the_rest_with_thp(study: Study) -> None:
    table = FIGURES["abh_tab02"].table(study)
    rows = {(row["workload"], row["policy"]): row for row in table if row["environment"] == "native"}
    assert len(rows) == 8 * 3 and len(table) == len(list(study.plan.runs()))
    for workload in study.plan.workloads:
        reg, paper, thp = (rows[workload, policy] for policy in study.plan.policies)
        assert (reg["base"], paper["base"], thp["base"]) == ("n/a", "thp", "reg")
        assert thp["extra"] == pytest.approx(thp["value"] / reg["value"] - 1)
        assert paper["extra"] == pytest.approx(paper["value"] / thp["value"] - 1) and paper["extra"] < 0
    ours, papers = str(FIGURES["abh_tab02"].render(study)).split("the paper&#39;s Table 2, MB, reference</caption>")
    assert ours.count('<td class="num">') == 8 * 5 and "over reg" in ours and "over thp" in ours
    assert f"{100 * rows['cc1', 'thp-paper']['extra']:.1f}%" in ours  # type: ignore[operator]
    assert "No run is over the bound." in ours
    assert papers.count('<td class="num">') == 9 * 5 and "753.60" in papers


def over_thp(folder: Path, thp: dict[str, float], **policies: dict[str, float]) -> Study:
    """Native runs of sqlite with these counted values."""
    folder.mkdir(exist_ok=True)
    for policy, values in {"thp": thp, **policies}.items():
        data = matrix.result("sqlite", "native", "thp")
        data |= {"run": f"sqlite@native~{policy.replace('_', '-')}", "policy": policy.replace("_", "-")}
        data["values"] = {name: {"value": value, "unit": "count", "kind": "counted"} for name, value in values.items()}
        (folder / f"{data['run']}.json").write_text(json.dumps(data))
    return make_study(Plan(("sqlite",), ("native",), ("reg", "thp", "thp-paper", "abh")), load(folder), folder)


@pytest.mark.parametrize(
    ("thp", "abh", "told"),
    [
        (10_000, 12_048, ""),
        (10_000, 12_049, "2049 KiB more than thp, over 2048 KiB"),
        (51_199, 53_247, ""),  # just below 50 MiB: two more are no exception
        (51_200, 53_247, "4.0% more than thp, over 3%"),
        (200_000, 205_990, ""),
        (200_000, 206_100, "3.0% more than thp, over 3%"),
        (200_000, 100_000, ""),
    ],
)
def test_table_2_marks_what_abh_takes_over_its_bound(tmp_path: Path, thp: int, abh: int, told: str) -> None:
    figure = FIGURES["abh_tab02"]
    more = {"rss_peak_kib": 3 * thp}  # of a policy that is none of ABH: no bound holds for it
    study = over_thp(tmp_path, {"rss_peak_kib": thp}, abh={"rss_peak_kib": abh}, thp_paper=more)
    rows = {row["policy"]: row["too_much"] for row in figure.table(study)}
    assert (rows["abh"], rows["thp-paper"], rows["thp"]) == (told, "", "")
    html = str(figure.render(study))
    assert html.count('class="out"') == bool(told) and (f"sqlite@native~abh: {told}" in html) == bool(told)


def test_faults_are_those_that_are_saved(tmp_path: Path) -> None:
    study = over_thp(tmp_path, {"minor_faults": 600}, reg={"minor_faults": 1000}, abh={"minor_faults": 20})
    rows = {row["policy"]: row["value"] for row in FIGURES["faults"].table(study)}
    assert (rows["reg"], rows["thp"], rows["abh"]) == (0, pytest.approx(0.4), pytest.approx(0.98))
    html = str(FIGURES["faults"].render(study))
    assert "98.0%" in html and "left:98.00%" in html


def test_aims_are_marked_where_they_are_missed(tmp_path: Path) -> None:
    study = over_thp(tmp_path, {}, abh={"alloc_ratio": 0.98})
    assert {row["reason"] for row in FIGURES["aims"].table(study)} == {"run at size smoke only", "not run"}
    path = tmp_path / "sqlite@native~abh.json"
    for ratio, missed in ((0.98, True), (0.99, False)):
        data = json.loads(path.read_text()) | {"size": "paper"}
        data["values"]["alloc_ratio"]["value"] = ratio
        path.write_text(json.dumps(data))
        study = make_study(study.plan, load(tmp_path), tmp_path)
        (row,) = [row for row in FIGURES["aims"].table(study) if row["value"] is not None]
        assert (row["workload"], row["value"], row["aim"], row["missed"]) == ("sqlite", ratio, 0.99, missed)
        assert ("1.0 points less than 99%" in FIGURES["aims"].render(study)) == missed


def test_aims_are_read_beside_a_study_of_another_size(tmp_path: Path) -> None:
    study = over_thp(tmp_path, {}, abh={"alloc_ratio": 0.5})
    data = json.loads((tmp_path / "sqlite@native~abh.json").read_text()) | {"size": "paper"}
    data["values"]["alloc_ratio"]["value"] = 0.75
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "sqlite@native~abh.json").write_text(json.dumps(data))
    rows = [row for row in FIGURES["aims"].table(study) if row["value"] is not None]
    assert [(row["workload"], row["value"], row["size"]) for row in rows] == [("sqlite", 0.75, "paper")]


def test_more_instructions_than_half_a_percent_are_exceptions(tmp_path: Path) -> None:
    counts = {"abh": 10_051, "abh_kernel": 10_050, "abh_off": 9_000}
    policies = {name: {"instructions": count} for name, count in counts.items()}
    study = over_thp(tmp_path, {"instructions": 10_000}, **policies, thp_paper={"instructions": 20_000})
    rows = {row["policy"]: (row["value"], row["exception"]) for row in FIGURES["instructions"].table(study)}
    assert rows == {
        "abh": (pytest.approx(0.0051), True), "abh-kernel": (pytest.approx(0.005), False),
        "abh-off": (pytest.approx(-0.1), False),
    }  # fmt: skip
    html = str(FIGURES["instructions"].render(study))
    assert html.count('class="out"') == 1 and "1 of 3 runs execute over 0.5% more" in html
    assert "<li>sqlite@native~abh: +0.51%</li>" in html and "-10.00%" in html
    study = over_thp(tmp_path / "calm", {"instructions": 10_000}, abh={"instructions": 10_000})
    assert "None of 1 runs executes over 0.5% more" in FIGURES["instructions"].render(study)


def test_splits_are_shown_where_they_occur(tmp_path: Path) -> None:
    split = {"huge_splits": 0, "huge_pmd_splits": 7}
    study = over_thp(tmp_path, {"huge_splits": 0, "huge_pmd_splits": 0}, abh=split)
    html = str(FIGURES["splits"].render(study))
    assert html.count("<table>") == 1 and "sqlite, mappings split" in html and '<td class="num">7</td>' in html
    rows = {(row["policy"], row["quantity"]): row["value"] for row in FIGURES["splits"].table(study)}
    assert rows["abh", "huge_pmd_splits"] == 7 and rows["thp", "huge_splits"] == 0
    calm = over_thp(tmp_path / "calm", {"huge_splits": 0, "huge_pmd_splits": 0})
    assert "No hugepage was split." in FIGURES["splits"].render(calm)


def test_an_incomplete_script_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "x.py"
    script.write_text("TITLE = CAPTION = ''\nKINDS = ('counted',)\n")
    with pytest.raises(AbhError, match="incomplete") as caught:
        figures.load(script)
    assert "ORDER, table, render" in str(caught.value)
    script.write_text("ORDER = 1\nTITLE = CAPTION = ''\nKINDS = ('timed',)\ntable = render = None\n")
    with pytest.raises(AbhError, match="unknown kind"):
        figures.load(script)
    for order in ("-1", "'first'", "True"):
        script.write_text(f"ORDER = {order}\nTITLE = CAPTION = ''\nKINDS = ('counted',)\ntable = render = None\n")
        with pytest.raises(AbhError, match="has no place"):
            figures.load(script)


def test_figures_stand_in_the_order_of_the_argument(tmp_path: Path) -> None:
    orders = [figure.order for figure in figures.find()]
    assert orders == sorted(set(orders)), "two figures have one place"
    assert figures.find()[0].name == "what_abh_changes"
    for name, order in (("a", 30), ("b", 4)):
        text = f"ORDER = {order}\nTITLE = CAPTION = ''\nKINDS = ('counted',)\ntable = render = None\n"
        (tmp_path / f"{name}.py").write_text(text)
    assert [figure.name for figure in figures.find(tmp_path)] == ["b", "a"]


def test_a_figure_shows_no_kind_that_it_does_not_name(tmp_path: Path) -> None:
    folder = matrix.write_asked(tmp_path)
    study = make_study(matrix.PLAN, load(folder), folder)
    for figure in figures.find():
        kinds = {row["kind"] for row in figure.table(study) if "kind" in row}
        assert kinds <= {*figure.kinds, "n/a"}, figure.name


def test_a_picture_has_one_kind_and_every_number(study: Study) -> None:
    for name in OVER_MATRIX:
        drawn = FIGURES[name].chart(study)
        assert drawn and drawn.kinds == "counted" and len(drawn.panels) == 8, name
        picture = ElementTree.fromstring(svg.standalone(drawn))
        shown = " ".join(text for text in picture.itertext())
        assert all(workload in shown for workload in study.plan.workloads)
    marks = [mark for panel in FIGURES["alloc_ratio"].chart(study).panels for _, line in panel.lines for mark in line]
    values = [row["value"] for row in FIGURES["alloc_ratio"].table(study)]
    assert [mark.value.value for mark in marks] == values


def test_a_range_of_draws_is_shown(tmp_path: Path) -> None:
    path = matrix.write(tmp_path) / "mcf@native~thp.json"
    data = json.loads(path.read_text()) | {"draws": 3}
    data["values"]["alloc_ratio"] |= {"value": 0.5, "low": 0.25, "high": 0.75}
    data["values"]["minor_faults"] |= {"value": 30, "low": 20, "high": 60}
    path.write_text(json.dumps(data))
    study = make_study(matrix.PLAN, load(tmp_path), tmp_path)
    (row,) = [row for row in FIGURES["alloc_ratio"].table(study) if row["draws"] == 3]
    assert (row["value"], row["low"], row["high"]) == (0.5, 0.25, 0.75)
    assert {row["draws"] for row in FIGURES["alloc_ratio"].table(study)} == {1, 3, "n/a"}
    html = str(FIGURES["alloc_ratio"].render(study))
    assert "[25.0%\N{EN DASH}75.0%]" in html and '<i class="bar b2" style="left:25.00%;width:50.00%"' in html
    assert "whisker" in svg.standalone(FIGURES["alloc_ratio"].chart(study))
    reg = study.value(Run("mcf", "native", "reg"), "minor_faults").value
    saved = study.saved(Run("mcf", "native", "thp"), "minor_faults")
    assert (saved.low, saved.value, saved.high) == (1 - 60 / reg, 1 - 30 / reg, 1 - 20 / reg)


def test_what_is_huge_in_both_is_between_bounds(tmp_path: Path) -> None:
    figure = FIGURES["host_coverage"]

    def shown(guest: int, host: int, mapped: int) -> dict[str, object]:
        data = matrix.result("sqlite", "kvm-hap", "thp")
        for name, kib in (("guest_huge_kib", guest), ("host_huge_kib", host), ("host_mapped_kib", mapped)):
            data["values"][name] = {"value": kib, "unit": "KiB", "kind": "counted"}
        (tmp_path / f"{data['run']}.json").write_text(json.dumps(data))
        study = make_study(matrix.PLAN, load(tmp_path), tmp_path)
        (row,) = figure.table(study)
        return row | {"html": str(figure.render(study))}

    row = shown(60, 80, 100)
    assert (row["value"], row["both_at_least"], row["both_at_most"]) == (0.8, pytest.approx(0.4), 0.6)
    assert "40.0% to 60.0%" in row["html"]
    assert (shown(10, 20, 100)["both_at_least"], shown(10, 20, 100)["both_at_most"]) == (0, 0.1)
    assert "more in hugepages than the host had mapped" in shown(120, 80, 100)["html"]


def test_an_older_result_has_no_coverage(tmp_path: Path) -> None:
    data = matrix.result("sqlite", "kvm-hap", "thp")
    del data["values"]["host_mapped_kib"]
    (tmp_path / f"{data['run']}.json").write_text(json.dumps(data))
    study = make_study(matrix.PLAN, load(tmp_path), tmp_path)
    assert "no value `host_mapped_kib`" in FIGURES["host_coverage"].empty(study)
    assert "no value `host_mapped_kib`" in FIGURES["host_coverage"].render(study)


def test_a_script_runs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figures, "read_study", lambda folder: make_study(matrix.PLAN, load(folder)))
    script = figures.FIGURES / "alloc_ratio.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--results", str(tmp_path), "--out", str(tmp_path / "out")])
    assert figures.alone(str(script)) == 1
    assert "make study" in capsys.readouterr().err
    matrix.write(tmp_path)
    assert figures.alone(str(script)) == 0
    with (tmp_path / "out" / "alloc_ratio.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 144
    assert {row["value"] for row in rows if row["reason"]} == {"n/a"}


@pytest.mark.parametrize(
    ("value", "style", "shown"),
    [
        (None, "percent", "n/a"),
        (0, "percent", "0.0%"),
        (0.0922, "percent", "9.2%"),
        (0.000123, "percent", "0.012%"),
        (0.0204, "times", "0.020"),
        (1.5, "times", "1.50"),
        (3404457, "count", "3\u202f404\u202f457"),
        (1536, "mib", "1.5"),
    ],
)
def test_numbers_are_printed(value: float | None, style: str, shown: str) -> None:
    assert figures.number(Number(value, "", ""), style) == shown


def test_the_papers_table_1_adds_up() -> None:
    table = reference.read("abh", "tab01")
    assert len(table) == 13
    for row in table.values():
        regular, huge = int(row["regular_faults"].value), int(row["huge_faults"].value)
        assert regular + huge == row["total_faults"].value
        assert (4 * regular + 2048 * huge) / 1024 == pytest.approx(row["allocated"].value, abs=0.006)
        assert 100 * alloc_ratio(huge, regular).value == pytest.approx(row["alloc_ratio"].value, abs=0.005)


def test_the_papers_table_2_adds_up() -> None:
    table = reference.read("abh", "tab02")
    assert len(table) == 9
    for row in table.values():
        reg, thp, abh = (row[f"memory_{policy}"].value for policy in ("reg", "thp", "abh"))
        assert thp / reg - 1 == pytest.approx(row["extra_thp_over_reg"].value, abs=0.006)
        assert abh / thp - 1 == pytest.approx(row["extra_abh_over_thp"].value, abs=0.006)


def test_reference_rows_say_where_they_are_from() -> None:
    for path in sorted(reference.REFERENCE.glob("*/*.csv")):
        with path.open(newline="") as stream:
            for row in csv.DictReader(stream):
                assert row["unit"] and row["place"], row
                assert row["method"] in ("printed", "computed from printed", "digitised from plot"), row
        assert reference.read(path.parent.name, path.stem)
        assert (path.parent / "SOURCE.toml").is_file()


def test_a_damaged_reference_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "abh"
    folder.mkdir()
    for text in ("row,value\n", "row,quantity,value,unit,place,method\na,b,many,count,Table 1,printed\n"):
        (folder / "t.csv").write_text(text)
        with pytest.raises(AbhError, match="reference table"):
            reference.read("abh", "t", tmp_path)


def test_every_counterpart_is_in_the_papers_table() -> None:
    counterparts = read_plan().counterparts
    assert counterparts
    assert set(counterparts.values()) <= set(reference.read("abh", "tab01"))
