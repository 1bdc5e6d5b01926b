# SPDX-License-Identifier: MIT
"""A machine for testing a kernel itself: a kernel, an initramfs of a few static programs, and a console.

Much less than the study's machines: booted anew each time, with QEMU's own clock, nothing frozen. What it does is a
job, a few lines that its first process obeys (tests/kernel/init.c); what it says comes over the serial console, the
kernel's own complaints among it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from abh import paths
from abh.bench import build, root, series
from abh.errors import AbhError

KERNEL_SERIES = "kernel-patches/6.12"
TOPIC = "abh/"
KNOB = "/sys/kernel/mm/abh/enabled"
SWAP_MIB = 512
PAGE = 4096
# panic_on_warn: a complaint ends the run, with its trace as the last lines; so warnings go to the console.
# rootfstype: a tmpfs is shared memory, and programs are to lie in files. no_timer_check: on a busy machine the emulated
# timer comes too late for the kernel's check of it, which panics.
CMDLINE = (
    "console=ttyS0 loglevel=5 nokaslr random.trust_cpu=off panic_on_warn=1 panic=-1 rootfstype=ramfs rdinit=/init"
    " no_timer_check"
)
SPLAT = re.compile(r"\b(BUG:|WARNING:|KASAN:|Oops:|INFO: (possible|inconsistent|suspicious|task)|Kernel panic)")
TAIL_LINES = 60


def has_abh() -> bool:
    """Whether the kernel series has ABH's patches."""
    return any(name.startswith(TOPIC) for name in series.load(paths.CHECKOUT / KERNEL_SERIES).patches)


def kernel(component: str, *, stock: bool = False) -> Path:
    """The folder of a kernel, built; stock: without ABH's patches."""
    if not stock or not has_abh():
        return build.path_of(component)
    whole = series.load(paths.CHECKOUT / KERNEL_SERIES)
    without = replace(whole, patches=tuple(name for name in whole.patches if not name.startswith(TOPIC)))
    return build.build_series(without, component)


def cpio(files: Mapping[str, bytes]) -> bytes:
    """An initramfs (newc) of executable files, in folders made for them."""
    folders = {parent for name in files for parent in map(str, Path(name).parents) if parent != "."}
    entries = [(each, 0o040755, b"") for each in sorted(folders)]
    entries += [(each, 0o100755, content) for each, content in files.items()]
    entries += [("TRAILER!!!", 0, b"")]
    out = bytearray()
    for number, (name, mode, content) in enumerate(entries, 1):
        header = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % each for each in header) + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + content
        out += bytes(-len(out) % 4)
    return bytes(out)


def swap_header(size: int) -> bytes:
    """The first page of a swap device of that many bytes."""
    head = bytes(1024) + struct.pack("<III", 1, size // PAGE - 1, 0)
    return head.ljust(PAGE - 10, b"\0") + b"SWAPSPACE2"


@dataclass
class Said:
    """What a machine said, and how it ended."""

    lines: list[str] = field(default_factory=list)
    problem: str | None = None  # None: the job was done to its end

    @property
    def statuses(self) -> list[str]:
        """The exit status of each program of the job, in order."""
        return [line.removeprefix("TEST status ") for line in self.lines if line.startswith("TEST status ")]

    @property
    def ok(self) -> bool:
        """The job was done, every program ended with 0 and the kernel did not complain."""
        return self.problem is None and bool(self.statuses) and all(each == "0" for each in self.statuses)

    def tail(self) -> str:
        """The last lines."""
        return "\n".join(self.lines[-TAIL_LINES:])

    def judge(self, timed_out: bool) -> None:
        """Finds what went wrong with the machine, if something did."""
        ends = [line.removeprefix("TEST end ") for line in self.lines if line.startswith("TEST end ")]
        splat = next((line for line in self.lines if SPLAT.search(line)), None)
        if splat:
            self.problem = f"the kernel complained: {splat}"
        elif timed_out:
            self.problem = "it did not end within its time limit"
        elif ends != ["well"]:
            self.problem = ends[0] if ends else "the machine went off before its job was done"


def _nodes(memory_mib: int, processors: int, nodes: int) -> list[str]:
    """Memory in equal parts. The first has all processors: so what a program touches is there, unless it says where."""
    words = []
    for node in range(nodes):
        words += ["-object", f"memory-backend-ram,id=node{node},size={memory_mib // nodes}M"]
        words += ["-numa", f"node,memdev=node{node}" + ("" if node else f",cpus=0-{processors - 1}")]
    return words


def _words(memory_mib: int, processors: int, nodes: int, cmdline: str) -> list[str]:
    words = ["/in/qemu/qemu-system-x86_64", "-L", "/usr/share/seabios", "-L", "/usr/share/qemu"]
    words += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "pc"]
    words += ["-cpu", "qemu64,+pdpe1gb", "-m", f"{memory_mib}M", "-smp", str(processors)]
    words += _nodes(memory_mib, processors, nodes) if nodes > 1 else []
    words += ["-serial", "stdio"]
    words += ["-drive", "file=/run/swap,format=raw,if=virtio,cache=unsafe"]
    words += ["-kernel", "/in/linux/vmlinuz", "-initrd", "/run/initramfs", "-append", f"{CMDLINE} {cmdline}".strip()]
    return words


@contextlib.contextmanager
def _process(linux: Path, initramfs: bytes, words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    with tempfile.TemporaryDirectory(prefix="abh-") as scratch:
        folder = Path(scratch)
        (folder / "initramfs").write_bytes(initramfs)
        with (folder / "swap").open("wb") as swap:
            swap.write(swap_header(SWAP_MIB << 20))
            swap.truncate(SWAP_MIB << 20)
        read_only = {"/in/qemu": build.path_of("qemu"), "/in/linux": linux}
        enter = root.enter(root.path_of("build"), read_only=read_only, writable={"/run": folder}, scratch="/in")
        process = subprocess.Popen(
            [*enter, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run(
    linux: Path,
    job: Sequence[str],
    *,
    limit_s: float,
    files: Mapping[str, bytes] | None = None,
    memory_mib: int = 1024,
    processors: int = 1,
    nodes: int = 1,
    cmdline: str = "",
    tell: Callable[[str], None] = lambda line: None,
) -> Said:
    """Boots a kernel, has it do a job, and returns what it said; `tell` gets each line as it comes."""
    programs = build.path_of("kernel-tests")
    held = {path.name: path.read_bytes() for path in programs.iterdir() if path.name != "build.log"}
    held |= {"job": "".join(f"{line}\n" for line in job).encode(), **(files or {})}
    said, expired = Said(), threading.Event()
    with _process(linux, cpio(held), _words(memory_mib, processors, nodes, cmdline)) as process:

        def expire() -> None:
            expired.set()
            process.kill()

        limit = threading.Timer(limit_s, expire)
        limit.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                said.lines.append(line.rstrip())
                tell(said.lines[-1])
        finally:
            limit.cancel()
        if process.wait() and not expired.is_set():
            raise AbhError("the emulator failed", got=f"exit status {process.returncode}", tail=said.tail())
    said.judge(expired.is_set())
    return said


def try_prefix(patches: series.Series, linux: Path) -> None:
    """Boots the kernel made of a prefix of its series, and tries its memory calls: as stock, then with its ABH."""
    fuzz = "run /fuzz --ops 2000 --no-shrink"
    job = [fuzz]
    if any(name.startswith(TOPIC) for name in patches.patches):
        job += [f"set {KNOB} always", f"{fuzz} --extended"]
    said = run(linux, job, limit_s=300)
    if not said.ok:
        raise AbhError("the kernel built does not do its job", got=said.problem or "a failure", tail=said.tail())


def outputs(lines: Sequence[str]) -> list[tuple[str, list[str]]]:
    """What each program of a job printed, its status last: (command line, lines), in order."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("TEST run "):
            found.append((line.removeprefix("TEST run "), []))
        elif found and (line.startswith("TEST status ") or not line.startswith(("TEST ", "["))):
            found[-1][1].append(line)
    return found
