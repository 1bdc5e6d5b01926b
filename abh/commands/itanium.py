# SPDX-License-Identifier: MIT
"""Boot a kernel on the Itanium machine (hypervisor/itanium), with its console here, and say what happened.

Without options it is the bench's own kernel (kernel-patches/6.1-ia64) with a RAM disk that tests a little of all. A run
is decided by what it is started with: the same run twice is the same. The status is 1 where the kernel did not end the
run, where the bench's own test has failed, and where its own kernel did not take a word of its series.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abh import arguments, output
from abh.errors import AbhError, Status

if TYPE_CHECKING:
    from abh.verify.itanium import Ended

BEGINS_ANEW = True
HELP = "boot a kernel on the Itanium machine"
# What each file is to be, and how to go on without one.
EXPECTED = {
    "--kernel": ("a vmlinux for Itanium, as the kernel's build leaves it", "the bench's own kernel"),
    "--ramdisk": ("an archive of cpio, as `cpio -o -H newc` writes it, packed or not", "the bench's own test"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--kernel", type=Path, metavar="FILE", help="a vmlinux (default: the bench's own)")
    parser.add_argument("--ramdisk", type=Path, metavar="FILE", help="a cpio archive (default: the bench's test)")
    parser.add_argument(
        "--memory", type=arguments.whole(128, 1 << 20), default=512, metavar="MIB", help="default: %(default)s"
    )
    arguments.add_itanium_pages(parser)
    parser.add_argument("--append", default="", metavar="TEXT", help="more words of the kernel's command line")
    parser.add_argument(
        "--instructions",
        type=arguments.whole(1, 10**15),
        default=20 * 10**9,
        metavar="N",
        help="after which it is to have ended (default: %(default)s)",
    )
    parser.add_argument("--bench", action="store_true", help="say in a last line, as JSON, how fast it was")
    output.add_json(parser)


def _speed(counted: Mapping[str, Any]) -> dict[str, object]:
    """Times of this machine: they are right when nothing else runs."""
    count, seconds = counted["instructions"], counted["seconds"]
    return {
        "kind": "measured",
        "instructions": count,
        "seconds": round(seconds, 3),
        "million_per_second": round(count / seconds / 1e6, 1),
    }


def _refused(option: str, path: Path, what: str) -> AbhError:
    """The error of a file that no machine can be started with."""
    expected, otherwise = EXPECTED[option]
    return AbhError(
        f"the Itanium machine cannot be started with this file of {option}",
        where=path,
        got=what,
        expected=expected,
        next_step=f"name another file, or leave {option} out: then it is {otherwise}",
        status=Status.USAGE,
    )


def _check_file(option: str, path: Path) -> None:
    """An error where there is nothing that the machine could read."""
    what = (
        "a folder" if path.is_dir()
        else "no file but a device, pipe or socket" if path.exists() and not path.is_file()
        else "no such file" if not path.exists()
        else "an empty file" if not path.stat().st_size
        else "a file that may not be read" if not os.access(path, os.R_OK)
        else None
    )  # fmt: skip
    if what:
        raise _refused(option, path, what)


def _check_words(append: str) -> None:
    from abh.verify import itanium

    if several := itanium.twice(append):
        raise arguments.wrong(
            "a word of the kernel's command line has several values",
            got=", ".join(several),
            expected="one of them",
            next_step="leave out the others",
        )
    for word, meant in itanium.mistyped(append).items():
        raise arguments.wrong(
            "a word of the kernel's command line is nearly one that it knows",
            got=word,
            next_step=f"did you mean `{meant}`? The kernel passes over what it does not know",
        )


def _check_started(ended: Ended, files: Mapping[str, Path | None]) -> None:
    """An error where the machine could not be started: of the file that it names."""
    from abh.machine import itanium

    if ended.status != itanium.REFUSED:
        return
    said = ended.report.strip().removeprefix("itanium: ")
    for option, path in files.items():
        if path and said.startswith(before := f"{path.absolute()}: "):
            raise _refused(option, path, said.removeprefix(before))
    raise AbhError(
        "the Itanium machine cannot be started so",
        got=said or "no reason",
        next_step="see `bin/abh itanium --help`",
        status=Status.USAGE,
    )


def _check_ended(ended: Ended, args: argparse.Namespace) -> None:
    """An error where the kernel ended the run, and what it and the RAM disk say of themselves is not well: as far as
    they are the bench's own."""
    from abh.verify import itanium

    if not args.kernel and (untaken := itanium.untaken(ended.console)):
        raise AbhError(
            "the kernel did not take a word of its command line",
            where=f"--append={args.append}",
            got="; ".join(untaken),
            next_step="give it a value that it takes: kernel-patches/6.1-ia64/README.md has them",
        )
    if not args.ramdisk and not itanium.is_well(ended.console):
        raise AbhError(
            "the test that the machine ran has failed",
            where=f"--append={args.append}" if args.append else None,
            got=itanium.what_failed(ended.console),
            expected=itanium.WELL,
            next_step="look at the console above for what it says before",
        )


def run(args: argparse.Namespace) -> int:
    """Build what is needed, and run it."""
    from abh.verify import itanium

    files = {"--kernel": args.kernel, "--ramdisk": args.ramdisk}
    for option, path in files.items():
        if path:
            _check_file(option, path)
    if not args.kernel:
        _check_words(args.append)
    words = ["--memory", str(args.memory), "--instructions", str(args.instructions), f"--append={args.append}"]
    with output.report(args.json) as report:
        ended = itanium.run(words, kernel=args.kernel, ramdisk=args.ramdisk, live=True, pages=int(args.pages))
        _check_started(ended, files)
        print(ended.report, end="", file=sys.stderr)
        report.update(status=ended.status, **ended.counted)
        if args.bench and ended.counted:
            print(json.dumps(_speed(ended.counted)))
        if ended.status == 0:
            _check_ended(ended, args)
    return Status.SUCCESS if ended.status == 0 else Status.FAILED
