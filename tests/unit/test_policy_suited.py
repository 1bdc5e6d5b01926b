# SPDX-License-Identifier: MIT
"""Policies that a VM cannot have are refused, and what of one nobody outside the guest applies is said."""

from __future__ import annotations

import json

import pytest

from abh import cli
from abh.errors import AbhError, Status
from abh.policy import apply, binding, change, domain, suited
from abh.policy import deploy as deploying
from abh.schema import spec

URI = "test:///default"
HEAD = 'purpose = "Mine."\norder = 1\n'
DOMAIN = "<domain type='{}'><name>web</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>{}</domain>"
SHADOW, NESTED = "<features><hap state='off'/></features>", "<features><hap/></features>"


@pytest.fixture
def connection():
    with binding.connection(URI) as made:  # the driver's state is the process's, as long as one is open
        yield made
        cli.main(["policy", "unset", "test", "--connect", URI])


def run(*words: str) -> int:
    return cli.main([*words, "--connect", URI])


def deploy(tmp_path, kind: str, *words: str, more: str = "") -> int:
    (tmp_path / "web.xml").write_text(DOMAIN.format(kind, more))
    return run("deploy", str(tmp_path / "web.xml"), "--dry-run", *words)


@pytest.mark.parametrize(
    ("policy", "why"),
    [("lf-lp", "the group itanium"), ("sf", "the group itanium"), ("thp-fragmented", "guest.before")],
)
def test_what_no_vm_can_have_is_refused(connection, tmp_path, policy, why, capsys):
    for of in (lambda: run("policy", "set", "test", policy), lambda: deploy(tmp_path, "kvm", "--policy", policy)):
        assert of() == Status.USAGE
        said = capsys.readouterr().err
        assert f"policy `{policy}` is not for VMs" in said and why in said and "next: take `vm-thp`" in said
    assert domain.find(connection, "test").policy() is None


def test_a_file_of_ones_own_is_no_group_of_the_projects(connection, tmp_path):
    (folder := tmp_path / "itanium").mkdir()
    (folder / "mine.toml").write_text(f"{HEAD}[vm]\nksm = true\n")
    assert run("policy", "set", "test", str(folder / "mine.toml")) == 0


def test_what_is_not_applied_is_said_with_the_policy_that_is_meant_for_vms(connection, tmp_path, capsys):
    assert run("policy", "set", "test", "abh", "--json") == 0
    said = json.loads(capsys.readouterr().out)["not_applied"]
    assert len(said) == 1 and "GLIBC_TUNABLES" in said[0] and "`vm-abh`" in said[0]
    assert run("policy", "set", "test", "abh") == 0
    assert f"! {said[0]}" in capsys.readouterr().out
    assert deploy(tmp_path, "kvm", "--policy", "abh") == 0
    assert f"! {said[0]}" in capsys.readouterr().out
    (tmp_path / "mine.toml").write_text(
        f'{HEAD}requires = ["/sys/kernel/mm/abh", "/proc/vhpt"]\n'
        "[guest]\ncmdline = 'quiet'\n[guest.sysfs]\n'/sys/kernel/mm/abh/enabled' = 'never'\n"
    )
    assert run("policy", "set", "test", str(tmp_path / "mine.toml")) == 0
    said = capsys.readouterr().out
    assert "! not applied: guest.cmdline (quiet)" in said and "! not applied: requires (/proc/vhpt)" in said


def test_policies_for_vms_apply_whole():
    for policy in spec.policies(group="vm").values():
        suited.check(policy, "xen")
        assert suited.not_applied(policy) == []
    assert {suited.meant(each) for each in spec.POLICY.all(spec.CHECKOUT).values()} <= spec.policies(group="vm").keys()


def test_superpages_of_xens_shadow_are_refused_where_there_is_no_xen(connection, tmp_path, capsys):
    name = "vm-xen-shadow"
    for of in (lambda: run("policy", "set", "test", name), lambda: deploy(tmp_path, "kvm", "--policy", name)):
        assert of() == Status.USAGE
        said = capsys.readouterr().err
        assert "policy `vm-xen-shadow` is for domains of Xen's" in said and "host.domain: shadow_superpages" in said
    assert deploy(tmp_path, "xen", "--policy", name) == 0
    with pytest.raises(AbhError, match="for domains of Xen's"):
        suited.check(spec.policy("abh-xen2m"), "kvm")


@pytest.mark.parametrize(("more", "told"), [("", "<hap> is not there"), (NESTED, "<hap> is on")])
def test_superpages_need_a_shadow_which_the_policy_or_the_domain_has_to_ask_for(
    connection, tmp_path, more, told, capsys
):
    assert deploy(tmp_path, "xen", "--policy", "abh-xen2m", more=more) == Status.USAGE
    said = capsys.readouterr().err
    assert "shadow_superpages needs shadow paging, and the domain has nested paging" in said and told in said
    assert 'next: add paging = "shadow" to [vm], or take `vm-xen-shadow`' in said
    assert deploy(tmp_path, "xen", "--policy", "abh-xen2m", more=SHADOW) == 0
    (tmp_path / "mine.toml").write_text(f'{HEAD}extends = "abh-xen2m"\n[vm]\npaging = "shadow"\n')
    assert deploy(tmp_path, "xen", "--policy", str(tmp_path / "mine.toml"), more=more) == 0
    (tmp_path / "mine.toml").write_text(f'{HEAD}[host.domain]\nshadow_superpages = "0"\n')
    assert deploy(tmp_path, "xen", "--policy", str(tmp_path / "mine.toml"), more=more) == 0


def test_a_para_virtual_domain_has_no_shadow_whatever_the_policy_says(connection):
    for kind in ("xen", "linux", "xenpvh", "hvm"):
        document = DOMAIN.replace("hvm", kind).format("xen", SHADOW)
        found = suited.no_shadow(spec.policy("vm-xen-shadow"), document, "here")
        assert (found is not None and "para-virtual" in found[0]) == (kind in ("xen", "linux"))


def test_a_shadow_that_an_earlier_policy_has_asked_for_goes_with_it():
    policy, document = spec.policy("abh-xen2m"), DOMAIN.format("xen", "")
    made = change.apply(document, spec.policy("vm-xen-shadow").vm, "xen", "", "here")
    suited.check_shadow(policy, made.document, "xen", "", "here")  # another has asked for it: it stays
    with pytest.raises(AbhError, match="superpages in a shadow that the domain does not have"):
        suited.check_shadow(policy, made.document, "xen", made.before, "here")


def test_set_refuses_and_what_an_earlier_abh_has_set_is_said(connection, monkeypatch, capsys):
    for of in (apply, deploying):  # libvirt's test driver has no domains of Xen's
        monkeypatch.setattr(of, "hypervisor_of" if of is apply else "_hypervisor", lambda _: "xen")
    assert run("policy", "set", "test", "abh-xen2m") == Status.USAGE
    assert "the domain has nested paging" in capsys.readouterr().err
    one = domain.find(connection, "test")
    assert one.policy() is None
    one.keep(domain.Kept.of(spec.policy("abh-xen2m")))
    assert run("policy", "apply", "test") == Status.FAILED
    assert "✗ domain: shadow_superpages needs shadow paging" in capsys.readouterr().out
    with pytest.raises(AbhError, match="superpages in a shadow that the domain does not have"):
        deploying.plan(one.document().replace("<memory", "<title>x</title><memory"), None, one)


def test_an_unknown_policy_lists_those_for_vms(connection, capsys):
    assert run("policy", "set", "test", "nothing-like-it") == Status.USAGE
    said = capsys.readouterr().err
    assert "vm-thp, " in said and "abh-no-malloc" not in said and "lf-lp" not in said
