# SPDX-License-Identifier: MIT
"""Print what a shell needs to complete the words of abh: commands, options, names, files.

For bash, write it to ~/.local/share/bash-completion/completions/abh; for zsh, to _abh in a folder of $fpath; for fish,
to ~/.config/fish/completions/abh.fish. It holds the names that this checkout has now.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

HELP = "print the completion script of a shell"
SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which shell."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that is to read it")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    print(script(args.shell))
    return 0


def script(shell: str) -> str:
    """The script, written by shtab from the parser."""
    import shtab

    from abh import arguments, cli

    kinds = {kind: names() for kind, names in arguments.NAMES.items()}
    completers = {kind: _words(kind, names) for kind, names in kinds.items()}
    completers[arguments.CELL] = _cells(*(kinds[kind] for kind in ("workload", "environment", "policy")))
    parser = cli.make_parser(cli.command_names())
    _complete(parser, completers)
    # bash takes @ for the end of a word, and names of runs have one.
    preamble = "COMP_WORDBREAKS=${COMP_WORDBREAKS//@/}" if shell == "bash" else ""
    return str(shtab.complete(parser, shell=shell, preamble=preamble))


def _complete(parser: argparse.ArgumentParser, completers: Mapping[str, object]) -> None:
    """Gives each argument that names a kind what completes it; files and folders shtab knows by itself."""
    for action in parser._actions:
        kind = str(getattr(action, "complete", ""))
        if kind in completers:
            action.complete = completers[kind]  # type: ignore[attr-defined]  # shtab reads it
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                _complete(each, completers)


def _words(kind: str, names: Sequence[str]) -> dict[str, object]:
    """What completes one of these names, in each shell. They are kebab-case or snake_case: nothing needs quoting."""
    words = " ".join(names)
    function = f'_abh_{kind}() {{ compgen -W "{words}" -- "$1"; }}'
    return {"bash": f"_abh_{kind}", "zsh": f"({words})", "fish": words, "preamble": {"bash": function}}


def _cells(*parts: Sequence[str]) -> dict[str, object]:
    """What completes a run's name: the shells put it together, as there are thousands."""
    braces = [f"{{{','.join(part)}}}" for part in parts]  # each has more than one: else a shell would not expand it
    # In quotes, as ~ is a part of a pattern in zsh.
    every = "{}'@'{}'~'{}".format(*braces)
    return {
        "bash": "_abh_cell",
        "zsh": "_abh_cell",
        "fish": "(_abh_cell)",
        "preamble": {
            "bash": f'_abh_cell() {{ compgen -W "$(echo {every})" -- "$1"; }}',
            "zsh": f"_abh_cell() {{ compadd -- {every} }}",
            "fish": f"function _abh_cell; printf '%s\\n' {every}; end",
        },
    }
