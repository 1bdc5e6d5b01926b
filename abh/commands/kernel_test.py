# SPDX-License-Identifier: MIT
"""Test the patched kernel itself, in an emulated machine.

  fuzz        random memory calls against a model of their semantics (tests/kernel/fuzz.c)
  semantics   one case for each thing that must hold (tests/kernel/semantics/, slack/), and a comparison with
              the same kernel without ABH's patches: with ABH off, a program must see the same
  selftests   the kernel's own tools/testing/selftests/mm, with ABH off and on

A kernel without ABH is tested as stock; --stock takes the series without ABH's patches.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

HELP = "test the patched kernel: fuzz it, check its semantics, run its selftests"
POLICIES = ("never", "opt-in", "always")
KNOBS = "/sys/kernel/mm/abh"
KHUGEPAGED = "/sys/kernel/mm/transparent_hugepage/khugepaged"
NO_BOUND = 1 << 30  # KiB

# Cases of semantics that have a reason to be skipped: any other would be missed by nobody.
SKIP = re.compile(r"ok \d+ - \w+: (.*) # SKIP")
OF_DEBUG = {  # what only the debug kernel has
    "a NUMA policy of the heap",
    "a NUMA policy of the task",
    "a policy of the task",
    "a policy of a mapping",
    "a policy of the task, and pieces",
    "tracepoint of heaps",
    "tracepoint of mappings",
    "KUnit of heaps",
    "KUnit of mappings",
    "nothing is extended for 32 bits",
    "ABH leaves programs of 32 bits alone",
}
OF_ABH = {
    "counters, and /proc/PID/status",
    "counters of limits and locks",
    "tracepoint of heaps",
    "tracepoint of mappings",
    "KUnit of heaps",
    "KUnit of mappings",
    "programs choose by prctl",
    "nobody chooses for set-user-ID programs",
    "each switch takes away what it stands for",
    "switches take what they can read",
    "nothing is kept without mmap_extend",
    "each counter counts",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("what", choices=sorted(TESTS), help="which tests")
    parser.add_argument("--debug-kernel", action="store_true", help="with KASAN, lockdep and CONFIG_DEBUG_VM (slow)")
    parser.add_argument("--stock", action="store_true", help="the kernel without ABH's patches")
    parser.add_argument(
        "--policy",
        choices=POLICIES,
        default="always",
        help="fuzz: who gets ABH; with opt-in the fuzzer asks for it (default: %(default)s)",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KNOB=VALUE", help=f"fuzz, selftests: a file of {KNOBS}"
    )
    parser.add_argument("--ops", type=int, default=100_000, help="fuzz: operations (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="fuzz: seed (default: %(default)s)")
    parser.add_argument("--episode", type=int, default=0, help="fuzz: begin with this episode")
    parser.add_argument("--aslr", action="store_true", help="fuzz: random addresses")
    parser.add_argument("--noise", action="store_true", help="fuzz: a second thread reads meanwhile, on two processors")
    parser.add_argument("--replay", type=Path, help="fuzz: run the operations of this file, as a failure printed them")
    parser.add_argument("--ours", action="store_true", help="selftests: only those of the series, under one policy")
    parser.add_argument("--minutes", type=float, help="how long it may take (default: by what it does)")


def run(args: argparse.Namespace) -> int:
    """Run them; status 1 if something does not hold."""
    return 0 if TESTS[args.what](args) else 1


def _kernel(args: argparse.Namespace) -> Path:
    from abh.bench import testbed

    return testbed.kernel("linux-debug" if args.debug_kernel else "linux", stock=args.stock)


def _has_abh(args: argparse.Namespace) -> bool:
    from abh.bench import testbed

    return not args.stock and testbed.has_abh()


def _settings(pairs: Sequence[str]) -> list[str]:
    """Lines of the job that write files of ABH: each of KNOB=VALUE."""
    from abh.errors import AbhError

    for pair in pairs:
        if not re.fullmatch(r"\w+=\S+", pair):
            raise AbhError("no setting", where="--set", got=pair, expected="KNOB=VALUE", next_step="as unused_kib=1024")
    return [f"set {KNOBS}/{name} {value}" for name, _, value in (pair.partition("=") for pair in pairs)]


def _knobs(args: argparse.Namespace) -> list[str]:
    """Lines of the job that set ABH up."""
    if not _has_abh(args):
        return []
    # Small programs may have little slack, and the fuzzer is one; named once more, it is as asked.
    return _settings([f"unused_kib={NO_BOUND}", *args.set, f"enabled={args.policy}"])


def _fuzz(args: argparse.Namespace) -> bool:
    from abh.bench import testbed

    words = ["/fuzz", "--seed", str(args.seed), "--ops", str(args.ops), "--episode", str(args.episode)]
    words += [f"--{name}" for name in ("aslr", "noise") if getattr(args, name)]
    files = {}
    if args.replay:
        files["replay"] = args.replay.read_bytes()
        words += ["--replay", "/replay"]
    knobs = _knobs(args)
    words += ["--ask"] if knobs and args.policy == "opt-in" else []
    if knobs and args.policy != "never":
        # A replayed list may be too short for a surplus or slack; a run without one would show nothing of ABH.
        bare = args.replay or {"heap_end=0", "heap_keep=0"} & set(args.set)
        words += ["--extended" if bare else "--surplus"]
        words += [] if args.replay or "mmap_extend=0" in args.set else ["--slack"]
        plain = not any(pair.startswith("mmap_") for pair in args.set)
        words += ["--before"] if args.aslr and plain and not args.replay else []
    # Slowest seen: 300 operations a second in the debug kernel. Shrinking a failure takes some minutes more.
    limit_s = 60 * args.minutes if args.minutes else 900 + args.ops / 100
    job = [*knobs, f"run {' '.join(words)}"]
    processors = 2 if args.noise else 1
    said = testbed.run(_kernel(args), job, limit_s=limit_s, files=files, processors=processors, tell=_tell)
    return _verdict(said)


def _semantics(args: argparse.Namespace) -> bool:
    from abh.bench import testbed

    limit_s = 60 * (args.minutes or (60 if args.debug_kernel else 15))
    # Two processors: some cases are of calls that meet. Two nodes: others say where memory is to be.
    job = ["run /semantics", "run /slack"]
    said = testbed.run(_kernel(args), job, limit_s=limit_s, processors=2, nodes=2, tell=_tell)
    ran = _all_ran(said.lines, _skips(args))
    held = _verdict(said) and ran
    if not _has_abh(args):
        return held
    for policy in ("opt-in", "always"):
        job = [f"run /semantics booted {policy}"]
        said_then = testbed.run(_kernel(args), job, limit_s=limit_s, cmdline=f"abh={policy}", tell=_tell)
        held = _verdict(said_then) and held
    if args.debug_kernel:
        return held  # what a program sees is compared in the kernel that programs run on
    # In machines of their own, where nothing has set ABH on yet, and no second processor makes what differs each time.
    stock = testbed.kernel("linux", stock=True)
    # Nor does khugepaged, which would put a hugepage where a program is about to fault.
    job = [f"set {KHUGEPAGED}/max_ptes_none 0", "run /semantics layout"]
    layouts = [testbed.run(each, job, limit_s=limit_s) for each in (stock, _kernel(args))]
    return _same_layout(*(testbed.outputs(each.lines)[0][1] for each in layouts)) and held


def _skips(args: argparse.Namespace) -> set[str]:
    """The cases that the kernel has not what they need for."""
    return (set() if args.debug_kernel else OF_DEBUG) | (set() if _has_abh(args) else OF_ABH)


def _all_ran(lines: Sequence[str], but: set[str]) -> bool:
    """Whether no case was skipped but these."""
    skipped = {found[1] for found in map(SKIP.fullmatch, lines) if found}
    for name in sorted(skipped - but):
        print(f"kernel-test: skipped, and this kernel has what it needs: {name}", flush=True)
    return skipped <= but


def _same_layout(stock: list[str], off: list[str]) -> bool:
    import difflib

    differences = list(difflib.unified_diff(stock, off, "without ABH", "ABH off", lineterm=""))
    print("\n".join(differences) if differences else "with ABH off a program sees the same as without its patches")
    return bool(stock) and not differences


def _selftests(args: argparse.Namespace) -> bool:
    from abh.bench import selftests

    # The series' own tests set the switch by themselves.
    policies = [selftests.STOCK] if not _has_abh(args) else ["never"] if args.ours else ["never", "always"]
    limit_s = 60 * (args.minutes or 60)
    return selftests.run(
        _kernel(args), policies, limit_s=limit_s, tell=_tell, only_ours=args.ours, settings=_settings(args.set)
    )


TESTS = {"fuzz": _fuzz, "semantics": _semantics, "selftests": _selftests}


def _tell(line: str) -> None:
    print(line, flush=True)


def _verdict(said: object) -> bool:
    from abh.bench import testbed

    assert isinstance(said, testbed.Said)
    if said.problem:
        print(f"kernel-test: {said.problem}", flush=True)
    return said.ok
