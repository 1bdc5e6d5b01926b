# SPDX-License-Identifier: MIT
"""Small guests that test Xen (tests/xen): the machine of the Xen environments runs them in place of its own guest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from abh import paths
from abh.build import cache, components, series
from abh.errors import AbhError
from abh.machine import emulated
from abh.schema import spec

MACHINE = "xen-host"
MORE_CPU = ",+smep,+smap"  # than the bench's processor has
TESTS = paths.CHECKOUT / "tests/xen"
COMPLAINT = "ABH xen "
# What becomes of a guest at work, and of which.
MOVED = {
    "save": "churn", "pieces": "churn", "migrate": "churn", "dirty": "churn", "pin": "churn", "switch": "churn",
    "destroy": "churn", "drop": "wide", "unrestored": "churn", "turns": "linux", "vain": "tables",
}  # fmt: skip
# What xl must not make: superpages with nested paging, or of a para-virtual domain, which has no shadow.
REFUSE = "refuse"
REFUSED = ("refuse sizes hap 1", "refuse sizes pv 1")
# A guest of tests/xen in 32 bits with PAE. Its paging is shadow only: by the sources, with nested paging QEMU's TCG
# sets the accessed bit of a PDPTE, which is reserved there, and Xen then finds no way through the guest's tables.
PAE = "-pae"
# The MMU model beside: each address, and what is remembered of a guest with shadow paging each time that it is entered.
MMU_CHECK = "stack=hvm,cpu=zen2,data=off,check=entries"
COMPARED = ("accesses", "fetches", "guests", "entries")
WRONG = ("mismatches", "faults", "stale")
NO_REGION = ("key", "beside", REFUSE)  # jobs that are no region of their own
SWITCH = "XEN_DOMCTL_SHADOW_OP_SET_SUPERPAGES"


def _sums(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in one | other}


@dataclass
class Verdict:
    """How one guest ended: success, skip, failure or crash; why; its counters where its paging is shadow.

    Of guests one after the other it is the last that ended so, and the counters are the sums of all.
    """

    variant: str
    outcome: str = "crash"
    reason: str = "the host said nothing of it"
    counters: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)  # what the MMU model compared meanwhile, and what was wrong

    def and_then(self, other: Verdict) -> None:
        """Adds what came of more guests of the same kind, which ran after these."""
        self.outcome, self.reason, self.said = other.outcome, other.reason, other.said
        self.counters, self.checked = _sums(self.counters, other.counters), _sums(self.checked, other.checked)


@dataclass
class Ended:
    """All verdicts of one machine, and what Xen or the bench complained of."""

    verdicts: list[Verdict]
    complaints: list[str]

    @property
    def passed(self) -> bool:
        """Every guest succeeded, and nothing was complained of."""
        return not self.complaints and all(each.outcome == "success" for each in self.verdicts)

    def and_then(self, other: Ended) -> None:
        """Adds what came of another machine, which ran after this one."""
        by_variant = {each.variant: each for each in self.verdicts}
        for each in other.verdicts:
            if each.variant in by_variant:
                by_variant[each.variant].and_then(each)
            else:
                self.verdicts.append(each)
        self.complaints += other.complaints


def names() -> list[str]:
    """Every test: a folder of tests/xen with a main.c, as a guest in 64 bits and one in 32, or in those that the last
    line of its file `bits` says; or with an init.c, which is the first process of a Linux guest."""

    def has(folder: Path, bits: str) -> bool:
        file = folder / "bits"
        return not file.exists() or file.read_text().split()[-1] == bits

    folders, linux = (sorted(path.parent for path in TESTS.glob(f"*/{source}")) for source in ("main.c", "init.c"))
    small = [folder.name + kind for kind, bits in (("", "64"), (PAE, "32")) for folder in folders if has(folder, bits)]
    return small + [folder.name for folder in linux]


def beside(test: str) -> list[str]:
    """The guest that runs beside a test, and its arguments: the last line of the file `beside` in the test's folder."""
    file = TESTS / test.removesuffix(PAE) / "beside"
    if not file.exists():
        return []
    name, *arguments = file.read_text().splitlines()[-1].split()
    return [name + PAE if test.endswith(PAE) else name, *arguments]


def variant(job: str) -> str:
    """What a job's lines are marked with, as tests/xen/run makes it of the job's words."""
    kind, name, paging, superpages = job.split()[:4]
    return f"{kind}:{name}~{paging}" + ("" if paging == "hap" else f"-{superpages}")


def read(lines: Iterable[str], jobs: Sequence[str]) -> list[Verdict]:
    """The verdicts that the host's lines tell of, one of each job that is a guest."""
    found = {variant(job): Verdict(variant(job)) for job in jobs if not job.startswith("key ")}
    for line in lines:
        words = line.split(" ")
        if len(words) < 4 or words[0] != "ABH" or words[2] not in found:
            continue
        one = found[words[2]]
        if words[1] == "verdict":  # ABH verdict VARIANT ABH test NAME OUTCOME REASON
            one.outcome = words[6] if len(words) > 6 else "crash"
            one.reason = " ".join(words[7:])
        elif words[1] == "counted":
            counter = words[3].removeprefix("superpages_")
            one.counters[counter] = one.counters.get(counter, 0) + int(words[4])
        elif words[1] == "said":
            one.said.append(" ".join(words[3:]))
    return list(found.values())


def compared(text: str, verdicts: Sequence[Verdict], jobs: Sequence[str]) -> list[str]:
    """Gives each job's verdict what the MMU model compared meanwhile, and returns what was wrong.

    The host marks each job that has a guest as a region, with the guest beside it if there is one. The model counts
    from power-on.
    """
    names = [variant(job) for job in jobs if job.split()[0] not in NO_REGION]
    by_name = {each.variant: each for each in verdicts}
    before: dict[str, int] = dict.fromkeys((*COMPARED, *WRONG), 0)
    told, wrong = 0, []
    for name, line in zip(names, text.splitlines(), strict=False):
        check = json.loads(line)["check"]
        found = by_name[name].checked = {key: check[key] - before[key] for key in before}
        if any(found[key] for key in WRONG):
            counts = ", ".join(f"{found[key]} {key}" for key in WRONG)
            wrong += [f"{name}: the MMU model: {counts}", *check["told"][told:]]
        before, told = {key: check[key] for key in before}, len(check["told"])
    return wrong + [f"{name}: {what}" for name in names if (what := _not_compared(by_name[name]))]


def _not_compared(one: Verdict) -> str | None:
    """What the model has not looked at, and should have: tables of 32 bits it does not follow."""
    shadow = "~shadow" in one.variant and PAE not in one.variant
    missing = [key for key in (*COMPARED[:2], *(COMPARED[2:] if shadow else ())) if not one.checked.get(key)]
    return f"the MMU model compared no {', '.join(missing)}" if missing else None


def try_prefix(patches: series.Series, built: Path) -> None:
    """Boots the Xen made of a prefix of its series: its control domain is para-virtual, guests are of each paging."""
    switched = any(SWITCH in (patches.folder / name).read_text() for name in patches.patches)
    jobs = [
        f"test {name} {paging}"
        for paging in ("hap 0", *(("shadow 0", "shadow 1") if switched else ("shadow none",)))
        for name in ("sizes", "tables")
    ]
    ended, _ = run(jobs, xen=built, limit_s=900)
    if not ended.passed:
        said = [f"{each.variant}: {each.outcome} {each.reason}".rstrip() for each in ended.verdicts]
        raise AbhError("the Xen built does not run its guests", tail="\n".join([*said, *ended.complaints]))


def _machine(limit_s: float) -> spec.Machine:
    machine = spec.machine(MACHINE)
    # On a busy machine a Xen with its assertions boots for longer than the study's: what bounds all of it bounds that.
    return machine.model_copy(update={"cpu": machine.cpu + MORE_CPU, "boot_timeout_s": limit_s})


def _parts(xen: Path) -> emulated.Parts:
    """The machine's, but that its host has the series' xl: guests have their superpages by what xl.cfg says."""
    parts = emulated.parts_of(spec.machine(MACHINE), xen=xen)
    return replace(parts, initramfs=components.path_of("xl-initramfs"), tests=components.path_of("xen-tests"))


def frozen_state(xen: Path, limit_s: float) -> Path:
    """The folder with the host on that Xen (a folder of the cache), booted and frozen before its first job; made on
    first use. It boots without the MMU model, with which it would take several times as long."""
    machine, parts = _machine(limit_s), _parts(xen)
    made_of = [part.name for part in (parts.qemu, parts.plugin, parts.linux, parts.initramfs, xen, parts.tests) if part]
    words = emulated.qemu_words(machine, "smoke", parts, icount=True, resumed=False)
    return cache.produce(
        "frozen",
        "xen-tests",
        cache.key_of(*made_of, *words),
        lambda out: emulated.freeze(machine, "smoke", parts, "", out),
        about=f"booting the host of the tests on {xen.name} once",
        needs_mib=1500,
    )


def run(jobs: Sequence[str], *, xen: Path, limit_s: float, mmu: str | None = None,
        state: Path | None = None) -> tuple[Ended, emulated.Ended]:  # fmt: skip
    """Has the host on that Xen (a folder) do the jobs (tests/xen/run), and returns what came of them, and how the
    machine ended. It is thawed from `state`, if there is one, and boots else. `mmu` are arguments of the MMU model's
    plugin, if it is to check."""
    parts = replace(_parts(xen), mmu=components.path_of("mmu") if mmu else None)
    text = "".join(f"{job}\n" for job in jobs)
    made = emulated.run(_machine(limit_s), "smoke", parts, state, text, icount=True, limit_s=limit_s, mmu=mmu)
    complaints = [line.removeprefix(COMPLAINT) for line in made.lines if line.startswith(COMPLAINT)]
    ends = [line.removeprefix("ABH end ") for line in made.lines if line.startswith("ABH end ")]
    if made.problem:
        complaints.append(f"{made.problem}\n{made.console}")
    elif ends != ["end host"] and ends != ["host"]:
        complaints.append(f"the host ended with: {'; '.join(ends)}")
    verdicts = read(made.lines, jobs)
    if mmu:
        complaints += compared(made.region, verdicts, jobs)
    return Ended(verdicts, complaints), made
