# SPDX-License-Identifier: MIT
"""The life of a policy on a real KVM with the real libvirt, in an emulated host (tests/policy/kvm/run)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from abh import paths
from abh.build import components, root
from abh.machine import qemu
from abh.schema import spec
from tests.policy import booted
from tests.policy import rig as rigs

HERE = paths.CHECKOUT / "tests/policy/kvm"
# By the count of instructions, as the study's hosts: time in it goes on as its work does, whatever else runs here.
# By this computer's clock the guest was seen to sleep for minutes where it had been told to hold memory.
TIME = ("-icount", "shift=1,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "7")
CMDLINE = (
    "console=ttyS0 quiet loglevel=4 nokaslr random.trust_cpu=off nolapic_timer panic=-1"
    " root=/dev/vda ro rootfstype=erofs"
    ' init=/bin/sh -- -c "mount -t devtmpfs dev /dev; mount -t erofs /dev/vdb /srv; exec sh /srv/run"'
)


def packed(folder: Path) -> Path:
    """An image with the command, what is done with it, and what guests boot."""
    job = folder / "in"
    shutil.unpack_archive(components.path_of("libvirt-tests") / "tests.tgz", job)
    shutil.copytree(HERE, job, dirs_exist_ok=True)
    shutil.copy(components.path_of("linux") / "vmlinuz", job / "vmlinuz")
    (folder / "rig").mkdir()
    shutil.copy(rigs.initramfs(rigs.rig(folder / "rig")), job / "guest.cpio")
    enter = root.enter(root.path_of("build"), read_only={"/in/job": job}, writable={"/out": folder}, scratch="/in")
    words = ["mkfs.erofs", "--quiet", "--all-root", "-T0", "/out/job", "/in/job"]
    root.run(enter, words, log=folder / "mkfs.log", what="making the image")
    return folder / "job"


def test_the_life_of_a_policy_on_kvm(tmp_path):
    host, image, linux = packed(tmp_path), components.path_of("libvirt-image"), components.path_of("linux")
    machine = spec.machine("kvm-host")
    words = [*qemu.emulator_words(spec.architecture("x86-64")), *machine.qemu_args, *TIME, "-cpu", machine.cpu]
    words += ["-m", f"{machine.memory_mib['smoke']}M", "-serial", "stdio"]
    for file in ("/in/image/host.erofs", f"/in/job/{host.name}"):
        words += ["-drive", f"file={file},format=raw,if=virtio,readonly=on"]
    words += ["-kernel", "/in/linux/vmlinuz", "-append", CMDLINE]
    read_only = {qemu.BUILT: components.path_of("qemu"), "/in/linux": linux, "/in/image": image, "/in/job": host.parent}
    with qemu.inside(root.path_of("build"), words, read_only=read_only) as running:
        said = booted.follow(running, qemu.LOG, lambda: running.status() is not None)
        console = running.text(qemu.LOG)[-4000:]
    wanted = re.findall(r"^\tcheck (\S+)", (HERE / "run").read_text(), re.MULTILINE)
    assert said.checks == dict.fromkeys(["install", *wanted], "ok"), f"{said.problem}\n{console}"
    assert said.lines[-1] == booted.END
