# SPDX-License-Identifier: MIT
"""Cells on this machine's own KVM, for `--machine local`.

Same kernel, image, agent and cell as in the emulated machine, minus the machine: the guest that libvirt starts there
is started here by the same Debian QEMU. Its faults are counted as everywhere; its time is measured, not emulated, and
no two runs agree to the digit. So these results have a folder of their own and never share a table with the others.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from abh import paths
from abh.build import components, root
from abh.collect import here
from abh.errors import AbhError, Status
from abh.host import doctor
from abh.machine import emulated, itanium, qemu
from abh.schema import spec
from abh.schema.result import Result, Value
from abh.study import aligned, cell

MEASURED = paths.LOCAL
DEVICE = doctor.KVM
PROBE_S = 10.0  # a guest that boots says its first words within one
CELL_BYTES = emulated.CELL_BYTES
LAST_LINE = "ABH end "
NOT_COUNTED = "only the emulated machine counts it"
# Which module parameter says that the machine's KVM pages its guests by hardware.
PAGING = [Path("/sys/module/kvm_amd/parameters/npt"), Path("/sys/module/kvm_intel/parameters/ept")]


def _words(one: cell.Cell, accelerator: str) -> list[str]:
    words = [qemu.DEBIAN, *qemu.BARE, "-machine", "pc", "-accel", accelerator]
    words += ["-cpu", "host" if accelerator == "kvm" else "qemu64"]
    words += ["-m", f"{one.environment.memory_mib[one.size]}M", "-smp", str(one.environment.vcpus)]
    words += ["-serial", f"file:/run/{qemu.CONSOLE}"]
    words += ["-drive", "file=/run/guest.erofs,format=raw,if=virtio,readonly=on"]
    return [*words, "-kernel", "/in/linux/vmlinuz", "-append", one.environment.guest_cmdline]


def _guest(one: cell.Cell, accelerator: str) -> AbstractContextManager[qemu.Running]:
    """A started guest and the folder of its files; both gone when the block ends."""
    block = emulated.cell_block(cell.guest_lines(one))
    image = components.path_of(spec.of_group("guest-image", one.workload.group)) / "guest.erofs"

    def prepare(folder: Path) -> None:
        shutil.copyfile(image, folder / image.name)
        with (folder / image.name).open("r+b") as disk:
            disk.seek(-CELL_BYTES, os.SEEK_END)
            disk.write(block)

    linux = {"/in/linux": components.path_of("linux")}
    devices = [DEVICE] if accelerator == "kvm" else []
    words = _words(one, accelerator)
    return qemu.inside(root.path_of("host"), words, read_only=linux, devices=devices, prepare=prepare)


def _ends(guest: qemu.Running, limit_s: float) -> str | None:
    """Waits for the guest's last line; what happened instead, if something did. limit_s: of processor time."""
    patience = guest.patience(limit_s)
    while f"\n{LAST_LINE}" not in f"\n{guest.text(qemu.CONSOLE)}":
        if (status := guest.status()) is not None:
            return f"QEMU ended with status {status}: {root.tail_of(guest.log)}"
        if patience.is_over():
            return f"no end within {patience}"
        time.sleep(qemu.POLL_S)
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
    with _guest(dataclasses.replace(one, workload=probe), accelerator) as guest:
        problem = _ends(guest, PROBE_S if accelerator == "kvm" else 20 * PROBE_S)
        return problem and f"a probe guest did not boot: {problem}"


def check_possible(cells: Iterable[cell.Cell]) -> None:
    """An error where one of them is of a machine that no KVM can be: before a probe guest boots for nothing."""
    if never := [one.name for one in cells if itanium.runs(one.machine)]:
        raise AbhError(
            "the Itanium machine is emulated: no KVM runs its programs",
            got=f"--machine local with {', '.join(never[:3])}{', ...' if never[3:] else ''}",
            expected="cells of other environments",
            next_step="leave --machine local out",
            status=Status.USAGE,
        )


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
    with _guest(one, accelerator) as guest:
        problem = _ends(guest, cell.LIMIT_S[one.size])
        console = guest.text(qemu.CONSOLE)
    said = cell.listen([line.rstrip("\r") for line in console.split("\n")])
    outcome, reason = cell.judge(one, said, problem, console)
    values = cell.values_of(one, said, "")
    for name in ("instructions", "vm_exits", "host_huge_kib", aligned.LEAST, aligned.MOST):
        values[name] = Value.unknown(values[name].unit, "counted", NOT_COUNTED)
    if (elapsed := values.get("elapsed")) and elapsed.value is not None:
        values["elapsed"] = Value.of(elapsed.value, elapsed.unit, "measured")
    return _here(cell.result_of(one, outcome, reason, values, said))


def _here(made: Result) -> Result:
    said = {"command": f"{made.provenance.command} --machine local", "machine": here.find().text}
    return made.model_copy(update={"provenance": made.provenance.model_copy(update=said)})
