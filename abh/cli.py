# SPDX-License-Identifier: MIT
"""The command line: one module of abh/commands is one subcommand, and every way to end has its exit status.

A command module has HELP (one line), add_arguments(parser) and run(args) -> int. Only the module of the command
asked for is imported, so a light command stays fast however heavy the others are.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from types import FrameType, ModuleType

from abh.errors import AbhError

FAILED = 1
INTERRUPTED = 130
PIPE_CLOSED = 141

COMMANDS = Path(__file__).resolve().parent / "commands"
# The machine's doing, not a bug of ours: full, over quota, read-only.
MACHINE_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def command_names() -> list[str]:
    """Every subcommand, as typed: the modules of abh/commands with - for _."""
    return sorted(p.stem.replace("_", "-") for p in COMMANDS.glob("[!_]*.py"))


def load(name: str) -> ModuleType:
    """The module of a subcommand."""
    return importlib.import_module(f"abh.commands.{name.replace('-', '_')}")


def version() -> str:
    """The project's version: that of the checkout, else of the installed package."""
    try:
        import tomllib

        text = (COMMANDS.parent.parent / "pyproject.toml").read_text(encoding="utf-8")
        return str(tomllib.loads(text)["project"]["version"])
    except OSError:
        try:
            return installed_version("abh")
        except PackageNotFoundError:
            return "unknown"


class _Version(argparse.Action):
    """Prints the version; looked up only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"abh {version()}")
        parser.exit(0)


def make_parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """The parser with these subcommands."""
    parser = argparse.ArgumentParser(
        prog="abh",
        description="Boot real KVM and Xen in emulation, and see how many pages of a program become hugepages.",
        epilog="`abh COMMAND --help` tells more of one command.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in names:
        module = load(name)
        sub = commands.add_parser(name, help=module.HELP, description=module.__doc__ or module.HELP)
        sub.formatter_class = argparse.RawDescriptionHelpFormatter
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with the command's function as `run`; leaves with status 2 on a wrong usage."""
    names = command_names()
    asked = argv[0] if argv else ""
    if asked in names:
        return make_parser([asked]).parse_args(argv)
    if asked == "--version":
        return make_parser([]).parse_args(argv)
    return make_parser(names).parse_args(argv)


def _interrupt(signum: int, _frame: FrameType | None) -> None:
    """A request to end becomes an exception, so that every `finally` and `with` on the way out runs."""
    raise KeyboardInterrupt(signal.Signals(signum).name)


def _catch_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup means it
            signal.signal(number, _interrupt)


def _bug(error: BaseException) -> None:
    print(
        f"abh: this is a bug in abh: {type(error).__name__}: {error}; please report it with the lines below",
        file=sys.stderr,
    )
    traceback.print_exception(error)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    _catch_signals()
    try:
        args = parse(argv)
        status = int(args.run(args) or 0)
        sys.stdout.flush()
        return status
    except AbhError as error:
        print(f"abh: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("\nabh: interrupted; run the same command again to go on", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has left (`abh list | head`): nothing to say, and the flush at exit must not say it either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except OSError as error:
        if error.errno not in MACHINE_ERRNOS:
            _bug(error)
        else:
            print(f"abh: {error}\n  next: see `abh doctor`, then run the same command again", file=sys.stderr)
        return FAILED
    except Exception as error:
        _bug(error)
        return FAILED
