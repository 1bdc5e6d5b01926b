# SPDX-License-Identifier: MIT
"""What was measured on real hosts stands in the report, of one kind in each table, with what is wrong with it."""

import pytest

from abh import paths
from abh.collect.session import FOLDER
from abh.report import figures, measured, study
from abh.report.measured import Quantity
from abh.schema.measured import Measure, Measured
from abh.schema.result import Provenance, write_json

FIGURE = figures.load(paths.CHECKOUT / "analysis" / "figures" / "measured.py")
PROVENANCE = Provenance(
    commit="c", series={}, components={"linux": "6.12", "perf": "6.12"}, roots={}, command="abh collect -- <b>",
    seed=1, machine="a Skylake", when="2026-01-31T12:00:00+00:00",
)  # fmt: skip
LIE = "leaves the part of a walk in the second dimension (EPT) out"


def result(environment="bare-metal", outcome="success", **values):
    return Measured(
        run=f"db@{environment}~thp", workload="db", environment=environment, policy="thp", size="own", outcome=outcome,
        reason=None if outcome == "success" else "exit status 3", values=values, repeats=7, processor="Xeon <Gold>",
        microarchitecture="intel-skylake", provenance=PROVENANCE,
    )  # fmt: skip


def of(tmp_path, *results):
    for each in results:
        write_json(each.model_dump(), tmp_path / FOLDER.name / "host-1" / f"{each.run}.json")
    return study.read_study(tmp_path)


def share(value=0.25, **more):
    return Measure(value=value, unit="ratio", kind="measured", **more)


def test_nothing_measured_says_what_to_do(tmp_path):
    (tmp_path / "local").mkdir()
    (tmp_path / FOLDER.name / "empty").mkdir(parents=True)
    nothing = study.make_study(study.read_plan(), {}, tmp_path)
    assert FIGURE.table(nothing) == [] and "bin/abh collect" in FIGURE.render(nothing)


def test_a_number_is_shown_with_its_interval_and_what_is_wrong_with_it(tmp_path):
    found = of(tmp_path, result(walk_share=share(interval_low=0.2, interval_high=0.3, reason=LIE, runs=7)))
    page = str(FIGURE.render(found))
    assert "25.0%" in page and "[20.0%–30.0%]" in page and LIE in page
    assert "Xeon &lt;Gold&gt;" in page
    (row,) = FIGURE.table(found)
    assert (row["value"], row["interval_low"], row["runs"], row["kind"]) == (0.25, 0.2, 7, "measured")


def test_measured_and_counted_are_in_tables_of_their_own(tmp_path):
    found = of(tmp_path, result(walk_share=share(), minor_faults=Measure(value=700, unit="faults", kind="counted")))
    measured_table, counted_table = str(FIGURE.render(found)).split("</table>")[:2]
    assert "25.0%" in measured_table and "700" not in measured_table
    assert "700" in counted_table and "25.0%" not in counted_table


def test_a_number_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="counted in a table of those measured"):
        one = result(page_faults=Measure(value=7, unit="faults", kind="counted"))
        measured.table("t", "t", [one], [Quantity("page_faults", "faults", "count")], "measured")


def test_na_has_its_reason_and_is_not_zero(tmp_path):
    lost = Measure(value=None, unit="walks", kind="measured", reason="counted 66 % of the time only", runs=0)
    found = of(tmp_path, result(dtlb_load_walks=lost))
    page = str(FIGURE.render(found))
    assert "counted 66 % of the time only" in page and ">0<" not in page


def test_a_program_that_failed_has_no_numbers(tmp_path):
    found = of(tmp_path, result(outcome="failure", walk_share=share()))
    assert "25.0%" not in str(FIGURE.render(found))
    assert [row["value"] for row in FIGURE.table(found)] == [None]


def test_a_virtual_machine_has_other_columns(tmp_path):
    found = of(tmp_path, result("from-host", guest_walk_share=share(0.5)))
    page = str(FIGURE.render(found))
    assert "50.0%" in page and "VM exits" in page and "Alloc.Ratio" not in page


def test_the_report_reads_it_beside_a_study(tmp_path):
    found = of(tmp_path, result(walk_share=share()))
    assert not found.results and len(measured.of(found)["host-1"]) == 1
