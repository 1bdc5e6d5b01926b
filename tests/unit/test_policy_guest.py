# SPDX-License-Identifier: MIT
"""What a guest says of itself, honest and not, and the table of all VMs."""

from __future__ import annotations

import base64
import json
import signal
import struct
import threading
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abh import cli
from abh.errors import Status
from abh.policy import binding, domain, guest, memory, status, trend
from abh.policy.evidence import Shares
from abh.policy.memory import HUGE, Range, Unreadable
from tests.unit.test_policy_seen import BASE, UUID, machine

__all__ = ["machine"]  # a fixture

IOMEM = "00001000-0009ffff : System RAM\n00100000-{:08x} : System RAM\n  01000000-01ffffff : Kernel code\n"


class Agent(guest.Agent):
    """An agent that has these files."""

    def __init__(self, files: dict[str, bytes], step: int = 1 << 20) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self.files = files
        self.step = step  # it gives no more at once
        self.at = 0

    def _send(self, command, arguments, timeout_s):
        if command == "guest-file-open":
            if arguments["path"] not in self.files:
                raise Unreadable("no such file")
            self.path, self.at = arguments["path"], 0
            return 7
        if command == "guest-file-seek":
            self.at = arguments["offset"]
        if command == "guest-file-read":
            piece = self.files[self.path][self.at : self.at + min(self.step, arguments["count"])]
            self.at += len(piece)
            return {"buf-b64": base64.b64encode(piece).decode(), "eof": not piece, "count": len(piece)}
        return {}


def raising(error):
    def answer(*_):
        raise error

    return answer


def flags_of(kib: int, huge: set[int], *, anonymous: bool = True) -> bytes:
    words = []
    for frame in range(kib // 4):
        inside = frame // 512 in huge
        words.append((guest.ANONYMOUS if anonymous and inside else 0) | (guest.TRANSPARENT if inside else 0))
    return struct.pack(f"<{len(words)}Q", *words)


def test_a_guests_hugepages_are_counted_where_they_are():
    files = {"/proc/iomem": IOMEM.format((16 << 20) - 1).encode(), "/proc/kpageflags": flags_of(16384, {1, 3, 7})}
    found = guest.frames(Agent(files), 16384)
    assert found.huge == {2 << 20, 6 << 20, 14 << 20} and found.anonymous_kib == 3 * 2048 and found.top == 16 << 20
    files["/proc/kpageflags"] = flags_of(16384, {1}, anonymous=False)  # of files, not of programs
    assert guest.frames(Agent(files), 16384).huge == frozenset()


@pytest.mark.parametrize(
    "iomem",
    ["", "0-0 : System RAM", "00000000-00000000 : System RAM\n", "00001000-ffffffffffff : System RAM\n",
     "00001000-00ffffff : System RAM\n00002000-00ffffff : System RAM\n", "\x00\xff" * 100,
     "00005000-00001000 : System RAM\n", "00800000-00900000 : System RAM\n00001000-00002000 : System RAM\n",
     "ffffffffffff0000-ffffffffffff0fff : System RAM\n", "10000000000000-10000000000fff : System RAM\n",
     f"{'f' * 99999}0-{'f' * 99999}1 : System RAM\n"],
)  # fmt: skip
def test_memory_that_a_guest_does_not_have_is_not_believed(iomem):
    files = {"/proc/iomem": iomem.encode("latin-1"), "/proc/kpageflags": b""}
    with pytest.raises(Unreadable):
        guest.frames(Agent(files), 16384)


def test_an_address_above_4_gib_is_behind_what_is_below_the_hole():
    gib = 1 << 20  # in KiB
    frames = guest.Frames(0, frozenset(), 6 << 30)  # 5 GiB: 3 below, 2 above
    assert guest.offset_of(0x1000, frames, 5 * gib) == 0x1000
    assert guest.offset_of(4 << 30, frames, 5 * gib) == 3 << 30
    assert guest.offset_of((6 << 30) - 1, frames, 5 * gib) == (5 << 30) - 1


@given(st.binary(max_size=200))
def test_whatever_a_guest_answers_is_an_answer_or_unreadable(text):
    handle = SimpleNamespace()
    agent = guest.Agent(SimpleNamespace(handle=handle))  # type: ignore[arg-type]
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(
            guest.binding, "qemu", lambda: SimpleNamespace(qemuAgentCommand=lambda *_: text.decode("latin-1"))
        )
        for do in (lambda: agent.text_of("/x"), lambda: guest.frames(agent, 4096), lambda: agent.write("/x", "1")):
            try:
                do()
            except Unreadable as error:
                assert str(error).isprintable()


ADDRESS = st.one_of(st.integers(0, 1 << 14).map(lambda page: page << 12), st.integers(0, 1 << 70))
LINE = st.tuples(ADDRESS, ADDRESS, st.sampled_from(["System RAM", "Reserved"]))


@given(st.lists(LINE, max_size=6), st.binary(max_size=40000), st.integers(1, 5000))
def test_whatever_memory_a_guest_claims_is_within_what_it_has_or_unreadable(lines, flags, step):
    """An account in form, of any addresses, told in pieces of any size."""
    iomem = "".join(f"{start:08x}-{end:08x} : {what}\n" for start, end, what in lines).encode()
    agent = Agent({"/proc/iomem": iomem, "/proc/kpageflags": flags}, step)
    try:
        found = guest.frames(agent, 16384)
    except Unreadable as error:
        assert str(error).isprintable()
    else:
        assert found.anonymous_kib <= 16384 and len(found.huge) * (HUGE >> 10) <= 16384
        assert all(0 <= at < found.top <= guest.ADDRESSES for at in found.huge)
        assert all(isinstance(guest.offset_of(at, found, 16384), int) for at in found.huge)


@given(st.binary(max_size=9000), st.integers(0, 1030))
def test_frames_are_counted_as_the_kernel_documents_their_flags(flags, first):
    """By whole bytes, as it is done, and one by one."""
    words = struct.unpack(f"<{len(flags) // 8}Q", flags[: len(flags) // 8 * 8])
    one_by_one = sum(word & (guest.ANONYMOUS | guest.HUGETLB) != 0 for word in words)
    assert guest._count(flags[: len(words) * 8], first, set()) == one_by_one


@pytest.mark.parametrize("step", [1 << 20, 4096 * 8, 1000 * 8, 8 * 511])
def test_a_hugepage_that_is_told_in_pieces_is_one(step):
    files = {"/proc/iomem": IOMEM.format((16 << 20) - 1).encode(), "/proc/kpageflags": flags_of(16384, {1, 2, 7})}
    found = guest.frames(Agent(files, step), 16384)
    assert found.huge == {2 << 20, 4 << 20, 14 << 20} and found.anonymous_kib == 3 * 2048


def test_a_terminal_is_not_moved_by_what_a_guest_says():
    agent = Agent({"/x": b"\x1b[2Jalways\r\n" + b"y" * 9000})
    assert agent.text_of("/x").isprintable() and len(agent.text_of("/x")) == 500


def test_lies_about_the_guests_hugepages_make_nothing_huge_on_the_host(machine, monkeypatch):
    """Both is what the guest says and the host has: the host's part is not asked of the guest."""
    monkeypatch.setattr(memory, "ranges", lambda *_: [Range(BASE, BASE + HUGE)])
    seen = machine.seen()
    everything = frozenset(range(0, 4096 << 10, HUGE))
    seen._said["frames"] = guest.Frames(4096, everything, 4096 << 10)
    assert seen.shares().both_kib == 0 and seen.shares().guest_huge_kib == 4096


def test_two_addresses_of_a_guest_that_are_one_place_count_once(machine, monkeypatch):
    monkeypatch.setattr(memory, "ranges", lambda *_: [Range(BASE, BASE + 2 * HUGE, huge=True)])
    seen = machine.seen()
    seen._said["frames"] = guest.Frames(8192, frozenset({0, 4 << 30}), (4 << 30) + (4096 << 10))
    assert seen.shares().both_kib == 2048


def test_a_guest_that_answers_slowly_is_not_waited_for_without_end(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(guest.time, "monotonic", lambda: now[0])
    asked = []

    def answer(*words):
        asked.append(words)
        now[0] += 4.9  # within the time of one answer
        return json.dumps({"return": {"buf-b64": base64.b64encode(b"x").decode(), "eof": False}})

    monkeypatch.setattr(guest.binding, "qemu", lambda: SimpleNamespace(qemuAgentCommand=answer))
    agent = guest.Agent(SimpleNamespace(handle=None))  # type: ignore[arg-type]
    with pytest.raises(guest.NoAgent, match="not told all within 60 s"):
        list(agent._read(7, 1 << 20))
    assert 12 <= len(asked) <= 14


class Slow:
    """An agent that gives a piece in half a second, without end; what it was asked, and when."""

    def __init__(self, monkeypatch) -> None:
        self.now = 0.0
        self.asked: list[tuple[str, float, int]] = []
        self.fails_at = ""
        monkeypatch.setattr(guest.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(guest.binding, "qemu", lambda: SimpleNamespace(qemuAgentCommand=self.answer))

    def answer(self, _handle, request, timeout, _flags):
        command = json.loads(request)["execute"]
        self.asked.append((command, self.now, timeout))
        self.now += 0.5
        if command == self.fails_at:
            error = binding.load().libvirtError("silent")
            error.err = (binding.load().VIR_ERR_AGENT_UNRESPONSIVE, 0, "it does not answer")
            raise error
        given = {"buf-b64": base64.b64encode(b"x").decode(), "eof": False}
        return json.dumps({"return": 7 if command == "guest-file-open" else given})

    def commands(self) -> list[str]:
        return [command for command, _, _ in self.asked]


def test_a_file_of_a_guest_is_closed_also_when_patience_is_at_an_end(monkeypatch):
    slow = Slow(monkeypatch)
    agent = guest.Agent(SimpleNamespace(handle=None), patience_s=5)  # type: ignore[arg-type]
    with pytest.raises(guest.NoAgent, match="not told all within 5 s"):
        agent.bytes_of("/x")
    assert slow.asked[-1] == ("guest-file-close", 4.0, guest.CLOSE_S)
    assert slow.commands().count("guest-file-close") == 1
    agent.until = -1.0  # over, as after the seek of one who was slower still
    with pytest.raises(guest.NoAgent), agent._file("/x", "r"):
        raise AssertionError("nothing is opened then")
    assert slow.commands().count("guest-file-open") == 1


def test_an_agent_that_is_silent_is_not_asked_to_close(monkeypatch):
    slow = Slow(monkeypatch)
    slow.fails_at = "guest-file-read"
    with pytest.raises(guest.NoAgent, match="does not answer"):
        guest.Agent(SimpleNamespace(handle=None)).bytes_of("/x")  # type: ignore[arg-type]
    assert slow.commands() == ["guest-file-open", "guest-file-read"]


# --- status -----------------------------------------------------------------------------------------------------

COUNTS = {"granted": 0, "denied": 1, "unknown": 0}


def row(**options) -> status.Row:
    told = {"vm": 'a"\n\\b', "uuid": UUID, "running": True, "paging": None, "policy": None, "counts": COUNTS}
    return status.Row(**{**told, "shares": Shares(4096, 2048, None, None, None, ("guest: no agent",)), **options})


def test_what_is_not_known_has_no_sample_and_is_na_in_the_table():
    text = status.prometheus([row()])
    label = f'vm="a\\"\\n\\\\b",uuid="{UUID}",policy=""'
    assert f"abh_vm_host_huge_bytes{{{label}}} 2097152\n" in text and "abh_vm_both_huge_bytes{" not in text
    assert f'abh_vm_settings{{{label},state="denied"}} 1\n' in text
    table = status.table([row(vm="a")], trend.Look()).splitlines()
    assert table[1].split()[:5] == ["a", "n/a", "50%", "n/a", "n/a"] and table[4] == "a: guest: no agent"
    assert table[3].startswith("trend: n/a at the first look")


def test_a_name_moves_no_terminal():
    assert not {"\x9b", "\r"} & set(status.table([row(vm="a\x9b2Jb\rc")], trend.Look()))


def test_a_trend_is_of_the_same_vm():
    before = trend.of([(UUID, Shares(4096, 4096))])
    assert "-2 MiB" in status.table([row(vm="a")], before) and f"since {before.when}" in status.table([row()], before)
    assert "MiB" not in status.table([row(vm="a", uuid="other")], before)
    assert json.dumps(row().as_json())


@pytest.mark.parametrize("text", [None, "", "[]", '{"when": 1, "kib": {"a": 3}}', '{"kib": {}}', '{"kib": 3}'])
def test_a_last_look_that_is_none_is_none(tmp_path, monkeypatch, text):
    monkeypatch.setenv("ABH_CACHE", str(tmp_path))
    path = trend._path_of("x")
    if text is not None:
        path.parent.mkdir()
        path.write_text(text)
    assert trend.last("x") == trend.Look()
    look = trend.of([(UUID, Shares(1, 2, 3, 4, None))])
    trend.keep("x", look)
    assert trend.last("x").change_kib(UUID, Shares(1, 5, 3, 4, 7)) == 3  # of the host's: of both nothing was known
    assert trend.last("x").when == look.when and trend.last("y") == trend.Look()


def test_a_table_needs_no_cache(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ABH_CACHE", str(tmp_path / "file"))
    assert cli.main(["status", "--connect", "test:///default"]) == 0
    assert "n/a at the first look" in capsys.readouterr().out


def test_the_second_look_has_the_trend_since_the_first(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("ABH_CACHE", str(tmp_path))
    for kib, said in ((2048, None), (6144, 4096), (6144, 0)):
        monkeypatch.setattr(status, "rows", lambda _, kib=kib: [row(shares=Shares(8192, kib))])
        assert cli.main(["status", "--connect", "test:///default", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["vms"][0]["trend_kib"] == said and (found["trend_since"] is None) == (said is None)


def test_who_watches_goes_on_watching_when_the_daemon_is_restarted(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("ABH_CACHE", str(tmp_path))
    lost = binding.load().libvirtError("lost")
    lost.err = (binding.load().VIR_ERR_RPC, 0, "Cannot recv data: Connection reset by peer")
    answers = iter([[row(vm="one")], lost, [row(vm="two")], KeyboardInterrupt()])

    def rows(_):
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(status, "rows", rows)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert cli.main(["status", "--watch", "--connect", "test:///default"]) == Status.INTERRUPTED
    said = capsys.readouterr()
    assert "one" in said.out and "two" in said.out
    assert "Connection reset by peer" in said.err and "looking again in 5 s" in said.err
    answers = iter([lost])
    assert cli.main(["status", "--watch", "--connect", "test:///default"]) == Status.FAILED, "at the first look"


# --- the table of several VMs, one of which does what it can ----------------------------------------------------

SMALL = "<domain type='test'><name>{}</name><memory unit='KiB'>4096</memory><os><type>hvm</type></os>{}</domain>"
GOOD = {"/proc/iomem": IOMEM.format((4 << 20) - 1).encode(), "/proc/kpageflags": flags_of(4096, {1})}


class Guests:
    """The agents of VMs of libvirt's test driver: honest, but for that of the VM `bad`."""

    def __init__(self, connection, monkeypatch, bad) -> None:
        self.connection = connection
        self.bad = bad
        self.agents: dict[str, Agent] = {}
        self.honest_once = threading.Lock()
        monkeypatch.setattr(guest.binding, "qemu", lambda: SimpleNamespace(qemuAgentCommand=self.answer))

    def define(self, name: str, more: str = "") -> None:
        self.connection.defineXML(SMALL.format(name, more)).create()

    def answer(self, handle, request, timeout, flags):
        if handle.name() == "bad":
            return self.bad(request, timeout)
        with self.honest_once:
            agent = self.agents.setdefault(handle.name(), Agent(GOOD))
        asked = json.loads(request)
        return json.dumps({"return": agent._send(asked["execute"], asked.get("arguments", {}), timeout)})

    def rows(self) -> dict[str, status.Row]:
        return {each.vm: each for each in status.rows(self.connection)}


@pytest.fixture
def guests(monkeypatch):
    with binding.connection("test:///default") as connection:
        made = Guests(connection, monkeypatch, lambda *_: "{}")
        yield made
        for each in connection.listAllDomains():
            if each.name() != "test":
                each.destroy()
                each.undefine()


@pytest.mark.parametrize(
    "bad",
    [
        lambda *_: "[" * 100000,
        lambda *_: json.dumps({"return": {"buf-b64": "\ud800", "eof": 0}}),
        lambda *_: json.dumps({"return": 7}),
        lambda *_: '{"return": ' + "9" * 5000 + "}",
        raising(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x")),
        raising(SystemError("returned a result with an exception set")),
        raising(OverflowError("int too big to convert")),
        raising(MemoryError()),
    ],
)
def test_one_vms_words_are_its_own_row_alone(guests, bad):
    for name in ("a", "bad", "z"):
        guests.define(name)
    guests.bad = bad
    found = guests.rows()
    assert found["a"].shares.guest_huge_kib == found["z"].shares.guest_huge_kib == 2048
    assert found["bad"].shares.guest_huge_kib is None
    assert any(reason.startswith("guest: ") for reason in found["bad"].shares.reasons), found["bad"].shares
    assert "a" in status.table(list(found.values()), trend.Look()) and status.prometheus(list(found.values()))


def test_an_answer_of_more_than_was_asked_for_is_not_even_parsed(guests):
    guests.define("bad")
    guests.bad = lambda *_: '{"return": [' + "[]," * 999999 + "[]]}"
    assert "guest: the guest's agent answers more than it was asked for" in guests.rows()["bad"].shares.reasons


def test_a_row_that_cannot_be_made_has_the_reason_and_the_others_are_there(guests, monkeypatch):
    for name in ("a", "bad"):
        guests.define(name)
    of = domain.Domain.tree

    def tree(self, *, live=False):
        if self.name == "bad":
            raise ZeroDivisionError("of abh's own")
        return of(self, live=live)

    monkeypatch.setattr(domain.Domain, "tree", tree)
    found = guests.rows()
    assert found["a"].shares.guest_huge_kib == 2048
    assert "bad: abh could not look at it: ZeroDivisionError" in status.table(list(found.values()), trend.Look())


def test_a_comment_or_a_text_that_says_doctype_is_no_document_type(guests):
    said = '<o:x xmlns:o="urn:o"><!-- <!DOCTYPE x> --><![CDATA[<!DOCTYPE y [<!ENTITY a "b">]>]]></o:x>'
    guests.define("a", f"<metadata>{said}</metadata>")
    assert guests.rows()["a"].shares.guest_huge_kib == 2048


def test_a_vm_that_goes_while_it_is_looked_at_is_not_in_the_table(guests, monkeypatch):
    for name in ("a", "bad", "z"):
        guests.define(name)
    looks = status._ask

    def gone_meanwhile(*words):
        one = guests.connection.lookupByName("bad")
        one.destroy()
        one.undefine()
        looks(*words)

    monkeypatch.setattr(status, "_ask", gone_meanwhile)
    assert set(guests.rows()) == {"a", "test", "z"}


def test_guests_that_do_not_answer_are_waited_for_side_by_side_and_not_for_long(guests, monkeypatch):
    """One holds its answer back for good, as a libvirt does that waits for another's command to end."""
    monkeypatch.setattr(status, "TABLE_S", 3.0)  # enough for the others on a machine with much else to do
    held, given_up = threading.Event(), threading.Event()
    for name in ("a", "bad", "z"):
        guests.define(name)

    def hold(*_: object) -> str:
        if not held.wait(30):
            given_up.set()
        return "{}"

    guests.bad = hold
    found = guests.rows()
    assert not given_up.is_set()  # the table was not waiting until the guest gave up
    held.set()
    assert found["a"].shares.guest_huge_kib == found["z"].shares.guest_huge_kib == 2048
    assert "guest: no answer within 3 s" in found["bad"].shares.reasons
    assert "bad: guest: no answer within 3 s" in status.table(list(found.values()), trend.Look())


def test_many_silent_guests_are_asked_side_by_side(guests, monkeypatch):
    """None of them says anything before all have been asked."""
    silent = [f"silent-{number}" for number in range(status.WORKERS)]
    for name in silent:
        guests.define(name)
    guests.define("z")
    honest = guests.answer
    asked = threading.Barrier(len(silent))

    def answer(handle, request, timeout, flags):
        if handle.name().startswith("silent"):
            asked.wait(30)
            return "{}"
        return honest(handle, request, timeout, flags)

    monkeypatch.setattr(guest.binding, "qemu", lambda: SimpleNamespace(qemuAgentCommand=answer))
    found = guests.rows()
    assert not asked.broken
    assert found["z"].shares.guest_huge_kib == 2048


def test_who_interrupts_the_table_leaves_no_file_open_in_a_guest(guests):
    """By a signal, as of the terminal: Python's own join takes a thread for ended then."""
    asked = []

    def endless(request, _timeout):
        command = json.loads(request)["execute"]
        asked.append(command)
        if len(asked) == 3:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.3)
        given = {"buf-b64": base64.b64encode(b"x").decode(), "eof": False}
        return json.dumps({"return": 7 if command == "guest-file-open" else given})

    guests.define("bad")
    guests.bad = endless
    with pytest.raises(KeyboardInterrupt):
        guests.rows()
    assert asked == ["guest-file-open", "guest-file-read", "guest-file-read", "guest-file-close"]
