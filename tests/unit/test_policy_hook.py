# SPDX-License-Identifier: MIT
"""What libvirt runs when a VM starts: what it refuses, what it lets pass, and what it says."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from abh.errors import AbhError
from abh.policy import hook, host, stored
from abh.schema import keys
from tests.unit.test_policy_seen import XML, machine

__all__ = ["machine"]  # a fixture


def ruled_out(machine, vm: dict, kind: str = "kvm", inside: str = "") -> set[str]:
    return set(hook.cannot_be(vm, ElementTree.fromstring(XML.format(kind, 4096, inside)), machine.root))


def test_what_can_be_known_before_the_start_is_ruled_out(machine):
    assert ruled_out(machine, {"thp": "advised", "huge_share": 0.9, "collapse": "start"}) == set()
    assert ruled_out(machine, {"paging": "hap"}) == {"paging"}
    machine.sys("sys/module/kvm_intel/parameters/ept", "Y")
    assert ruled_out(machine, {"paging": "hap"}) == set() and ruled_out(machine, {"paging": "shadow"}) == {"paging"}
    assert ruled_out(machine, {"paging": "hap"}, "qemu") == {"paging"}
    assert ruled_out(machine, {"thp": "off", "ksm": False}) == {"thp", "ksm"}
    assert ruled_out(machine, {"ksm": False}, inside="<memoryBacking><nosharepages/></memoryBacking>") == set()
    inside = "<memoryBacking><hugepages><page size='2048' unit='KiB'/></hugepages></memoryBacking>"
    assert ruled_out(machine, {"hugetlb_kib": 2048}, inside=inside) == {"hugetlb_kib"}
    for free, out in ((1, {"hugetlb_kib"}), (2, set())):
        machine.sys("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", str(free))
        assert ruled_out(machine, {"hugetlb_kib": 2048}, inside=inside) == out
    assert ruled_out(machine, {"paging": "shadow", "thp": "off"}, "xen") == {"paging"}
    assert ruled_out(machine, {"paging": "shadow"}, "xen", "<features><hap state='off'/></features>") == set()


def test_the_sizes_of_memory_are_its_cells_and_what_is_plugged_in():
    plugged = "<devices><memory><target><size>1024</size></target></memory></devices>"
    tree = f"<domain><memory unit='KiB'>3072</memory>{{}}{plugged}</domain>"
    assert hook.sizes_kib(ElementTree.fromstring(tree.format(""))) == [2048, 1024]
    cells = "<cpu><numa><cell memory='1' unit='MiB'/><cell memory='1024'/></numa></cpu>"
    assert hook.sizes_kib(ElementTree.fromstring(tree.format(cells))) == [1024, 1024, 1024]


def test_the_hook_knows_the_version_and_the_namespace_that_are_written():
    from abh.policy import domain, xml

    assert (hook.VERSION, hook.NAMESPACE) == (domain.VERSION, xml.NAMESPACE)


def test_a_policy_of_a_newer_version_is_refused_where_it_requires_something():
    kept = "<a:vm xmlns:a='urn:abh:libvirt-vm' version='{}' policy='p'{}><a:policy/></a:vm>"
    for version, required, refuses in ((1, " required='thp'", False), (2, "", False), (2, " required='thp'", True)):
        told = f"<metadata>{kept.format(version, required)}</metadata>"
        tree = ElementTree.fromstring(XML.format("kvm", 4096, told))
        if refuses:
            with pytest.raises(hook.Refused):
                hook.policy_of(tree)
        else:
            assert (hook.policy_of(tree) is None) == (version == 2)


def test_a_switch_of_the_hosts_that_is_required_is_checked_before_the_start(machine):
    kept = "<a:vm xmlns:a='urn:abh:libvirt-vm' version='1' policy='p' required='host'><a:policy>{}</a:policy></a:vm>"
    told = f"<metadata>{kept}</metadata>"
    for value, refuses in (("madvise", False), ("always", True)):
        text = f'[host.sysfs]\n"/sys/kernel/mm/transparent_hugepage/enabled" = "{value}"'
        tree = ElementTree.fromstring(XML.format("kvm", 4096, told.format(text)))
        if refuses:
            with pytest.raises(hook.Refused):
                hook.prepare(tree, machine.root)
        else:
            hook.prepare(tree, machine.root)


@pytest.mark.parametrize("path", ["/etc/secret", "etc/secret", "/sys/kernel/mm/../../../etc/secret", "/proc/kmsg"])
def test_a_policy_has_the_hook_read_no_other_files(machine, path):
    """Whoever may edit a domain is told why it is refused: that must not be what only root may read."""
    machine.sys("etc/secret", "root's own")
    machine.sys("proc/kmsg", "root's own")
    kept = "<a:vm xmlns:a='urn:abh:libvirt-vm' version='1' policy='p' required='host'><a:policy>{}</a:policy></a:vm>"
    told = f"<metadata>{kept}</metadata>".format(f'[host.sysfs]\n"{path}" = "x"')
    with pytest.raises(hook.Refused) as error:
        hook.prepare(ElementTree.fromstring(XML.format("kvm", 4096, told)), machine.root)
    assert "root's own" not in str(error.value) and "not there" in str(error.value)


def test_the_switches_that_a_policy_may_name_are_those_that_the_hook_looks_at():
    assert host.SWITCHES == keys.SWITCHES
    for table in ("guest", "host"):
        with pytest.raises(AbhError, match="sysfs"):
            stored.policy_of(f'purpose = "x"\norder = 1\n[{table}.sysfs]\n"/etc/passwd" = "x"', "p", "vm")


def test_other_operations_are_not_the_hooks(capsys):
    for words in (
        [],
        ["a"],
        ["a", "stopped", "end", "-"],
        ["a", "migrate", "begin", "-"],
        ["a", "prepare", "end", "-"],
    ):
        assert hook.main(words) == 0
    assert capsys.readouterr() == ("", "")


def test_a_choice_is_read_from_its_brackets():
    assert [host.chosen(each) for each in ("always [madvise] never", "1", "[a]")] == ["madvise", "1", "a"]
