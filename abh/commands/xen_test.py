# SPDX-License-Identifier: MIT
"""Test Xen's shadow page tables with small guests (tests/xen), in the machine of the Xen environments.

Each test runs with nested paging, with shadow paging, and with superpages in the shadow, as guests of one machine.
Where superpages are on and the shadow had none, or off and something was counted, the test has failed. --fuzz runs the
adversary beside a guest that watches its own memory.
"""

from __future__ import annotations

import argparse

from abh import arguments, output
from abh.errors import Status

HELP = "test Xen's shadow page tables with small guests"
VARIANTS = ("hap 0", "shadow 0", "shadow 1")
ENDLESS = ("canary", "fuzz")  # run when asked for
OPERATIONS = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which tests, on which Xen."""
    tests = parser.add_argument(
        "tests",
        nargs="*",
        type=arguments.name("xen-test"),
        metavar="TEST",
        help="a folder of tests/xen (default: all that end)",
    )
    arguments.completed(tests, "xen-test")
    parser.add_argument("--debug", action="store_true", help="Xen with its assertions")
    parser.add_argument("--audit", action="store_true", help="and an audit of all shadows at each fault (very slow)")
    parser.add_argument(
        "--fuzz", type=arguments.whole(1, 10**9), metavar="N", help="the adversary, N operations, beside a canary"
    )
    parser.add_argument(
        "--seed", type=arguments.seed, metavar="N", help="with --fuzz: of what the adversary draws (default: 1)"
    )
    parser.add_argument(
        "--minutes",
        type=arguments.number(0, 60 * 24),
        default=30,
        metavar="N",
        help="how long it may take (default: 30)",
    )
    output.add_json(parser)


def jobs(args: argparse.Namespace) -> list[str]:
    """What the host is to do, a line each (tests/xen/run)."""
    from abh.verify import xen

    alone = args.tests or ([] if args.fuzz else [name for name in xen.names() if name not in ENDLESS])
    made = ["key O"] if args.audit else []
    made += [f"test {name} {each}" for name in alone for each in VARIANTS]
    if args.fuzz:
        for each in VARIANTS[1:]:
            seed = 1 if args.seed is None else args.seed
            made += [f"beside canary {each}", f"test fuzz {each} operations={args.fuzz} seed={seed}"]
    return made


def run(args: argparse.Namespace) -> int:
    """Run them; status 1 if something does not hold."""
    from abh.verify import xen

    if args.seed is not None and not args.fuzz:
        raise arguments.wrong("--seed is of the adversary", got="--seed without --fuzz", next_step="add --fuzz N")
    todo = jobs(args)
    with output.report(args.json) as report:
        ended, _ = xen.run(todo, debug=args.debug or args.audit, limit_s=60 * args.minutes)
        for each in ended.verdicts:
            counters = " ".join(f"{name}={count}" for name, count in each.counters.items() if count)
            print(f"{each.outcome:8} {each.variant}  {each.reason}  {counters}".rstrip())
            if each.outcome != "success":
                print("".join(f"    {line}\n" for line in each.said), end="")
        for line in ended.complaints:
            print(f"xen-test: {line}")
        wrong = unshown(ended.verdicts)
        for line in wrong:
            print(f"xen-test: {line}")
        passed = ended.passed and not wrong
        report.update(passed=passed, complaints=ended.complaints + wrong, tests=[vars(each) for each in ended.verdicts])
    return Status.SUCCESS if passed else Status.FAILED


def unshown(verdicts: list[xen.Verdict]) -> list[str]:  # type: ignore[name-defined]  # noqa: F821
    """Guests whose shadow had no superpage though they were on, or had one though they were off."""
    found = []
    for each in verdicts:
        made = each.counters.get("direct", 0)
        if each.variant.endswith("-1") and not made and not each.variant.startswith("beside:"):
            found.append(f"{each.variant}: superpages are on, and the shadow had none")
        if each.variant.endswith("-0") and any(
            count for name, count in each.counters.items() if name != "shadow_pages"
        ):
            found.append(f"{each.variant}: superpages are off, and something was counted: {each.counters}")
    return found
