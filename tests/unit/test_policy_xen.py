# SPDX-License-Identifier: MIT
"""What Xen says of its domains: asked of one that answers as the real one does (tests/policy/test_xen.py has that)."""

from __future__ import annotations

import errno
import struct
import uuid

import pytest

from abh.policy import status, verify, xen
from abh.policy.memory import Unreadable
from tests.unit.test_policy_seen import UUID, machine

__all__ = ["machine"]  # a fixture

HVM, HAP, BLOCKED = 1 << 1, 1 << 8, 1 << 4


class Xen:
    """Of one version; where nobody has the number that is asked for, it answers of the next one, as Xen does."""

    def __init__(self, flags: int, *, interface: int = 0x17, number: int = 3, identity: str = UUID) -> None:
        self.flags, self.interface, self.number, self.identity = flags, interface, number, uuid.UUID(identity)

    def __call__(self, asked: bytes) -> bytes:
        word, interface, number = struct.unpack("<IIH6x", asked)
        assert word == 5
        if interface != self.interface:
            raise OSError(errno.EACCES, "")
        if number > self.number:
            raise OSError(errno.ESRCH, "")
        numbers = (*range(100, 107), 1, 0, 0)
        told = struct.pack("<HHI7QIII16sI", self.number, 0, self.flags, *numbers, self.identity.bytes, 0)
        return (asked + told).ljust(4096, b"\0")


@pytest.mark.parametrize("interface", [0x13, 0x15, 0x17, 0x18])
@pytest.mark.parametrize(
    ("flags", "mode"), [(HVM | HAP, "hap"), (HVM, "shadow"), (BLOCKED, "pv"), (HVM | HAP | BLOCKED, "hap")]
)
def test_the_mode_is_in_the_flags_of_every_version(interface, flags, mode):
    assert xen.paging(3, UUID, Xen(flags, interface=interface)) == mode


def test_what_is_no_answer_of_this_domain_is_none():
    other = str(uuid.UUID(int=7))
    for answers, words in (
        (Xen(HVM, interface=0x19), "another interface"),
        (Xen(HVM, interface=0x12), "another interface"),
        (Xen(HVM, number=4), "no domain 3"),  # the next one
        (Xen(HVM, number=2), "no domain 3"),
        (Xen(HVM, identity=other), "no domain 3"),  # of the Xen here, where a socket leads to the libvirt of another
    ):
        with pytest.raises(Unreadable, match=words):
            xen.paging(3, UUID, answers)

    def refuses(_asked: bytes) -> bytes:
        raise OSError(errno.EPERM, "")

    with pytest.raises(Unreadable, match="Operation not permitted"):
        xen.paging(3, UUID, refuses)


def test_where_there_is_no_xen_it_is_unknown_with_the_reason(tmp_path, monkeypatch):
    for name in ("PRIVCMD", "BUFFERS"):
        monkeypatch.setattr(xen, name, tmp_path / name)
        with pytest.raises(Unreadable, match="no dom0"):
            xen.paging(3, UUID)
        (tmp_path / name).touch()


def test_verify_goes_by_xen_and_not_by_what_the_xml_asks_for(machine, monkeypatch):
    machine.kind, machine.uri = "xen", "xen:///system"
    machine.more = "<features><hap/></features>"
    assert machine.state("huge_share", 0.9) == "unknown"
    assert machine.state("paging", "hap") == "unknown"  # without a number, nobody can be asked
    machine.attributes["id"] = "3"
    for flags, states in ((HVM | HAP, ("granted", "denied")), (HVM, ("denied", "granted")), (0, ("denied", "denied"))):
        monkeypatch.setattr(xen, "_hypercall", Xen(flags))
        assert (machine.state("paging", "hap"), machine.state("paging", "shadow")) == states
    answer = verify.paging("hap", machine.seen())
    assert "flags of the running domain: pv" in answer.evidence and "xenpvh" in answer.next_step
    assert status._paging(machine.seen()) == "pv"
    machine.uri = "xen+ssh://elsewhere/system"
    assert machine.state("paging", "hap") == "unknown" and status._paging(machine.seen()) is None
