# SPDX-License-Identifier: MIT
"""A virtual machine as its host sees it: the process of its monitor, counted for a while, guest and host apart."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from abh.collect import around, perf, program
from abh.collect.passes import KVM_EXIT, Pass
from abh.errors import AbhError, Status, as_root
from abh.schema.result import Value

LIBVIRT = (Path("/run/libvirt/qemu"), Path("/var/run/libvirt/qemu"))
KVM_STATS = Path("/sys/kernel/debug/kvm")
TRACEPOINTS = (Path("/sys/kernel/tracing/events"), Path("/sys/kernel/debug/tracing/events"))
# Of KVM's own statistics: what went by meanwhile, and what is now. Names since Linux 5.14.
PASSED = {"exits": "exits", "pf_taken": "faults", "tlb_flush": "flushes", "remote_tlb_flush": "flushes"}
STANDING = {"pages_4k": "pages", "pages_2m": "pages", "pages_1g": "pages"}
KVM_STAT_S = 60.0
# A line of `perf kvm stat report`: reason, samples, and shares.
_EXIT = re.compile(r"^\s*(\S.*?)\s+(\d+)\s+[\d.]+%\s+[\d.]+%\s+", re.MULTILINE)
_TOTAL = re.compile(r"^Total Samples:\s*(\d+)", re.MULTILINE)
NO_EXITS = "perf kvm stat recorded nothing"


def pid_of(name: str, folders: tuple[Path, ...] = LIBVIRT) -> int:
    """The process of a running domain, as libvirt's QEMU driver notes it."""
    if "/" in name or name in ("", ".", ".."):
        raise AbhError(
            "ill-formed name of a domain", got=name, next_step="`virsh list` has the names", status=Status.USAGE
        )
    for folder in folders:
        path = folder / f"{name}.pid"
        try:
            return int(path.read_text(encoding="ascii"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise AbhError(
                "libvirt's note of a domain's process can't be read",
                where=path,
                got=error,
                next_step="run this as root",
            ) from None
    raise AbhError(
        f"no running domain `{name}`",
        where=folders[0] / f"{name}.pid",
        got="no such file",
        next_step="`virsh list` has the names; or name the process of its monitor: --pid",
        status=Status.USAGE,
    )


def check(pid: int) -> None:
    """An error unless there is such a process."""
    if not Path(f"/proc/{pid}").is_dir():
        raise AbhError("no such process", got=pid, next_step="`pgrep -a qemu` shows those of QEMU", status=Status.USAGE)


def has_tracepoint() -> bool:
    """Whether this kernel has KVM's tracepoints, and this user may read them."""
    path = Path(*KVM_EXIT.split(":"))
    with contextlib.suppress(PermissionError):
        return any((folder / path / "id").exists() for folder in TRACEPOINTS)
    return False


def kvm_stats(pid: int, folder: Path = KVM_STATS) -> dict[str, int]:
    """KVM's statistics of a process's virtual machine; nothing where they can't be read."""
    found = {}
    with contextlib.suppress(OSError):
        for machine in folder.glob(f"{pid}-*"):
            for name in (*PASSED, *STANDING):
                with contextlib.suppress(OSError, ValueError):
                    found[name] = int((machine / name).read_text(encoding="ascii"))
    return found


def watch(pid: int, seconds: float, one: Pass, tool: perf.Perf) -> program.Observed:
    """Counts the machine for a while. Its status is 0: it goes on."""
    names = [each.printed for each in one.counted]
    with perf.counting(tool, pid, one.specs) as counting:
        machine, kvm, start = around.vmstat(), kvm_stats(pid), time.monotonic()
        while (left := start + seconds - time.monotonic()) > 0:
            time.sleep(min(left, 1.0))
            check(pid)
        elapsed = time.monotonic() - start
        after, kvm_after = around.vmstat(), kvm_stats(pid)
        readings = counting.end(names)
    values = {"elapsed": Value.of(elapsed, "s", "measured")}
    values |= program.of_readings(one.counted, readings)
    values |= _of_kvm(kvm, kvm_after)
    values |= _of_memory(pid)
    return program.Observed(0, values | program.of_machine(machine, after))


def _of_kvm(before: Mapping[str, int], after: Mapping[str, int]) -> program.Values:
    why = f"{KVM_STATS} has no such statistic of this machine, or only root may read it"
    found: program.Values = {}
    for name, unit in PASSED.items():
        known = name in before and name in after
        number = after[name] - before[name] if known else None
        found[f"kvm_{name}"] = Value(value=number, unit=unit, kind="counted", reason=None if known else why)
    for name, unit in STANDING.items():
        known = name in after
        found[f"kvm_{name}"] = Value(
            value=after.get(name), unit=unit, kind="counted", reason="mapped for the guest now" if known else why
        )
    return found


def _of_memory(pid: int) -> program.Values:
    """How much of the monitor's memory, which is the guest's but for a few MiB, the host has in hugepages."""
    memory = around.memory_of(pid)
    if memory is None:
        why = f"/proc/{pid}/smaps_rollup tells nothing: " + as_root(
            "it has no memory or has ended, or is not shown here"
        )
        return {
            "host_memory_kib": Value.unknown("KiB", "counted", why),
            "host_huge_share": Value.unknown("ratio", "counted", why),
        }
    every, huge = memory
    return {
        "host_memory_kib": Value.of(every, "KiB", "counted"),
        "host_huge_share": Value(
            value=huge / every,
            unit="ratio",
            kind="counted",
            reason="of what the host has mapped, not of the guest's size",
        ),
    }


def exits(text: str) -> dict[str, int]:
    """Reason to number, as `perf kvm stat report` prints them; an error if they do not add up to its total."""
    found = {reason: int(number) for reason, number in _EXIT.findall(text)}
    total = _TOTAL.search(text)
    if total is None or sum(found.values()) != int(total[1]):
        raise AbhError(
            "perf kvm stat prints something else than it did",
            got=f"{sum(found.values())} exits in {len(found)} lines",
            expected=total[0] if total else "a line `Total Samples:`",
            tail="\n".join(text.splitlines()[-12:]),
            next_step="report this, with the lines",
        )
    return found


def value_name(reason: str) -> str:
    """The value's name for a reason, as exits_npf of AMD's npf."""
    return "exits_" + re.sub(r"[^a-z0-9]+", "_", reason.lower()).strip("_")


def reasons(pid: int, seconds: float, tool: perf.Perf) -> program.Values:
    """Exits by reason, by `perf kvm stat`; one value with the reason where that can't be had."""
    if not has_tracepoint():
        return _no_exits("this kernel has no tracepoints of KVM, or this user may not see them")
    with tempfile.TemporaryDirectory(prefix="abh-kvm-") as folder:
        data = str(Path(folder, "data"))
        record = [tool.program, "kvm", "stat", "record", "-o", data, "-p", str(pid), "--", "sleep", f"{seconds:g}"]
        report = [tool.program, "kvm", "-i", data, "stat", "report", "--event=vmexit"]
        for words in (record, report):
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds + KVM_STAT_S,
                check=False,
            )
            if done.returncode:
                said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
                return _no_exits(f"`{' '.join(words[1:4])}`: {said}")
    # Some versions print it on standard error.
    text = done.stdout if _TOTAL.search(done.stdout) else done.stderr
    if not _TOTAL.search(text):
        return _no_exits(NO_EXITS)
    return {value_name(name): Value.of(number, "exits", "counted") for name, number in exits(text).items()}


def _no_exits(why: str) -> program.Values:
    return {"exits_by_reason": Value.unknown("exits", "counted", why)}
