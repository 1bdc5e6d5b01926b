# SPDX-License-Identifier: MIT
"""What perf prints is read right, events are counted a few at a time, and medians say how sure they are."""

import math
import random
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abh import paths
from abh.collect import around, here, passes, perf, program, session, spread, vm
from abh.errors import AbhError
from abh.schema import events, measured
from abh.schema.result import Value

OUTPUT = Path(__file__).parent / "perf-output"
FILES = events.MICROARCHITECTURE.all(paths.CHECKOUT)


def said(name, *names):
    return perf.parse((OUTPUT / f"{name}.jsonl").read_text(), names)


# --- perf's lines -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "faults", "clock"), [
    ("recorded-6.1-no-pmu", 14730, 72.805293), ("recorded-6.12-no-pmu", 53, 0.545301),
])  # fmt: skip
def test_real_output_of_two_versions_is_read(name, faults, clock):
    found = said(name, "page-faults", "task-clock", "cycles")
    assert (found["page-faults"].value, found["task-clock"].value) == (faults, clock)
    assert found["cycles"].value is None and "does not count it" in found["cycles"].reason


def test_what_perf_never_counted_has_a_reason():
    assert "never counted" in said("recorded-6.1-no-pmu", "minor-faults")["minor-faults"].reason
    assert "nothing of it" in said("recorded-6.1-no-pmu", "absent")["absent"].reason


def test_a_software_event_may_be_zero():
    assert said("recorded-6.12-no-pmu", "context-switches", "kvm:kvm_exit")["context-switches"].value == 0


def test_a_name_is_found_with_the_modifiers_that_perf_adds():
    assert said("recorded-6.12-no-pmu", "minor-faults")["minor-faults"].value == 49
    assert said("made-6.12-kvm-host", "guest_cycles")["guest_cycles"].value == 7e9


def test_an_event_that_shared_its_counter_is_no_count():
    found = said("made-6.12-skylake", "cycles", "dtlb_store_walk_cycles")
    assert found["cycles"].value == 8123456789
    assert found["dtlb_store_walk_cycles"].value is None and "66.67 %" in found["dtlb_store_walk_cycles"].reason


def test_numbers_with_a_comma_are_read_and_almost_always_is_not_always():
    found = said("made-6.6-zen-3-user", "cycles", "dtlb_walks", "task-clock")
    assert (found["cycles"].value, found["task-clock"].value) == (8123456789, 2100.345678)
    assert "99.97 %" in found["dtlb_walks"].reason


@pytest.mark.parametrize("line", ['{"counter-value" : "1', '{"counter-value" : 1 "event" : "cycles"}'])
def test_a_torn_line_is_an_error_not_a_gap(line):
    with pytest.raises(AbhError, match="no JSON"):
        perf.parse(line, ["cycles"])


def test_an_event_that_is_there_twice_is_an_error():
    line = '{"counter-value" : "1.000000", "event" : "cycles", "pcnt-running" : 100.00}\n'
    with pytest.raises(AbhError, match="twice"):
        perf.parse(2 * line, ["cycles"])


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("Error: unknown switch `j'\n\n Usage: perf stat [<options>]", "too old"),
        ("WARNING: perf not found for kernel 6.8.0-31\n  linux-tools-6.8.0-31-generic", "for this kernel"),
        ("Error:\nAccess to performance monitoring and observability operations is limited.\n"
         "Consider adjusting /proc/sys/kernel/perf_event_paranoid setting", "may not count"),
        ("Segmentation fault", "does not work"),
    ],
)  # fmt: skip
def test_a_perf_that_counts_nothing_says_why_and_what_to_do(stub, words, what):
    stub("perf", f"import sys; sys.stderr.write({words!r}); sys.exit(129)")
    with pytest.raises(AbhError, match=what) as caught:
        perf.find()
    assert caught.value.next_step


def test_without_perf_the_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AbhError, match="not installed") as caught:
        perf.find()
    assert "linux-perf" in str(caught.value)


# --- events and passes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vendor", "family", "model", "name"),
    [
        ("GenuineIntel", 6, 0x3A, "intel-ivy-bridge"),
        ("GenuineIntel", 6, 0x55, "intel-skylake"),
        ("GenuineIntel", 6, 0x6A, "intel-ice-lake"),
        ("GenuineIntel", 6, 0x8F, "intel-sapphire-rapids"),
        ("AuthenticAMD", 0x17, 0x01, "amd-zen-1"),
        ("AuthenticAMD", 0x17, 0x31, "amd-zen-2"),
        ("AuthenticAMD", 0x19, 0x21, "amd-zen-3"),
        ("AuthenticAMD", 0x19, 0x11, "amd-zen-4"),
        ("AuthenticAMD", 0x1A, 0x02, "amd-zen-5"),
    ],
)
def test_a_processor_is_found_by_what_it_says(vendor, family, model, name):
    assert events.of(events.Identity(vendor, family, model)).name == name


def test_an_unknown_processor_is_an_error_with_a_way_out():
    with pytest.raises(AbhError, match="no file says") as caught:
        events.of(events.Identity("GenuineIntel", 6, 0x0F, "Core 2"))
    assert "--software" in str(caught.value) and "Core 2" in str(caught.value)


def test_skylake_says_that_its_walks_leave_out_the_second_dimension():
    skylake = FILES["intel-skylake"]
    for side in ("dtlb_load", "dtlb_store", "itlb"):
        assert any("EPT" in lie and "out" in lie for lie in skylake.event[f"{side}_walk_cycles"].lies)


@pytest.mark.parametrize("watchdog", [False, True])
@pytest.mark.parametrize("sides", [(), ("guest", "host")])
@pytest.mark.parametrize("name", FILES)
def test_no_pass_has_more_events_than_counters_and_none_is_lost(name, sides, watchdog):
    micro = FILES[name]
    found = passes.split(micro, micro.event, watchdog=watchdog, sides=sides)
    wanted = {f"{side}_{each}" for side in sides for each in micro.event} if sides else set(micro.event)
    assert {each.name for one in found for each in one.counted if each.hardware} == wanted
    fixed = sum(each.fixed for each in micro.event.values())
    for one in found:
        hardware = [each.name for each in one.counted if each.hardware]
        assert len(hardware) == len(set(hardware))
        assert len(hardware) <= micro.counters - watchdog + fixed
        assert sides or "cycles" in hardware  # else a share would be of numbers of two runs


def test_the_parts_of_a_share_are_counted_in_one_run():
    micro = FILES["intel-skylake"]
    (together,) = [
        one for one in passes.split(micro, micro.event, watchdog=False)
        if "itlb_walk_cycles" in {each.name for each in one.counted}
    ]  # fmt: skip
    assert set(micro.ratio["walk_share"].parts) <= {each.name for each in together.counted}


def test_what_perf_is_told():
    micro = FILES["intel-skylake"]
    (one,) = passes.hardware(micro, "dtlb_load_walk_cycles")
    assert one.spec == "cpu/event=0x08,umask=0x10,cmask=1,name=dtlb_load_walk_cycles/"
    guest, host = passes.hardware(micro, "dtlb_load_walks", sides=("guest", "host"), user_only=True)
    assert guest.spec.endswith("name=guest_dtlb_load_walks/Gu") and host.spec.endswith("name=host_dtlb_load_walks/Hu")
    assert any("user mode" in note for note in guest.notes)


def observed(name="made-6.12-skylake"):
    micro = FILES["intel-skylake"]
    counted = [each for part in ("cycles", *micro.ratio["walk_share"].of) for each in passes.hardware(micro, part)]
    return micro, program.of_readings(counted, said(name, *(each.printed for each in counted)))


def test_a_counter_at_zero_is_not_known():
    _, values = observed()
    assert values["itlb_walk_cycles"].value is None and "stayed at zero" in values["itlb_walk_cycles"].reason


def test_a_lie_is_beside_its_number():
    _, values = observed()
    assert values["dtlb_load_walk_cycles"].value == 812345678 and "EPT" in values["dtlb_load_walk_cycles"].reason


def test_a_share_is_known_where_all_its_parts_are():
    micro, values = observed()
    assert passes.ratios(micro, values)["walk_share"].value is None
    for name, number in (("dtlb_store_walk_cycles", 100), ("itlb_walk_cycles", 50)):
        values[name] = Value.of(number, "cycles", "measured")
    share = passes.ratios(micro, values)["walk_share"]
    assert share.value == pytest.approx((812345678 + 150) / 8123456789) and "EPT" in share.reason


def test_a_ratio_whose_parts_are_of_two_runs_is_not_made_up():
    micro, values = observed()
    del values["dtlb_load_walk_cycles"]
    assert "different runs" in passes.ratios(micro, values)["walk_share"].reason


@given(st.lists(st.integers(1, 5), max_size=9), st.integers(1, 6))
def test_packing_loses_nothing_and_overfills_nothing(sizes, room):
    groups = [[f"{at}-{number}" for number in range(size)] for at, size in enumerate(sizes)]
    packed = passes.packed(groups, room)
    assert sorted(name for each in packed for name in each) == sorted(name for group in groups for name in group)
    assert all(len(each) <= room for each in packed)


# --- medians ----------------------------------------------------------------------------------------------------


def values(*numbers):
    return [
        Value.unknown("walks", "measured", "shared") if n is None else Value.of(n, "walks", "measured") for n in numbers
    ]


def test_few_runs_bound_no_interval():
    found = spread.measure(values(3, 1, 2, 5, 4))
    assert (found.value, found.low, found.high, found.interval_low, found.runs) == (3, 1, 5, None, 5)


def test_six_runs_bound_one_and_it_is_their_range():
    found = spread.measure(values(3, 1, 2, 5, 4, 6))
    assert (found.value, found.interval_low, found.interval_high) == (3.5, 1, 6)


def test_many_runs_bound_a_narrower_one_as_the_binomial_says():
    ends = spread.interval(list(range(1, 26)))
    below = sum(math.comb(25, k) for k in range(8)) / 2**25  # that no more than 7 of 25 are below it
    assert below < 0.025 < below + math.comb(25, 8) / 2**25 and ends == (8, 18)


def test_the_interval_holds_the_median_as_often_as_it_says():
    draw = random.Random(4)
    trials = 150
    held = 0
    for _ in range(trials):
        low, high = spread.interval([draw.expovariate(1) for _ in range(15)])
        held += low <= math.log(2) <= high
    assert held / trials >= 0.9


def test_a_run_without_a_number_is_said_and_half_of_them_are_too_many():
    some = spread.measure(values(1, 2, None))
    assert some.value == 1.5 and "without 1 of 3 runs: shared" in some.reason
    most = spread.measure(values(1, None))
    assert most.value is None and "1 of 2 runs: shared" in most.reason
    assert spread.measure(values(None)).reason == "shared"


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=30))
def test_a_median_lies_in_its_interval_and_that_in_the_range(numbers):
    found = spread.measure(values(*numbers))
    assert found.value == statistics.median(numbers)
    assert found.low <= found.value <= found.high
    if found.interval_low is not None:
        assert found.low <= found.interval_low <= found.value <= found.interval_high <= found.high


# --- this machine -----------------------------------------------------------------------------------------------

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold
flags\t\t: fpu vme {}

processor\t: 1
"""


def test_the_processor_is_read():
    cpu, in_guest = here.cpu_of(CPUINFO.format(""))
    assert (cpu.vendor, cpu.family, cpu.model, in_guest) == ("GenuineIntel", 6, 0x55, False)
    assert here.cpu_of(CPUINFO.format("hypervisor"))[1]


def test_another_architecture_is_an_error_with_a_way_out():
    with pytest.raises(AbhError, match="which processor") as caught:
        here.cpu_of("processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n")
    assert "--software" in str(caught.value)


def test_smaps_are_added_up():
    text = "55e0-7ffd ---p 0 00:00 0 [rollup]\nRss: 4096 kB\nAnonHugePages: 2048 kB\nPrivate_Hugetlb: 1024 kB\n"
    found = around.table(text)
    assert (found["Rss"], found["AnonHugePages"], found["Private_Hugetlb"]) == (4096, 2048, 1024)


def test_a_counter_that_this_kernel_lacks_is_not_zero():
    found = around.differences({"pgfault": 5, "thp_fault_alloc": 1}, {"pgfault": 9, "thp_fault_alloc": 1})
    assert (found["pgfault"], found["thp_fault_alloc"], found["thp_split_pmd"]) == (4, 0, None)


@pytest.fixture
def groups(tmp_path):
    """A tree that looks like that of control groups."""
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    (tmp_path / "cgroup.procs").write_text("")
    return tmp_path


def test_a_group_counts_and_what_is_left_in_it_goes_home(groups):
    with around.group(groups) as one:
        (one.folder / "memory.stat").write_text("anon 4096\npgfault 700\nthp_fault_alloc 3\n")
        (one.folder / "memory.peak").write_text("8388608\n")
        one.enter(4321)
        assert one.counters() == {"anon": 4096, "pgfault": 700, "thp_fault_alloc": 3, "peak_kib": 8192}
        one.home = groups
    assert one.left == [4321] and (groups / "cgroup.procs").read_text() == "4321"


@pytest.mark.parametrize(("controllers", "why"), [("cpu", "not handed on"), (None, "no unified")])
def test_why_there_is_no_group(groups, controllers, why):
    if controllers is None:
        (groups / "cgroup.subtree_control").unlink()
    else:
        (groups / "cgroup.subtree_control").write_text(controllers)
    with around.group(groups) as one:
        assert one.folder is None and why in one.why_not and one.counters() == {}


def test_the_ratio_of_a_group_is_that_of_the_paper():
    one = around.Group(Path("/cell"))
    found = program._of_group(one, {"pgfault": 100, "thp_fault_alloc": 1}, {"pgfault": 303, "thp_fault_alloc": 4})
    assert found["alloc_ratio"].value == pytest.approx(512 * 3 / (512 * 3 + 200))
    assert found["huge_faults"].value == 3 and found["huge_collapses"].value is None


# --- virtual machines -------------------------------------------------------------------------------------------


def test_a_domains_process_is_found(tmp_path):
    (tmp_path / "web.pid").write_text("4242\n")
    assert vm.pid_of("web", (tmp_path / "absent", tmp_path)) == 4242


@pytest.mark.parametrize(("name", "what"), [
    ("../etc/passwd", "ill-formed"), ("", "ill-formed"), ("web", "no running domain"), ("torn", "can't be read"),
])  # fmt: skip
def test_what_is_no_domain(tmp_path, name, what):
    (tmp_path / "torn.pid").write_text("")
    with pytest.raises(AbhError, match=what):
        vm.pid_of(name, (tmp_path,))


def test_kvms_statistics_of_one_machine(tmp_path):
    for folder, number in (("4242-11", "7"), ("42421-9", "9")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "exits").write_text(number)
    assert vm.kvm_stats(4242, tmp_path) == {"exits": 7}
    assert vm.kvm_stats(1, tmp_path / "absent") == {}


def test_exits_by_reason():
    found = vm.exits((OUTPUT / "made-kvm-stat.txt").read_text())
    assert found == {"npf": 1200, "hlt": 500, "write_cr0 access": 290, "interrupt": 10}
    assert vm.value_name("write_cr0 access") == "exits_write_cr0_access"


def test_exits_that_do_not_add_up_are_an_error():
    text = (OUTPUT / "made-kvm-stat.txt").read_text().replace("1200", "1201")
    with pytest.raises(AbhError, match="something else") as caught:
        vm.exits(text)
    assert "2001 exits" in str(caught.value)


# --- results ----------------------------------------------------------------------------------------------------


def test_half_an_interval_is_no_result():
    with pytest.raises(ValueError, match="half an interval"):
        measured.Measure(value=1, unit="walks", kind="measured", interval_low=0.5)


def test_the_order_is_random_and_the_same_again():
    one = session.Asked(("a", "b", "c"), ("a",), (passes.Pass(()),) * 4, 5, 1, None)
    order = one.order()
    assert sorted(order) == [(repeat, number) for repeat in range(5) for number in range(4)] != order
    assert order == one.order()
