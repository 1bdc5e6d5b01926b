# SPDX-License-Identifier: MIT
"""The code that a result depends on: all that says what a machine is told, and what its answers mean.

Found by following imports, so that no list of it can be wrong. What builds components is left out: their keys say what
was built. Comments, docstrings and layout change no result, so they are no part of it.
"""

from __future__ import annotations

import ast
import functools
import threading
from pathlib import Path

from abh.build import cache

START = "abh.study.cell"
PACKAGES = ("abh.schema.", "abh.machine.", "abh.model.", "abh.study.")
SOURCES = Path(__file__).resolve().parents[2]
_PARSING = threading.Lock()


def _file(name: str, sources: Path) -> Path | None:
    path = sources / Path(*name.split(".")).with_suffix(".py")
    return path if path.is_file() else None


def _imported(tree: ast.AST) -> set[str]:
    """Every name that a module imports, as a module's name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def _meaning(tree: ast.Module) -> str:
    """What the code says, without docstrings, comments and layout."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def modules(start: str = START, sources: Path = SOURCES) -> dict[str, Path]:
    """The modules that judge a cell, from the one where that begins: name to file."""
    found: dict[str, Path] = {}
    wanted = [start]
    while wanted:
        name = wanted.pop()
        path = _file(name, sources)
        if name in found or path is None or not name.startswith(PACKAGES):
            continue
        found[name] = path
        wanted += _imported(ast.parse(path.read_text(encoding="utf-8")))
    return dict(sorted(found.items()))


@functools.cache
def digest(start: str = START, sources: Path = SOURCES) -> str:
    """Names what that code does."""
    # Two threads that parse at once confuse Python 3.11: "AST constructor recursion depth mismatch".
    with _PARSING:
        found = modules(start, sources).items()
        return cache.key_of(
            *(f"{name} {_meaning(ast.parse(path.read_text(encoding='utf-8')))}" for name, path in found)
        )
