# SPDX-License-Identifier: MIT
"""Try out what the machine offers, and say what will be used and why. Ends with 1 if the bench cannot run here."""

from __future__ import annotations

import argparse
import json

HELP = "what this machine offers, and what will be used"
MARKS = {"ok": " ", "note": "!", "problem": "✗"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Print every finding; fail if one is a problem."""
    from abh.bench import doctor

    findings = doctor.examine()
    problems = [each for each in findings if each.state == "problem"]
    if args.json:
        print(json.dumps(doctor.as_json(findings), indent=2, ensure_ascii=False))
        return 1 if problems else 0
    width = max(len(each.name) for each in findings)
    for each in findings:
        print(f"{MARKS[each.state]} {each.name:{width}}  {each.text}")
        if each.next_step:
            print(f"  {'':{width}}  next: {each.next_step}")
    print(f"\n{len(problems)} problem(s): the bench cannot run here yet" if problems else "\nthe bench can run here")
    return 1 if problems else 0
