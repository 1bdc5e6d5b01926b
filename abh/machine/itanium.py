# SPDX-License-Identifier: MIT
"""The Itanium machine (hypervisor/itanium): boots a kernel with a RAM disk, says how that ended and what was counted.

Nothing of it is frozen: a boot takes two seconds, and the same boot counts the same.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abh.build import components, root
from abh.machine.patience import Patience
from abh.schema import spec

COMPONENT = "itanium"
KERNEL_FILE, RAMDISK_FILE = "vmlinux", "initramfs.cpio"  # in the components that a machine's file names
LATE = -1  # the status of a run that was ended because it took too long
REFUSED = 2  # the status of one that could not be started
POLL_S = 0.2
PIECE = 1 << 16  # bytes that are read at once, at most


@dataclass(frozen=True)
class Ended:
    """How a run of the machine ended."""

    status: int  # 0: the kernel ended it; 1: it cannot go on, or has not ended; REFUSED; LATE
    console: str
    report: str  # what the machine itself says
    counted: Mapping[str, Any]  # empty where it was not started, or too late


def runs(machine: spec.Machine) -> bool:
    """Whether a machine of vm-configs/machines is this one; all others are QEMU's."""
    return machine.emulator == COMPONENT


def component_names(machine: spec.Machine) -> list[str]:
    """The components that the machine is made of: its RAM disk has the workloads of all groups."""
    return [machine.emulator, machine.kernel, f"{machine.root}-initramfs"]


def run(
    words: Sequence[str], *, kernel: Path, ramdisk: Path, live: bool = False, limit_s: float | None = None
) -> Ended:
    """Starts the machine with these options of its own.

    live: its console is also seen as it comes. limit_s: seconds of its processor time, after which it is ended.
    """
    with tempfile.TemporaryDirectory(prefix="abh-itanium-") as scratch:
        enter = root.enter(
            root.path_of("build"),
            read_only={"/in/machine": components.path_of(COMPONENT), "/in/kernel": kernel, "/in/ramdisk": ramdisk},
            writable={"/out": Path(scratch)},
            scratch="/in",
        )
        command = [*enter, "/in/machine/itanium", "/in/kernel", "--ramdisk", "/in/ramdisk", "--json", "/out/counted"]
        status, console, report = _ran([*command, *words], limit_s, live=live)
        if status == REFUSED:  # by the names that the user knows the files by
            report = report.replace("/in/kernel", str(kernel)).replace("/in/ramdisk", str(ramdisk))
        counted = Path(scratch, "counted")
        whole = counted.exists() and status != LATE
        return Ended(status, console, report, json.loads(counted.read_text()) if whole else {})


def _ran(command: Sequence[str], limit_s: float | None, *, live: bool = False) -> tuple[int, str, str]:
    """The status of a command and what it wrote on both streams; LATE, and how long it took, if it was ended."""
    late, console, report = False, bytearray(), bytearray()
    with (
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started,
        selectors.DefaultSelector() as streams,
    ):
        patience = None if limit_s is None else Patience(limit_s, started.pid)
        assert started.stdout and started.stderr
        streams.register(started.stdout, selectors.EVENT_READ, console)
        streams.register(started.stderr, selectors.EVENT_READ, report)
        try:
            while streams.get_map():  # what is still open
                if patience is not None and not late and patience.is_over():
                    late = True
                    started.kill()  # bubblewrap takes what is inside with it
                for key, _ in streams.select(POLL_S):
                    piece = os.read(key.fd, PIECE)
                    key.data.extend(piece)
                    if not piece:
                        streams.unregister(key.fileobj)
                    elif live and key.data is console:
                        _show(piece)
            status = started.wait()
        finally:
            started.kill()
    return (LATE, _text(console), f"no end within {patience}") if late else (status, _text(console), _text(report))


def _show(piece: bytes) -> None:
    """On standard output, as it is: a character may be cut in two where a piece ends."""
    sys.stdout.flush()
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _text(said: bytearray) -> str:
    return said.decode(errors="replace").replace("\r\n", "\n")


def archive(files: Mapping[str, bytes]) -> bytes:
    """An archive of cpio's format "newc" with these files at its top. Linux unpacks several that follow each other."""
    made = bytearray()
    for number, (name, content) in enumerate([*files.items(), ("TRAILER!!!", b"")], 1):
        # Number, mode, owner, group, links, time, length; devices: four; length of the name with its zero; no sum.
        fields = (number, 0o100444, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        made += b"070701" + b"".join(b"%08X" % field for field in fields)
        for part in (name.encode() + b"\0", content):
            made += part
            made += bytes(-len(made) % 4)
    return bytes(made)
