# SPDX-License-Identifier: MIT
"""The page, the terminal table and the command: whole, escaped, the same every time, and true to the results."""

from __future__ import annotations

import argparse
import html
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
import test_report_matrix as matrix
from rich.console import Console

from abh.commands import report
from abh.errors import AbhError
from abh.report import figures, page, study, summary, terminal
from abh.report.load import load
from abh.report.study import Plan, Study, make_study


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return matrix.study(tmp_path_factory.mktemp("measured"))


@pytest.fixture(name="text", scope="module")
def _text(made: Study) -> str:
    return page.render(made, figures.find())


def one_cell(folder: Path, plan: Plan, **changes: object) -> Study:
    data = {**matrix.result("sqlite", "kvm-hap", "thp"), **changes}
    folder.mkdir(exist_ok=True)
    (folder / f"{data['run']}.json").write_text(json.dumps(data))
    return make_study(plan, load(folder))


class Balance(HTMLParser):
    """Collects tags, and fails on one that is closed out of turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()


def test_the_page_is_well_formed_and_self_contained(text: str) -> None:
    parser = Balance()
    parser.feed(text)
    assert parser.open == []
    ids = [attributes["id"] for _, attributes in parser.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in parser.seen:
        assert tag not in ("script", "img", "iframe", "object", "form"), tag
        assert not any(name.startswith("on") for name in attributes), attributes
        link = attributes.get("href") or attributes.get("src") or ""
        assert link in ("", "data:,") or link[1:] in ids, link
    assert not re.search(r"url\(|@import|https?://", text)


def test_every_figure_of_all_that_can_be_asked_for_has_a_table(tmp_path: Path) -> None:
    folder = matrix.write_asked(tmp_path)
    made = make_study(matrix.PLAN, load(folder), folder)
    for figure in figures.find():
        assert "<table" in figure.render(made) and figure.table(made), figure.name
    parser = Balance()
    parser.feed(page.render(made, figures.find()))
    assert parser.open == []


def test_hostile_text_is_escaped(text: str) -> None:
    assert "<script" not in text
    assert html.escape("<script>alert(1)</script>") in text
    assert "[bold]not markup[/bold]" in text


def test_the_same_results_give_the_same_page(tmp_path: Path, text: str) -> None:
    assert page.render(matrix.study(tmp_path), figures.find()) == text


def test_every_end_and_gap_is_listed_with_its_reason(text: str) -> None:
    failed = text[text.index('id="failed"') : text.index('id="provenance"')]
    for run, (outcome, reason) in matrix.ENDS.items():
        assert f'<span class="tag {outcome}">{outcome}</span> <code>{run}</code>' in failed
        assert str(html.escape(reason.split("\n")[0])) in failed
    for run in matrix.ABSENT:
        assert f"<li><code>{run}</code></li>" in failed
    assert failed.count("<article>") == len(matrix.ENDS)


def test_provenance_is_told(text: str) -> None:
    provenance = text[text.index('id="provenance"') : text.index('id="reading"')]
    for word in ("0123456789abcdef0123456789abcdef01234567", "ab" * 32, "6.12.117-1", "QEMU TCG", "12:59:00"):
        assert word in provenance
    assert "Not one experiment" not in provenance
    assert provenance.count("<code>abh run ") == 141


def test_mixed_experiments_are_a_warning(tmp_path: Path) -> None:
    matrix.write(tmp_path)
    path = tmp_path / "mcf@native~thp.json"
    data = json.loads(path.read_text())
    data["provenance"] |= {"commit": "fedcba98", "machine": "another", "components": {"linux": "6.12.200"}}
    path.write_text(json.dumps(data))
    text = page.render(make_study(matrix.PLAN, load(tmp_path)), [])
    assert "the runs differ in commit, linux. Compare" in text
    assert "No fair pair: the study&#39;s results differ in component linux." in text
    assert "fedcba98" in text and "another" in text and "(140 runs)" in text


def test_a_study_of_one_workload_is_a_small_whole_page(tmp_path: Path) -> None:
    made = one_cell(tmp_path, matrix.PLAN)
    text = page.render(made, figures.find())
    assert "What was run: 1 program, 1 environment, 1 policy. 1 of 1 cells succeeded." in text
    assert "Every cell that ran succeeded." in text and "Every cell of these" in text
    shown = text[text.index('id="figures"') : text.index('id="empty"')]
    assert shown.count('class="na"') == shown.count("sqlite@kvm-hap~") == 0 and "xalan" not in shown
    assert {"Alloc.Ratio", "Host coverage", "VM exits", "Memory"} == set(re.findall(r"<h3>(.*?)</h3>", shown)) - {
        "Splits", "Table 1 beside ours", "The cost in memory",
    }  # fmt: skip
    stream = io.StringIO()
    terminal.show(made, Console(file=stream, width=80, highlight=False))
    assert len(re.findall(r"\bthp\b", stream.getvalue())) == 1 and "n/a" not in stream.getvalue()


def test_a_page_without_any_success(tmp_path: Path) -> None:
    made = one_cell(tmp_path, Plan(), outcome="crash", reason="no console", values={})
    text = page.render(made, figures.find())
    assert "0 of 1 cells succeeded. The rest: 1 crash." in text
    assert "No environment has an Alloc.Ratio" in text and "0.0%" not in text


def test_what_was_not_run_is_one_folded_list_with_its_commands(text: str) -> None:
    found = {figure.title: figure for figure in figures.find()}
    folded = text[text.index('id="empty"') : text.index('id="failed"')]
    titles = [html.unescape(title) for title in re.findall(r"<dt>(.*?)</dt>", folded)]
    assert "Ablation" in titles and "TLB misses" in titles and folded.count("<details>") == 1
    for title in titles:
        assert f"<code>{found[title].command}</code>" in folded
        assert f"<h3>{title}</h3>" not in text, "a figure with nothing to show is no figure"
    shown = [figure.title for figure in found.values() if figure.title not in titles and figure.order >= 10]
    assert re.findall(r"<h3>(.*?)</h3>", text[text.index('id="figures"') : text.index('id="empty"')]) == shown


def test_the_overall_sentence_compares_like_with_like(made: Study) -> None:
    # sqlite, cpython, dedup and tlb-overflow lack one environment each, so the other four are what compares.
    common = sorted(
        made.value(run, "alloc_ratio").value
        for run in summary.runs(made, "native", "thp")
        if run.workload in ("cc1", "xalan", "mcf", "set-conflict")
    )
    short = f"{100 - 50 * (common[1] + common[2]):.1f}%"
    same = "native, kvm-hap, kvm-shadow, xen-hap, xen-shadow"
    assert f"between {short} ({same}) and 100.0% (xen-pv): medians of the 4 workloads" in summary.overall(made)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_terminal_table_fits_and_is_whole(made: Study, width: int) -> None:
    stream = io.StringIO()
    terminal.show(made, Console(file=stream, width=width, highlight=False))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert sum(bool(re.search(r" (reg|thp-paper|thp) +\S", line)) for line in lines) == 144
    table = "".join(line for line in lines if not line.startswith(("[", "console")))
    assert table.count("host huge") == 8
    notes = {int(line[1 : line.index("]")]) for line in lines if re.match(r"\[\d+\] ", line)}
    assert notes == {int(note) for note in re.findall(r"n/a\[(\d+)\]", stream.getvalue())}
    assert "[bold]not markup[/bold]" in " ".join(stream.getvalue().split())


def test_the_terminal_shows_na_not_zero(tmp_path: Path) -> None:
    stream = io.StringIO()
    made = one_cell(tmp_path, Plan(), outcome="crash", reason="no console", values={})
    terminal.show(made, Console(file=stream, width=80, highlight=False))
    (line,) = [line for line in stream.getvalue().splitlines() if "kvm-hap" in line]
    assert line.split() == ["kvm-hap", "thp", "n/a[1]", "n/a[1]", "n/a[1]", "n/a[1]"]
    assert "[1] crash: no console" in stream.getvalue()


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    report.add_arguments(parser)
    return report.run(parser.parse_args(words))


def test_the_command_writes_page_and_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.setattr(study, "read_plan", lambda checkout: matrix.PLAN)
    matrix.write(tmp_path / "measured")
    out = tmp_path / "out"
    assert command("--results", str(tmp_path / "measured"), "--out", str(out)) == 0
    names = {path.name for path in out.iterdir()}
    assert names == {"report.html", "values.csv", *(f"{figure.name}.csv" for figure in figures.find())}
    assert (out / "report.html").read_text() == text
    assert capsys.readouterr().out.splitlines()[-1] == f"Page: {(out / 'report.html').resolve()}"
    lines = (out / "values.csv").read_text()
    assert (
        lines.count("not run") >= 3
        and "sqlite,native,reg,smoke,12.5,n/a,n/a,1,s,emulated,,success,elapsed_s\n" in lines
    )


def test_the_command_writes_pictures_where_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "read_plan", lambda checkout: matrix.PLAN)
    folder = matrix.write_asked(tmp_path / "measured")
    pictures = tmp_path / "pictures"
    assert command("--results", str(folder), "--out", str(tmp_path / "out"), "--svg", str(pictures)) == 0
    names = {path.stem for path in pictures.iterdir()}
    assert names == {"what_abh_changes", "alloc_ratio", "faults", "host_coverage", "vm_exits", "memory",
                     "tlb_misses", "walk_cycles", "walk_share"}  # fmt: skip
    for path in pictures.iterdir():
        picture = ElementTree.parse(path).getroot()
        assert picture.tag == "{http://www.w3.org/2000/svg}svg" and picture.get("viewBox")
        text = path.read_text()
        assert "prefers-color-scheme: dark" in text and "<script" not in text
        assert not re.search(r"url\(|@import|href", text), "nothing from elsewhere"


def test_the_command_without_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "read_plan", lambda checkout: matrix.PLAN)
    with pytest.raises(AbhError, match="no results") as caught:
        command("--results", str(tmp_path), "--out", str(tmp_path / "out"))
    assert "make study" in str(caught.value.next_step)
    assert not (tmp_path / "out").exists()


def test_the_command_refuses_a_file_for_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "read_plan", lambda checkout: matrix.PLAN)
    matrix.write(tmp_path / "measured")
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as caught:
        command("--results", str(tmp_path / "measured"), "--out", str(tmp_path / "file"))
    assert caught.value.code == 2
