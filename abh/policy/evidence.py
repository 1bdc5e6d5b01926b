# SPDX-License-Identifier: MIT
"""All that can be seen of a running VM. What cannot be seen raises Unreadable, with the reason."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

from abh.policy import binding, guest, hook, host, memory, xen
from abh.policy.domain import Domain
from abh.policy.memory import HUGE, Unreadable

T = TypeVar("T")


@dataclass(frozen=True)
class Shares:
    """Of a guest's memory, in KiB; None where it cannot be seen, with the reason."""

    mapped_kib: int | None = None  # that the host has mapped
    host_huge_kib: int | None = None  # of that, in hugepages
    guest_used_kib: int | None = None  # memory of programs, as the guest says
    guest_huge_kib: int | None = None  # of that, in hugepages of the guest's
    both_kib: int | None = None  # in hugepages of both at once
    reasons: tuple[str, ...] = ()

    @staticmethod
    def _share(part: int | None, whole: int | None) -> float | None:
        return None if part is None or not whole else part / whole

    @property
    def host_share(self) -> float | None:
        """Of what the host has mapped."""
        return self._share(self.host_huge_kib, self.mapped_kib)

    @property
    def guest_share(self) -> float | None:
        """Of what the guest's programs use."""
        return self._share(self.guest_huge_kib, self.guest_used_kib)

    @property
    def aligned_share(self) -> float | None:
        """Of what the guest's programs use, what is huge in guest and host at once."""
        return self._share(self.both_kib, self.guest_used_kib)


class Evidence:
    """Of one domain, read when it is first asked for, and then the same for all that ask."""

    def __init__(self, domain: Domain, proc: Path = memory.PROC, root: Path = host.ROOT) -> None:
        self.domain = domain
        self.proc = proc
        self.root = root
        self._said: dict[str, Any] = {}
        self._silent: Unreadable | None = None

    @functools.cached_property
    def running(self) -> bool:
        """Whether it runs."""
        return self.domain.running

    @functools.cached_property
    def tree(self) -> ElementTree.Element:
        """Its XML as it runs."""
        return self.domain.tree(live=True)

    @property
    def kind(self) -> str:
        """kvm, qemu, xen, …"""
        return self.tree.get("type", "")

    @functools.cached_property
    def sizes_kib(self) -> list[int]:
        """The blocks of its memory."""
        try:
            return hook.sizes_kib(self.tree)
        except (ValueError, KeyError, AssertionError):
            raise Unreadable("the domain's XML does not say how much memory it has") from None

    def local(self) -> None:
        """Unreadable unless this host's kernel is the VM's."""
        if not self.running:
            raise Unreadable("the VM does not run")
        if not binding.is_local(self.domain.connection):
            raise Unreadable("the VM is on another host: run abh there")
        if self.kind not in ("kvm", "qemu"):
            raise Unreadable(f"a domain of type {self.kind!r} has no process on this host that holds its memory")

    @functools.cached_property
    def pid(self) -> int:
        """The process that holds its memory."""
        self.local()
        state = binding.state_folder(self.domain.connection)
        note = state and self.root / str(state / memory.PID_FILE.format(name=self.domain.name)).lstrip("/")
        pid = memory.process_of(self.domain.uuid, self.proc, note)
        if pid is None:
            raise Unreadable("there is no process of QEMU's for it that can be seen from here, or more than one")
        return pid

    def here(self) -> None:
        """Unreadable unless its process is seen here: a socket of this host's may lead to the libvirt of another."""
        _ = self.pid

    @functools.cached_property
    def blocks(self) -> list[memory.Mapping]:
        """The mappings of its memory, in the order of the blocks."""
        return memory.guest_memory(memory.mappings(self.pid, self.proc), self.sizes_kib)

    @functools.cached_property
    def ranges(self) -> list[list[memory.Range]]:
        """What of each block is in memory."""
        return [list(memory.ranges(self.pid, each.start, each.end, self.proc)) for each in self.blocks]

    @functools.cached_property
    def agent(self) -> guest.Agent:
        """The agent in the guest."""
        if not self.running:
            raise Unreadable("the VM does not run")
        return guest.Agent(self.domain)

    def said(self, what: str, ask: Callable[[], T]) -> T:
        """Of the guest: it is asked once, and the answer, or why there is none, is the same for all that want it."""
        if what not in self._said:
            if self._silent:
                raise self._silent
            try:
                self._said[what] = ask()
            except Unreadable as error:
                self._said[what] = error
        found: T | Unreadable = self._said[what]
        if isinstance(found, Unreadable):
            raise found
        return found

    def ask_no_more(self, why: str) -> None:
        """What the guest has not said by now, it has not said."""
        self._silent = guest.NoAgent(why)

    @property
    def frames(self) -> guest.Frames:
        """The guest's own account of its hugepages."""
        return self.said("frames", lambda: guest.frames(self.agent, sum(self.sizes_kib)))

    def switch(self, path: str) -> str:
        """What a switch of the guest's kernel is, as the guest says."""
        return self.said(path, lambda: self.agent.text_of(path))

    @functools.cached_property
    def paging(self) -> tuple[str, str]:
        """How the hypervisor pages this domain now (hap, shadow, pv, or emulated), and what says so."""
        if self.kind == "xen":
            if not binding.is_local(self.domain.connection):
                raise Unreadable("the VM is on another host: run abh there")
            number = self.tree.get("id", "")
            if not number.isdigit():
                raise Unreadable("libvirt does not say which of Xen's domains it is")
            mode = xen.paging(int(number), self.domain.uuid)
            return mode, f"Xen's flags of the running domain: {mode}"
        if self.kind == "qemu":
            return "emulated", "the VM is emulated (type='qemu'): no hypervisor pages it"
        self.here()
        found, said = host.paging(self.root)
        if found is None:
            raise Unreadable(said)
        return found, said

    @functools.cached_property
    def superpages(self) -> tuple[bool | None, str]:
        """Whether superpages in Xen's shadow of this domain are on, and what says so; None where they cannot be."""
        if self.kind != "xen":
            raise Unreadable("it is no domain of Xen's")
        mode, said = self.paging  # which has looked whether the domain is of this machine's Xen
        return xen.superpages(int(self.tree.get("id", ""))) if mode == "shadow" else (None, said)

    @property
    def collapsible(self) -> tuple[int, int]:
        """Of places of 2 MiB, how many are hugepages, and how many are base pages that could be."""
        pairs = list(zip(self.blocks, self.ranges, strict=True))
        huge = sum((each.end - each.start) // HUGE for _, inside in pairs for each in inside if each.huge)
        return huge, sum(len(memory.base_places(inside, block.start, block.end)) for block, inside in pairs)

    def shares(self) -> Shares:
        """The shares of hugepages; what cannot be seen is None, and why is among the reasons."""
        reasons: list[str] = []

        def or_none(what: str, read: Callable[[], T]) -> T | None:
            try:
                return read()
            except Unreadable as error:
                if (line := f"{what}: {error}") not in reasons:
                    reasons.append(line)
                return None

        mapped = or_none("host", lambda: sum(each.mapped_kib for each in self.blocks))
        huge = or_none("host", lambda: sum(each.huge_kib for each in self.blocks))
        frames = or_none("guest", lambda: self.frames)
        both = or_none("both", self.both_kib) if frames is not None and mapped is not None else None
        used = None if frames is None else frames.anonymous_kib
        own = None if frames is None else len(frames.huge) * (HUGE >> 10)
        return Shares(mapped, huge, used, own, both, tuple(reasons))

    def both_kib(self) -> int:
        """What is in hugepages of the guest's and of the host's at once."""
        if len(self.blocks) != 1:
            raise Unreadable("memory of several blocks: which address is in which is not known from outside")
        block, inside = self.blocks[0], self.ranges[0]
        at_host = {at for each in inside if each.huge for at in range(each.start, each.end, HUGE)}
        own = self.frames
        # A set: by lies about where its memory ends, two of a guest's addresses can be made one place.
        places = {block.start + guest.offset_of(at, own, self.sizes_kib[0]) for at in own.huge}
        return len(places & at_host) * (HUGE >> 10)
