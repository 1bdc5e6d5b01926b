# SPDX-License-Identifier: MIT
"""Boot a kernel on the Itanium machine (hypervisor/itanium), with its console here, and say what happened.

Without options it is the bench's own kernel (kernel-patches/6.1-ia64) with a RAM disk that tests a little of all. A run
is decided by what it is started with: the same run twice is the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from abh import arguments, output
from abh.errors import AbhError, Status

HELP = "boot a kernel on the Itanium machine"


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


def run(args: argparse.Namespace) -> int:
    """Build what is needed, and run it."""
    from abh.verify import itanium

    for path in filter(None, (args.kernel, args.ramdisk)):
        if not path.is_file():
            raise AbhError("no such file", where=path, status=Status.USAGE)
    words = ["--memory", str(args.memory), "--instructions", str(args.instructions), f"--append={args.append}"]
    with output.report(args.json) as report:
        ended = itanium.run(words, kernel=args.kernel, ramdisk=args.ramdisk, live=True, pages=int(args.pages))
        report.update(status=ended.status, **ended.counted)
        if args.bench and ended.counted:
            print(json.dumps(_speed(ended.counted)))
    # 2: it could not be started, as of a file that is no kernel.
    return {0: Status.SUCCESS, 2: Status.USAGE}.get(ended.status, Status.FAILED)
