# SPDX-License-Identifier: MIT
"""Names that break shells and paths, a domain that is somebody else's."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from xml.sax.saxutils import escape

import pytest

from abh import paths
from abh.policy import domain, guest, memory, status
from abh.policy.evidence import Evidence
from tests.policy import rig as rigs

NAMES = ("a b;touch x", "$(touch x)`touch x`", "'\"&<>", "..a", "-rf", "ü-✗", "%s%n{0}\\n", "y" * 200)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_name(host, name, tmp_path):
    host.abh_plain("policy", "hook", "install", "--hooks", str(host.rig.hooks))
    one = host.define(name)
    assert one.name == name
    host.abh("policy", "set", one.uuid if name.startswith("-") else name, "vm-thp")
    one.handle.create()
    found = host.abh("policy", "verify", one.uuid, "--json").json
    assert found["vm"] == name and found["findings"][0]["state"] == "granted"
    host.abh("status", "--prometheus", str(tmp_path / "abh.prom"))
    lines = (tmp_path / "abh.prom").read_text().splitlines()
    assert all(line.startswith(("#", "abh_vm_")) for line in lines)
    assert not list(host.rig.folder.rglob("x")), "a shell has run a part of the name"


LIES = ("bytes", "error", "number", "flood", "deep", "silent", "slow")


def test_guests_that_lie_flood_or_are_silent_cost_their_own_rows_alone(host, tmp_path):
    """Agents of real guests, through the real libvirt."""
    host.start(host.define("honest"))
    liars = [host.define(lie, memory_mib=96, cmdline=f"abh_lies={lie}") for lie in LIES]
    for one in liars:
        one.handle.create()
    end = time.monotonic() + 180
    while not all(one.tree(live=True).find("devices/channel/target[@state='connected']") is not None for one in liars):
        assert time.monotonic() < end
        time.sleep(1)
    begin = time.monotonic()
    ran = host.abh("status", "--json", "--prometheus", str(tmp_path / "abh.prom"))
    assert time.monotonic() - begin < status.TABLE_S + 30  # the machine has two cores, and eight guests
    rows = {row["vm"]: row for row in ran.json["vms"]}
    assert rows["honest"]["guest_used_kib"] and not rows["honest"]["reasons"], rows["honest"]
    for lie in LIES:
        row = rows[lie]
        assert row["mapped_kib"] and row["guest_used_kib"] is None and row["both_kib"] is None, row
        assert row["reasons"] and all(reason.isprintable() and len(reason) < 600 for reason in row["reasons"]), row
    assert 'vm="honest"' in (tmp_path / "abh.prom").read_text()


def open_files(one: domain.Domain) -> int:
    """How many the guest's agent has."""
    agent, found = guest.Agent(one), 0
    for number in range(50):
        with contextlib.suppress(memory.Unreadable):
            agent.text_of(f"/proc/self/fdinfo/{number}")
            found += 1
    return found


def test_a_status_that_is_interrupted_or_impatient_leaves_no_file_open_in_the_guest(host):
    one = host.define("asked", memory_mib=5120)  # enough to be in the middle of its flags
    host.start(one)
    before = open_files(one)
    assert before
    ends = []
    for sleep_s in (1.6, 1.2, 0.9, 0.7, 0.5):  # a quick machine has ended by the first
        with pytest.raises(guest.NoAgent, match="not told all"):
            guest.frames(guest.Agent(one, patience_s=guest.CLOSE_S + 0.3), 5120 << 10)
        words = [sys.executable, "-P", "-m", "abh", "status", "--connect", host.rig.uri]
        with subprocess.Popen(words, cwd=paths.CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as ran:
            time.sleep(sleep_s)
            ran.send_signal(signal.SIGINT)
            ends.append(ran.wait(30))
    assert 130 in ends and set(ends) <= {0, 130, -signal.SIGINT}  # the last: before there was anything to end
    assert open_files(one) == before


def test_a_domain_is_deployed_once_and_changed_only_if_it_is_ours(host, tmp_path):
    file = tmp_path / "guest.xml"
    file.write_text(rigs.domain_xml("deployed").replace("256", "${memory_mib}"))
    words = ("deploy", str(file), "--set", "memory_mib=256", "--policy", "vm-thp")
    assert "+  <name>deployed</name>" in host.abh(*words, "--dry-run").out
    assert host.abh("policy", "list", "--json").json["domains"] == []
    assert host.abh(*words, "--json", "--start").json["done"]
    one = domain.find(host.connection, "deployed")
    assert one.tree().find("memoryBacking/nosharepages") is not None
    host.wait(one)
    assert Evidence(one).blocks[0].kib == 256 << 10
    again = host.abh(*words, "--json").json
    assert not again["changes"] and not again["done"]
    other = host.abh("deploy", str(file), "--set", "memory_mib=320", "--dry-run").out
    assert '-  <memory unit="MiB">256</memory>' in other and '+  <memory unit="MiB">320</memory>' in other
    host.abh("deploy", str(file), "--set", "memory_mib=320")
    assert one.policy().name == "vm-thp" and "327680" in one.document()
    one.redefine(one.document(), one.document().replace("327680", "262144"))
    ran = host.abh("deploy", str(file), "--set", "memory_mib=320", status=1)
    assert "another has changed its definition" in ran.err and "262144" in one.document()
    host.abh("deploy", str(file), "--set", "memory_mib=320", "--adopt")
    assert "327680" in one.document()


def test_a_domain_of_somebody_elses_is_left_alone_and_a_wrong_one_is_refused(host, tmp_path):
    one = host.define("theirs")
    before = one.document()
    file = tmp_path / "guest.xml"
    file.write_text(rigs.domain_xml("theirs", memory_mib=128))
    assert "was not defined by `abh deploy`" in host.abh("deploy", str(file), status=1).err
    assert "was not defined by" in host.abh("deploy", str(file), "--dry-run").out and one.document() == before
    for text, said in (
        ("<domain><name>x</name>", "not well-formed XML"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><domain><name>&a;</name></domain>", "declares a document type"),
        ("<network><name>x</name></network>", "not a domain with a name"),
        (rigs.domain_xml("x").replace("<vcpu>", "<vcpus>").replace("</vcpu>", "</vcpus>"), "libvirt's schemas"),
        (rigs.domain_xml(escape("${x}")), "variables are not those given"),
    ):
        file.write_text(text)
        assert said in host.abh("deploy", str(file), status=None).err, text
    assert [each.name for each in domain.every(host.connection)] == ["theirs"]
    host.abh("deploy", "kvm", status=2)
    host.abh("deploy", "no-such", status=2)
