# SPDX-License-Identifier: MIT
"""Compare malloc implementations natively: on this machine and its kernel as they are, without root.

Every implementation runs the bench's workloads in turn, several rounds of it, inside one Debian root. Before that it is
checked that patched malloc with its tunable off makes the same system calls for memory as the distribution's.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
import os
import random
import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from abh import paths, progress
from abh.compare import idle
from abh.compare.modes import thp_mode, thp_mode_set
from abh.errors import AbhError
from abh.files import write_csv
from abh.schema.workload import Workload

RESULT = "allocators.csv"
THP_ENABLED = paths.THP / "enabled"
VMSTAT = Path("/proc/vmstat")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
OWN_FILES = "var/lib/dpkg/info/libc6:amd64.list"  # of the package libc6, in a root
PAGES = 512  # regular pages in a hugepage
BASE = "stock"
# Workloads with one thread: at fixed addresses their system calls are the same in every run. Those of dedup's threads
# are not, however they are sorted: which arena a thread gets, and how far it grows, depends on who holds a lock (two
# runs of stock malloc made 433 calls and 405).
DETERMINISTIC = ("sqlite", "mcf", "set-conflict", "cpython", "xalan", "cc1")
# cc1 sorts by addresses: without -R, two runs of it differ.
TRACE = ("setarch", "-R", "strace", "-f", "-q", "-o", "/out/calls")
# GNU time counts faults and memory of what it starts; the shell's own time has milliseconds.
MEASURE = (
    'TIMEFORMAT="%3R %3U %3S"; { time /usr/bin/time -q -o /out/usage -f "%R %M" "$@" 2>&3; } 3>/out/errors 2>/out/time'
)
Measured = TypeVar("Measured")
TRACED = "brk,mmap,munmap,mremap,madvise,mprotect,execve"


@dataclass(frozen=True)
class Allocator:
    """One way to run a program: which C library, with which settings, which library preloaded."""

    name: str
    patched: bool = False
    newest: bool = False  # the C library of the root `newest`
    tunables: str = ""
    preload: str = ""  # glob below LIBRARIES
    settings: tuple[tuple[str, str], ...] = ()  # further environment variables

    def environment(self, found: str | None) -> dict[str, str]:
        """The environment variables that choose it; `found` is the library to preload."""
        env = dict(self.settings)
        if self.tunables:
            env["GLIBC_TUNABLES"] = self.tunables
        return {**env, "LD_PRELOAD": found} if found else env


ALLOCATORS = (
    Allocator(BASE),
    Allocator("stock hugetlb=1", tunables="glibc.malloc.hugetlb=1"),
    Allocator("patched off", patched=True, tunables="glibc.malloc.abh=0"),
    Allocator("patched abh=1", patched=True, tunables="glibc.malloc.abh=1"),
    Allocator("patched abh=1, no offset", patched=True, tunables="glibc.malloc.abh=1:glibc.malloc.abh_offset=0"),
    # Since 2.43 glibc has hugetlb=1 by default on some architectures.
    Allocator("newest glibc", newest=True),
    Allocator("newest glibc hugetlb=0", newest=True, tunables="glibc.malloc.hugetlb=0"),
    Allocator("newest glibc hugetlb=1", newest=True, tunables="glibc.malloc.hugetlb=1"),
    Allocator("jemalloc", preload="libjemalloc.so.?"),
    Allocator(
        "jemalloc thp:always",
        preload="libjemalloc.so.?",
        settings=(("MALLOC_CONF", "thp:always,metadata_thp:always"),),
    ),
    # It has no setting for transparent hugepages: what the kernel gives unasked, in the mode always, is its best.
    Allocator("tcmalloc", preload="libtcmalloc_minimal.so.?"),
    Allocator("mimalloc", preload="libmimalloc.so.?"),
    Allocator("mimalloc large pages", preload="libmimalloc.so.?", settings=(("MIMALLOC_ALLOW_LARGE_OS_PAGES", "1"),)),
)


@dataclass(frozen=True)
class Sample:
    """What one run of a program took."""

    minor_faults: int
    huge_faults: int
    rss_peak_kib: int
    elapsed_s: float
    cpu_s: float

    @property
    def alloc_ratio(self) -> float:
        """The paper's Alloc.Ratio: the share of faulted memory that came as hugepages."""
        regular = max(self.minor_faults - self.huge_faults, 0)
        return PAGES * self.huge_faults / (PAGES * self.huge_faults + regular)


@dataclass(frozen=True)
class Line:
    """A line of the table: medians over the rounds, and how far the rounds are apart. Of hugepages the fewest: what
    other programs of the system get meanwhile can only add to them."""

    workload: str
    size: str
    allocator: str
    thp: str
    rounds: int
    alloc_ratio: float
    minor_faults: int
    huge_faults: int
    rss_peak_kib: int
    rss_ratio: float
    rss_ratio_low: float
    rss_ratio_high: float
    elapsed_s: float
    time_ratio: float
    time_ratio_low: float
    time_ratio_high: float
    cpu_ratio: float
    huge_faults_high: int = 0


def compare(
    chosen: Sequence[Workload], size: str, rounds: int, results: Path, modes: Sequence[str] = ()
) -> tuple[list[Line], list[idle.Line]]:
    """Checks that off is stock, measures every implementation, and keeps what is measured in results/allocators*.csv.

    In each of `modes` of transparent hugepages, for which root sets them and sets them back; by default in the
    machine's own.
    """
    own = thp_mode(THP_ENABLED)
    sandbox = Sandbox.make()
    for each in chosen:
        if each.name in DETERMINISTIC:
            check_off_is_stock(sandbox, each)
    lines: list[Line] = []
    idle_lines: list[idle.Line] = []
    for mode in modes or (own,):
        with thp_mode_set(THP_ENABLED, mode):
            for each in chosen:
                progress.say(
                    f"measuring {each.name} ({size}, {mode}): {len(ALLOCATORS)} implementations, {rounds} rounds"
                )
                samples = measure(functools.partial(sandbox.measure, each, size), ALLOCATORS, rounds)
                lines += summarize(each.name, size, mode, samples)
                write(results / RESULT, lines)
            progress.say(f"measuring memory while idle ({mode}): {len(ALLOCATORS)} implementations, {rounds} rounds")
            idle_lines += idle.summarize(mode, measure(functools.partial(idle.measure, sandbox), ALLOCATORS, rounds))
            write(results / idle.RESULT, idle_lines)
    return lines, idle_lines


# --- running ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sandbox:
    """The Debian root, the patched C library and the workloads."""

    root: Path
    glibc: Path
    workloads: Path

    @classmethod
    def make(cls) -> Sandbox:
        """Everything that is needed, made on first use."""
        from abh.build import components, root

        return cls(root.path_of("allocators"), components.path_of("glibc"), components.path_of("workloads"))

    def preload(self, allocator: Allocator) -> str | None:
        """The library to preload, as named inside the root."""
        if not allocator.preload:
            return None
        found = sorted((self.root / LIBRARIES).glob(allocator.preload))
        if not found:
            raise AbhError(
                f"{allocator.name} is not in the Debian root", where=self.root, got="no " + allocator.preload
            )
        return f"/{LIBRARIES}/{found[0].name}"

    def libraries(self, allocator: Allocator) -> list[Path]:
        """What is laid over the root's own C library."""
        if allocator.patched:
            return sorted((self.glibc / LIBRARIES).iterdir())
        if not allocator.newest:
            return []
        from abh.build import root

        # All of the package, as its parts fit no other version's; but what this root lacks, which nothing here needs.
        newest = root.path_of("newest")
        names = (newest / OWN_FILES).read_text(encoding="utf-8").splitlines()
        found = [newest / LIBRARIES / Path(name).name for name in names if re.search(r"\.so\.\d+$", name)]
        return sorted(path for path in found if path.exists() and (self.root / LIBRARIES / path.name).exists())

    def enter(
        self, allocator: Allocator, out: Path, program: dict[str, Path], env: Mapping[str, str], where: str
    ) -> list[str]:
        """The command prefix that runs what follows in the root with this malloc. `program` is bound in."""
        from abh.build import root

        return root.enter(
            self.root,
            # malloc reads the size and mode of hugepages there.
            read_only={
                **program,
                "/sys": Path("/sys"),
                **{f"/{LIBRARIES}/{path.name}": path for path in self.libraries(allocator)},
            },
            writable={"/out": out},
            scratch="/in",
            # The patched library looks for locales in a folder of its own: all have the one that needs none.
            env={"LC_ALL": "C", **env, **allocator.environment(self.preload(allocator))},
            chdir=where,
        )

    def command(self, allocator: Allocator, workload: object, size: str, prefix: Sequence[str], out: Path) -> list[str]:
        """The whole command line."""
        where = f"/in/workloads/{workload.name}"  # type: ignore[attr-defined]
        enter = self.enter(allocator, out, {"/in/workloads": self.workloads}, workload.env, where)  # type: ignore[attr-defined]
        return [*enter, *prefix, *workload.argv_for(size)]  # type: ignore[attr-defined]

    def _run(self, allocator: Allocator, workload: object, size: str, prefix: Sequence[str], out: Path) -> None:
        done = subprocess.run(
            self.command(allocator, workload, size, prefix, out),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
        right, _ = workload.check_output(size, done.stdout)  # type: ignore[attr-defined]
        if done.returncode or not right:
            name = f"{workload.name} ({size}) under {allocator.name}"  # type: ignore[attr-defined]
            errors = out / "errors"
            said = (errors.read_text(errors="replace") if errors.exists() else "") + done.stderr + done.stdout
            raise AbhError(
                f"{name} failed" if done.returncode else f"{name} gave a wrong answer",
                got=f"exit status {done.returncode}",
                tail="\n".join(said.splitlines()[-15:]),
            )

    def measure(self, workload: object, size: str, allocator: Allocator) -> Sample:
        """One run, measured."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            before = huge_faults(VMSTAT.read_text())
            self._run(allocator, workload, size, ["bash", "-c", MEASURE, "measure"], out)
            huge = huge_faults(VMSTAT.read_text()) - before
            return sample_of((out / "usage").read_text(), (out / "time").read_text(), huge)

    def trace(self, allocator: Allocator, workload: object) -> list[tuple[str, ...]]:
        """The system calls for memory that a run makes."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            self._run(allocator, workload, "smoke", [*TRACE, "-e", f"trace={TRACED}"], out)
            return memory_calls((out / "calls").read_text(errors="replace").splitlines())


def huge_faults(vmstat: str) -> int:
    """thp_fault_alloc. It is the system's: no kernel counts it for a process without a control group."""
    found = re.search(r"^thp_fault_alloc (\d+)$", vmstat, re.MULTILINE)
    if not found:
        raise AbhError("this kernel does not count hugepage faults", where=VMSTAT, expected="thp_fault_alloc")
    return int(found[1])


def sample_of(usage: str, times: str, huge: int) -> Sample:
    """A run's sample, from what GNU time and the shell's time wrote."""
    try:
        faults, rss = (int(word) for word in usage.split())
        elapsed, user, system = (float(word) for word in times.split())
    except ValueError as error:
        raise AbhError("a measurement cannot be read", got=f"{usage!r}, {times!r}") from error
    return Sample(faults, huge, rss, elapsed, user + system)


def measure(
    one: Callable[[Allocator], Measured], allocators: Sequence[Allocator], rounds: int
) -> dict[str, list[Measured]]:
    """Samples of each implementation. All take their turn in each round, so that what changes on the machine meanwhile
    changes all alike; in another order each round, as hugepages cost the first more than who finds them put together.
    """
    samples: dict[str, list[Measured]] = {each.name: [] for each in allocators}
    for turn in range(rounds):
        for allocator in random.Random(turn).sample(allocators, len(allocators)):
            samples[allocator.name].append(one(allocator))
    return samples


def summarize(workload: str, size: str, thp: str, samples: Mapping[str, Sequence[Sample]]) -> list[Line]:
    """Medians, and the fewest hugepages. Ratios are of runs in the same round, against the distribution's malloc."""
    base = samples[BASE]
    lines = []
    for name, own in samples.items():
        times = [mine.elapsed_s / theirs.elapsed_s for mine, theirs in zip(own, base, strict=True)]
        cpu = [mine.cpu_s / max(theirs.cpu_s, 0.001) for mine, theirs in zip(own, base, strict=True)]
        rss = [mine.rss_peak_kib / theirs.rss_peak_kib for mine, theirs in zip(own, base, strict=True)]
        lines.append(
            Line(
                workload,
                size,
                name,
                thp,
                len(own),
                alloc_ratio=min(each.alloc_ratio for each in own),
                minor_faults=round(statistics.median(each.minor_faults for each in own)),
                huge_faults=min(each.huge_faults for each in own),
                rss_peak_kib=round(statistics.median(each.rss_peak_kib for each in own)),
                rss_ratio=statistics.median(rss),
                rss_ratio_low=min(rss),
                rss_ratio_high=max(rss),
                elapsed_s=statistics.median(each.elapsed_s for each in own),
                time_ratio=statistics.median(times),
                time_ratio_low=min(times),
                time_ratio_high=max(times),
                cpu_ratio=statistics.median(cpu),
                huge_faults_high=max(each.huge_faults for each in own),
            )
        )
    return lines


# --- off is stock -----------------------------------------------------------------------------------------------

CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) += (\S+)")


def memory_calls(trace: Iterable[str]) -> list[tuple[str, ...]]:
    """The system calls by which malloc and the program take and give back memory, from strace's output.

    Addresses differ with the size of the C library and are left out, but for the break, which is told relative to
    where it was first. What the dynamic loader does, before malloc asks for the break, is left out, too.
    """
    calls: list[tuple[str, ...]] = []
    asked = start = 0
    for line in trace:
        match = CALL.match(line)
        if not match:
            continue
        name, result = match[1], match[3]
        words = [word.strip() for word in match[2].split(",")]
        if name == "execve":
            asked = 0
            calls.append((name,))
        elif name == "brk" and words[0] == "NULL":
            asked += 1
            start = int(result, 16)
        elif asked < 2:  # the loader asks first
            continue
        elif name == "brk":
            calls.append((name, hex(int(words[0], 16) - start)))
        elif name != "mmap" or "MAP_ANONYMOUS" in words[3]:
            calls.append((name, *words[1:4]))
    return calls


def first_difference(one: Sequence[tuple[str, ...]], other: Sequence[tuple[str, ...]]) -> str | None:
    """Where two lists of calls part."""
    for place, (mine, theirs) in enumerate(itertools.zip_longest(one, other), 1):
        if mine != theirs:
            return f"call {place}: {mine or 'none'} against {theirs or 'none'}"
    return None


def check_off_is_stock(sandbox: Sandbox, workload: object) -> None:
    """Patched malloc with its tunable off makes the system calls of the distribution's malloc, no other."""
    stock = sandbox.trace(ALLOCATORS[0], workload)
    name = workload.name  # type: ignore[attr-defined]
    if not any(call in ("brk", "mmap") for call, *_ in stock):  # nothing is the same as nothing
        raise AbhError(
            "no system call for memory was seen",
            where=f"strace of {name} (smoke)",
            got=stock,
            expected="brk or mmap",
            next_step="see whether strace works here: strace -f -e trace=memory true",
        )
    for allocator in (Allocator("patched, no tunable", patched=True), ALLOCATORS[2]):
        if difference := first_difference(sandbox.trace(allocator, workload), stock):
            raise AbhError(
                f"{allocator.name} is not stock malloc", where=f"system calls of {name} (smoke)", got=difference
            )
    progress.say(f"{name}: with the tunable off, all {len(stock)} system calls for memory are as of stock malloc")


def check_all_off_is_stock() -> None:
    """The same for each workload whose system calls can be compared."""
    from abh.schema import spec

    known, sandbox = spec.workloads(), Sandbox.make()
    for name in DETERMINISTIC:
        check_off_is_stock(sandbox, known[name])


# --- results ----------------------------------------------------------------------------------------------------


def write(path: Path, lines: Sequence[Line | idle.Line]) -> None:
    """The CSV."""
    write_csv(path, [dataclasses.asdict(line) for line in lines])


def read(path: Path) -> list[Line]:
    """The lines of a CSV; none if there is no file."""
    if not path.exists():
        return []
    kinds = {field.name: field.type for field in dataclasses.fields(Line)}
    convert = {"str": str, "int": int, "float": float}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [
                Line(**{name: convert[str(kinds[name])](word) for name, word in row.items()})
                for row in csv.DictReader(file)
            ]
    except (KeyError, TypeError, ValueError) as error:
        raise AbhError(
            "a file of measurements cannot be read", where=path, got=repr(error), next_step="remove it, measure again"
        ) from error


COLUMNS = ("Alloc.Ratio", "faults", "hugepages", "peak RSS, MiB", "RSS of stock", "time of stock")


def cells(line: Line) -> tuple[str, ...]:
    """What the columns show."""
    return (
        f"{100 * line.alloc_ratio:.1f} %",
        f"{line.minor_faults:,}",
        f"{line.huge_faults:,}" + (f"–{line.huge_faults_high:,}" if line.huge_faults_high > line.huge_faults else ""),
        f"{line.rss_peak_kib / 1024:.1f}",
        f"{line.rss_ratio:.3f} ({line.rss_ratio_low:.3f}–{line.rss_ratio_high:.3f})",
        f"{line.time_ratio:.2f} ({line.time_ratio_low:.2f}–{line.time_ratio_high:.2f})",
    )


def show(lines: Sequence[Line]) -> None:
    """The table on the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    if not lines:
        return
    console = Console(highlight=False, width=None if os.isatty(1) else 130)
    table = Table(title=title(lines), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("workload", "malloc"):
        table.add_column(name, no_wrap=True)
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for (workload, thp), group in itertools.groupby(lines, key=lambda line: (line.workload, line.thp)):
        for place, line in enumerate(group):
            table.add_row(f"{workload} ({thp})" if place == 0 else "", line.allocator, *cells(line))
        table.add_section()
    console.print(table)


def title(lines: Sequence[Line]) -> str:
    """What was measured, in a line."""
    first = lines[0]
    rounds = f"medians of {first.rounds} interleaved rounds" if first.rounds > 1 else "one round"
    return (
        f"size {first.size}, {rounds}; after a name the mode of hugepages; in brackets the lowest and highest. "
        "Hugepages, and Alloc.Ratio of them: the fewest of any round, as they are the whole system's and others add to "
        "them"
    )
