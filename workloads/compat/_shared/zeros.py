# SPDX-License-Identifier: MIT
"""Runs a program, and counts how much of its hugepages is zero: parts that nobody has touched, or that were cleared.

As `python3 zeros.py PROGRAM WORD...`. Every 0.4 s it stops the program and all that this has started, reads their
hugepages, and has them go on; of the sample with most anonymous memory it prints `sampled_anon`, `sampled_huge` and
`sampled_zero`, in KiB. What is counted of such a run otherwise has the sampler in it.
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

HUGE, PAGE = 2 << 20, 4096
ZERO = bytes(PAGE)
# include/uapi/linux/fs.h: struct pm_scan_arg is twelve words, struct page_region three; linux/prctl.h.
PAGEMAP_SCAN, IS_ZERO_PAGE, IS_HUGE, REGIONS = 0xC0606610, 1 << 5, 1 << 6, 512
PR_SET_CHILD_SUBREAPER = 36
SAMPLE_S = 0.4


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


def sample():
    """Of all of them together, while they stand still."""
    total = (0, 0, 0)
    pids = []
    try:
        for pid in below(os.getpid()):
            tell([pid], signal.SIGSTOP)  # at once: what stands still starts nothing more
            pids.append(pid)
        for pid in pids:
            with contextlib.suppress(OSError):  # it has ended, and waits to be reaped
                total = tuple(map(sum, zip(total, of_process(pid), strict=True)))
    except OSError:  # one has ended while its children were asked for: the next sample has what is left
        return (0, 0, 0)
    finally:
        tell(pids, signal.SIGCONT)
    return total


def main():
    """Until the program ends; its status is the program's."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(sys.argv[1:])
    most = (0, 0, 0)
    while child.poll() is None:
        time.sleep(SAMPLE_S)
        most = max(most, sample())
    for name, kib in zip(("anon", "huge", "zero"), most, strict=True):
        print(f"sampled_{name}: {kib}")
    return child.returncode


sys.exit(main())
