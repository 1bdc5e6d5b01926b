# SPDX-License-Identifier: MIT
"""The life of a policy on a real Xen with the real libvirt, in the emulated machine (tests/policy/xen/run)."""

from __future__ import annotations

import re
from dataclasses import replace

from abh import paths
from abh.build import components
from abh.machine import emulated
from abh.schema import spec
from tests.policy import booted, test_docs


def test_the_life_of_a_policy_on_xen():
    machine = spec.machine("xen-host")
    parts = replace(
        emulated.parts_of(machine),
        initramfs=components.path_of("libvirt-initramfs"),
        tests=components.path_of("libvirt-tests"),
    )
    words = emulated.qemu_words(machine, "smoke", parts, icount=True, resumed=False)
    with emulated.emulator(words, parts, "") as running:
        running.wait_for(emulated.FROZEN, booted.SILENT_S, what="booting")
        running.command("cont")
        over = (*emulated.OFF, emulated.FROZEN)
        said = booted.follow(running.qemu, "out.log", lambda: running.status() in over)
        console = running.console_tail()
    text = (paths.CHECKOUT / "tests/policy/xen/run").read_text()
    wanted = ["install", *re.findall(r"^check (\S+)", text, re.MULTILINE)]
    for word in re.findall(r"^saved_and_restored (\S+)", text, re.MULTILINE):
        wanted += [each.replace("$1", word) for each in re.findall(r'^\tcheck "(\S+\$1)"', text, re.MULTILINE)]
    wanted += [f"chapter-{number}" for number, _ in enumerate(test_docs.commands("## Ten minutes, Xen"), 1)]
    assert said.checks == dict.fromkeys(wanted, "ok"), f"{said.problem}\n{console}"
    assert said.lines[-1] == booted.END
