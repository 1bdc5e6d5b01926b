# SPDX-License-Identifier: MIT
"""The files of events agree with perf's own lists, in the source of the Linux that the project builds."""

from __future__ import annotations

import csv
import json
import re
import subprocess

import pytest

from abh import paths
from abh.build import root, series, source
from abh.schema import events

LISTS = "tools/perf/pmu-events/arch/x86"
# What perf's lists leave out, being Intel's architectural events.
NOT_LISTED = {("icelake", "LONGEST_LAT_CACHE.REFERENCE"), ("tigerlake", "LONGEST_LAT_CACHE.REFERENCE"),
              ("rocketlake", "LONGEST_LAT_CACHE.REFERENCE")}  # fmt: skip
FILES = events.MICROARCHITECTURE.all(paths.CHECKOUT)


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """perf's lists of events of Intel's and AMD's processors."""
    out = tmp_path_factory.mktemp("perf")
    (package,) = source.fetch(series.load(paths.CHECKOUT / "kernel-patches/6.12").base).files
    inside = root.enter(root.path_of("build"), read_only={"/in": package.parent}, writable={"/out": out})
    script = f"""set -e; for deb in /in/*.deb; do dpkg-deb --fsys-tarfile "$deb"; done |
        tar -xO --wildcards './usr/src/*.tar.xz' |
        tar -xJ --no-same-owner -C /out --strip-components={LISTS.count("/") + 2} --wildcards '*/{LISTS}/*'"""
    done = subprocess.run([*inside, *root.SHELL, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def listed(folder):
    """Name to entry, of the processor's own counters."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        for each in content if isinstance(content, list) else []:
            if each.get("Unit", "cpu_core") == "cpu_core" and "EventName" in each and "EventCode" in each:
                found[each["EventName"].upper()] = each
    return found


def terms_of(entry):
    """What a list's entry tells the counter: numbers alone, zeros left out."""
    keys = {"EventCode": "event", "UMask": "umask", "CounterMask": "cmask", "Invert": "inv", "EdgeDetect": "edge"}
    found = {name: int(entry[key], 0) for key, name in keys.items() if key in entry}
    return {name: number for name, number in found.items() if number}


def terms_in(code):
    pairs = (term.split("=") for term in code.split(","))
    return {name: int(number, 0) for name, number in pairs}


@pytest.mark.parametrize("name", FILES)
def test_every_code_is_that_of_perf(lists, name):
    wrong = []
    for folder in FILES[name].perf_lists:
        known = listed(lists / folder)
        assert known, f"perf has no list {folder}"
        for key, event in FILES[name].event.items():
            if (folder, event.name) in NOT_LISTED:
                continue
            entry = known.get(event.name.upper())
            if entry is None or terms_of(entry) != terms_in(event.code):
                wrong.append(f"{folder}: {key}: {event.code}, perf: {entry and terms_of(entry)}")
    assert not wrong


def list_of(rows, vendor, family, model):
    """The list that perf takes for a processor: the first whose pattern fits."""
    for pattern, folder in rows:
        for stepping in ("", "-0", "-7"):
            if re.fullmatch(pattern, f"{vendor}-{family}-{model:X}{stepping}"):
                return folder
    return None


@pytest.mark.parametrize("name", FILES)
def test_every_processor_is_one_that_perf_counts_so(lists, name):
    with (lists / "mapfile.csv").open() as file:
        rows = [(row[0].replace("[[:xdigit:]]", "[0-9A-F]"), row[2]) for row in csv.reader(file)]
    for cpu in FILES[name].cpu:
        for model in cpu.numbers():
            assert list_of(rows, cpu.vendor, cpu.family, model) in FILES[name].perf_lists, hex(model)


def test_no_processor_is_in_two_files():
    seen = {}
    for name, each in FILES.items():
        for cpu in each.cpu:
            for model in cpu.numbers():
                assert seen.setdefault((cpu.vendor, cpu.family, model), name) == name
