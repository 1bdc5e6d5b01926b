# SPDX-License-Identifier: MIT
"""Bare-metal images that execute known numbers of instructions and VMRUNs, counted by either plugin.

ABH_QEMU    QEMU's command, with -L options for its firmware: "./qemu-system-x86_64 -L share/seabios -L share/qemu"
ABH_PLUGIN  the built plugin
ABH_MODEL   the built MMU model's plugin, which stands in for it on machines with one processor
ABH_ENTER   optional: a command to put before assembler, linker and QEMU, such as bwrap into the root they were built
            for. "{tmp}" in it becomes the test's own folder, which must be seen inside under the same path.
"""

import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MARKS = HERE.parents[1] / "agent" / "region.h"
ICOUNT = ["-icount", "shift=1,sleep=off"]
PASSED = 2 * 0x10 + 1  # isa-debug-exit's status for PASSED in common.inc
TIMEOUT_S = 300  # seconds when the machine is idle

missing = [name for name in ("ABH_QEMU", "ABH_PLUGIN", "ABH_MODEL") if not os.environ.get(name)]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"not set: {', '.join(missing)}")

SAID = ("region", "instructions", "vmrun", "error")  # what a line of either plugin has, the model's among other things

clocks = pytest.mark.parametrize("clock", [ICOUNT, []], ids=["icount", "real-time"])


class Bench:
    """One test's folder, the images in it, and QEMU on them."""

    def __init__(self, tmp: Path, plugin: str):
        self.tmp = tmp
        self.plugin = plugin
        self.out = tmp / "out.jsonl"
        self.console = tmp / "console"

    def enter(self, argv: list[str]) -> list[str]:
        prefix = [word.replace("{tmp}", str(self.tmp)) for word in shlex.split(os.environ.get("ABH_ENTER", ""))]
        return prefix + argv

    def run(self, argv: list[str]) -> subprocess.CompletedProcess:
        return subprocess.run(self.enter(argv), capture_output=True, text=True, timeout=TIMEOUT_S)

    def image(self, name: str) -> str:
        for source in (f"{name}.S", "common.inc", "svm.inc"):
            shutil.copy(HERE / source, self.tmp)
        source, object_file, image = (str(self.tmp / f"{name}.{kind}") for kind in ("S", "o", "elf"))
        for argv in (
            ["as", "--32", "-I", str(self.tmp), "-o", object_file, source],
            "ld -m elf_i386 -N -Ttext 0x100000 --section-start .multiboot=0xff000 -o".split() + [image, object_file],
        ):
            done = self.run(argv)
            assert done.returncode == 0, f"{shlex.join(argv)}: {done.stderr}"
        return image

    def qemu(self, *options: str, plugin: str | None = "") -> list[str]:
        """QEMU's arguments; plugin is what follows out=PATH, None to leave the plugin out."""
        argv = shlex.split(os.environ["ABH_QEMU"])
        argv += "-machine pc -accel tcg -cpu qemu64,+svm -m 64 -nodefaults -display none -no-reboot".split()
        argv += "-device isa-debug-exit,iobase=0xf4,iosize=4 -device isa-debugcon,chardev=console".split()
        argv += ["-chardev", f"file,id=console,path={self.console}"]
        if plugin is not None:
            argv += ["-plugin", f"{self.plugin},out={self.out}{plugin}"]
        return argv + list(options)

    def boot(self, name: str, *options: str, plugin: str | None = "") -> list[dict]:
        """Boots an image to its end and gives the lines the plugin wrote in this and earlier boots."""
        done = self.run(self.qemu("-kernel", self.image(name), *options, plugin=plugin))
        assert done.returncode == PASSED, f"{name}: status {done.returncode}, want {PASSED}: {done.stderr}"
        return self.lines()

    def lines(self) -> list[dict]:
        lines = [json.loads(line) for line in self.out.read_text().splitlines()] if self.out.exists() else []
        return [{key: value for key, value in line.items() if key in SAID} for line in lines]

    def console_number(self) -> int:
        return struct.unpack("<I", self.console.read_bytes())[0]


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
