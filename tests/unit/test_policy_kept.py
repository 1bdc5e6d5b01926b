# SPDX-License-Identifier: MIT
"""A policy as a file, as text, in a domain's metadata (of libvirt's test driver), and in its XML."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from abh import cli
from abh.errors import AbhError, Status
from abh.paths import CHECKOUT
from abh.policy import binding, change, domain, stored, xml
from abh.schema import spec
from abh.schema.policy import VmPolicy

URI = "test:///default"
KVM = """<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>a</name>
  <!-- theirs -->
  <metadata><o:x xmlns:o="urn:other">1</o:x></metadata>
  <memory unit='KiB'>1024</memory>
  {}
  <qemu:commandline><qemu:arg value='-x'/></qemu:commandline>
</domain>"""


@pytest.fixture
def connection():
    with binding.connection(URI) as made:  # the driver's state is the process's, as long as one is open
        yield made


def run(*words: str) -> int:
    return cli.main([*words, "--connect", URI])


# --- the file ---------------------------------------------------------------------------------------------------


def policies() -> dict[str, spec.Policy]:
    return {name: spec.policy(name) for name in spec.POLICY.paths(CHECKOUT)}


@pytest.mark.parametrize("name", policies())
def test_the_text_that_travels_says_what_the_file_says_and_what_it_extends(name):
    policy = spec.policy(name)
    again = stored.policy_of(stored.text_of(policy), name, "x")
    assert again.settings() == policy.settings() and again.vm == policy.vm and again.guest == policy.guest
    assert (again.purpose, again.order, again.requires) == (policy.purpose, policy.order, policy.requires)
    assert stored.text_of(again) == stored.text_of(policy)


def of(tmp_path: Path, text: str, name: str = "one", more: str = "") -> spec.Policy:
    folder = tmp_path / "vm-configs/policies"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(f'purpose = "x"\norder = 1\n{more}[vm]\n{text}')
    return spec.policy(name, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('thp = "always"', "one of advised, off"),
        ("huge_share = 1.5", "at most 1"),
        ("hugetlb_kib = 4096", "one of 2048, 1048576"),
        ('hugetlb_kib = 2048\nthp = "advised"', "no transparent hugepages"),
        ('thp = "off"\ncollapse = "start"', "a collapse into hugepages"),
        ("alignment_kib = 3000", "a power of 2"),
        ('required = ["paging"]', "requires what it does not set"),
        ('paging = "hap"\nrequired = ["pagging"]', "one of thp"),
        ('paging = "hap"\nrequired = ["paging", "paging"]', "duplicate"),
        ("swap = true", "unknown key"),
        ('[host.domain]\nshadow_superpage = "1"', "did you mean `shadow_superpages`?"),
        ('[host.domain]\nshadow_superpage = "1"', "`host.domain.shadow_superpage`: unknown setting of a domain"),
        ('[host.domain]\nballoon = "1"', "one of shadow_superpages\n  next: remove it"),
        ('[host.domain]\nshadow_superpages = "on"', '"0" or "1"'),
        ('[host.domain]\nshadow_superpages = "2"', "`host.domain.shadow_superpages`: wrong value"),
        ("[host.domain]\nshadow_superpages = 1", "a string"),
        ('paging = "hap"\n[host.domain]\nshadow_superpages = "1"', "of a domain that has no shadow"),
    ],
)
def test_a_wrong_policy_is_refused(tmp_path, text, said):
    with pytest.raises(AbhError) as error:
        of(tmp_path, text)
    assert said in str(error.value), error.value


def test_superpages_of_the_shadow_exclude_nested_paging_also_of_what_is_extended(tmp_path):
    of(tmp_path, 'paging = "hap"', "nested")
    with pytest.raises(AbhError, match="of a domain that has no shadow"):
        of(tmp_path, '[host.domain]\nshadow_superpages = "1"', "one", 'extends = "nested"\n')
    assert of(tmp_path, '[host.domain]\nshadow_superpages = "0"', "one", 'extends = "nested"\n').vm.paging == "hap"
    of(tmp_path, 'paging = "shadow"\n[host.domain]\nshadow_superpages = "1"', "shadow")
    with pytest.raises(AbhError, match="of a domain that has no shadow"):
        of(tmp_path, 'paging = "hap"', "one", 'extends = "shadow"\n')


def test_a_policy_requires_what_it_and_what_it_extends_require(tmp_path):
    of(tmp_path, 'paging = "hap"\nksm = true\nrequired = ["paging"]', "base")
    made = of(tmp_path, 'ksm = false\nrequired = ["ksm"]', "one", 'extends = "base"\n')
    assert made.settings() == {"paging": "hap", "ksm": False} and made.vm.required == ("paging", "ksm")


# --- the metadata -----------------------------------------------------------------------------------------------


def test_set_get_list_unset(connection, capsys):
    assert run("policy", "get", "test") == Status.FAILED
    assert run("policy", "set", "test", "vm-thp") == 0
    one = domain.find(connection, "test")
    assert one.policy().settings() == one.policy(live=True).settings() == spec.policy("vm-thp").settings()
    capsys.readouterr()
    assert run("policy", "get", "test", "--json") == 0
    assert json.loads(capsys.readouterr().out)["settings"]["huge_share"] == 0.9
    assert run("policy", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["domains"][0]["policy"] == "vm-thp"
    before = one.document().replace(one.document().partition("<metadata>")[2].partition("</metadata>")[0], "")
    assert run("policy", "unset", one.uuid) == 0
    assert one.policy() is None and "abh" not in one.document() and "test" in before


def test_no_such_domain_connection_or_policy(connection, capsys):
    assert run("policy", "set", "no-such", "vm-thp") == Status.USAGE
    assert run("policy", "set", "test", "vm-thpp") == Status.USAGE
    assert "did you mean `vm-thp`?" in capsys.readouterr().err
    assert cli.main(["policy", "list", "--connect", "no-such:///x"]) == Status.FAILED
    assert "libvirt refuses" in capsys.readouterr().err


def test_what_a_newer_abh_has_kept_is_not_read(connection):
    for version in ("2", "", "x", "-1", "1" * 400):
        element = domain.element_of(domain.Kept.of(spec.policy("vm-thp")))
        element.set("version", version)
        with pytest.raises(AbhError) as error:
            domain.kept_of(element, "here")
        assert "another version" in str(error.value)


def test_what_xml_cannot_hold_is_refused(connection):
    with pytest.raises(AbhError):
        domain.element_of(domain.Kept("a", "x = '\x00'"))


@pytest.mark.parametrize("text", ["thp = [", "vm = 1", 'purpose = "x"\norder = 1\n[vm]\nnew_setting = 1', "\ud7ff"])
def test_a_text_that_is_no_policy_is_an_error_that_names_the_domain(text):
    with pytest.raises(AbhError) as error:
        stored.policy_of(text, "a", "web 1")
    assert "the policy of domain 'web 1'" in str(error.value)


# --- the domain's XML -------------------------------------------------------------------------------------------


def changed(inside: str, before: str = "", **settings) -> change.Changed:
    return change.apply(KVM.format(inside), VmPolicy(**settings), "kvm", before, "here")


def test_a_policy_changes_its_places_and_takes_them_back():
    inside = "<memoryBacking><hugepages><page size='1048576' unit='KiB'/></hugepages><locked/></memoryBacking>"
    made = changed(inside, hugetlb_kib=2048, ksm=False)
    assert 'size="2048"' in made.document and "<nosharepages />" in made.document and len(made.said) == 2
    assert "<qemu:arg" in made.document and "<!-- theirs -->" in made.document and "<o:x" in made.document
    again = change.apply(made.document, VmPolicy(hugetlb_kib=2048, ksm=False), "kvm", made.before, "here")
    assert again.said == () and again.before == made.before and again.document == made.document
    less = change.apply(made.document, VmPolicy(ksm=False), "kvm", made.before, "here")
    assert 'size="1048576"' in less.document and "nosharepages" in less.document
    undone = change.undo(made.document, made.before, "here")
    assert xml.pretty(undone.document, "") == xml.pretty(KVM.format(inside), "")


def test_a_place_that_another_has_changed_since_is_left_alone():
    made = changed("", hugetlb_kib=2048)
    theirs = made.document.replace('size="2048"', 'size="1048576"')
    undone = change.undo(theirs, made.before, "here")
    assert undone.document == theirs and "another has changed it" in undone.said[0]


def test_paging_is_a_place_on_xen_alone():
    assert changed("", paging="shadow").said == ()
    made = change.apply("<domain type='xen'/>", VmPolicy(paging="shadow", ksm=False), "xen", "", "here")
    assert made.said == ('features/hap: nothing -> <hap state="off" />',)
    assert "features" not in change.undo(made.document, made.before, "here").document


# An entity that is a little longer than the document: expat's own limit, where it has one, is for 100 times that.
BOMB = json.dumps({"features/hap": {"was": "<!DOCTYPE a [<!ENTITY b 'c'>]><hap state='&b;'/>", "is": None}})


@pytest.mark.parametrize(
    "before",
    [
        "{",
        "[]",
        "[" * 100_000,
        BOMB,
        '{"os": {"was": null, "is": null}}',
        '{"features/hap": {"was": "<x", "is": null}}',
        '{"features/hap": {"was": "<devices/>", "is": null}}',
        "3",
    ],
)
def test_what_was_before_is_checked_before_it_is_used(before):
    with pytest.raises(AbhError) as error:
        change.undo(KVM.format(""), before, "here")
    assert "damaged" in str(error.value)


@pytest.mark.parametrize("text", ["", "<a>", "<a>&b;</a>", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "<a>\ud800</a>"])
def test_xml_that_is_none_is_an_error(text):
    with pytest.raises(AbhError):
        xml.parse(text, "here")


# --- the binding ------------------------------------------------------------------------------------------------


def without_binding(monkeypatch) -> None:
    for name in binding.MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(binding.importlib, "import_module", raises)


def raises(name):
    raise ImportError(name)


def test_a_binding_that_is_missing_is_named_with_its_package(monkeypatch, tmp_path):
    without_binding(monkeypatch)
    with pytest.raises(AbhError) as error:
        binding.load(tmp_path)
    assert error.value.next_step == "apt-get install python3-libvirt"


def test_a_binding_of_another_python_is_said_to_be_that(monkeypatch, tmp_path):
    without_binding(monkeypatch)
    (tmp_path / "libvirtmod.cpython-27-x86_64-linux-gnu.so").write_text("")
    with pytest.raises(AbhError) as error:
        binding.load(tmp_path)
    assert "ABH_PYTHON=/usr/bin/python3" in error.value.next_step and "cpython-27" in str(error.value)


@pytest.mark.parametrize(
    ("uri", "local"),
    [
        ("qemu:///system", True),
        ("qemu+unix:///system?socket=/x", True),
        ("xen:///system", True),
        ("qemu+ssh://host/system", False),
        ("qemu+ssh:///system", False),
        ("qemu://host/system", False),
        ("qemu+tcp://host/system", False),
    ],
)
def test_which_connections_are_to_this_machine(uri, local):
    class Connection:
        def getURI(self):
            return uri

    assert binding.is_local(Connection()) == local


# --- the guest's command line -----------------------------------------------------------------------------------

BOOTED = "<domain><vcpu>1</vcpu><os><type>hvm</type><kernel>/k</kernel>{}</os></domain>"


@pytest.mark.parametrize(
    ("words", "mode", "made"),
    [
        (None, "always", "abh=always"),
        (None, "never", None),
        ("", "opt-in", "abh=opt-in"),
        ("a  'b  c' &lt;", "always", "a  'b  c' < abh=always"),
        ("abh=never a", "always", "a abh=always"),
        ("abh=always a", "never", "a abh=never"),
        ("abh=never abh=always", "always", "abh=never abh=always"),
        ("a -- b abh=x", "always", "a abh=always -- b abh=x"),
        ("xabh=always a--b", "always", "xabh=always a--b abh=always"),
    ],
)
@pytest.mark.parametrize("hypervisor", ["kvm", "xen"])
def test_a_guest_that_is_started_with_its_kernel_has_the_mode_on_its_command_line(words, mode, made, hypervisor):
    document = BOOTED.format("" if words is None else f"<cmdline>{words}</cmdline>")
    first = change.apply(document, VmPolicy(), hypervisor, "", "here", mode)
    assert xml.parse(first.document, "").findtext("os/cmdline") == made
    again = change.apply(first.document, VmPolicy(), hypervisor, first.before, "here", mode)
    assert (again.document, again.before, again.said) == (first.document, first.before, ())
    was = xml.parse(document, "").findtext("os/cmdline")
    other = change.apply(first.document, VmPolicy(), hypervisor, first.before, "here")
    for undone in (change.undo(first.document, first.before, "here"), other):
        assert xml.parse(undone.document, "").findtext("os/cmdline") == was
    theirs = first.document.replace("</cmdline>", " more</cmdline>")
    if first.said:
        assert "more" in change.undo(theirs, first.before, "here").document, "another has changed it"


def test_a_guest_with_a_boot_loader_of_its_own_keeps_its_command_line():
    document = BOOTED.format("").replace("<kernel>/k</kernel>", "")
    assert change.apply(document, VmPolicy(), "kvm", "", "here", "always").document == document


def test_the_mode_comes_of_the_policys_switch(connection):
    assert change.mode_of(spec.policy("vm-abh")) == "always" and change.mode_of(spec.policy("vm-thp")) is None
    document = "<domain type='test'><name>b</name><memory>9</memory><os><type>hvm</type><kernel>/k</kernel>"
    document += "<cmdline>quiet</cmdline></os></domain>"
    one = domain.Domain(connection, connection.defineXML(document))
    try:
        assert run("policy", "set", "b", "vm-abh") == 0 and run("policy", "apply", "b") == 0
        assert one.tree().findtext("os/cmdline") == "quiet abh=always"
        assert run("policy", "unset", "b") == 0
        assert one.tree().findtext("os/cmdline") == "quiet"
    finally:
        one.handle.undefine()
