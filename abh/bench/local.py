# SPDX-License-Identifier: MIT
"""Cells on this machine's own KVM, for `--machine local`.

Same kernel, image, agent and cell as in the emulated machine, minus the machine: the guest that libvirt starts there
is started here by the same Debian QEMU. Its faults are counted as everywhere; its time is measured, not emulated, and
no two runs agree to the digit. So these results have a folder of their own and never share a table with the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from abh import paths
from abh.bench import build, cell, doctor, machine, root
from abh.bench.result import Result, Value
from abh.errors import AbhError

MEASURED = paths.LOCAL
DEVICE = doctor.KVM
PROBE_S = 10.0  # a guest that boots says its first words within one
CELL_BYTES = machine.CELL_BYTES
POLL_S = 0.05
LAST_LINE = "ABH end "
NOT_COUNTED = "only the emulated machine counts it"
# Which module parameter says that the machine's KVM pages its guests by hardware.
PAGING = [Path("/sys/module/kvm_amd/parameters/npt"), Path("/sys/module/kvm_intel/parameters/ept")]


def _words(one: cell.Cell, accelerator: str) -> list[str]:
    words = ["/usr/bin/qemu-system-x86_64", "-machine", "pc", "-accel", accelerator]
    words += ["-cpu", "host" if accelerator == "kvm" else one.machine.cpu]
    words += ["-m", f"{one.environment.memory_mib[one.size]}M", "-smp", str(one.environment.vcpus)]
    words += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "file:/run/console.log"]
    words += ["-drive", "file=/run/guest.erofs,format=raw,if=virtio,readonly=on"]
    return [*words, "-kernel", "/in/linux/vmlinuz", "-append", one.environment.guest_cmdline]


@contextlib.contextmanager
def _guest(one: cell.Cell, accelerator: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A started guest and the folder of its files; both gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="abh-") as scratch:
        folder = Path(scratch)
        disk = folder / "guest.erofs"
        shutil.copyfile(build.path_of("guest-image") / "guest.erofs", disk)
        with disk.open("r+b") as image:
            image.seek(-CELL_BYTES, os.SEEK_END)
            image.write(machine.cell_block(cell.guest_lines(one)))
        linux = {"/in/linux": build.path_of("linux")}
        prefix = root.enter(root.path_of("host"), read_only=linux, writable={"/run": folder}, scratch="/in")
        device = ["--dev-bind", str(DEVICE), str(DEVICE)] if accelerator == "kvm" else []
        with (folder / "qemu.log").open("wb") as log:
            process = subprocess.Popen(
                [*prefix, *device, *_words(one, accelerator)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            yield process, folder
        finally:
            process.kill()
            process.wait()


def _console(folder: Path) -> str:
    path = folder / "console.log"
    return path.read_text(errors="replace") if path.exists() else ""


def _ends(process: subprocess.Popen[bytes], folder: Path, limit_s: float) -> str | None:
    """Waits for the guest's last line; what happened instead, if something did."""
    deadline = time.monotonic() + limit_s
    while f"\n{LAST_LINE}" not in f"\n{_console(folder)}":
        if (status := process.poll()) is not None:
            return f"QEMU ended with status {status}: {root.tail_of(folder / 'qemu.log')}"
        if time.monotonic() > deadline:
            return f"no end within {limit_s:g} s"
        time.sleep(POLL_S)
    return None


@functools.cache
def why_not(accelerator: str = "kvm") -> str | None:
    """None once a probe guest, with the very kernel and agent of the cells, has booted and run a program in time."""
    if accelerator == "kvm" and not DEVICE.exists():
        return f"there is no {DEVICE}"
    if accelerator == "kvm" and not os.access(DEVICE, os.R_OK | os.W_OK):
        return f"{DEVICE} may not be opened by this user"
    one = cell.Cell.of("sqlite@kvm-hap~reg", "smoke")
    probe = one.workload.model_copy(update={"argv": ("true",), "timeout_s": PROBE_S})
    with _guest(dataclasses.replace(one, workload=probe), accelerator) as (process, folder):
        problem = _ends(process, folder, PROBE_S if accelerator == "kvm" else 20 * PROBE_S)
        return problem and f"a probe guest did not boot: {problem}"


def check() -> None:
    """An error unless the machine's own KVM is proven."""
    if why := why_not():
        raise AbhError(
            "this machine's own hypervisor can't be used",
            where=DEVICE,
            got=why,
            expected=f"a guest that boots within {PROBE_S:g} s",
            next_step="leave `--machine local` out: the emulated machine needs no hypervisor",
        )


def skipped(one: cell.Cell) -> str | None:
    """Why this environment can't be had here; None if it can."""
    environment = one.environment
    if environment.hypervisor != "kvm":
        return f"environment '{environment.name}' needs a machine that runs it; here only KVM is used"
    found = {path: path.read_text().strip() for path in PAGING if path.exists()}
    paged = "hap" if any(text in ("1", "Y") for text in found.values()) else "shadow"
    if paged != environment.paging:
        said = ", ".join(f"{path} is {text}" for path, text in found.items()) or "no kvm module says so"
        return f"this machine's KVM pages its guests by {paged}, and we do not change that ({said})"
    return None


def run(one: cell.Cell, accelerator: str = "kvm") -> Result:
    """Runs a cell in a fresh guest on this machine. The host's knobs, which are the machine's, stay as they are."""
    if why := skipped(one) if accelerator == "kvm" else None:
        return _here(cell.result_of(one, "skip", why, {}))
    with _guest(one, accelerator) as (process, folder):
        problem = _ends(process, folder, cell.LIMIT_S[one.size])
        console = _console(folder)
    said = cell.listen([line.rstrip("\r") for line in console.split("\n")])
    outcome, reason = cell.judge(one, said, problem, console)
    values = cell.values_of(one, said, "")
    for name in ("instructions", "vm_exits", "host_huge_kib"):
        values[name] = Value.unknown(values[name].unit, "counted", NOT_COUNTED)
    if (elapsed := values.get("elapsed")) and elapsed.value is not None:
        values["elapsed"] = Value.of(elapsed.value, elapsed.unit, "measured")
    return _here(cell.result_of(one, outcome, reason, values, said))


def _here(made: Result) -> Result:
    command = f"{made.provenance.command} --machine local"
    return made.model_copy(update={"provenance": made.provenance.model_copy(update={"command": command})})
