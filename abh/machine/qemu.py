# SPDX-License-Identifier: MIT
"""The one place that runs QEMU: in a Debian root, with a scratch folder of its own, ended for certain.

What a QEMU is for is its caller's: the emulated machine is frozen and thawed over QMP (emulated.py), a kernel under
test speaks on its console (verify/testbed.py), a guest of this machine's own KVM likewise (study/local.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from abh.build import root
from abh.machine.patience import Patience
from abh.schema import spec

BUILT = "/in/qemu"  # where a root has the component that emulates
DEBIAN = "/usr/bin/qemu-system-x86_64"  # the host root's, which has KVM: the one we build has TCG alone
LOG, CONSOLE = "qemu.log", "console.log"  # in the scratch folder, which the root has as /run
BARE = ("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot")
POLL_S = 0.05


def emulator_words(architecture: spec.Architecture, args: Sequence[str] = ()) -> list[str]:
    """How the command line of the QEMU that we build begins; `args` come before the words that all have."""
    firmware = [word for folder in architecture.firmware for word in ("-L", folder)]
    return [f"{BUILT}/{architecture.emulator}", *firmware, *args, *BARE]


class Running:
    """A QEMU process and the folder of its files."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process, self.folder = process, folder
        self.log = folder / LOG

    def status(self) -> int | None:
        """Its exit status; None while it runs. Of one that a signal ended, the signal's number, negative."""
        return self.process.poll()

    def text(self, name: str) -> str:
        """What a file of its folder holds so far; nothing, where there is none yet."""
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def patience(self, limit_s: float) -> Patience:
        """A limit on what it takes from now on; limit_s: seconds of processor time."""
        return Patience(limit_s, self.process.pid)

    def lines(self, limit_s: float) -> Iterator[str]:
        """Each line of its log, as it comes, until it ends; TimeoutError, which says how long it took, after `limit_s`
        seconds of processor time."""
        patience, rest = self.patience(limit_s), b""
        with self.log.open("rb") as log:
            while True:
                over = self.status() is not None  # asked first: what it wrote last is then still read
                *whole, rest = (rest + log.read()).split(b"\n")
                yield from (line.decode(errors="replace") for line in whole)
                if over:
                    break
                if patience.is_over():
                    raise TimeoutError(f"no end within {patience}")
                time.sleep(POLL_S)
        if rest:
            yield rest.decode(errors="replace")

    def end(self) -> None:
        """Kills its process group, and bubblewrap takes what is inside with it; may be called from any thread."""
        # The group has gone where QEMU went off by itself: that is what is wanted.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


@contextlib.contextmanager
def process(command: Sequence[str], folder: Path) -> Iterator[Running]:
    """A started command, whose output is the log in `folder`; gone when the block ends, however it ends."""
    with (folder / LOG).open("wb") as log:
        # A session of its own: it can be killed as a group, and an interruption at the terminal is ours to handle.
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    running = Running(started, folder)
    try:
        yield running
    finally:
        running.end()
        started.wait()


def enter(tree: Path, *, read_only: Mapping[str, Path], writable: Mapping[str, Path] | None = None,
          devices: Sequence[Path] = ()) -> list[str]:  # fmt: skip
    """The command prefix that runs QEMU in the root `tree`; names of folders are (inside -> outside)."""
    prefix = root.enter(tree, read_only=read_only, writable=writable, scratch="/in")
    return prefix + [word for device in devices for word in ("--dev-bind", str(device), str(device))]


@contextlib.contextmanager
def inside(tree: Path, words: Sequence[str], *, read_only: Mapping[str, Path],
           writable: Mapping[str, Path] | None = None, devices: Sequence[Path] = (),
           prepare: Callable[[Path], None] = lambda folder: None) -> Iterator[Running]:  # fmt: skip
    """QEMU in the root `tree`, with a scratch folder as its /run, which `prepare` fills, and which goes with it."""
    with tempfile.TemporaryDirectory(prefix="abh-") as scratch:  # short: a socket's path has 108 bytes
        folder = Path(scratch)
        prepare(folder)
        prefix = enter(tree, read_only=read_only, writable={"/run": folder, **(writable or {})}, devices=devices)
        with process([*prefix, *words], folder) as running:
            yield running
