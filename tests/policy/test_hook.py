# SPDX-License-Identifier: MIT
"""The hook under a real libvirt: it refuses what is required and cannot be; its own troubles stop nothing else."""

from __future__ import annotations

import time
import zipfile

import pytest

from abh.policy import domain, memory, xml
from abh.schema import spec
from tests.policy import rig as rigs
from tests.policy.conftest import refused
from tests.policy.test_life import states

SLEEPY = "import time\ntime.sleep(600)\n"


def verify_states(host, name: str) -> dict[str, str]:
    return states(host.abh("policy", "verify", name, "--json", status=None))


TROUBLES = {
    "raises": "raise ZeroDivisionError\n",
    "is no program": None,
    "is killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "exits oddly": "import sys\nsys.exit(3)\n",
    "is slow": SLEEPY,
}


def required(name: str, **settings) -> domain.Kept:
    """A policy that a guest of this rig cannot have, or can, with all of it required."""
    base = spec.policy(name)
    vm = base.vm.model_copy(update={**settings, "required": tuple(settings)})
    return domain.Kept.of(base.model_copy(update={"vm": vm}))


@pytest.fixture
def hooked(host):
    host.abh_plain("policy", "hook", "install", "--hooks", str(host.rig.hooks))
    return host


def break_it(host, program: str | None) -> None:
    """In place of the hook's own program, another; with a time limit that a test can wait for."""
    archive = host.rig.hooks / "abh-hook.pyz"
    archive.write_bytes(b"no zip")
    if program is not None:
        with zipfile.ZipFile(archive, "w") as made:
            made.writestr("__main__.py", program)
    script = host.rig.hooks / "qemu.d/50-abh"
    text = script.read_text()
    assert "timeout -k 2 10" in text
    script.write_text(text.replace("timeout -k 2 10", "timeout -k 1 2"))


def test_what_is_required_and_cannot_be_is_refused_with_the_reason(hooked):
    one = hooked.define("refused")
    one.keep(required("vm-thp", paging="hap"))
    said = refused(one.handle.create)
    assert "'refused' requires what cannot be" in said and "paging: an emulated domain" in said
    assert not one.running
    one.keep(required("vm-hugetlb", hugetlb_kib=2048))
    assert "no <hugepages> of 2048 KiB: run `abh policy apply`" in refused(one.handle.create)
    hooked.abh("policy", "apply", "refused")
    said = refused(one.handle.create)
    assert "raise nr_hugepages" in said or "no such pool" in said, said


def test_a_saved_state_starts_as_it_was_and_every_step_says_so(hooked, tmp_path):
    file = tmp_path / "saved.xml"
    file.write_text(rigs.domain_xml("saved"))
    hooked.abh("deploy", str(file), "--start")
    one = domain.find(hooked.connection, "saved")
    one.handle.managedSave(0)
    one.keep(required("vm-thp", paging="hap"))
    assert "its state is saved" in hooked.abh("policy", "verify", "saved", status=None).out
    for words in (("policy", "get", "saved"), ("policy", "list"), ("status",)):
        assert "its state is saved (managed save) with no policy" in hooked.abh(*words).out
    assert hooked.abh("policy", "apply", "saved", "--json").json["restart"]
    assert "saved state" in hooked.abh("deploy", str(file), "--start", status=1).err and not one.running
    one.handle.create()  # libvirt asks the hook about the XML that was saved
    for step in ("verify", "apply"):
        out = hooked.abh("policy", step, "saved", status=None).out
        assert "it runs with no policy" in out and "required in vm-thp was not checked" in out, out
    one.handle.destroy()
    assert "requires what cannot be" in refused(one.handle.create)
    assert "saved" not in hooked.abh("policy", "unset", "saved").out.replace("saved: no policy", "")
    hooked.abh("policy", "set", "saved", "vm-thp")
    one.handle.create()
    one.handle.managedSave(0)
    assert "its state" not in hooked.abh("policy", "list").out
    hooked.abh("policy", "set", "saved", "vm-base-pages")
    assert "(managed save) with vm-thp" in hooked.abh("policy", "list").out


def test_what_is_best_effort_is_started_all_the_same(hooked):
    one = hooked.define("tried")
    hooked.abh("policy", "set", "tried", "vm-thp")
    one.handle.create()
    assert one.running


def test_the_hook_collapses_in_the_background(hooked):
    one = hooked.define("collapsed")
    hooked.abh("policy", "set", "collapsed", "vm-thp")
    begin = time.monotonic()
    seen = hooked.start(one)
    hooked.split(seen)
    assert memory.not_huge(seen.pid, seen.blocks[0].start, seen.blocks[0].end)
    while len(memory.not_huge(seen.pid, seen.blocks[0].start, seen.blocks[0].end)) > 2:
        assert time.monotonic() < begin + 75
        time.sleep(1)
    assert verify_states(hooked, "collapsed")["collapse"] == "granted"
    hooked.split(seen)
    assert verify_states(hooked, "collapsed")["collapse"] == "denied", "by a note of what once was"


MEMFD = "<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>"


def test_what_only_the_started_vm_shows_is_refused_too(hooked):
    """Memory of memfd does not begin at a boundary, or has no hugepages: that shows when QEMU is there."""
    one = hooked.define("misplaced", more=MEMFD)
    hooked.abh("policy", "set", "misplaced", "vm-thp")
    one.handle.create()
    one.handle.destroy()
    one.keep(required("vm-thp", thp="advised"))
    assert "'misplaced' requires what cannot be: thp: 0 of 1 mappings eligible" in refused(one.handle.create)
    assert not one.running


CELL = """<maxMemory slots='4' unit='MiB'>1024</maxMemory>
<cpu><numa><cell id='0' cpus='0' memory='256' unit='MiB'/></numa></cpu>"""
NVDIMM = """<memory model='nvdimm' access='private'>
<source><path>/out/nv.img</path></source><target><size unit='MiB'>64</size><node>0</node></target></memory>"""


def test_a_file_that_the_guest_has_as_an_nvdimm_is_not_asked_for_hugepages(hooked):
    with (hooked.rig.folder / "nv.img").open("wb") as image:
        image.truncate(64 << 20)
    one = hooked.define("stored", more=CELL, devices=NVDIMM)
    one.keep(required("vm-thp", thp="advised"))
    one.handle.create()
    assert one.running and verify_states(hooked, "stored")["thp"] == "granted"


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_hook_in_trouble_stops_a_vm_only_if_its_policy_requires_something(hooked, trouble):
    break_it(hooked, TROUBLES[trouble])
    one = hooked.define("trouble", more="<description>\nrequired = 1</description>")
    one.handle.create()
    one.handle.destroy()
    hooked.abh("policy", "set", "trouble", "vm-thp")
    one.handle.create()
    one.handle.destroy()
    one.keep(required("vm-thp", thp="advised"))
    assert "the hook has failed" in refused(one.handle.create)


def test_a_policy_of_a_newer_version_is_refused_where_it_requires_something(hooked):
    one = hooked.define("newer")
    for text, starts in ((required("vm-thp", thp="advised"), False), (required("vm-thp"), True)):
        element = domain.element_of(text)
        element.set("version", "2")
        for each in element.iter():
            each.tag = each.tag.rpartition("}")[2]
        one.handle.setMetadata(2, xml.text_of(element), xml.PREFIX, xml.NAMESPACE, 2)
        assert "another version" in hooked.abh("policy", "get", "newer", status=1).err
        assert "another version" in hooked.abh("policy", "set", "newer", "vm-thp", status=1).err
        assert "another version" in hooked.abh("policy", "list").out
        if starts:
            one.handle.create()
        else:
            assert "this hook knows 1" in refused(one.handle.create)
    hooked.abh("policy", "set", "newer", "vm-thp", "--replace")


def test_a_policy_that_is_no_toml_is_an_error_with_its_line_and_starts_where_nothing_is_required(hooked):
    one = hooked.define("malformed")
    for kept, starts in (
        (domain.Kept("vm-thp", 'purpose = "x"\nthp = [', ("thp",)), False),
        (domain.Kept("vm-thp", 'purpose = "x"\nthp = ['), True),
        (domain.Kept("vm-thp", "vm = 3\n"), True),
    ):
        one.keep(kept)
        assert "the policy of domain 'malformed'" in hooked.abh("policy", "verify", "malformed", status=1).err
        if starts:
            one.handle.create()
            one.handle.destroy()
        else:
            assert "the policy cannot be read" in refused(one.handle.create)


def test_hooks_of_others_stay_and_uninstall_leaves_nothing(hooked):
    there = hooked.rig.hooks / "qemu.d/00-there"
    words = ("--hooks", str(hooked.rig.hooks))
    assert hooked.abh_plain("policy", "hook", "status", *words).out.startswith("installed")
    (hooked.rig.hooks / "abh-hook.pyz").write_bytes(b"old")
    assert hooked.abh_plain("policy", "hook", "status", *words, status=1).out.startswith("outdated")
    hooked.abh_plain("policy", "hook", "install", *words)
    hooked.abh_plain("policy", "hook", "uninstall", *words)
    assert hooked.abh_plain("policy", "hook", "status", *words, status=1).out.startswith("not installed")
    assert there.exists() and not list(hooked.rig.hooks.rglob("*abh*"))
