# SPDX-License-Identifier: MIT
"""Bare-metal images that execute known numbers of instructions and VMRUNs, counted by either plugin."""

import json
import os
import re
import shutil
import subprocess
import time

import pytest
from programs import HERE, ICOUNT, PASSED, TIMEOUT_S, Bench, needed

MARKS = HERE.parents[1] / "agent" / "region.h"
pytestmark = needed

clocks = pytest.mark.parametrize("clock", [ICOUNT, []], ids=["icount", "real-time"])


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path, os.environ["ABH_PLUGIN"])


@pytest.fixture(params=["region", "model"])
def each(request, tmp_path):
    """With either plugin."""
    model = f"{os.environ['ABH_MODEL']},stack=hvm,cpu=i7-3770"
    return Bench(tmp_path, model if request.param == "model" else os.environ["ABH_PLUGIN"])


def counts(*regions: tuple[int, int]) -> list[dict]:
    return [
        {"region": number, "instructions": instructions, "vmrun": vmrun}
        for number, (instructions, vmrun) in enumerate(regions, 1)
    ]


@clocks
def test_instructions_are_counted_exactly(each, clock):
    # With -icount QEMU starts a string instruction anew for each repetition, and once to find none left.
    repetitions = 501 if clock else 1
    assert each.boot("count", *clock) == counts(
        (0, 0), (2001, 0), (1 + 100 * 7, 0), (3 + repetitions, 0), (7, 0), (10005, 0)
    )


def test_virtual_time_and_count_agree(bench):
    bench.boot("count", *ICOUNT)
    # shift=1: two nanoseconds, thus two ticks of the emulated counter, an instruction; one RDTSC to the other.
    assert bench.console_number() == 2 * (10005 - 2)


def test_virtual_time_is_the_same_without_the_plugin(bench):
    bench.boot("count", *ICOUNT)
    with_plugin = bench.console_number()
    bench.boot("count", *ICOUNT, plugin=None)
    assert bench.console_number() == with_plugin


@clocks
def test_vmruns_are_counted_exactly(each, clock):
    assert each.boot("svm", *clock) == counts((4001, 1000), (4, 0), (8, 1), (2, 1))


@clocks
def test_an_injected_interrupt_is_taken_once(bench, clock):
    bench.boot("inject", *clock)
    assert bench.console_number() == 1


@pytest.mark.parametrize("options", [ICOUNT, ["-accel", "tcg,thread=multi"]], ids=["icount", "multi-thread"])
def test_all_vcpus_are_counted(bench, options):
    (line,) = bench.boot("smp", "-smp", "2", *options)
    first = 1 + 4 * bench.console_number()
    second = 3 + 20000 * 2 + 2
    # Threads race to the second vCPU's last instruction, HLT; taking turns it always executes it.
    allowed = {first + second} if options == ICOUNT else {first + second, first + second - 1}
    assert line["instructions"] in allowed


def test_marks_that_do_not_fit_are_errors(each):
    assert each.boot("mismatch") == [
        {"region": 1, "error": "end without a begin"},
        {"region": 3, "error": "begin inside a region"},
        {"region": 4, "error": "end without a begin"},
        {"region": 5, "instructions": 1, "vmrun": 0},
        {"region": 6, "error": "begin without an end"},
    ]


def test_output_is_appended(each):
    each.boot("svm")
    assert len(each.boot("svm")) == 2 * 4


def test_counts_after_a_restore(each):
    state = each.tmp / "state"
    machine = ["-serial", "null", "-qmp", "stdio", *ICOUNT, "-kernel", each.image("restore")]

    with Qmp(each, each.qemu(*machine, plugin=None)) as source:
        source.wait_for(lambda: each.console.exists() and each.console.read_bytes() == b"W")
        source.command("stop")
        source.command("migrate", uri=f"file:{state}")
        source.wait_for(lambda: source.command("query-migrate").get("status") == "completed")

    with Qmp(each, each.qemu(*machine, "-incoming", f"file:{state}")) as target:
        target.wait_for(lambda: target.command("query-status")["status"] != "inmigrate")
        target.command("cont")
        target.command("human-monitor-command", **{"command-line": "o /b 0x3ff 0x42"})
        assert target.process.wait(TIMEOUT_S) == PASSED
    assert each.lines() == counts((601, 0))


class Qmp:
    """QEMU with its control socket on standard input and output."""

    def __init__(self, bench: Bench, argv: list[str]):
        self.process = subprocess.Popen(
            bench.enter(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self):
        assert "QMP" in json.loads(self.process.stdout.readline())
        self.command("qmp_capabilities")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(TIMEOUT_S)
        self.process.stdin.close()
        self.process.stdout.close()

    def command(self, name: str, **arguments):
        self.process.stdin.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        while True:
            answer = json.loads(self.process.stdout.readline())
            if "event" not in answer:
                assert "return" in answer, f"{name}: {answer}"
                return answer["return"]

    def wait_for(self, condition):
        end = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < end, f"nothing after {TIMEOUT_S} s"
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("extra", "message"),
    [(",count=tb", 'unknown argument "count=tb"'), (",out=/tmp/two", "out= given twice")],
)
def test_a_wrong_argument_is_refused(bench, extra, message):
    done = bench.run(bench.qemu(plugin=extra))
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    ("plugin", "message"), [("", "no output file"), (",out=/nowhere/file", "cannot open /nowhere/file")]
)
def test_an_unusable_output_is_refused(bench, plugin, message):
    done = bench.run(bench.qemu(plugin=None) + ["-plugin", os.environ["ABH_PLUGIN"] + plugin])
    assert done.returncode == 1
    assert message in done.stderr


def test_a_full_disk_is_reported(each):
    plugin = ["-plugin", f"{each.plugin},out=/dev/full"]
    done = each.run(each.qemu("-kernel", each.image("svm"), *plugin, plugin=None))
    assert "the counts of region 1 are lost" in done.stderr


def test_the_images_use_the_agents_marks(bench):
    marks = dict(re.findall(r"#define (ABH_REGION_\w+)\s+(0x\w+)", MARKS.read_text()))
    common = (HERE / "common.inc").read_text()
    assert f"nopl {marks['ABH_REGION_BEGIN']}(%eax)" in common
    assert f"nopl {marks['ABH_REGION_END']}(%eax)" in common


def test_the_agents_helpers_are_the_marks(bench):
    """The C helpers compile, with optimisation and statically, to the bytes the plugin looks for."""
    shutil.copy(MARKS, bench.tmp)
    program = bench.tmp / "program.c"
    program.write_text('#include "region.h"\nint main(void) { abh_region_begin(); abh_region_end(); return 0; }\n')
    built = bench.tmp / "program"
    done = bench.run(["cc", "-O2", "-static", "-Wall", "-Werror", "-o", str(built), str(program)])
    assert done.returncode == 0, done.stderr
    code = built.read_bytes()
    assert b"\x0f\x1f\x80\x01hba\x0f\x1f\x80\x02hba" in code
    assert bench.run([str(built)]).returncode == 0
