# SPDX-License-Identifier: MIT
"""What a guest says of itself, through the QEMU guest agent, and what it is asked to set.

A guest is believed about its own numbers alone: nothing that it says makes a setting of the host's granted. Its answers
are bounded in size and time, and checked before they are used.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import itertools
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from abh.policy import binding
from abh.policy.domain import Domain
from abh.policy.memory import HUGE, Unreadable

TIMEOUT_S = 5  # of one answer
PATIENCE_S = 60  # with one guest, in all
CLOSE_S = 1  # of that for closing a file: what nobody closes stays open in the guest's agent
# libvirt's own errors where it does not get through to an agent.
NO_AGENT = (
    *("AGENT_UNRESPONSIVE", "AGENT_UNSYNCED", "AGENT_COMMAND_TIMEOUT"),
    *("ARGUMENT_UNSUPPORTED", "NO_SUPPORT", "OPERATION_INVALID"),
)
CHUNK = 1 << 20
LONGEST = (
    3 * CHUNK // 2
)  # of an answer: the chunk in base64. libvirt lets 10 MiB pass, which may be millions of objects
FILE_BYTES = 1 << 20
LARGEST = 64 << 30  # of a guest whose frames are looked at: 128 MiB of flags, some seconds
FRAME = 4096
FRAMES = HUGE // FRAME  # of a hugepage
# Documentation/admin-guide/mm/pagemap.rst: of a frame's 64 flags.
ANONYMOUS, HUGETLB, TRANSPARENT = 1 << 12, 1 << 17, 1 << 22
# The same, as tables of all values of the flags' second byte and of their third: 1 where the flag is set.
IS_ANONYMOUS, IS_HUGETLB, IS_HUGE = (
    bytes(bool(value << shift & flags) for value in range(256))
    for shift, flags in ((8, ANONYMOUS), (16, HUGETLB), (16, HUGETLB | TRANSPARENT))
)
ADDRESSES = 1 << 52  # of x86-64, at most: what is beyond is no memory
FOUR_GIB = 4 << 30


class NoAgent(Unreadable):
    """There is no agent in the guest, or none that answers."""


class Agent:
    """The agent in a running domain."""

    def __init__(self, domain: Domain, patience_s: float = PATIENCE_S, over: threading.Event | None = None) -> None:
        self.domain = domain
        self.gone: NoAgent | None = None  # nothing more is asked
        self.silent = False  # for it has not answered: each wait takes seconds
        self.patience_s = patience_s
        self.until = time.monotonic() + patience_s
        self.over = over or threading.Event()  # when it is set, nobody waits for more

    def ask(self, command: str, **arguments: object) -> Any:
        """What the agent answers; Unreadable if it does not, or not in form."""
        left = self._left()
        return self._send(command, arguments, max(1, min(TIMEOUT_S, int(left))))

    def _left(self, kept_s: float = 0) -> float:
        """The time that is left, but for what is kept of it; NoAgent if it is none."""
        if self.gone:
            raise self.gone
        left = self.until - kept_s - time.monotonic()
        if left <= 0 or self.over.is_set():
            self.gone = NoAgent(f"the guest's agent has not told all within {self.patience_s:.0f} s")
            raise self.gone
        return left

    def _send(self, command: str, arguments: Mapping[str, object], timeout_s: int) -> Any:
        libvirt = binding.load()
        request = json.dumps({"execute": command, **({"arguments": arguments} if arguments else {})})
        try:
            text = binding.qemu().qemuAgentCommand(self.domain.handle, request, timeout_s, 0)
            if len(text) > LONGEST:
                raise Unreadable("the guest's agent answers more than it was asked for")
            return json.loads(text)["return"]
        except libvirt.libvirtError as error:
            said = plain(f"the guest's agent: {error.get_error_message()}")
            if error.get_error_code() in {getattr(libvirt, f"VIR_ERR_{name}", None) for name in NO_AGENT}:
                self.gone, self.silent = NoAgent(said), True
                raise self.gone from None
            raise Unreadable(said) from None  # the agent's own words
        except (
            ValueError,
            TypeError,
            KeyError,
            RecursionError,
            SystemError,
        ):  # the binding's, of bytes that are no text
            raise Unreadable("the guest's agent answers what is no answer") from None

    @contextlib.contextmanager
    def _file(self, path: str, mode: str) -> Iterator[int]:
        handle = self.ask("guest-file-open", path=path, mode=mode)
        if type(handle) is not int:
            raise Unreadable("the guest's agent answers what is no answer")
        try:
            yield handle
        finally:
            if not self.silent:  # out of patience, too
                with contextlib.suppress(Unreadable):
                    self._send("guest-file-close", {"handle": handle}, CLOSE_S)

    def bytes_of(self, path: str, start: int = 0, count: int = FILE_BYTES) -> bytes:
        """What is in a file of the guest, from `start`, at most `count` bytes."""
        return b"".join(self.pieces(path, start, count))

    def pieces(self, path: str, start: int, count: int) -> Iterator[bytes]:
        """The same piece by piece, as the agent gives them."""
        with self._file(path, "r") as handle:
            if start:
                self.ask("guest-file-seek", handle=handle, offset=start, whence=0)
            yield from self._read(handle, count)

    def _read(self, handle: int, count: int) -> Iterator[bytes]:
        while count > 0:
            self._left(CLOSE_S)
            wanted = min(CHUNK, count)
            answer = self.ask("guest-file-read", handle=handle, count=wanted)
            try:
                piece = base64.b64decode(answer["buf-b64"], validate=True)[:wanted]
                end = bool(answer["eof"])
            except (KeyError, TypeError, ValueError, binascii.Error):
                raise Unreadable("the guest's agent answers what is no answer") from None
            yield piece
            count -= len(piece)
            if end or not piece:
                break

    def text_of(self, path: str) -> str:
        """What is in a small file of the guest, as one that may be printed."""
        return plain(self.bytes_of(path, count=4096).decode("utf-8", errors="replace").strip())

    def write(self, path: str, value: str) -> None:
        """Writes a switch of the guest's kernel."""
        data = base64.b64encode(value.encode()).decode()
        with self._file(path, "w") as handle:
            self.ask("guest-file-write", handle=handle, **{"buf-b64": data})
            self.ask("guest-file-flush", handle=handle)


def plain(text: str) -> str:
    """Without what would move a terminal's cursor, or worse."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:500])


@dataclass(frozen=True)
class Frames:
    """What the guest's kernel says of its memory: where its own hugepages are, by address in the guest."""

    anonymous_kib: int  # memory of programs
    huge: frozenset[int]  # guest-physical addresses of 2 MiB that one hugepage fills
    top: int  # the end of its memory


def frames(agent: Agent, size_kib: int) -> Frames:
    """The guest's own account, from its /proc/iomem and /proc/kpageflags."""
    anonymous = 0
    huge: set[int] = set()
    areas = ram(agent.bytes_of("/proc/iomem").decode("ascii", errors="replace"))
    if sum(end - start for start, end in areas) > min(LARGEST, size_kib << 10):
        raise Unreadable("the guest claims more memory than it has, or has more than is looked at")
    for start, end in areas:
        at, last = start // FRAME, end // FRAME
        rest = b""
        for piece in agent.pieces("/proc/kpageflags", at * 8, (last - at) * 8):
            rest += piece
            whole = max(0, (at + len(rest) // 8) // FRAMES * FRAMES - at)  # up to the end of a hugepage
            anonymous += _count(rest[: whole * 8], at, huge)
            at, rest = at + whole, rest[whole * 8 :]
        anonymous += _count(rest[: len(rest) // 8 * 8], at, huge)
    return Frames(anonymous * FRAME // 1024, frozenset(huge), max((end for _, end in areas), default=0))


def _count(flags: bytes, first: int, huge: set[int]) -> int:
    """How many frames are of programs, by their flags; those that make a hugepage are added to `huge`."""
    frames_ = len(flags) // 8
    third = flags[2::8]
    of_programs = _bits(flags[1::8], IS_ANONYMOUS) | _bits(third, IS_HUGETLB)
    both = (of_programs & _bits(third, IS_HUGE)).to_bytes(frames_, "little")
    for at in range(-first % FRAMES, frames_ - FRAMES + 1, FRAMES):
        if both.count(1, at, at + FRAMES) == FRAMES:
            huge.add((first + at) * FRAME)
    return of_programs.bit_count()


def _bits(of_frames: bytes, table: bytes) -> int:
    return int.from_bytes(of_frames.translate(table), "little")


def ram(iomem: str) -> list[tuple[int, int]]:
    """The areas of memory in /proc/iomem; a user without rights sees zeros there."""
    found = [
        (int(each[1], 16), int(each[2], 16))
        for each in re.finditer(r"^([0-9a-f]+)-([0-9a-f]+) : System RAM$", iomem, re.MULTILINE)
    ]
    areas = [(start, last + 1) for start, last in found if (start, last) != (0, 0)]
    if not areas or any(one[1] > other[0] for one, other in itertools.pairwise(areas)):
        raise Unreadable("the guest's /proc/iomem has no memory in it, or areas that overlap")
    if any(end <= start or end > ADDRESSES for start, end in areas):
        raise Unreadable("the guest's /proc/iomem has areas that end before they begin, or where no memory can be")
    return areas


def offset_of(address: int, frames_: Frames, size_kib: int) -> int:
    """Where in the guest's memory a guest-physical address is: on a PC, what does not fit below 4 GiB begins there."""
    low = (size_kib << 10) - max(0, frames_.top - FOUR_GIB)
    return address if address < FOUR_GIB else low + address - FOUR_GIB
