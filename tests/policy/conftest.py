# SPDX-License-Identifier: MIT
"""A libvirtd for all tests, guests that are gone after each, and the command as a user starts it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from abh import paths
from abh.build import components
from abh.errors import AbhError
from abh.policy import binding, domain, guest, memory
from abh.policy.evidence import Evidence
from tests.policy import rig as rigs

PATIENCE_S = 90
MADV_COLD = 20
ROOM_MIB = 512  # more than a guest of these tests touches


@pytest.fixture(scope="session")
def rig() -> Iterator[rigs.Rig]:
    # Not below pytest's own folder: the path of a Unix socket has 107 bytes.
    with tempfile.TemporaryDirectory(prefix="abh-libvirt-") as folder:
        made = rigs.rig(Path(folder))
        made.folder.chmod(0o755)  # a test is nobody
        shutil.copy(components.path_of("linux") / "vmlinuz", made.folder / "vmlinuz")
        rigs.initramfs(made)
        (made.folder / "etc/libvirt/hooks/qemu.d").mkdir()
        (made.folder / "etc/libvirt/hooks/qemu.d/00-there").write_text("#!/bin/sh\nexit 0\n")
        (made.folder / "etc/libvirt/hooks/qemu.d/00-there").chmod(0o755)  # else libvirt looks for none of others
        rigs.reap()
        made.start()
        try:
            yield made
        finally:
            remove_all(made)
            made.stop()


def remove_all(rig: rigs.Rig) -> None:
    with binding.connection(rig.uri) as connection:
        for each in list(domain.every(connection)):
            if each.running:
                each.handle.destroy()
            if each.persistent:
                each.handle.undefineFlags(binding.load().VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Host:
    """The connection, the command, and guests."""

    rig: rigs.Rig
    connection: Any
    fallbacks: int = 0  # of this machine when a guest was started last

    def abh(self, *words: str, status: int | None = 0) -> Ran:
        return self.abh_plain(*words, "--connect", self.rig.uri, status=status)

    def abh_plain(self, *words: str, status: int | None = 0) -> Ran:
        argv = [sys.executable, "-P", "-m", "abh", *words]
        done = subprocess.run(argv, cwd=paths.CHECKOUT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert status is None or done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return Ran(done.returncode, done.stdout, done.stderr)

    def define(self, name: str, **options: Any) -> domain.Domain:
        self.connection.defineXML(rigs.domain_xml(name, **options))
        return domain.find(self.connection, name)

    def start(self, one: domain.Domain) -> Evidence:
        """Starts it, and waits for the agent in it."""
        self.fallbacks = fallbacks()
        one.handle.create()
        return self.wait(one)

    def wait(self, one: domain.Domain) -> Evidence:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                guest.Agent(one).ask("guest-ping")
                return Evidence(one)
            except memory.Unreadable:
                assert one.running and time.monotonic() < end, self.rig.log()[-2000:]
                time.sleep(0.3)

    def hold(self, one: domain.Domain, mib: int) -> None:
        """Has a program in the guest use memory, and waits until it has it: in hugepages, if this machine has any."""
        agent = guest.Agent(one)
        agent.write("/run/hold", f"{mib}\n")
        end = time.monotonic() + PATIENCE_S
        held = ""
        while held != "held":
            assert time.monotonic() < end
            time.sleep(0.5)
            with contextlib.suppress(memory.Unreadable):  # it is not there yet
                held = agent.text_of("/run/held")
        if fell := fallbacks() - self.fallbacks:
            pytest.skip(f"this machine had no hugepage for {fell} first touches: its memory is in pieces")

    def split(self, seen: Evidence) -> None:
        """Takes the hugepages of a guest's memory away: the kernel splits one of which a part alone is called cold."""
        libc = ctypes.CDLL(None, use_errno=True)
        handle = libc.syscall(memory.PIDFD_OPEN, seen.pid, 0)
        assert handle >= 0
        for each in seen.ranges[0]:
            for place in range(each.start, each.end, memory.HUGE):
                piece = (ctypes.c_size_t * 2)(place, 4096)
                done = libc.syscall(memory.PROCESS_MADVISE, handle, piece, ctypes.c_size_t(1), MADV_COLD, 0)
                assert done == 4096, ctypes.get_errno()
        os.close(handle)


def fallbacks() -> int:
    """How often since it booted this machine had no hugepage for a first touch."""
    counts = dict(line.split() for line in (memory.PROC / "vmstat").read_text().splitlines())
    return int(counts.get("thp_fault_fallback", 0))


def make_room(mib: int) -> int:
    """Has the kernel gather free memory into hugepages, and gives it back: how many MiB it could.

    A machine that has run for long, or has just built a kernel, may have much memory free and no 2 MiB of it together.
    A first touch takes base pages then; a collapse compacts memory, and what it gathered stays together when freed.
    """
    area = mmap.mmap(-1, (mib << 20) + memory.HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    first = -ctypes.addressof(ctypes.c_char.from_buffer(area)) % memory.HUGE
    area.madvise(mmap.MADV_HUGEPAGE)
    made = 0
    for place in range(first, first + (mib << 20), memory.HUGE):
        area[place] = 1
        with contextlib.suppress(OSError):  # there is none together, and none to be had
            area.madvise(memory.MADV_COLLAPSE, place, memory.HUGE)
            made += memory.HUGE >> 20
    area.close()
    return made


@pytest.fixture
def hugepages() -> None:
    """For tests of what a guest gets: this machine has hugepages to give, or they would be tests of this machine."""
    made = make_room(ROOM_MIB)
    if made < ROOM_MIB:
        with contextlib.suppress(OSError):  # root alone may ask for the whole of it to be compacted
            Path("/proc/sys/vm/compact_memory").write_text("1")
        made = make_room(ROOM_MIB)
    if made < ROOM_MIB:
        pytest.skip(f"this machine's memory is in pieces: {made} of {ROOM_MIB} MiB in hugepages, after compaction")


@pytest.fixture
def host(rig: rigs.Rig) -> Iterator[Host]:
    with binding.connection(rig.uri) as connection:
        yield Host(rig, connection)
    remove_all(rig)
    for path in (rig.hooks / "qemu.d/50-abh", rig.hooks / "abh-hook.pyz"):
        path.unlink(missing_ok=True)


def refused(do: Any) -> str:
    """What libvirt says where it refuses."""
    libvirt = binding.load()
    with pytest.raises((libvirt.libvirtError, AbhError)) as error:
        do()
    return str(error.value)
