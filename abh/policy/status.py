# SPDX-License-Identifier: MIT
"""A table of the VMs of a host: what of their memory is huge, in the guest, on the host, and in both at once."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from abh.errors import AbhError
from abh.policy import apply, binding, domain, guest, trend, verify
from abh.policy.evidence import Evidence, Shares
from abh.policy.memory import Unreadable
from abh.schema.policy import Policy

# All arbitrary. A guest of 64 GiB, the largest that is looked at, tells 128 MiB.
TABLE_S = 30.0  # for all guests of the table
GUEST_S = 20.0  # for one
END_S = 3.0  # for what is under way to close its files, after that
WORKERS = 16  # libvirt's daemon serves 20 requests at a time: others must get through, too
SHARED_WORKERS = 5  # of one connection

METRICS = {
    "mapped_kib": ("abh_vm_mapped_bytes", "Guest memory that the host has mapped."),
    "host_huge_kib": ("abh_vm_host_huge_bytes", "Of that, in hugepages of the host's."),
    "guest_used_kib": ("abh_vm_guest_used_bytes", "Memory of the guest's programs, as the guest says."),
    "guest_huge_kib": ("abh_vm_guest_huge_bytes", "Of that, in hugepages of the guest's."),
    "both_kib": ("abh_vm_both_huge_bytes", "In hugepages of guest and host at once."),
}
OFF = "it does not run"
STATES: tuple[verify.State, ...] = ("granted", "denied", "unknown")


@dataclass(frozen=True)
class Row:
    """One VM."""

    vm: str
    uuid: str
    running: bool
    paging: str | None
    policy: str | None
    counts: dict[str, int]  # of its policy's settings, by state
    shares: Shares

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        shares = self.shares
        return {
            "vm": self.vm,
            "uuid": self.uuid,
            "running": self.running,
            "paging": self.paging,
            "policy": self.policy,
            "settings": self.counts,
            **{name: getattr(shares, name) for name in METRICS},
            "guest_share": shares.guest_share,
            "host_share": shares.host_share,
            "aligned_share": shares.aligned_share,
            "reasons": list(shares.reasons),
        }


def rows(connection: Any) -> list[Row]:
    """All domains of the connection, by name, but those that have gone while they were looked at.

    What is wrong with one, or what it says, is in its own row. The guests are asked side by side, before the rest.
    """
    looks = [_Look(one) for one in domain.every(connection)]
    _ask([each for each in looks if each.asks], connection)
    return [row for each in looks if (row := each.row()) is not None]


class _Look:
    """At one VM: what it has, what its guest is to be asked, and its row."""

    def __init__(self, one: domain.Domain) -> None:
        self.seen = Evidence(one)
        self.one = one
        self.policy: Policy | None = None
        self.unread = ""  # why there is no policy, where there is one
        self.gone = False
        self.fault = ""
        self.asks = False
        self.asked = False
        with self._watched():
            if self.seen.running:
                _ = self.seen.tree
                self.asks = True
                with contextlib.suppress(Unreadable):
                    _ = self.seen.blocks  # before its guest is asked: answering, that touches memory
            try:
                self.policy = one.policy()
            except binding.NoDomain:
                raise
            except AbhError as error:
                self.unread = f"({error.what})"

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except binding.NoDomain:
            self.gone = True
        except Exception as error:  # whatever it is: the other VMs are looked at all the same
            self.fault = _words(error)

    def ask(self, connection: Any, until: float, over: threading.Event) -> None:
        """Has the guest say all that is asked of it; what it says, or why it does not, the evidence keeps."""
        seen, switches = self.seen, self.policy.guest.sysfs if self.policy else ()
        patience_s = max(2.0, min(GUEST_S, until - time.monotonic()))
        try:
            seen.agent = guest.Agent(domain.find(connection, self.one.uuid), patience_s, over)
            with contextlib.suppress(Unreadable):
                _ = seen.frames
            for path in switches:
                with contextlib.suppress(Unreadable):
                    seen.switch(path)
        except binding.NoDomain:
            self.gone = True
        except Exception as error:  # whatever a guest has done to that: what the host knows is told all the same
            seen.ask_no_more(_words(error))
        self.asked = True

    def row(self) -> Row | None:
        """None of one that has gone."""
        made = None
        if not self.gone and not self.fault:
            with self._watched():
                made = self._row()
        if self.gone:
            return None
        running = self.seen.__dict__.get("running", False)  # not known where that is what failed
        shares = Shares(reasons=(self.fault,))
        return made or Row(self.one.name, self.one.uuid, running, None, self.unread or None, {}, shares)

    def _row(self) -> Row:
        seen, counts = self.seen, {}
        if self.policy and seen.running:
            states = [each.answer.state for each in verify.findings(self.policy, seen)]
            counts = {str(state): states.count(state) for state in STATES}
        shares = seen.shares() if seen.running else Shares(reasons=(OFF,))
        if earlier := apply.earlier(self.one, of_policy=True):
            shares = replace(shares, reasons=(*shares.reasons, earlier))
        paging = _paging(seen) if seen.running else None
        name = self.policy.name if self.policy else self.unread or None
        return Row(self.one.name, self.one.uuid, seen.running, paging, name, counts, shares)


def _words(error: Exception) -> str:
    if isinstance(error, AbhError):
        return guest.plain(": ".join(str(word) for word in (error.what, error.got) if word))
    return guest.plain(f"abh could not look at it: {type(error).__name__}: {error}")


def _ask(looks: Sequence[_Look], connection: Any) -> None:
    """Asks the guests side by side, all of them within TABLE_S: who is silent or slow costs only his own numbers.

    When the time is over, or the user has had enough, they ask no more and close what they have open in the guests. The
    threads are daemons: one that waits for libvirt then holds up nobody.
    """
    until = time.monotonic() + TABLE_S
    over = threading.Event()
    why = [f"no answer within {TABLE_S:.0f} s"]
    waiting: queue.SimpleQueue[_Look] = queue.SimpleQueue()
    ended: queue.SimpleQueue[threading.Thread] = queue.SimpleQueue()
    for each in looks:
        waiting.put(each)

    def work() -> None:
        try:
            with _of_its_own(connection) as mine, contextlib.suppress(queue.Empty):
                while time.monotonic() < until and not over.is_set():
                    waiting.get_nowait().ask(mine, until, over)
        except AbhError as error:
            why.append(_words(error))
        finally:
            ended.put(threading.current_thread())

    number = WORKERS if binding.is_local(connection) else SHARED_WORKERS
    threads = {threading.Thread(target=work, daemon=True) for _ in range(min(number, len(looks)))}
    for thread in threads:
        thread.start()
    try:
        _wait(threads, ended, until)
    finally:
        over.set()
        _wait(threads, ended, time.monotonic() + END_S)
    for each in looks:
        if not each.asked:
            each.seen.ask_no_more(why[-1])


def _wait(threads: set[threading.Thread], ended: queue.SimpleQueue[threading.Thread], until: float) -> None:
    """Until all have ended, or the time is over. Not by join(): before Python 3.13, a thread that is being joined when
    a signal comes counts as one that has ended."""
    with contextlib.suppress(queue.Empty):
        while threads:
            threads.discard(ended.get(timeout=max(0.0, until - time.monotonic())))


@contextlib.contextmanager
def _of_its_own(connection: Any) -> Iterator[Any]:
    """Another connection to the same libvirt, which serves only five requests of one at a time; over a network, the
    same, as each might ask for a password."""
    if not binding.is_local(connection):
        yield connection
        return
    with binding.connection(str(connection.getURI())) as made:
        yield made


def _paging(seen: Evidence) -> str | None:
    try:
        return seen.paging[0]
    except Unreadable:
        return None


def table(found: Sequence[Row], before: trend.Look) -> str:
    """For people. What is not known is n/a; a trend is since an earlier look."""
    heads = ("VM", "guest", "host", "both", "trend", "paging", "policy", "granted", "denied", "unknown")
    lines: list[tuple[str, ...]] = [heads]
    for row in found:
        shares = row.shares
        lines.append(
            (
                guest.plain(row.vm),
                _share(shares.guest_share),
                _share(shares.host_share),
                _share(shares.aligned_share),
                _trend(before.change_kib(row.uuid, shares)),
                row.paging or "n/a",
                row.policy or "(none)",
                *(str(row.counts[state]) if row.counts else "" for state in STATES),
            )
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    text = ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    first = "n/a at the first look at these VMs; the next one has it"
    text += ["", f"trend: {f'since {before.when}' if before.when else first}"]
    notes = [f"{guest.plain(row.vm)}: {reason}" for row in found for reason in row.shares.reasons if reason != OFF]
    return "\n".join([*text, *notes])


def _share(share: float | None) -> str:
    return "n/a" if share is None else f"{share:.0%}"


def _trend(change_kib: int | None) -> str:
    if change_kib is None:
        return "n/a"
    return "=" if change_kib == 0 else f"{change_kib / 1024:+.0f} MiB"


def prometheus(found: Sequence[Row]) -> str:
    """For the textfile collector of Prometheus' node exporter. What is not known has no sample."""
    lines = []
    for name, (metric, text) in METRICS.items():
        lines += [f"# HELP {metric} {text}", f"# TYPE {metric} gauge"]
        lines += [
            f"{metric}{{{_labels(row)}}} {value * 1024}"
            for row in found
            if (value := getattr(row.shares, name)) is not None
        ]
    lines += ["# HELP abh_vm_settings Settings of the VM's policy, by state.", "# TYPE abh_vm_settings gauge"]
    lines += [
        f'abh_vm_settings{{{_labels(row)},state="{state}"}} {count}'
        for row in found
        for state, count in row.counts.items()
    ]
    return "".join(f"{line}\n" for line in lines)


def _labels(row: Row) -> str:
    values = {"vm": row.vm, "uuid": row.uuid, "policy": row.policy or ""}
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
