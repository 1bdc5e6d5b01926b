# SPDX-License-Identifier: MIT
"""A machine for testing a kernel itself: a kernel, an initramfs of a few static programs, and a console.

Much less than the study's machines: booted anew each time, with QEMU's own clock, nothing frozen. What it does is a
job, a few lines that its first process obeys (tests/kernel/init.c); what it says comes over the serial console, the
kernel's own complaints among it.
"""

from __future__ import annotations

import difflib
import re
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from abh import paths
from abh.build import components, root, series
from abh.errors import AbhError
from abh.machine import qemu
from abh.schema import spec

ARCHITECTURE = "x86-64"
KERNEL_SERIES = str(components.COMPONENTS["linux"].series)
KHUGEPAGED = "/sys/kernel/mm/transparent_hugepage/khugepaged"
TOPIC = "abh/"
TOPICS = (TOPIC, "abh-heap/", "reservation/")  # of all series: what a stock kernel is without
KNOB = "/sys/kernel/mm/abh/enabled"
RESERVATION = "/sys/kernel/mm/transparent_hugepage/reservation"
BRK_AHEAD = "/sys/kernel/mm/transparent_hugepage/brk_ahead"  # of the newest kernel's series
NEWEST_KERNEL = "linux-newest-prefix"
# Of the fuzzer's mappings, too, which are small; each fault maps all that is covered.
WITH_RESERVATIONS = tuple(
    f"set {RESERVATION}/{name} {value}"
    for name, value in (("threshold_kib", 0), ("spare_percent", 51200), ("map_covered", 1), ("enabled", 1))
)
# Of what a mapping covers whole, too: not a hugepage at once, but some pages, and then others.
WITH_WHOLE = tuple(
    f"set {RESERVATION}/{name} {value}" for name, value in (("map_covered", 0), ("populate_kib", 64), ("whole", 1))
)
SWAP_MIB = 512
PAGE = 4096
# panic_on_warn: a complaint ends the run, with its trace as the last lines; so warnings go to the console.
# rootfstype: a tmpfs is shared memory, and programs are to lie in files. no_timer_check: on a busy machine the emulated
# timer comes too late for the kernel's check of it, which panics.
# What the kernel says begins with its time, so that it is told from what a program prints: on a busy machine it may
# say, between two lines of a program, that a clock was read late.
CMDLINE = (
    "console=ttyS0 loglevel=5 printk.time=1 nokaslr random.trust_cpu=off panic_on_warn=1 panic=-1 rootfstype=ramfs"
    " rdinit=/init no_timer_check"
)
SPLAT = re.compile(r"\b(BUG:|WARNING:|KASAN:|Oops:|INFO: (possible|inconsistent|suspicious|task)|Kernel panic)")
SWITCH = re.compile(r'^\+\t\{ "(\w+)", &abh_\w+ \},$', re.MULTILINE)  # of the table of switches, in a patch
TAIL_LINES = 60
# In a line of /proc/PID/maps, the file's number: files are unpacked beside other work, which takes numbers, too.
INODE = re.compile(r"( [0-9a-f]{2,}:[0-9a-f]{2,}) [1-9][0-9]*(?= )")
PACK = "find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc --reproducible --owner=0:0 >/out/initramfs"


def has_abh() -> bool:
    """Whether the kernel series has ABH's patches."""
    return any(name.startswith(TOPIC) for name in series.load(paths.CHECKOUT / KERNEL_SERIES).patches)


def switches() -> list[str]:
    """The switches that the kernel series has in debugfs, as the table in its patches names them."""
    whole = series.load(paths.CHECKOUT / KERNEL_SERIES)
    patches = [(whole.folder / name).read_text(errors="replace") for name in whole.patches if name.startswith(TOPIC)]
    return sorted({found[1] for text in patches for found in SWITCH.finditer(text)})


def kernel(component: str, *, stock: bool = False) -> Path:
    """The folder of a kernel, built; stock: without ABH's patches."""
    whole = series.load(paths.CHECKOUT / str(components.COMPONENTS[component].series))
    kept = tuple(name for name in whole.patches if not name.startswith(TOPICS))
    if not stock or kept == whole.patches:
        return components.path_of(component)
    return components.build_series(replace(whole, patches=kept), component)


def write_initramfs(files: Mapping[str, bytes], out: Path) -> None:
    """Packs executable files, in folders made for them, as the file `initramfs` (newc) of the folder `out`."""
    with tempfile.TemporaryDirectory(prefix="abh-") as scratch:
        for name, content in files.items():
            path = Path(scratch, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755)
        tree = {"/in": Path(scratch)}
        enter = root.enter(root.path_of("build"), read_only=tree, writable={"/out": out}, chdir="/in")
        root.run(enter, [*root.SHELL, "-c", PACK], log=out / "cpio.log", what="packing an initramfs")


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

    def judge(self, late: TimeoutError | None = None) -> None:
        """Finds what went wrong with the machine, if something did; `late`: it was ended for that."""
        ends = [line.removeprefix("TEST end ") for line in self.lines if line.startswith("TEST end ")]
        splat = next((line for line in self.lines if SPLAT.search(line)), None)
        if splat:
            self.problem = f"the kernel complained: {splat}"
        elif late:
            self.problem = f"over its time limit: {late}"
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
    words = [*qemu.emulator_words(spec.architecture(ARCHITECTURE)), "-machine", "pc"]
    words += ["-cpu", "qemu64,+pdpe1gb", "-m", f"{memory_mib}M", "-smp", str(processors)]
    words += _nodes(memory_mib, processors, nodes) if nodes > 1 else []
    words += ["-serial", "stdio"]
    words += ["-drive", "file=/run/swap,format=raw,if=virtio,cache=unsafe"]
    words += ["-kernel", "/in/linux/vmlinuz", "-initrd", "/run/initramfs", "-append", f"{CMDLINE} {cmdline}".strip()]
    return words


def _process(
    linux: Path, files: Mapping[str, bytes], words: Sequence[str], disk: Path | None
) -> AbstractContextManager[qemu.Running]:
    def prepare(folder: Path) -> None:
        write_initramfs(files, folder)
        with (folder / "swap").open("wb") as swap:
            swap.write(swap_header(SWAP_MIB << 20))
            swap.truncate(SWAP_MIB << 20)

    read_only = {qemu.BUILT: components.path_of("qemu"), "/in/linux": linux}
    if disk:
        read_only["/in/disk"] = disk.parent
        words = [*words, "-drive", f"file=/in/disk/{disk.name},format=raw,if=virtio,readonly=on"]
    return qemu.inside(root.path_of("build"), words, read_only=read_only, prepare=prepare)


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
    more: Sequence[str] = (),
    disk: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Said:
    """Boots a kernel, has it do a job, and returns what it said; `tell` gets each line as it comes.

    limit_s: seconds of processor time; more: words for the emulator; disk: a file that is /dev/vdb, to be read.
    """
    programs = components.path_of("kernel-tests")
    held = {path.name: path.read_bytes() for path in programs.iterdir() if path.name != "build.log"}
    held |= {"job": "".join(f"{line}\n" for line in job).encode(), **(files or {})}
    said, late = Said(), None
    with _process(linux, held, [*_words(memory_mib, processors, nodes, cmdline), *more], disk) as machine:
        try:
            for line in machine.lines(limit_s):
                said.lines.append(line.rstrip())
                tell(said.lines[-1])
        except TimeoutError as error:
            late = error
        if status := machine.status():
            raise AbhError("the emulator failed", got=f"exit status {status}", tail=said.tail())
    said.judge(late)
    return said


def try_prefix(patches: series.Series, linux: Path) -> None:
    """Boots the kernel made of a prefix of its series, and tries its memory calls: as stock, then with what it has."""
    fuzz = "run /fuzz --ops 2000 --no-shrink"
    job = [fuzz]
    if any(name.startswith(TOPIC) for name in patches.patches):
        job += [f"set {KNOB} always", f"{fuzz} --extended"]
    if any(name.startswith("reservation/") for name in patches.patches):
        job += [f"set {KNOB} never", *WITH_RESERVATIONS, fuzz]
    said = run(linux, job, limit_s=300)
    if not said.ok:
        raise AbhError("the kernel built does not do its job", got=said.problem or "a failure", tail=said.tail())


def same_layout(stock: Path, off: Path, limit_s: float = 900) -> tuple[bool, str]:
    """Whether a program's memory is laid out alike by a kernel without ABH and by one with ABH off, and what was found.

    In machines of their own, where nothing has set ABH on yet, and no second processor makes what differs each time.
    Nor does khugepaged, which would put a hugepage where a program is about to fault.
    """
    job = [f"set {KHUGEPAGED}/max_ptes_none 0", "run /semantics layout"]
    without, patched = (
        [INODE.sub(r"\1 ", line) for line in outputs(run(each, job, limit_s=limit_s).lines)[0][1]]
        for each in (stock, off)
    )
    differences = list(difflib.unified_diff(without, patched, "without ABH", "ABH off", lineterm=""))
    if not without:
        return False, "the kernel without ABH said nothing of a program's memory\n"
    if differences:
        return False, "\n".join([*differences, ""])
    return True, "with ABH off a program sees the same as without its patches\n"


def outputs(lines: Sequence[str]) -> list[tuple[str, list[str]]]:
    """What each program of a job printed, its status last: (command line, lines), in order."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("TEST run "):
            found.append((line.removeprefix("TEST run "), []))
        elif found and (line.startswith("TEST status ") or not line.startswith(("TEST ", "["))):
            found[-1][1].append(line)
    return found
