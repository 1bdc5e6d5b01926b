# SPDX-License-Identifier: MIT
"""The life of a policy on a real libvirt: set, start, verify, taken away, applied, saved and restored, unset."""

from __future__ import annotations

import subprocess

import pytest

from abh.policy import domain, memory
from abh.policy.evidence import Evidence

HUGE_KIB = 2048


def states(ran):
    return {each["setting"]: each["state"] for each in ran.json["findings"]}


@pytest.mark.usefixtures("hugepages")
def test_what_a_guest_gets_is_granted_and_what_is_taken_away_is_denied_until_it_is_applied(host):
    one = host.define("life")
    host.abh("policy", "set", "life", "vm-thp")
    assert states(host.abh("policy", "verify", "life", "--json"))["huge_share"] == "unknown"
    host.abh("policy", "apply", "life")
    assert one.tree().find("memoryBacking/nosharepages") is not None
    seen = host.start(one)
    host.hold(one, 64)
    found = states(host.abh("policy", "verify", "life", "--json"))
    assert found == {
        "thp": "granted",
        "huge_share": "granted",
        "alignment_kib": "granted",
        "ksm": "granted",
        "collapse": "granted",  # whoever has made them: they are there
    }
    host.split(seen)
    ran = host.abh("policy", "verify", "life", "--json")
    found = states(ran)
    assert (found["huge_share"], found["collapse"], found["thp"]) == ("denied", "denied", "granted")
    assert "base pages" in host.abh("explain", "life").out
    done = host.abh("policy", "apply", "life", "--json").json
    assert any("hugepages made" in line for line in done["changed"]) and not done["restart"], done
    found = states(host.abh("policy", "verify", "life", "--json"))
    assert found["huge_share"] == found["collapse"] == "granted"
    assert Evidence(one).shares().host_share > 0.9


def test_required_decides_the_status_and_strict_counts_the_others(host):
    one = host.define("status")
    host.abh("policy", "set", "status", "vm-thp")
    host.start(one)
    assert host.abh("policy", "verify", "status", "--json").json["status"] == 0
    host.abh("policy", "verify", "status", "--strict", status=1)  # KSM is offered: it was not applied
    assert host.abh("policy", "apply", "status", "--json").json["restart"]


def test_the_guests_switches_are_set_and_verified_through_its_agent(host):
    one = host.define("guest")
    host.abh("policy", "set", "guest", "vm-abh")
    seen = host.start(one)
    path = "/sys/kernel/mm/abh/enabled"
    assert states(host.abh("policy", "verify", "guest", "--json"))[f"guest {path}"] == "denied"
    host.abh("policy", "apply", "guest")
    assert states(host.abh("policy", "verify", "guest", "--json"))[f"guest {path}"] == "granted"
    assert "[always]" in seen.agent.text_of(path)
    # The domain has its kernel: the next start has the mode from the first program on, whoever asks the agent for what.
    one.handle.destroy()
    assert "[always]" in host.start(one).agent.text_of(path)
    host.abh("policy", "unset", "guest")
    assert "abh=" not in one.document()


@pytest.mark.usefixtures("hugepages")
def test_a_table_of_the_vms_has_what_is_huge_in_both(host, tmp_path):
    one = host.define("table")
    host.define("off")
    host.abh("policy", "set", "table", "vm-abh")
    host.start(one)
    host.abh("policy", "apply", "table")
    host.hold(one, 64)
    ran = host.abh("status", "--json", "--prometheus", str(tmp_path / "abh.prom"))
    rows = {row["vm"]: row for row in ran.json["vms"]}
    row = rows["table"]
    assert row["guest_huge_kib"] >= 40 * 1024 and row["both_kib"] <= row["guest_huge_kib"]
    assert row["both_kib"] >= 0.9 * row["guest_huge_kib"] and row["aligned_share"] > 0.5, row
    assert rows["off"]["aligned_share"] is None and rows["off"]["reasons"]
    text = (tmp_path / "abh.prom").read_text()
    assert f'abh_vm_both_huge_bytes{{vm="table",uuid="{one.uuid}",policy="vm-abh"}}' in text and 'vm="off"' not in text
    host.split(Evidence(one))
    after = {row["vm"]: row for row in host.abh("status", "--json").json["vms"]}["table"]
    assert after["both_kib"] == 0 and after["host_huge_kib"] == 0 and after["guest_huge_kib"] >= 40 * 1024


@pytest.mark.usefixtures("hugepages")
def test_an_address_above_the_hole_below_4_gib_is_found(host):
    one = host.define("hole", memory_mib=5120)
    host.abh("policy", "set", "hole", "vm-abh")
    seen = host.start(one)
    host.abh("policy", "apply", "hole")
    host.hold(one, 64)
    shares = Evidence(one).shares()
    assert any(at >= 4 << 30 for at in Evidence(one).frames.huge), "the guest gives what is above first"
    assert seen.blocks[0].kib == 5120 * 1024 and shares.both_kib >= 0.9 * shares.guest_huge_kib, shares


def test_a_policy_travels_with_a_saved_guest_and_unset_leaves_no_trace(host):
    one = host.define("travel", more="<memoryBacking><allocation mode='ondemand'/></memoryBacking>")
    before = one.document()
    host.abh("policy", "set", "travel", "vm-thp")
    host.abh("policy", "apply", "travel")
    host.start(one)
    one.handle.save("/out/travel.save")
    assert not one.running
    kept = host.connection.saveImageGetXMLDesc("/out/travel.save", 0)
    assert domain.xml.NAMESPACE in kept
    host.connection.restore("/out/travel.save")
    host.wait(one)
    assert states(host.abh("policy", "verify", "travel", "--json"))["thp"] == "granted"
    host.abh("policy", "unset", "travel")
    one.handle.destroy()
    assert one.document() == before.replace("<metadata/>\n", "")
    host.abh("policy", "get", "travel", status=1)


def test_a_daemon_that_starts_anew_finds_policy_and_guest(host):
    one = host.define("again")
    host.abh("policy", "set", "again", "vm-thp")
    host.start(one)
    host.rig.stop()
    host.rig.start()
    assert states(host.abh("policy", "verify", "again", "--json"))["thp"] == "granted"


@pytest.mark.parametrize(
    ("source", "aligned", "eligible"),
    [
        ("", True, True),
        ("<memoryBacking><source type='anonymous'/></memoryBacking>", True, True),
        ("<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>", None, False),
        ("<memoryBacking><source type='file'/><access mode='shared'/></memoryBacking>", None, False),
        ("<memoryBacking><access mode='private'/></memoryBacking>", None, False),
    ],
)
def test_what_each_kind_of_memory_can_have(host, source, aligned, eligible):
    one = host.define("kind", more=source)
    seen = host.start(one)
    (block,) = seen.blocks
    assert block.eligible == eligible, block
    assert aligned is None or (block.start % (HUGE_KIB << 10) == 0) == aligned, hex(block.start)
    print(source, hex(block.start), block)
    host.abh("policy", "set", "kind", "vm-thp")
    assert states(host.abh("policy", "verify", "kind", "--json"))["thp"] == ("granted" if eligible else "denied")
    if not eligible:
        assert "shmem_enabled" in host.abh("explain", "kind").out or block.path.startswith("/var"), block.path
        one.handle.destroy()
        shared = "shared" in source
        ran = host.abh("policy", "apply", "kind", status=1 if shared else 0)
        assert ("the guest's memory is a" in ran.out) == shared
        assert host.start(one).blocks[0].eligible != shared, "the policy has chosen a kind that works"
        assert (states(host.abh("policy", "verify", "kind", "--json"))["thp"] == "granted") != shared


def test_nobodys_eyes_see_nothing_and_say_why(host):
    one = host.define("nobody")
    host.abh("policy", "set", "nobody", "vm-thp")
    host.start(one)
    script = "import os, sys; from abh import cli; cli.main(sys.argv[1:]); os.setresuid(65534, 65534, 65534); "
    script += "print('as nobody'); sys.exit(cli.main(sys.argv[1:]))"
    import sys

    words = ["policy", "verify", "nobody", "--connect", host.rig.uri]
    done = subprocess.run([sys.executable, "-P", "-c", script, *words], capture_output=True, text=True, check=False)
    out = done.stdout.partition("as nobody")[2]
    assert "? unknown  thp" in out and "run this as root" in out and "granted" not in out, done.stdout + done.stderr


def test_memory_that_is_not_there_is_not_looked_at(host):
    one = host.define("gone")
    host.start(one)
    seen = Evidence(one)
    assert seen.pid == memory.process_of(one.uuid)
    one.handle.destroy()
    assert memory.process_of(one.uuid) is None
    ran = host.abh("explain", "gone", status=1)
    assert "does not run" in ran.err
