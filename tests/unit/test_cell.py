# SPDX-License-Identifier: MIT
"""One run: what the machine's answers mean."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cells import one

from abh import paths
from abh.build import components
from abh.errors import AbhError
from abh.machine import emulated
from abh.schema import result, spec
from abh.study import aligned, cell

REGION = '{"region": 1, "instructions": 2001, "vmrun": 12}\n'
VALUES = [
    "ABH value minor_faults 1000", "ABH value huge_faults 100", "ABH value rss_peak_kib 300000",
    "ABH value elapsed 1.250000", "ABH value host_huge_kib 204800",
]  # fmt: skip


def printed(made: cell.Cell) -> list[str]:
    """Output of a workload that did right: its sample, with the answer of this size."""
    text = (made.workload.folder / "sample-output.txt").read_text()
    answer = made.workload.answer_for(made.size)
    for other in made.workload.answers_in(text):
        text = text.replace(other, str(answer))
    return text.splitlines()


def said_by(made: cell.Cell, *last: str, output: list[str] | None = None) -> list[str]:
    lines = printed(made) if output is None else output
    return ["ABH begin", *(f"ABH out {line}" for line in lines), *VALUES, *last]


# --- what it answers --------------------------------------------------------------------------------------------


def outcome(made: cell.Cell, lines: list[str], problem: str | None = None, console: str = "") -> tuple[str, str | None]:
    return cell.judge(made, cell.listen(lines), problem, console)


@pytest.mark.parametrize("name", ["sqlite@native~thp", "sqlite@kvm-hap~thp"])
def test_the_right_answer_is_a_success(name):
    made = one(name)
    last = ["ABH end exit 0"] if made.environment.hypervisor == "none" else ["ABH guest-end exit 0", "ABH end host"]
    assert outcome(made, said_by(made, *last)) == ("success", None)


@pytest.mark.parametrize("output", [["answer: wrong"], [], ["rows: 1"]])
def test_a_wrong_or_missing_answer_is_a_failure_that_shows_the_output(output):
    made = one()
    got, reason = outcome(made, said_by(made, "ABH guest-end exit 0", "ABH end host", output=output))
    assert got == "failure"
    assert reason is not None and "not the one expected" in reason
    assert all(line in reason for line in output)


@pytest.mark.parametrize(
    ("end", "expected", "reason"),
    [
        ("exit 3", "failure", "the workload ended with exit 3"),
        ("exit 0 ", "failure", "the workload ended with exit 0 "),
        ("exit 127", "error", "the agent could not start the workload"),
        ("signal 11", "failure", "the workload ended with signal 11"),
        ("timeout 600", "failure", "the workload ended with timeout 600"),
        ("skip this system has no /sys/x", "skip", "this system has no /sys/x"),
        ("skip", "skip", "skip"),
        ("error set /sys/x=1: Invalid argument", "error", "set /sys/x=1: Invalid argument"),
        ("crash the guest is gone before its cell ended", "crash", "the guest is gone before its cell ended"),
        ("", "error", "the agent's end is not one of the protocol"),
        ("exi", "error", "the agent's end is not one of the protocol: exi"),
        ("\ufffd\x00\x1b[0m", "error", "the agent's end is not one of the protocol"),
    ],
)
@pytest.mark.parametrize("word", ["end", "guest-end"])
def test_every_other_end_has_its_outcome_and_reason(word, end, expected, reason):
    made = one()
    got, why = outcome(made, said_by(made, f"ABH {word} {end}", "ABH end host"))
    assert got == expected
    assert why is not None and why.startswith(reason)


def test_a_failure_shows_the_end_of_the_output():
    made = one()
    _, why = outcome(made, said_by(made, "ABH end exit 3", output=["x" * 100_000, "last words"]))
    assert why is not None and why.endswith("last words") and len(why) < 3000


@pytest.mark.parametrize(("problem", "start"), [("the kernel panicked",) * 2, (None, "no end was reported")])
def test_no_end_is_a_crash_that_shows_the_console(problem, start):
    made = one()
    got, why = outcome(made, said_by(made), problem, "x" * 100_000 + "\nKernel panic - not syncing")
    assert got == "crash"
    assert why is not None and why.startswith(start) and why.endswith("not syncing") and len(why) < 3000


def test_a_host_that_ends_without_its_guest_is_a_crash():
    assert outcome(one(), ["ABH begin", "ABH end host"])[0] == "crash"


def test_an_end_reported_is_believed_even_if_the_machine_went_off_after_it():
    made = one()
    assert outcome(made, said_by(made, "ABH end exit 0"), "the machine went off")[0] == "success"


@pytest.mark.parametrize(
    "line",
    [
        "", " ", "ABH", "ABH ", "ABHCELL", "xABH end exit 0", " ABH end exit 0", "abh end exit 0", "ABH  end exit 0",
        "[    1.2] ABH end exit 0", "\x00\x01\xff", "\ufffd" * 50, "x" * 1_000_000, "ABH step 1.0 thawed",
        "ABH ending 0", "ABH out ABH end exit 0", "ABH console ABH end exit 0",
    ],
)  # fmt: skip
def test_other_lines_end_nothing_and_report_nothing(line):
    said = cell.listen([line])
    assert (said.end, said.values) == (None, {})


def test_output_is_kept_as_it_was():
    said = cell.listen(["ABH out  two  spaces ", "ABH out", "ABH out " + "y" * 100_000])
    assert said.output == [" two  spaces ", "", "y" * 100_000]


# --- values -----------------------------------------------------------------------------------------------------


def values(made: cell.Cell, *lines: str, region: str = REGION) -> dict[str, result.Value]:
    return cell.values_of(made, cell.listen(list(lines)), region)


def test_values_have_their_units_and_kinds():
    got = values(one(), *VALUES)
    shown = {name: (value.value, value.unit, value.kind) for name, value in got.items()}
    assert shown == {
        "minor_faults": (1000, "faults", "counted"),
        "huge_faults": (100, "faults", "counted"),
        "rss_peak_kib": (300000, "KiB", "counted"),
        "elapsed": (1.25, "s", "emulated"),
        "host_huge_kib": (204800, "KiB", "counted"),
        "alloc_ratio": (512 * 100 / (512 * 100 + 900), "ratio", "counted"),
        "instructions": (2001, "instructions", "counted"),
        "vm_exits": (12, "exits", "counted"),
        **dict.fromkeys((aligned.LEAST, aligned.MOST), (None, "ratio", "counted")),
    }
    noted = {name: value.reason for name, value in got.items() if value.reason and value.value is not None}
    assert noted.keys() == {"minor_faults", "huge_faults", "rss_peak_kib"}
    assert all("the workload's control group" in note for note in noted.values())


@pytest.mark.parametrize(
    ("name", "guest", "host", "mapped", "shares"),
    [
        ("kvm-hap", 60, 80, 100, (0.4, 0.6)),  # of 100 KiB that the host has mapped 20 are not huge
        ("kvm-hap", 60, 0, 100, (0, 0)),
        ("xen-hap", 60, 100, 100, (0.6, 0.6)),
        ("kvm-shadow", 60, 80, 20, (0, 0.6)),  # the guest's kernel has hugepages in the shadow, too
        ("xen-shadow", 60, 0, 100, (0, 0)),
        ("xen-pv", 0, 0, None, (0, 0)),
        ("kvm-hap", 120, 80, 100, None),
        ("kvm-hap", 60, 80, -1, None),
        ("kvm-hap", 60, 80, None, None),
        ("native", 60, 80, 100, None),
    ],
)
def test_what_is_huge_in_guest_and_host_is_between_bounds(name, guest, host, mapped, shares):
    lines = ["ABH value rss_peak_kib 100", f"ABH value guest_huge_kib {guest}", f"ABH value host_huge_kib {host}"]
    lines += [] if mapped is None else [f"ABH value host_mapped_kib {mapped}"]
    got = values(one(f"sqlite@{name}~thp"), *lines)
    least, most = got[aligned.LEAST], got[aligned.MOST]
    assert (least.value, most.value) == (shares or (None, None))
    assert least.reason and ("no hypervisor" in least.reason) == (name == "native")


@pytest.mark.parametrize("region", ["", REGION + REGION, '{"region": 1, "error": "begin without an end"}\n'])
def test_other_than_one_whole_region_is_not_a_number(region):
    got = values(one(), region=region)
    for name in ("instructions", "vm_exits"):
        assert got[name].value is None
        assert "not one" in str(got[name].reason)
    assert region.strip()[:40] in str(got["instructions"].reason)


@pytest.mark.parametrize(
    "region",
    [REGION[:-20], "\ufffd\x00", "[]", "3", '{"region": 1, "instructions": null, "vmrun": 1}', '{"instructions": 5}',
     REGION + "{", "x" * 100_000],
)  # fmt: skip
def test_a_region_that_was_cut_off_is_not_a_bug(region):
    got = values(one(), region=region)
    assert (got["instructions"].value, got["vm_exits"].value) == (None, None)
    assert len(str(got["vm_exits"].reason)) < 400


@pytest.mark.parametrize(("name", "why"), [("native", "no hypervisor"), ("xen-pv", "without VM exits")])
def test_where_there_are_no_vm_exits_the_reason_says_so(name, why):
    got = values(one(f"sqlite@{name}~thp"), *VALUES)
    assert got["vm_exits"].value is None and why in str(got["vm_exits"].reason)
    assert got["instructions"].value == 2001


def test_a_value_nobody_knows_is_an_error():
    with pytest.raises(AbhError, match="unknown value 'minor_fault'") as caught:
        values(one(), "ABH value minor_fault 3")
    assert "minor_faults" in str(caught.value.expected)


@pytest.mark.parametrize("text", ["", "x", "1 2", "0x10", "nan", "1.2.3", "1.0e999", "--1"])
def test_garbage_for_a_value_is_an_error(text):
    with pytest.raises(AbhError, match="garbage for 'elapsed'"):
        values(one(), f"ABH value elapsed {text}")


def test_a_negative_value_is_not_known():
    got = values(one(), "ABH value minor_faults 10", "ABH value huge_faults -1")
    assert (got["huge_faults"].value, got["huge_faults"].reason) == (None, "this kernel does not report it")
    assert got["alloc_ratio"].value is None and got["alloc_ratio"].reason


@pytest.mark.parametrize(
    ("name", "why"), [("native", "no host below"), ("xen-hap", "reported nothing"), ("kvm-hap", "reported nothing")]
)
def test_hugepages_of_a_host_that_says_nothing_are_not_known(name, why):
    got = values(one(f"sqlite@{name}~thp"))["host_huge_kib"]
    assert got.value is None and why in str(got.reason)


def test_the_agents_report_nothing_that_the_bench_does_not_know():
    text = (paths.CHECKOUT / "agent/abh-init.c").read_text()
    names = set(re.findall(r'say\("value (\w+) ', text)) | set(re.findall(r'\{ "(\w+)", "\w+" \}', text))
    for agent in ("abh-watch.c", "xen-leaves"):
        names |= set(re.findall(r"ABH value (\w+) ", (paths.CHECKOUT / "agent" / agent).read_text()))
    array = (paths.CHECKOUT / "agent/xen-superpages.c").read_text().split("names[] = {")[1].split("};")[0]
    names |= {f"superpages_{name}" for name in re.findall(r'"(\w+)"', array)}
    assert names == set(cell.REPORTED)


def test_no_metric_of_a_workload_hides_a_value_of_the_bench():
    own = {*cell.REPORTED, "alloc_ratio", "instructions", "vm_exits"}
    assert {each.name: own & set(each.metric) for each in spec.workloads().values() if own & set(each.metric)} == {}


def test_what_is_to_be_idle_is_told_to_the_agent_and_must_be_there():
    waves = one("waves@native~thp", "paper")
    assert "idle" in cell.guest_lines(waves).splitlines()
    assert "idle" not in cell.guest_lines(one()).splitlines()
    for left, outcome in (("1", "success"), ("0", "failure")):
        lines = [*said_by(waves), f"ABH value processes_left {left}", "ABH end exit 0"]
        made, reason = cell.judge(waves, cell.listen(lines), None, "")
        assert (made, "left no process" in str(reason)) == (outcome, outcome == "failure")


# --- a whole run ------------------------------------------------------------------------------------------------


@pytest.fixture
def answers(monkeypatch, tmp_path):
    """Lets a test say how the machine ends."""
    asked = {}

    def arrange(lines: list[str], problem: str | None = None) -> dict[str, object]:
        def run(*given: object, **options: object) -> emulated.Ended:
            asked.update(text=given[4], state=given[3], **options)
            return emulated.Ended(lines, "console", REGION, 1.0, problem)

        monkeypatch.setattr(emulated, "run", run)
        return asked

    monkeypatch.setattr(emulated, "parts_of", lambda *_, mmu: None)
    monkeypatch.setattr(components, "version_of", lambda name: f"{name} 1.0")
    monkeypatch.setattr(cell.root, "contents", lambda name: cell.root.Contents({name: "1"}))
    monkeypatch.setattr(cell, "frozen_state", lambda _: tmp_path)
    return arrange


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (["ABH guest-end exit 0", "ABH end host"], "success"),
        (["ABH guest-end exit 1", "ABH end host"], "failure"),
        (["ABH guest-end skip no knob", "ABH end host"], "skip"),
        (["ABH end error libvirt does not answer"], "error"),
        ([], "crash"),
    ],
)
def test_every_result_is_one_that_the_report_can_read(answers, tmp_path, last, expected):
    made = one()
    asked = answers(said_by(made, *last), None if last else "the kernel panicked")
    got = cell.run(made)
    result.write(got, tmp_path / "result.json")
    assert result.read(tmp_path / "result.json") == got
    assert (got.outcome, got.run, got.size) == (expected, "sqlite@kvm-hap~thp", "smoke")
    assert (expected == "success") == (set(made.workload.metric) <= set(got.values))
    assert got.provenance.command == "abh run sqlite@kvm-hap~thp --size smoke"
    assert got.provenance.components["linux"] == "linux 1.0"
    assert {*got.provenance.components} == {"linux", "qemu", "glibc"}, "what the machine is made of, and no Xen"
    assert asked == {"text": cell.cell_text(made), "state": tmp_path, "icount": True, "limit_s": cell.LIMIT_S["smoke"],
                     "mmu": None, "keep": {}}  # fmt: skip


def test_a_free_run_thaws_nothing_and_says_so(answers):
    made = cell.Cell.of("sqlite@native~thp", "smoke", icount=False)
    asked = answers(said_by(made, "ABH end exit 0"))
    assert cell.run(made).provenance.command.endswith(" --free-running")
    assert (asked["state"], asked["icount"]) == (None, False)


def test_another_kernel_is_another_frozen_machine(monkeypatch):
    parts = emulated.Parts(*(Path(name) for name in ("qemu", "plugin", "linux-0", "initramfs")))
    monkeypatch.setattr(emulated, "parts_of", lambda *words, mmu: parts)
    monkeypatch.setattr(cell.cache, "produce", lambda kind, name, key, make, **options: key)
    kernels = (None, Path("linux-0"), Path("linux-1"))
    same, own, other = (cell.frozen_state(cell.Cell.of("sqlite@native~thp", "smoke", linux=each)) for each in kernels)
    assert same == own != other


def test_a_group_of_workloads_has_images_and_a_frozen_machine_of_its_own(monkeypatch):
    study, program = one("sqlite@native~thp", "paper"), one("xz@native~thp", "paper")
    assert "guest-initramfs" in study.components and "compat-guest-initramfs" in program.components
    assert one("xz@kvm-hap~thp", "paper").components[-1] == "compat-host-initramfs"
    assert len(set(study.components) ^ set(program.components)) == 2
    monkeypatch.setattr(emulated, "parts_of", lambda *_, mmu: emulated.Parts(*map(Path, ("a", "b", "c", "d"))))
    monkeypatch.setattr(cell.cache, "produce", lambda kind, name, key, make, **options: name)
    assert [cell.frozen_state(each) for each in (study, program)] == ["native-paper", "compat-native-paper"]


def test_odd_text_survives_in_the_file(answers, tmp_path):
    made = one()
    answers([f"ABH out \x00\x1b[0m \ufffd é {chr(0x2028)}", "ABH end exit 4"])
    result.write(cell.run(made), tmp_path / "r.json")
    assert "\x00" in str(result.read(tmp_path / "r.json").reason)
    assert "\x00" not in (tmp_path / "r.json").read_text()
    assert json.loads((tmp_path / "r.json").read_text())["outcome"] == "failure"


def test_without_git_a_result_says_that_its_commit_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cell._commit.__wrapped__() == "unknown"
