# SPDX-License-Identifier: MIT
"""A small checkout of one file of each kind, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from abh.errors import AbhError

WORKLOAD = r"""
purpose     = "Rows in memory."
paper       = "abh Table 1: 403.gcc"
counterpart = "403.gcc"
build       = [["cc", "-o", "{out}/rows", "rows.c"], ["sh", "-c", "for i in 1; do echo ${i} | awk '{print}'; done"]]
argv        = ["./rows", "--rows={rows}", "--seed", "{seed}", "{size}.txt", "{{literal}}"]
env         = { PYTHONHASHSEED = "0" }
seed        = 7
timeout_s   = 600
answer      = 'answer: ([0-9a-f]+)'
size.smoke  = { rows = 20000, answer = "1f" }
size.paper  = { rows = 1500000, answer = "2e" }
input.smoke = { file = "smoke.txt", sha256 = "SUM256" }
metric.rows = { pattern = 'rows: (\S+)', unit = "count", better = "higher" }
metric.time = { pattern = '^time: (.*)$', unit = "s", better = "lower" }
""".replace("SUM256", "0" * 64)

ENVIRONMENT = """
purpose    = "KVM with nested paging."
order      = 20
hypervisor = "kvm"
machine    = "kvm"
domain     = "kvm.xml"
paging     = "hap"
guest_cmdline = "nokaslr"
vcpus      = 1
memory_mib = { smoke = 256, paper = 1024 }
host.modules = { kvm_amd = { npt = 1 } }
host_huge  = { source = "kvm-debugfs" }
"""

MACHINE = """
purpose    = "A host."
cpu        = "qemu64,+svm"
memory_mib = { smoke = 1024, paper = 4096 }
qemu_args  = ["-machine", "q35"]
kernel_cmdline = "nokaslr"
boot       = "linux"
root       = "host"
boot_timeout_s = 120
"""

POLICY = """
purpose = "Off."
order   = 10
requires = ["/sys/kernel/mm/transparent_hugepage/enabled"]
guest.sysfs = { "/sys/kernel/mm/transparent_hugepage/enabled" = "never" }
guest.env = { GLIBC_TUNABLES = "glibc.malloc.hugetlb=0" }
"""

ROOT = 'purpose = "A tree."\nsuite = "trixie"\npackages = ["kmod", "g++"]\n'

FILES = {
    "workloads/rows/workload.toml": WORKLOAD,
    "vm-configs/kvm-hap.toml": ENVIRONMENT,
    "vm-configs/machines/kvm.toml": MACHINE,
    "vm-configs/policies/reg.toml": POLICY,
    "vm-configs/roots/guest.toml": ROOT,
    "vm-configs/libvirt/kvm.xml": "<domain/>",
}


def write(tree: Path) -> None:
    """Writes the files."""
    for name, text in FILES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")


def error_of(call: Callable[[], object]) -> AbhError:
    """What is raised, which must say what to do next."""
    with pytest.raises(AbhError) as caught:
        call()
    assert caught.value.next_step, f"no next step: {caught.value}"
    return caught.value
