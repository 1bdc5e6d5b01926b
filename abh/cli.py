# SPDX-License-Identifier: MIT
"""The command line: one module of abh/commands is one subcommand, and every way to end has its exit status.

A command module has HELP (one line), add_arguments(parser) and run(args) -> int; and BEGINS_ANEW = True where what it
does is not kept, so that an interrupted one begins anew. Only the module of the command asked for is imported, so a
light command stays fast however heavy the others are.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from types import FrameType, ModuleType

from abh.errors import AbhError, Status

COMMANDS = Path(__file__).resolve().parent / "commands"
AGAIN = "run the same command again to go on"
ANEW = "run the same command again: it begins anew, but for what it had built, which is kept"
# The machine's doing, not a bug of ours: full, over quota, read-only, another user's, short of memory or of open files.
MACHINE_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


HELP_FORM = argparse.RawDescriptionHelpFormatter


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
        allow_abbrev=False,  # an option that comes later must not change what a script means
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in names:
        module = load(name)
        sub = commands.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__ or module.HELP,
            allow_abbrev=False,
            formatter_class=HELP_FORM,
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run, parser=sub, begins_anew=getattr(module, "BEGINS_ANEW", False))
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with the command's function as `run`; leaves with status 2 on a wrong usage."""
    names = command_names()
    asked = argv[0] if argv else "--help"
    if asked in names or asked.startswith("-"):
        parser = make_parser([asked] if asked in names else [] if asked == "--version" else names)
        args, more = parser.parse_known_args(argv)
        if more:  # argparse itself would show the usage of abh, not of the command
            args.parser.error(f"unrecognized arguments: {' '.join(more)}")
        return args
    near = difflib.get_close_matches(asked, names, n=1)
    raise AbhError(
        f"unknown command `{asked}`",
        expected="one of " + ", ".join(names),
        next_step=f"did you mean `{near[0]}`?" if near else "`abh --help` tells what each does",
        status=Status.USAGE,
    )


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


def _open_standard_files() -> None:
    """Standard files that are closed (`abh list >&-`) become /dev/null, lest a file opened later take their place."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(handle := os.open(os.devnull, os.O_RDWR), number)
            if handle != number:
                os.close(handle)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no ✗ shows ?


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    args = None
    _open_standard_files()
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
        print(f"\nabh: interrupted; {ANEW if args and args.begins_anew else AGAIN}", file=sys.stderr)
        return Status.INTERRUPTED
    except BrokenPipeError:
        # The reader has left (`abh list | head`): nothing to say, and the flush at exit must not say it either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Status.PIPE_CLOSED
    except OSError as error:
        if error.errno not in MACHINE_ERRNOS:
            _bug(error)
        else:
            print(f"abh: {error}\n  next: see `abh doctor`, then run the same command again", file=sys.stderr)
        return Status.FAILED
    except Exception as error:
        _bug(error)
        return Status.FAILED
