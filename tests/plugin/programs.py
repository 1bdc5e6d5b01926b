# SPDX-License-Identifier: MIT
"""Bare-metal programs, booted in QEMU with a plugin.

ABH_QEMU    QEMU's command, with -L options for its firmware: "./qemu-system-x86_64 -L share/seabios -L share/qemu"
ABH_PLUGIN  the built plugin
ABH_MODEL   the built MMU model's plugin, which stands in for it on machines with one processor
ABH_ENTER   optional: a command to put before assembler, linker and QEMU, such as bwrap into the root they were built
            for. "{tmp}" in it becomes the test's own folder, which must be seen inside under the same path.
"""

import json
import os
import shlex
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ICOUNT = ["-icount", "shift=1,sleep=off"]
PASSED = 2 * 0x10 + 1  # isa-debug-exit's status for PASSED in common.inc
TIMEOUT_S = 300  # seconds when the machine is idle

missing = [name for name in ("ABH_QEMU", "ABH_PLUGIN", "ABH_MODEL") if not os.environ.get(name)]
needed = pytest.mark.skipif(bool(missing), reason=f"not set: {', '.join(missing)}")

SAID = ("region", "instructions", "vmrun", "error")  # what a line of either plugin has, the model's among other things


class Bench:
    """One test's folder, the images in it, and QEMU on them."""

    def __init__(self, tmp: Path, plugin: str):
        self.tmp = tmp
        self.plugin = plugin
        self.out = tmp / "out.jsonl"
        self.console = tmp / "console"

    def enter(self, argv: list[str]) -> list[str]:
        """The same command, inside the root that it was built for."""
        prefix = [word.replace("{tmp}", str(self.tmp)) for word in shlex.split(os.environ.get("ABH_ENTER", ""))]
        return prefix + argv

    def run(self, argv: list[str]) -> subprocess.CompletedProcess:
        """Runs it to its end, whatever that is."""
        return subprocess.run(self.enter(argv), capture_output=True, text=True, timeout=TIMEOUT_S)

    def image(self, name: str) -> str:
        """The path of a program, assembled and linked."""
        for source in (f"{name}.S", "common.inc", "svm.inc", "long.inc"):
            shutil.copy(HERE / source, self.tmp)
        source, object_file, image = (str(self.tmp / f"{name}.{kind}") for kind in ("S", "o", "elf"))
        for argv in (
            ["as", "--32", "-I", str(self.tmp), "-o", object_file, source],
            "ld -m elf_i386 -N -Ttext 0x100000 --section-start .multiboot=0xff000 -o".split() + [image, object_file],
        ):
            done = self.run(argv)
            assert done.returncode == 0, f"{shlex.join(argv)}: {done.stderr}"
        return image

    def qemu(self, *options: str, plugin: str | None = "") -> list[str]:
        """QEMU's arguments; plugin is what follows out=PATH, None to leave the plugin out."""
        argv = shlex.split(os.environ["ABH_QEMU"])
        argv += "-machine pc -accel tcg -m 64 -nodefaults -display none -no-reboot".split()
        argv += [] if "-cpu" in options else ["-cpu", "qemu64,+svm"]
        argv += "-device isa-debug-exit,iobase=0xf4,iosize=4 -device isa-debugcon,chardev=console".split()
        argv += ["-chardev", f"file,id=console,path={self.console}"]
        if plugin is not None:
            argv += ["-plugin", f"{self.plugin},out={self.out}{plugin}"]
        return argv + list(options)

    def boot(self, name: str, *options: str, plugin: str | None = "") -> list[dict]:
        """Boots an image to its end and gives the lines the plugin wrote in this and earlier boots."""
        done = self.run(self.qemu("-kernel", self.image(name), *options, plugin=plugin))
        assert done.returncode == PASSED, f"{name}: status {done.returncode}, want {PASSED}: {done.stderr}"
        return self.lines()

    def lines(self) -> list[dict]:
        """What either plugin said of each region, in this and earlier boots."""
        return [{key: value for key, value in line.items() if key in SAID} for line in self.whole_lines()]

    def whole_lines(self) -> list[dict]:
        """The same with all that the plugin said."""
        return [json.loads(line) for line in self.out.read_text().splitlines()] if self.out.exists() else []

    def console_number(self) -> int:
        """The first number that the program put to the console."""
        return self.console_numbers()[0]

    def console_numbers(self) -> list[int]:
        """All of them."""
        return [number for (number,) in struct.iter_unpack("<I", self.console.read_bytes())]
