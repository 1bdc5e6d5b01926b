# SPDX-License-Identifier: MIT
"""docs/policy.md, done as it says by one who reads nothing else."""

from __future__ import annotations

import re
import shlex
import time

import pytest

from abh import paths
from abh.policy import binding, domain
from tests.policy import rig as rigs

DOC = paths.CHECKOUT / "docs/policy.md"
CHAPTER = "## Ten minutes, KVM"
# What here is done otherwise than by the command's own word.
OTHERWISE = ("apt-get install python3-libvirt", "systemctl restart libvirtd", "virsh shutdown", "virsh start",
             "virsh undefine")  # fmt: skip


def commands(of: str = CHAPTER) -> list[str]:
    """A chapter's commands, in their order, without what is said beside them."""
    chapter = DOC.read_text().partition(of)[2].partition("\n## ")[0]
    blocks = chapter.split("```")[1::2]
    return [line.partition("#")[0].strip() for block in blocks for line in block.strip().splitlines()]


def states(host) -> dict[str, str]:
    found = host.abh("policy", "verify", "web-1", "--json", status=None).json["findings"]
    return {each["setting"]: each["state"] for each in found}


@pytest.mark.usefixtures("hugepages")
def test_the_chapter_for_kvm_leads_to_a_vm_with_a_policy_and_its_proof(host, tmp_path):
    (tmp_path / "web-1.xml").write_text(rigs.domain_xml("web-1"))
    proofs = []
    for line in commands():
        words = shlex.split(line)
        if words[:3] == ["bin/abh", "policy", "hook"]:
            host.abh_plain(*words[1:], "--hooks", str(host.rig.hooks))
        elif words[:3] == ["bin/abh", "policy", "verify"]:
            host.wait(domain.find(host.connection, "web-1"))
            time.sleep(3)  # one who reads is slower: the hook has its first pass 2 s after the start
            host.abh(*words[1:])
            proofs.append(states(host))
        elif words[0] == "bin/abh":
            if words[1:3] == ["policy", "apply"] and proofs:
                host.wait(domain.find(host.connection, "web-1"))
            host.abh(*[str(tmp_path / word) if word == "web-1.xml" else word for word in words[1:]])
        else:
            assert line.startswith(OTHERWISE), line
            if words[0] == "systemctl":
                host.rig.stop()
                host.rig.start()
                host.connection = binding.load().open(host.rig.uri)
            elif words[0] == "virsh":
                one = domain.find(host.connection, "web-1")
                do = {"shutdown": one.handle.destroy, "start": one.handle.create}
                if words[1] == "undefine":
                    one.handle.undefine()
                else:
                    do[words[1]]()
    first, second = proofs
    assert set(first.values()) == {"granted"}, first
    guests = {state for name, state in second.items() if name.startswith("guest ")}
    assert guests == {"granted"} and second["huge_share"] == "granted", second
    assert not list(host.rig.hooks.rglob("*abh*")) and not list(domain.every(host.connection))


def test_what_is_said_to_undo_all_leaves_nothing_in_a_domain_that_stays(host, tmp_path):
    (tmp_path / "stays.xml").write_text(rigs.domain_xml("stays"))
    host.abh("deploy", str(tmp_path / "stays.xml"), "--policy", "vm-hugetlb")
    host.abh("policy", "unset", "stays")
    one = domain.find(host.connection, "stays")
    assert "urn:abh" in one.document()
    said = re.search(r"`(virsh metadata VM [^`]*)`", DOC.read_text())
    assert said and host.rig.inside(*said[1].replace("VM", "stays").split()).returncode == 0
    assert "abh" not in one.document() and "hugepages" not in one.document()
