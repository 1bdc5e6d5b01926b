# SPDX-License-Identifier: MIT
"""Packages import what is below them, never what is above: read from the imports themselves, lazy ones too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from abh import paths

# From the bottom.
LAYERS = (
    ("errors", "files", "paths", "progress", "schedule"),
    ("schema",),
    ("build",),
    ("machine",),
    ("host",),  # above the machine: the doctor has QEMU boot a kernel, to see what this computer's KVM is worth
    ("collect", "policy"),
    ("model",),
    ("study",),
    ("compare",),
    ("verify",),
    ("report",),
    ("arguments", "output"),  # of the command line
    ("commands", "cli"),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# Those of one layer do not import each other, but: paths raises errors; cli finds the commands, and one that starts
# others has cli read their words.
FRIENDS = (LAYERS[0], ("commands", "cli"))


def imported(source: str) -> set[str]:
    """The packages or modules of abh that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{each.name}" for each in node.names] if node.module == "abh" else [node.module]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name and name.startswith("abh.")}
    return found


def upward(package: str, source: str) -> list[str]:
    """What a module of this package imports and may not."""
    friends = {name for names in FRIENDS if package in names for name in names}
    below = {name for name in LEVEL if LEVEL[name] < LEVEL[package]}
    return sorted(imported(source) - below - friends - {package})


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted((paths.CHECKOUT / "abh").rglob("*.py")):
        place = path.relative_to(paths.CHECKOUT / "abh")
        if place.as_posix() != "__init__.py":
            found.append((place.parts[0].removesuffix(".py"), path))
    return found


def test_every_package_has_its_layer():
    assert {package for package, _ in modules()} == set(LEVEL)


@pytest.mark.parametrize(("package", "path"), modules(), ids=lambda each: str(getattr(each, "stem", each)))
def test_nothing_imports_upwards(package, path):
    assert upward(package, path.read_text(encoding="utf-8")) == []


def test_what_is_collected_on_real_hosts_needs_no_bench():
    for package, path in modules():
        if package == "collect":
            assert imported(path.read_text(encoding="utf-8")) <= {"collect", "schema", "host", *LAYERS[0]}


def test_relative_imports_would_not_be_seen_so_there_are_none():
    for _, path in modules():
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        assert not any(isinstance(node, ast.ImportFrom) and node.level for node in nodes), path


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from abh.study import cell", ["study"]),
        ("from abh import paths, study", ["study"]),
        ("import abh.verify.testbed", ["verify"]),
        ("def later():\n    from abh.commands import run", ["commands"]),
        ("import json\nfrom abh.errors import AbhError\nfrom abh.build import root\nimport abhorrent", []),
    ],
)
def test_an_import_from_above_is_found(source, found):
    assert upward("machine", source) == found
