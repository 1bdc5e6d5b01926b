# SPDX-License-Identifier: MIT
"""The four-check classifier: the kernel's table becomes values, and a run's values become plain words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from abh import cli, paths
from abh.errors import AbhError
from abh.report import figures, study
from abh.schema import result, spec
from abh.schema.result import Value
from abh.study import cell, faults, matrix

RUN = "sqlite@native~thp"
HEADER = "reason heap anon stack file shmem other"
# 5,012 + 30 pages of the heap came before it covered their range; a child wrote to 7 pages after its fork.
COUNTS = {
    "huge": (2, 4, 0, 0, 0, 0),
    "not_anon": (0, 0, 0, 90, 8, 2),
    "not_covered": (5012, 0, 8, 0, 0, 0),
    "pmd_not_empty": (30, 0, 0, 0, 0, 0),
    "cow": (7, 0, 0, 0, 0, 0),
    "other": (0, 1, 0, 0, 0, 0),
    "major": (0, 0, 0, 3, 0, 0),
}
NONE = (0,) * 6
TABLE = [HEADER, *(f"{name} {' '.join(map(str, COUNTS.get(name, NONE)))}" for name in faults.REASONS)]
MINOR = 1 + 6 + 100 + 7 + 5020 + 30


def patches() -> str:
    folder = paths.CHECKOUT / "kernel-patches/6.12/explain"
    return "".join(path.read_text() for path in sorted(folder.glob("*.patch")))


def values(minor: int = MINOR) -> dict[str, Value]:
    return {"minor_faults": Value.of(minor, "faults", "counted"), **faults.values_of(TABLE)}


def made(own: dict[str, Value], outcome: result.Outcome = "success") -> result.Result:
    provenance = result.Provenance(
        commit="c",
        series={},
        components={},
        roots={},
        command="abh run",
        seed=1,
        machine="m",
        when="2026-01-01T00:00:00+00:00",
    )
    return result.Result(
        run=RUN, workload="sqlite", environment="native", policy="thp", size="smoke", outcome=outcome,
        reason=None if outcome == "success" else "why", values=own, provenance=provenance,
    )  # fmt: skip


def test_the_kernel_and_the_bench_know_the_same_reasons_and_regions():
    assert re.findall(r'^\+\t\[THP_FAULT_\w+\]\s*= "(\w+)"', patches(), re.M) == list(faults.REASONS)
    assert f'"{HEADER}\\n"' in patches()
    assert f'"{Path(faults.KNOB).name}"' in patches()


def test_the_kernel_documents_every_reason():
    documented = re.findall(r"\w+", " ".join(re.findall(r"^\+([a-z_]+(?:, [a-z_]+)*)$", patches(), re.M)))
    assert set(faults.REASONS) <= set(documented)


def test_the_table_becomes_values_by_reason_and_region():
    got = {name: value.value for name, value in faults.values_of(TABLE).items()}
    assert got == {f"faults_{name}": 0 for name in faults.REASONS} | {
        "faults_other": 1, "faults_other_anon": 1,
        "faults_major": 3, "faults_major_file": 3,
        "faults_huge": 6, "faults_huge_heap": 2, "faults_huge_anon": 4,
        "faults_not_anon": 100, "faults_not_anon_file": 90, "faults_not_anon_shmem": 8, "faults_not_anon_other": 2,
        "faults_cow": 7, "faults_cow_heap": 7,
        "faults_not_covered": 5020, "faults_not_covered_heap": 5012, "faults_not_covered_stack": 8,
        "faults_pmd_not_empty": 30, "faults_pmd_not_empty_heap": 30,
    }  # fmt: skip
    assert {(value.unit, value.kind) for value in faults.values_of(TABLE).values()} == {("faults", "counted")}


def test_no_table_means_no_values():
    assert faults.values_of([]) == {}
    assert not faults.explained({})


@pytest.mark.parametrize(
    "line",
    ["huge", "huge 1 2 3", "huge 1 2 3 4 5 x", "huge -1 0 0 0 0 0", "huge \u0663 0 0 0 0 0", "huger 0 0 0 0 0 0", ""],
)
def test_a_line_that_is_not_one_of_the_table_is_an_error(line):
    with pytest.raises(AbhError, match="a line that the bench does not know") as caught:
        faults.values_of([HEADER, line])
    assert caught.value.got == line


def test_a_line_that_comes_twice_is_an_error():
    with pytest.raises(AbhError, match="a line that the bench does not know"):
        faults.values_of([*TABLE, TABLE[1]])


def test_another_kernel_s_columns_are_an_error():
    with pytest.raises(AbhError, match="not as expected"):
        faults.values_of(["reason heap file", "huge 0 0"])


def test_a_table_that_is_cut_short_is_an_error():
    with pytest.raises(AbhError, match="cut short") as caught:
        faults.values_of(TABLE[:-1])
    assert caught.value.expected == "a line major"


def test_of_a_guest_that_died_the_table_is_not_asked_for():
    said = cell.listen(["ABH value minor_faults 5164", *(f"ABH faults {line}" for line in TABLE[:4])])
    assert not faults.explained(cell.values_of(cell.Cell.of(RUN, "smoke"), said, ""))


def test_every_minor_fault_is_explained_once():
    assert faults.unexplained(values()) == 0
    assert faults.unexplained(values(MINOR + 2)) == 2
    assert "2 of them are in no row" in faults.explain(made(values(MINOR + 2)))


def test_the_table_says_which_check_failed_where_and_how_often():
    lines = faults.explain(made(values())).splitlines()
    assert lines[0] == "Why each page fault of sqlite@native~thp (smoke) got a hugepage or not (counted)"
    rows = [line.split() for line in lines[3 : lines.index("", 3)]]
    assert rows == [
        ["not_covered", "3", "covered", "5020", "97.2%", "5012", "-", "8", "-", "-", "-"],
        ["not_anon", "2", "anonymous", "100", "1.9%", "-", "-", "-", "90", "8", "2"],
        ["pmd_not_empty", "4", "PMD", "empty", "30", "0.6%", "30", "-", "-", "-", "-", "-"],
        ["cow", "a", "page", "is", "there", "7", "0.1%", "7", "-", "-", "-", "-", "-"],
        ["huge", "got", "one", "6", "0.1%", "2", "4", "-", "-", "-", "-"],
        ["major", "waited", "3", "-", "-", "-", "3", "-", "-"],
        ["other", "a", "page", "is", "there", "1", "0.0%", "-", "1", "-", "-", "-", "-"],
        ["minor", "faults", str(MINOR)],
    ]


def test_each_reason_that_occurs_has_one_sentence_and_no_other_has():
    text = faults.explain(made(values()))
    sentences = text.split("\n\n")[2].splitlines()
    assert [line.partition(":")[0] for line in sentences] == [
        "not_covered", "not_anon", "pmd_not_empty", "cow", "huge", "major", "other",
    ]  # fmt: skip
    assert sentences[0] == (
        "not_covered: The 2 MB range around the address was not wholly inside the mapping. "
        "Cure: mappings that start and end, and a heap that ends, on 2 MB boundaries (ABH)."
    )
    assert all(len(line) <= 110 for line in text.split("\n\n")[1].splitlines())


def test_a_result_without_reasons_says_what_is_missing():
    assert "no reasons were counted" in faults.explain(made({}))


def test_the_guest_is_asked_only_if_told_to():
    asked = cell.guest_lines(cell.Cell.of(RUN, "smoke", explain=True)).splitlines()
    assert [line for line in asked if line not in cell.guest_lines(cell.Cell.of(RUN, "smoke"))] == [
        f"set {faults.KNOB} 1"
    ]


def test_what_the_agent_passes_on_becomes_values():
    said = cell.listen(["ABH value minor_faults 5164", *(f"ABH faults {line}" for line in TABLE), "ABH end exit 0"])
    got = cell.values_of(cell.Cell.of(RUN, "smoke"), said, "")
    assert faults.unexplained(got) == 0
    assert (got["faults_not_covered_heap"].value, got["minor_faults"].value) == (5012, MINOR)


# --- abh run --explain --------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch):
    """What cells were run; each gives the table if it was asked to explain."""
    seen: list[cell.Cell] = []

    def run(one: cell.Cell, **_: object) -> result.Result:
        seen.append(one)
        return made(values() if one.explain else {"minor_faults": Value.of(MINOR, "faults", "counted")})

    monkeypatch.setattr(cell, "run", run)
    monkeypatch.setattr(matrix, "fingerprint", lambda one: f"{one.run} {one.size}")
    return seen


def run(*words: object) -> int:
    args = cli.parse(["run", RUN, *map(str, words)])
    return int(args.run(args))


def test_a_result_that_has_the_answer_is_not_run_again(asked, tmp_path, capsys):
    assert run("--results", tmp_path, "--explain") == 0
    first = capsys.readouterr().out
    assert run("--results", tmp_path, "--explain") == 0
    assert len(asked) == 1
    assert "not_covered    3 covered" in first
    assert first.endswith(capsys.readouterr().out)


def test_a_result_without_the_answer_or_of_another_size_is_run_again(asked, tmp_path):
    run("--results", tmp_path)
    run("--results", tmp_path, "--explain")
    run("--results", tmp_path, "--explain", "--size", "paper")
    assert [(one.explain, one.size) for one in asked] == [(False, "smoke"), (True, "smoke"), (True, "paper")]


def test_a_study_does_not_take_an_explained_run_for_its_own(asked, tmp_path):
    run("--results", tmp_path)
    plain = (tmp_path / f"{RUN}.json").read_text()
    run("--results", tmp_path, "--explain")
    assert (tmp_path / f"{RUN}.json").read_text() == plain, "counting costs instructions"
    assert faults.explained(result.read(tmp_path / "explained" / f"{RUN}.json").values)


def test_without_the_option_a_run_is_as_it_was(asked, tmp_path, capsys):
    run("--results", tmp_path)
    assert "Why" not in capsys.readouterr().out
    assert not asked[0].explain


# --- the figure ---------------------------------------------------------------------------------------------------


@pytest.fixture(name="figure")
def _figure() -> figures.Figure:
    return next(each for each in figures.find() if each.name == "why_not_huge")


def study_of(folder: Path, *results: result.Result) -> study.Study:
    return study.make_study(study.Plan(), {spec.Run.parse(each.run): each for each in results}, folder)


def test_the_figure_shows_the_runs_that_were_asked(figure, tmp_path):
    plain = made({"minor_faults": Value.of(MINOR, "faults", "counted")})
    result.write(made(values()), tmp_path / "explained" / f"{RUN}.json")
    whole = study_of(tmp_path, plain)
    html = str(figure.render(whole))
    assert html.count('<th scope="row">') == 1
    heads = "huge not_anon not_covered pmd_not_empty cow other".split()
    assert re.findall(r'title="[^"]+">(\w+)', html) == heads
    assert re.findall(r'<td class="num">([^<]+)', html) == ["0.1%", "1.9%", "97.2%", "0.6%", "0.1%", "0.019%"]
    rows = {row["name"]: row["value"] for row in figure.table(whole)}
    assert rows["faults_not_covered_heap"] == 5012 and len(rows) == len(faults.values_of(TABLE))


def test_the_figure_says_how_to_ask_if_nobody_did(figure, tmp_path):
    whole = study_of(tmp_path, made({"minor_faults": Value.of(MINOR, "faults", "counted")}))
    assert "--explain" in str(figure.render(whole)) and "<table" not in str(figure.render(whole))
    assert figure.table(whole) == []
