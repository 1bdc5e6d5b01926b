# SPDX-License-Identifier: MIT
"""What this machine offers the bench, found out by trying, and what will be used of it.

Each probe is a function that returns one Finding. A capability counts only when it was seen to work: a device node or
a sysctl that promises it does not.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from abh import paths
from abh.errors import AbhError
from abh.host import packages
from abh.machine import qemu

GIB = 1 << 30
DISK_NEEDED_GIB = 12
# QEMU with a host, a guest in it, and a build beside them: seen to fit; arbitrary beyond that.
MEMORY_WANTED_GIB = 4
PROBE_TIMEOUT_S = 20
KVM = Path("/dev/kvm")
KVM_PROBE_S = 5  # of processor time; who gets less has four times as long

# perf_event_open(2): number of the call on x86-64 and aarch64, then what we put into its attributes.
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
PERF_ATTR_SIZE = 64  # PERF_ATTR_SIZE_VER0, which every kernel takes
PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES = 0, 0
PERF_DISABLED_NO_KERNEL_NO_HV = 1 << 0 | 1 << 5 | 1 << 6
PERF_ENABLE, PERF_DISABLE = 0x2400, 0x2401


@dataclass(frozen=True)
class Finding:
    """What one probe found: ok, note (works, but know this) or problem (the bench will not run)."""

    name: str
    state: str
    text: str
    next_step: str | None = None


def _try(argv: Sequence[str]) -> str | None:
    """Run a probe; None when it worked, else why not in one line."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]


def system() -> Finding:
    """Distribution and kernel."""
    release = {}
    for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        key, equals, value = line.partition("=")
        if equals:
            release[key] = value.strip("\"'")
    kernel = os.uname()
    text = f"{release.get('PRETTY_NAME', 'unknown distribution')}, Linux {kernel.release}, {kernel.machine}"
    if kernel.machine != "x86_64":
        return Finding("system", "problem", text, "use an x86-64 machine: what is built inside is x86-64")
    return Finding("system", "ok", text)


def processors() -> Finding:
    """How many processors this process may use."""
    usable = len(os.sched_getaffinity(0))
    return Finding("processors", "ok", f"{usable} of {os.cpu_count()} usable; builds and cells use {usable} at once")


def memory(meminfo: str | None = None) -> Finding:
    """Memory, and how much of it is free to take."""
    text = Path("/proc/meminfo").read_text(encoding="ascii") if meminfo is None else meminfo
    table = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines() if line.endswith(" kB")}
    available = table["MemAvailable"] * 1024 / GIB
    found = f"{available:.1f} GiB available of {table['MemTotal'] * 1024 / GIB:.1f} GiB"
    if available < MEMORY_WANTED_GIB:
        step = f"free some: below {MEMORY_WANTED_GIB} GiB the machines may swap or be killed"
        return Finding("memory", "note", found, step)
    return Finding("memory", "ok", found)


def disk() -> Finding:
    """Free disk at the cache."""
    cache = paths.cache()
    free = shutil.disk_usage(cache).free / GIB
    text = f"{free:.1f} GiB free at {cache}; a full build needs {DISK_NEEDED_GIB} GiB"
    if free < DISK_NEEDED_GIB:
        return Finding("disk", "problem", text, "free some space, or set ABH_CACHE to a folder on a larger disk")
    return Finding("disk", "ok", text)


def tools() -> Finding:
    """System packages."""
    needed = packages.load()
    lacking = packages.missing(needed)
    if lacking:
        names = ", ".join(f"{each.name} ({each.why})" for each in lacking)
        return Finding("packages", "problem", f"missing: {names}", packages.install_line(lacking))
    return Finding("packages", "ok", f"all {len(needed)} of {packages.REQUIREMENTS} are here")


def privilege() -> Finding:
    """Root, or user namespaces with a range of ids: what making a Debian root takes."""
    if os.geteuid() == 0:
        why = _try(["unshare", "--mount", "true"])
        if why is None:
            return Finding("privilege", "ok", "root; roots are made with mmdebstrap --mode=root")
        step = "give the container CAP_SYS_ADMIN, or run as an ordinary user"
        return Finding("privilege", "problem", f"root, but it may not make a mount namespace: {why}", step)
    user = pwd.getpwuid(os.geteuid()).pw_name
    why = _try(["unshare", "--user", "--map-root-user", "--mount", "true"])
    if why is not None:
        sysctls = "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns"
        step = f"allow user namespaces (sysctl {sysctls}), or run as root"
        return Finding("privilege", "problem", f"not root, and user namespaces do not work: {why}", step)
    lacking = [name for name in ("/etc/subuid", "/etc/subgid") if not _has_range(Path(name), user, os.geteuid())]
    if lacking:
        step = f"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
        return Finding("privilege", "problem", f"{user} has no range of ids in {' and '.join(lacking)}", step)
    return Finding("privilege", "ok", "user namespaces; roots are made with mmdebstrap --mode=unshare")


def _has_range(path: Path, user: str, uid: int) -> bool:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:  # newuidmap, which reads it, would grant nothing either
        return False
    owners = (line.split(":") for line in lines)
    return any(len(words) == 3 and words[0] in (user, str(uid)) and int(words[2]) >= 65536 for words in owners)


def sandbox() -> Finding:
    """Whether bubblewrap can enter a root, as the builder does."""
    argv = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    argv += ["--unshare-pid", "--unshare-ipc", "--unshare-net", "--die-with-parent"]
    if os.geteuid():
        argv += ["--unshare-user", "--uid", "0", "--gid", "0"]
    why = _try([*argv, "true"])
    if why is None:
        return Finding("sandbox", "ok", "bubblewrap enters a root, without network")
    return Finding("sandbox", "problem", f"bubblewrap does not work: {why}", "allow namespaces, in the container too")


def _newest(pattern: str) -> Path | None:
    """The newest file of the cache that a pattern fits; None when there is none. Nothing is built."""
    return max(paths.cache().glob(pattern), key=lambda path: path.stat().st_mtime, default=None)


def kvm_boots(emulator: Path, kernel: Path, *, enter: Sequence[str] = (), timeout_s: float = KVM_PROBE_S) -> str | None:
    """Boot a kernel on /dev/kvm; None when it spoke within the time, else why this KVM is not to be used.

    The kernel has no root to mount: its first line on the console is the proof, its panic ends the machine.
    `enter` goes before the command, whose paths are then those inside.
    """
    argv = [*enter, str(emulator), *qemu.BARE, "-accel", "kvm", "-cpu", "host", "-m", "512"]
    argv += ["-serial", "stdio", "-kernel", str(kernel), "-append", "console=ttyS0 earlyprintk=ttyS0 panic=-1"]
    said = ""
    try:
        with tempfile.TemporaryDirectory(prefix="abh-") as scratch, qemu.process(argv, Path(scratch)) as running:
            for line in running.lines(timeout_s):
                if "Linux version" in line:
                    return None
                said = line.strip() or said
            return said or f"QEMU ended with status {running.status()} before the guest spoke"
    except TimeoutError as late:
        return f"a guest said nothing: {late}"
    except OSError as error:
        return str(error)


def kvm_boots_inside(host: Path, kernel: Path) -> str | None:
    """The same with the host root's QEMU, Debian's, which `--machine local` runs: the one we build is without KVM."""
    try:
        enter = qemu.enter(host, read_only={"/in/linux": kernel.parent}, devices=[KVM])
    except AbhError as error:  # bubblewrap is not installed: a finding of its own
        return error.what
    return kvm_boots(Path(qemu.DEBIAN), Path("/in/linux", kernel.name), enter=enter)


def accelerator(device: Path = KVM, probe: Callable[[Path, Path], str | None] = kvm_boots_inside) -> Finding:
    """Which accelerator will be used, and what /dev/kvm is worth."""
    # Counts come from a TCG plugin and time from -icount: TCG is the bench's choice, not its fallback.
    always = "TCG will be used: counts and virtual time need it"
    if not device.exists():
        return Finding("accelerator", "ok", f"{always}; there is no {device}")
    if not os.access(device, os.R_OK | os.W_OK):
        return Finding("accelerator", "ok", f"{always}; {device} may not be opened by this user")
    host, kernel = _newest("roots/host-*"), _newest("built/linux-*/vmlinuz")
    if host is None or kernel is None:
        return Finding(
            "accelerator", "ok", f"{always}; {device} is there, not probed yet (no host root and kernel in the cache)"
        )
    why = probe(host, kernel)
    worth = "boots a probe guest" if why is None else f"is no proof of KVM: {why}"
    return Finding("accelerator", "ok", f"{always}; {device} {worth}")


def pmu() -> Finding:
    """Whether the processor's cycle counter counts."""
    count = cycles()
    if isinstance(count, int):
        return Finding("pmu", "ok", f"cycles are counted ({count} in a short loop); the study does not need them")
    return Finding("pmu", "ok", f"n/a: {count}; the study does not need it")


def cycles() -> int | str:
    """Cycles of a short loop by perf_event_open(2), or why there is no such count."""
    number = PERF_EVENT_OPEN.get(os.uname().machine)
    if number is None:
        return f"perf_event_open is not known for {os.uname().machine}"
    fields = (PERF_TYPE_HARDWARE, PERF_ATTR_SIZE, PERF_COUNT_HW_CPU_CYCLES, 0, 0, 0, PERF_DISABLED_NO_KERNEL_NO_HV)
    attributes = struct.pack("=IIQQQQQ", *fields).ljust(PERF_ATTR_SIZE, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.syscall(number, ctypes.c_char_p(attributes), 0, -1, ctypes.c_int(-1), ctypes.c_ulong(0))
    if handle < 0:
        return f"perf_event_open: {os.strerror(ctypes.get_errno())}"
    try:
        libc.ioctl(handle, PERF_ENABLE, 0)
        sum(range(100_000))
        libc.ioctl(handle, PERF_DISABLE, 0)
        return count_or_reason(os.read(handle, 8))
    finally:
        os.close(handle)


def count_or_reason(raw: bytes) -> int | str:
    """What reading the counter means: one that opens and stays at zero does not count."""
    count = struct.unpack("=Q", raw)[0]
    return count or "the counter opens but stays at zero"


def thp(folder: Path = paths.THP) -> Finding:
    """This machine's own hugepage setting: it speeds emulation up or down, and is no part of the study."""
    states = []
    for name in ("enabled", "defrag"):
        try:
            words = (folder / name).read_text(encoding="ascii").split()
        except OSError:
            return Finding("hugepages", "ok", "this kernel has no transparent hugepages")
        states.append(f"{name} {next((w[1:-1] for w in words if w.startswith('[')), 'unknown')}")
    return Finding(
        "hugepages", "ok", f"this machine: {', '.join(states)}; the study sets those inside its machines only"
    )


PROBES = (system, processors, memory, disk, tools, privilege, sandbox, accelerator, pmu, thp)


def examine() -> list[Finding]:
    """Every finding, in the order a reader wants them."""
    return [_tried(probe) for probe in PROBES]


def _tried(probe: Callable[[], Finding]) -> Finding:
    """What the probe finds; what keeps it from finding anything is a problem too, and the others go on."""
    try:
        return probe()
    except AbhError as error:
        text = ": ".join(str(part) for part in (error.what, error.where, error.got) if part is not None)
        return Finding(probe.__name__, "problem", text, error.next_step)


def as_json(findings: Sequence[Finding]) -> dict[str, object]:
    """The findings as data."""
    return {
        "usable": all(each.state != "problem" for each in findings),
        "findings": [asdict(each) for each in findings],
    }
