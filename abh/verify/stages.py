# SPDX-License-Identifier: MIT
"""The stages of the tests: what each shows, what it needs built, and which files it is about.

The quick ones are `make test`: they prove the main claims. All of them are `make test-full`. A stage that has passed is
remembered by the content of the files it is about, so that what a change does not touch need not run again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from abh import paths
from abh.build import cache, components, root, series

# Tests of malloc that are unsupported where the kernel has no hugepages of 2 MiB, and so passed over without a word.
OF_HUGEPAGES = tuple(
    f"tst-malloc-abh-{each}" for each in ("default", "limits", "memory", "off", "offset", "thresholds")
)
OWN_REASONS = {  # these also for one of their own
    "tst-malloc-abh": "the kernel had too few hugepages to give",
    "tst-malloc-abh-locked": "memory could not be locked",
}
HUGEPAGE = 2 << 20
PREFIX_KERNEL = "linux-prefix"
ITANIUM_FUZZ = 2000
ITANIUM_SEMANTICS = 1000
ITANIUM_FUZZ_OF_PAGES = 800  # with other base pages, each: a page of 64 KiB is many words
NO_ITANIUM_LINUX = (
    "NOT SHOWN on this machine: Linux for Itanium, as its compiler and its kernel are not built here: `make itanium` "
    "builds them in about 25 minutes, and `bin/abh test itanium` shows all of it\n"
)


@dataclass(frozen=True)
class Ended:
    """How a stage ended, and all that it said."""

    passed: bool
    text: str


@dataclass(frozen=True)
class Stage:
    """A part of the tests."""

    name: str
    shows: str
    minutes: float  # about, on two cores, once all that it needs is built
    do: Callable[[], Ended]
    about: tuple[str, ...]  # folders and files whose content decides whether it passes
    needs: tuple[str, ...] = ()  # components
    roots: tuple[str, ...] = ()
    boots: tuple[str, ...] = ()  # environments whose machines it thaws
    quick: bool = False
    memory_mib: int = 1500


def _said(*words: str, **environment: str) -> Ended:
    """Runs a command of this Python, and keeps what it says."""
    done = subprocess.run(
        ["setpriv", "--pdeathsig", "KILL", sys.executable, *words],  # it must not outlive this process
        cwd=paths.CHECKOUT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return Ended(done.returncode == 0, done.stdout)


def _abh(*words: str) -> Ended:
    return _said("-m", "abh", *words)


def _each(*runs: Callable[[], Ended]) -> Ended:
    """All of them, also after one that failed."""
    ended = [run() for run in runs]
    return Ended(all(each.passed for each in ended), "".join(each.text for each in ended))


def _pytest(*words: str, **environment: str) -> Ended:
    """Tests that were all skipped have shown nothing."""
    made = _said("-m", "pytest", "-q", "-ra", *words, **environment)
    shown = re.search(r"^\d+ passed\b|, \d+ passed\b", made.text, re.MULTILINE) is not None
    return Ended(made.passed and shown, made.text if shown else f"{made.text}no test has passed\n")


def _workers() -> str:
    from abh import schedule

    return str(max(2, schedule.processors()))


def _patches() -> Ended:
    """All series are sound. Those that a study is made of apply; the stage `series` builds the others, too."""
    from abh.build import series

    studied = [str(each) for each in series.find_series() if not components.of_series(each).on_demand]
    return _each(partial(_abh, "check-series"), partial(_abh, "check-series", "--apply", *studied))


def _unit() -> Ended:
    return _pytest("tests/unit", "-n", _workers())


def _integration() -> Ended:
    """C is compiled once for a file's tests."""
    return _pytest("tests/integration", "-n", _workers(), "--dist", "loadfile")


def _boot(*words: str) -> Ended:
    """A file's tests share cells, and a machine keeps one processor busy."""
    return _pytest("tests/boot", "-n", _workers(), "--dist", "loadfile", *words)


def _policy() -> Ended:
    """Machines that boot, beside the tests that share a libvirtd, which are one process's."""
    booted = [f"tests/policy/test_{name}.py" for name in ("xen", "kvm")]
    others = ["tests/policy", *(f"--ignore={each}" for each in booted)]
    with ThreadPoolExecutor(2) as pool:
        made = [pool.submit(_pytest, "--durations=5", *words) for words in (booted, others)]
    return _each(*(each.result for each in made))


def _plugin() -> Ended:
    """The plugins' own tests run in QEMU as it is built here, inside the build root."""
    parts = {f"/in/{name}": components.path_of(name) for name in ("qemu", "plugin", "mmu")}
    enter = root.enter(root.path_of("build"), read_only=parts, scratch="/in")
    at = enter.index("--chdir")
    words = [*enter[:at], "--bind", "{tmp}", "{tmp}", *enter[at:]]
    return _pytest(
        "tests/plugin",
        ABH_ENTER=" ".join(words),
        ABH_QEMU="/in/qemu/qemu-system-x86_64 -L /usr/share/seabios -L /usr/share/qemu",
        ABH_PLUGIN="/in/plugin/region.so",
        ABH_MODEL="/in/mmu/mmu.so",
    )


def _log(component: str, name: str) -> list[str]:
    """What tests that are a build have left: sources that have passed are not tried again."""
    return (components.path_of(component) / name).read_text().splitlines()


def _passed(lines: Sequence[str], *starts: str) -> Ended:
    """Counts the lines that start so; passed if there are any of the first."""
    counts = [sum(line.startswith(start) for line in lines) for start in starts]
    return Ended(counts[0] > 0, "".join(f"{start} {count}\n" for start, count in zip(starts, counts, strict=True)))


def _cargo(component: str) -> Ended:
    lines = _log(component, "build.log")  # of a build that failed there is none
    return _passed(lines, "test result: ok", "test result: FAILED")


def _itanium() -> Ended:
    """The machine's crates, GCC's tests of execution on it, Linux on it, cells under Linux."""
    from abh.verify import itanium, thesis

    return _each(
        partial(_cargo, "itanium-tests"),
        partial(_cargo, "itanium-torture-tests"),
        lambda: Ended(*itanium.boots_alike()),
        lambda: Ended(*thesis.checks()),
        lambda: Ended(*itanium.fuzz(ITANIUM_FUZZ)),
        lambda: Ended(*itanium.semantics(ITANIUM_SEMANTICS)),
        lambda: Ended(*itanium.frugal()),
        lambda: Ended(*itanium.later_words()),
        lambda: Ended(*thesis.other_pages(ITANIUM_FUZZ_OF_PAGES)),
        lambda: Ended(*itanium.torture()),
        lambda: Ended(*itanium.cells()),
    )


def _itanium_slice() -> Ended:
    """The walkers, with the thesis' small programs; and Linux, where its compiler and its kernel are built: to build
    them takes as long as all of the quick stages."""
    from abh.verify import itanium, thesis

    walkers = partial(_cargo, "itanium-mmu-tests")
    if not all(components.is_built(name) for name in ("ia64-gcc", "linux-ia64")):
        return _each(walkers, lambda: Ended(True, NO_ITANIUM_LINUX))
    return _each(
        walkers,
        lambda: Ended(*itanium.boots_alike(("sf", "lf-lp"))),
        lambda: Ended(*thesis.checks(slice_alone=True)),
    )


def _malloc() -> Ended:
    """malloc's own tests."""
    lines = _log("glibc-tests", "malloc.sum")
    passed = _passed(lines, "PASS: malloc/", "UNSUPPORTED: malloc/", "FAIL: malloc/")
    return _each(lambda: passed, lambda: hugepages_shown(lines, _no_hugepages()))


def _no_hugepages() -> str | None:
    """Why malloc can get none of 2 MiB on this machine; None where it can."""
    from abh.compare import modes
    from abh.errors import AbhError

    try:
        modes.thp_mode(paths.THP / "enabled")
    except AbhError as error:
        return error.what
    size = (paths.THP / "hpage_pmd_size").read_text(encoding="ascii").strip()
    if size != str(HUGEPAGE):
        return f"this kernel's hugepages have {size} bytes"
    own = paths.THP / f"hugepages-{HUGEPAGE >> 10}kB" / "enabled"  # since Linux 6.8
    never = own.exists() and "[never]" in own.read_text(encoding="ascii")
    return "hugepages of 2 MiB are off on this machine" if never else None


def hugepages_shown(lines: Sequence[str], why_not: str | None) -> Ended:
    """Whether malloc's tests of hugepages passed, as they must where there are any; elsewhere it is said that nothing
    was shown."""
    results = {name: result for result, _, name in (line.partition(": malloc/") for line in lines)}
    names = (*OWN_REASONS, *OF_HUGEPAGES)
    others = {each: results.get(each, "not run") for each in names if results.get(each) != "PASS"}
    reasons = {each: why_not or OWN_REASONS.get(each) for each, result in others.items() if result == "UNSUPPORTED"}
    excused = {each: why for each, why in reasons.items() if why}
    said = []
    for why in sorted(set(excused.values())):
        which = ", ".join(sorted(each for each in excused if excused[each] == why))
        said.append(f"NOT SHOWN on this machine: what malloc does with hugepages ({which}): {why}\n")
    failed = others.keys() - excused.keys()
    said += [f"malloc/{each} must pass on this machine: {others[each]}\n" for each in sorted(failed)]
    return Ended(not failed, "".join(said))


def _malloc_off() -> Ended:
    """With malloc's tunable off, programs make the system calls for memory of the distribution's."""
    from abh.compare import allocators

    allocators.check_all_off_is_stock()
    return Ended(True, "with its tunable off, patched malloc makes stock malloc's system calls\n")


def _kernel_off() -> Ended:
    """With ABH off, a program's memory is laid out as by a kernel without the patches; the small kernel shows it."""
    from abh.verify import testbed

    return Ended(*testbed.same_layout(testbed.kernel(PREFIX_KERNEL, stock=True), components.path_of(PREFIX_KERNEL)))


def _off() -> Ended:
    return _each(_malloc_off, _kernel_off)


def _kernel_tests(runs: Sequence[Sequence[str]]) -> Ended:
    """Parts of `abh kernel-test`, two at a time, the longest first, as a machine keeps one processor busy."""
    from concurrent.futures import ThreadPoolExecutor

    from abh import progress

    def one(words: Sequence[str]) -> Ended:
        with progress.step(f"running kernel-test {' '.join(words)}"):
            return _abh("kernel-test", *words)

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(one, runs))  # a list: each runs even if one before it failed
    return Ended(all(each.passed for each in ended), "".join(each.text for each in ended))


DEBUG, FUZZ = "--debug-kernel", ("fuzz", "--ops")
KERNEL_RUNS = (
    ("semantics", DEBUG),
    ("semantics",),
    # As shipped, with random addresses, while another thread reads; the slow kernel watches.
    (*FUZZ, "5000", DEBUG, "--aslr", "--noise", "--seed", "3", "--set", "unused_kib=2048"),
    (*FUZZ, "10000", DEBUG, "--policy", "opt-in", "--seed", "4"),
    (*FUZZ, "5000", DEBUG, "--seed", "5", "--set", "heap_threshold_kib=0", "--set", "mmap_threshold_kib=0"),
    (*FUZZ, "40000", "--policy", "always"),
    (*FUZZ, "40000", "--policy", "never", "--seed", "2"),
    ("selftests", "--ours"),
    ("cost",),
    ("navarro", "adversary", "bytes", "unpromoted", "sparse", "preemption"),  # those that need no files
)


def _kernel() -> Ended:
    from abh.verify import testbed

    testbed.kernel("linux", stock=True)
    return _kernel_tests(KERNEL_RUNS)


def _fuzz() -> Ended:
    """A bounded fuzz, on and off."""
    return _kernel_tests([(*FUZZ, "20000", "--policy", "always"), (*FUZZ, "5000", "--policy", "never", "--seed", "2")])


def _newest() -> Ended:
    """The self-test of the newest kernel's series, its KUnit test, which runs at boot, and what calls cost."""
    from abh.verify import testbed

    test = {"brk_ahead": (components.path_of("newest-selftests") / "brk_ahead").read_bytes()}
    words = "kunit.enable=1 loglevel=7"  # so that the console has what KUnit says
    said = testbed.run(
        components.path_of(testbed.NEWEST_KERNEL), ["run /brk_ahead"], files=test, limit_s=600, cmdline=words
    )
    kunit = [found[1] for found in (re.search(r"\] (not ok|ok) \d+ brk_ahead$", line) for line in said.lines) if found]
    cost = _abh("kernel-test", "cost", "--newest")
    text = "".join(f"{line}\n" for line in (*said.lines, said.problem or ""))
    return Ended(said.ok and kunit == ["ok"] and cost.passed, text + cost.text)


XEN_FUZZ = ("xen-test", "tables", "--debug", "--mmu-check", "--fuzz", "5000")


def _xen() -> Ended:
    """Each guest; on Xen with its assertions, with the MMU model beside, page tables and a bounded adversary; and what
    the guests say of a Xen from which something was taken away."""
    return _each(partial(_abh, "xen-test"), partial(_abh, *XEN_FUZZ), partial(_abh, "xen-test", "--mutants"))


# What every stage runs on.
COMMON = ("requirements.txt", "requirements-dev.txt", "requirements-system.txt", "pyproject.toml", "bin/abh",
          "abh/verify", "abh/build", "abh/machine", "abh/schema", "abh/schedule.py", "abh/commands/test.py",
          "abh/commands/check_series.py", "vm-configs/roots")  # fmt: skip
BENCH = ("abh", "recipes", "vm-configs")
SERIES = tuple(sorted({str(each.parent.relative_to(paths.CHECKOUT)) for each in series.find_series()}))
MACHINES = (*BENCH, *SERIES, "agent", "workloads")

# In the order of `make test-full`: cheapest, and likeliest to break, first.
STAGES = {
    each.name: each
    for each in (
        Stage("lint", "style, types and licences of all sources", 0.7, partial(_abh, "lint"), (".",), quick=True),
        Stage("patches", "the series are complete, documented, and apply in order without fuzz", 1,
              _patches, (*SERIES, "abh/build"), roots=("build",), quick=True),
        Stage("unit", "each part alone", 1.5, _unit,
              (*MACHINES, "analysis", "tests/unit", "tests/kernel", "bin", "tools", ".ci", "Makefile"), quick=True),
        Stage("integration", "C programs alone, compiled in the build root; real perf and its lists", 1, _integration,
              (*MACHINES, "tests/integration", "tests/kernel"), roots=("build", "perf"), quick=True),
        Stage("fuzz", "random memory calls mean on the patched kernel what they mean to a plain model", 1, _fuzz,
              ("kernel-patches", "tests/kernel", *BENCH),
              ("linux", "qemu", "kernel-tests"), quick=True, memory_mib=2600),
        Stage("off", "with the switches off, programs see what they see without the patches", 1.5, _off,
              ("kernel-patches", "glibc-patches", "tests/kernel", "workloads", *BENCH),
              ("glibc", "workloads", PREFIX_KERNEL, "qemu", "kernel-tests"), ("allocators",), quick=True),
        Stage("claims", "hugepages with and without ABH, a cell that repeats, addresses as the emulator has them", 3,
              partial(_boot, "-m", "claim"), (*MACHINES, "tests/boot", "hypervisor/mmu-model"),
              ("mmu",), boots=("native", "kvm-hap", "xen-hap"), quick=True, memory_mib=5200),
        Stage("itanium-slice", "the Itanium machine's walkers; Linux on it, where that is built", 0.6,
              _itanium_slice, ("hypervisor/itanium", "hypervisor/mmu-model", "tests/itanium", "kernel-patches/6.1-ia64",
                               "vm-configs/kconfig/linux-ia64", "recipes"),
              ("itanium-mmu-tests", "itanium"), quick=True),
        Stage("browser", "the page in a browser", 1, partial(_pytest, "tests/browser"),
              ("abh", "analysis", "tests/browser", "vm-configs/roots"), roots=("browser",)),
        Stage("debs", "Debian packages pass lintian, install, boot, work and go", 7, partial(_pytest, "tests/debs"),
              (*MACHINES, "packages", "tests/debs"), ("linux", "glibc", "xen", "xen-tools", "agent", "qemu"), ("debs",),
              memory_mib=2700),
        Stage("hosts", "a study through SSH and a real Slurm", 1, partial(_pytest, "tests/hosts"),
              ("abh", "tests/hosts", "tests/unit"), roots=("cluster",)),
        Stage("model", "the MMU model's own tests", 0.1, partial(_cargo, "mmu-tests"),
              ("hypervisor/mmu-model", "recipes"), ("mmu-tests",)),
        Stage("itanium", "the Itanium machine: its crates, GCC's tests of execution, Linux booted twice, cells", 4,
              _itanium, ("hypervisor/itanium", "hypervisor/mmu-model", "tests/itanium", "kernel-patches/6.1-ia64",
                         "vm-configs/kconfig/linux-ia64", "vm-configs/kconfig/linux-ia64-4k",
                         "vm-configs/kconfig/linux-ia64-64k", "vm-configs/policies/itanium", "workloads/itanium",
                         "agent/ia64", "tests/kernel", "glibc-patches/2.36", "recipes"),
              ("itanium-tests", "itanium-torture-tests", "itanium-torture-linux", "itanium", "linux-ia64",
               "linux-ia64-4k", "linux-ia64-64k", "itanium-initramfs", "itanium-initramfs-4k", "itanium-initramfs-64k",
               "ia64-initramfs", "itanium-kernel-tests")),
        Stage("policy", "per-VM policy on a real libvirt, with KVM, with Xen: hook, lies, hostile names", 18, _policy,
              ("abh", "vm-configs", "tests/policy", "tests/hosts", "docs/policy.md"),
              ("linux", "xen", "qemu", "libvirt-image", "libvirt-initramfs", "libvirt-tests"), ("libvirt", "cluster"),
              memory_mib=3600),
        Stage("plugin", "the plugins and the emulator's patches, on small machine programs", 1, _plugin,
              ("hypervisor", "recipes", "tests/plugin", "agent/region.h"), ("qemu", "plugin", "mmu")),
        Stage("malloc", "malloc's own tests, with the tunable off and on", 0.2, _malloc,
              ("glibc-patches", "recipes"), ("glibc-tests",)),
        Stage("boot", "machines that boot, in every environment", 20, _boot, (*MACHINES, "tests/boot", "hypervisor"),
              ("mmu", "linux", "qemu"), boots=("native", "kvm-hap", "kvm-shadow", "xen-hap", "xen-shadow", "xen-pv"),
              memory_mib=5200),
        Stage("kernel", "the kernel's semantics, self-tests and fuzz, also with KASAN and lockdep", 30, _kernel,
              ("kernel-patches", "tests/kernel", *BENCH),
              ("linux", "linux-debug", "kernel-tests", "mm-selftests", "qemu"), memory_mib=2600),
        Stage("newest", "the heap's half for upstream, on the newest kernel: self-test, KUnit, what calls cost", 1.5,
              _newest, ("kernel-patches/7.3", "tests/kernel", "recipes", "vm-configs/kconfig"),
              ("linux-newest-prefix", "newest-selftests", "kernel-tests", "qemu")),
        Stage("xen", "Xen's shadow page tables, with superpages and without, under small guests", 35, _xen,
              ("hypervisor/xen", "tests/xen", "agent", *BENCH),
              ("xen", "xen-debug", "xen-mutants", "xen-tests", "xl-initramfs", "qemu", "mmu"), memory_mib=2600),
        Stage("organisations", "whole runs through other organisations of page tables: `make organisations`",
              25, partial(_abh, "organisations"), (*MACHINES, "hypervisor/mmu-model"),
              ("mmu",), boots=("native", "kvm-hap", "kvm-shadow"), memory_mib=2600),
        Stage("series", "every series builds after each of its patches, each kernel boots, each Xen runs guests", 80,
              partial(_abh, "check-series", "--build"),
              (*SERIES, "recipes", "vm-configs/kconfig", "tests/kernel", "tests/xen", "agent"),
              ("kernel-tests", "xen-tests", "xl-initramfs", "qemu"), memory_mib=2600),
    )
}  # fmt: skip


def key_of(stage: Stage, files: Sequence[Path]) -> str:
    """Names what a stage's passing rests on: the files that it is about, and the keys of what it needs built,
    which have the packages of the roots."""
    mine = [each for each in files if "." in stage.about or _within(each, (*stage.about, *COMMON))]
    there = [path for path in (paths.CHECKOUT / each for each in mine) if path.is_file()]
    built = [components.key_of(name) for name in stage.needs]
    roots = [root.contents(name).digest for name in stage.roots]
    return cache.key_of(stage.name, cache.digest_files(there, paths.CHECKOUT), *built, *roots)


def _within(file: Path, folders: Sequence[str]) -> bool:
    return any(file.is_relative_to(each) for each in folders) and file.suffix != ".md"


def _record(stage: Stage, key: str) -> Path:
    return paths.cache() / "passed" / f"{stage.name}-{key}"


def has_passed(stage: Stage, files: Sequence[Path]) -> bool:
    """Whether the stage has passed here with just these files; where it never passed, nothing is built to find out."""
    ever = any((paths.cache() / "passed").glob(f"{stage.name}-*"))
    return ever and _record(stage, key_of(stage, files)).exists()


def remember(stage: Stage, key: str, seconds: float) -> None:
    """Notes that the stage has passed with the files of that key, and how long it took."""
    record = _record(stage, key)
    record.parent.mkdir(exist_ok=True)
    record.write_text(f"{seconds:.0f} s, {time.strftime('%Y-%m-%d %H:%M')}\n")


def chosen(names: Sequence[str], *, full: bool) -> Mapping[str, Stage]:
    """The stages named, else the quick ones, or all."""
    return {name: each for name, each in STAGES.items() if (name in names if names else full or each.quick)}
