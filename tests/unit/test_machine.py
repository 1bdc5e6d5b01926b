# SPDX-License-Identifier: MIT
"""The emulated machine, against a program that speaks QEMU's protocol and does as a plan says."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from abh.build import root
from abh.errors import AbhError
from abh.machine import emulated
from abh.machine import qemu as core
from abh.schema import spec

PATIENCE_S = 30
# Pretends to be QEMU: argv is the folder of the run's files, then QEMU's own words. The plan: "states" one for each
# query-status (the last stays; "exit" ends the process), "migrate" likewise, "refuse" and "ignore" commands,
# "cont" the files that appear and the states that follow when the machine goes on.
QEMU = r"""
import json, os, socket, subprocess, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
plan = json.loads(Path(os.environ["PLAN"]).read_text())
child = subprocess.Popen(["sleep", "1000"])
with open(os.environ["PIDS"], "a") as pids:
    pids.write(f"{os.getpid()} {child.pid}\n")
for name, text in plan.get("files", {}).items():
    (folder / name).write_text(text)
print("qemu says hello", flush=True)
if plan["start"] == "die":
    sys.exit("qemu: could not find its firmware")
if plan["start"] == "no socket":
    time.sleep(1000)
server = socket.socket(socket.AF_UNIX)
server.bind(str(folder / "qmp"))
server.listen()
peer, _ = server.accept()
if plan["start"] == "no greeting":
    time.sleep(1000)
def send(what):
    peer.sendall(json.dumps(what).encode() + b"\r\n")
def requests():
    text = ""
    while got := peer.recv(65536).decode():  # requests have no line ends, as QEMU needs none
        text += got
        while text.strip():
            try:
                request, end = json.JSONDecoder().raw_decode(text.lstrip())
            except ValueError:
                break
            text = text.lstrip()[end:]
            yield request
def step(states):
    return states.pop(0) if len(states) > 1 else states[0]
version = {"qemu": {"major": 10, "minor": 0, "micro": 0}, "package": ""}
send({"QMP": {"version": version, "capabilities": []}})
states, asked = plan.get("states", ["running"]), []
for request in requests():
    name, answer = request["execute"], {}
    same = {"id": request["id"]} if "id" in request else {}
    asked.append([name, request.get("arguments", {})])
    Path(os.environ["PLAN"] + ".asked").write_text(json.dumps(asked))
    if name in plan.get("ignore", []):
        continue
    if name in plan.get("refuse", []):
        send({"error": {"class": "GenericError", "desc": "not now"}, **same})
        continue
    if name == "query-status":
        state = step(states)
        if state == "exit":
            sys.exit(3)
        answer = {"status": state, "running": state == "running"}
    elif name == "query-migrate":
        answer = {"status": step(plan["migrate"])}
    elif name == "cont":
        states = plan["cont"]["states"]
        for file, text in plan["cont"].get("files", {}).items():
            (folder / file).write_bytes(text.encode("latin-1"))
    send({"return": answer, **same})
"""


class Stub:
    """The pretending QEMU, its plan, and what it left running."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.program, self.plan_file, self.pids = folder / "qemu.py", folder / "plan", folder / "pids"
        self.program.write_text(QEMU)
        monkeypatch.setenv("PLAN", str(self.plan_file))
        monkeypatch.setenv("PIDS", str(self.pids))
        self.prefixes: list[dict[str, object]] = []
        monkeypatch.setattr(root, "path_of", lambda name: folder)
        monkeypatch.setattr(root, "enter", self.enter)
        self.plan(start="well")

    def plan(self, **plan: object) -> None:
        self.plan_file.write_text(json.dumps({"start": "well", **plan}))

    def enter(self, _root: Path, *, writable: dict[str, Path], **more: object) -> list[str]:
        self.prefixes.append({"writable": writable, **more})
        return [*self.command(writable["/run"])]

    def command(self, folder: Path) -> list[str]:
        return [sys.executable, "-S", "-E", str(self.program), str(folder)]

    def asked(self) -> dict[str, object]:
        return dict(json.loads(Path(f"{self.plan_file}.asked").read_text()))

    def running(self) -> list[int]:
        return [pid for pid in map(int, self.pids.read_text().split()) if _alive(pid)]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def qemu(tmp_path, monkeypatch) -> Iterator[Stub]:
    stub = Stub(tmp_path, monkeypatch)
    monkeypatch.setattr(emulated, "POLL_S", 0.01)
    yield stub
    left: list[int] = []
    for _ in range(100):  # a killed process takes a moment to go
        if not (left := stub.running()):
            break
        time.sleep(0.05)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    assert not left, "left running"


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "run"
    made.mkdir()
    return made


@pytest.fixture
def start(qemu, folder) -> Iterator[Callable[..., emulated.Emulator]]:
    with contextlib.ExitStack() as at_exit:

        def emulator(**plan: object) -> emulated.Emulator:
            qemu.plan(**plan)
            running = at_exit.enter_context(core.process(qemu.command(folder), folder))
            started = emulated.Emulator(running)
            at_exit.callback(running.end)  # twice does no harm
            at_exit.callback(started.close)
            return started

        yield emulator


# --- one process ------------------------------------------------------------------------------------------------


def test_it_comes_up_and_reaches_a_state(start):
    running = start(states=["inmigrate", "running", emulated.FROZEN])
    running.wait_for(emulated.FROZEN, PATIENCE_S, what="booting")
    assert running.status() == emulated.FROZEN


def test_where_nothing_was_said_there_are_no_lines_to_be_read(start, monkeypatch):
    running = start(states=["running"])
    monkeypatch.setattr(emulated.root, "tail_of", lambda *_: "a line")
    assert running.error("it is late").next_step == "read the last lines below"
    monkeypatch.setattr(emulated.root, "tail_of", lambda *_: "")
    assert "last lines" not in running.error("it is late").next_step


def test_one_that_dies_at_once_shows_its_last_words(start):
    with pytest.raises(AbhError, match="the emulator did not start") as caught:
        start(start="die")
    assert caught.value.got == "exit status 1"
    assert "qemu: could not find its firmware" in str(caught.value)
    assert caught.value.next_step


@pytest.mark.parametrize("way", ["no socket", "no greeting"])
def test_one_that_never_answers_is_given_up(start, monkeypatch, way):
    monkeypatch.setattr(emulated, "QMP_TIMEOUT_S", 0.5)
    began = time.monotonic()
    with pytest.raises(AbhError, match="the emulator did not start"):
        start(start=way)
    assert time.monotonic() - began < PATIENCE_S


def test_an_interruption_while_it_starts_leaves_nothing(start, monkeypatch, qemu):
    def sleep(_seconds: float) -> None:
        if qemu.pids.exists():
            raise KeyboardInterrupt
        os.sched_yield()

    monkeypatch.setattr(emulated.time, "sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        start(start="no socket")
    monkeypatch.undo()


def test_one_that_never_gets_there_has_a_time_limit_and_shows_the_console(start):
    lines = "".join(f"boot line {number}\n" for number in range(100))
    running = start(states=["running"], files={"console.log": lines})
    with pytest.raises(AbhError, match=r"booting: no end within 0\.2 s of processor time or 0\.8 s") as caught:
        running.wait_for(emulated.FROZEN, 0.2, what="booting")
    text = str(caught.value)
    assert caught.value.got == "running"
    assert "boot line 99" in text and "boot line 70" in text and "boot line 69\n" not in text
    assert "qemu says hello" in text


@pytest.mark.parametrize(("state", "got"), [("exit", "gone"), ("shutdown", "shutdown"), ("internal-error",) * 2])
def test_one_that_goes_off_is_noticed_before_the_limit(start, state, got):
    running = start(states=["running", state])
    with pytest.raises(AbhError, match="booting: the machine went off") as caught:
        running.wait_for(emulated.FROZEN, PATIENCE_S, what="booting")
    assert caught.value.got == got


def test_one_that_hangs_is_silent_not_gone(start):
    running = start(ignore=["query-status"])
    running.qmp.settimeout(0.2)
    with pytest.raises(AbhError, match="booting: the machine went off") as caught:
        running.wait_for(emulated.FROZEN, PATIENCE_S, what="booting")
    assert caught.value.got == "silent"


def test_saving_asks_for_the_state_compressed(start, qemu):
    start(migrate=["setup", "active", "completed"]).save("/out/state.zst")
    asked = qemu.asked()
    assert asked["migrate"]["uri"].startswith("exec:zstd ") and asked["migrate"]["uri"].endswith(" /out/state.zst")


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_state_that_cannot_be_saved_is_an_error(start, state):
    with pytest.raises(AbhError, match="state could not be saved") as caught:
        start(migrate=["active", state]).save("/out/state.zst")
    assert caught.value.got == state


def test_saving_has_a_time_limit(start, monkeypatch):
    monkeypatch.setattr(emulated, "STATE_TIMEOUT_S", 0.2)
    with pytest.raises(AbhError, match=r"saving the machine's state: no end within 0\.2 s"):
        start(migrate=["active"]).save("/out/state.zst")


def test_a_command_that_is_refused_is_an_error_not_a_bug(start):
    with pytest.raises(AbhError, match="does not do 'migrate'") as caught:
        start(refuse=["migrate"]).save("/out/state.zst")
    assert "not now" in str(caught.value)


# --- freezing and running ---------------------------------------------------------------------------------------


def parts_in(folder: Path, *, xen: bool = False) -> emulated.Parts:
    names = ["qemu", "plugin", "linux", "initramfs", "xen"]
    made = {name: folder / "parts" / name for name in names}
    return emulated.Parts(**{**made, "xen": made["xen"] if xen else None})


@pytest.fixture
def native() -> spec.Machine:
    return spec.machine("native")


def cont(out: str, *states: str, **files: str) -> dict[str, object]:
    return {"states": list(states) or ["running"], "files": {"out.log": out, **files}}


def run(native: spec.Machine, folder: Path, limit_s: float = PATIENCE_S, *, state: bool = True) -> emulated.Ended:
    frozen = folder if state else None
    return emulated.run(native, "smoke", parts_in(folder), frozen, "cell", icount=True, limit_s=limit_s)


def test_a_frozen_machine_leaves_its_state_and_console(qemu, native, tmp_path):
    qemu.plan(states=["running", emulated.FROZEN], migrate=["completed"], files={"console.log": "booted\n"})
    out = tmp_path / "out"
    out.mkdir()
    emulated.freeze(native, "smoke", parts_in(tmp_path), "end\n", out)
    assert (out / "console.log").read_text() == "booted\n"
    (entered,) = qemu.prefixes
    assert entered["writable"]["/out"] == out
    assert not entered["writable"]["/run"].exists(), "the run's own folder is gone"


def test_a_run_brings_back_what_was_said(qemu, native, tmp_path):
    out = "ABH begin\r\nABH out a\x0cb\x85c\r\nABH end exit 0\r\n"
    more = {"region.jsonl": '{"region": 1}\n', "console.log": "last words\n"}
    qemu.plan(states=["inmigrate", emulated.FROZEN], cont=cont(out, **more))
    ended = run(native, tmp_path)
    # The byte 0x85 alone is not UTF-8; a form feed does not end a line.
    assert ended.lines == ["ABH begin", "ABH out a\x0cb\ufffdc", "ABH end exit 0", ""]
    assert (ended.problem, ended.region, ended.console) == (None, '{"region": 1}\n', "last words")
    (entered,) = qemu.prefixes
    assert entered["read_only"]["/in/state"] == tmp_path
    assert not entered["writable"]["/run"].exists()


def test_an_end_that_is_still_being_written_is_not_the_end(qemu, native, tmp_path):
    qemu.plan(states=[emulated.FROZEN], cont=cont("ABH begin\nABH end exit 1"))
    problem = run(native, tmp_path, 0.3).problem
    assert problem and problem.startswith("the cell did not end within its time limit: 0.3 s of processor time")


def test_what_only_looks_like_an_end_is_not_the_end(qemu, native, tmp_path):
    qemu.plan(states=[emulated.FROZEN], cont=cont("ABH out ABH end exit 0\nABH ending\n", "running", "running", "exit"))
    problem = run(native, tmp_path).problem
    assert problem == "the machine went off before its cell ended (gone)"


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (emulated.FROZEN, "the kernel panicked"),
        ("shutdown", "the machine went off before its cell ended (shutdown)"),
        ("exit", "the machine went off before its cell ended (gone)"),
    ],
)
def test_a_machine_that_stops_before_the_end_says_how(qemu, native, tmp_path, state, problem):
    qemu.plan(states=[emulated.FROZEN], cont=cont("ABH begin\n", "running", state))
    ended = run(native, tmp_path)
    assert (ended.problem, ended.lines) == (problem, ["ABH begin", ""])


def test_a_machine_that_refuses_to_go_on_is_an_error(qemu, native, tmp_path):
    qemu.plan(states=[emulated.FROZEN], refuse=["cont"])
    with pytest.raises(AbhError, match="does not do 'cont'"):
        run(native, tmp_path)


@pytest.mark.parametrize(("state", "word"), [(True, "thawing"), (False, "booting")])
def test_a_machine_that_does_not_get_ready_is_an_error(qemu, native, tmp_path, state, word):
    qemu.plan(states=["running", "exit"])
    with pytest.raises(AbhError, match=f"{word} machine 'native': the machine went off"):
        run(native, tmp_path, state=state)


def test_a_state_that_cannot_be_thawed_says_where_it_is_and_what_to_do(qemu, native, tmp_path):
    qemu.plan(states=["inmigrate", "exit"])
    with pytest.raises(AbhError, match="thawing") as caught:
        run(native, tmp_path, state=True)
    assert str(caught.value.where).startswith(str(tmp_path)) and "remove the folder" in caught.value.next_step


def test_an_interruption_of_a_run_leaves_nothing(qemu, native, tmp_path):
    qemu.plan(states=[emulated.FROZEN], cont=cont(""))
    with pytest.raises(KeyboardInterrupt), emulated.emulator([], parts_in(tmp_path), "") as running:
        kept = running.folder
        raise KeyboardInterrupt
    assert not kept.exists()


# --- any QEMU -----------------------------------------------------------------------------------------------------


def started(folder: Path, script: str) -> contextlib.AbstractContextManager[core.Running]:
    return core.process(["sh", "-c", script], folder)


def test_lines_come_as_they_are_said_and_the_last_needs_no_end(folder):
    with started(folder, "printf 'one\\r\\ntw'; sleep 0.3; echo o; echo of stderr >&2; printf rest; exit 3") as running:
        assert list(running.lines(PATIENCE_S)) == ["one\r", "two", "of stderr", "rest"]
        assert running.status() == 3


def test_the_first_line_is_there_before_the_last_is_said(folder):
    with started(folder, "echo one; exec sleep 1000") as running:
        assert next(running.lines(PATIENCE_S)) == "one"
        assert running.status() is None


def test_what_says_no_more_has_a_time_limit(folder):
    with started(folder, "echo one; exec sleep 1000") as running:
        lines = running.lines(0.3)
        assert next(lines) == "one"
        with pytest.raises(TimeoutError):
            next(lines)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, AbhError("it went wrong")])
def test_no_child_outlives_its_block_however_it_ends(folder, error):
    with contextlib.suppress(KeyboardInterrupt, AbhError), started(folder, "sleep 1000 & echo $!; wait") as running:
        child = int(next(running.lines(PATIENCE_S)))
        assert _alive(child)
        if error:
            raise error
    deadline = time.monotonic() + PATIENCE_S
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(child) and running.status() == -9


def test_its_scratch_folder_is_filled_before_and_gone_after(qemu, tmp_path):
    qemu.plan(start="no socket")
    seen = []
    with core.inside(tmp_path, [], read_only={}, prepare=lambda folder: seen.append(folder)) as running:
        assert next(running.lines(PATIENCE_S)) == "qemu says hello"
        assert seen == [running.folder] and running.folder.is_dir()
        assert running.text("console.log") == ""
    assert not running.folder.exists()


def test_a_device_is_bound_as_one(tmp_path):
    words = " ".join(core.enter(tmp_path, read_only={}, devices=[Path("/dev/kvm")]))
    assert words.endswith("--dev-bind /dev/kvm /dev/kvm")


# --- words and cells --------------------------------------------------------------------------------------------


def words_of(name: str, size: str = "smoke", **options: object) -> list[str]:
    made = spec.machine(name)
    parts = parts_in(Path("/p"), xen=made.boot == "xen")
    return emulated.qemu_words(made, size, parts, **{"icount": True, "resumed": False, **options})


def after(words: list[str], option: str) -> list[str]:
    return [words[index + 1] for index, word in enumerate(words) if word == option]


@pytest.mark.parametrize("name", sorted(spec.machines()))
def test_a_deterministic_machine_has_its_flags_and_a_free_one_has_none(name):
    words, free = words_of(name), words_of(name, icount=False)
    assert after(words, "-icount") == ["shift=1,sleep=off"]
    assert after(words, "-rtc") == ["base=2026-01-01,clock=vm"]
    assert after(words, "-seed") == ["7"]
    assert not {"-icount", "-rtc", "-seed"} & set(free)
    assert [word for word in words if word not in free] == [
        "-icount", "shift=1,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "7"
    ]  # fmt: skip


@pytest.mark.parametrize("name", sorted(spec.machines()))
@pytest.mark.parametrize("size", ["smoke", "paper"])
def test_a_machine_is_what_its_file_says(name, size):
    made, words = spec.machine(name), words_of(name, size)
    assert after(words, "-cpu") == [made.cpu]
    assert after(words, "-m") == [f"{made.memory_mib[size]}M"]
    assert all(word in words for word in made.qemu_args)
    assert "-nodefaults" in words and "-no-user-config" in words
    assert after(words, "-action") == ["panic=pause"]
    assert after(words, "-serial") == ["file:/run/console.log", "file:/run/out.log"]
    assert after(words, "-fw_cfg") == ["name=opt/abh/cell,file=/run/cell"]
    assert not any("," in path for path in ("/run/cell", "/run/qmp")), "a comma would have to be doubled"


def test_a_machine_has_one_plugin():
    # A run reads one file, and a plugin more would add to every instruction.
    (plain,), (modelled,) = (after(words_of("native", mmu=mmu), "-plugin") for mmu in (None, "stack=native"))
    assert plain == "/in/plugin/region.so,out=/run/region.jsonl"
    assert modelled == "/in/mmu/mmu.so,out=/run/region.jsonl,stack=native"


def test_linux_boots_with_its_command_line():
    words = words_of("native")
    kernel = f"{spec.machine('native').kernel_cmdline} abh_role=native abh_freeze=1"
    assert after(words, "-kernel") == ["/in/linux/vmlinuz"]
    assert after(words, "-append") == [kernel]
    assert after(words, "-initrd") == ["/in/initramfs/initramfs.cpio"]
    assert "abh_role=host" in after(words_of("kvm-host"), "-append")[0]


def test_xen_boots_with_linux_and_its_initramfs_as_modules():
    words, made = words_of("xen-host"), spec.machine("xen-host")
    assert after(words, "-kernel") == ["/in/xen/xen"]
    assert after(words, "-append") == [made.xen_cmdline]
    (modules,) = after(words, "-initrd")
    linux, initramfs = modules.rsplit(",", 1)
    # QEMU splits -initrd at commas (multiboot), so none may be in dom0's command line.
    assert linux == f"/in/linux/vmlinuz {made.kernel_cmdline} abh_role=host abh_freeze=1"
    assert "," not in linux.replace(",,", "")
    assert initramfs == "/in/initramfs/initramfs.cpio"


def test_only_a_resumed_machine_reads_a_state():
    assert after(words_of("native"), "-incoming") == []
    assert after(words_of("native", resumed=True), "-incoming") == ["exec:zstd -dqc /in/state/state.zst"]


@pytest.mark.parametrize("text", ["", "x", "x" * emulated.CELL_BYTES, "é" * (emulated.CELL_BYTES // 2)])
def test_a_cell_block_has_one_size(text):
    block = emulated.cell_block(text)
    assert len(block) == emulated.CELL_BYTES
    assert block.rstrip(b"\0").decode() == text


@pytest.mark.parametrize("text", ["x" * (emulated.CELL_BYTES + 1), "é" * (emulated.CELL_BYTES // 2 + 1)])
def test_a_cell_that_does_not_fit_is_refused(text):
    with pytest.raises(AbhError, match="too long") as caught:
        emulated.cell_block(text)
    assert caught.value.expected == "at most 8192"
    assert caught.value.next_step
