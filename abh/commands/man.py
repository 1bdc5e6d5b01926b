# SPDX-License-Identifier: MIT
"""Write the manual pages, made from the same parser as the help: abh.1, and one for each command.

Read one with `man -l FILE`. They go into build/man, which git ignores, or into the folder named.
"""

from __future__ import annotations

import argparse
import copy
import re
from collections.abc import Iterable, Mapping

from abh import arguments, output, paths
from abh.errors import Status

HELP = "write the manual pages"
OUT = paths.CHECKOUT / "build" / "man"
TITLE = "Alignment-based hugepages"
NAME = "boot real KVM and Xen in emulation, and count the hugepages of programs"
VARIABLES = {
    "ABH_CACHE": "Where everything made is kept: roots, kernels, machines. Default: abh in the user's cache directory.",
    "ABH_RESULTS": "Where results are kept. Default: analysis/measured of the checkout.",
    "ABH_CHECKOUT": "The checkout to use, for an abh that is installed elsewhere.",
    "ABH_PYTHON": "The Python that bin/abh uses, 3.11 or newer.",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where they go."""
    out = parser.add_argument(
        "--out", type=arguments.new_folder, default=OUT, metavar="DIR", help="default: build/man of the checkout"
    )
    arguments.completed(out, "directory")
    output.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write them, and say which."""
    from abh.files import write_text

    output.check_writable(args.out, "--out")
    with output.report(args.json) as report:
        made = pages()
        for name, text in made.items():
            write_text(args.out / name, text)
        print("\n".join(str(args.out / name) for name in made))
        report["pages"] = [str((args.out / name).resolve()) for name in made]
    return Status.SUCCESS


def pages() -> dict[str, str]:
    """File name to page."""
    from abh import cli

    names = cli.command_names()
    whole = cli.make_parser(names)
    (commands,) = (each for each in whole._actions if isinstance(each, argparse._SubParsersAction))
    helps = {name: str(cli.load(name).HELP) for name in names}
    found = {f"abh-{name}.1": _page(commands.choices[name], f"abh-{name}", text) for name, text in helps.items()}
    top = copy.copy(whole)
    # Each command has a page of its own: here they are only listed.
    top._action_groups = [group for group in whole._action_groups if commands not in group._group_actions]
    more = {"commands": _items((f"abh-{name}(1)", text) for name, text in helps.items())}
    return {"abh.1": _page(top, "abh", NAME, more), **found}


def _page(parser: argparse.ArgumentParser, name: str, about: str, more: Mapping[str, str] | None = None) -> str:
    from argparse_manpage.manpage import Manpage  # type: ignore[import-untyped]

    from abh import cli

    data = {"project_name": "abh", "version": cli.version(), "manual_title": TITLE, "description": about}
    parser.formatter_class = _OneLine
    page = Manpage(parser, _data=data, format="single-commands-section")
    page.prog = name
    sections = {
        **(more or {}),
        "exit status": _items((str(int(each)), each.meaning) for each in Status),
        "environment": _items(VARIABLES.items()),
        "see also": "The README of the checkout, and docs/map.md." if name == "abh" else "abh(1)",
    }
    for heading, text in sections.items():
        page.add_section(heading, ">", text)
    return re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", str(page))  # roff is ASCII


class _OneLine(argparse.RawDescriptionHelpFormatter):
    """Lines as long as they are: the reader of a page breaks them."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=10_000)


def _items(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of terms, in the language of man(7)."""
    return "\n".join(f".TP\n\\fB{_escaped(term)}\\fR\n{_escaped(text)}" for term, text in pairs)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("-", "\\-")
