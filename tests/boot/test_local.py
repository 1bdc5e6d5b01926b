# SPDX-License-Identifier: MIT
"""Guests without the emulated machine around them, as `--machine local` starts them: here on TCG instead of KVM."""

from abh.study import cell, local


def test_a_probe_guest_boots():
    assert local.why_not("tcg") is None


def test_a_cell_counts_as_in_the_emulated_machine():
    name = "sqlite@kvm-hap~thp"
    there = cell.run(cell.Cell.of(name, "smoke"))
    here = local.run(cell.Cell.of(name, "smoke"), "tcg")
    assert here.outcome == there.outcome == "success"
    assert abs(here.values["minor_faults"].value - there.values["minor_faults"].value) < 200
    assert here.values["huge_faults"] == there.values["huge_faults"]
    assert here.values["elapsed"].kind == "measured" and here.values["instructions"].value is None
    assert "--machine local" in here.provenance.command


def test_a_guest_that_hangs_is_a_crash(monkeypatch):
    monkeypatch.setitem(cell.LIMIT_S, "smoke", 1.0)
    result = local.run(cell.Cell.of("sqlite@kvm-hap~thp", "smoke"), "tcg")
    assert result.outcome == "crash" and "no end within 1 s" in result.reason
