# SPDX-License-Identifier: MIT
"""The Itanium machine (hypervisor/itanium): boots a kernel with a RAM disk, says how that ended and what was counted.

Nothing of it is frozen: a boot takes two seconds, and the same boot counts the same.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
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
POLL_S = 0.2


@dataclass(frozen=True)
class Ended:
    """How a run of the machine ended."""

    status: int  # 0: the kernel ended it; 1: it cannot go on, or has not ended; 2: it could not be started; LATE
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

    live: what it prints is seen as it comes, and not kept. limit_s: seconds of its processor time, after which it
    is ended.
    """
    with tempfile.TemporaryDirectory(prefix="abh-itanium-") as scratch:
        enter = root.enter(
            root.path_of("build"),
            read_only={"/in/machine": components.path_of(COMPONENT), "/in/kernel": kernel, "/in/ramdisk": ramdisk},
            writable={"/out": Path(scratch)},
            scratch="/in",
        )
        command = [*enter, "/in/machine/itanium", "/in/kernel", "--ramdisk", "/in/ramdisk", "--json", "/out/counted"]
        status, console, report = _ran([*command, *words], None if live else subprocess.PIPE, limit_s)
        counted = Path(scratch, "counted")
        whole = counted.exists() and status != LATE
        return Ended(status, console, report, json.loads(counted.read_text()) if whole else {})


def _ran(command: Sequence[str], streams: int | None, limit_s: float | None) -> tuple[int, str, str]:
    """The status of a command and what it wrote on both streams; LATE, and how long it took, if it was ended."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=streams, stderr=streams) as started:
        patience = None if limit_s is None else Patience(limit_s, started.pid)
        try:
            while patience is None or not patience.is_over():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    out, err = started.communicate(timeout=POLL_S)
                    return started.returncode, _text(out), _text(err)
        finally:
            started.kill()  # bubblewrap takes what is inside with it
        out, _ = started.communicate()
    return LATE, _text(out), f"no end within {patience}"


def _text(said: bytes | None) -> str:
    return (said or b"").decode(errors="replace").replace("\r\n", "\n")


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
