# SPDX-License-Identifier: MIT
"""Other organisations of page tables on a real kernel under a real hypervisor: a part of what `make organisations`
replays. Each refill is compared with the kernel's own tables; a single other page makes a replay fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abh.model import mmu, organisations
from abh.study import cell

pytestmark = pytest.mark.claim
PART = 2_000_000  # accesses


@pytest.fixture(name="trace", scope="module")
def _trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    one = cell.Cell.of("sqlite@kvm-hap~reg", "smoke", trace=folder / mmu.TRACE, every_fetch=True)
    result = cell.run(one)
    assert result.outcome == "success", result.reason
    return folder


def _replayed(trace: Path, batch: organisations.Batch) -> dict[str, dict[str, Any]]:
    words = ["organisations", mmu.TRACE, *batch.words, "--first", str(PART)]
    return {each["organisation"]: each["counters"] for each in json.loads(mmu.program(words, trace))}


def test_every_organisation_finds_what_the_kernels_own_tables_say(trace):
    for batch in organisations.BATCHES:
        if not batch.part:  # of one that is also swept
            said = _replayed(trace, batch)
            assert list(said) == list(batch.organisations), batch.name
            for name, counters in said.items():
                total = counters["layers"]["total"]
                assert total["mismatches"] == total["faults"] == 0 < counters["instructions"], name
                assert total["refills"] > 1000 or name == "base", name


def test_a_walk_takes_up_to_24_references_under_a_hypervisor_and_fewer_by_hashed_tables(trace):
    said = _replayed(trace, organisations.Batch(organisations.PROCESSOR, ("radix/radix", "h8192/h8192")))
    most = {name: counters["layers"]["total"]["references_most"] for name, counters in said.items()}
    assert most["radix/radix"] == 24 > 4 * most["h8192/h8192"] / 3


def test_instruction_caches_see_more_than_the_first_fetch_of_a_page(trace):
    said = _replayed(trace, organisations.Batch("jacob-mudge", ("ultrix-48", "base")))
    for counters in said.values():
        total = counters["layers"]["total"]
        assert total["fetches"] > counters["instructions"] / 8, "a line of 16 bytes has few instructions"
        assert total["fetch_refs_l1"] > total["fetch_refs_l2"] > 0
