# SPDX-License-Identifier: MIT
"""The kernel's own tests of memory management (tools/testing/selftests/mm), run under one policy after another.

They are compared with themselves: what a test says with ABH off it must say with ABH on. A test that fails or skips in
this machine under both says nothing about ABH, and is listed as it is; but each must come to its end, and those that
our series brings must pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from abh.build import components
from abh.verify import testbed

LIMIT_S = 600  # of one test

# As run_vmtests.sh calls them, with smaller sizes where time asks for it. Not here: tests of hugetlb's own accounting,
# of hardware poison, of HMM and of GUP's debugging device, which need devices or options that this kernel has not;
# those that want libcap or libnuma (mlock-random-test, ksm_tests, migration), protection keys or tables of five levels
# (protection_keys, va_high_addr_switch); compaction_test, which crashes in this machine on the stock kernel too.
COMMANDS = """
map_fixed_noreplace
map_populate
mlock2-tests
mremap_test
mremap_dontunmap
mrelease_test
madv_populate
mkdirty
mdwe_test
mseal_test
droppable
soft-dirty
pagemap_ioctl
cow
on-fault-limit
virtual_address_range
split_huge_page_test
khugepaged all:anon
transhuge-stress -d 5
skip_anon_align
explain_thp_faults
thp_reservation
thp_reservation_life
thp_reservation_room
thp_reservation_whole
abh
ksm_functional_tests
uffd-unit-tests
uffd-stress anon 20 4
hugepage-mremap
hugetlb-madvise
map_hugetlb
thuge-gen
""".split("\n")[1:-1]

RESERVATIONS = ("thp_reservation", "thp_reservation_life", "thp_reservation_room", "thp_reservation_whole")
OURS = ("skip_anon_align", "explain_thp_faults", *RESERVATIONS, "abh")
OF_ABH = ("abh",)  # they skip on a kernel without its patches, and where a threshold is not the default
STOCK = "stock"  # as a policy: a kernel without ABH
PASSED = "status 0"
# The machine's first process writes a status for each program that it ran, also for one that a signal ended: none means
# that the machine went off meanwhile, or that the line came apart.
NO_STATUS = "no status"
NOT_RUN = "not run"

# "ok 3 name" of TAP, with or without what follows "#"; numbers and addresses within a name change from run to run.
TAP = re.compile(r"^(?:# )?(ok|not ok) \d+ (.*)$")
CHANGING = re.compile(r"0x[0-9a-f]+|\d+")

Outcome = tuple[str, ...]


def outcome(lines: Sequence[str]) -> Outcome:
    """What a test said of itself: its status and its results, in order, without what differs each time."""
    results = [f"{match[1]} {CHANGING.sub('N', match[2])}".rstrip() for line in lines if (match := TAP.match(line))]
    status = [line.removeprefix("TEST ") for line in lines if line.startswith("TEST status ")]
    return (status[-1] if status else NO_STATUS, *results)


def split_by_policy(lines: Sequence[str]) -> dict[str, list[str]]:
    """The lines that were said under each policy."""
    parts: dict[str, list[str]] = {}
    policy = STOCK
    for line in lines:
        if line.startswith(f"TEST set {testbed.KNOB} "):
            policy = line.rpartition(" ")[2]
        parts.setdefault(policy, []).append(line)
    return parts


def differences(off: dict[str, Outcome], on: dict[str, Outcome]) -> list[str]:
    """What each test says otherwise."""
    found = []
    for name in sorted(off.keys() | on.keys()):
        here, there = off.get(name, (NOT_RUN,)), on.get(name, (NOT_RUN,))
        if here != there:
            found.append(f"{name}: off: {here[0]}, on: {there[0]}")
            found += [f"  only off: {line}" for line in here[1:] if line not in there]
            found += [f"  only on:  {line}" for line in there[1:] if line not in here]
    return found


def unfinished(commands: Sequence[str], outcomes: Mapping[str, Outcome]) -> list[str]:
    """The tests that did not come to their end, which are no comparison even if it was the same under all policies."""
    statuses = {command: outcomes.get(f"/{command}", (NOT_RUN,))[0] for command in commands}
    return [f"/{command}: {status}" for command, status in statuses.items() if status in (NO_STATUS, NOT_RUN)]


def ours_failed(outcomes: dict[str, Outcome], ours: Sequence[str] = OURS) -> list[str]:
    """The series' own tests that do not pass, with what they say, or that were not built."""
    found = []
    for name in ours:
        status, *results = outcomes.get(f"/{name}", ("was not built",))
        if status != PASSED:
            found += [f"/{name}: {status}", *(f"  {each}" for each in results if not each.startswith("ok"))]
    return found


def run(
    linux: Path,
    policies: Sequence[str],
    *,
    limit_s: float,
    tell: Callable[[str], None],
    only_ours: bool = False,
    settings: Sequence[str] = (),
) -> bool:
    """Runs them all under each policy; whether all were built and came to their end, all say the same under all
    policies, ours pass, and the kernel is silent. `settings` are lines of the job that set ABH's switches before."""
    folder = components.path_of("mm-selftests")
    as_shipped = policies[0] != STOCK and not settings
    ours = [name for name in OURS if as_shipped or name not in OF_ABH]
    wanted = set(ours) if only_ours else {command.split()[0] for command in COMMANDS} - (set(OURS) - set(ours))
    files = {name: (folder / name).read_bytes() for name in sorted(wanted) if (folder / name).is_file()}
    commands = [command for command in COMMANDS if command.split()[0] in files]
    job = [f"limit {LIMIT_S}", "set /proc/sys/vm/nr_hugepages 16", *settings]
    for policy in policies:
        job += [f"set {testbed.KNOB} {policy}"] if policy != STOCK else []
        job += [f"run /{command}" for command in commands]
    said = testbed.run(linux, job, limit_s=limit_s, files=files, memory_mib=2048, tell=tell)
    parts = split_by_policy(said.lines)
    outcomes = [
        {command: outcome(lines) for command, lines in testbed.outputs(parts.get(policy, []))} for policy in policies
    ]
    for command, (status, *results) in outcomes[0].items():
        passed = sum(result.startswith("ok") for result in results)
        print(f"{command}: {status}, {passed} of {len(results)} ok")
    lacking = [f"/{name}: was not built" for name in sorted(wanted - files.keys())]
    for policy, each in zip(policies, outcomes, strict=True):
        lacking += [f"{line} ({policy})" for line in unfinished(commands, each)]
    if lacking:
        print("\n".join(["tests that have shown nothing:", *lacking]))
    found = [line for other in outcomes[1:] for line in differences(outcomes[0], other)]
    print("\n".join(found) if found else f"the same under: {', '.join(policies)}")
    failed = ours_failed(outcomes[0], ours)
    print("\n".join(["the series' own tests fail:", *failed]) if failed else "the series' own tests pass")
    if said.problem:
        print(f"selftests: {said.problem}")
    return not lacking and not found and not failed and said.problem is None
