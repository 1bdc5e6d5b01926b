# SPDX-License-Identifier: MIT
"""Administrators who change a domain at once, are killed in the middle, or lose their libvirtd there."""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import time
from pathlib import Path

import pytest

from abh import paths
from abh.errors import AbhError
from abh.policy import binding, claim, deployed, domain
from tests.policy import rig as rigs
from tests.policy.conftest import PATIENCE_S

SECRET = "hunter2"
GRAPHICS = f"<graphics type='vnc' passwd='{SECRET}'/>"
FASTER = (
    "another has changed the domain meanwhile",
    "another has changed the domain's policy meanwhile",
    "the domain has no policy",
    "another abh is changing this domain",
)


def secure(one: domain.Domain) -> str:
    return one.document(secrets=True)


def in_order(host, one: domain.Domain, before: str) -> None:
    """What is left is one whole policy or none, and all of it can be taken back."""
    assert not claim.claims(one.tree())
    policy = one.policy()
    if policy is not None:
        host.abh("policy", "apply", one.name)
        huge = one.tree().find("memoryBacking/hugepages")
        assert (huge is not None) == (policy.name == "vm-hugetlb")
    host.abh("policy", "unset", one.name)
    assert secure(one) == before


def test_administrators_at_once_leave_one_whole_policy_and_lose_nothing(host):
    one = host.define("busy", devices=GRAPHICS)
    before = secure(one)
    steps = [("set", "vm-thp"), ("apply",), ("set", "vm-hugetlb"), ("apply",), ("unset",), ("set", "vm-thp")]

    def one_of_them(number: int) -> None:
        word, *more = steps[number % len(steps)]
        ran = host.abh("policy", word, "busy", *more, status=None)
        assert ran.status == 0 or any(said in ran.err for said in FASTER), ran.err

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one_of_them, range(24)))
    in_order(host, one, before)


def test_two_who_deploy_one_name_at_once_leave_one_of_the_two(host, tmp_path):
    for uuid in ("", "<uuid>6a4c7f4e-9a39-4f0d-9b2c-94c2a6ea4c0f</uuid>"):
        files = []
        for mib in (128, 192):
            files.append(tmp_path / f"{mib}.xml")
            text = rigs.domain_xml("new", memory_mib=mib, devices=GRAPHICS)
            files[-1].write_text(text.replace("<memory", f"{uuid}<memory"))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            ran = list(pool.map(lambda file: host.abh("deploy", str(file), status=None), files))
        done = [each.status == 0 for each in ran]
        assert any(done), ran
        one = domain.find(host.connection, "new")
        last = deployed.Deployed.of(one.kept())
        assert last.defined == deployed.digest(one.document()) and SECRET in secure(one)
        assert ('"MiB">128<' in last.source) == ("131072" in one.document())
        if not all(done):
            assert ("131072" in one.document()) == done[0], "who was told that he failed has changed it"
        one.handle.undefine()


# Ends the process, as an impatient administrator does, before or after the n-th of a kind of call.
KILLED = """
import os, signal, sys
from abh import cli
from abh.policy import domain
def dies(name, number, after):
    real, calls = getattr(domain.Domain, name), []
    def patched(*words, **more):
        calls.append(1)
        if len(calls) == number and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*words, **more)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
    setattr(domain.Domain, name, patched)
dies({name!r}, {number}, {after})
sys.exit(cli.main(sys.argv[1:]))
"""
WAITS = """
import pathlib, sys, time
from abh import cli
from abh.policy import domain
real = domain.Domain.{name}
def patched(*words):
    folder = pathlib.Path({folder!r})
    (folder / "there").touch()
    while not (folder / "go").exists():
        time.sleep(0.1)
    real(*words)
domain.Domain.{name} = patched
sys.exit(cli.main(sys.argv[1:]))
"""


def patched(program: str, *words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-P", "-c", program, *words]
    return subprocess.Popen(argv, cwd=paths.CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def in_the_middle(folder: Path, name: str, *words: str) -> subprocess.Popen[str]:
    """A command that stands before a call until there is a file `go`."""
    running = patched(WAITS.format(name=name, folder=str(folder)), *words)
    end = time.monotonic() + PATIENCE_S
    while not (folder / "there").exists():
        assert time.monotonic() < end and running.poll() is None
        time.sleep(0.1)
    return running


@pytest.mark.parametrize("first", [("set", "vm-hugetlb"), ("unset",)])
def test_who_comes_while_another_is_in_the_middle_waits_for_him(host, tmp_path, first):
    """Else the second would note what was there before, and the first overwrite that with what he has read."""
    one = host.define("two", devices=GRAPHICS)
    before = secure(one)
    host.abh("policy", "set", "two", "vm-thp")
    word, *more = first
    earlier = in_the_middle(tmp_path, "keep", "policy", word, "two", *more, "--connect", host.rig.uri)
    later = patched("import sys; from abh import cli; sys.exit(cli.main(sys.argv[1:]))",
                    "policy", "apply", "two", "--connect", host.rig.uri)  # fmt: skip
    time.sleep(3)
    assert later.poll() is None and one.tree().find("memoryBacking") is None
    (tmp_path / "go").touch()
    assert earlier.wait(PATIENCE_S) == 0
    _, err = later.communicate(timeout=PATIENCE_S)
    assert later.returncode == 1 and "another has changed the domain's policy meanwhile" in err
    in_order(host, one, before)


def impatient(*words: str) -> None:
    """Does not wait as long as a user would for one who is dead."""
    program = "import sys; from abh import cli; from abh.policy import claim; claim.STALE_S = 1; "
    ran = patched(f"{program}sys.exit(cli.main(sys.argv[1:]))", *words)
    out, err = ran.communicate(timeout=PATIENCE_S)
    assert ran.returncode == 0, out + err


@pytest.mark.parametrize("word", ["apply", "unset"])
@pytest.mark.parametrize(
    ("name", "number", "after"),
    [("put_metadata", 1, True), ("redefine", 1, False), ("redefine", 1, True), ("put_metadata", 2, False)],
)
def test_who_is_killed_in_the_middle_leaves_what_can_be_taken_back(host, word, name, number, after):
    one = host.define("killed", devices=GRAPHICS)
    before = secure(one)
    host.abh("policy", "set", "killed", "vm-thp")
    if word == "unset":
        host.abh("policy", "apply", "killed")
    program = KILLED.format(name=name, number=number, after=after)
    dead = patched(program, "policy", word, "killed", "--connect", host.rig.uri)
    assert dead.wait(PATIENCE_S) == -9, dead.communicate()
    assert claim.claims(one.tree())
    impatient("policy", "set", "killed", "vm-thp", "--connect", host.rig.uri)
    in_order(host, one, before)


def test_a_daemon_that_starts_anew_in_the_middle_is_an_error_and_nothing_is_half_done(host, tmp_path):
    one = host.define("again", devices=GRAPHICS)
    before = secure(one)
    host.abh("policy", "set", "again", "vm-thp")
    running = in_the_middle(tmp_path, "redefine", "policy", "apply", "again", "--connect", host.rig.uri)
    host.rig.stop()
    host.rig.start()
    (tmp_path / "go").touch()
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1 and "libvirt refuses" in err and "Traceback" not in err, err
    with binding.connection(host.rig.uri) as connection:
        one = domain.find(connection, "again")
        assert one.policy() is not None and one.tree().find("memoryBacking") is None
        impatient("policy", "set", "again", "vm-thp", "--connect", host.rig.uri)
        in_order(host, one, before)


def test_a_definition_that_libvirt_refuses_changes_nothing(host, tmp_path):
    text = rigs.domain_xml("refused", devices=GRAPHICS)
    file = tmp_path / "guest.xml"
    file.write_text(text)
    host.abh("deploy", str(file))
    one = domain.find(host.connection, "refused")
    before = secure(one)
    # The schemas allow it, and QEMU's driver does not.
    file.write_text(
        text.replace(
            "</devices>", "<interface type='network'><source network='n'/><boot order='1'/></interface></devices>"
        ).replace("<kernel>", "<boot dev='hd'/><kernel>")
    )
    ran = host.abh("deploy", str(file), status=1)
    assert "libvirt refuses" in ran.err and secure(one) == before, ran.err
    host.abh("deploy", str(file), "--dry-run")
    assert not claim.claims(one.tree())


def test_who_may_only_look_sees_no_secret_and_loses_none(host, tmp_path):
    file = tmp_path / "guest.xml"
    file.write_text(rigs.domain_xml("secret", devices=f"<!-- {SECRET} -->{GRAPHICS}"))
    host.abh("deploy", str(file), "--policy", "vm-thp")
    host.abh("policy", "set", "secret", "vm-hugetlb")
    host.abh("policy", "apply", "secret")
    again = host.abh("deploy", str(file))
    assert "nothing to change" in again.out
    one = domain.find(host.connection, "secret")
    assert SECRET in secure(one)
    reader = f"{host.rig.uri}-ro"
    with binding.connection(reader, read_only=True) as connection:
        their = domain.find(connection, "secret")
        assert SECRET not in their.document() and their.policy() is not None
        with pytest.raises(AbhError):
            their.document(secrets=True)
    for words in (("policy", "set", "secret", "vm-thp"), ("policy", "unset", "secret"), ("deploy", str(file))):
        ran = host.abh_plain(*words, "--connect", reader, status=None)
        assert ran.status != 0 and SECRET in secure(one), ran
    host.abh("policy", "unset", "secret")
    assert SECRET in secure(one)
