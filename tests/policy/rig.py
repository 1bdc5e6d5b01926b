# SPDX-License-Identifier: MIT
"""A real libvirtd with a real QEMU (TCG) in the root `libvirt`, and small Linux guests, for tests of abh.policy.

It has folders of its own for all that libvirt writes, and this machine's processes: /proc shows its QEMU here.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from abh.build import root
from abh.policy import binding

PATIENCE_S = 60
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
QEMU_CONF = """
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
"""
LIBVIRTD_CONF = 'auth_unix_rw = "none"\nlog_level = 3\nlog_outputs = "2:file:/var/log/libvirt/libvirtd.log"\n'
WRITABLE = ("etc/libvirt", "var/lib/libvirt", "var/cache/libvirt", "var/log", "run", "tmp")


@dataclass
class Rig:
    """The daemon, and where its files are as seen from here."""

    folder: Path
    prefix: list[str]
    daemon: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """How to connect from here."""
        return f"qemu+unix:///system?socket={self.folder}/run/libvirt/libvirt-sock"

    @property
    def hooks(self) -> Path:
        """Where libvirt looks for hooks."""
        return self.folder / "etc/libvirt/hooks"

    def log(self) -> str:
        """What the daemon has logged."""
        path = self.folder / "var/log/libvirt/libvirtd.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def inside(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command beside the daemon."""
        return subprocess.run([*self.prefix, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def start(self) -> None:
        """Starts the daemon; its guests, if it had any, are found again."""
        self._launch()
        end, again = time.monotonic() + PATIENCE_S, 3
        while not self.answers():
            if self.daemon.poll() is not None and again:  # seen once, without a word, right after the one before ended
                again -= 1
                time.sleep(1)
                self._launch()
            assert self.daemon.poll() is None, (self.folder / "var/log/daemon.log").read_text()
            assert time.monotonic() < end, self.log()
            time.sleep(0.2)

    def _launch(self) -> None:
        with (self.folder / "var/log/daemon.log").open("ab") as log:
            self.daemon = subprocess.Popen(
                [*self.prefix, "/usr/sbin/libvirtd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def answers(self) -> bool:
        """Whether it can be connected to."""
        libvirt = binding.load()
        try:
            libvirt.open(self.uri).close()
        except libvirt.libvirtError:
            return False
        return True

    def stop(self) -> None:
        """Ends the daemon; guests go on."""
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait(PATIENCE_S)
            self.daemon = None


def rig(folder: Path, beside: Path | None = None) -> Rig:
    """The daemon's folders, filled; it is not started yet. One beside another is another host, with the same /out."""
    made = root.path_of("libvirt")
    for name in WRITABLE:
        if (made / name).is_dir():
            shutil.copytree(made / name, folder / name, symlinks=True)
        else:
            (folder / name).mkdir(parents=True)
    for name in ("run/libvirt", "var/log/libvirt/qemu", "etc/libvirt/hooks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "etc/libvirt/qemu.conf").write_text(QEMU_CONF)
    (folder / "etc/libvirt/libvirtd.conf").write_text(f'{LIBVIRTD_CONF}host_uuid = "{uuid.uuid4()}"\n')
    words = ["bwrap", "--ro-bind", str(made), "/", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys"]
    words += ["--bind", str(beside or folder), "/out", "--unshare-uts", "--hostname", folder.name]
    for name in WRITABLE:
        words += ["--bind", str(folder / name), f"/{name}"]
    words += ["--unshare-net", "--die-with-parent", "--clearenv"]
    for name, value in root.ENVIRONMENT.items():
        words += ["--setenv", name, value]
    return Rig(folder, [*words, "--chdir", "/"])


def reap() -> None:
    """Has this process take in the guests' QEMUs, and bury those that have ended, for good.

    libvirt starts them as daemons, and calls a guest gone only once its process is no more; the first process of a
    container often buries nobody.
    """
    ctypes.CDLL(None).prctl(SUBREAPER, 1)

    def bury() -> None:
        while True:
            for path in Path("/proc").glob("[0-9]*/stat"):
                with contextlib.suppress(OSError):  # it is gone, or another's to wait for
                    name, _, rest = path.read_text().partition("(")[2].rpartition(")")
                    state, parent = rest.split()[:2]
                    if (name.startswith("qemu"), state, parent) == (True, "Z", str(os.getpid())):
                        os.waitpid(int(path.parent.name), os.WNOHANG)
            time.sleep(0.1)

    threading.Thread(target=bury, daemon=True).start()


INIT = r"""#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox mount -t debugfs debug /sys/kernel/debug
busybox mkdir -p /var/run /run /tmp
# An agent that is not honest: it answers that it is there, and then what no agent does.
lie() {
	while read -r line; do
		case $line in
		*guest-sync*)
			[ "$1" = silent ] || echo "$line" | busybox sed 's/.*"id": *\([0-9]*\).*/{"return": \1}/'
			continue
			;;
		esac
		case $1 in
		bytes) printf '{"return": {"buf-b64": "\377\376", "eof": false}}\n' ;;
		error) printf '{"error": {"class": "GenericError", "desc": "\377\033[2J"}}\n' ;;
		number) printf '{"return": 1%05000d}\n' 0 ;;
		flood) printf '{"return": [%s[]]}\n' "$(busybox yes '[],' | busybox head -n 2000000 | busybox tr -d '\n')" ;;
		deep) printf '{"return": %s}\n' "$(busybox yes '[' | busybox head -n 100000 | busybox tr -d '\n')" ;;
		slow) busybox sleep 4; echo '{"return": 7}' ;;
		esac
	done
}
lies=$(busybox sed -n 's/.*abh_lies=\([a-z]*\).*/\1/p' /proc/cmdline)
for port in /dev/vport*; do
	if [ "$lies" ]; then
		# It stays open: what has it open is an agent, for libvirt, whether it reads or not.
		{ exec 3<>"$port"; while :; do lie "$lies" <&3 >&3; busybox sleep 1; done; } &
	else
		/usr/sbin/qemu-ga -m virtio-serial -p "$port" -t /run &
	fi
done
# Holds memory of its own, for as long as the guest runs, once it is told how much.
while :; do
	if [ -s /run/hold ]; then
		read -r mib </run/hold
		: >/run/hold
		(busybox head -c "${mib}m" /dev/zero; echo held >/run/held; busybox sleep 100000) | busybox tail -c "${mib}m" &
	fi
	busybox sleep 1
done
"""
PROGRAMS = ("/usr/sbin/qemu-ga", "/usr/bin/busybox")


def initramfs(rig_: Rig) -> Path:
    """The whole system of a guest: busybox, the QEMU guest agent, and a script that starts it."""
    tree = rig_.folder / "tmp/guest"
    for name in ("proc", "sys", "dev", "bin", "etc"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    (tree / "init").write_text(INIT)
    (tree / "init").chmod(0o755)
    made = root.path_of("libvirt")
    libraries = rig_.inside("ldd", PROGRAMS[0]).stdout.split()
    for word in [*PROGRAMS, *(each for each in libraries if each.startswith("/"))]:
        target = tree / word.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        there = made / word.lstrip("/")
        shutil.copy(there if there.exists() else made / "usr" / word.lstrip("/"), target)
    (tree / "bin/busybox").symlink_to("/usr/bin/busybox")
    pack = "cd /tmp/guest && busybox find . | busybox cpio -o -H newc > /out/guest.cpio"
    packed = rig_.inside("busybox", "sh", "-c", pack)
    assert packed.returncode == 0, packed.stderr
    return rig_.folder / "guest.cpio"


def domain_xml(name: str, *, memory_mib: int = 256, more: str = "", devices: str = "", cmdline: str = "") -> str:
    """A guest as a domain."""
    log = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"""<domain type='qemu'>
  <name>{escape(name)}</name>
  <memory unit='MiB'>{memory_mib}</memory>
  <vcpu>1</vcpu>
  {more}
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>/out/vmlinuz</kernel>
    <initrd>/out/guest.cpio</initrd>
    <cmdline>console=ttyS0 quiet {escape(cmdline)}</cmdline>
  </os>
  <features><acpi/><apic/></features>
  <on_reboot>destroy</on_reboot>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <serial type='file'><source path='/out/{log}.log'/><target port='0'/></serial>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
    {devices}
  </devices>
</domain>"""
