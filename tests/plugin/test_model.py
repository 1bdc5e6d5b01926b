# SPDX-License-Identifier: MIT
"""Bare-metal images that invalidate, and what the MMU model has then forgotten: no less than the manuals say, nor more.

Each touches eight pages, of which four are global, invalidates, and touches them again.
"""

import itertools
import os

import pytest
from programs import ICOUNT, Bench, needed

pytestmark = needed

PAGES = 8
GLOBAL = 4
CPU = "qemu64,+svm,+npt,+flushbyasid,svm-asids=32768,+smep,+smap,+xsave,+xsaveopt"


@pytest.fixture
def regions(tmp_path):
    """Boots an image and gives what the model said of each region; every address is compared with the emulator's."""
    bench = Bench(tmp_path, f"{os.environ['ABH_MODEL']},stack=hvm,cpu=i7-3770,check=on")

    def boot(name: str) -> list[dict]:
        bench.boot(name, *ICOUNT, "-cpu", CPU)
        lines = bench.whole_lines()
        assert [line["check"]["mismatches"] + line["check"]["unchecked"] for line in lines] == [0] * len(lines)
        return lines

    return boot


def layers(line: dict) -> dict:
    return line["counters"]["layers"]


def causes(line: dict) -> dict[str, int]:
    """Invalidations by cause."""
    total = layers(line)["total"]
    return {name.removeprefix("flushes_"): n for name, n in total.items() if name.startswith("flushes_") and n}


def flushes(line: dict) -> tuple[int, int]:
    """Flushes that forgot something, and those that did not."""
    total = layers(line)["total"]
    return total["tlb_flushes"], total["tlb_flushes_empty"]


def misses(line: dict, layer: str) -> int:
    return layers(line)[layer]["tlb_misses_loads"]


def test_a_guest_finds_what_its_asid_has(regions):
    same, other, every, asid, local, empty, reserved = regions("asid")
    assert [misses(line, "guest_kernel") for line in (same, other, every, asid, local, empty, reserved)] == [
        PAGES, 2 * PAGES, 2 * PAGES, 2 * PAGES, 2 * PAGES - GLOBAL, 2 * PAGES, PAGES
    ]  # fmt: skip
    # What is not the guest's is forgotten by TLB_CONTROL 1 only.
    fills = [layers(line)["hypervisor"]["tlb_misses"] for line in (every, asid, local, same)]
    assert fills[0] > fills[1] == fills[2] == fills[3]


def test_what_a_vmrun_invalidates_is_counted_by_its_cause(regions):
    same, other, every, asid, local, _, reserved = regions("asid")
    assert causes(same) == causes(reserved) == {}
    assert causes(other) == {"asid_change": 2}
    assert [causes(line) for line in (every, asid, local)] == [
        {"vmrun_all": 1}, {"vmrun_asid": 1}, {"vmrun_nonglobal": 1}
    ]  # fmt: skip
    assert [flushes(line) for line in (same, other, every, asid, local)] == [(0, 0), (2, 0), (1, 0), (1, 0), (1, 0)]
    assert layers(other)["total"]["abandoned_entries"] >= 2 * PAGES
    assert layers(other)["total"]["flushed_entries"] == 0


def test_a_flush_of_an_asid_that_has_nothing_is_empty(regions):
    empty = regions("asid")[5]
    assert causes(empty) == {"asid_change": 2, "vmrun_asid": 1}
    assert flushes(empty) == (2, 1)


def test_vmruns_are_counted_by_tlb_control(regions):
    controls = [{name: n for name, n in line["tlb_control"].items() if n} for line in regions("asid")]
    assert controls == [
        {"0": 2}, {"0": 3}, {"0": 1, "1": 1}, {"0": 1, "3": 1}, {"0": 1, "7": 1}, {"0": 2, "3": 1},
        {"0": 1, "reserved": 1},
    ]  # fmt: skip


def test_a_missing_flush_is_seen(tmp_path):
    """The emulator forgets at each VMRUN; the model goes on by what the ASID has."""
    bench = Bench(tmp_path, f"{os.environ['ABH_MODEL']},stack=hvm,cpu=i7-3770,check=entries")
    bench.boot("stale", *ICOUNT, "-cpu", CPU)
    said = [{"guests": 0, "entries": 0, "stale": 0, "mismatches": 0}, *(line["check"] for line in bench.whole_lines())]
    same, moved, flushed, taken, given = [
        {name: after[name] - before[name] for name in said[0]} for before, after in itertools.pairwise(said)
    ]
    assert [line["guests"] for line in (same, moved, flushed, taken, given)] == [2] * 5
    # Each level of the TLB has the page.
    assert (moved["stale"], moved["mismatches"]) == (2, 1)
    # Of a right that was taken no access tells, as long as it is not used.
    assert (taken["stale"], taken["mismatches"]) == (2, 0)
    for line in (same, flushed, given):
        assert (line["stale"], line["mismatches"]) == (0, 0)
    assert min(line["entries"] for line in (same, moved, taken, given)) >= PAGES > flushed["entries"] == 0
    told = said[-1]["told"]
    assert len(told) == 5 and sum("the tables say" in line for line in told) == 4


def test_control_registers_flush_what_the_manuals_say(regions):
    """SDM vol. 3, 4.10.4.1. QEMU flushes everything at each of these but the first and the last."""
    nothing, wp, smap, smep_off, smep_on, pge, cr3, cr3_twice, invlpg = regions("control")
    for line in (nothing, wp, smap, smep_off):
        assert (misses(line, "total"), causes(line)) == (PAGES, {})
    assert (misses(smep_on, "total"), causes(smep_on)) == (2 * PAGES, {"control": 1})
    assert (misses(pge, "total"), causes(pge)) == (2 * PAGES, {"control": 2})
    assert (misses(cr3, "total"), causes(cr3)) == (2 * PAGES - GLOBAL, {"cr3": 1})
    assert (misses(cr3_twice, "total"), causes(cr3_twice)) == (2 * PAGES - GLOBAL, {"cr3": 2})
    assert (misses(invlpg, "total"), causes(invlpg)) == (PAGES + 1, {"invlpg": 1})


def test_instructions_that_load_or_store_much_are_seen_whole(regions):
    """Of the image that FXSAVE writes in 32-bit mode: eight x87 and eight SSE registers, in at most 64 bits at once."""
    registers = 8 * 2 + 8 * 2
    seen = [(layers(line)["total"]["loads"], layers(line)["total"]["stores"]) for line in regions("fpu")]
    fxsave, fxrstor, xsave, xrstor, fstpt, fldt, fnsave, frstor, fnstenv, fldenv, fstpl, fldl = seen
    for loads, stores in (fxsave, xsave):
        assert stores >= registers and loads <= 1
    for loads, stores in (fxrstor, xrstor):
        assert loads >= registers and stores == 0
    assert (fstpt, fldt) == ((0, 2), (2, 0))
    assert fnsave[1] >= 8 * 2 and frstor[0] >= 8 * 2
    assert fnstenv[1] > 0 < fldenv[0]
    assert (fstpl, fldl) == ((0, 1), (1, 0))


@pytest.mark.parametrize(("fetches", "recorded"), [("lines", [9, 2, 202, 2, 2, 3]), ("pages", [1, 1, 1, 1, 2, 2])])
def test_a_trace_has_a_fetch_of_each_line_or_of_each_page(tmp_path, fetches, recorded):
    """By a line, and by one more where the block that the mark is in goes on into the region."""
    bench = Bench(tmp_path, f"{os.environ['ABH_MODEL']},stack=hvm,trace={tmp_path}/t,fetches={fetches}")
    bench.boot("lines", *ICOUNT, "-cpu", CPU)
    lines = bench.whole_lines()
    assert [line["trace"]["accesses"] for line in lines] == recorded
    assert [line["not_followed"] for line in lines] == [0] * len(lines)


@pytest.mark.parametrize(
    ("cpu", "asids", "by_asid"),
    [("qemu64,+svm", 16, 0), ("qemu64,+svm,+flushbyasid", 16, 1), ("qemu64,+svm,svm-asids=32768", 32768, 0)],
)
def test_cpuid_says_what_the_processor_has(tmp_path, cpu, asids, by_asid):
    bench = Bench(tmp_path, "")
    bench.boot("cpuid", "-cpu", cpu, plugin=None)
    number, features = bench.console_numbers()
    assert (number, features >> 6 & 1) == (asids, by_asid)


@pytest.mark.parametrize("asids", [0, 1, 65537])
def test_a_number_of_asids_that_cannot_be_is_refused(tmp_path, asids):
    bench = Bench(tmp_path, "")
    done = bench.run(bench.qemu("-cpu", f"qemu64,+svm,svm-asids={asids}", plugin=None))
    assert done.returncode == 1
    assert f"between 2 and 65536 (but is {asids})" in done.stderr
