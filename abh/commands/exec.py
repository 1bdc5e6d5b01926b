# SPDX-License-Identifier: MIT
"""Run a program with alignment-based hugepages, on a kernel that has kernel-patches/6.12/abh.

It and its children get ABH if /sys/kernel/mm/abh/enabled is opt-in or always; with --off, they get none under always.
`abh exec` becomes the program: its process, environment, output and exit status are the program's own. As of a shell,
127 says that there is no such program, 126 that it cannot be run, 1 that ABH is not to be had. Nothing but Python's own
library may be imported here and on the way here: bin/abh starts it without the bench's packages.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
from pathlib import Path

from abh.errors import AbhError, Status
from abh.host import given

HELP = "run a program with alignment-based hugepages, or without"
ENABLED = Path("/sys/kernel/mm/abh/enabled")
# include/uapi/linux/prctl.h of the patched kernel.
PR_SET_ABH = 0x41424800
PR_ABH_ON, PR_ABH_OFF = 1, 2
# What Python ignores for itself.
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program, and what it is to get."""
    parser.add_argument("--off", action="store_true", help="without ABH, though the system has it for all")
    parser.add_argument("program", metavar="PROGRAM", help="found as the shell finds it")
    arguments = parser.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER)
    arguments.required = False  # argparse says that it is, where PROGRAM lacks


def run(args: argparse.Namespace) -> int:
    """Become the program."""
    choose(PR_ABH_OFF if args.off else PR_ABH_ON)
    if not args.off and ENABLED.exists() and "[never]" in ENABLED.read_text():
        raise AbhError(
            "ABH is off on this system", where=ENABLED, got="never", next_step=f"echo opt-in > {ENABLED} (as root)"
        )
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(args.program, [args.program, *args.arguments], given.environment())
    except OSError as error:
        status = Status.NOT_FOUND if isinstance(error, FileNotFoundError) else Status.CANNOT_RUN
        raise AbhError(
            f"cannot run {args.program}", got=error.strerror, next_step="name a program", status=status
        ) from error


def choose(choice: int) -> None:
    """Says what the programs that this process runs are to get."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_ABH, choice, 0, 0, 0):
        raise AbhError(
            "this kernel has no alignment-based hugepages",
            got=f"prctl(PR_SET_ABH): {os.strerror(ctypes.get_errno())}",
            next_step="run a kernel with kernel-patches/6.12/abh",
        )
