# SPDX-License-Identifier: MIT
"""All processes of a workload are counted, in a native system: children, servers left behind, and forks without end."""

from __future__ import annotations

import dataclasses

from counted import number

from abh.schema.result import Result
from abh.study import cell

MIB = 32
PAGES = MIB * 256
TOUCH = f"""
import mmap, os, signal, time
def touch():
    memory = mmap.mmap(-1, {MIB} << 20)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, len(memory), 4096):
        memory[at] = 1
"""
# The kernel reaps a child by itself if the parent ignores its end, and adds what was counted of it to nobody.
IGNORED = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if not os.fork():
    touch()
    os._exit(0)
try:
    os.wait()
except ChildProcessError:
    pass
"""
# Each ends when told to by the agent alone; the first waits until both have their memory.
TWO_SERVERS = """
ready, done = os.pipe()
for _ in range(2):
    if not os.fork():
        os.setsid()
        memory = bytearray(20 << 20)
        memory[::4096] = b"x" * len(memory[::4096])
        os.write(done, b"x")
        time.sleep(10000)
os.read(ready, 1), os.read(ready, 1)
time.sleep(0.2)
"""
# Has its memory until it has been idle for some seconds. Private: what is shared is a file's, and not counted.
SHRINKS = f"""
ready, done = os.pipe()
if not os.fork():
    os.setsid()
    memory = mmap.mmap(-1, {2 * MIB} << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, len(memory), 4096):
        memory[at] = 1
    os.write(done, b"x")
    time.sleep(5)
    memory.close()
    time.sleep(10000)
os.read(ready, 1)
"""


def run(program: str, **more: object) -> Result:
    made = cell.Cell.of("cpython@native~thp", "smoke")
    argv = ("python3", "-c", f"exec({TOUCH + program!r})")  # a cell's words are lines
    workload = made.workload.model_copy(update={"argv": argv, "answer": None, "metric": {}, **more})
    return cell.run(dataclasses.replace(made, workload=workload))


def test_children_whose_end_is_ignored_are_counted():
    result = run(IGNORED)
    assert PAGES < number(result, "minor_faults") < PAGES + 5000
    assert number(result, "processes_left") == 0
    assert number(result, "rss_peak_kib") > MIB * 1024, "by samples: their own peaks are lost with them"


def test_servers_that_are_left_are_counted_together():
    result = run(TWO_SERVERS)
    assert number(result, "processes_left") == 2
    assert number(result, "rss_peak_kib") > 40 * 1024


def test_what_is_left_is_looked_at_when_it_has_had_nothing_to_do():
    result = run(SHRINKS, idle=True)
    assert result.outcome == "success", result.reason
    early, late = number(result, "memory_idle_1s_kib"), number(result, "memory_idle_10s_kib")
    assert 2 * MIB * 1024 < early < number(result, "memory_peak_kib") + 64
    assert abs(early - late - 2 * MIB * 1024) < 1024
    assert number(result, "elapsed") < 2, "the time after the first process's end is not its own"


def test_a_service_that_is_gone_when_it_is_to_be_idle_is_a_failure():
    result = run("pass", idle=True)
    assert (result.outcome, "left no process" in str(result.reason)) == ("failure", True)


def test_forks_without_end_are_ended_when_the_time_is_up():
    result = run("while True: time.sleep(0.01 if os.fork() else 10000)", timeout_s=3)
    assert (result.outcome, "timeout" in str(result.reason)) == ("failure", True)
    assert (result.values["processes_left"].value or 0) > 50


def test_redis_is_left_and_it_is_its_memory_that_is_counted():
    result = cell.run(cell.Cell.of("redis@native~thp", "smoke"))
    assert result.outcome == "success", result.reason
    assert number(result, "processes_left") == 1
    assert number(result, "rss_peak_kib") > 30 * 1024, "20,000 values of 1 KiB; the client has some 2 MiB"
    assert number(result, "huge_faults") > 5
