# SPDX-License-Identifier: MIT
"""Runs a program, and counts how much of its hugepages is zero: parts that nobody has touched, or that were cleared.

As `python3 zeros.py PROGRAM WORD...`, in front of the `argv` of a workload whose `build` copies this file beside the
program, with a metric for each number that is wanted, as output is kept of a failure only. Every 20 ms it looks at
what the control group is charged with, as the agent does. Where that is the most so far, by 1 % and 256 KiB, it stops
the program and all that this has started, reads their hugepages, and has them go on. Of the last such sample it
prints `sampled_anon`, `sampled_huge` and `sampled_zero`, in KiB, and `sampled_unmapped`: what the group is charged
with and no process maps, as parts of hugepages that were given back are. Then the same of each process.

With `ZEROS_IDLE=10` in its environment it prints the same of what the program has left so many seconds after its end,
as `idle_anon` and so on. What is counted of such a run otherwise has the sampler in it.
"""

import contextlib
import ctypes
import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

GROUP = Path("/sys/fs/cgroup/cell")  # agent/group.h
HUGE, PAGE = 2 << 20, 4096
ZERO = bytes(PAGE)
# include/uapi/linux/fs.h: struct pm_scan_arg is twelve words, struct page_region three; linux/prctl.h.
PAGEMAP_SCAN, IS_ZERO_PAGE, IS_HUGE, REGIONS = 0xC0606610, 1 << 5, 1 << 6, 512
PR_SET_CHILD_SUBREAPER = 36
SAMPLE_S = 0.02


def hugepages(pid, start, end):
    """The hugepages of a range of a process, but for the one of zeros that all share: where each starts."""
    found = ctypes.create_string_buffer(24 * REGIONS)
    with open(f"/proc/{pid}/pagemap", "rb") as file:
        while start < end:
            kinds = (IS_ZERO_PAGE, IS_HUGE | IS_ZERO_PAGE, 0, IS_HUGE)  # inverted, all of, any of, told
            asked = bytearray(struct.pack("12Q", 96, 0, start, end, 0, ctypes.addressof(found), REGIONS, 0, *kinds))
            for number in range(fcntl.ioctl(file, PAGEMAP_SCAN, asked)):
                yield from range(*struct.unpack_from("2Q", found, 24 * number), HUGE)
            (start,) = struct.unpack_from("Q", asked, 32)  # how far it has walked


def of_process(pid):
    """Anonymous KiB, KiB in hugepages, KiB of these that are zero."""
    anon = huge = zero = 0
    with open(f"/proc/{pid}/smaps", errors="replace") as smaps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in smaps:
            if head := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
                area = int(head[1], 16), int(head[2], 16)
            elif line.startswith("Anonymous:"):
                anon += int(line.split()[1])
            elif line.startswith("AnonHugePages:") and int(line.split()[1]):
                for place in hugepages(pid, *area):
                    memory.seek(place)
                    block = memory.read(HUGE)
                    huge += len(block) >> 10
                    zero += sum(block[each : each + PAGE] == ZERO for each in range(0, len(block), PAGE)) * PAGE >> 10
    return anon, huge, zero


def below(pid):
    """The processes that this one has started, and these: none is lost, as it is who orphans come to."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        for child in map(int, file.read().split()):
            yield child
            yield from below(child)


def tell(pids, what):
    """Sends a signal to all that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)


def charged():
    """KiB that the group is charged with but files; of these, KiB that neither a process maps nor the kernel has."""
    table = dict(line.split() for line in (GROUP / "memory.stat").read_text().splitlines())
    kib = int((GROUP / "memory.current").read_text()) - int(table["file"]) >> 10
    return kib, kib - (int(table["anon"]) + int(table["kernel"]) >> 10)


def is_traced(pid):
    """Whether a debugger has it: that would take the signal for the program's, and stops it itself."""
    return "\nTracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text(errors="replace")


def sample(most=0):
    """What all of them have while they stand still, if it is more than the most so far: KiB, unmapped, by process."""
    pids, stopped, told = [], [], []
    try:
        for pid in below(os.getpid()):
            if not is_traced(pid):
                tell([pid], signal.SIGSTOP)  # at once: what stands still starts nothing more
                stopped.append(pid)
            pids.append(pid)
        (GROUP / "cpu.stat").read_bytes()  # has the kernel add up the group's numbers
        kib, unmapped = charged()
        if kib <= most:
            return None
        for pid in pids:
            with contextlib.suppress(OSError):  # it has ended, and waits to be reaped
                told.append((Path(f"/proc/{pid}/comm").read_text().strip(), of_process(pid)))
    except OSError:  # one has ended while its children were asked for: the next sample has what is left
        return None
    finally:
        tell(stopped, signal.SIGCONT)
    return kib, unmapped, told


def say(word, taken):
    """Prints a sample."""
    _, unmapped, told = taken
    total = [sum(numbers[each] for _, numbers in told) for each in range(3)]
    for name, kib in zip(("anon", "huge", "zero", "unmapped"), (*total, unmapped), strict=True):
        print(f"{word}_{name}: {kib}")
    for name, (anon, huge, zero) in told:
        print(f"{word}: {name}: anon {anon}, huge {huge}, zero {zero}")


def main():
    """Until the program ends; its status is the program's."""
    if len(sys.argv) < 2 or not GROUP.is_dir():
        sys.exit("usage: python3 zeros.py PROGRAM WORD..., in a cell of the bench")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(sys.argv[1:])
    most = None
    while child.poll() is None:
        time.sleep(SAMPLE_S)
        so_far = most[0] if most else 0
        if charged()[0] > so_far + max(256, so_far // 100):
            most = sample(so_far) or most
    if most:
        say("sampled", most)
    if idle := os.environ.get("ZEROS_IDLE"):
        time.sleep(float(idle))
        if left := sample():
            say("idle", left)
        else:
            print("idle: not sampled")
    return child.returncode


sys.exit(main())
