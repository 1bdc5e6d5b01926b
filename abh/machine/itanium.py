# SPDX-License-Identifier: MIT
"""The Itanium machine (hypervisor/itanium): boots a kernel with a RAM disk, says how that ended and what was counted.

Nothing of it is frozen: a boot takes two seconds, and the same boot counts the same.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abh.build import components, root
from abh.schema import spec

COMPONENT = "itanium"
KERNEL_FILE, RAMDISK_FILE = "vmlinux", "initramfs.cpio"  # in the components that a machine's file names
LATE = -1  # the status of a run that was ended because it took too long


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

    live: what it prints is seen as it comes, and not kept. limit_s: real seconds, after which it is ended.
    """
    with tempfile.TemporaryDirectory(prefix="abh-itanium-") as scratch:
        enter = root.enter(
            root.path_of("build"),
            read_only={"/in/machine": components.path_of(COMPONENT), "/in/kernel": kernel, "/in/ramdisk": ramdisk},
            writable={"/out": Path(scratch)},
            scratch="/in",
        )
        command = [*enter, "/in/machine/itanium", "/in/kernel", "--ramdisk", "/in/ramdisk", "--json", "/out/counted"]
        streams = {} if live else {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        try:
            done = subprocess.run(  # type: ignore[call-overload]
                [*command, *words], stdin=subprocess.DEVNULL, check=False, timeout=limit_s, **streams
            )
        except subprocess.TimeoutExpired as late:
            return Ended(LATE, _text(late.stdout), f"no end within {limit_s:g} s", {})
        counted = Path(scratch, "counted")
        return Ended(
            done.returncode,
            _text(done.stdout),
            _text(done.stderr),
            json.loads(counted.read_text()) if counted.exists() else {},
        )


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
