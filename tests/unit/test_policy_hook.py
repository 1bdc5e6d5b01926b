# SPDX-License-Identifier: MIT
"""What libvirt runs when a VM starts: what it refuses, what it lets pass, and what it says."""

from __future__ import annotations

import io
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from abh.errors import AbhError
from abh.policy import hook, host, install, memory, stored
from abh.schema import keys
from tests.unit.test_policy_seen import BASE, XML, machine, mapping

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
    for name, pages, out in (
        ("resv", 1, {"hugetlb_kib"}),  # of another, who has not touched it yet
        ("nr_overcommit", 1, set()),
        ("surplus", 1, {"hugetlb_kib"}),  # what may be over the pool is there already
        ("nr_overcommit", 2, set()),
    ):
        machine.sys(f"sys/kernel/mm/hugepages/hugepages-2048kB/{name}_hugepages", str(pages))
        assert ruled_out(machine, {"hugetlb_kib": 2048}, inside=inside) == out, name
    assert ruled_out(machine, {"paging": "shadow", "thp": "off"}, "xen") == {"paging"}
    assert ruled_out(machine, {"paging": "shadow"}, "xen", "<features><hap state='off'/></features>") == set()


def test_hugepages_without_a_size_are_of_the_hosts_default(machine):
    """As libvirt takes them; `apply` names the size, so that another host gives the same, and `unset` takes it back."""
    inside = "<memoryBacking><hugepages/></memoryBacking>"
    tree = ElementTree.fromstring(XML.format("kvm", 4096, inside))
    for size, free in ((2048, 2), (1048576, 1)):
        machine.sys(f"sys/kernel/mm/hugepages/hugepages-{size}kB/free_hugepages", str(free))
    for default, size, words in (
        ("", 2048, "default is not known, not 2048 KiB: run `abh policy apply`"),
        ("MemTotal:  1 kB\nHugepagesize:       2048 kB\n", 2048, None),
        ("Hugepagesize:       2048 kB\n", 1048576, "default is 2048 KiB, not 1048576 KiB"),
        ("Hugepagesize:    1048576 kB\n", 1048576, None),
        ("Hugepagesize:    1048576 kB\n", 2048, "default is 1048576 KiB, not 2048 KiB"),
    ):
        machine.sys("proc/meminfo", default)
        said = hook.cannot_be({"hugetlb_kib": size}, tree, machine.root)
        assert words in said["hugetlb_kib"] if words else not said, (default, size)
    machine.sys("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0")
    said = hook.cannot_be({"hugetlb_kib": 1048576}, tree, machine.root)  # the pool of the default counts, too
    assert "raise nr_hugepages" in said["hugetlb_kib"]


def test_the_sizes_of_memory_are_its_cells_and_what_is_plugged_in():
    plugged = "<devices><memory model='dimm'><target><size>1024</size></target></memory></devices>"
    tree = f"<domain><memory unit='KiB'>3072</memory>{{}}{plugged}</domain>"
    assert hook.sizes_kib(ElementTree.fromstring(tree.format(""))) == [2048, 1024]
    cells = "<cpu><numa><cell memory='1' unit='MiB'/><cell memory='1024'/></numa></cpu>"
    assert hook.sizes_kib(ElementTree.fromstring(tree.format(cells))) == [1024, 1024, 1024]


NO_RAM = """<devices><memory model='nvdimm'><target><size unit='MiB'>64</size></target></memory>
<memory model='virtio-mem'><target><size>8192</size><requested>{}</requested></target></memory></devices>"""


def test_an_nvdimm_and_what_virtio_mem_is_not_asked_for_are_no_memory_of_the_hosts(machine):
    """All of it is in <memory>, or beside the cells."""
    plugged = NO_RAM.format(0)
    for more in (plugged, "<cpu><numa><cell memory='4096'/></numa></cpu>" + plugged):
        assert hook.sizes_kib(ElementTree.fromstring(XML.format("kvm", 4096 + 65536 + 8192, more))) == [4096]
    machine.kib, machine.more = 4096 + 65536 + 8192, plugged
    nvdimm = mapping(BASE + (1 << 30), 65536, path="/out/nv.img", THPeligible=0, AnonHugePages=0)
    machine.smaps(mapping(BASE, 4096), nvdimm)
    assert machine.state("thp", "advised") == "granted"
    machine.sys("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "2")
    backed = "<memoryBacking><hugepages><page size='2048' unit='KiB'/></hugepages></memoryBacking>"
    for requested, out in ((0, set()), (2048, {"hugetlb_kib"})):
        tree = ElementTree.fromstring(XML.format("kvm", machine.kib, backed + NO_RAM.format(requested)))
        assert set(hook.cannot_be({"hugetlb_kib": 2048}, tree, machine.root)) == out


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


def domain_of(text: str, attributes: str = "policy='p'", *, version: str = "1", more: str = "") -> ElementTree.Element:
    kept = f"<a:vm xmlns:a='urn:abh:libvirt-vm' version='{version}' {attributes}><a:policy>{text}</a:policy></a:vm>"
    return ElementTree.fromstring(XML.format("kvm", 4096, f"<metadata>{kept}</metadata>{more}"))


IN_TOML = "[vm]\npaging = 'shadow'\nrequired = ['paging']"


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("[vm]\npaging = 'shadow'", "policy='p' required='paging'"),
        ("[vm]\npaging = 'shadow'", "required='paging'"),  # no name
        (IN_TOML, "policy='p'"),  # by hand, in the text alone
        (IN_TOML, ""),
        ("", "policy='p' required='paging'"),  # what it is to be is not said
        ("", "required='paging'"),
        ("[vm]\nthp = 'advised'", "policy='p' required='paging'"),
        ("[vm]\nrequired = 'paging'", ""),  # in a form that is none
        ("[vm]\nrequired=['paging'", ""),
        ('vm = 3\n"required" = 1', ""),
    ],
)
def test_what_is_required_is_so_wherever_it_stands(machine, text, attributes):
    machine.sys("sys/module/kvm_intel/parameters/ept", "Y")
    with pytest.raises(hook.Refused):
        hook.prepare(domain_of(text, attributes), machine.root)


@pytest.mark.parametrize(("text", "attributes"), [("[vm]\npaging = 'shadow'", "policy='p'"), ("", ""), ("x = [", "")])
def test_where_nothing_is_required_nothing_is_refused(machine, text, attributes):
    hook.prepare(domain_of(text, attributes), machine.root)
    hook.started(domain_of(text, attributes), machine.root, machine.proc)


@pytest.mark.parametrize(
    ("setting", "smaps"),
    [
        ("thp = 'advised'", mapping(BASE, 4096, THPeligible=0, path="/memfd:memory-backend-memfd")),
        ("alignment_kib = 2048", mapping(BASE + 4096, 4096)),
        ("hugetlb_kib = 2048", mapping(BASE, 4096)),
        ("ksm = false", mapping(BASE, 4096)),
        ("thp = 'advised'", mapping(BASE, 8192)),  # not seen at all
    ],
)
def test_what_only_the_started_vm_shows_is_enforced_then(machine, setting, smaps):
    name = setting.partition(" ")[0]
    machine.smaps(smaps)
    for required, refuses in ((f"required='{name}'", True), ("policy='p'", False)):
        tree = domain_of(f"[vm]\n{setting}", required)
        if refuses:
            with pytest.raises(hook.Refused, match=name):
                hook.started(tree, machine.root, machine.proc)
        else:
            hook.started(tree, machine.root, machine.proc)
    good = mapping(BASE, 4096, flags="rd wr", page=2048 if name == "hugetlb_kib" else 4)
    machine.smaps(good)
    hook.started(domain_of(f"[vm]\n{setting}", f"required='{name}'"), machine.root, machine.proc)


def test_collapsing_that_the_kernel_refuses_is_refused_where_it_is_required(machine, monkeypatch):
    begun = []
    monkeypatch.setattr(hook, "in_background", lambda *words: begun.append(words))
    monkeypatch.setattr(memory, "ranges", lambda *_: iter(()))

    def refuses(*_):
        raise memory.Unreadable("process_madvise(MADV_COLLAPSE): Function not implemented")

    monkeypatch.setattr(memory, "collapse", refuses)
    hook.started(domain_of("[vm]\ncollapse = 'start'"), machine.root, machine.proc)
    assert len(begun) == 1
    with pytest.raises(hook.Refused, match="not implemented"):
        hook.started(domain_of("[vm]\ncollapse = 'start'", "required='collapse'"), machine.root, machine.proc)
    monkeypatch.setattr(memory, "collapse", lambda *_: memory.Collapsed())
    hook.started(domain_of("[vm]\ncollapse = 'start'", "required='collapse'"), machine.root, machine.proc)
    assert len(begun) == 2


@pytest.mark.parametrize(("program", "refuses"), [("exit 0", False), ("echo no >&2; exit 1", True), (None, True)])
def test_superpages_of_xens_are_asked_for_and_enforced(machine, tmp_path, monkeypatch, program, refuses):
    tools = tmp_path / "bin"
    tools.mkdir()
    if program:
        (tools / "xen-superpages").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/told\n{program}\n')
        (tools / "xen-superpages").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    for attribute in ("policy='p'", "required='domain'"):
        tree = domain_of("[host.domain]\nshadow_superpages = '1'\n[vm]\nksm = false", attribute)
        tree.set("type", "xen")
        tree.set("id", "7")
        if refuses and "required" in attribute:
            with pytest.raises(hook.Refused, match="domain: shadow_superpages: ") as error:
                hook.started(tree, machine.root, machine.proc)
            assert ("no" if program else "xen-superpages") in str(error.value)
        else:
            hook.started(tree, machine.root, machine.proc)
    assert not program or (tmp_path / "told").read_text() == "7 1\n"


@pytest.mark.parametrize(
    ("settings", "kind", "hap", "why"),
    [
        ("shadow_superpages = '1'", "xen", "off", None),
        ("shadow_superpages = '0'", "xen", "on", None),
        ("shadow_superpages = '1'", "xen", "on", "<hap> of the domain is on: add paging"),
        ("shadow_superpages = '1'", "xen", None, "<hap> of the domain is not there"),
        ("shadow_superpages = '1'", "kvm", "off", "only a domain of Xen's"),
        ("superpages = '1'", "xen", "off", "superpages: this hook knows shadow_superpages alone"),
        ("shadow_superpages = '1'\nmore = '1'", "xen", "off", "more: this hook knows"),
        ("shadow_superpages = 'on'", "xen", "off", "shadow_superpages is 'on'"),
        ("shadow_superpages = 1", "xen", "off", "shadow_superpages is 1"),
        (None, "xen", "off", "it is no table"),
    ],
)
def test_what_is_required_of_a_domain_and_nobody_knows_is_not_had(
    machine, tmp_path, monkeypatch, settings, kind, hap, why
):
    monkeypatch.setattr(hook, "say", lambda line, *_: said.append(line))
    (tmp_path / "xen-superpages").write_text("#!/bin/sh\n")
    (tmp_path / "xen-superpages").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    text = f"[host.domain]\n{settings}" if settings else "[host]\ndomain = 'shadow_superpages'"
    for attribute in ("policy='p'", "required='domain'"):
        said: list[str] = []
        tree = domain_of(text, attribute)
        tree.set("type", kind)
        if hap:
            ElementTree.SubElement(ElementTree.SubElement(tree, "features"), "hap").set("state", hap)
        if why is None or "required" not in attribute:
            hook.prepare(tree, machine.root)
            assert (why or "") in "".join(said) and bool(said) == (why is not None)
            continue
        with pytest.raises(hook.Refused, match=re.escape(why)):
            hook.prepare(tree, machine.root)
        if "hook knows" in why or "no table" in why:  # also of one whose start nobody has prepared
            with pytest.raises(hook.Refused, match=re.escape(why)):
                hook.started(tree, machine.root, machine.proc)


def test_the_hook_the_bench_and_the_files_know_the_same_of_a_domain():
    from abh import paths
    from abh.schema import policy

    assert hook.DOMAIN_SETTINGS == policy.DOMAIN_SETTINGS
    text = (paths.CHECKOUT / "agent/init-host").read_text().partition("set_domain() {")[2].partition("esac")[0]
    assert set(re.findall(r"^\t(\w+)\)$", text, re.MULTILINE)) == set(policy.DOMAIN_SETTINGS)


def test_the_log_names_the_vm(monkeypatch, capsys):
    lines = []
    monkeypatch.setattr(hook.syslog, "syslog", lambda _level, line: lines.append(line))
    text = ElementTree.tostring(domain_of("[vm]\nalignment_kib = 2048", "required='paging'"))
    monkeypatch.setattr(hook.sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    assert hook.main(["web 1", "prepare", "begin", "-"]) == hook.REFUSED
    assert lines and all(line.startswith("VM 'web 1': ") for line in lines)
    assert "'web 1' requires" in capsys.readouterr().err


WRAPPED = """<domain><name>web 1</name><description>
required = 1</description><os><cmdline>required=1</cmdline></os><metadata>
<a:vm xmlns:a="urn:abh:libvirt-vm" version="1"{}><a:policy>{}</a:policy></a:vm></metadata></domain>
"""
OF_OTHERS = """</a:policy></a:vm><b:vm xmlns:b='urn:other' required='x'><b:policy>
required = 1</b:policy></b:vm><a:vm xmlns:a='urn:abh:libvirt-vm:claim:1'><a:policy/></a:vm>
<a:vm xmlns:a='urn:abh:libvirt-vm' version='1'><a:policy>"""


@pytest.mark.parametrize(
    ("attributes", "text", "requires"),
    [
        (' policy="p" required="thp"', "", True),
        (" required='thp'", "", True),
        ("", "[vm]\nrequired = ['thp']", True),
        ("", "[vm]\nrequired=['thp']", True),
        ("", '[vm]\n"required" = 1', True),
        ("", "[vm]\n&quot;required&quot;\t= 1", True),
        ("", "vm.required = ['thp']", True),
        ("", "vm = { thp = 'off', 'required' = ['thp'] }", True),
        ("", "<![CDATA[x = '<'\nrequired=['thp']]]>", True),
        (' policy="p"', "[vm]\nthp = 'advised'", False),
        (' policy="p" required=""', "purpose = 'root_required=1'\n# required = ['thp']", False),
        ("", "</a:policy><a:deployed>&lt;a:policy&gt;\nrequired = ['thp']</a:deployed><a:policy>", False),
        ("", OF_OTHERS, False),
    ],
)
def test_where_the_hooks_program_breaks_nothing_starts_that_requires_something(tmp_path, attributes, text, requires):
    """The wrapper as the shell runs it, with no program to run."""
    install.install(tmp_path)
    (tmp_path / install.ARCHIVE).write_bytes(b"no zip")
    log = tmp_path / "bin/logger"
    log.parent.mkdir()
    log.write_text('#!/bin/sh\necho "$@" >> "$0.said"\n')
    log.chmod(0o755)
    for operation in ("prepare", "started", "stopped"):
        ran = subprocess.run(
            [tmp_path / "qemu.d/50-abh", "web 1", operation, "begin", "-"],
            input=WRAPPED.format(attributes, text), text=True, capture_output=True, check=False, timeout=30,
            env={"PATH": f"{log.parent}:{os.environ['PATH']}"},
        )  # fmt: skip
        assert ran.returncode == (1 if requires and operation != "stopped" else 0), ran.stderr
        assert ("the policy of 'web 1' requires" in ran.stderr) == (ran.returncode == 1)
    said = Path(f"{log}.said").read_text().splitlines()
    assert len(said) == 3 and all("VM 'web 1': the hook has failed" in line for line in said)


def test_what_is_installed_runs_by_itself_and_refuses(tmp_path):
    """The archive in the system's Python: all that it imports is in it."""
    install.install(tmp_path)
    for required, status in (("", 0), (" required='paging'", 1)):
        text = ElementTree.tostring(domain_of("[vm]\npaging = 'hap'", f"policy='p'{required}"), encoding="unicode")
        for operation in ("prepare", "started"):
            ran = subprocess.run(
                [tmp_path / "qemu.d/50-abh", "web 1", operation, "begin", "-"],
                input=text.replace("type='kvm'", "type='qemu'").replace('type="kvm"', 'type="qemu"'),
                text=True, capture_output=True, check=False, timeout=30,
            )  # fmt: skip
            assert ran.returncode == (status if operation == "prepare" else 0), ran.stderr
            assert ("'web 1' requires what cannot be: paging: an emulated domain" in ran.stderr) == bool(ran.returncode)


def test_a_link_that_waits_for_the_installation_leads_nowhere(tmp_path):
    """In a folder that others may write to, by a name that can be guessed."""
    other = tmp_path / "other"
    other.write_text("theirs")
    for folder, name in (("", install.ARCHIVE), ("qemu.d", install.SCRIPT)):
        (tmp_path / "hooks" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "hooks" / folder / f".{name}.{os.getpid()}").symlink_to(other)
    assert install.install(tmp_path / "hooks").state == "installed"
    assert other.read_text() == "theirs" and (tmp_path / "hooks/qemu.d/50-abh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("kind", ["file", "link", "dangling"])
def test_a_file_of_anothers_with_our_name_is_left_alone(tmp_path, kind):
    script = tmp_path / "qemu.d/50-abh"
    script.parent.mkdir()
    other = tmp_path / "other"
    if kind != "dangling":
        other.write_text("#!/bin/sh\n# theirs\n")
    if kind == "file":
        other.rename(script)
    else:
        script.symlink_to(other)
    for do in (install.install, install.uninstall):
        with pytest.raises(AbhError, match="not abh's"):
            do(tmp_path)
    assert sorted(each.name for each in tmp_path.rglob("*") if not each.is_dir() and each != other) == ["50-abh"]
    script.unlink()
    assert install.install(tmp_path).state == install.install(tmp_path).state == "installed"
    assert install.uninstall(tmp_path).state == "not installed"


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
