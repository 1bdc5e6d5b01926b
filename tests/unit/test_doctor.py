# SPDX-License-Identifier: MIT
"""The doctor believes what it has seen to work, and says what to do about the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abh import cli
from abh.errors import AbhError
from abh.host import doctor, packages


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_every_probe_runs_here_and_names_itself_once():
    findings = doctor.examine()
    names = [each.name for each in findings]
    assert len(set(names)) == len(names) == len(doctor.PROBES)
    for each in findings:
        assert each.state in ("ok", "note", "problem")
        assert each.text and "\n" not in each.text
        assert (each.state == "ok") == (each.next_step is None), each


@pytest.mark.parametrize(("gib", "state"), [(11.9, "problem"), (12.1, "ok")])
def test_twelve_gib_of_disk_are_asked_for(monkeypatch, gib, state):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: type("Usage", (), {"free": int(gib * doctor.GIB)}))
    assert doctor.disk().state == state


@given(total=st.integers(1, 1 << 32), available=st.integers(0, 1 << 32))
def test_little_memory_is_noted(total, available):
    found = doctor.memory(f"MemTotal: {total} kB\nMemAvailable: {available} kB\nHugePages_Total: 0\n")
    assert (found.state == "ok") == (available >= doctor.MEMORY_WANTED_GIB << 20)


def test_root_without_namespaces_is_a_problem(monkeypatch):
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 0)
    monkeypatch.setattr(doctor, "_try", lambda argv: "unshare failed: Operation not permitted")
    found = doctor.privilege()
    assert found.state == "problem"
    assert "Operation not permitted" in found.text


def as_user(monkeypatch: pytest.MonkeyPatch, why: str | None) -> list[list[str]]:
    tried: list[list[str]] = []

    def attempt(argv):
        tried.append(list(argv))
        return why

    monkeypatch.setattr(doctor.os, "geteuid", lambda: 65534)
    monkeypatch.setattr(doctor, "_try", attempt)
    return tried


@pytest.mark.parametrize(
    ("why", "ranged", "state", "said"),
    [
        (None, True, "ok", "mode=unshare"),
        (None, False, "problem", "no range of ids in /etc/subuid and /etc/subgid"),
        ("denied", True, "problem", "user namespaces do not work: denied"),
    ],
)
def test_a_user_needs_namespaces_and_a_range_of_ids(monkeypatch, why, ranged, state, said):
    tried = as_user(monkeypatch, why)
    monkeypatch.setattr(doctor, "_has_range", lambda *_: ranged)
    found = doctor.privilege()
    assert (found.state, said in found.text) == (state, True)
    assert "--user" in tried[0]


def test_the_sandbox_is_tried_as_the_builder_uses_it(monkeypatch):
    tried = as_user(monkeypatch, "bwrap: No permissions")
    found = doctor.sandbox()
    assert found.state == "problem"
    assert "No permissions" in found.text
    assert {"--unshare-user", "--unshare-net"} <= set(tried[0])


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("someone:100000:65536\n", True),
        ("1234:100000:65536\n", True),
        ("someone:100000:1000\n", False),
        ("someoneelse:100000:65536\n", False),
        ("# words\n\n", False),
    ],
)
def test_a_range_of_ids_is_found_by_name_or_number(tmp_path, text, has):
    (tmp_path / "subuid").write_text(text)
    assert doctor._has_range(tmp_path / "subuid", "someone", 1234) is has
    assert doctor._has_range(tmp_path / "none", "someone", 1234) is False


def test_a_probe_that_fails_gives_its_last_line_and_one_that_hangs_is_ended(monkeypatch):
    assert doctor._try(["true"]) is None
    assert doctor._try(["sh", "-c", "echo one >&2; echo two >&2; exit 3"]) == "two"
    assert doctor._try(["sh", "-c", "exit 3"]) == "exit status 3"
    assert "nonexistent" in (doctor._try(["/nonexistent"]) or "")
    monkeypatch.setattr(doctor, "PROBE_TIMEOUT_S", 0.1)
    assert "timed out" in (doctor._try(["sleep", "5"]) or "")


def test_kvm_is_proven_by_a_guest_that_speaks(tmp_path):
    kernel = tmp_path / "vmlinuz"
    speaks = script(tmp_path / "speaks", 'echo "[    0.000000] Linux version 6.12"; echo "$@" >&2; exit 0')
    assert doctor.kvm_boots(speaks, kernel) is None
    stays = script(tmp_path / "stays", 'echo "Linux version 6.12"; exec sleep 5')
    assert doctor.kvm_boots(stays, kernel, timeout_s=0.5) is None


def test_a_kvm_whose_guest_is_silent_or_whose_qemu_refuses_is_none(tmp_path):
    kernel = tmp_path / "vmlinuz"
    silent = script(tmp_path / "silent", "echo SeaBIOS; exec sleep 1000")
    assert "a guest said nothing: no end within 0.3 s" in (doctor.kvm_boots(silent, kernel, timeout_s=0.3) or "")
    refuses = script(tmp_path / "refuses", "echo 'qemu: invalid accelerator kvm' >&2; exit 1")
    assert doctor.kvm_boots(refuses, kernel) == "qemu: invalid accelerator kvm"
    mute = script(tmp_path / "mute", "exit 0")
    assert "status 0 before the guest spoke" in (doctor.kvm_boots(mute, kernel) or "")
    assert doctor.kvm_boots(tmp_path / "none", kernel)


def test_the_probe_is_made_with_a_qemu_that_has_kvm(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(doctor, "kvm_boots", lambda *paths, enter: seen.append((paths, enter)))
    doctor.kvm_boots_inside(tmp_path / "root", tmp_path / "linux/vmlinuz")
    [(inside, enter)] = seen
    assert [str(path) for path in inside] == ["/usr/bin/qemu-system-x86_64", "/in/linux/vmlinuz"]
    for words in (f"--ro-bind {tmp_path}/root /", f"--ro-bind {tmp_path}/linux /in/linux", "--dev-bind /dev/kvm"):
        assert words in " ".join(enter)


def test_without_bubblewrap_the_probe_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.kvm_boots_inside(tmp_path / "root", tmp_path / "vmlinuz") == "bubblewrap is not installed"


def test_the_accelerator_is_tcg_and_kvm_is_not_believed_by_its_node(tmp_path, cache):
    def never(host: Path, kernel: Path) -> str | None:
        raise AssertionError("there is nothing to probe with")

    device = tmp_path / "kvm"
    assert "there is no" in doctor.accelerator(device, never).text
    device.touch()
    assert "not probed yet" in doctor.accelerator(device, never).text
    kernel = script(cache / "built/linux-4567/vmlinuz", "")
    assert "not probed yet" in doctor.accelerator(device, never).text
    (cache / "roots/host-89ab").mkdir(parents=True)
    seen = []
    found = doctor.accelerator(device, lambda *paths: seen.append(paths) or "it hangs")
    assert seen == [(cache / "roots/host-89ab", kernel)]
    assert "is no proof of KVM: it hangs" in found.text
    assert "boots a probe guest" in doctor.accelerator(device, lambda *paths: None).text
    assert "TCG will be used" in found.text


def test_a_pmu_that_does_not_count_is_not_available(monkeypatch):
    monkeypatch.setattr(doctor, "cycles", lambda: "the counter opens but stays at zero")
    assert doctor.pmu().text.startswith("n/a: the counter opens")
    monkeypatch.setattr(doctor, "cycles", lambda: 123456)
    assert "123456" in doctor.pmu().text


def test_cycles_are_a_count_or_a_reason(monkeypatch):
    got = doctor.cycles()
    assert (isinstance(got, int) and got > 0) or (isinstance(got, str) and got)
    assert doctor.count_or_reason((7).to_bytes(8, "little")) == 7
    assert doctor.count_or_reason(bytes(8)) == "the counter opens but stays at zero"
    monkeypatch.setattr(doctor, "PERF_EVENT_OPEN", {})
    assert "not known" in str(doctor.cycles())


def test_hugepage_settings_are_read(tmp_path):
    (tmp_path / "enabled").write_text("always [madvise] never\n")
    (tmp_path / "defrag").write_text("always defer defer+madvise madvise [never]\n")
    assert "enabled madvise, defrag never" in doctor.thp(tmp_path).text
    assert "no transparent" in doctor.thp(tmp_path / "none").text


PACKAGES = "# SPDX\n\nsure sh all runs\nlack no-such-command-here all needed\nids no-such-either user for users\n"


def test_packages_are_read_and_missed_by_probe_and_user(tmp_path, monkeypatch):
    (tmp_path / packages.REQUIREMENTS).write_text(PACKAGES)
    found = packages.load(tmp_path)
    assert [each.name for each in found] == ["sure", "lack", "ids"]
    assert [each.name for each in packages.missing(found, root=True)] == ["lack"]
    lacking = packages.missing(found, root=False)
    assert [each.name for each in lacking] == ["lack", "ids"]
    install = "apt-get install -y --no-install-recommends lack ids"
    monkeypatch.setattr(packages.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert packages.install_line(lacking, root=False) == f"sudo apt-get update && sudo {install}"
    monkeypatch.setattr(packages.shutil, "which", lambda name: None)
    assert packages.install_line(lacking, root=False) == f"su -c 'apt-get update && {install}'"
    assert packages.install_line(lacking, root=True) == f"apt-get update && {install}"


@pytest.mark.parametrize(
    ("probe", "present"),
    [("sh", True), ("/etc", True), ("/nonexistent", False), ("python3:json", True), ("python3:no_such", False)],
)
def test_a_probe_is_a_command_a_file_or_a_module(probe, present):
    assert packages.Package("x", probe, "all", "why").present() is present


@pytest.mark.parametrize("line", ["name probe", "name probe some why"])
def test_a_line_that_is_not_understood_is_told(tmp_path, line):
    (tmp_path / packages.REQUIREMENTS).write_text(f"# SPDX\n{line}\n")
    with pytest.raises(AbhError) as caught:
        packages.load(tmp_path)
    assert str(caught.value.where).endswith(":2")


def test_missing_packages_are_a_problem_with_a_line_to_paste(monkeypatch):
    lacking = packages.Package("bubblewrap", "no-such-command-here", "all", "enters roots")
    monkeypatch.setattr(packages, "load", lambda: [lacking])
    found = doctor.tools()
    assert found.state == "problem"
    assert "bubblewrap (enters roots)" in found.text
    assert "install" in (found.next_step or "")


def test_a_probe_that_meets_an_error_is_a_problem_and_the_others_go_on(monkeypatch, capsys):
    def disk():
        raise AbhError("the cache cannot be made", where="/proc/x", next_step="set ABH_CACHE")

    monkeypatch.setattr(doctor, "PROBES", (disk, lambda: doctor.Finding("memory", "ok", "enough")))
    assert cli.main(["doctor", "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)["findings"]
    assert first == {
        "name": "disk", "state": "problem", "text": "the cache cannot be made: /proc/x", "next_step": "set ABH_CACHE"
    }  # fmt: skip
    assert second["state"] == "ok"


@pytest.mark.parametrize(("state", "status"), [("ok", 0), ("note", 0), ("problem", 1)])
def test_the_command_fails_iff_there_is_a_problem(monkeypatch, capsys, state, status):
    found = doctor.Finding("disk", state, "words", None if state == "ok" else "do this")
    monkeypatch.setattr(doctor, "PROBES", (lambda: found,))
    assert cli.main(["doctor"]) == status
    out = capsys.readouterr().out
    assert "words" in out
    assert ("next: do this" in out) == (state != "ok")
    assert cli.main(["doctor", "--json"]) == status
    data = json.loads(capsys.readouterr().out)
    assert data["usable"] is (status == 0)
    assert data["findings"][0] == {"name": "disk", "state": state, "text": "words", "next_step": found.next_step}
