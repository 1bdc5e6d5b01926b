# SPDX-License-Identifier: MIT
"""A domain whose state is saved: its next start goes on from that, and from its definition of then."""

from __future__ import annotations

import json
import tomllib

import pytest

from abh import cli
from abh.errors import Status
from abh.policy import apply, binding, domain
from abh.schema import spec

URI = "test:///default"
DOMAIN = "<domain type='test'><name>web</name><memory>65536</memory><os><type>hvm</type></os></domain>"


@pytest.fixture
def one():
    with binding.connection(URI) as made:  # the driver's state is the process's, as long as one is open
        found = domain.Domain(made, made.defineXML(DOMAIN))
        yield found
        if found.running:
            found.handle.destroy()
        found.handle.undefineFlags(binding.load().VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)


def run(*words: str) -> int:
    return cli.main([*words, "--connect", URI])


def save(one: domain.Domain) -> None:
    one.handle.create()
    one.handle.managedSave(0)
    assert one.saved and not one.running


@pytest.mark.parametrize("words", [("set", "web", "vm-hugetlb"), ("apply", "web"), ("verify", "web"), ("unset", "web")])
def test_each_step_says_that_the_next_start_is_of_another_time(one, words, capsys):
    run("policy", "set", "web", "vm-thp")
    assert "saved" not in capsys.readouterr().out
    save(one)
    run("policy", *words)
    assert "! its state is saved" in (out := capsys.readouterr().out) and "virsh managedsave-remove web" in out


def test_what_only_looks_says_it_where_the_saved_state_has_another_policy(one, monkeypatch, capsys):
    """libvirt's test driver does not tell the XML that it has saved; QEMU's does (tests/policy/test_hook.py)."""

    def looks() -> list[str | None]:
        said = []
        for words in (("get", "web"), ("list",)):
            assert run("policy", *words, "--json") == 0
            report = json.loads(capsys.readouterr().out)
            (row,) = [each for each in report.get("domains", [report]) if each["vm"] == "web"]
            said.append(row["earlier"])
            run("policy", *words)
            assert bool(said[-1]) == ("its state is saved" in capsys.readouterr().out)
        assert run("status", "--json") == 0
        (row,) = [each for each in json.loads(capsys.readouterr().out)["vms"] if each["vm"] == "web"]
        return [*said, next((each for each in row["reasons"] if "saved" in each), None)]

    with_none = one.document()
    run("policy", "set", "web", "vm-thp")
    with_thp = one.document()
    save(one)
    capsys.readouterr()
    for document, words in ((None, "managed save):"), (with_none, "with no policy:"), ("<domain/>", "no policy:")):
        monkeypatch.setattr(domain.Domain, "saved_document", lambda _self, of=document: of)
        assert all(words in (each or "") for each in looks())
    monkeypatch.setattr(domain.Domain, "saved_document", lambda _self: with_thp)
    assert looks() == [None] * 3
    run("policy", "set", "web", "vm-hugetlb")
    capsys.readouterr()
    assert all("with vm-thp:" in (each or "") for each in looks())


def test_what_get_prints_stays_toml(one, capsys):
    run("policy", "set", "web", "vm-thp")
    save(one)
    capsys.readouterr()
    assert run("policy", "get", "web") == 0
    out = capsys.readouterr().out
    assert "# ! its state is saved" in out and tomllib.loads(out)["vm"]["thp"] == "advised"


def test_apply_says_in_json_that_a_restart_is_needed(one, capsys):
    run("policy", "set", "web", "vm-xen-hap")
    save(one)
    capsys.readouterr()
    run("policy", "apply", "web", "--json")
    report = json.loads(capsys.readouterr().out)
    assert report["restart"] and "managed save" in report["earlier"]
    one.handle.managedSaveRemove(0)
    run("policy", "apply", "web", "--json")
    report = json.loads(capsys.readouterr().out)
    assert not report["restart"] and report["earlier"] is None


def test_deploy_starts_no_saved_state_and_says_so_where_it_only_defines(one, tmp_path, capsys):
    (tmp_path / "web.xml").write_text(DOMAIN)
    file = str(tmp_path / "web.xml")
    assert run("deploy", file, "--adopt") == 0
    save(one)
    (tmp_path / "web.xml").write_text(DOMAIN.replace("65536", "131072"))
    before = one.document()
    assert run("deploy", file, "--start") == Status.FAILED
    assert "saved state" in (said := capsys.readouterr()).err and "managedsave-remove web" in said.err
    assert not one.running and one.document().replace("\n", "") == before.replace("\n", "")
    assert run("deploy", file) == 0
    assert "! its state is saved" in (out := capsys.readouterr().out) and "web: defined" in out
    one.handle.managedSaveRemove(0)
    assert run("deploy", file, "--start") == 0 and one.running
    assert "saved" not in capsys.readouterr().out


def test_what_runs_with_a_policy_of_its_saved_state_is_noticed(one, monkeypatch):
    one.keep(domain.Kept.of(spec.policy("vm-thp")))
    one.handle.create()
    assert apply.earlier(one) is None
    then = one.kept()
    stored = domain.Kept.of(spec.policy("vm-hugetlb"))
    # libvirt's test driver has one metadata for both.
    for live, now, words in ((then, stored, ("vm-thp", "vm-hugetlb")), (then, domain.Kept(), ("vm-thp", "definition")),
                             (domain.Kept(), then, ("no policy", "vm-thp"))):  # fmt: skip
        monkeypatch.setattr(one, "kept", lambda *, live=False, of=(now, live): of[live])
        assert all(word in (apply.earlier(one) or "") for word in words)
