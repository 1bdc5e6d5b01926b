# SPDX-License-Identifier: MIT
"""Compare malloc implementations natively: on this machine and its kernel as they are, without root.

Every implementation runs the bench's workloads in turn, several rounds of it, inside one Debian root. Before that it is
checked that patched malloc with its tunable off makes the same system calls for memory as the distribution's.
"""

from __future__ import annotations

import argparse
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

from abh import paths
from abh.bench.doctor import THP
from abh.errors import AbhError

HELP = "compare malloc implementations on this machine, with its own kernel"
RESULT = "allocators.csv"
THP_ENABLED = THP / "enabled"
VMSTAT = Path("/proc/vmstat")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
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
TRACED = "brk,mmap,munmap,mremap,madvise,mprotect,execve"


@dataclass(frozen=True)
class Allocator:
    """One way to run a program: which C library, with which settings, which library preloaded."""

    name: str
    patched: bool = False
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
    Allocator("jemalloc", preload="libjemalloc.so.?"),
    Allocator("jemalloc thp:always", preload="libjemalloc.so.?", settings=(("MALLOC_CONF", "thp:always"),)),
    Allocator("tcmalloc", preload="libtcmalloc_minimal.so.?"),
    Allocator("mimalloc", preload="libmimalloc.so.?"),
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
    elapsed_s: float
    time_ratio: float
    time_ratio_low: float
    time_ratio_high: float
    cpu_ratio: float
    huge_faults_high: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="workloads to run (default: all)")
    parser.add_argument("--size", choices=("smoke", "paper"), default="smoke", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each (default: %(default)s)")
    parser.add_argument(
        "--results", type=Path, default=paths.MEASURED, metavar="DIR", help="where the CSV goes (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Check, measure, write the CSV, print the table."""
    from abh.bench import progress, spec, workload

    if args.rounds < 1:
        raise AbhError("no rounds to run", got=args.rounds, expected="1 or more")
    known = spec.workloads()
    if unknown := [name for name in args.workloads if name not in known]:
        raise AbhError("no such workload", got=", ".join(unknown), expected=", ".join(sorted(known)))
    mode = thp_mode(THP_ENABLED)
    chosen: list[workload.Workload] = [known[name] for name in args.workloads or sorted(known)]
    sandbox = Sandbox.make()
    for each in chosen:
        if each.name in DETERMINISTIC:
            check_off_is_stock(sandbox, each)
    lines: list[Line] = []
    for each in chosen:
        progress.say(f"measuring {each.name} ({args.size}): {len(ALLOCATORS)} implementations, {args.rounds} rounds")
        samples = measure(functools.partial(sandbox.measure, each, args.size), ALLOCATORS, args.rounds)
        lines += summarize(each.name, args.size, mode, samples)
        write(args.results / RESULT, lines)  # what is measured so far is kept
    show(lines)
    print(f"CSV: {(args.results / RESULT).resolve()}")
    return 0


def thp_mode(path: Path) -> str:
    """The mode of transparent hugepages on this machine; an error where there are none."""
    try:
        text = path.read_text(encoding="ascii")
    except OSError as error:
        raise AbhError(
            "this kernel has no transparent hugepages",
            where=path,
            got=error.strerror,
            next_step="use a kernel with CONFIG_TRANSPARENT_HUGEPAGE, or `abh run`, which brings its own",
        ) from error
    found = re.search(r"\[(\w+)\]", text)
    mode = found[1] if found else text.strip()
    if mode not in ("always", "madvise"):
        raise AbhError(
            "transparent hugepages are off on this machine: no implementation could get any",
            where=path,
            got=mode,
            expected="always or madvise",
            next_step=f"as root: echo madvise > {path}",
        )
    return mode


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
        from abh.bench import build, root

        return cls(root.path_of("allocators"), build.path_of("glibc"), build.path_of("workloads"))

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

    def command(self, allocator: Allocator, workload: object, size: str, prefix: Sequence[str], out: Path) -> list[str]:
        """The whole command line."""
        from abh.bench import root

        libraries = {}
        if allocator.patched:
            libraries = {f"/{LIBRARIES}/{path.name}": path for path in sorted((self.glibc / LIBRARIES).iterdir())}
        enter = root.enter(
            self.root,
            # malloc reads the size and mode of hugepages there.
            read_only={"/in/workloads": self.workloads, "/sys": Path("/sys"), **libraries},
            writable={"/out": out},
            scratch="/in",
            # The patched library looks for locales in a folder of its own: all have the one that needs none.
            env={"LC_ALL": "C", **workload.env, **allocator.environment(self.preload(allocator))},  # type: ignore[attr-defined]
            chdir=f"/in/workloads/{workload.name}",  # type: ignore[attr-defined]
        )
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
    one: Callable[[Allocator], Sample], allocators: Sequence[Allocator], rounds: int
) -> dict[str, list[Sample]]:
    """Samples of each implementation. All take their turn in each round, so that what changes on the machine meanwhile
    changes all alike; in another order each round, as hugepages cost the first more than who finds them put together.
    """
    samples: dict[str, list[Sample]] = {each.name: [] for each in allocators}
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
    from abh.bench import progress

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
    from abh.bench import spec

    known, sandbox = spec.workloads(), Sandbox.make()
    for name in DETERMINISTIC:
        check_off_is_stock(sandbox, known[name])


# --- results ----------------------------------------------------------------------------------------------------


def write(path: Path, lines: Sequence[Line]) -> None:
    """The CSV."""
    from abh.report.write import write_csv

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
        f"{line.rss_ratio:.3f}",
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
    for workload, group in itertools.groupby(lines, key=lambda line: line.workload):
        for place, line in enumerate(group):
            table.add_row(workload if place == 0 else "", line.allocator, *cells(line))
        table.add_section()
    console.print(table)


def title(lines: Sequence[Line]) -> str:
    """What was measured, in a line."""
    first = lines[0]
    rounds = f"medians of {first.rounds} interleaved rounds" if first.rounds > 1 else "one round"
    return (
        f"THP {first.thp}, size {first.size}, {rounds}; in brackets the lowest and highest. Hugepages, and Alloc.Ratio "
        "of them: the fewest of any round, as they are the whole system's and others add to them"
    )
