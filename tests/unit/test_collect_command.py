# SPDX-License-Identifier: MIT
"""`abh collect` from the command line to its files, with a perf that pretends to have a Skylake's counters."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from abh import cli, paths
from abh.collect import here, session
from abh.commands import collect
from abh.errors import AbhError
from abh.schema import events, measured

SKYLAKE = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6140
flags\t\t: fpu vme

"""
# It checks what it is told as perf does, waits as perf does, and writes the lines that perf would.
PERF = """
import json, os, re, select, signal, sys
words = sys.argv[1:]
if words == ["version"]:
    print("perf version 6.12.0-fake"); sys.exit()
assert words[:2] == ["stat", "-j"], words
if "--" in words:
    sys.exit()
out, pid = words[words.index("-o") + 1], int(words[words.index("-p") + 1])
told, acks = map(int, re.fullmatch(r"fd:(\\d+),(\\d+)", words[words.index("--control") + 1]).groups())
specs = [words[at + 1] for at, word in enumerate(words) if word == "-e"]
with open(os.environ["FAKE_LOG"], "a") as log:
    log.write(json.dumps(specs) + "\\n")
stopped = []
signal.signal(signal.SIGINT, lambda *_: stopped.append(1))
while not stopped:
    ready, _, _ = select.select([told], [], [], 0.02)
    if ready:
        word = os.read(told, 64)
        if word:
            os.write(acks, b"ack\\n\\0")
    try:
        if open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z":
            break
    except OSError:  # the process has ended and was waited for
        break
special = json.loads(os.environ.get("FAKE_SAID", "{}"))
with open(out, "w") as file:
    print("# started on Tue Nov 24 08:03:01 2026\\n", file=file)
    for spec in specs:
        name = re.search(r"name=(\\w+)", spec)
        name = name[1] if name else spec
        line = {"counter-value": "1000.000000", "unit": "", "event": name, "pcnt-running": 100.0}
        print(json.dumps(line | special.get(name, {})), file=file)
"""


@pytest.fixture
def skylake(tmp_path, monkeypatch, stub):
    """A machine with a Skylake and a perf for it; what perf was told is in the file returned."""
    (tmp_path / "cpuinfo").write_text(SKYLAKE)
    (tmp_path / "pmus" / "cpu").mkdir(parents=True)
    (tmp_path / "watchdog").write_text("0\n")
    monkeypatch.setattr(here, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(here, "PMUS", tmp_path / "pmus")
    monkeypatch.setattr(here, "WATCHDOG", tmp_path / "watchdog")
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "told"))
    stub("perf", PERF)
    return tmp_path / "told"


def run(tmp_path, *words):
    args = cli.parse(["collect", "--results", str(tmp_path / "results"), *words])
    return collect.run(args)


def told(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


def result(tmp_path, name):
    return measured.read(tmp_path / "results" / f"{name}.json")


def test_every_event_is_counted_as_often_as_asked(skylake, tmp_path, capfd):
    assert run(tmp_path, "--repeats", "2", "--", "sh", "-c", "exit 0") == 0
    made = result(tmp_path, "sh@bare-metal~as-found")
    micro = events.MICROARCHITECTURE.one("intel-skylake", paths.CHECKOUT)
    assert made.microarchitecture == "intel-skylake" and made.processor.endswith("Gold 6140")
    assert {made.values[name].runs for name in micro.event} >= {2}
    assert all(made.values[name].value == 1000 for name in micro.event)
    runs = told(skylake)
    assert len(runs) == 2 * len({tuple(each) for each in runs}) > 2
    assert made.values["walk_share"].value == 3 and made.values["walk_share"].kind == "measured"
    assert "EPT" in made.values["walk_share"].reason and "EPT" in capfd.readouterr().out


def test_what_was_shared_out_is_not_counted(skylake, tmp_path, monkeypatch):
    lines = {
        "dtlb_load_walks": {"pcnt-running": 50.0},
        "stlb_flushes": {"counter-value": "<not supported>"},
        "itlb_walks": {"counter-value": "0.000000"},
        "major-faults": {"counter-value": "0.000000"},
    }
    monkeypatch.setenv("FAKE_SAID", json.dumps(lines))
    run(tmp_path, "--repeats", "1", "--", "true")
    values = result(tmp_path, "true@bare-metal~as-found").values
    assert "50 %" in values["dtlb_load_walks"].reason
    assert "does not count" in values["stlb_flushes"].reason
    assert "at zero" in values["itlb_walks"].reason
    assert {values[name].value for name in ("dtlb_load_walks", "stlb_flushes", "itlb_walks")} == {None}
    assert values["major_faults"].value == 0


def test_two_events_take_one_pass(skylake, tmp_path):
    words = ("--event", "dtlb_load_walks", "--event", "dtlb_load_walk_cycles", "--name", "two", "--label", "abh")
    run(tmp_path, *words, "--repeats", "3", "--", "true")
    assert len(told(skylake)) == 3
    assert result(tmp_path, "two@bare-metal~abh").values["dtlb_load_walks"].runs == 3


def test_what_another_command_has_measured_under_this_name_is_kept(skylake, tmp_path):
    """Names that differ in what a file's name does not show, and programs of one name in two folders."""
    for folder, name in (("a", "prog_1"), ("b", "prog_1"), ("a", "prog-1")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text("#!/bin/sh\n")
        (tmp_path / folder / name).chmod(0o755)
    file = tmp_path / "results/prog-1@bare-metal~as-found.json"
    words = ("--software", "--repeats", "1", "--")
    run(tmp_path, *words, str(tmp_path / "a/prog_1"))
    before = file.read_text()
    for other in ("b/prog_1", "a/prog-1"):
        with pytest.raises(AbhError, match="another command's") as caught:
            run(tmp_path, *words, str(tmp_path / other))
        assert "a/prog_1" in str(caught.value.expected) and file.read_text() == before
    run(tmp_path, *words, str(tmp_path / "a/prog_1"))  # the same again is measured anew
    assert file.read_text() != before
    run(tmp_path, "--label", "other", *words, str(tmp_path / "b/prog_1"))
    assert len(list((tmp_path / "results").glob("*.json"))) == 2
    part = file.with_name(f"prog-1@bare-metal~as-found{session.PART}")  # of one that was killed, or runs
    file.unlink()
    part.write_text('{"key": "x", "command": "another"}\n')
    with pytest.raises(AbhError, match="another command's"):
        run(tmp_path, *words, str(tmp_path / "a/prog_1"))


def test_a_vm_is_the_same_however_long_it_is_watched():
    asked = [session._subject(f"abh collect --vm {vm} --seconds {s}") for vm, s in (("a", 3), ("a", 30), ("b", 3))]
    assert asked[0] == asked[1] != asked[2]


@pytest.mark.parametrize(("script", "what"), [("exit 3", "exit status was 3"), ("kill -9 $$", "SIGKILL")])
def test_a_program_that_fails_is_run_once_and_is_a_failure(skylake, tmp_path, script, what):
    assert run(tmp_path, "--repeats", "9", "--", "sh", "-c", script) == 4
    made = result(tmp_path, "sh@bare-metal~as-found")
    assert made.outcome == "failure" and what in made.reason
    assert len(told(skylake)) == 1


def test_a_process_that_is_there_is_counted_from_both_sides(skylake, tmp_path):
    process = subprocess.Popen(["sleep", "60"])
    try:
        run(tmp_path, "--pid", str(process.pid), "--seconds", "0.1", "--repeats", "1", "--event", "dtlb_load_walks")
        values = result(tmp_path, f"pid-{process.pid}@from-host~as-found").values
        assert values["guest_dtlb_load_walks"].value == values["host_dtlb_load_walks"].value == 1000
        assert values["host_memory_kib"].value > 0
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_kernel_without_counters_counts_what_it_can(skylake, tmp_path):
    (tmp_path / "pmus" / "cpu").rmdir()
    run(tmp_path, "--repeats", "1", "--", "true")
    values = result(tmp_path, "true@bare-metal~as-found").values
    assert values["page_faults"].value == 1000
    assert values["cycles"].value is None and "no counters `cpu`" in values["cycles"].reason


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "one thing"),
        (("--pid", "1", "--", "true"), "one thing"),
        (("--seconds", "3", "--", "true"), "until it ends"),
        (("--software", "--event", "cycles", "--", "true"), "--event names"),
        (("--event", "dtlb_load_walk", "--", "true"), "unknown event"),
        (("--name", "A b", "--", "true"), "ill-formed name"),
        (("--", "/nonexistent/program"), "no such program"),
        (("--", "/etc/passwd"), "cannot be run"),
        (("--vm", "x/../y"), "ill-formed name of a domain"),
        (("--pid", "4194303"), "no such process"),
    ],
)
def test_wrong_words_end_before_anything_is_run(skylake, tmp_path, words, what):
    with pytest.raises(AbhError, match=what) as caught:
        run(tmp_path, *words)
    assert caught.value.next_step and not skylake.exists()
    assert not list((tmp_path / "results").glob("*.json*"))


def test_settings_that_change_meanwhile_end_it(skylake, tmp_path, monkeypatch):
    setting = tmp_path / "enabled"
    setting.write_text("always [madvise] never\n")
    monkeypatch.setattr(here, "SETTINGS", (setting,))
    script = f"echo '[always] madvise never' > {setting}"
    with pytest.raises(AbhError, match="settings changed"):
        run(tmp_path, "--software", "--repeats", "3", "--", "sh", "-c", script)
    assert not list((tmp_path / "results").glob("*.json"))


# --- interrupted ------------------------------------------------------------------------------------------------

WRAPPED = """
import sys
from pathlib import Path
from abh import cli
from abh.collect import here, session
here.CPUINFO, here.PMUS, here.WATCHDOG = Path(sys.argv[1], "cpuinfo"), Path(sys.argv[1], "pmus"), Path("/nonexistent")
sys.exit(cli.main(sys.argv[2:]))
"""
COUNT = 'echo run >> "$1"; [ "$(wc -l < "$1")" -ne 2 ] || [ -e "$2" ] || { touch "$2"; exec sleep 6; }'


def started(tmp_path):
    words = ["collect", "--results", str(tmp_path / "results"), "--software", "--repeats", "4", "--name", "slow", "--"]
    words += ["sh", "-c", COUNT, "sh", str(tmp_path / "ran"), str(tmp_path / "slept")]
    return subprocess.Popen(
        [sys.executable, "-c", WRAPPED, str(tmp_path), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(paths.CHECKOUT)},
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_measurement_that_was_ended_goes_on(skylake, tmp_path, number):
    first = started(tmp_path)
    deadline = time.monotonic() + 60
    while not (tmp_path / "slept").exists():
        assert first.poll() is None and time.monotonic() < deadline, first.communicate()
        time.sleep(0.02)
    first.send_signal(number)
    _, err = first.communicate(timeout=60)
    assert first.returncode == (130 if number == signal.SIGTERM else -number), err
    assert not (tmp_path / "results" / "slow@bare-metal~as-found.json").exists()
    kept = tmp_path / "results" / "slow@bare-metal~as-found.part.jsonl"
    kept.write_text(kept.read_text() + '{"repeat": 2, "pas')  # as a power cut may leave it
    second = started(tmp_path)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert "1 of 4 runs were there already" in err
    assert len((tmp_path / "ran").read_text().splitlines()) == 5  # four, and the one that was ended
    assert result(tmp_path, "slow@bare-metal~as-found").values["page_faults"].runs == 4
    assert not kept.exists()
