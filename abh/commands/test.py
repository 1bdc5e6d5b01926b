# SPDX-License-Identifier: MIT
"""The tests, in stages: the quick ones prove the main claims, --full runs every one.

All stages and what they need built are one graph of steps, so builds and stages run beside each other. A stage that has
passed is remembered by the content of the files it is about: with --changed those are not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from abh import arguments, output, paths
from abh.errors import Status

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from abh.schedule import Outcome, Step
    from abh.verify.stages import Ended, Stage

PROGRESS = r"still |done: |stage |(?:running|building|making|booting|downloading|applying|recording|waiting)\b"
OF_FAILURE = re.compile(
    r"\bnot ok\b|\bNOT AS SAID\b|\bFAIL|^failure\b|[Ee]rror\b|BUG:|WARNING:|Call Trace|^xen-test: "
    rf"|^abh: (?:(?!{PROGRESS})|.* failed\b)"
)
LINES = 20  # repeated at the end, of each kind

HELP = "run the tests: the quick stages, all of them, or those named"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    stage = parser.add_argument(
        "stage", nargs="*", type=arguments.name("stage"), metavar="STAGE", help="only these; --list names them"
    )
    arguments.completed(stage, "stage")
    parser.add_argument("--full", action="store_true", help="every stage, also those that take long")
    parser.add_argument("--changed", action="store_true", help="leave out what has passed here with the same files")
    parser.add_argument(
        "--minutes",
        type=arguments.number(0, 60 * 24 * 7),
        metavar="N",
        help="end after N minutes, and say what was not reached: no failure",
    )
    parser.add_argument(
        "--cores", type=arguments.cores, metavar="N", help="steps at a time (default: one for each processor)"
    )
    parser.add_argument("--list", action="store_true", help="say what stages there are")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run the stages, all of them even after a failure; status 1 if one failed."""
    if args.full and args.stage:
        raise arguments.wrong(
            "--full is every stage", got=f"--full with {' '.join(args.stage)}", next_step="leave one of them out"
        )
    if args.list and (args.full or args.stage or args.changed or args.minutes or args.cores):
        raise arguments.wrong("--list runs nothing", got="--list with what to run", next_step="leave one of them out")
    with output.report(args.json) as report:
        return _run(args, report)


def _run(args: argparse.Namespace, report: dict[str, Any]) -> int:
    from abh import progress, schedule
    from abh.verify import stages
    from tools import lint

    if args.list:
        report["stages"] = _list(stages.STAGES)
        return Status.SUCCESS
    chosen = stages.chosen(args.stage, full=args.full)
    files = lint.sources(paths.CHECKOUT)
    held = [name for name, each in chosen.items() if args.changed and stages.has_passed(each, files)]
    todo = [each for name, each in chosen.items() if name not in held]
    if held:
        progress.say(f"passed here before with the same files: {', '.join(held)}")
    ended: dict[str, Ended] = {}
    os.environ.setdefault("ABH_CACHE", str(paths.cache()))
    deadline = time.monotonic() + 60 * args.minutes if args.minutes else None
    outcome = schedule.run(_steps(todo, files, ended, deadline), workers=args.cores, deadline=deadline)
    report |= {"passed_before": held, "stages": {name: dataclasses.asdict(each) for name, each in ended.items()}}
    return _verdict(todo, ended, outcome, report)


def _list(every: Mapping[str, Stage]) -> list[dict[str, Any]]:
    for name, each in every.items():
        print(f"{name:12} {'quick' if each.quick else '     '} {each.minutes:5g} min  {each.shows}")
    return [
        {"name": name, "quick": each.quick, "minutes": each.minutes, "shows": each.shows}
        for name, each in every.items()
    ]


def _steps(todo: Sequence[Stage], files: Sequence[Path], ended: dict[str, Ended], deadline: float | None) -> list[Step]:
    """The stages, with everything that they need built and booted."""
    from abh.schedule import Step
    from abh.study import cell, graph

    steps: dict[str, Step] = {}
    for place, stage in enumerate(todo):
        parts = list(graph.of_components(stage.needs))
        parts += [graph.of_root(name) for name in stage.roots]
        boots = [cell.Cell.of(f"sqlite@{environment}~thp", "smoke") for environment in stage.boots]
        parts += [step for one in boots for step in graph.of_boot(one)]
        needs = frozenset(each.name for each in parts)
        steps |= {each.name: each for each in parts}
        # The order is theirs: cheapest first, once what each needs is there.
        urgency = max(0.1, stage.minutes) if stage.quick else (len(todo) - place) / 100
        steps[f"stage {stage.name}"] = Step(
            f"stage {stage.name}", partial(_do, stage, files, ended, deadline), needs, urgency, stage.memory_mib
        )
    return list(steps.values())


def _do(stage: Stage, files: Sequence[Path], ended: dict[str, Ended], deadline: float | None) -> None:
    from abh import progress
    from abh.errors import AbhError
    from abh.verify import stages

    start, key = time.monotonic(), stages.key_of(stage, files)
    progress.say(f"stage {stage.name}: {stage.shows}")
    try:
        made = stage.do()
    except AbhError as error:  # as of what a stage builds itself
        made = stages.Ended(False, f"{error}\n")
    seconds = time.monotonic() - start
    if not made.passed and deadline is not None and time.monotonic() >= deadline:
        # Ended because the time was out, which is no failure; what it said so far may be of use.
        print(
            f"== {stage.name}\n{made.text}== {stage.name}: ended after {seconds:.0f} s, as the time was out", flush=True
        )
        return
    ended[stage.name] = made
    if made.passed and key == stages.key_of(stage, files):  # else it has not seen the files as they are
        stages.remember(stage, key, seconds)
    verdict = "ok" if made.passed else "FAILED"
    print(f"== {stage.name}\n{made.text}== {stage.name}: {verdict} ({seconds:.0f} s)", flush=True)


def in_short(text: str) -> str:
    """The lines that tell of a failure and the last ones: a log that is cut in its middle still tells what failed."""
    lines = text.splitlines()
    last = max(0, len(lines) - LINES)
    telling = [each for each in lines[:last] if OF_FAILURE.search(each)]
    return "\n".join([*telling[:LINES], *lines[last:]])


def _verdict(todo: Sequence[Stage], ended: Mapping[str, Ended], outcome: Outcome, report: dict[str, Any]) -> int:
    from abh import progress

    for name, error in outcome.failed.items():
        print(f"{name} FAILED: {error}")
    for name, cause in outcome.skipped.items():
        print(f"{name} was not tried: it needs '{cause}'")
    unreached = [each.name for each in todo if f"stage {each.name}" in outcome.unreached and each.name not in ended]
    if unreached:
        progress.say(
            f"NOT REACHED within the time: {', '.join(unreached)}; `bin/abh test {' '.join(unreached)}` runs them"
        )
    for name, made in ended.items():
        if not made.passed:
            print(f"== {name}: FAILED; of what it said:\n{in_short(made.text)}")
    passed = sum(each.passed for each in ended.values())
    failed = len(todo) - passed - len(unreached)
    for each in todo:
        if each.name not in ended and each.name not in unreached:
            print(f"stage {each.name} was not run")
    print(f"stages: {passed} passed, {failed} failed, {len(unreached)} skipped", flush=True)
    report |= {
        "failed": {name: str(error) for name, error in outcome.failed.items()},
        "not_tried": dict(outcome.skipped),
        "not_reached": unreached,
    }
    return Status.FAILED if failed else Status.SUCCESS
