# SPDX-License-Identifier: MIT
"""List the environments, policies and workloads; a run is named <workload>@<environment>~<policy>."""

from __future__ import annotations

import argparse
import fnmatch
from pathlib import Path
from typing import Any

from abh import output
from abh.errors import AbhError, Status
from abh.paths import CHECKOUT

HELP = "list environments, policies and workloads"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to list, and how."""
    parser.add_argument("filter", nargs="?", help="part of a name, or a pattern with * and ?, as 'xen-*'")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the list."""
    with output.report(args.json) as report:
        report.update(listing(CHECKOUT, args.filter))
    if not args.json:
        print(render(report))
    return Status.SUCCESS


def listing(root: Path, wanted: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """The kinds, in the order of the tables, with what the names mean; only names that match `wanted`."""
    # Imported here so that `abh --help` does not wait for them.
    from abh.schema import spec
    from abh.schema.strict import did_you_mean

    def policies(group: str) -> list[dict[str, Any]]:
        return [{"name": each.name, "purpose": each.purpose} for each in spec.policies(root, group).values()]

    def workloads(group: str) -> list[dict[str, Any]]:
        return [
            {"name": each.name, "purpose": each.purpose, "paper": each.paper, "sizes": list(each.size)}
            for each in spec.workloads(root, group).values()
        ]

    every: dict[str, list[dict[str, Any]]] = {
        "environments": [
            {"name": each.name, "purpose": each.purpose, "hypervisor": each.hypervisor, "paging": each.paging}
            for each in spec.environments(root, on_demand=True).values()
        ],
        "policies": policies(""),
        **{f"policies of the group {group}": policies(group) for group in spec.groups(root)},
        "workloads": workloads(""),
        **{f"workloads of the group {group}": workloads(group) for group in spec.workload_groups(root)},
    }
    if wanted is None:
        return every
    pattern = wanted if any(letter in wanted for letter in "*?[") else f"*{wanted}*"
    found = {kind: [row for row in rows if fnmatch.fnmatchcase(row["name"], pattern)] for kind, rows in every.items()}
    if not any(found.values()):
        names = [row["name"] for rows in every.values() for row in rows]
        raise AbhError(
            f"no name matches `{wanted}`",
            got=wanted,
            expected="one of " + ", ".join(names) if names else "(there are none)",
            next_step=did_you_mean(wanted, names, "`abh list` shows every name"),
            status=Status.USAGE,
        )
    return found


def render(found: dict[str, list[dict[str, Any]]]) -> str:
    """A line for each name, under its kind."""
    width = max((len(row["name"]) for rows in found.values() for row in rows), default=0)
    blocks = [
        "\n".join([f"{kind}:", *(f"  {row['name']:<{width}}  {row['purpose']}{_sizes(row)}" for row in rows)])
        for kind, rows in found.items()
        if rows
    ]
    return "\n\n".join(blocks) or "there is nothing to list: vm-configs/ and workloads/ are empty"


def _sizes(row: dict[str, Any]) -> str:
    """Of a workload that has one size: which."""
    sizes = row.get("sizes", ())
    return f" (size {sizes[0]} alone)" if len(sizes) == 1 else ""
