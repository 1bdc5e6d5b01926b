# SPDX-License-Identifier: MIT
"""What Xen says of its domains: asked of one that answers as the real one does (tests/policy/test_xen.py has that)."""

from __future__ import annotations

import errno
import struct
import uuid

import pytest

from abh.errors import Status
from abh.policy import install, status, verify, xen
from abh.policy.memory import Unreadable
from abh.schema import policy as schema
from abh.schema import spec
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


def says(folder, monkeypatch, text: str) -> None:
    """A program xen-superpages that does so."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/xen-superpages").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "bin/xen-superpages").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")


@pytest.fixture
def shadowed(machine, monkeypatch):
    """A running domain of Xen's in shadow page tables."""
    machine.kind, machine.uri, machine.attributes["id"] = "xen", "xen:///system", "3"
    monkeypatch.setattr(xen, "_hypercall", Xen(HVM))
    return machine


def answer_of(seen, wanted: str = "1") -> verify.Answer:
    return verify._answered(verify.TABLES["domain"]("shadow_superpages"), wanted, seen)


@pytest.mark.parametrize(
    ("text", "on", "off", "words"),
    [
        ('[ "$1" = 3 ] && echo "enabled yes" && echo "live 24"', "granted", "denied", "enabled yes, live 24"),
        ('echo "enabled no"; echo "live 0"', "denied", "granted", "enabled no, live 0"),
        ("echo xen-superpages: Xen refuses: x >&2; exit 3", "denied", "granted", "Xen refuses: x"),
        ("echo no such domain >&2; exit 1", "unknown", "unknown", "no such domain"),
        ("exit 5", "unknown", "unknown", "ends with 5"),
        ("echo ABH value superpages_live 24", "unknown", "unknown", "an older package"),
        ("", "unknown", "unknown", "an older package"),
    ],
)
def test_superpages_of_the_shadow_are_what_xen_says(shadowed, tmp_path, monkeypatch, text, on, off, words):
    says(tmp_path, monkeypatch, text)
    for wanted, state in (("1", on), ("0", off)):
        answer = answer_of(shadowed.seen(), wanted)
        assert answer.state == state and words in answer.evidence, answer
        assert bool(answer.next_step) == (state == "denied")


def test_what_is_to_be_done_where_there_are_no_superpages(shadowed, tmp_path, monkeypatch):
    says(tmp_path, monkeypatch, "echo enabled no")
    state = "not installed"
    monkeypatch.setattr(install, "examine", lambda: install.Installed(state, ()))
    step = answer_of(shadowed.seen()).next_step
    assert "hook is not installed: abh policy hook install" in step and "xen-superpages 3 1" in step
    state = "installed"
    assert "journalctl -t abh" in answer_of(shadowed.seen()).next_step
    says(tmp_path, monkeypatch, "exit 3")
    assert "boot the Xen of the package" in answer_of(shadowed.seen()).next_step
    for flags, words in ((HVM | HAP, 'paging = "shadow" in [vm]'), (0, "xenpvh or hvm")):
        says(tmp_path, monkeypatch, "echo enabled yes")  # which is not asked
        monkeypatch.setattr(xen, "_hypercall", Xen(flags))
        answer = answer_of(shadowed.seen())
        assert answer.state == "denied" and words in answer.next_step and "Xen's flags" in answer.evidence
        assert answer_of(shadowed.seen(), "0").state == "granted"


def test_superpages_that_cannot_be_asked_for_are_unknown(shadowed, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = answer_of(shadowed.seen())
    assert answer.state == "unknown" and "package xen-hypervisor-abh, cannot be run: No such file" in answer.evidence
    says(tmp_path, monkeypatch, "echo enabled yes")
    for name, value in (("running", False), ("uri", "xen+ssh://elsewhere/system"), ("kind", "kvm")):
        with monkeypatch.context() as changed:
            changed.setattr(shadowed, name, value)
            assert answer_of(shadowed.seen()).state == "unknown", name


def test_a_required_switch_of_a_domain_decides_the_status(shadowed, tmp_path, monkeypatch):
    wanted = spec.policy("vm-xen-shadow")
    wanted = wanted.model_copy(update={"vm": wanted.vm.model_copy(update={"required": ("paging", "domain")})})
    assert all(verify.TABLES["domain"](name) for name in schema.DOMAIN_SETTINGS)
    for text, ends in (("enabled yes", Status.SUCCESS), ("enabled no", Status.FAILED), ("?", Status.ERROR)):
        says(tmp_path, monkeypatch, f"echo {text}")
        assert verify.status(verify.findings(wanted, shadowed.seen()), strict=False) == ends
