# SPDX-License-Identifier: MIT
"""The emulated machine: boots once, is frozen at a fixed instruction, and is thawed for every run.

A boot ends when the agent inside writes to the panic device, which stops the
machine at that very instruction; its state is saved. A run loads the state, hands
the machine its cell through firmware-config files, and reads what the agent says
on the second serial port.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qemu.qmp import QMPError
from qemu.qmp.legacy import QEMUMonitorProtocol

from abh.build import components, root
from abh.errors import AbhError
from abh.machine import qemu
from abh.machine.patience import Patience
from abh.machine.qemu import POLL_S
from abh.schema import spec

CELL_BYTES = 8192  # agent/protocol.h
FROZEN = "guest-panicked"  # the run state that the panic device leaves
STATE_FILE = "state.zst"
CONSOLE_LINES = 30
# Seconds of the emulator's processor time (patience.py), as all limits here.
QMP_TIMEOUT_S = 60
STATE_TIMEOUT_S = 600  # to write or read all of a machine
OFF = ("gone", "silent", "shutdown", "internal-error")  # run states that nothing follows
# Whole: QEMU writes byte by byte, and "exit 12" must not be read as "exit 1".
LAST_LINE = re.compile(r"^ABH end .*\n", re.MULTILINE)


@dataclass(frozen=True)
class Parts:
    """What a machine is made of: folders of the cache, by what they hold."""

    qemu: Path
    plugin: Path
    linux: Path
    initramfs: Path
    xen: Path | None = None
    mmu: Path | None = None
    tests: Path | None = None  # guests that a host runs in place of its own: tests.tgz (agent/init-host)


def parts_of(machine: spec.Machine, group: str = "", *, mmu: bool = False, xen: Path | None = None) -> Parts:
    """What a machine needs, built, for the workloads of a group; another Xen than the study's where one is given."""
    return Parts(
        qemu=components.path_of(machine.emulator),
        plugin=components.path_of("plugin"),
        linux=components.path_of(machine.kernel),
        initramfs=components.path_of(spec.of_group(f"{machine.root}-initramfs", group)),
        xen=(xen or components.path_of("xen")) if machine.boot == "xen" else None,
        mmu=components.path_of("mmu") if mmu else None,
    )


def component_names(machine: spec.Machine, group: str = "", *, mmu: bool = False) -> list[str]:
    """The components that a machine is made of, for the workloads of a group."""
    names = [machine.emulator, "plugin", machine.kernel, spec.of_group(f"{machine.root}-initramfs", group)]
    return names + ["xen"] * (machine.boot == "xen") + ["mmu"] * mmu


def qemu_words(machine: spec.Machine, size: str, parts: Parts, *, icount: bool, resumed: bool,
               mmu: str | None = None) -> list[str]:  # fmt: skip
    """QEMU's command line inside the root: /in holds the parts, /run the files of this one run."""
    architecture = spec.architecture(machine.architecture)
    words = [*qemu.emulator_words(architecture, architecture.args), "-cpu", machine.cpu]
    words += ["-m", f"{machine.memory_mib[size]}M", "-action", "panic=pause"]
    words += ["-qmp", "unix:/run/qmp,server=on,wait=off"]
    words += ["-serial", "file:/run/console.log", "-serial", "file:/run/out.log"]
    if icount:
        words += ["-icount", "shift=1,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "7"]
    words += machine.qemu_args
    # One plugin only, as each adds to every instruction: the model's counts the region too.
    words += [
        "-plugin",
        f"/in/mmu/mmu.so,out=/run/region.jsonl,{mmu}" if mmu else "/in/plugin/region.so,out=/run/region.jsonl",
    ]
    words += ["-fw_cfg", "name=opt/abh/cell,file=/run/cell"]
    if parts.tests:
        words += ["-fw_cfg", "name=opt/abh/tests,file=/in/tests/tests.tgz"]
    kernel = f"{machine.kernel_cmdline} abh_role={'host' if machine.root == 'host' else 'native'} abh_freeze=1"
    if parts.xen:
        words += ["-kernel", "/in/xen/xen", "-append", machine.xen_cmdline or ""]
        words += ["-initrd", f"/in/linux/vmlinuz {kernel},/in/initramfs/initramfs.cpio"]
    else:
        words += ["-kernel", "/in/linux/vmlinuz", "-append", kernel]
        words += ["-initrd", "/in/initramfs/initramfs.cpio"]
    if resumed:
        words += ["-incoming", f"exec:zstd -dqc /in/state/{STATE_FILE}"]
    return words


@dataclass
class Ended:
    """How a run of the machine ended: the agent's lines, the console, the plugin's lines, real seconds taken.

    The plugin is the MMU model's where there is one.
    """

    lines: list[str]
    console: str
    region: str
    seconds: float
    problem: str | None  # None: the agent said "end"


class Emulator:
    """A QEMU that is told over QMP what to do."""

    def __init__(self, running: qemu.Running) -> None:
        self.qemu, self.folder, self.log = running, running.folder, running.log
        self.qmp = self._connect()

    def _connect(self) -> QEMUMonitorProtocol:
        patience = self.qemu.patience(QMP_TIMEOUT_S)
        socket = self.folder / "qmp"
        while self.qemu.status() is None and not patience.is_over():
            if socket.exists():
                qmp = QEMUMonitorProtocol(str(socket))
                # connect() has no time limit of its own: without its peer, it ends.
                limit = threading.Timer(max(0, patience.longest_s - patience.passed_s), self.qemu.end)
                limit.start()
                try:
                    qmp.connect()
                except (OSError, QMPError):
                    qmp.close()
                else:
                    # An answer waits for a state that is read and for other programs: as long as for the slowest.
                    qmp.settimeout(patience.longest_s)
                    return qmp
                finally:
                    limit.cancel()
            time.sleep(POLL_S)
        raise self.error("the emulator did not start", got=self._how_it_is(patience))

    def _how_it_is(self, patience: Patience) -> str:
        status = self.qemu.status()
        return f"no answer within {patience}" if status is None else f"exit status {status}"

    def status(self) -> str:
        """QEMU's run state, or "gone", or "silent" where the process is there and does not answer."""
        if self.qemu.status() is not None:
            return "gone"
        try:
            answer = self.qmp.cmd("query-status")
            return str(answer["status"]) if isinstance(answer, dict) else "silent"
        except TimeoutError:
            return "silent"
        except (OSError, QMPError, EOFError):
            return "gone"

    def command(self, name: str, **arguments: object) -> object:
        """Has QEMU do something; an error of the machine if it refuses or has gone."""
        try:
            return self.qmp.cmd(name, **arguments)
        except (OSError, QMPError, EOFError) as error:
            raise self.error(f"the emulator does not do '{name}'", got=str(error) or type(error).__name__) from error

    def wait_for(self, wanted: str, limit_s: float, *, what: str) -> None:
        """Waits until QEMU's run state is `wanted`; limit_s: seconds of processor time."""
        patience = self.qemu.patience(limit_s)
        while (status := self.status()) != wanted:
            if status in OFF:
                raise self.error(f"{what}: the machine went off", got=status)
            if patience.is_over():
                raise self.error(f"{what}: no end within {patience}", got=status)
            time.sleep(POLL_S)

    def save(self, path: str) -> None:
        """Saves the stopped machine's state to a path as seen inside the root."""
        patience = self.qemu.patience(STATE_TIMEOUT_S)
        self.command("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        self.command("migrate", uri=f"exec:zstd -q -1 -T2 -o {path}")
        while (state := self._migration()) not in ("completed", "failed", "cancelled"):
            if patience.is_over():
                raise self.error(f"saving the machine's state: no end within {patience}", got=state)
            time.sleep(POLL_S)
        if state != "completed":
            raise self.error("the machine's state could not be saved", got=state)

    def _migration(self) -> object:
        answer = self.command("query-migrate")
        return answer.get("status") if isinstance(answer, dict) else answer

    def console_tail(self) -> str:
        """The end of the machine's console."""
        return root.tail_of(self.folder / qemu.CONSOLE, CONSOLE_LINES)

    def error(self, what: str, got: object = None) -> AbhError:
        """An error that carries what QEMU and the console said last."""
        said = root.tail_of(self.folder / "out.log")  # the agent's own words, if it got that far
        tail = "\n".join(text for text in (root.tail_of(self.log), self.console_tail(), said) if text)
        step = "read the last lines below" if tail else "it has said nothing yet: give it longer, or see `abh doctor`"
        return AbhError(what, got=got, tail=tail, next_step=step)

    def close(self) -> None:
        """Takes leave of QEMU's monitor."""
        # It is about to be killed, or has gone: a connection that breaks first is no news.
        with contextlib.suppress(OSError, QMPError, EOFError):
            self.qmp.close()


def cell_block(cell: str) -> bytes:
    """The cell as a block of the one size that a frozen machine can read."""
    block = cell.encode()
    if len(block) > CELL_BYTES:
        raise AbhError(
            "the cell is too long for the machine's channel",
            got=f"{len(block)} bytes",
            expected=f"at most {CELL_BYTES}",
            next_step="shorten the policy, the domain or the workload's arguments, or raise the size in both places",
        )
    return block.ljust(CELL_BYTES, b"\0")


@contextlib.contextmanager
def emulator(words: Sequence[str], parts: Parts, cell: str, state: Path | None = None,
             writable: Mapping[str, Path] | None = None) -> Iterator[Emulator]:  # fmt: skip
    """A running QEMU in a scratch folder of its own; gone, with its folder, when the block ends."""
    block = cell_block(cell)
    read_only = {qemu.BUILT: parts.qemu, "/in/plugin": parts.plugin, "/in/linux": parts.linux}
    read_only["/in/initramfs"] = parts.initramfs
    if parts.xen:
        read_only["/in/xen"] = parts.xen
    if parts.mmu:
        read_only["/in/mmu"] = parts.mmu
    if parts.tests:
        read_only["/in/tests"] = parts.tests
    if state:
        read_only["/in/state"] = state

    def prepare(folder: Path) -> None:
        (folder / "cell").write_bytes(block)

    tree = root.path_of("build")
    with qemu.inside(tree, words, read_only=read_only, writable=writable, prepare=prepare) as running:
        machine = Emulator(running)
        try:
            yield machine
        finally:
            machine.close()


def freeze(machine: spec.Machine, size: str, parts: Parts, setup: str, out: Path) -> None:
    """Boots the machine to the point where its agent stops it, and saves its state in `out`."""
    words = qemu_words(machine, size, parts, icount=True, resumed=False)
    with emulator(words, parts, setup, writable={"/out": out}) as running:
        running.wait_for(FROZEN, machine.boot_timeout_s, what=f"booting machine '{machine.name}'")
        shutil.copyfile(running.folder / qemu.CONSOLE, out / qemu.CONSOLE)
        running.save(f"/out/{STATE_FILE}")


def run(machine: spec.Machine, size: str, parts: Parts, state: Path | None, cell: str, *, icount: bool,
        limit_s: float, mmu: str | None = None, keep: Mapping[str, Path] | None = None) -> Ended:  # fmt: skip
    """Thaws the machine, lets it run its cell, and returns what it said.

    limit_s: seconds of processor time from where it goes on.
    `mmu` are arguments of the MMU model's plugin; without them there is none. `keep` names files of the run's folder,
    and where they are moved at the end.
    """
    words = qemu_words(machine, size, parts, icount=icount, resumed=state is not None, mmu=mmu)
    start = time.monotonic()
    with emulator(words, parts, cell, state=state) as running:
        if state:
            _thaw(running, machine, state)
        else:
            running.wait_for(FROZEN, machine.boot_timeout_s, what=f"booting machine '{machine.name}'")
        running.command("cont")
        problem = _until_end(running, running.qemu.patience(limit_s))
        # Only a line feed ends a line: a workload may print form feeds and other things that splitlines() splits at.
        lines = [line.rstrip("\r") for line in running.qemu.text("out.log").split("\n")]
        region = running.qemu.text("region.jsonl")
        console = running.console_tail()
        for name, place in (keep or {}).items():
            if (running.folder / name).exists():
                shutil.move(running.folder / name, place)
    return Ended(lines, console, region, time.monotonic() - start, problem)


def _thaw(running: Emulator, machine: spec.Machine, state: Path) -> None:
    try:
        running.wait_for(FROZEN, STATE_TIMEOUT_S, what=f"thawing machine '{machine.name}'")
    except AbhError as error:
        # A power cut may leave less of the file than was written.
        error.where = state
        error.next_step = f"{error.next_step}; if the state is damaged, remove the folder: it is made again"
        raise


def _until_end(running: Emulator, patience: Patience) -> str | None:
    """Waits for the agent's last line; says what happened instead, if something did."""
    while True:
        if LAST_LINE.search(running.qemu.text("out.log")):
            return None
        status = running.status()
        if status == FROZEN:
            return "the kernel panicked"
        if status in OFF:
            return f"the machine went off before its cell ended ({status})"
        if patience.is_over():
            return f"the cell did not end within its time limit: {patience}"
        time.sleep(POLL_S)
