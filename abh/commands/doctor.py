# SPDX-License-Identifier: MIT
"""Try out what the machine offers, and say what will be used and why. Ends with 1 if the bench cannot run here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from abh import output
from abh.errors import Status

if TYPE_CHECKING:
    from abh.host.doctor import Finding

HELP = "what this machine offers, and what will be used"
MARKS = {"ok": " ", "note": "!", "problem": "✗"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print every finding; fail if one is a problem."""
    from abh.host import doctor

    with output.report(args.json) as report:
        findings = doctor.examine()
        report.update(doctor.as_json(findings))
    problems = [each for each in findings if each.state == "problem"]
    if not args.json:
        _show(findings, len(problems))
    return Status.FAILED if problems else Status.SUCCESS


def _show(findings: Sequence[Finding], problems: int) -> None:
    width = max(len(each.name) for each in findings)
    for each in findings:
        print(f"{MARKS[each.state]} {each.name:{width}}  {each.text}")
        if each.next_step:
            print(f"  {'':{width}}  next: {each.next_step}")
    print(f"\n{problems} problem(s): the bench cannot run here yet" if problems else "\nthe bench can run here")
