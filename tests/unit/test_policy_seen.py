# SPDX-License-Identifier: MIT
"""What is made of evidence: smaps, /sys, KVM's counters and a guest's words, honest and not."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from abh.errors import Status
from abh.policy import explain, guest, host, memory, status, verify
from abh.policy.evidence import Evidence
from abh.policy.memory import HUGE, Range, Unreadable
from abh.schema import spec

UUID = "f0d054c2-febb-4cf0-8b75-1ce0ecc8c436"
BASE = 0x7F0000000000
XML = f"<domain type='{{}}'><name>a</name><uuid>{UUID}</uuid><memory unit='KiB'>{{}}</memory>{{}}</domain>"


def mapping(
    start: int, kib: int, *, path: str = "", flags: str = "rd wr mr mw me ac hg mg", page: int = 4, **numbers
) -> str:
    told = {"Rss": kib, "AnonHugePages": kib, "THPeligible": 1, **numbers}
    lines = "".join(f"{key}: {value:>8}{' kB' if key != 'THPeligible' else ''}\n" for key, value in told.items())
    head = f"{start:x}-{start + (kib << 10):x} rw-p 00000000 00:00 0 {path:>20}\n"
    return f"{head}Size: {kib:>8} kB\nKernelPageSize: {page:>8} kB\n{lines}VmFlags: {flags} \n"


class Machine:
    """A /proc and a /sys of files, with a QEMU that has one guest, and a domain that is it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.proc = folder / "proc"
        self.running = True
        self.attributes: dict[str, str] = {}
        self.kind, self.more, self.kib, self.uri = "kvm", "", 4096, "qemu:///system"
        self.qemu(100)
        self.smaps(mapping(BASE, 4096))
        self.sys("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
        self.sys("sys/kernel/mm/ksm/run", "0")

    def qemu(self, pid: int, uuid: str = UUID) -> None:
        (self.proc / str(pid)).mkdir(parents=True, exist_ok=True)
        (self.proc / str(pid) / "cmdline").write_bytes(b"\0".join([b"qemu", b"-uuid", uuid.encode(), b""]))
        (self.proc / str(pid) / "stat").write_text(f"{pid} (a) b) S " + " ".join(map(str, range(4, 40))))

    def smaps(self, *parts: str) -> None:
        (self.proc / "100/smaps").write_text("".join(parts))

    def sys(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(f"{text}\n")

    def seen(self) -> Evidence:
        tree = ElementTree.fromstring(XML.format(self.kind, self.kib, self.more))
        tree.attrib.update(self.attributes)
        domain = SimpleNamespace(
            uuid=UUID,
            name="a",
            running=self.running,
            connection=SimpleNamespace(getURI=lambda: self.uri),
            tree=lambda live: tree,
        )
        return Evidence(domain, self.proc, self.root)  # type: ignore[arg-type]

    def state(self, setting: str, wanted: object) -> str:
        return verify._answered(verify.CHECKS[setting], wanted, self.seen()).state


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_what_is_so_is_granted_and_what_is_taken_away_is_denied(machine):
    for setting, wanted, taken in (
        ("thp", "advised", mapping(BASE, 4096, THPeligible=0)),
        ("huge_share", 0.9, mapping(BASE, 4096, AnonHugePages=2048)),
        ("alignment_kib", 2048, mapping(BASE + 4096, 4096)),
        ("ksm", False, None),
        ("hugetlb_kib", 2048, None),
    ):
        flags = "rd wr mr mw me ac hg"
        page = 2048 if setting == "hugetlb_kib" else 4
        machine.smaps(mapping(BASE, 4096, flags=flags, page=page, Private_Hugetlb=4096 if page > 4 else 0))
        assert machine.state(setting, wanted) == "granted", setting
        machine.smaps(taken or mapping(BASE, 4096))
        assert machine.state(setting, wanted) == "denied", setting


@pytest.mark.parametrize(
    ("block", "advice"),
    [
        (mapping(BASE + 4096, 4096, path="/memfd:memory-backend-memfd"), "take <source> out"),
        (mapping(BASE + HUGE, 4096), "multiples of 2 MiB"),
        (mapping(BASE + HUGE, 4096, path="/dev/hugepages/a", page=2048), "multiples of 2 MiB"),
    ],
)
def test_what_is_not_aligned_has_an_advice_that_applies(machine, block, advice):
    machine.smaps(block)
    found = verify._answered(verify.CHECKS["alignment_kib"], 1 << 20, machine.seen())
    assert found.state == "denied" and advice in found.next_step


def test_thp_off_is_had_only_where_nothing_is_or_can_be_huge(machine):
    assert machine.state("thp", "off") == "denied"
    machine.smaps(mapping(BASE, 4096, AnonHugePages=0))
    assert machine.state("thp", "off") == "denied"
    machine.smaps(mapping(BASE, 4096, AnonHugePages=0, THPeligible=0))
    assert machine.state("thp", "off") == "granted"


def test_ksm_is_had_only_while_somebody_merges(machine):
    assert machine.state("ksm", True) == "denied"
    machine.sys("sys/kernel/mm/ksm/run", "1")
    assert machine.state("ksm", True) == "granted"


def test_pages_that_kvm_maps_by_4_kib_are_not_huge_for_the_guest(machine):
    for pages_4k, state in ((0, "granted"), (1000, "denied")):
        machine.sys("sys/kernel/debug/kvm/100-12/pages_4k", str(pages_4k))
        machine.sys("sys/kernel/debug/kvm/100-12/pages_2m", "1")
        machine.sys("sys/kernel/debug/kvm/1001-12/pages_4k", "99999999")  # another's
        assert machine.state("huge_share", 0.9) == state


@pytest.mark.parametrize(
    ("maker", "value", "mode"),
    [
        ("amd/parameters/npt", "Y", "hap"),
        ("amd/parameters/npt", "0", "shadow"),
        ("intel/parameters/ept", "N", "shadow"),
    ],
)
def test_kvm_pages_all_guests_as_its_module_says(machine, maker, value, mode):
    assert machine.state("paging", "hap") == "unknown"
    machine.sys(f"sys/module/kvm_{maker}", value)
    assert machine.state("paging", mode) == "granted"
    assert machine.state("paging", {"hap": "shadow", "shadow": "hap"}[mode]) == "denied"
    assert status._paging(machine.seen()) == mode
    machine.kind = "qemu"
    assert machine.state("paging", mode) == "denied" and status._paging(machine.seen()) == "emulated"
    machine.uri = "qemu+unix:///system?socket=/tmp/forwarded/libvirt-sock"
    (machine.proc / "100/cmdline").write_bytes(b"another")  # the VM is on another host: its type says this there, too
    assert machine.state("paging", mode) == "denied" and status._paging(machine.seen()) == "emulated"
    machine.kind = "kvm"  # and of this one, the module of its host, which is not here
    assert status._paging(machine.seen()) is None


def test_what_cannot_be_seen_is_unknown_with_the_reason(machine):
    machine.smaps(mapping(BASE, 8192))
    assert machine.state("thp", "advised") == "unknown"  # no mapping of the guest's size
    machine.smaps(mapping(BASE, 4096, Rss=0, AnonHugePages=0))
    assert machine.state("huge_share", 0.9) == "unknown"  # nothing mapped yet
    machine.qemu(101)
    assert machine.state("thp", "advised") == "unknown"  # two processes claim to be it
    machine.uri = "qemu+ssh://elsewhere/system"
    answer = verify._answered(verify.CHECKS["thp"], "advised", machine.seen())
    assert answer.state == "unknown" and "another host" in answer.evidence
    machine.running = False
    assert machine.state("paging", "hap") == "unknown"


def test_a_process_of_anybodys_that_looks_like_the_vms_is_not_taken_for_it(machine):
    machine.qemu(101)  # of a user, with the same words
    (machine.proc / "101/smaps").write_text(mapping(BASE, 4096))
    assert machine.state("thp", "advised") == "unknown"  # libvirt's note is not there, or hidden
    machine.sys("run/libvirt/qemu/a.pid", "100")
    assert machine.seen().pid == 100 and machine.state("thp", "advised") == "granted"
    machine.qemu(100, "another")  # it has changed its own words: the other one is not taken in its place
    assert machine.state("thp", "advised") == "unknown"
    machine.uri = "qemu:///session"  # whose VM of that name is not the system's
    assert machine.seen().pid == 101


def test_a_local_socket_may_lead_to_another_host_of_which_nothing_is_granted_here(machine):
    machine.sys("sys/module/kvm_amd/parameters/npt", "1")
    machine.uri = "qemu+unix:///system?socket=/tmp/forwarded/libvirt-sock"
    switch = verify._host("/sys/kernel/mm/ksm/run")
    assert machine.state("paging", "hap") == "granted"
    assert verify._answered(switch, "0", machine.seen()).state == "granted"
    (machine.proc / "100/cmdline").write_bytes(b"another")
    assert machine.state("paging", "hap") == "unknown"
    assert verify._answered(switch, "0", machine.seen()).state == "unknown"


def test_collapsing_is_had_where_what_is_touched_is_hugepages_now(machine, monkeypatch):
    """Whatever anybody noted of it: what was made and taken away is denied."""
    machine.kib = 40 * 2048
    machine.smaps(mapping(BASE, machine.kib))
    half, less = memory.AT_LEAST * 4096, (memory.AT_LEAST - 1) * 4096
    for found, state in (
        ([], "unknown"),
        ([Range(BASE, BASE + less)], "unknown"),  # a guest that has touched next to nothing
        ([Range(BASE, BASE + half)], "denied"),
        ([Range(BASE, BASE + HUGE, huge=True), Range(BASE + HUGE, BASE + 2 * HUGE)], "denied"),
        ([Range(BASE, BASE + 35 * HUGE, huge=True), Range(BASE + 35 * HUGE, BASE + 40 * HUGE)], "denied"),
        ([Range(BASE, BASE + 39 * HUGE, huge=True), Range(BASE + 39 * HUGE, BASE + 39 * HUGE + half)], "granted"),
        ([Range(BASE, BASE + 30 * HUGE, huge=True), Range(BASE + 30 * HUGE, BASE + 40 * HUGE)], "denied"),
        ([Range(BASE, BASE + 40 * HUGE, huge=True)], "granted"),
    ):
        monkeypatch.setattr(memory, "ranges", lambda *_, found=found: list(found))
        assert machine.state("collapse", "start") == machine.state("collapse", "request") == state, found


def test_the_switch_of_the_size_counts_and_inherits(machine):
    """Linux 6.8 has one for each size; smaps calls eligible what may have hugepages of any."""
    for own, whole, state in (
        ("always inherit madvise [never]", "always [madvise] never", "denied"),
        ("always [inherit] madvise never", "always [madvise] never", "granted"),
        ("always [inherit] madvise never", "always madvise [never]", "denied"),
        ("always inherit [madvise] never", "always madvise [never]", "granted"),
    ):
        machine.sys(host.THP_2M, own)
        machine.sys(f"{host.THP}/enabled", whole)
        assert machine.state("thp", "advised") == state
        machine.smaps(mapping(BASE, 4096, AnonHugePages=0))
        assert machine.state("thp", "off") == {"denied": "granted", "granted": "denied"}[state]
        assert bool(explain._of_block(machine.seen().blocks[0], machine.seen())) == (state == "denied")
        machine.smaps(mapping(BASE, 4096))


def test_the_hosts_switches_are_looked_at(machine):
    seen = machine.seen()
    seen.agent.gone = guest.NoAgent("there is none")
    found = verify.findings(spec.policy("reg"), seen)
    by = {each.setting: each.answer for each in found}
    enabled = by["host /sys/kernel/mm/transparent_hugepage/enabled"]
    assert enabled.state == "denied" and "is madvise" in enabled.evidence
    assert by["host /sys/kernel/mm/transparent_hugepage/defrag"].state == "denied"


@pytest.mark.parametrize(
    ("states", "strict", "status_"),
    [
        ({"a!": "granted", "b": "denied"}, False, Status.SUCCESS),
        ({"a!": "granted", "b": "denied"}, True, Status.FAILED),
        ({"a!": "unknown"}, False, Status.ERROR),
        ({"a!": "unknown", "b!": "denied"}, False, Status.FAILED),
        ({"b": "unknown"}, True, Status.ERROR),
        ({}, True, Status.SUCCESS),
    ],
)
def test_the_status_is_that_of_what_counts(states, strict, status_):
    found = [verify.Finding(n, 1, n.endswith("!"), verify.Answer(state, "")) for n, state in states.items()]  # type: ignore[arg-type]
    assert verify.status(found, strict=strict) == status_


# --- memory -----------------------------------------------------------------------------------------------------


def test_the_guests_memory_is_found_among_others_and_where_it_is_split(machine):
    parts = [
        mapping(BASE - (2048 << 10), 2048),  # touches it
        mapping(BASE, 1024, AnonHugePages=0),
        mapping(BASE + (1024 << 10), 3072, AnonHugePages=2048, flags="rd wr"),
        mapping(BASE + (4096 << 10), 64),
        mapping(BASE + (1 << 40), 4096, Rss=4, AnonHugePages=0),  # of the same size, with less in it
        mapping(BASE + (2 << 40), 4096, flags="rd"),
    ]
    machine.smaps(*parts)
    (block,) = machine.seen().blocks
    assert (block.start, block.kib, block.mapped_kib, block.huge_kib) == (BASE, 4096, 4096, 2048)


def test_blocks_of_one_size_are_different_mappings(machine):
    machine.more = "<cpu><numa><cell memory='4096' unit='KiB'/><cell memory='4' unit='MiB'/></numa></cpu>"
    machine.smaps(mapping(BASE, 4096), mapping(BASE + (1 << 40), 4096))
    assert len({each.start for each in machine.seen().blocks}) == 2
    machine.smaps(mapping(BASE, 4096))
    with pytest.raises(Unreadable):
        assert machine.seen().blocks


def test_pages_that_were_only_read_are_not_there():
    """Of this very kernel: they are all one page of zeros, which takes no memory, and collapsing them would."""
    area = mmap.mmap(-1, 4 * HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert area[: 2 * HUGE].count(0) == 2 * HUGE
    area[3 * HUGE] = 1
    try:
        found = list(memory.ranges(os.getpid(), start, start + 4 * HUGE))
    except Unreadable as error:
        pytest.skip(str(error))
    assert [(each.start - start, each.end - each.start) for each in found] == [(3 * HUGE, 4096)]


def test_not_huge_is_what_has_base_pages_and_fits_in_whole(monkeypatch):
    half = memory.AT_LEAST * 4096
    found = [Range(0x0FF000, 0x200000), Range(HUGE, 2 * HUGE, huge=True), Range(2 * HUGE + 4096, 2 * HUGE + 8192)]
    found += [Range(2 * HUGE + half, 3 * HUGE), Range(4 * HUGE, 5 * HUGE, swapped=True)]
    found += [Range(6 * HUGE, 6 * HUGE + half - 4096)]  # too few to be worth one
    monkeypatch.setattr(memory, "ranges", lambda *_: found)
    assert memory.not_huge(1, 4096, 8 * HUGE) == [2 * HUGE]
    assert memory.not_huge(1, 0, 8 * HUGE) == [0, 2 * HUGE]


# --- explain ----------------------------------------------------------------------------------------------------


def reasons(machine, monkeypatch, *found: Range) -> list[tuple[int, int, str]]:
    monkeypatch.setattr(memory, "ranges", lambda *_: list(found))
    return [((each.start >> 10), (each.end - each.start) >> 10, each.reason) for each in explain.parts(machine.seen())]


def test_each_range_has_its_reason(machine, monkeypatch):
    machine.kib = 12288
    machine.smaps(mapping(BASE, 12288))
    machine.sys("proc/buddyinfo", "Node 0, zone Normal " + " ".join("0" * 11))
    found = reasons(
        machine, monkeypatch, Range(BASE, BASE + HUGE, huge=True), Range(BASE + HUGE, BASE + 2 * HUGE),
        Range(BASE + 2 * HUGE, BASE + 2 * HUGE + 4096), Range(BASE + 3 * HUGE, BASE + 4 * HUGE, swapped=True),
        Range(BASE + 4 * HUGE, BASE + 4 * HUGE + memory.AT_LEAST * 4096),
    )  # fmt: skip
    words = ["a hugepage", "base pages: the host has no free memory in pieces", "less than half of it touched"]
    words += ["swapped out", "some of it not touched"]
    assert len(found) == 6 and all(word in reason for word, (_, _, reason) in zip(words, found, strict=False))
    assert found[5] == (10240, 2048, "the guest has not touched it yet")


def test_memory_that_is_not_aligned_has_ends_that_cannot_be_huge(machine, monkeypatch):
    machine.smaps(mapping(BASE + 4096, 4096))
    found = reasons(machine, monkeypatch, Range(BASE + 4096, BASE + 4096 + (4096 << 10)))
    assert [kib for _, kib, _ in found] == [2044, 2048, 4] and "an end of the block" in found[0][2] + found[2][2]


@pytest.mark.parametrize(
    ("told", "enabled", "word"),
    [
        ({"path": "/memfd:memory-backend-memfd (deleted)"}, "always", "shmem_enabled"),
        ({}, "never", "enabled is never"),
        ({"flags": "rd wr nh"}, "always", "MADV_NOHUGEPAGE"),
        ({"flags": "rd wr"}, "madvise", "has not advised"),
        ({}, "always", "not eligible"),
    ],
)
def test_a_block_that_cannot_be_huge_says_why(machine, monkeypatch, told, enabled, word):
    machine.smaps(mapping(BASE, 4096, THPeligible=0, AnonHugePages=0, **told))
    machine.sys("sys/kernel/mm/transparent_hugepage/enabled", enabled)
    ((_, _, reason),) = reasons(machine, monkeypatch, Range(BASE, BASE + 2 * HUGE))
    assert word in reason


def test_free_hugepages_are_counted_from_order_9():
    text = "Node 0, zone DMA 0 0 0 0 0 0 0 0 9 1 2\nNode 1, zone Normal 9 9 9 9 9 9 9 9 9 0 1\n"
    assert explain.free_hugepages(text) == 1 + 4 + 2 and explain.free_hugepages("") is None
