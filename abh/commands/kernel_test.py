# SPDX-License-Identifier: MIT
"""Test the patched kernel itself, in an emulated machine.

Semantics also compares with the same kernel without ABH's patches: with ABH off, a program must see the same. A kernel
without ABH is tested as stock; --stock takes the series without ABH's patches.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from abh import arguments, output
from abh.errors import Status

BEGINS_ANEW = True
HELP = "test the patched kernel: fuzz it, check its semantics, run its selftests"
POLICIES = ("never", "opt-in", "always")
KNOBS = "/sys/kernel/mm/abh"  # what an administrator decides
ADMINISTRATORS = ("enabled", "unused_kib")
PARTS = "/sys/kernel/debug/abh"  # the other switches
NO_BOUND = 1 << 30  # KiB
OPS = 100_000
MOST_MINUTES = 60 * 24 * 7
OPERATION = re.compile(rb"^op\s+[0-9a-fA-F]", re.M)  # tests/kernel/fuzz.c prints and reads them
CASE = re.compile(r"^(?:# )?(ok|not ok) \d+ (?:- )?(.*)$")

# Cases of semantics that have a reason to be skipped: any other would be missed by nobody.
SKIP = re.compile(r"ok \d+ - \w+: (.*) # SKIP")
OF_DEBUG = {  # what only the debug kernel has
    "a NUMA policy of the heap",
    "a home node of the heap",
    "a NUMA policy of the task",
    "a policy of the task",
    "a policy of a mapping",
    "a policy of the task, and pieces",
    "tracepoint of heaps",
    "tracepoint of mappings",
    "KUnit of heaps",
    "KUnit of mappings",
    "KUnit of reservations",
    "nothing is extended for 32 bits",
    "ABH leaves programs of 32 bits alone",
    "a core file has a heap as far as its break",
}
OF_ABH = {
    "counters, and /proc/PID/status",
    "counters of limits and locks",
    "tracepoint of heaps",
    "tracepoint of mappings",
    "KUnit of heaps",
    "KUnit of mappings",
    "KUnit of reservations",
    "programs choose by prctl",
    "nobody chooses for set-user-ID programs",
    "each switch takes away what it stands for",
    "switches take what they can read",
    "few files and lines are ABI",
    "what is counted counts",
    "each counter counts",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A subcommand for each kind of test, with its own options."""
    tests = parser.add_subparsers(title="tests", dest="test", metavar="TEST", required=True)
    for name, (text, test) in TESTS.items():
        sub = tests.add_parser(name, help=text, description=text.capitalize() + ".", allow_abbrev=False)
        sub.add_argument("--debug-kernel", action="store_true", help="with KASAN, lockdep and CONFIG_DEBUG_VM (slow)")
        sub.add_argument("--stock", action="store_true", help="the kernel without ABH's patches")
        sub.add_argument(
            "--minutes",
            type=arguments.number(0, MOST_MINUTES),
            metavar="N",
            help="how long a machine may take, of processor time (default: by what it does)",
        )
        if name in OPTIONS:
            OPTIONS[name](sub)
        output.add_json(sub)
        sub.set_defaults(of_test=test, parser=sub)


def _fuzz_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy",
        choices=POLICIES,
        help="who gets ABH; with opt-in the fuzzer asks for it (default: always)",
    )
    _set_option(parser)
    parser.add_argument("--ops", type=arguments.whole(1, 10**12), metavar="N", help=f"operations (default: {OPS:,})")
    parser.add_argument("--seed", type=arguments.seed, metavar="N", help="of what is drawn (default: 1)")
    parser.add_argument(
        "--episode", type=arguments.whole(0, 10**12), metavar="N", help="begin with this one (default: 0)"
    )
    parser.add_argument("--aslr", action="store_true", help="random addresses")
    parser.add_argument("--noise", action="store_true", help="a second thread reads meanwhile, on two processors")
    parser.add_argument(
        "--reservations",
        nargs="?",
        const="partial",
        choices=("partial", "whole"),
        help="hugepages grow in place, of small mappings too; whole: also where one could be mapped at once",
    )
    parser.add_argument("--pressure", action="store_true", help="memory is taken back and moved meanwhile")
    replay = parser.add_argument(
        "--replay", type=arguments.file, metavar="FILE", help="run its operations, as a failure printed them"
    )
    arguments.completed(replay, "file")


def _selftests_options(parser: argparse.ArgumentParser) -> None:
    _set_option(parser)
    parser.add_argument("--ours", action="store_true", help="only those of the series, under one policy")


def _cost_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--newest", action="store_true", help="of the newest kernel, with the heap's half for upstream")


def _navarro_options(parser: argparse.ArgumentParser) -> None:
    names = parser.add_argument(
        "experiment", nargs="*", type=arguments.name("experiment"), help="which of them (default: all)"
    )
    arguments.completed(names, "experiment")


def _set_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=_setting,
        metavar="KNOB=VALUE",
        help=f"write a file of {KNOBS} or {PARTS} before (repeatable)",
    )


def _setting(word: str) -> str:
    if not re.fullmatch(r"\w+=\S+", word):
        raise argparse.ArgumentTypeError(f"got {word!r}, expected KNOB=VALUE, as unused_kib=1024")
    if word.startswith("enabled="):
        raise argparse.ArgumentTypeError(f"got {word!r}, and each test sets that one itself (fuzz: --policy)")
    from abh.verify import testbed

    name, known = word.partition("=")[0], testbed.switches()
    if known and name not in (*ADMINISTRATORS, *known):  # a series without ABH has none, and is not asked for any
        raise arguments.unknown("switch of ABH", name, ["unused_kib", *known])
    return word


def run(args: argparse.Namespace) -> int:
    """Run them; status 1 if something does not hold."""
    _check_together(args)
    heard = Heard()
    with output.report(args.json) as report:
        passed = args.of_test(args, heard)
        report.update(test=args.test, passed=passed, **heard.found, machines=heard.machines())
    return Status.SUCCESS if passed else Status.FAILED


def _check_together(args: argparse.Namespace) -> None:
    """What would be ignored is wrong usage."""
    for option in ("set", "policy", "reservations"):
        if args.stock and getattr(args, option, None):
            raise arguments.wrong(
                "a kernel without ABH's patches has none of ABH's files",
                got=f"--stock with --{option}",
                next_step="leave one of them out",
            )
    if getattr(args, "replay", None) is None:
        return
    for option in ("ops", "seed", "episode"):
        if getattr(args, option) is not None:
            raise arguments.wrong(
                "a replay runs the operations of its file, and draws none",
                got=f"--replay with --{option}",
                next_step="leave one of them out",
            )
    if not OPERATION.search(args.replay.read_bytes()):
        raise arguments.wrong(
            "nothing to replay",
            got=str(args.replay),
            expected="lines `op NUMBER`, as a failure of the fuzzer printed them",
            next_step="name a file that has some",
        )


class Heard:
    """What the machines of a test said, printed as it comes and kept for the report."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, list[str]]] = []
        self.found: dict[str, Any] = {}  # what else a test found, by its name in the report

    def machine(self, about: str) -> Callable[[str], None]:
        """Takes the lines of one more machine."""
        kept: list[str] = []
        self.lines.append((about, kept))

        def hear(line: str) -> None:
            kept.append(line)
            print(line, flush=True)

        return hear

    def machines(self) -> list[dict[str, Any]]:
        """Each machine with the programs that it ran: their last status, and the cases that they told of."""
        return [_machine(about, lines) for about, lines in self.lines]


def _machine(about: str, lines: list[str]) -> dict[str, Any]:
    from abh.verify import testbed

    said = testbed.Said(lines)
    said.judge()  # one that was stopped has not said that its job was done
    return {"machine": about, "problem": said.problem, "programs": list(_programs(lines))}


def _programs(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    from abh.verify import selftests, testbed

    for policy, part in selftests.split_by_policy(lines).items():
        for command, said in testbed.outputs(part):
            status = [line.removeprefix("TEST status ") for line in said if line.startswith("TEST status ")]
            cases = [_case(found) for found in map(CASE.match, said) if found]
            # A program that a signal ended, or that did not end, has no number: its status is as the machine said it.
            under = None if policy == selftests.STOCK else policy  # None: the job did not set it
            yield {"command": command, "policy": under, "status": status[-1] if status else None, "cases": cases}


def _case(found: re.Match[str]) -> dict[str, Any]:
    name, _, directive = found[2].partition(" # ")
    result = "skip" if directive.upper().startswith("SKIP") else found[1]
    return {"name": name.strip(), "result": result, "remark": directive or None}


def _kernel(args: argparse.Namespace) -> Path:
    from abh.verify import testbed

    return testbed.kernel("linux-debug" if args.debug_kernel else "linux", stock=args.stock)


def _has_abh(args: argparse.Namespace) -> bool:
    from abh.verify import testbed

    return not args.stock and testbed.has_abh()


def _settings(pairs: Sequence[str]) -> list[str]:
    """Lines of the job that write files of ABH: each of KNOB=VALUE."""
    of_parts = [pair.partition("=") for pair in pairs]
    return [f"set {KNOBS if name in ADMINISTRATORS else PARTS}/{name} {value}" for name, _, value in of_parts]


def _policy(args: argparse.Namespace) -> str:
    return args.policy or "always"


def _knobs(args: argparse.Namespace) -> list[str]:
    """Lines of the job that set ABH up."""
    if not _has_abh(args):
        return []
    # Small programs may have little slack, and the fuzzer is one; named once more, it is as asked.
    return _settings([f"unused_kib={NO_BOUND}", *args.set, f"enabled={_policy(args)}"])


def _fuzz(args: argparse.Namespace, heard: Heard) -> bool:
    from abh.verify import testbed

    seed, ops, episode = (given if given is not None else usual for given, usual in
                          ((args.seed, 1), (args.ops, OPS), (args.episode, 0)))  # fmt: skip
    words = ["/fuzz", "--seed", str(seed), "--ops", str(ops), "--episode", str(episode)]
    words += [f"--{name}" for name in ("aslr", "noise", "reservations", "pressure") if getattr(args, name)]
    reserve = [*testbed.WITH_RESERVATIONS] if args.reservations else []
    reserve += testbed.WITH_WHOLE if args.reservations == "whole" else ()
    files = {}
    if args.replay:
        files["replay"] = args.replay.read_bytes()
        words += ["--replay", "/replay"]
    knobs = _knobs(args)
    words += ["--ask"] if knobs and _policy(args) == "opt-in" else []
    if knobs and _policy(args) != "never":
        # A replayed list may be too short for a surplus or slack; a run without one would show nothing of ABH.
        bare = args.replay or {"heap_end=0", "heap_keep=0"} & set(args.set)
        words += ["--extended" if bare else "--surplus"]
        words += [] if args.replay or "mmap_extend=0" in args.set else ["--slack"]
        plain = not any(pair.startswith("mmap_") for pair in args.set)
        words += ["--before"] if args.aslr and plain and not args.replay else []
    # Slowest seen in the debug kernel: 300 operations a second, and 30 where memory is taken back all the while.
    # Shrinking a failure takes some minutes more.
    limit_s = 60 * args.minutes if args.minutes else 900 + ops / (10 if args.pressure else 100)
    job = [*knobs, *reserve, f"run {' '.join(words)}"]
    processors = 2 if args.noise else 1
    said = testbed.run(
        _kernel(args), job, limit_s=limit_s, files=files, processors=processors, tell=heard.machine("fuzz")
    )
    return _verdict(said)


def _semantics(args: argparse.Namespace, heard: Heard) -> bool:
    from abh.verify import testbed

    limit_s = 60 * (args.minutes or (60 if args.debug_kernel else 15))
    # Two processors: some cases are of calls that meet. Two nodes: others say where memory is to be.
    job = ["run /semantics", "run /slack"]
    said = testbed.run(_kernel(args), job, limit_s=limit_s, processors=2, nodes=2, tell=heard.machine("semantics"))
    ran = _all_ran(said.lines, _skips(args))
    held = _verdict(said) and ran
    if not _has_abh(args):
        return held
    for policy in ("opt-in", "always"):
        job = [f"run /semantics booted {policy}"]
        hear = heard.machine(f"booted with abh={policy}")
        said_then = testbed.run(_kernel(args), job, limit_s=limit_s, cmdline=f"abh={policy}", tell=hear)
        held = _verdict(said_then) and held
    if args.debug_kernel:
        return held  # what a program sees is compared in the kernel that programs run on
    same, text = testbed.same_layout(testbed.kernel("linux", stock=True), _kernel(args), limit_s)
    print(text, end="", flush=True)
    return same and held


def _skips(args: argparse.Namespace) -> set[str]:
    """The cases that the kernel has not what they need for."""
    return (set() if args.debug_kernel else OF_DEBUG) | (set() if _has_abh(args) else OF_ABH)


def _all_ran(lines: Sequence[str], but: set[str]) -> bool:
    """Whether no case was skipped but these."""
    skipped = {found[1] for found in map(SKIP.fullmatch, lines) if found}
    for name in sorted(skipped - but):
        print(f"kernel-test: skipped, and this kernel has what it needs: {name}", flush=True)
    return skipped <= but


def _selftests(args: argparse.Namespace, heard: Heard) -> bool:
    from abh.verify import selftests

    # The series' own tests set the switch by themselves.
    policies = [selftests.STOCK] if not _has_abh(args) else ["never"] if args.ours else ["never", "always"]
    limit_s = 60 * (args.minutes or 60)
    return selftests.run(
        _kernel(args),
        policies,
        limit_s=limit_s,
        tell=heard.machine("selftests"),
        only_ours=args.ours,
        settings=_settings(args.set),
    )


def _cost(args: argparse.Namespace, heard: Heard) -> bool:
    from abh.verify import cost, testbed

    if args.stock:
        raise arguments.wrong("what calls cost is beside a kernel without ABH's patches", got="--stock",
                              next_step="leave it out: the first column is of that kernel")  # fmt: skip
    if args.newest and args.debug_kernel:
        raise arguments.wrong("there is no debug kernel of the newest Linux", got="--newest and --debug-kernel",
                              next_step="leave one of them out")  # fmt: skip
    limit_s = 60 * (args.minutes or 10)
    if args.newest:
        name = testbed.NEWEST_KERNEL
        stock, patched = testbed.kernel(name, stock=True), testbed.kernel(name)
        return cost.compare(stock, patched, limit_s, heard.machine, cost.NEWEST, cost.MOST_NEWEST)
    return cost.compare(testbed.kernel("linux", stock=True), _kernel(args), limit_s, heard.machine)


def _navarro(args: argparse.Namespace, heard: Heard) -> bool:
    from abh.build import components
    from abh.schema import experiment
    from abh.verify import navarro

    if args.stock:
        raise arguments.wrong(
            "a kernel without the patches has no reservations",
            got="--stock",
            next_step="leave it out: without reservations the experiments run anyway",
        )
    wanted = [each for each in experiment.experiments() if not args.experiment or each.name in args.experiment]
    files = components.path_of("guest-image") / "guest.erofs" if any(each.files for each in wanted) else None
    limit_s = 60 * (args.minutes or 60)
    told = navarro.run(_kernel(args), wanted, files, limit_s, heard.machine("experiments"))
    print()
    for each in wanted:
        print(navarro.table(each, told[each.name]))
    faults = [fault for each in wanted for fault in navarro.outside(each, told[each.name])]
    for fault in faults:
        print(f"kernel-test: {fault}")
    heard.found["experiments"] = [navarro.document(each, told[each.name]) for each in wanted]
    return not faults


TESTS = {
    "cost": ("what memory calls cost, in counted instructions, without ABH's patches, off and on", _cost),
    "fuzz": ("random memory calls against a model of their semantics (tests/kernel/fuzz.c)", _fuzz),
    "selftests": ("the kernel's own tools/testing/selftests/mm, with ABH off and on", _selftests),
    "navarro": ("Navarro's experiments, counted, without reservations and with them (tests/kernel/navarro)", _navarro),
    "semantics": ("one case for each thing that must hold (tests/kernel/semantics/, slack/)", _semantics),
}
OPTIONS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "cost": _cost_options,
    "fuzz": _fuzz_options,
    "navarro": _navarro_options,
    "selftests": _selftests_options,
}


def _verdict(said: object) -> bool:
    from abh.verify import testbed

    assert isinstance(said, testbed.Said)
    if said.problem:
        print(f"kernel-test: {said.problem}", flush=True)
    return said.ok
