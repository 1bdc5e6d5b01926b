# SPDX-License-Identifier: MIT
"""Every test there is: style, patch series, units, the page, plugin, malloc, MMU model, machines that boot."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from abh import paths

HELP = "run every test: style, patch series, units, browser, plugin, malloc, MMU model, machines in emulation"

# Tests of malloc that are unsupported where the kernel has no hugepages of 2 MiB, and so passed over without a word.
OF_HUGEPAGES = ("tst-malloc-abh-limits", "tst-malloc-abh-large", "tst-malloc-abh-offset", "tst-malloc-abh-thresholds")
OF_LAYOUT = "tst-malloc-abh"  # this one also where the kernel has none to give just then
HUGEPAGE = 2 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("stage", nargs="*", metavar="STAGE", help=f"only these: {', '.join(STAGES)}")


def run(args: argparse.Namespace) -> int:
    """Run the stages in order, all of them even after a failure; status 1 if one failed."""
    from abh.bench import progress
    from abh.errors import AbhError

    for name in args.stage:
        if name not in STAGES:
            raise AbhError("unknown stage", got=name, expected=", ".join(STAGES), next_step="name one of these")
    failed = []
    for name in args.stage or STAGES:
        start = time.monotonic()
        print(f"== {name}", flush=True)
        try:
            passed = STAGES[name]()
        except AbhError as error:  # as of what a stage has built first
            print(error)
            passed = False
        failed += [] if passed else [name]
        progress.say(f"stage {name}: {'ok' if passed else 'FAILED'} ({time.monotonic() - start:.0f} s)")
    stages = len(args.stage or STAGES)
    print(f"stages: {stages - len(failed)} passed, {len(failed)} failed", flush=True)
    return 1 if failed else 0


def _abh(*words: str) -> bool:
    return subprocess.run([sys.executable, "-m", "abh", *words], cwd=paths.CHECKOUT, check=False).returncode == 0


def _pytest(*words: str, **environment: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-ra", *words]
    return subprocess.run(command, cwd=paths.CHECKOUT, env={**os.environ, **environment}, check=False).returncode == 0


def _unit() -> bool:
    """Some compile in the build root: it is made first, where one sees how far that is."""
    from abh.bench import root

    root.path_of("build")
    return _pytest("tests/unit", "-n", "2")


def _plugin() -> bool:
    """The plugins' own tests run in QEMU as it is built here, inside the build root."""
    from abh.bench import build, root

    parts = {f"/in/{name}": build.path_of(name) for name in ("qemu", "plugin", "mmu")}
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
    from abh.bench import build

    return (build.path_of(component) / name).read_text().splitlines()


def _passed(lines: Sequence[str], *starts: str) -> bool:
    """Counts the lines that start so; whether there are any of the first."""
    counts = [sum(line.startswith(start) for line in lines) for start in starts]
    print(*(f"{start} {count}" for start, count in zip(starts, counts, strict=True)), sep="\n")
    return counts[0] > 0


def _malloc() -> bool:
    """malloc's own tests; and with its tunable off, programs must make the system calls of the distribution's."""
    from abh.commands import allocators

    lines = _log("glibc-tests", "malloc.sum")
    passed = _passed(lines, "PASS: malloc/", "UNSUPPORTED: malloc/", "FAIL: malloc/")
    shown = passed and _hugepages_shown(lines, _no_hugepages())
    allocators.check_all_off_is_stock()
    return shown


def _no_hugepages() -> str | None:
    """Why malloc can get none of 2 MiB on this machine; None where it can."""
    from abh.bench import build
    from abh.commands import allocators
    from abh.errors import AbhError

    try:
        allocators.thp_mode(build.THP / "enabled")
    except AbhError as error:
        return error.what
    size = (build.THP / "hpage_pmd_size").read_text(encoding="ascii").strip()
    return None if size == str(HUGEPAGE) else f"this kernel's hugepages have {size} bytes"


def _hugepages_shown(lines: Sequence[str], why_not: str | None) -> bool:
    """Whether malloc's tests of hugepages passed, as they must where there are any; elsewhere it is said that nothing
    was shown."""
    results = {name: result for result, _, name in (line.partition(": malloc/") for line in lines)}
    others = {each: results.get(each, "not run") for each in (OF_LAYOUT, *OF_HUGEPAGES) if results.get(each) != "PASS"}
    excused = {each for each, result in others.items() if result == "UNSUPPORTED" and (why_not or each == OF_LAYOUT)}
    if excused:
        why = why_not or "the kernel had too few hugepages to give"
        print(f"NOT SHOWN on this machine: how malloc gets hugepages ({', '.join(sorted(excused))}): {why}")
    failed = others.keys() - excused
    for each in sorted(failed):
        print(f"malloc/{each} must pass on this machine: {others[each]}")
    return not failed


def _kernel() -> bool:
    """A bounded part of what `abh kernel-test` can do; `abh kernel-test fuzz --debug-kernel --ops …` does more.

    Two at a time, the longest first, as a machine keeps one processor busy. What they need is built before.
    """
    from abh.bench import build, testbed

    for name in ("linux", "linux-debug", "kernel-tests", "mm-selftests"):
        build.path_of(name)
    testbed.kernel("linux", stock=True)
    debug, fuzz = "--debug-kernel", ("fuzz", "--ops")
    runs = [
        ("semantics", debug),
        ("semantics",),
        # As shipped, with random addresses, while another thread reads; the slow kernel watches.
        (*fuzz, "5000", debug, "--aslr", "--noise", "--seed", "3", "--set", "unused_kib=2048"),
        (*fuzz, "10000", debug, "--policy", "opt-in", "--seed", "4"),
        (*fuzz, "5000", debug, "--seed", "5", "--set", "heap_threshold_kib=0", "--set", "mmap_threshold_kib=0"),
        (*fuzz, "40000", "--policy", "always"),
        (*fuzz, "40000", "--policy", "never", "--seed", "2"),
        ("selftests", "--ours"),
    ]
    with ThreadPoolExecutor(2) as pool:
        return all(list(pool.map(_kernel_test, runs)))  # a list: each runs even if one before it failed


def _kernel_test(words: Sequence[str]) -> bool:
    """Runs it beside others: what it says is printed when it has ended."""
    from abh.bench import progress

    command = [sys.executable, "-m", "abh", "kernel-test", *words]
    with progress.step(f"running kernel-test {' '.join(words)}"):
        done = subprocess.run(
            command, cwd=paths.CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    print(done.stdout, end="", flush=True)
    return done.returncode == 0


STAGES: dict[str, Callable[[], bool]] = {
    "lint": lambda: _abh("lint"),
    "unit": _unit,
    "browser": lambda: _pytest("tests/browser"),
    "series": lambda: _abh("check-series", "--build"),
    "plugin": _plugin,
    "malloc": _malloc,
    "model": lambda: _passed(_log("mmu-tests", "build.log"), "test result: ok", "test result: FAILED"),
    "kernel": _kernel,
    # A file's tests share cells, and a machine keeps one processor busy.
    "boot": lambda: _pytest("tests/boot", "-n", "2", "--dist", "loadfile"),
}
