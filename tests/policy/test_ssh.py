# SPDX-License-Identifier: MIT
"""A libvirt that is reached by SSH, as an administrator's own machine reaches a host: qemu+ssh://."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from abh.policy import domain
from tests.hosts.conftest import SSH, Cluster
from tests.policy import rig as rigs
from tests.policy.test_life import states

SOCKET = "/run/libvirt/libvirt-sock"
# What libvirt's client runs there, which has the options of netcat's that it uses.
NETCAT = """#!/usr/bin/python3
import os, select, socket, sys
if sys.argv[1:2] != ["-U"]:
    sys.exit("usage: nc -U PATH")
there = socket.socket(socket.AF_UNIX)
try:
    there.connect(sys.argv[2])
except OSError as error:
    sys.exit(f"nc: {error.strerror}")
to = {0: there.fileno(), there.fileno(): 1}
while True:
    for each in select.select(list(to), [], [])[0]:
        piece = os.read(each, 65536)
        if not piece:
            sys.exit()
        while piece:
            piece = piece[os.write(to[each], piece):]
"""


@pytest.fixture
def uri(host) -> Iterator[str]:
    """How to connect by SSH, to a server that sees the libvirt's socket and nothing else of its host."""
    with tempfile.TemporaryDirectory(prefix="abh-ssh-") as folder:
        served = Path(folder) / "served"
        served.mkdir()
        made = Cluster(Path(folder) / "host", served)
        try:
            (made.folder / "run/libvirt").mkdir()
            made.words += ["--bind", str(host.rig.folder / "run/libvirt"), "/run/libvirt"]
            (made.folder / "bin/nc").write_text(NETCAT)
            client = Path(folder) / "ssh"
            client.write_text(f'#!/bin/sh\nexec {shlex.join([*made.words, *SSH.format(**made.ports).split()])} "$@"\n')
            for path in (made.folder / "bin/nc", client):
                path.chmod(0o755)
            made.ssh()
            yield f"qemu+ssh://root@127.0.0.1/system?command={client}&socket={SOCKET}&proxy=netcat&netcat=nc"
        finally:
            for name in list(made.daemons):
                made.stop(name)


def test_a_vm_is_deployed_and_given_a_policy_by_ssh_and_what_only_its_host_sees_is_unknown(host, uri, tmp_path):
    def abh(*words: str, status: int | None = 0):
        return host.abh_plain(*words, "--connect", uri, status=status)

    file = tmp_path / "guest.xml"
    file.write_text(rigs.domain_xml("far", devices="<graphics type='vnc' passwd='hunter2'/>"))
    assert "far: defined" in abh("deploy", str(file), "--policy", "vm-abh", "--start").out
    assert "nothing to change" in abh("deploy", str(file), "--policy", "vm-abh").out
    one = domain.find(host.connection, "far")
    host.wait(one)
    ran = abh("policy", "apply", "far", status=1)
    assert "collapse: the VM is on another host" in ran.out and "abh/unused_kib: 2048 -> 4096" in ran.out
    found = states(abh("policy", "verify", "far", "--json"))
    assert {state for name, state in found.items() if name.startswith("guest ")} == {"granted"}, found
    assert {state for name, state in found.items() if not name.startswith("guest ")} == {"unknown"}, found
    abh("policy", "set", "far", "vm-thp")
    assert "cannot be seen from here" in abh("policy", "apply", "far", status=1).out
    assert one.tree().find("memoryBacking/nosharepages") is not None
    abh("policy", "unset", "far")
    assert "hunter2" in one.document(secrets=True) and one.policy() is None
    assert "far" in abh("status").out
    assert "another host" in abh("explain", "far", status=1).err


def test_a_host_that_is_not_reached_is_an_error_that_says_so(host, uri):
    ran = host.abh_plain("policy", "list", "--connect", uri.replace(SOCKET, "/run/libvirt/none"), status=1)
    assert "libvirt refuses" in ran.err and "nc: No such file" in ran.err and "Traceback" not in ran.err, ran.err
