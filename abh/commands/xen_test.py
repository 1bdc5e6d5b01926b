# SPDX-License-Identifier: MIT
"""Test Xen's shadow page tables with small guests (tests/xen), in the machine of the Xen environments.

Each test runs with nested paging, with shadow paging, and with superpages in the shadow, as guests of one machine. One
guest at work is saved and restored, also where no 2 MiB are in one piece, or asking for them is an error, migrated,
watched, switched, and destroyed; another loses all its shadows; a Linux guest has its superpages taken back and given
again, thousands of them. The host has xl of the series: xl.cfg says of each guest whether its shadow
has superpages, and what has no shadow is refused.
Where superpages are on and the shadow had none, or off and something was counted, the test has failed. NAME-pae is the
guest NAME in 32 bits with PAE; linux is a Linux guest, whose memory calls are drawn.
--fuzz runs the adversary beside a guest that watches its own memory.
Its operations are done by one guest after the other, each with new superpages, and by one machine after the other.
With --mmu-check, the MMU model keeps translations from one entry of a guest to the next, as a processor does and the
emulator does not, so that a missing flush is seen. --mutants shows that it would be: by turns one thing is taken away
from a running Xen (tests/xen/mutants), and the guests that are named for it have to show it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from abh import arguments, output, progress
from abh.errors import Status

if TYPE_CHECKING:
    from abh.verify import xen

BEGINS_ANEW = True
HELP = "test Xen's shadow page tables with small guests"
VARIANTS = ("hap 0", "shadow 0", "shadow 1")
ASKED = ("canary", "fuzz", "wide")  # run when asked for
# Of a guest at work, which is so for as long as a save takes.
ROUNDS = {"churn": 3000, "wide": 3}
# One that is saved has given memory back. A live migration lets it go on meanwhile: it sees itself when it is over.
# Of a Linux guest all superpages are taken back and given again, so often that thousands are. What is watched maps
# nothing anew, so that what becomes of its superpages is Xen's doing.
SO = {
    "save": "rounds=3000 holes=1", "migrate": "rounds=400 moved=1", "turns": "rounds=100 spreads=0 turns=100",
    "dirty": "rounds=3000 still=1", "pin": "rounds=3000 still=1", "vain": "rounds=3000",
}  # fmt: skip
# Of what shows with each paging alike, and of what takes long and is for superpages.
ONE_VARIANT = ("pieces", "unrestored", "turns", "vain")
# Of an adversary that is one guest: the more often a superpage was given up, the longer it waits to be whole again. Of
# 4,000 operations 178 superpages were made, of 12,000 346 (counted).
OPERATIONS = 20000
AT_ONCE = 5  # guests of the adversary in one machine
LINUX = "linux"
LINUX_ROUNDS = 8
# Of page tables over its superpages in each round, which are given up for them, and come back.
LINUX_SPREADS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which tests, on which Xen."""
    tests = parser.add_argument(
        "tests",
        nargs="*",
        type=arguments.name("xen-test"),
        metavar="TEST",
        help="a folder of tests/xen, save, pieces, unrestored, migrate, dirty, turns, vain, pin, switch, drop,"
        " destroy, refuse (default: all that end)",
    )
    arguments.completed(tests, "xen-test")
    parser.add_argument("--debug", action="store_true", help="Xen with its assertions")
    parser.add_argument(
        "--audit",
        action="store_true",
        help="Xen with its assertions, too, and it audits all shadows at each fault (very slow)",
    )
    parser.add_argument(
        "--fuzz", type=arguments.whole(1, 10**9), metavar="N", help="the adversary, N operations, beside a canary"
    )
    parser.add_argument(
        "--seed", type=arguments.seed, metavar="N", help="with --fuzz: of what the adversary draws (default: 1)"
    )
    parser.add_argument(
        "--rounds",
        type=arguments.whole(1, 10**6),
        metavar="N",
        help=f"of the Linux guest (default: {LINUX_ROUNDS})",
    )
    parser.add_argument(
        "--mmu-check",
        action="store_true",
        help="the MMU model beside: a flush that is missing shows as a translation that the shadow does not have",
    )
    parser.add_argument(
        "--mutants",
        nargs="*",
        metavar="KEY",
        help="take these things away from Xen, one by one (tests/xen/mutants; default: all), and see that it shows",
    )
    parser.add_argument(
        "--minutes",
        type=arguments.number(0, 60 * 24),
        default=90,
        metavar="N",
        help="how long a machine may take, of processor time (default: %(default)s)",
    )
    output.add_json(parser)


def jobs(args: argparse.Namespace) -> list[str]:
    """What the host is to do with the tests, a line each (tests/xen/run)."""
    from abh.verify import xen

    made = _audit(args)
    linux = f"rounds={args.rounds or LINUX_ROUNDS} spreads={LINUX_SPREADS}"
    ended = [name for name in xen.names() if name.removesuffix(xen.PAE) not in ASKED]
    for name in args.tests or [*ended, *xen.MOVED, xen.REFUSE]:
        if name == xen.REFUSE:
            made += xen.REFUSED
            continue
        for each in VARIANTS[2:] if name in ONE_VARIANT else VARIANTS[1:] if name.endswith(xen.PAE) else VARIANTS:
            made += _one(name, each, linux if name == LINUX else "")
    return made


def adversaries(args: argparse.Namespace) -> list[list[str]]:
    """The jobs of the adversary, one machine's after the other's: what was done shows while there is more to do."""
    first = 1 if args.seed is None else args.seed
    guests = -(-args.fuzz // OPERATIONS)
    operations = -(-args.fuzz // guests)
    return [
        [*_audit(args), *_beside("fuzz", each), f"draws fuzz {each} {seed} {to} operations={operations}"]
        for each in VARIANTS[:0:-1]  # superpages first: stock is what they are compared with
        for seed in range(first, first + guests, AT_ONCE)
        for to in [min(seed + AT_ONCE, first + guests) - 1]
    ]


def _audit(args: argparse.Namespace) -> list[str]:
    return ["key O"] if args.audit else []


def _one(name: str, variant: str, arguments: str = "") -> list[str]:
    """The jobs of one test in one variant: what runs beside it, and itself."""
    from abh.verify import xen

    if name in xen.MOVED:
        rounds = SO.get(name) or f"rounds={ROUNDS[xen.MOVED[name]]}"
        return [f"{name} {xen.MOVED[name]} {variant} {rounds}"]
    return [*_beside(name, variant), f"test {name} {variant} {arguments}".rstrip()]


def _beside(name: str, variant: str) -> list[str]:
    from abh.verify import xen

    beside = xen.beside(name)
    return [f"beside {beside[0]} {variant} {' '.join(beside[1:])}".rstrip()] if beside else []


def run(args: argparse.Namespace) -> int:
    """Run them; status 1 if something does not hold."""
    from abh.build import components
    from abh.verify import xen, xen_counted

    if args.seed is not None and not args.fuzz:
        raise arguments.wrong("--seed is of the adversary", got="--seed without --fuzz", next_step="add --fuzz N")
    if args.mutants is not None:
        return _mutants(args)
    if args.rounds is not None and LINUX not in (args.tests or ([] if args.fuzz else [LINUX])):
        raise arguments.wrong(
            "--rounds is of the Linux guest",
            got=f"--rounds without the test {LINUX}",
            next_step=f"add {LINUX}, or leave it out",
        )
    if args.audit and not args.debug:
        progress.say("--audit: Xen with its assertions, as --debug has it: another has no audit")
    machines = [*([jobs(args)] if args.tests or not args.fuzz else []), *(adversaries(args) if args.fuzz else [])]
    with output.report(args.json) as report:
        built = components.path_of("xen-debug" if args.debug or args.audit else "xen")
        check = xen.MMU_CHECK if args.mmu_check else None
        limit_s = 60 * args.minutes
        ended = xen.Ended([], [])
        for number, todo in enumerate(machines, 1):
            state = xen.frozen_state(built, limit_s)
            with progress.step(f"running Xen's guests, machine {number} of {len(machines)}"):
                last, _ = xen.run(todo, xen=built, limit_s=limit_s, mmu=check, state=state)
            ended.and_then(last)
            if not last.passed:
                break
            if len(machines) > 1:
                told = "; ".join(_counters(each) for each in last.verdicts if each.counters)
                progress.say(f"machine {number} of {len(machines)} has ended well: {todo[-1]}: {told}")
        for each in ended.verdicts:
            print(f"{each.outcome:8} {each.variant}  {each.reason}  {_counters(each)}".rstrip())
            if each.checked:
                print(f"    MMU model: {' '.join(f'{name}={count}' for name, count in each.checked.items())}")
            if each.outcome != "success" or each.variant.startswith(("draws:", "drop:", "test:aliases~")):
                print("".join(f"    {line}\n" for line in each.said), end="")
        ended.complaints += xen_counted.unshown(ended.verdicts)
        for line in ended.complaints:
            print(f"xen-test: {line}")
        report.update(passed=ended.passed, complaints=ended.complaints, tests=[vars(each) for each in ended.verdicts])
    return Status.SUCCESS if ended.passed else Status.FAILED


def _counters(one: xen.Verdict) -> str:
    return " ".join(f"{name}={count}" for name, count in one.counters.items() if count)


def _mutants(args: argparse.Namespace) -> int:
    """Take things away, one after the other; status 1 if one does not show as it should."""
    from abh.build import components
    from abh.verify import xen_mutants

    mutants = xen_mutants.chosen(args.mutants)
    others = {"tests": args.tests, "--fuzz": args.fuzz, "--audit": args.audit, "--rounds": args.rounds}
    others |= {"--debug": args.debug, "--mmu-check": args.mmu_check}
    if given := [name for name, value in others.items() if value]:
        raise arguments.wrong(
            "mutants have tests, a Xen and a check of their own", got=", ".join(given), next_step="leave them out"
        )
    with output.report(args.json) as report:
        seen = []
        for each in mutants:
            built = components.path_of("xen-mutants")
            with progress.step(f"running Xen's guests on the mutant of key {each.key}"):
                seen.append(found := xen_mutants.tried(each, built, 60 * args.minutes))
            print(f"{'as it should' if found.as_said else 'NOT AS SAID':12} {each.key}  {each.taken}")
            print(f"    to show: {each.shows}; {found.told}", flush=True)
        passed = all(found.as_said for found in seen)
        report.update(passed=passed, mutants=[vars(found) for found in seen])
    return Status.SUCCESS if passed else Status.FAILED
