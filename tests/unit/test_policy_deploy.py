# SPDX-License-Identifier: MIT
"""A domain deployed from its XML, and what an administrator has put into it himself (of libvirt's test driver)."""

from __future__ import annotations

import pytest

from abh import cli
from abh.errors import AbhError
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
    before = secure(one)
    assert SECRET in before and SECRET not in one.document()
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
        b"<domain>\x00</domain>",
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(tmp_path, content):
    with pytest.raises(AbhError):
        filled(tmp_path, content)
