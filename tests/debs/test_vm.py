# SPDX-License-Identifier: MIT
"""The packages in a Debian 13 that boots: installed and upgraded, then booted into the kernel that lies in its /boot,
with the modules beside it, then into the hypervisor that lies there, and removed (tests/debs/vm/init)."""

from __future__ import annotations

import gzip
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from abh import paths
from abh.build import components, debs, root
from abh.machine import qemu
from abh.schema import spec

INIT = paths.CHECKOUT / "tests/debs/vm/init"
LIMIT_S = 1500
DISK_BYTES = 1 << 30
IMAGE = "mkfs.erofs --quiet --all-root -T0 /out/system /in/system && mkfs.erofs --quiet --all-root -T0 /out/job /in/job"
WORDS = ("-machine", "pc", "-cpu", "qemu64", "-m", "2048M", "-serial", "stdio")
CMDLINE = (
    "console=ttyS0 loglevel=4 no_timer_check panic=-1 panic_on_warn=1 root=/dev/vda ro rootfstype=erofs"
    ' abh_step={} init=/bin/sh -- -c "mount -t erofs /dev/vdc /srv; exec sh /srv/init"'
)
XEN_CMDLINE = "dom0_mem=1664M,max:1664M com1=115200,8n1 console=com1 loglvl=warning spec-ctrl=no xpti=no noreboot"


@pytest.fixture(scope="module")
def disks(made, tmp_path_factory) -> Path:
    """The system as an image, the packages and what is done with them as another, and an empty disk."""
    folder = tmp_path_factory.mktemp("disks")
    job = folder / "in"
    (job / "debs").mkdir(parents=True)
    for name, path in {**made, "older": debs.path_of("abh-glibc", "0.0.9")}.items():
        shutil.copyfile(path, job / "debs" / f"{name}.deb")
    shutil.copyfile(INIT, job / "init")
    inside = {"/in/system": root.path_of("debs"), "/in/job": job}
    enter = root.enter(root.path_of("build"), read_only=inside, writable={"/out": folder}, scratch="/in")
    root.run(enter, [*root.SHELL, "-c", IMAGE], log=folder / "mkfs.log", what="making the images")
    with (folder / "changes").open("wb") as disk:
        disk.truncate(DISK_BYTES)
    return folder


def boot(linux: Path, step: str, disks: Path, xen: Path | None = None) -> dict[str, str]:
    """What came of each check of a step, under this kernel, alone or in this hypervisor's dom0."""
    words = [*qemu.emulator_words(spec.architecture("x86-64")), *WORDS]
    for name, more in (("system", ",readonly=on"), ("changes", ""), ("job", ",readonly=on")):
        words += ["-drive", f"file=/media/{name},format=raw,if=virtio,cache=unsafe{more}"]
    kernel = f"/in/linux/{linux.name}"
    if xen:  # its options, and the kernel's as those of its first module
        words += ["-kernel", f"/in/linux/{xen.name}", "-append", XEN_CMDLINE]
        words += ["-initrd", f"{kernel} {CMDLINE.format(step).replace('ttyS0', 'hvc0')}"]
    else:
        words += ["-kernel", kernel, "-append", CMDLINE.format(step)]
    read_only = {qemu.BUILT: components.path_of("qemu"), "/in/linux": linux.parent}
    lines = []
    with qemu.inside(root.path_of("build"), words, read_only=read_only, writable={"/media": disks}) as machine:
        for line in machine.lines(LIMIT_S):
            lines.append(line.rstrip())
            print(lines[-1])
    assert "ABH end" in lines, "\n".join(lines[-30:])
    found = re.findall(r"^ABH check (\S+) (.*)$", "\n".join(lines), re.MULTILINE)
    return dict(found)


def checks(step: str) -> list[str]:
    body = INIT.read_text().partition(f"\n{step}() {{\n")[2].partition("\n}")[0]
    return re.findall(r"^\tcheck (\S+)", body, re.MULTILINE)


def test_packages_install_upgrade_boot_and_go(disks, tmp_path):
    assert boot(components.path_of("linux") / "vmlinuz", "install", disks) == dict.fromkeys(checks("install"), "ok")
    with tarfile.open(disks / "changes", "r:") as tar:
        for member in tar:
            name = re.fullmatch(r"\./boot/(vmlinuz|xen)-[^/]*(?<!\.config)", member.name)
            if name and (content := tar.extractfile(member)):
                packed = content.read()
                (tmp_path / name[1]).write_bytes(gzip.decompress(packed) if name[1] == "xen" else packed)
    linux, xen = tmp_path / "vmlinuz", tmp_path / "xen"
    assert boot(linux, "work", disks) == dict.fromkeys(checks("work"), "ok")
    assert boot(linux, "under_xen", disks, xen) == dict.fromkeys(checks("under_xen"), "ok")
