# SPDX-License-Identifier: MIT
"""`abh allocators`: reading measurements and system calls, statistics, errors. Nothing is built or run."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from abh.compare import allocators, modes
from abh.compare.allocators import ALLOCATORS, Allocator, Sample
from abh.errors import AbhError
from abh.schema import spec


def sample(elapsed: float = 1.0, minor: int = 1000, huge: int = 0, rss: int = 4000) -> Sample:
    return Sample(minor, huge, rss, elapsed, elapsed / 2)


# --- reading ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["always", "madvise"])
def test_mode(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "enabled"
    path.write_text("always madvise never\n".replace(mode, f"[{mode}]"))
    assert modes.thp_mode(path) == mode


def test_never_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "enabled"
    path.write_text("always madvise [never]\n")
    with pytest.raises(AbhError, match="off on this machine") as error:
        modes.thp_mode(path)
    assert error.value.got == "never"
    assert f"echo madvise > {path}" in (error.value.next_step or "")


def test_a_kernel_without_hugepages(tmp_path: Path) -> None:
    with pytest.raises(AbhError, match="no transparent hugepages"):
        modes.thp_mode(tmp_path / "enabled")


def test_sample() -> None:
    assert allocators.sample_of("451 199000\n", "1.890 1.460 0.390\n", 95) == Sample(451, 95, 199000, 1.89, 1.85)


@pytest.mark.parametrize(("usage", "times"), [("", "1 1 1"), ("1 2", "1 1"), ("1 2", "a b c"), ("1 2 3", "1 1 1")])
def test_sample_that_is_none(usage: str, times: str) -> None:
    with pytest.raises(AbhError, match="cannot be read"):
        allocators.sample_of(usage, times, 0)


def test_huge_faults() -> None:
    assert allocators.huge_faults("thp_fault_alloc_x 1\nthp_fault_alloc 17\nthp_fault_fallback 3\n") == 17
    with pytest.raises(AbhError, match="does not count"):
        allocators.huge_faults("pgfault 3\n")


# --- statistics -------------------------------------------------------------------------------------------------


def test_alloc_ratio_is_the_papers() -> None:
    # abh Table 1, 403.gcc: 679,035 regular faults and 3,862 huge ones.
    assert round(100 * sample(minor=679035 + 3862, huge=3862).alloc_ratio, 2) == 74.44
    assert sample(minor=10, huge=0).alloc_ratio == 0
    assert sample(minor=10, huge=10).alloc_ratio == 1


def test_ratios_are_of_one_round_and_medians_over_rounds() -> None:
    samples = {
        allocators.BASE: [sample(1, rss=100), sample(10, rss=100), sample(2, rss=100)],
        "other": [sample(2, rss=110), sample(5, rss=90), sample(3, rss=105)],
    }
    base, other = allocators.summarize("rows", "smoke", "always", samples)
    assert (base.time_ratio, base.time_ratio_low, base.time_ratio_high, base.rss_ratio) == (1, 1, 1, 1)
    assert (other.time_ratio, other.time_ratio_low, other.time_ratio_high) == (1.5, 0.5, 2)  # not 3 / 2 by luck:
    assert other.elapsed_s == 3
    assert base.elapsed_s == 2
    assert other.rss_ratio == 1.05
    assert other.rounds == 3


def test_hugepages_are_the_fewest_of_any_round() -> None:
    own = [sample(minor=10_000, huge=200), sample(minor=10_000, huge=20), sample(minor=10_000, huge=90)]
    (line,) = allocators.summarize("rows", "smoke", "always", {allocators.BASE: own})
    assert (line.huge_faults, line.huge_faults_high) == (20, 200)
    assert line.alloc_ratio == own[1].alloc_ratio
    assert "20–200" in allocators.cells(line)
    (line,) = allocators.summarize("rows", "smoke", "always", {allocators.BASE: own[:1]})
    assert "200" in allocators.cells(line)


def test_every_implementation_runs_in_every_round_and_none_always_after_the_same() -> None:
    order: list[str] = []

    def one(allocator: Allocator) -> Sample:
        order.append(allocator.name)
        return sample(len(order))

    samples = allocators.measure(one, ALLOCATORS, 3)
    count = len(ALLOCATORS)
    names = [each.name for each in ALLOCATORS]
    assert len(order) == 3 * count
    for start in range(0, 3 * count, count):
        assert sorted(order[start : start + count]) == sorted(names)
    after = [
        {each: before for before, each in itertools.pairwise(order[start : start + count])}
        for start in range(0, 3 * count, count)
    ]
    assert not [each for each in names if len({before.get(each) for before in after}) == 1]
    # The nth sample of each is of the nth round.
    for number in range(3):
        assert all(number * count < each[number].elapsed_s <= (number + 1) * count for each in samples.values())


# --- system calls -----------------------------------------------------------------------------------------------

TRACE = """\
7 execve("./rows", ["./rows"], 0x7ffd /* 4 vars */) = 0
7 brk(NULL)                         = 0x55e000
7 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f1000
7 mprotect(0x7f2000, 16384, PROT_READ) = 0
7 brk(NULL)                         = 0x55e000
7 brk(0x57f000)                     = 0x57f000
7 mmap(NULL, 266240, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f3000
7 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f4000
7 mremap(0x7f3000, 266240, 532480, MREMAP_MAYMOVE) = 0x7f5000
7 madvise(0x7f5000, 2097152, MADV_HUGEPAGE) = 0
7 munmap(0x7f5000, 532480)          = 0
7 +++ exited with 0 +++
"""
CALLS = [
    ("execve",),
    ("brk", "0x21000"),
    ("mmap", "266240", "PROT_READ|PROT_WRITE", "MAP_PRIVATE|MAP_ANONYMOUS"),
    ("mremap", "266240", "532480", "MREMAP_MAYMOVE"),
    ("madvise", "2097152", "MADV_HUGEPAGE"),
    ("munmap", "532480"),
]


def test_memory_calls_leave_out_addresses_and_the_loader() -> None:
    assert allocators.memory_calls(TRACE.splitlines()) == CALLS
    moved = TRACE.replace("0x55e000", "0x66e000").replace("0x57f000", "0x68f000").replace("0x7f", "0x6f")
    assert allocators.memory_calls(moved.splitlines()) == CALLS


@pytest.mark.parametrize(
    ("old", "new"),
    [("0x57f000", "0x580000"), ("532480", "532481"), ("MADV_HUGEPAGE", "MADV_DONTNEED"), ("7 munmap", "7 nothing")],
)
def test_another_call_is_seen(old: str, new: str) -> None:
    assert allocators.first_difference(allocators.memory_calls(TRACE.replace(old, new).splitlines()), CALLS)


def test_first_difference() -> None:
    assert allocators.first_difference(CALLS, CALLS) is None
    assert "call 6: none against" in str(allocators.first_difference(CALLS[:-1], CALLS))


def test_off_that_is_not_stock_is_an_error() -> None:
    class Traces:
        def trace(self, allocator: Allocator, workload: object) -> list[tuple[str, ...]]:
            return CALLS[:-1] if allocator.patched else CALLS

    with pytest.raises(AbhError, match="is not stock malloc") as error:
        allocators.check_off_is_stock(Traces(), SimpleNamespace(name="rows"))  # type: ignore[arg-type]
    assert "munmap" in str(error.value.got)


def test_no_calls_at_all_are_not_the_same() -> None:
    blind = SimpleNamespace(trace=lambda allocator, workload: [("execve",)])
    with pytest.raises(AbhError, match="no system call for memory was seen"):
        allocators.check_off_is_stock(blind, SimpleNamespace(name="rows"))  # type: ignore[arg-type]


def test_every_workload_that_can_be_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(allocators.Sandbox, "make", lambda: "sandbox")
    monkeypatch.setattr(allocators, "check_off_is_stock", lambda sandbox, workload: seen.append(workload.name))
    allocators.check_all_off_is_stock()
    assert tuple(seen) == allocators.DETERMINISTIC


# --- what runs --------------------------------------------------------------------------------------------------


def test_environment_chooses_the_implementation() -> None:
    by_name = {each.name: each for each in ALLOCATORS}
    assert by_name["stock"].environment(None) == {}
    assert by_name["patched abh=1"].environment(None) == {"GLIBC_TUNABLES": "glibc.malloc.abh=1"}
    assert by_name["jemalloc"].environment("/x.so") == {"LD_PRELOAD": "/x.so"}
    assert [each.name for each in ALLOCATORS if each.patched] == [
        "patched off",
        "patched abh=1",
        "patched abh=1, no offset",
    ]
    assert next(iter(by_name)) == allocators.BASE


def test_the_workloads_traced_exist() -> None:
    assert set(allocators.DETERMINISTIC) <= set(spec.workloads())


def test_the_root_has_what_is_preloaded_and_measures() -> None:
    packages = " ".join(spec.roots()["allocators"].packages)
    for each in ("libjemalloc", "libtcmalloc", "libmimalloc", "strace", "time"):
        assert each in packages
    assert set(spec.roots()["guest"].packages) - {"busybox-static"} <= set(spec.roots()["allocators"].packages)


def test_patched_library_lies_over_the_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    library = tmp_path / "glibc" / allocators.LIBRARIES / "libc.so.6"
    library.parent.mkdir(parents=True)
    library.touch()
    sandbox = allocators.Sandbox(tmp_path / "root", tmp_path / "glibc", tmp_path / "workloads")
    rows = SimpleNamespace(name="rows", env={}, argv_for=lambda size: ["./rows", size])
    patched = sandbox.command(ALLOCATORS[3], rows, "smoke", ["meter"], tmp_path / "out")
    stock = sandbox.command(ALLOCATORS[0], rows, "smoke", ["meter"], tmp_path / "out")
    assert str(library) in patched
    assert str(library) not in stock
    assert patched[-3:] == ["meter", "./rows", "smoke"]
    with pytest.raises(AbhError, match="jemalloc is not in the Debian root"):
        sandbox.command(next(each for each in ALLOCATORS if each.name == "jemalloc"), rows, "smoke", [], tmp_path)


# --- results ----------------------------------------------------------------------------------------------------


def test_csv_keeps_what_was_measured(tmp_path: Path) -> None:
    samples = {allocators.BASE: [sample(1.25)], "other": [sample(1 / 3, huge=7)]}
    lines = allocators.summarize("rows", "smoke", "madvise", samples)
    allocators.write(tmp_path / allocators.RESULT, lines)
    again = allocators.read(tmp_path / allocators.RESULT)
    assert [dataclasses.astuple(line)[:5] for line in again] == [dataclasses.astuple(line)[:5] for line in lines]
    for mine, theirs in zip(again, lines, strict=True):
        assert dataclasses.astuple(mine)[5:] == pytest.approx(dataclasses.astuple(theirs)[5:])
    assert allocators.read(tmp_path / "none.csv") == []


def test_a_csv_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("workload,colour\nrows,red\n")
    with pytest.raises(AbhError, match="cannot be read"):
        allocators.read(tmp_path / "a.csv")


def test_table_and_figure_show_each_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from abh.report import figures
    from abh.report.study import Plan, make_study

    samples = {each.name: [sample(minor=1048, huge=48)] for each in ALLOCATORS}
    lines = allocators.summarize("rows", "smoke", "always", samples)
    allocators.show(lines)
    shown = capsys.readouterr().out
    assert all(each.name in shown for each in ALLOCATORS)
    assert "96.1 %" in shown and "\N{HORIZONTAL ELLIPSIS}" not in shown

    figure = figures.load(figures.FIGURES / "allocators.py")
    study = make_study(Plan(), {}, tmp_path)
    assert "make allocators" in figure.render(study)
    assert figure.table(study) == []
    allocators.write(tmp_path / allocators.RESULT, lines)
    page = figure.render(study)
    assert page.count("<tr>") == 1 + len(ALLOCATORS)
    assert "96.1 %" in page
    assert figure.table(study) == [dataclasses.asdict(line) for line in allocators.read(tmp_path / allocators.RESULT)]
