# SPDX-License-Identifier: MIT
"""The Itanium machine (hypervisor/itanium) with its kernel and a RAM disk."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from abh import paths, schedule
from abh.build import components
from abh.machine import itanium
from abh.machine.itanium import Ended as Ended
from abh.schema import spec, strict
from abh.schema.result import Result
from abh.study import itanium as study
from abh.study.cell import Cell
from abh.study.itanium import PAGE_KIB

KERNEL, RAMDISK = ("linux-ia64", itanium.KERNEL_FILE), ("itanium-initramfs", itanium.RAMDISK_FILE)
OF_PAGES = re.compile(rf"{KERNEL[0]}-(\d+)k")  # the same kernel with base pages of so many KiB
TORTURE = ("itanium-torture-linux", itanium.RAMDISK_FILE)
KERNEL_TESTS = ("itanium-kernel-tests", itanium.RAMDISK_FILE)
KNOWN_FAILURES = paths.CHECKOUT / "tests/itanium/known-failures"
WELL = "init: all is well"  # what tests/itanium/boot/init.c says at its end
PROGRAM_DONE = "TEST status 0"  # what tests/kernel/init.c says after a program that is well
STEP = ("ok ", "FAILED ", "init: ")  # how its lines begin that are the same in every run
WRONG = ("FAILED ", "init: no ")  # how those begin that say what is wrong
# The kernel's words that its series adds, and what it says where it does without what they ask for.
WORDS = ("vhpt", "vhpt_size", "superpages")
UNTAKEN = re.compile(r"^(?:\[ *[\d.]+\] )?(?:vhpt|superpages): (.+ (?:is|not) used|.+ there are none)$", re.MULTILINE)

# What the walker does (kernel-patches/6.1-ia64/vhpt), without superpages and with them, and the kernel's words for it.
MODES = {name: each.guest.cmdline for name, each in spec.policies(group="itanium").items()}
LARGEST = "16M"  # superpage of these words
# Of /proc/superpages, as it is and as the fuzzer of kernels tells of it.
SUPERPAGES = re.compile(r"^(?:counted: )?\d+K faulted (\d+) failed \d+ demoted (\d+)", re.MULTILINE)
NOTHING = "none of GCC's programs ran"
# Of the workloads that run as cells: a small one, of which each element of a column lies in another page; and a real
# program, of calls that go deep.
CELLS = ("matrix", "sqlite")
MISSES = "data_tlb_misses_l2"
EARLY = 4  # at most so many walks before a mode has begun: two were counted


def _file(named: Path | None, of: tuple[str, str]) -> Path:
    return named.absolute() if named else components.path_of(of[0]) / of[1]


def sizes() -> list[int]:
    """Base pages that there is a kernel for, in KiB."""
    found = [match for name in components.COMPONENTS if (match := OF_PAGES.fullmatch(name))]
    return sorted([PAGE_KIB, *(int(match[1]) for match in found)])


def _of_pages(of: tuple[str, str], kib: int) -> tuple[str, str]:
    return of if kib == PAGE_KIB else (f"{of[0]}-{kib}k", of[1])


def largest(pages: int) -> str:
    """The largest superpage that a kernel with these base pages is told of: 16 MiB, or as far as it has any."""
    return LARGEST if pages >= PAGE_KIB else "1M"


def words(mode: str, pages: int = PAGE_KIB, more: str = "", superpages: str = "") -> str:
    """What a kernel with these base pages is told for a mode. superpages: the largest, if not the usual one."""
    told = MODES[mode].replace(f"={LARGEST}", f"={superpages or largest(pages)}")
    return f"{told} {more}".strip()


def run(
    words: Sequence[str] = (),
    *,
    kernel: Path | None = None,
    ramdisk: Path | None = None,
    live: bool = False,
    pages: int = PAGE_KIB,
) -> Ended:
    """Starts the machine with these options, and the bench's own kernel and RAM disk where none is named.

    live: its console is also seen as it comes. pages: KiB of the kernel's base pages.
    """
    of_kernel, of_ramdisk = _of_pages(KERNEL, pages), _of_pages(RAMDISK, pages)
    return itanium.run(words, kernel=_file(kernel, of_kernel), ramdisk=_file(ramdisk, of_ramdisk), live=live)


def build(pages: int = PAGE_KIB) -> None:
    """Builds the machine, its kernel and its RAM disk before machines that run side by side ask for them."""
    for name in (itanium.COMPONENT, _of_pages(KERNEL, pages)[0], _of_pages(RAMDISK, pages)[0]):
        components.path_of(name)


def side_by_side(runs: Iterable[Sequence[str]], pages: int = PAGE_KIB, ramdisk: Path | None = None) -> list[Ended]:
    """How runs of the machine with these options end, in their order: as many at a time as there are processors."""
    return list(in_turn(runs, pages, ramdisk))


def in_turn(
    runs: Iterable[Sequence[str]], pages: int = PAGE_KIB, ramdisk: Path | None = None
) -> Generator[Ended, None, None]:
    """The same, each as soon as it and those before it have ended. Closed, it begins no other."""
    build(pages)
    with ThreadPoolExecutor(schedule.processors()) as pool:
        yield from pool.map(partial(run, pages=pages, ramdisk=ramdisk), runs)


def boots_alike(modes: Sequence[str] = tuple(MODES), pages: int = PAGE_KIB) -> tuple[bool, str]:
    """Whether the kernel with these base pages boots to the end of its test, twice with the same console and counts, in
    each of these modes; and what is to say."""
    said, steps = [], {}
    ended = side_by_side(([f"--append={words(mode, pages)}"] for mode in modes for _ in "12"), pages)
    for mode, one, other in zip(modes, ended[::2], ended[1::2], strict=True):
        if problem := fault(one) or differ(one, other) or unlike(mode, one.counted["counters"]):
            return False, f"pages of {pages} KiB, {mode}: {problem}"
        steps[mode] = [line for line in one.console.splitlines() if line.startswith(STEP)]
        said.append(
            f"Linux with pages of {pages} KiB boots ({mode}) and ends after {one.counted['instructions']} instructions,"
            " twice\n"
        )
    first, *others = steps
    unequal = [mode for mode in others if steps[mode] != steps[first]]
    if unequal:
        got = "; ".join(f"{mode} {steps[mode]}" for mode in (first, unequal[0]))
        return False, f"the first process does not say the same: {got}\n"
    return True, "".join(said)


def unlike(mode: str, counters: Mapping[str, Any]) -> str:
    """What a walker counted that it cannot have; empty if nothing."""
    faults, aborts = counters["faults"], counters["aborts"]
    walked = counters["instruction"]["walker_insertions"] + counters["data"]["walker_insertions"]
    table = faults.get("VhptData", 0) + faults.get("VhptInstruction", 0)
    wrong = {
        "none": {"the walker inserted": walked > EARLY, "it has ended": sum(aborts.values()) > EARLY},
        "sf": {"it found another tag": bool(aborts.get("Tag")), "the table was always there": not table},
        "lf": {"the table was not there": table > EARLY, "a miss was nested": faults.get("DataNested", 0) > EARLY,
               "it inserted nothing": not walked},
    }[mode.partition("-")[0]]  # fmt: skip
    return "".join(f"{what}: {counters}\n" for what, holds in wrong.items() if holds)


def fuzz(calls: int, modes: Sequence[str] = tuple(MODES), pages: int = PAGE_KIB) -> tuple[bool, str]:
    """Whether so many random calls of memory (tests/itanium/fuzz) do what a plain model says, in each of these modes;
    what is to say."""
    ended = side_by_side(([f"--append={words(mode, pages, f'fuzz {calls}')}"] for mode in modes), pages)
    for mode, one in zip(modes, ended, strict=True):
        if problem := fault(one) or unlike(mode, one.counted["counters"]) or unshown(mode, one.console):
            return False, f"pages of {pages} KiB, {mode}: {problem}"
    where = f"pages of {pages} KiB; {', '.join(modes)}"
    return True, f"{calls} random calls of memory ({where}) as a plain model has them\n"


def semantics(calls: int, modes: Sequence[str] = tuple(MODES)) -> tuple[bool, str]:
    """Whether so many operations of the fuzzer of kernels (tests/kernel) do what its model says, in each of these
    modes, and a program finds in the C library what it looks for; what is to say."""
    fuzzed = [(mode, f"/fuzz --no-shrink --ops {calls}") for mode in modes]
    jobs = [(modes[0], "/hello"), *fuzzed]
    runs = (("--memory", "1024", f"--append={words(mode, more=f'-- {job}')}") for mode, job in jobs)
    for (mode, job), one in zip(jobs, side_by_side(runs, ramdisk=_file(None, KERNEL_TESTS)), strict=True):
        problem = undone(one) or unlike(mode, one.counted["counters"])
        if not problem and (mode, job) in fuzzed:
            problem = unshown(mode, one.console)
        if problem:
            return False, f"{mode}: {job}: {problem}"
    return True, f"{calls} operations of the fuzzer of kernels ({', '.join(modes)}) as its model has them\n"


def frugal(modes: Sequence[str] = ("sf", "sf-lp")) -> tuple[bool, str]:
    """Whether programs have their mappings, threads and memory far apart (tests/itanium/libc/frugal.c) in each of these
    modes; what is to say."""
    runs = ([f"--append={words(mode, more='-- /frugal')}"] for mode in modes)
    for mode, one in zip(modes, side_by_side(runs, ramdisk=_file(None, KERNEL_TESTS)), strict=True):
        if problem := undone(one) or unshown(mode, one.console):
            return False, f"{mode}: /frugal: {problem}"
    return True, f"mappings, threads and memory far apart as without superpages ({', '.join(modes)})\n"


def later_words() -> tuple[bool, str]:
    """Whether a word that the kernel cannot use leaves nothing of an earlier one that it could; what is to say."""
    table, size = "vhpt=lf vhpt_size=64K", "superpages=16M"
    told = {f"{table} vhpt=long {size} superpages=3M": "sf", f"{table} vhpt_size=3M": "lf"}
    ended = side_by_side([f"--append={line} mmap 1"] for line in told)
    for (line, mode), one in zip(told.items(), ended, strict=True):
        problem = fault(one) or unlike(mode, one.counted["counters"]) or unshown(mode, one.console)
        if not problem and "entries 2048" in one.console.splitlines():
            problem = "a table of the size that was asked for first\n"
        if problem:
            return False, f"{line}: {problem}"
    return True, "words that Linux cannot use have what it says of them done\n"


def undone(ended: Ended) -> str:
    """What is wrong with a run of a program that tests a kernel; empty if it is well."""
    if ended.status == 0 and PROGRAM_DONE in ended.console.splitlines():
        return ""
    return f"{ended.console}\n{ended.report}\nthe run is not well: status {ended.status}, `{PROGRAM_DONE}` expected\n"


def unshown(mode: str, console: str) -> str:
    """Why a run of random calls shows nothing of superpages, or has them where they are off; empty if it is as it
    must be."""
    faulted, demoted = (
        sum(map(int, of_sizes)) for of_sizes in zip(("0", "0"), *SUPERPAGES.findall(console), strict=True)
    )
    if mode.endswith("-lp"):
        return "" if faulted and demoted else f"{faulted} superpages, {demoted} demoted: some of both expected\n"
    return "" if not faulted else f"{faulted} superpages, none expected\n"


def torture(levels: Sequence[str] = ("O2",), mode: str = "lf-lp") -> tuple[bool, str]:
    """Whether of GCC's tests of execution, compiled with these options, those that fail under Linux are those that are
    known to; what is to say."""
    line = f"--append={words(mode, more=' '.join(levels))}"
    ended = run(("--memory", "1024", line), ramdisk=_file(None, TORTURE))
    if problem := fault(ended) or unlike(mode, ended.counted["counters"]):
        return False, problem
    lines = KNOWN_FAILURES.read_text().splitlines()
    known = {line.partition(":")[0] for line in lines if line.partition("/")[0] in levels}
    well, text = tortured(ended.console, known)
    return well, f"{text}under Linux ({mode}, {', '.join(levels)})\n"


def tortured(console: str, known: Set[str]) -> tuple[bool, str]:
    """The same, by what the console says and the names that are known."""
    said = [line.removeprefix("torture: ") for line in console.splitlines() if line.startswith("torture: ")]
    failed = {line.split()[0].removeprefix("t/"): line for line in said if line.startswith("t/")}
    wrong = "".join(f"{line}\n" for name, line in failed.items() if name not in known)
    wrong += "".join(f"{name} is known to fail, and did not\n" for name in sorted(known - failed.keys()))
    ended = said[-1] if said and " programs, " in said[-1] and not said[-1].startswith("0 ") else ""
    return bool(ended) and not wrong, f"{wrong}{ended or NOTHING}\n"


def cells() -> tuple[bool, str]:
    """Whether cells of these workloads in all modes end well, miss less with superpages, and count the same twice; what
    is to say."""
    for name in itanium.component_names(Cell.of(f"{CELLS[0]}@itanium~{next(iter(MODES))}", "smoke").machine):
        components.path_of(name)
    said = ""
    for workload in CELLS:
        passed, text = _cells_of(workload)
        said += text
        if not passed:
            return False, said
    return True, said


def _cells_of(workload: str) -> tuple[bool, str]:
    """The same of one workload."""
    names = [f"{workload}@itanium~{mode}" for mode in MODES]
    with ThreadPoolExecutor(schedule.processors()) as pool:
        *first, again = pool.map(lambda name: study.run(Cell.of(name, "smoke")), [*names, names[-1]])
    if problem := amiss(dict(zip(MODES, first, strict=True)), again):
        return False, problem
    said = (f"{one.run}: {one.values[MISSES].value} misses of the data TLB\n" for one in first)
    return True, "".join([*said, f"{again.run}: the same {len(again.values)} values twice\n"])


def amiss(by_mode: Mapping[str, Result], again: Result) -> str:
    """What is wrong with the cells of a workload in these modes; empty if nothing. again: the last cell, run again."""
    for one in (*by_mode.values(), again):
        if one.outcome != "success":
            return f"{one.run}: {one.outcome}: {one.reason}\n"
    for mode in by_mode:
        more = by_mode.get(f"{mode}-lp")
        base, less = (one.values[MISSES].value if one else 0 for one in (by_mode[mode], more))
        if more and not less < base:
            return f"{more.run}: {less} misses of the data TLB, fewer than the {base} without superpages expected\n"
    *_, last = by_mode.values()
    unlike = sorted(name for name in last.values | again.values if last.values.get(name) != again.values.get(name))
    return f"{again.run} counts {', '.join(unlike)} otherwise when it is run again\n" if unlike else ""


def twice(line: str) -> list[str]:
    """Those of the series' words that a command line has with several values: the kernel would take the last."""
    values = {name: {word for word in line.split() if word.startswith(f"{name}=")} for name in WORDS}
    return [" ".join(sorted(found)) for found in values.values() if len(found) > 1]


def mistyped(line: str) -> dict[str, str]:
    """Words of a command line that are nearly those of the series, or of HugeTLB, each with what it should be: the
    kernel passes over what it does not know."""
    names = (*WORDS, "vhpt_spread", "hugepagesz", "hugepages", "default_hugepagesz")
    ours = (word.partition("=") for word in line.partition(" -- ")[0].split())
    return {
        name + equals + value: near + equals + value
        for name, equals, value in ours
        if name not in names and (near := strict.suggest(name, names, nearness=0.75))
    }


def untaken(console: str) -> list[str]:
    """What the kernel says of words of its series that it did not take."""
    return UNTAKEN.findall(console)


def what_failed(console: str) -> str:
    """What the first process said of its failure."""
    said = console.splitlines()
    wrong = [line for line in said if line.startswith(WRONG)]
    last = [line for line in said if line.startswith("init: ")][-1:]
    return "; ".join(dict.fromkeys([*wrong, *last])) or "nothing of the first process"


def fault(ended: Ended) -> str:
    """What is wrong with a run; empty if it is well."""
    if ended.status == 0 and is_well(ended.console):
        return ""
    return f"{ended.console}\n{ended.report}\nthe run is not well: status {ended.status}, `{WELL}` expected\n"


def is_well(console: str) -> bool:
    """Whether the first process of the bench's own RAM disk has said so at its end."""
    return [line for line in console.splitlines() if line.startswith("init: ")][-1:] == [WELL]


def differ(one: Ended, other: Ended) -> str:
    """How two runs of the same differ; empty if they do not."""
    lines = zip(one.console.splitlines(), other.console.splitlines(), strict=False)
    seen = [f"- {mine}\n+ {theirs}\n" for mine, theirs in lines if mine != theirs]
    names = sorted({name for name in one.counted if name != "seconds" and one.counted[name] != other.counted.get(name)})
    if one.console == other.console and not names:
        return ""
    return f"two runs of the same differ; counts: {', '.join(names) or 'none'}\n{''.join(seen[:5])}"
