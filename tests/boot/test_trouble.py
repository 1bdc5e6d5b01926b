# SPDX-License-Identifier: MIT
"""What goes wrong inside a machine is reported as what it is, within a time limit, and leaves nothing behind."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest
from changed import with_sysfs

from abh.study import cell


def broken(name, **changes):
    """A cell with parts of its workload or environment replaced, as workload__argv=(…)."""
    one = cell.Cell.of(name, "smoke")
    for key, value in changes.items():
        part, _, attribute = key.partition("__")
        one = dataclasses.replace(one, **{part: getattr(one, part).model_copy(update={attribute: value})})
    return cell.run(one)


@pytest.fixture(autouse=True)
def nothing_left_behind(running):
    yield
    deadline = time.monotonic() + 30  # a killed process group takes its time to be gone
    while (left := running("qmp,server=on")) and time.monotonic() < deadline:
        time.sleep(0.1)
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if "abh" in line]
    assert not left and not mounts


def test_a_workload_that_hangs_is_a_failure():
    result = broken("sqlite@native~reg", workload__argv=("sleep", "1000"), workload__timeout_s=2)
    assert (result.outcome, "timeout" in result.reason) == ("failure", True)


def test_a_workload_that_is_killed_is_a_failure():
    result = broken("sqlite@native~reg", workload__argv=("sh", "-c", "kill -SEGV $$"))
    assert (result.outcome, "signal 11" in result.reason) == ("failure", True)


def test_a_wrong_answer_is_a_failure():
    result = broken("sqlite@native~reg", workload__argv=("echo", "answer: 0000000000000000"))
    assert (result.outcome, "answer" in result.reason) == ("failure", True)


def test_garbage_from_a_workload_is_a_failure():
    result = broken("sqlite@native~reg", workload__argv=("head", "-c", "300000", "/dev/urandom"))
    assert result.outcome == "failure"


@pytest.mark.parametrize("environment", ["kvm-hap", "xen-hap"])
def test_a_guest_that_goes_away_is_a_crash(environment):
    # As after a panic: the kernel resets the guest, and libvirt is told to destroy a guest that does.
    result = broken(f"sqlite@{environment}~reg", workload__argv=("busybox", "reboot", "-f"))
    assert result.outcome == "crash" and "the guest is gone" in result.reason


def test_a_machine_that_never_ends_is_stopped(monkeypatch):
    monkeypatch.setitem(cell.LIMIT_S, "smoke", 8.0)
    result = broken("sqlite@native~reg", workload__argv=("sh", "-c", "while :; do :; done"), workload__timeout_s=10**6)
    assert result.outcome == "crash" and "time limit" in result.reason


def test_a_machine_that_goes_off_is_a_crash():
    result = broken("sqlite@native~reg", workload__argv=("busybox", "reboot", "-f"))
    assert result.outcome == "crash" and "went off" in result.reason


def test_a_setting_that_is_not_there_is_an_error():
    one = cell.Cell.of("sqlite@native~reg", "smoke")
    result = cell.run(with_sysfs(one, {"/sys/kernel/mm/no-such-knob": "1"}))
    assert result.outcome == "error" and "no-such-knob" in result.reason


def test_a_required_knob_that_is_not_there_is_a_skip():
    one = cell.Cell.of("sqlite@native~reg", "smoke")
    policy = one.policy.model_copy(update={"requires": ("/sys/kernel/mm/no-such-knob",)})
    result = cell.run(dataclasses.replace(one, policy=policy))
    assert result.outcome == "skip" and "no-such-knob" in result.reason
