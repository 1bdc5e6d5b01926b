# SPDX-License-Identifier: MIT
"""A domain deployed from its XML, and what an administrator has put into it himself (of libvirt's test driver)."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from abh import cli
from abh.errors import AbhError, Status
from abh.policy import apply, binding, change, domain, source, xml
from abh.schema import spec
from abh.schema.policy import VmPolicy

URI = "test:///default"
SECRET = "hunter2"
DOMAIN = """<domain type='test' xmlns:o='urn:other'>
  <name>web</name>
  <!-- the password of root is hunter2 -->
  <metadata><o:x>1</o:x><d xmlns='urn:d'><e/></d></metadata>
  <memory unit='MiB'>64</memory>
  <os><type>hvm</type></os>
  <devices>
    <interface type='network'><source network='default'/></interface>
    <graphics type='vnc' passwd='hunter2'/>
    {}
  </devices>
</domain>"""


@pytest.fixture
def connection():
    with binding.connection(URI) as made:  # the driver's state is the process's, as long as one is open
        yield made
        for one in domain.every(made):
            if one.name != "test":
                if one.running:
                    one.handle.destroy()
                one.handle.undefine()


def run(*words: str) -> int:
    return cli.main([*words, "--connect", URI])


def secure(one: domain.Domain) -> str:
    return one.document(secrets=True)


# --- secrets ----------------------------------------------------------------------------------------------------


def test_what_only_some_may_read_is_still_there_when_a_policy_comes_and_goes(connection):
    one = domain.Domain(connection, connection.defineXML(DOMAIN.format("")))
    others = "<f p='&#13;' q='&#10;&#9;'>&#13; a\n  b &lt;&amp; <?they say?></f>"
    one.handle.setMetadata(2, others, "p", "urn:they", 2)
    before = secure(one)
    assert SECRET in before and SECRET not in one.document() and "<?they say?>" in before and "&#13; a" in before
    for words in (("set", "web", "vm-thp"), ("apply", "web"), ("apply", "web"), ("unset", "web")):
        assert run("policy", *words) == 0
        assert SECRET in secure(one), words
    assert secure(one) == before


def test_who_may_not_read_secrets_does_not_lose_them(connection):
    one = domain.Domain(connection, connection.defineXML(DOMAIN.format("")))
    before = secure(one)
    with binding.connection(URI, read_only=True) as reader:
        their = domain.find(connection, "web")
        their.handle = reader.lookupByName("test")
        with pytest.raises(AbhError) as error:
            apply.definition(their, spec.policy("vm-thp"))
    assert "secure flag" in str(error.value) and "may read this domain's secrets" in str(error.value)
    assert secure(one) == before


COOKIES = """<disk type='network' device='cdrom'><driver name='qemu' type='raw'/>
<source protocol='https' name='a'><host name='h' port='443'/><cookies><cookie name='k'>{}</cookie></cookies></source>
<target dev='{}' bus='sata'/><readonly/></disk>"""


def deploy(tmp_path, text: str, *words: str, status: int = 0) -> None:
    (tmp_path / "web.xml").write_text(text)
    assert run("deploy", str(tmp_path / "web.xml"), *words) == status


def test_what_is_kept_of_a_deployment_has_no_secrets(connection, tmp_path, capsys):
    text = DOMAIN.format(COOKIES.format("sesame2", "sdb") + COOKIES.format("sesame1", "sda"))
    deploy(tmp_path, text)
    deploy(tmp_path, text)
    assert "nothing to change" in capsys.readouterr().out
    one = domain.find(connection, "web")
    assert all(word in secure(one) for word in (SECRET, "sesame1", "sesame2"))
    deploy(tmp_path, text.replace("64", "128"), "--policy", "vm-thp")
    assert all(word in secure(one) for word in (SECRET, "sesame1", "sesame2", "131072"))
    assert all(word not in one.document() for word in (SECRET, "sesame", "password of root"))
    assert all(word not in capsys.readouterr().out for word in (SECRET, "sesame"))


def test_a_secret_that_is_not_the_files_is_noticed_and_not_overwritten(connection, tmp_path, capsys):
    deploy(tmp_path, DOMAIN.format(""))
    one = domain.find(connection, "web")
    one.redefine(secure(one), secure(one).replace(SECRET, "theirs"))
    deploy(tmp_path, DOMAIN.format(""), status=Status.FAILED)
    assert "its secrets are not those of the XML" in capsys.readouterr().err and "theirs" in secure(one)
    deploy(tmp_path, DOMAIN.format(""), "--dry-run")
    assert "its secrets were not looked at" in capsys.readouterr().out
    deploy(tmp_path, DOMAIN.format(""), "--adopt")
    assert SECRET in secure(one)


def test_what_libvirt_hides_that_is_not_known_here_is_not_kept_either(connection, tmp_path, monkeypatch):
    from abh.policy import secret

    monkeypatch.setattr(secret, "KNOWN", frozenset())
    text = DOMAIN.format(COOKIES.format("sesame", "sda"))
    for _ in range(2):
        deploy(tmp_path, text)
        document = domain.find(connection, "web").document()
        assert SECRET not in document and "sesame" not in document
        assert "passwd" in document  # that there is one may be known


# --- the administrator's own ------------------------------------------------------------------------------------


def test_what_another_has_put_there_since_is_what_is_put_back():
    mine = change.apply("<domain/>", VmPolicy(hugetlb_kib=2048), "kvm", "", "here")
    theirs = mine.document.replace('size="2048"', 'size="1048576"')
    again = change.apply(theirs, VmPolicy(hugetlb_kib=2048), "kvm", mine.before, "here")
    assert 'size="2048"' in again.document
    assert 'size="1048576"' in change.undo(again.document, again.before, "here").document


def test_what_runs_and_has_been_taken_back_in_the_domain_needs_a_restart(connection, capsys):
    connection.defineXML(DOMAIN.format(""))
    one = domain.find(connection, "web")
    assert run("policy", "set", "web", "vm-thp") == 0 and run("policy", "apply", "web") == 0
    one.handle.create()
    assert run("policy", "set", "web", "vm-xen-hap") == 0  # which says nothing of KSM
    capsys.readouterr()
    run("policy", "apply", "web")
    assert "nosharepages" in (out := capsys.readouterr().out) and "restart of the VM is needed" in out
    run("policy", "apply", "web")
    assert "restart of the VM is needed" in capsys.readouterr().out
    one.handle.destroy()
    one.handle.create()
    run("policy", "apply", "web")
    assert "restart" not in capsys.readouterr().out
    run("policy", "set", "web", "vm-thp")
    run("policy", "apply", "web")
    one.handle.destroy()
    one.handle.create()
    assert run("policy", "unset", "web") == 0
    assert "what runs keeps memoryBacking/nosharepages as it is, until the VM is restarted" in capsys.readouterr().out
    one.handle.destroy()
    run("policy", "unset", "web")
    assert "what runs" not in capsys.readouterr().out


def test_a_second_deployment_keeps_what_others_and_libvirt_have_put_there(connection, tmp_path):
    cards = "<interface type='network'><source network='{}'/>{}</interface>"
    text = DOMAIN.format(cards.format("a", "") + cards.format("b", ""))
    deploy(tmp_path, text)
    one = domain.find(connection, "web")
    uuid, macs = one.uuid, re.findall("mac address='(.*)'", one.document())
    assert len(macs) == 3
    one.handle.setMetadata(2, "<they><had/></they>", "p", "urn:they", 2)
    deploy(tmp_path, text.replace("64", "128"))
    assert "<had/>" in one.handle.metadata(2, "urn:they", 2)
    assert (domain.find(connection, "web").uuid, re.findall("mac address='(.*)'", one.document())) == (uuid, macs)
    # One card fewer: the others keep theirs. One whose address the file says: it is not given to another.
    deploy(tmp_path, DOMAIN.format(cards.format("b", "")))
    assert re.findall("mac address='(.*)'", one.document()) == [macs[0], macs[2]]
    deploy(tmp_path, DOMAIN.format(cards.format("b", "") + cards.format("c", f"<mac address='{macs[2].upper()}'/>")))
    now = re.findall("mac address='(.*)'", one.document())
    assert now[0] == macs[0] and now[2] == macs[2] and len(set(now)) == 3
    # What came of the file itself goes with it.
    deploy(tmp_path, DOMAIN.format("").replace("<o:x>1</o:x>", ""))
    assert "<o:x" not in one.document() and "urn:they" in one.document() and "urn:d" in one.document()


def test_what_another_has_changed_is_shown_before_it_is_lost(connection, tmp_path, capsys):
    deploy(tmp_path, DOMAIN.format(""))
    one = domain.find(connection, "web")
    one.redefine(secure(one), secure(one).replace("65536", "131072"))
    capsys.readouterr()
    deploy(tmp_path, DOMAIN.format(""), "--dry-run", "--json")
    report = json.loads(capsys.readouterr().out)
    assert report["changes"] and not report["difference"]
    assert any(line.startswith("-") and "131072" in line for line in report["lost"]), report["lost"]
    assert not any(SECRET in line or "urn:abh" in line for line in report["lost"])
    for words, status in ((("--dry-run",), 0), ((), Status.FAILED), (("--adopt",), 0)):
        deploy(tmp_path, DOMAIN.format(""), *words, status=status)
        out = capsys.readouterr().out
        assert "what is lost" in out and "131072" in out and "nothing to change" not in out, words
    deploy(tmp_path, DOMAIN.format(""))
    assert "nothing to change" in capsys.readouterr().out
    deploy(tmp_path, DOMAIN.format("").replace("64", "128"))
    assert "what is lost" not in capsys.readouterr().out, "nobody else has changed it"


def test_what_the_policy_changes_in_the_xml_is_said_and_where_it_is_defined_again_that_is_not_nothing(
    connection, tmp_path, capsys
):
    deploy(tmp_path, DOMAIN.format(""), "--policy", "vm-thp", "--dry-run")
    assert "memoryBacking/nosharepages: nothing -> <nosharepages />" in capsys.readouterr().out
    deploy(tmp_path, DOMAIN.format(""))
    one = domain.find(connection, "web")
    one.redefine(secure(one), secure(one).replace(SECRET, "theirs"))
    deploy(tmp_path, DOMAIN.format(""), "--adopt")
    out = capsys.readouterr().out
    assert "nothing to change" not in out.partition("web: defined")[2] and "web: defined" in out


def test_hugepages_of_the_administrators_own_are_not_taken_for_abhs(connection, tmp_path, capsys):
    deploy(tmp_path, DOMAIN.format(""), "--policy", "vm-thp")
    one = domain.find(connection, "web")
    theirs = "<memoryBacking><hugepages><page size='1048576' unit='KiB'/></hugepages><locked/>"
    one.redefine(secure(one), secure(one).replace("<memoryBacking>", theirs))
    deploy(tmp_path, DOMAIN.format(""), status=Status.FAILED)
    assert "another has changed its definition" in capsys.readouterr().err and "1048576" in one.document()
    before = secure(one).replace("<nosharepages/>", "")
    assert run("policy", "set", "web", "vm-hugetlb") == 0 and run("policy", "apply", "web") == 0
    assert "size='2048'" in one.document()
    assert run("policy", "unset", "web") == 0
    gone = r"\s+|<metadata.*</metadata>"
    assert re.sub(gone, "", secure(one), flags=re.DOTALL) == re.sub(gone, "", before, flags=re.DOTALL)
    deploy(tmp_path, DOMAIN.format(""), status=Status.FAILED)
    assert "another has changed its definition" in capsys.readouterr().err, "abh's own changes hide others'"


@pytest.mark.parametrize(
    "inside",
    [
        "",
        "<memoryBacking><hugepages/></memoryBacking>",
        "<memoryBacking><nosharepages/><hugepages><page unit='GiB' nodeset='0' size='1'/></hugepages></memoryBacking>",
        "<memoryBacking><locked/><nosharepages/></memoryBacking><features><acpi/></features>",
    ],
)
@pytest.mark.parametrize("policy", ["vm-thp", "vm-hugetlb", "vm-base-pages"])
def test_a_policy_that_came_and_went_leaves_a_deployed_domain_its_own(connection, tmp_path, inside, policy, capsys):
    text = DOMAIN.format("").replace("<os>", f"{inside}<os>")
    deploy(tmp_path, text)
    one = domain.find(connection, "web")
    before = secure(one)
    deploy(tmp_path, text, "--policy", policy)
    for words in (("unset", "web"), ("set", "web", "vm-thp"), ("apply", "web"), ("set", "web", "vm-hugetlb")):
        assert run("policy", *words) == 0
        capsys.readouterr()
        deploy(tmp_path, text)
        assert "nothing to change" in capsys.readouterr().out, words
    assert run("policy", "apply", "web") == 0 and run("policy", "unset", "web") == 0
    assert secure(one) == before
    deploy(tmp_path, text)


def test_a_deployment_that_was_interrupted_is_not_taken_for_somebody_elses(connection, tmp_path, monkeypatch, capsys):
    from abh.policy import deploy as deploying

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(deploying, "_note", killed)
        deploy(tmp_path, DOMAIN.format(""), status=130)
    one = domain.find(connection, "web")
    assert SECRET not in one.document()
    deploy(tmp_path, DOMAIN.format(""), status=Status.FAILED)
    assert "has not come to its end" in capsys.readouterr().err
    deploy(tmp_path, DOMAIN.format(""), "--adopt")
    deploy(tmp_path, DOMAIN.format(""))


def test_a_name_that_is_anothers_uuid_is_a_name(connection, tmp_path, capsys):
    other = domain.find(connection, "test")
    text = DOMAIN.format("").replace("<name>web", f"<name>{other.uuid}")
    other.handle.destroy()
    for _ in range(2):
        deploy(tmp_path, text, "--start")
    assert not other.running and "defined" in capsys.readouterr().out
    named = next(each for each in domain.every(connection) if each.name == other.uuid)
    assert named.running and named.kept().deployed and not other.kept().deployed
    assert domain.find(connection, other.uuid).uuid == other.uuid
    other.handle.create()


def test_a_copy_of_a_deployed_domain_takes_nothing_of_what_is_kept_of_the_first(connection, tmp_path):
    deploy(tmp_path, DOMAIN.format(""), "--policy", "vm-thp")
    copied = re.sub("<uuid>.*</uuid>|<mac .*/>", "", secure(domain.find(connection, "web")))
    deploy(tmp_path, copied.replace("<name>web", "<name> copy "))
    deploy(tmp_path, copied.replace("<name>web", "<name> copy "))
    one = domain.find(connection, " copy ")
    assert one.policy() is None and "vm-thp" not in one.document()


def test_a_file_with_another_uuid_is_another_domains(connection, tmp_path, capsys):
    deploy(tmp_path, DOMAIN.format(""))
    before = secure(domain.find(connection, "web"))
    other = "<uuid>6a4c7f4e-9a39-4f0d-9b2c-94c2a6ea4c0f</uuid><memory"
    deploy(tmp_path, DOMAIN.format("").replace("<memory", other), status=Status.FAILED)
    assert "already exists with uuid" in capsys.readouterr().err
    assert secure(domain.find(connection, "web")) == before


def test_what_a_newer_abh_has_changed_is_taken_back_if_it_can_be_read(connection, capsys):
    connection.defineXML(DOMAIN.format(""))
    one = domain.find(connection, "web")
    before = secure(one)
    for readable in (True, False):
        assert run("policy", "set", "web", "vm-thp") == 0 and run("policy", "apply", "web") == 0
        text = secure(one).replace('version="1"', 'version="2"')
        assert text != secure(one)
        connection.defineXML(text if readable else text.replace('nosharepages"', 'newplace"'))
        assert run("policy", "set", "web", "vm-hugetlb") == Status.FAILED
        capsys.readouterr()
        assert run("policy", "set", "web", "vm-hugetlb", "--replace") == 0
        assert ("cannot be taken back any more" in capsys.readouterr().out) != readable
        assert run("policy", "unset", "web") == 0
        assert (secure(one) == before) == readable


# --- kinds of memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "settings", "kind", "said"),
    [
        ("", {"thp": "advised"}, "anonymous", 0),
        ("<source type='anonymous'/>", {"thp": "advised"}, "anonymous", 0),
        ("<source type='memfd'/>", {"thp": "advised"}, "anonymous", 1),
        ("<source type='file'/>", {"collapse": "request"}, "anonymous", 1),
        ("<source type='memfd'/><access mode='private'/>", {"huge_share": 0.5}, "anonymous", 2),
        ("<access mode='private'/>", {"alignment_kib": 2048}, "anonymous", 1),
        ("<source type='memfd'/><access mode='shared'/>", {"thp": "advised"}, "memfd", 0),
        ("<access mode='shared'/>", {"thp": "advised"}, "file", 0),
        ("<source type='memfd'/>", {"thp": "off"}, "memfd", 0),
        ("<source type='memfd'/>", {"ksm": True}, "memfd", 0),
        ("<hugepages/><source type='memfd'/>", {"huge_share": 0.9}, "hugetlb", 0),
        ("<hugepages/><source type='memfd'/>", {"thp": "advised"}, "anonymous", 2),
        ("<hugepages/>", {"hugetlb_kib": 2048}, "hugetlb", 1),  # the size is named
        ("<source type='anonymous'/>", {"hugetlb_kib": 2048}, "hugetlb", 2),
        ("<source type='memfd'/><access mode='shared'/>", {"hugetlb_kib": 2048}, "hugetlb", 1),
        ("<allocation mode='ondemand'/>", {"hugetlb_kib": 2048}, "hugetlb", 2),
        ("<allocation mode='immediate'/>", {"hugetlb_kib": 2048}, "hugetlb", 1),
    ],
)
def test_a_policy_chooses_the_kind_of_memory_that_works_and_takes_that_back(inside, settings, kind, said):
    document = f"<domain><memory>1</memory><memoryBacking>{inside}</memoryBacking></domain>"
    policy = VmPolicy(**settings)
    made = change.apply(document, policy, "kvm", "", "here")
    assert (change.kind_of_memory(xml.parse(made.document, "")), len(made.said)) == (kind, said)
    again = change.apply(made.document, policy, "kvm", made.before, "here")
    assert not again.said and again.before == made.before
    other = change.apply(made.document, VmPolicy(paging="hap"), "kvm", made.before, "here")
    for undone in (change.undo(made.document, made.before, "here"), other):
        left = xml.parse(undone.document, "").findall("memoryBacking/*")
        assert {ElementTree.tostring(each) for each in left} == {
            ElementTree.tostring(each) for each in xml.parse(document, "").findall("memoryBacking/*")
        }
    shared = kind in ("memfd", "file") and settings.get("thp") == "advised"
    assert bool(change.unfit(made.document, policy, "here")) == shared


def test_memory_that_is_shared_is_left_so_and_apply_fails_with_the_reason(connection, tmp_path, capsys):
    inside = "<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking><os>"
    deploy(tmp_path, DOMAIN.format("").replace("<os>", inside), "--policy", "vm-thp")
    assert "! thp, collapse, huge_share, alignment_kib: the guest's memory is a memfd" in capsys.readouterr().out
    assert run("policy", "apply", "web") == Status.FAILED
    assert "the guest's memory is a memfd" in capsys.readouterr().out
    assert "mode='shared'" in domain.find(connection, "web").document()


def test_apply_says_where_nobody_sees_to_what_the_policy_wants_at_the_start(connection, monkeypatch, capsys):
    from abh.policy import install

    connection.defineXML(DOMAIN.format(""))
    run("policy", "set", "web", "vm-thp")
    run("policy", "apply", "web")
    assert "! collapse: seen to by the hook" in (out := capsys.readouterr().out) and "cannot be seen from here" in out
    monkeypatch.setattr(binding, "state_folder", lambda _: "/run/libvirt")
    for state, said in (("not installed", True), ("outdated", True), ("installed", False)):
        monkeypatch.setattr(install, "examine", lambda state=state: install.Installed(state, ()))
        run("policy", "apply", "web")
        assert (f"on this one it is {state}" in capsys.readouterr().out) == said
    run("policy", "set", "web", "vm-base-pages")
    run("policy", "apply", "web")
    assert "hook" not in capsys.readouterr().out


# --- the file ---------------------------------------------------------------------------------------------------


def filled(tmp_path, text: str | bytes, **values: str) -> str:
    file = tmp_path / "web.xml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return source.source(str(file), values, None)


@pytest.mark.parametrize("text", ["$", "$5", "a$b", "$$", "$(x)", "50$", "$a{b}", "pa$word"])
def test_a_dollar_is_a_dollar_unless_a_brace_follows(tmp_path, text):
    made = filled(tmp_path, f"<domain><name>a</name><os><cmdline>{text} ${{x}}</cmdline></os></domain>", x="1")
    assert xml.parse(made, "").findtext("os/cmdline") == f"{text} 1"


@pytest.mark.parametrize("value", ["$", "${y}", "$${", "\\1", "'\"/><x a='", "</name>&amp;", "ü✗"])
def test_a_value_is_a_value(tmp_path, value):
    made = filled(tmp_path, "<domain a='${x}'><name>n${x}</name><!-- ${no} --> </domain>", x=value)
    tree = xml.parse(made, "")
    assert (tree.get("a"), tree.findtext("name"), len(tree)) == (value, f"n{value}", 2)


def test_a_brace_can_be_written_and_a_wrong_name_is_an_error(tmp_path):
    assert "<name>${x} y</name>" in filled(tmp_path, "<domain><name>$${x} ${x}</name></domain>", x="y")
    for wrong in ("${X}", "${}", "${a b}", "${x", "${a-b}"):
        with pytest.raises(AbhError) as error:
            filled(tmp_path, f"<domain><name>{wrong}</name></domain>")
        assert "no variable has such a name" in str(error.value)


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "UTF-8", "UTF-16", "windows-1252", "US-ASCII"])
def test_a_file_is_read_in_the_encoding_that_it_declares(tmp_path, encoding):
    told = f"<name>{'u' if 'ASCII' in encoding else 'ü'}</name>"
    text = f"<?xml version='1.0' encoding='{encoding}'?><domain>{told}</domain>"
    assert told in filled(tmp_path, text.encode(encoding))


@pytest.mark.parametrize(
    "content",
    [
        "<domain><name>ü</name></domain>".encode("latin-1"),
        b"<?xml version='1.0' encoding='no-such'?><domain><name>a</name></domain>",
        b"<?xml version='1.0' encoding='shift_jis'?><domain><name>a</name></domain>",
        "<?xml version='1.0' encoding='UTF-16'?><!DOCTYPE a [<!ENTITY b 'c'>]><domain><name>&b;</name></domain>".encode(
            "utf-16"
        ),
        b"",
        b"\xff\xfe",
        b"<domain>" + b"<a>" * 100_000 + b"</a>" * 100_000 + b"</domain>",
        b"<domain>\x00</domain>",
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(tmp_path, content):
    with pytest.raises(AbhError):
        filled(tmp_path, content)
