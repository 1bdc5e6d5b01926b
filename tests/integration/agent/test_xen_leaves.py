# SPDX-License-Identifier: MIT
"""agent/xen-leaves, with a Xen that says what a test wants."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from abh import paths
from abh.errors import AbhError
from abh.study import cell

KEY = "(XEN) 'W' pressed -> counting superpage leaves"
DOM0 = "(XEN) d0: own 2M=0 in 71 tables"
P2M = "(XEN) d1: p2m 4K=2048 2M=254 1G=0"
HELD = {"p2m_huge_kib": 254 * 2048, "host_mapped_kib": 254 * 2048 + 2048 * 4}  # what P2M says
SHADOW = "(XEN) d1: shadow 2M=0 splintered=28"
XL = '#!/bin/sh\ncase $1 in\ndomid) echo 1 ;;\ndebug-keys) [ "$2" = W ] ;;\ndmesg) cat "$DMESG" ;;\nesac\n'


@pytest.fixture
def xen_leaves(tmp_path: Path):
    """Runs the script after Xen has said some lines."""
    for name, text in {"xl": XL, "busybox": '#!/bin/sh\nexec "$@"\n'}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def run(*dmesg: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "dmesg").write_text("".join(f"{line}\n" for line in dmesg))
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DMESG": str(tmp_path / "dmesg")}
        words = ["sh", str(paths.CHECKOUT / "agent/xen-leaves"), "abh"]
        return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=30)

    return run


def said(done: subprocess.CompletedProcess[str]) -> dict[str, float | None]:
    return {name: value.value for name, value in cell._reported(cell.listen(done.stdout.split("\n")))}


@pytest.mark.parametrize(
    ("dmesg", "found"),
    [
        ([KEY, DOM0, P2M], {"host_huge_kib": 254 * 2048, **HELD}),
        (
            [KEY, "(XEN) d1: p2m 4K=1 2M=3 1G=4096"],
            {
                "host_huge_kib": 3 * 2048 + (4096 << 20),
                "p2m_huge_kib": 3 * 2048 + (4096 << 20),
                "host_mapped_kib": 4 + 3 * 2048 + (4096 << 20),
            },
        ),
        ([KEY, "(XEN) d1: p2m 4K=9 2M=0 1G=0"], {"host_huge_kib": 0, "p2m_huge_kib": 0, "host_mapped_kib": 36}),
        # The hardware walks the shadow, whatever the p2m below it holds.
        ([KEY, SHADOW, P2M], {"host_huge_kib": 0, **HELD, "splintered_superpages": 28}),
        (
            [KEY, "(XEN) d1: shadow 2M=5 splintered=0", P2M],
            {"host_huge_kib": 5 * 2048, **HELD, "splintered_superpages": 0},
        ),
        ([KEY, DOM0, "(XEN) d1: own 2M=0 in 12 tables"], {"host_huge_kib": 0}),
        ([KEY, "(XEN) d1: own 2M=2 in 12 tables"], {"host_huge_kib": 4096}),
        # Another domain's, an earlier answer's, or before the question.
        ([KEY, "(XEN) d11: p2m 4K=0 2M=7 1G=0", P2M], {"host_huge_kib": 254 * 2048, **HELD}),
        ([KEY, SHADOW, KEY, P2M], {"host_huge_kib": 254 * 2048, **HELD}),
        (["(XEN) d1: shadow 2M=9 splintered=9", KEY, P2M], {"host_huge_kib": 254 * 2048, **HELD}),
        (
            ["[2026] " + KEY, "(XEN) [ 1.5] d1: p2m 4K=1 2M=1 1G=0"],
            {"host_huge_kib": 2048, "p2m_huge_kib": 2048, "host_mapped_kib": 2052},
        ),
    ],
)
def test_what_xen_says_is_counted(xen_leaves, dmesg, found):
    done = xen_leaves(*dmesg)
    assert (done.returncode, said(done)) == (0, found), done


@pytest.mark.parametrize(
    "dmesg", [[], [KEY], [P2M], [KEY, DOM0], [KEY, "(XEN) d10: p2m 4K=1 2M=1 1G=0"], [KEY, P2M, KEY]]
)
def test_no_answer_is_no_value(xen_leaves, dmesg):
    done = xen_leaves(*dmesg)
    assert done.returncode != 0 and said(done) == {}, done


@pytest.mark.parametrize(
    "answer",
    [
        ["p2m garbage"],
        ["p2m 4K=2048 2M=xyz 1G=0"],
        ["p2m 4K=2048 2M=-3 1G=0"],
        ["p2m 4K=2048 2M=25"],  # cut off
        ["p2m 4K=2048 2M=254 1G=0 and more"],
        ["p2m 4K=0 2M=0 1G=0"],  # a walk that met nothing
        ["own 2M=0 in 0 tables"],
        ["own 2M="],
        ["shadow 2M=0", "p2m 4K=2048 2M=254 1G=0"],
        ["shadow 2M=0 splintered=many", "p2m 4K=2048 2M=254 1G=0"],
        ["shadow 2M=0 splintered=28", "p2m 4K=? 2M=254 1G=0"],
    ],
)
def test_garbage_is_an_error_that_shows_it_never_a_zero(xen_leaves, answer):
    done = xen_leaves(KEY, *(f"(XEN) d1: {line}" for line in answer))
    assert done.returncode != 0
    with pytest.raises(AbhError, match="garbage for 'host_huge_kib'") as caught:
        said(done)
    assert str(caught.value.got) in answer
