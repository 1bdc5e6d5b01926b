# SPDX-License-Identifier: MIT
"""perf: whether it can be had, what it is told, and what the lines that it prints mean.

perf counts a process that is there already (`-p`), switched on through its control pipe. So a program's end, its
exit status and its times are ours to see (of a program that perf starts, a death by a signal reads as status 0), and a
program and a virtual machine that has been running for weeks are counted in one way.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from abh.errors import AbhError

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
CAPABILITIES = (38, 21)  # CAP_PERFMON, CAP_SYS_ADMIN: include/uapi/linux/capability.h
PROBE_S = 30
ACK = b"ack\n"
# perf looks whether the process is still there once a second; a machine under load takes longer.
END_S = 20
NOT_COUNTED = {
    "<not supported>": "this processor or kernel does not count it",
    "<not counted>": "it was never counted: no counter was free, or the process did not run meanwhile",
}
WHOLE = 100.0
_MODIFIER = re.compile(r":[ukhGHIpPSDWe]+$")
_COMMA = re.compile(r"(: \"?\d+),(\d+)")  # a number as some locales write it, which is no JSON either


@dataclass(frozen=True)
class Perf:
    """The program, and how far this user may look."""

    program: str
    version: str
    user_only: bool


@dataclass(frozen=True)
class Reading:
    """What perf says of one event: a number, or why there is none."""

    value: float | None
    reason: str | None = None


def _privileged(status: str) -> bool:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    return found is not None and any(int(found[1], 16) >> each & 1 for each in CAPABILITIES)


def _paranoid() -> int:
    return int(PARANOID.read_text(encoding="ascii")) if PARANOID.exists() else 2


def find(program: str = "perf") -> Perf:
    """perf, once it has counted something; else an error that says what to do."""
    path = shutil.which(program)
    if path is None:
        raise AbhError(
            "perf is not installed",
            got="no program `perf` on PATH",
            next_step="install linux-perf (Debian), linux-tools-generic (Ubuntu) or perf (Fedora)",
        )
    words = [path, "stat", "-j", "-o", os.devnull, "-e", "task-clock", "--", "true"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_S, check=False)
    if done.returncode:
        raise _refused(path, done.stderr)
    told = subprocess.run([path, "version"], capture_output=True, text=True, timeout=PROBE_S, check=False).stdout
    version = told.removeprefix("perf version").strip() or "unknown"
    limited = not _privileged(Path("/proc/self/status").read_text(encoding="ascii")) and _paranoid() >= 2
    return Perf(path, version, limited)


def _refused(path: str, said: str) -> AbhError:
    """Why perf counted nothing."""
    tail = "\n".join(said.strip().splitlines()[:6])
    if "unknown switch" in said:
        return AbhError(
            "this perf is too old to print JSON",
            where=path,
            got=tail.splitlines()[0].strip(),
            expected="`perf stat -j`, which perf has since Linux 6.0",
            next_step="install a newer one: perf need not be of the kernel's version",
        )
    if re.search(r"not found for kernel|linux-tools-", said):
        return AbhError(
            "perf is not installed for this kernel", where=path, tail=tail, next_step="install it as it says"
        )
    if "perf_event_paranoid" in said or "ermission" in said or "No permission" in said:
        return AbhError(
            "this user may not count events",
            where=PARANOID,
            got=f"{_paranoid()}",
            expected="2 or less, or root, or CAP_PERFMON",
            next_step="sudo sysctl kernel.perf_event_paranoid=2, or run this as root",
            tail=tail,
        )
    return AbhError("perf does not work here", where=path, tail=tail or None, next_step="run `perf stat true` by hand")


def parse(text: str, names: Iterable[str]) -> dict[str, Reading]:
    """What perf's JSON lines say of each of these events."""
    found: dict[str, Reading] = {}
    wanted = list(names)
    for line in text.splitlines():
        table = _table(line)
        name = _MODIFIER.sub("", str(table.get("event", "")))
        if name not in wanted or "counter-value" not in table:
            continue  # a comment, an event's second metric, or what was not asked for
        if name in found:
            raise AbhError("perf counted one event twice", where=name, got=line, next_step="report this, with the line")
        found[name] = reading(table)
    return {name: found.get(name, Reading(None, "perf printed nothing of it")) for name in wanted}


def _table(line: str) -> Mapping[str, object]:
    if not line.startswith("{"):
        return {}
    try:
        table = json.loads(_COMMA.sub(r"\1.\2", line) if _COMMA.search(line) else line)
    except ValueError as error:
        raise AbhError(
            "perf printed a line that is no JSON", got=line, expected=str(error), next_step="report this, with the line"
        ) from None
    return table if isinstance(table, dict) else {}


def reading(table: Mapping[str, object]) -> Reading:
    """What one line says; what was counted for a part of the time only is no count."""
    said = str(table["counter-value"])
    if said in NOT_COUNTED:
        return Reading(None, NOT_COUNTED[said])
    share = float(str(table.get("pcnt-running", WHOLE)))
    if share < WHOLE:
        return Reading(
            None, f"counted {share:.4g} % of the time only, others having the counters: what perf adds is an estimate"
        )
    return Reading(float(said))


class Counting:
    """perf beside a process, switched on; `end()` says what it counted."""

    def __init__(self, process: subprocess.Popen[bytes], pipes: tuple[int, int], out: Path, errors: Path) -> None:
        self._process, self._out, self._errors = process, out, errors
        self._control, self._answer = pipes

    def end(self, names: Sequence[str]) -> dict[str, Reading]:
        """Switches it off, if the process has not done so by ending."""
        if _ask(self._control, self._answer, b"disable\n"):  # else the process has ended, and perf with it
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise AbhError("perf does not end", got=f"still there after {END_S} s", tail=self.said()) from None
        # A perf that was killed has written no file.
        text = self._out.read_text(encoding="utf-8", errors="replace") if self._out.exists() else ""
        if not any(line.startswith("{") for line in text.splitlines()):
            raise AbhError("perf counted nothing", tail=self.said(), next_step="run `perf stat true` by hand")
        return parse(text, names)

    def said(self) -> str:
        """perf's own words."""
        return self._errors.read_text(encoding="utf-8", errors="replace").strip()


@contextmanager
def counting(perf: Perf, pid: int, events: Sequence[str]) -> Iterator[Counting]:
    """perf, counting a process and what it starts from then on; gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="abh-perf-") as folder:
        out, errors = Path(folder, "out"), Path(folder, "errors")
        told, control = os.pipe()
        answer, acks = os.pipe()
        words = [perf.program, "stat", "-j", "-o", str(out), "-D", "-1", "--control", f"fd:{told},{acks}"]
        words += [word for event in events for word in ("-e", event)]
        try:
            with errors.open("wb") as stderr:
                process = subprocess.Popen(
                    [*words, "-p", str(pid)],
                    stdin=subprocess.DEVNULL,
                    stdout=stderr,
                    stderr=stderr,
                    pass_fds=(told, acks),
                    start_new_session=True,  # a Ctrl-C is ours to hand on
                )
            os.close(told)
            os.close(acks)
            try:
                if not _ask(control, answer, b"enable\n"):
                    raise _attach_failed(pid, errors.read_text(encoding="utf-8", errors="replace"))
                yield Counting(process, (control, answer), out, errors)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        finally:
            os.close(control)
            os.close(answer)


def _ask(control: int, answer: int, word: bytes) -> bool:
    """Tells perf something; whether it has heard. The end of the pipe, or nothing in time: it has not."""
    try:
        os.write(control, word)
    except BrokenPipeError:
        return False
    ready, _, _ = select.select([answer], [], [], END_S)
    return bool(ready) and os.read(answer, 64).startswith(ACK)


def _attach_failed(pid: int, said: str) -> AbhError:
    return AbhError(
        "perf does not count this process",
        where=f"process {pid}",
        tail="\n".join(said.strip().splitlines()[:8]) or None,
        next_step="is it still there, and yours? else run this as root",
    )
