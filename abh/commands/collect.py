# SPDX-License-Identifier: MIT
"""Count what page walks, TLBs and page faults cost a program, or a virtual machine, on real hardware: with perf.

The events are those of the processor it runs on (vm-configs/events has a file for each microarchitecture), a few at a
time, so that no counter is shared: the program runs once for every few events, as often as --repeats says, in random
order. What is known to be wrong with a number is said beside it. A number that was not counted for all of the time, or
not at all, is n/a, with the reason. An interrupted measurement goes on when the same command is run again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from abh import arguments, output, progress
from abh.errors import AbhError, Status

if TYPE_CHECKING:
    from abh.collect import here, perf
    from abh.collect.passes import Pass
    from abh.collect.program import Observed, Values
    from abh.schema.events import Microarchitecture
    from abh.schema.measured import Measured

HELP = "count a program or a virtual machine on this machine's own processor, with perf"
REPEATS = 7  # the least, beside 6, of which a median has an interval; and odd
SECONDS = 10.0
LONGEST_S = 86_400.0
MOST_REPEATS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program or the machine, and how often."""
    parser.add_argument(
        "--vm", metavar="DOMAIN", help="a running domain of libvirt's QEMU driver, instead of a program"
    )
    parser.add_argument("--pid", type=arguments.whole(1, 2**22), help="a process that is there, as a VM's monitor")
    parser.add_argument(
        "--seconds",
        type=arguments.number(0, LONGEST_S),
        metavar="S",
        help=f"with --vm or --pid: how long each pass counts (default: {SECONDS:g})",
    )
    parser.add_argument(
        "--repeats",
        type=arguments.whole(1, MOST_REPEATS),
        default=REPEATS,
        metavar="N",
        help="runs of each pass; an interval for the median needs 6 (default: %(default)s)",
    )
    parser.add_argument(
        "--event",
        action="append",
        metavar="NAME",
        help="count this one only, beside cycles and instructions (repeatable)",
    )
    parser.add_argument("--software", action="store_true", help="only what the kernel counts: one pass")
    parser.add_argument("--name", help="what it is called in results (default: the program's, or the domain's)")
    parser.add_argument(
        "--label", default="as-found", help="under what it was measured, as thp or abh (default: %(default)s)"
    )
    parser.add_argument("--seed", type=arguments.seed, default=1, help="of the order of runs (default: %(default)s)")
    results = parser.add_argument(
        "--results",
        type=arguments.new_folder,
        metavar="DIR",
        help="where the result goes (default: analysis/measured/collect, in a folder of this machine's)",
    )
    arguments.completed(results, "directory")
    output.add_json(parser)
    program = parser.add_argument(
        "program", metavar="PROGRAM", nargs=argparse.REMAINDER, help="and its arguments, after --"
    )
    program.required = False


@dataclass(frozen=True)
class Subject:
    """What is counted, and how once."""

    name: str
    place: str  # the second part of a run's name
    words: tuple[str, ...]  # the command, in a result's provenance
    sides: tuple[str, ...]
    once: Callable[[Pass, perf.Perf], Observed]
    afterwards: Callable[[perf.Perf], Values]


def run(args: argparse.Namespace) -> int:
    """Measure; the status says how the program ended."""
    command = args.program[1:] if args.program[:1] == ["--"] else args.program
    _check_together(args, command)
    with output.report(args.json) as report:
        made, path = _made(args, command)
        report.update(path=str(path), result=made.model_dump())
        _print(made, path)
    return Status.SUCCESS if made.outcome == "success" else Status.FAILURE


def _check_together(args: argparse.Namespace, command: Sequence[str]) -> None:
    given = [name for name, there in (("a program", command), ("--vm", args.vm), ("--pid", args.pid)) if there]
    if len(given) != 1:
        raise arguments.wrong(
            "one thing is measured",
            got=" and ".join(given) or "nothing",
            expected="a program after --, or --vm DOMAIN, or --pid PID",
            next_step="abh collect -- PROGRAM ARGUMENT …",
        )
    if args.seconds and command:
        raise arguments.wrong(
            "a program is counted until it ends", got="--seconds with a program", next_step="leave it out"
        )
    if args.software and args.event:
        raise arguments.wrong("--event names events of the processor's", got="--software", next_step="leave one out")


def _made(args: argparse.Namespace, command: Sequence[str]) -> tuple[Measured, Path]:
    from abh.collect import here, perf, session

    machine = here.find()
    subject = _subject(args, command, machine)
    name = _names(args, subject)
    folder = args.results or session.FOLDER / _kebab(_host())
    output.check_writable(folder)
    tool = perf.find()
    micro, why = (None, "--software leaves it out") if args.software else _events(machine, args.event or ())
    passes = _passes(args, subject, machine, tool, micro)
    asked = session.Asked(
        run=name,
        command=subject.words,
        passes=tuple(passes),
        repeats=args.repeats,
        seed=args.seed,
        microarchitecture=micro.name if micro else None,
    )
    progress.say(f"{asked.name}: {len(passes)} passes, {args.repeats} runs of each")
    if why and not args.software:
        progress.say(f"only what the kernel counts: {why}")

    def once(one: Pass) -> Observed:
        return _derived(subject.once(one, tool), micro, subject)

    made, path = session.measure(asked, machine, tool, folder, once, progress.say)
    return session.complete(made, path, subject.afterwards(tool), _lost(machine, micro, why, subject))


def _host() -> str:
    import platform

    return platform.node() or "host"


def _kebab(name: str) -> str:
    from abh.schema.strict import kebab

    return kebab(name)


def _names(args: argparse.Namespace, subject: Subject) -> tuple[str, str, str]:
    from abh.schema.strict import KEBAB

    for option, word in (("--name", args.name), ("--label", args.label)):
        if word is not None and not KEBAB.fullmatch(word):
            raise arguments.wrong(
                "ill-formed name", got=f"{option} {word}", expected="small letters and digits, joined by -",
                next_step=f"{option} {_kebab(word)}",
            )  # fmt: skip
    return args.name or _kebab(subject.name), subject.place, args.label


def _subject(args: argparse.Namespace, command: Sequence[str], machine: here.Machine) -> Subject:
    from abh.collect import program, vm

    if command:
        program.check(command)
        return Subject(
            name=Path(command[0]).name,
            place="guest" if machine.in_guest else "bare-metal",
            # By its whole path: a program of the same name in another folder is another.
            words=("abh", "collect", "--", str(Path(command[0]).absolute()) if "/" in command[0] else command[0])
            + tuple(command[1:]),
            sides=(),
            once=lambda one, tool: program.run(command, one, tool),
            afterwards=lambda tool: {},
        )
    pid = vm.pid_of(args.vm) if args.vm else args.pid
    vm.check(pid)
    seconds = args.seconds or SECONDS
    words = ("abh", "collect", *(("--vm", args.vm) if args.vm else ("--pid", str(pid))), "--seconds", f"{seconds:g}")
    return Subject(
        name=args.vm or f"pid-{pid}",
        place="from-host",
        words=words,
        sides=("guest", "host"),
        once=lambda one, tool: vm.watch(pid, seconds, one, tool),
        afterwards=lambda tool: vm.reasons(pid, seconds, tool),
    )


def _events(machine: here.Machine, asked: Sequence[str]) -> tuple[Microarchitecture | None, str]:
    """The processor's events; none, and why, where this kernel offers no counters of it."""
    from abh.collect import here
    from abh.schema import events

    micro = events.of(machine.cpu)
    for name in asked:
        if name not in micro.event:
            raise arguments.unknown("event", name, list(micro.event))
    if (here.PMUS / micro.pmu).exists():
        return micro, ""
    likely = "its hypervisor gives it no virtual PMU" if machine.in_guest else "its firmware hides them"
    return None, f"this machine's kernel has no counters `{micro.pmu}` (likely {likely})"


def _passes(
    args: argparse.Namespace, subject: Subject, machine: here.Machine, tool: perf.Perf, micro: Microarchitecture | None
) -> list[Pass]:
    from abh.collect import passes, vm

    kvm = bool(subject.sides) and vm.has_tracepoint()
    if micro is None:
        return [passes.Pass(tuple(passes.software(user_only=tool.user_only, kvm=kvm)))]
    return passes.split(
        micro,
        args.event or micro.event,
        watchdog=machine.watchdog,
        sides=subject.sides,
        user_only=tool.user_only,
        kvm=kvm,
    )


def _derived(seen: Observed, micro: Microarchitecture | None, subject: Subject) -> Observed:
    from abh.collect import passes

    return replace(seen, values=seen.values | passes.ratios(micro, seen.values, subject.sides)) if micro else seen


def _lost(machine: here.Machine, micro: Microarchitecture | None, why: str, subject: Subject) -> Values:
    """The numbers that these processors don't have, or that this kernel has no counters for."""
    from abh.schema import events
    from abh.schema.result import Value

    if micro:
        return {name: Value.unknown("events", "measured", reason) for name, reason in micro.absent.items()}
    try:
        names = events.of(machine.cpu).event
    except AbhError:
        return {}
    prefixes = [f"{side}_" for side in subject.sides] or [""]
    return {
        f"{prefix}{name}": Value.unknown(event.unit, "measured", why)
        for prefix in prefixes
        for name, event in names.items()
    }


def _print(made: Measured, path: Path) -> None:
    notes: dict[str, int] = {}
    for name, value in made.values.items():
        mark = f" [{notes.setdefault(value.reason, len(notes) + 1)}]" if value.reason else ""
        if value.value is None:
            print(f"{name:28} n/a{mark}")
            continue
        spread = ""
        if value.interval_low is not None:
            spread = f" (95 %: {value.interval_low:.6g} to {value.interval_high:.6g})"
        elif value.runs > 1:
            spread = f" (of {value.runs} runs, {value.low:.6g} to {value.high:.6g})"
        print(f"{name:28} {value.value:.6g} {value.unit}, {value.kind}{spread}{mark}")
    for text, number in notes.items():
        print(f"  [{number}] {text}")
    print(f"{made.outcome}: {path}")
    if made.reason:
        print(f"{made.run}: {made.outcome}: {made.reason}", file=sys.stderr)
