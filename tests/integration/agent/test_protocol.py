# SPDX-License-Identifier: MIT
"""The agents' parser (agent/protocol.h), compiled for the machine the tests run on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from abh import paths
from abh.machine import emulated
from abh.study import cell

HARNESS = "tests/integration/agent/protocol_harness.c"
# /proc/vmstat and memory.stat have keys that begin like others.
TABLE = "thp_split_page_failed 7\nthp_split_page 5\nanon 10\nanon_thp 2097152\npgfault 123456789012\nlast -4"


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory, in_build_root: Callable[[Path, Path], list[str]]) -> Path:
    out = tmp_path_factory.mktemp("agent")
    words = ["cc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover"]
    done = subprocess.run(
        [*in_build_root(paths.CHECKOUT, out), *words, "-static", "-Iagent", "-o", "/out/harness", HARNESS],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out / "harness"


def run(harness: Path, verb: str, file: Path, word: object) -> subprocess.CompletedProcess[str]:
    dirty = {**os.environ, "MALLOC_PERTURB_": "170"}  # memory that nobody cleared must not happen to be clear
    return subprocess.run(
        [str(harness), verb, str(file), str(word)],
        env=dirty, capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip


def lines(harness: Path, tmp_path: Path, text: bytes, limit: int = emulated.CELL_BYTES) -> list[str]:
    (tmp_path / "cell").write_bytes(text)
    done = run(harness, "lines", tmp_path / "cell", limit)
    assert done.returncode == 0, done
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"a b\nc d\n", ["a|b", "c|d"]),
        (b"a b\nc d", ["a|b", "c|d"]),  # the last line may lack its end
        (b"a  b  c \n", ["a| b  c "]),
        (b"a\n", ["a|"]),
        (b"a \n", ["a|"]),
        (b"\na\n", ["|", "a|"]),
        (b"a\nend\nb\n", ["a|"]),
        (b"a\nend of it\nb\n", ["a|"]),
        (b"a\nendless x\nb", ["a|", "endless|x", "b|"]),
        (b"arg end\nend\n", ["arg|end"]),
        (b"a\0b\n", ["a|"]),  # what pads a block ends it
        (b"arg \xc3\xa9 =#'\"\n", ["arg|é =#'\""]),
    ],
)
def test_lines_are_split_at_their_first_space(harness, tmp_path, text, found):
    assert lines(harness, tmp_path, text) == found


def test_a_long_line_is_one_line(harness, tmp_path):
    assert lines(harness, tmp_path, b"arg " + b"x" * 8000 + b"\nb\n") == ["arg|" + "x" * 8000, "b|"]


def test_a_full_block_without_padding_is_read_within_its_bounds(harness, tmp_path):
    block = b"arg " + b"x" * (emulated.CELL_BYTES - 4)
    assert lines(harness, tmp_path, block + b"beyond") == ["arg|" + "x" * (emulated.CELL_BYTES - 4)]


def test_of_a_disk_the_tail_is_read(harness, tmp_path, monkeypatch):
    text = cell.guest_lines(cell.Cell.of("sqlite@kvm-hap~thp", "smoke"))
    disk = b"arg of the image\n" * 4096 + emulated.cell_block(text)
    assert lines(harness, tmp_path, disk)[0] == "arg|of the image"
    monkeypatch.setenv("AS_DISK", "yes")
    assert len(found := lines(harness, tmp_path, disk)) == text.count("\n") - 1
    assert found[0] == "ABHCELL|2"


@pytest.mark.parametrize("text", [b"", b"\0" * emulated.CELL_BYTES])
def test_nothing_is_no_line(harness, tmp_path, text):
    (tmp_path / "cell").write_bytes(text)
    done = run(harness, "lines", tmp_path / "cell", emulated.CELL_BYTES)
    assert (done.returncode, done.stdout) == (0 if text else 3, "")


def test_a_file_that_is_not_there_is_no_text(harness, tmp_path):
    assert run(harness, "lines", tmp_path / "none", 10).returncode == 3


def test_agent_and_bench_speak_the_same_version():
    header = (paths.CHECKOUT / "agent/protocol.h").read_text()
    assert f'#define ABH_VERSION "{cell.PROTOCOL}"' in header
    assert cell.guest_lines(cell.Cell.of("sqlite@native~thp", "smoke")).startswith(f"ABHCELL {cell.PROTOCOL}\n")


@pytest.mark.parametrize("name", ["sqlite@native~thp", "cc1@kvm-shadow~thp-paper", "xalan@xen-pv~reg"])
def test_a_whole_cell_is_read_as_it_was_meant(harness, tmp_path, name):
    made = cell.Cell.of(name, "paper")
    told = [line.partition(" ") for line in cell.guest_lines(made).splitlines()[:-1]]
    found = lines(harness, tmp_path, emulated.cell_block(cell.cell_text(made)))
    assert found == [f"{key}|{rest}" for key, _, rest in told]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("thp_split_page", 5),
        ("thp_split_page_failed", 7),
        ("anon", 10),
        ("anon_thp", 2097152),
        ("pgfault", 123456789012),
        ("last", -4),
        ("missing", -1),
        ("thp", -1),
        ("fault", -1),
        ("split_page", -1),
    ],
)
def test_a_value_is_that_of_the_whole_key(harness, tmp_path, key, value):
    (tmp_path / "table").write_text(TABLE)
    done = run(harness, "value", tmp_path / "table", key)
    assert (done.returncode, done.stdout) == (0, f"{value}\n")


BUDDYINFO = """\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      2 
Node 0, zone    DMA32   4190     12      7      9     12      6      3      1    511      4    100 
Node 1, zone   Normal      9      0      0      0      0      0      0      0      0      1      0 
"""  # noqa: W291


@pytest.mark.parametrize(
    ("text", "hugepages"),
    [
        (BUDDYINFO, 1 + 4 + 4 + 200 + 1),
        (BUDDYINFO.replace(" 1      2 ", " 0      0 ").replace("4    100", "0      0"), 1),
        ("Node 0, zone      DMA      1      1\n", 0),
        ("garbage\n", 0),
    ],
)
def test_free_hugepages_are_blocks_of_512_pages_and_more(harness, tmp_path, text, hugepages):
    (tmp_path / "buddyinfo").write_text(text)
    done = run(harness, "hugepages", tmp_path / "buddyinfo", "-")
    assert (done.returncode, done.stdout.strip()) == (0, str(hugepages))
