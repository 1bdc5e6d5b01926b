# SPDX-License-Identifier: MIT
"""One run: what the machine is asked, as the agents read it."""

from __future__ import annotations

import functools
import itertools
import re
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from cells import THP, one

from abh import paths
from abh.machine import emulated
from abh.schema import result, spec
from abh.study import cell

INIT_HOST = paths.CHECKOUT / "agent/init-host"
PROTOCOL = paths.CHECKOUT / "agent/protocol.h"
MATRIX = [
    (str(spec.Run(workload, environment, policy)), size)
    for workload, environment, policy, size in itertools.product(
        spec.workloads(), spec.environments(), spec.policies(), result.SIZES
    )
]
IMAGE = b"e" * 3 * 4096


def test_the_matrix_is_not_empty():
    assert len(MATRIX) > 100


def split_by_host(texts: dict[str, str], folder: Path) -> None:
    """Runs the very commands of agent/init-host over the frozen machine's blocks, one folder each."""
    text = INIT_HOST.read_text()
    own = [re.search(rf"^{name}\(\) {{\n.*?^}}$", text, re.M | re.S) for name in ("read_cell", "hand_over_cell")]
    assert all(own)
    functions = "\n".join(each[0] for each in own if each)
    assert functions.count("busybox sed") == 3 and "busybox dd" in functions
    for name, text in texts.items():
        (folder / name / "abh").mkdir(parents=True)
        (folder / name / "raw").write_bytes(emulated.cell_block(text))
        (folder / name / "guest.erofs").write_bytes(IMAGE + b"\0" * emulated.CELL_BYTES)
    commands = functions.replace("/run/", "$run/").replace("/image/", "$run/")
    helpers = 'busybox() { "$@"; }\nfinish() { echo "$@" >&2; exit 1; }\n'
    script = f"set -e\n{helpers}for run in {folder}/*; do\ncell=$run/raw\n{commands}\nread_cell\nhand_over_cell\ndone\n"
    subprocess.run(["sh", "-c", script], check=True, timeout=120)


def host_does(name: str, call: str, folder: Path) -> tuple[int, str]:
    """Has a function of agent/init-host do something; exit status, and what it said before it went off."""
    text = INIT_HOST.read_text()
    own = re.search(rf"^{name}\(\) {{(?:.*}}$|\n.*?^}}$)", text, re.M | (re.S if f"{name}() {{\n" in text else 0))
    assert own
    script = f'finish() {{ echo "$@"; exit 9; }}\n{own[0]}\n{call}\n'.replace("/run/", f"{folder}/")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("lines", "status", "said"),
    [
        ("set {0} 7\nend\n", 0, ""),
        ("set {0} 7\n", 9, "error the host's part of the cell has no end\n"),
        ("", 9, "error the host's part of the cell has no end\n"),
        ("absent {0}\nend\n", 9, "error {0} is there, and the environment says that it is not\n"),
        ("wish {0}\nend\n", 9, "error unknown host line: wish\n"),
    ],
)
def test_the_host_applies_all_of_its_part_or_says_what_is_wrong(tmp_path, lines, status, said):
    knob = tmp_path / "knob"
    knob.touch()
    (tmp_path / "host.cell").write_text(lines.format(knob))
    assert host_does("apply_settings", "apply_settings", tmp_path) == (status, said.format(knob))
    assert knob.read_text() == ("7\n" if lines.startswith("set") else "")


def test_a_step_of_the_hosts_start_that_fails_is_said(tmp_path):
    call = "must true of course && must mkdir /proc/no-such-place && echo not here"
    assert host_does("must", call, tmp_path) == (9, "error mkdir /proc/no-such-place\n")


def test_every_cell_of_the_matrix_fits_the_channel(monkeypatch):
    for name in ("workload", "environment", "policy", "machine"):  # each is in dozens of cells
        monkeypatch.setattr(spec, name, functools.cache(getattr(spec, name)))
    sizes = {each: len(emulated.cell_block(cell.cell_text(one(*each)))) for each in MATRIX}
    assert set(sizes.values()) == {emulated.CELL_BYTES}


def test_the_channel_has_one_size_everywhere():
    assert re.findall(r"#define ABH_CELL_BYTES (\d+)", PROTOCOL.read_text()) == [str(emulated.CELL_BYTES)]
    recipe = (paths.CHECKOUT / "recipes/guest-image.sh").read_text()
    assert re.findall(r"truncate -s \+(\d+)", recipe) == [str(emulated.CELL_BYTES)]
    assert "truncate -s %4096" in recipe and emulated.CELL_BYTES == 2 * 4096, "init-host counts in blocks of 4096"


def test_the_host_splits_a_cell_into_what_it_was_made_of(tmp_path):
    names = [name for name, size in MATRIX if size == "smoke" and not name.startswith("native@")]
    some = [name for name in names if name.startswith("sqlite@") or "@xen-hap~thp-paper" in name]
    assert len(some) > 20
    split_by_host({name: cell.cell_text(one(name)) for name in some}, tmp_path)
    for name in some:
        made, got = one(name), tmp_path / name
        disk = (got / "guest.erofs").read_bytes()
        image, guest = disk[: -emulated.CELL_BYTES], disk[-emulated.CELL_BYTES :]
        assert image == IMAGE
        assert guest.rstrip(b"\0").decode() == cell.guest_lines(made)
        assert (got / "host.cell").read_text() == cell.host_lines(made)
        assert (got / "abh/domain.xml").read_text() == cell.domain_xml(made)


@pytest.mark.parametrize("name", sorted(spec.environments()))
def test_what_freezes_a_machine_depends_on_its_environment_alone(name):
    texts = {
        cell.setup_text(one(f"{workload}@{name}~{policy}"))
        for workload, policy in (("sqlite", "reg"), ("xalan", "thp"))
    }
    assert len(texts) == 1 and "set " not in texts.pop()


@pytest.mark.parametrize(
    ("name", "size", "last"),
    [
        ("sqlite@native~reg", "smoke", "cwd /abh/workloads/sqlite|timeout 900|arg ./rows|arg --rows|arg 40000"),
        ("sqlite@native~reg", "paper", "cwd /abh/workloads/sqlite|timeout 900|arg ./rows|arg --rows|arg 1500000"),
        (
            "cpython@kvm-hap~abh",
            "smoke",
            "env PYTHONHASHSEED=0|env GLIBC_TUNABLES=glibc.malloc.abh=1|cwd /abh/workloads/cpython|timeout 900"
            "|arg python3|arg objects.py|arg --objects|arg 32000",
        ),
    ],
)
def test_the_guest_is_told_the_program_with_its_environment_folder_and_limit(name, size, last):
    lines = cell.guest_lines(one(name, size)).splitlines()
    assert lines[0] == "ABHCELL 2"
    expected = [*last.split("|"), "arg --seed", "arg 1", "end"]
    assert lines[-len(expected) :] == expected
    assert all(line.startswith(("require ", "set ")) for line in lines[1 : -len(expected)])


def test_the_guest_is_told_a_policy_in_the_order_in_which_it_acts():
    made = one("sqlite@native~reg")
    guest = made.policy.guest.model_copy(
        update={"sysfs": {f"{THP}/enabled": "always", "/sys/x": "1"}, "env": {"A": "b c"}, "before": ("./fill", "9")}
    )
    policy = made.policy.model_copy(update={"guest": guest, "requires": ("/sys/x",)})
    told = cell.guest_lines(replace(made, policy=policy, draw=2, explain=True)).splitlines()
    assert told == [
        "ABHCELL 2", "require /sys/x", f"set {THP}/enabled always", "set /sys/x 1", "draw 2",
        "set /proc/sys/vm/explain_thp_faults 1", "env A=b c", "before ./fill", "before 9",
        "cwd /abh/workloads/sqlite", "timeout 900", "arg ./rows", "arg --rows", "arg 40000", "arg --seed", "arg 1",
        "end",
    ]  # fmt: skip


def test_what_a_guest_lacks_is_checked_and_not_set():
    told = cell.guest_lines(one("sqlite@xen-pv~abh")).splitlines()
    assert told[1:3] == ["require /sys/kernel/mm/abh", f"absent {THP}"]
    assert (
        not [line for line in told if line.startswith(f"set {THP}/")]
        and "set /sys/kernel/mm/abh/enabled always" in told
    )


@pytest.mark.parametrize("size", result.SIZES)
@pytest.mark.parametrize("name", sorted(spec.workloads()))
def test_a_command_line_fits_the_agent(name, size):
    limit = re.search(r"#define ABH_MAX_WORDS (\d+)", PROTOCOL.read_text())
    assert limit is not None and len(spec.workload(name).argv_for(size)) <= int(limit[1])


@pytest.mark.parametrize("name", sorted(spec.environments()))
def test_a_domain_is_well_formed_and_has_the_runs_numbers(name):
    made = one(f"sqlite@{name}~thp", "paper")
    text = cell.domain_xml(made)
    if made.environment.hypervisor == "none":
        assert text == ""
        return
    top = ET.fromstring(text)
    assert top.findtext("memory") == str(made.environment.memory_mib["paper"])
    assert top.findtext("vcpu") == str(made.environment.vcpus)
    assert top.findtext("os/cmdline") == made.environment.guest_cmdline
    assert top.findtext("name") == "abh"
    assert "${" not in text


def test_a_command_line_with_markup_stays_one():
    made = one()
    odd = made.environment.model_copy(update={"guest_cmdline": "a<b & c>'d' $x ${y}"})
    top = ET.fromstring(cell.domain_xml(cell.Cell(**{**vars(made), "environment": odd})))
    assert top.findtext("os/cmdline") == "a<b & c>'d' $x ${y}"


def test_what_a_system_lacks_is_checked_and_not_set():
    made = one("sqlite@xen-pv~thp")
    guest, host = cell.guest_lines(made).splitlines(), cell.host_lines(made).splitlines()
    for lines in (guest, host):
        assert f"absent {THP}" in lines
        assert not [line for line in lines if line.startswith(f"set {THP}/")]
    hap = one("sqlite@xen-hap~thp")
    assert f"set {THP}/enabled always" in cell.guest_lines(hap).splitlines()
    assert "absent" not in cell.guest_lines(hap)
    assert f"absent {THP}" in cell.host_lines(hap).splitlines()


def test_what_a_system_lacks_is_not_required_either():
    assert f"require {THP}/skip_anon_align" in cell.guest_lines(one("sqlite@xen-hap~thp-paper"))
    assert "require" not in cell.guest_lines(one("sqlite@xen-pv~thp-paper"))


def test_a_lack_is_of_a_folder_not_of_names_that_begin_alike():
    made = one()
    environment = made.environment.model_copy(update={"guest_lacks": ("/sys/kernel/mm/a",)})
    policy = made.policy.model_copy(
        update={"guest": spec.GuestPolicy(sysfs={"/sys/kernel/mm/a/b": "1", "/sys/kernel/mm/ab": "2"})}
    )
    lines = cell.guest_lines(cell.Cell(**{**vars(made), "environment": environment, "policy": policy})).splitlines()
    assert "set /sys/kernel/mm/ab 2" in lines
    assert "set /sys/kernel/mm/a/b 1" not in lines


def test_a_fragmented_guest_is_made_before_the_workload():
    lines = cell.guest_lines(one("sqlite@kvm-hap~abh-fragmented")).splitlines()
    assert "before /abh/abh-fragment" in lines
    assert "before" not in cell.guest_lines(one("sqlite@kvm-hap~abh"))


def test_a_host_loads_its_modules_with_their_parameters_and_sets_its_knobs():
    lines = cell.host_lines(one("sqlite@kvm-shadow~reg")).splitlines()
    assert lines[0] == "module kvm_amd npt=0"
    assert f"set {THP}/enabled never" in lines
    assert lines[-1] == "end"


def test_a_native_system_has_no_host_to_set():
    assert cell.host_lines(one("sqlite@native~thp")) == "end\n"
