# SPDX-License-Identifier: MIT
"""What Xen itself says of a domain: asked as Xen's own tools ask, by the hypercall domctl, which dom0's root may make.

Not by libxenctrl, which has another file name and another structure in each version of Xen. What is read here has had
one place from Xen 4.15 to 4.22; Xen answers only who names the very number of its interface, so that nothing is misread
of another version.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import re
import struct
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

from abh.policy.memory import Unreadable

PRIVCMD, BUFFERS = Path("/dev/xen/privcmd"), Path("/dev/xen/hypercall")
IOCTL_HYPERCALL = 48 << 16 | ord("P") << 8  # linux/include/uapi/xen/privcmd.h
DOMCTL, GET_DOMAIN_INFO = 36, 5
INTERFACES = range(0x18, 0x12, -1)  # of Xen 4.22, and down to that of 4.15
ASK = struct.Struct("<IIH6x")  # what is asked, the interface, the domain
ANSWER = struct.Struct("<H2xI56x12x16s")  # the domain; its flags; its UUID
HVM, HAP = 1 << 1, 1 << 8
# Of the package xen-hypervisor-abh, as the operation is of that Xen alone; and how it ends where Xen has no such thing.
TOOL, HAS_NONE = "xen-superpages", 3

Call = Callable[[bytes], bytes]


def paging(domain: int, identity: str, call: Call | None = None) -> str:
    """`hap` or `shadow`; `pv` for a para-virtual domain, whose page tables are its own."""
    flags = _flags(domain, uuid.UUID(identity), call or _hypercall)
    if not flags & HVM:
        return "pv"
    return "hap" if flags & HAP else "shadow"


def superpages(domain: int) -> tuple[bool | None, str]:
    """Whether superpages in the domain's shadow are on, and what says so; None where this Xen has none in any."""
    try:
        done = subprocess.run([TOOL, str(domain)], capture_output=True, text=True, timeout=5, check=False)
    except subprocess.TimeoutExpired:
        raise Unreadable(f"{TOOL} has not ended within 5 s") from None
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise Unreadable(f"{TOOL}, of the package xen-hypervisor-abh, cannot be run: {why}") from None
    if done.returncode == HAS_NONE:
        return None, done.stderr.strip()
    if done.returncode:
        raise Unreadable(done.stderr.strip() or f"{TOOL} ends with {done.returncode}")
    if not (found := re.match(r"enabled (yes|no)\n(live \d+)?", done.stdout)):
        raise Unreadable(f"{TOOL} does not say whether it is on: it is of an older package xen-hypervisor-abh")
    return found[1] == "yes", f"{TOOL}: " + ", ".join(found[0].splitlines())


def _flags(domain: int, identity: uuid.UUID, call: Call) -> int:
    for interface in INTERFACES:
        try:
            answer = call(ASK.pack(GET_DOMAIN_INFO, interface, domain))
        except OSError as error:
            if error.errno == errno.EACCES:  # of another interface
                continue
            if error.errno == errno.ESRCH:
                break
            raise Unreadable(f"Xen does not answer: {os.strerror(error.errno or 0)}") from None
        found, flags, handle = ANSWER.unpack_from(answer, ASK.size)
        if (found, handle) == (domain, identity.bytes):  # where there is none of that number, Xen tells of the next
            return int(flags)
        break
    else:
        raise Unreadable("this Xen has another interface than those of Xen 4.15 to 4.22")
    raise Unreadable(f"the Xen of this machine has no domain {domain} of that UUID: run abh in the VM's own dom0")


def _hypercall(asked: bytes) -> bytes:
    """The structure as Xen has filled it in, in a page that stays where it is while Xen looks at it."""
    for path in (PRIVCMD, BUFFERS):
        if not path.exists():
            raise Unreadable(f"there is no {path}: this is no dom0 of Xen's")
        if not os.access(path, os.R_OK | os.W_OK):
            raise Unreadable(f"{path} is not yours to use: run it as root")
    with (
        BUFFERS.open("r+b", buffering=0) as buffers,
        PRIVCMD.open("r+b", buffering=0) as privcmd,
        mmap.mmap(buffers.fileno(), mmap.PAGESIZE) as page,
    ):
        page[: len(asked)] = asked
        place = ctypes.c_char.from_buffer(page)
        words = struct.pack("<6Q", DOMCTL, ctypes.addressof(place), 0, 0, 0, 0)
        del place  # a page that something points to cannot be closed
        fcntl.ioctl(privcmd, IOCTL_HYPERCALL, words)
        return page[:]
