# SPDX-License-Identifier: MIT
"""Where a program can have no hugepages, malloc takes and keeps with its tunable on what it does with it off."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
from changed import with_fixed_addresses, with_sysfs
from counted import number

from abh.schema.workload import Metric
from abh.study import cell

THP = "/sys/kernel/mm/transparent_hugepage"
# 64 MiB in chunks of 64 KiB, which an arena holds; every second one is freed, and malloc gives back what it can.
# Told are KiB that are resident with all in use, and then, and mapped. With a second word the program refuses
# hugepages, before malloc begins anew.
PROGRAM = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
if sys.argv[2:] and libc.prctl(42, 0, 0, 0, 0) == 0:  # PR_GET_THP_DISABLE; PR_SET_THP_DISABLE
    libc.prctl(41, 1, 0, 0, 0)
    os.execvp(sys.orig_argv[0], sys.orig_argv)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def tell(what, file, key):
    kib, = [line.split()[1] for line in open('/proc/self/' + file) if line.startswith(key)]
    print(what + '_' + sys.argv[1] + ':', kib)

chunks = [libc.malloc(65520) for _ in range(1024)]
for chunk in chunks:
    ctypes.memset(chunk, 1, 65520)
tell('in_use', 'smaps_rollup', 'Anonymous:')
tell('mapped', 'status', 'VmData:')
for chunk in chunks[::2]:
    libc.free(chunk)
libc.malloc_trim(0)
tell('kept', 'smaps_rollup', 'Anonymous:')
"""
BOTH = 'for abh in 0 1; do GLIBC_TUNABLES=glibc.malloc.abh=$abh python3 -c "$0" $abh "$@" || exit; done'
TOLD = [f"{what}_{abh}" for what in ("in_use", "kept", "mapped") for abh in (0, 1)]


def counted(thp: Mapping[str, str], *refuses: str) -> dict[str, float]:
    """What the program tells, with the tunable off and on, in the mode always but for `thp`."""
    one = with_fixed_addresses(cell.Cell.of("cpython@native~thp", "smoke"))
    one = with_sysfs(one, {f"{THP}/{name}": value for name, value in thp.items()})
    parts = {
        "argv": ("/usr/bin/busybox", "sh", "-c", BOTH, f"exec({PROGRAM!r})", *refuses),
        "answer": None,
        "metric": {name: Metric(pattern=rf"^{name}: (\d+)$", unit="KiB", better="lower") for name in TOLD},
    }
    result = cell.run(dataclasses.replace(one, workload=one.workload.model_copy(update=parts)))
    return {name: number(result, name) for name in TOLD}


@pytest.mark.parametrize(
    ("thp", "refuses"),
    [({"enabled": "never"}, ()), ({"hugepages-2048kB/enabled": "never"}, ()), ({}, ("refuses",))],
    ids=["never", "2 MiB never", "PR_SET_THP_DISABLE"],
)
def test_malloc_is_stock_where_there_are_no_hugepages(thp, refuses):
    """As it was, of 256 MiB: 131 MB kept in stock, and 259 with the tunable on."""
    told = counted(thp, *refuses)
    assert told["kept_0"] < 0.6 * told["in_use_0"], "stock gives back half, or there is nothing to compare with"
    assert told["kept_1"] <= max(1.03 * told["kept_0"], told["kept_0"] + 2048)
    assert told["mapped_1"] == told["mapped_0"]


def test_it_is_not_where_there_are():
    """Else the comparison above would show nothing."""
    told = counted({})
    assert told["mapped_1"] != told["mapped_0"]
