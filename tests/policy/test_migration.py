# SPDX-License-Identifier: MIT
"""A guest with a policy that moves while it runs, to another host's libvirt."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from abh.policy import binding, domain
from tests.policy import rig as rigs
from tests.policy.conftest import Host, refused, remove_all
from tests.policy.test_hook import break_it, required
from tests.policy.test_life import states

SOCKET = "unix:///out/migration"
SWITCH = "/sys/kernel/mm/abh/enabled"


@pytest.fixture
def other(host) -> Iterator[Host]:
    """Another host, which has the same files in /out."""
    with tempfile.TemporaryDirectory(prefix="abh-other-") as folder:
        made = rigs.rig(Path(folder), beside=host.rig.folder)
        made.folder.chmod(0o755)
        try:
            made.start()
            with binding.connection(made.uri) as connection:
                yield Host(made, connection)
            remove_all(made)
        finally:
            made.stop()


def move(one: domain.Domain, to: Host) -> domain.Domain:
    """Live, and with its definition, as `virsh migrate --live --persistent --undefinesource` does."""
    libvirt = binding.load()
    flags = libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PERSIST_DEST | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    (to.rig.folder / "out").mkdir(exist_ok=True)
    one.handle.migrate3(to.connection, {libvirt.VIR_MIGRATE_PARAM_URI: SOCKET}, flags)
    return domain.find(to.connection, one.name)


@pytest.mark.usefixtures("hugepages")
def test_a_policy_travels_with_a_guest_that_moves_and_what_it_got_is_seen_anew(host, other):
    one = host.define("moves")
    host.abh("policy", "set", "moves", "vm-abh")
    host.start(one)
    host.abh("policy", "apply", "moves")
    host.hold(one, 64)
    before = states(host.abh("policy", "verify", "moves", "--json"))
    assert {before[name] for name in ("thp", "huge_share", "collapse", f"guest {SWITCH}")} == {"granted"}, before
    there = move(one, other)
    assert [each.name for each in domain.every(host.connection)] == []
    other.wait(there)
    found = states(other.abh("policy", "verify", "moves", "--json"))
    # What it comes to on the new host is its memory's affair; the guest's switches are in that memory.
    assert found[f"guest {SWITCH}"] == "granted", found
    other.abh("policy", "apply", "moves")
    assert states(other.abh("policy", "verify", "moves", "--json")) == before
    other.abh("policy", "unset", "moves")
    other.abh("policy", "get", "moves", status=1)


def test_a_host_that_cannot_give_what_is_required_takes_no_guest(host, other):
    for each in (host, other):
        (each.rig.hooks / "qemu.d").mkdir(exist_ok=True)
        each.abh_plain("policy", "hook", "install", "--hooks", str(each.rig.hooks))
        each.rig.stop()
        each.rig.start()
    break_it(other, "raise ZeroDivisionError\n")
    with contextlib.ExitStack() as stack:
        here, there = (Host(each.rig, stack.enter_context(binding.connection(each.rig.uri))) for each in (host, other))
        one = here.define("stays")
        one.keep(required("vm-thp", thp="advised"))
        here.start(one)
        assert "the hook has failed" in refused(lambda: move(one, there))
        assert one.running and not list(domain.every(there.connection))
        there.abh_plain("policy", "hook", "install", "--hooks", str(there.rig.hooks))
        assert move(one, there).running
