# SPDX-License-Identifier: MIT
"""Policies that a VM cannot have are refused, and what of one nobody outside the guest applies is said."""

from __future__ import annotations

import json

import pytest

from abh import cli
from abh.errors import AbhError, Status
from abh.policy import binding, domain, suited
from abh.schema import spec

URI = "test:///default"
HEAD = 'purpose = "Mine."\norder = 1\n'
DOMAIN = "<domain type='{}'><name>web</name><memory unit='MiB'>64</memory><os><type>hvm</type></os></domain>"


@pytest.fixture
def connection():
    with binding.connection(URI) as made:  # the driver's state is the process's, as long as one is open
        yield made
        cli.main(["policy", "unset", "test", "--connect", URI])


def run(*words: str) -> int:
    return cli.main([*words, "--connect", URI])


def deploy(tmp_path, kind: str, *words: str) -> int:
    (tmp_path / "web.xml").write_text(DOMAIN.format(kind))
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


def test_an_unknown_policy_lists_those_for_vms(connection, capsys):
    assert run("policy", "set", "test", "nothing-like-it") == Status.USAGE
    said = capsys.readouterr().err
    assert "vm-thp, " in said and "abh-no-malloc" not in said and "lf-lp" not in said
