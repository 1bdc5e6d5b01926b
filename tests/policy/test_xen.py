# SPDX-License-Identifier: MIT
"""The life of a policy on a real Xen with the real libvirt, in the emulated machine (tests/policy/xen/run)."""

from __future__ import annotations

import re
from dataclasses import replace

from abh import paths
from abh.build import components
from abh.machine import emulated
from abh.schema import spec
from tests.policy import test_docs

LIMIT_S = 1500


def test_the_life_of_a_policy_on_xen():
    machine = spec.machine("xen-host")
    parts = replace(
        emulated.parts_of(machine),
        initramfs=components.path_of("libvirt-initramfs"),
        tests=components.path_of("libvirt-tests"),
    )
    made = emulated.run(machine, "smoke", parts, None, "", icount=False, limit_s=LIMIT_S)
    said = [line for line in made.lines if line.startswith("ABH ")]
    text = (paths.CHECKOUT / "tests/policy/xen/run").read_text()
    wanted = ["install", *re.findall(r"^check (\S+)", text, re.MULTILINE)]
    for word in re.findall(r"^saved_and_restored (\S+)", text, re.MULTILINE):
        wanted += [each.replace("$1", word) for each in re.findall(r'^\tcheck "(\S+\$1)"', text, re.MULTILINE)]
    wanted += [f"chapter-{number}" for number, _ in enumerate(test_docs.commands("## Ten minutes, Xen"), 1)]
    got = dict(line.split(" ", 3)[2:] for line in said if line.startswith("ABH check "))
    assert got == dict.fromkeys(wanted, "ok"), "\n".join([*said, made.problem or "", made.console])
    assert said[-1] == "ABH end host"
