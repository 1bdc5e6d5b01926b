# SPDX-License-Identifier: MIT
"""A made-up study of 8 x 6 x 3 cells, with failures, gaps and hostile text: what the report is tried on.

`python tests/unit/test_report_matrix.py DIR` writes its result files, for a look at the page.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from abh.compare import allocators
from abh.model import organisations
from abh.report.load import load
from abh.report.study import Plan, Study, make_study
from abh.schema import spec
from abh.schema.spec import Run

WORKLOADS = ("sqlite", "cpython", "cc1", "xalan", "mcf", "dedup", "tlb-overflow", "set-conflict")
ENVIRONMENTS = ("native", "kvm-hap", "kvm-shadow", "xen-hap", "xen-shadow", "xen-pv")
POLICIES = ("reg", "thp-paper", "thp")
COUNTERPARTS = {"cc1": "403.gcc", "xalan": "483.xalancbmk", "mcf": "429.mcf", "dedup": "dedup"}
RAM_MIB = 256
HOSTILE = 'answer differs\n<script>alert(1)</script> & "quoted" [bold]not markup[/bold]\n' + "console " * 60

# Cells that did not succeed, and cells that are not there.
ENDS = {
    "dedup@kvm-shadow~thp": ("failure", HOSTILE),
    "mcf@xen-pv~reg": (
        "crash",
        "no answer for 600 s of virtual time\n(XEN) Panic on CPU 0:\n(XEN) FATAL TRAP: vector = 6",
    ),
    "sqlite@xen-hap~thp": ("error", "the guest image could not be attached"),
    "cpython@xen-pv~thp": ("skip", "a PV guest has no hugepages: /sys/kernel/mm/transparent_hugepage is absent"),
}
ABSENT = {"xalan@xen-shadow~reg", "xalan@xen-shadow~thp-paper", "tlb-overflow@xen-shadow~thp"}
PLAN = Plan(
    WORKLOADS,
    ENVIRONMENTS,
    POLICIES,
    COUNTERPARTS,
    {"policy reg": "4 KiB pages only.", "environment kvm-hap": "KVM guest, two-dimensional paging."},
    {environment: environment.split("-")[-1] for environment in ENVIRONMENTS},
)


def result(workload: str, environment: str, policy: str) -> dict[str, Any]:
    """One cell as its file has it; the numbers are a function of the names."""
    run = f"{workload}@{environment}~{policy}"
    outcome, reason = ENDS.get(run, ("success", None))
    return {
        "run": run,
        "workload": workload,
        "environment": environment,
        "policy": policy,
        "size": "smoke",
        "outcome": outcome,
        "reason": reason,
        "values": _values(workload, environment, policy) if outcome == "success" else {},
        "provenance": {
            "commit": "0123456789abcdef0123456789abcdef01234567",
            "series": {"kernel-patches/6.12": "ab" * 32, "hypervisor/xen/4.20": "cd" * 32},
            "roots": {"build": "0"},
            "components": {"linux": "6.12.117-1", "qemu": "1:10.0.7+ds-0+deb13u1", "xen": "4.20.2"},
            "command": f"abh run {run} --size smoke",
            "seed": 1,
            "machine": "q35, 2 vCPUs, QEMU TCG on x86_64",
            "when": f"2026-01-31T12:{zlib.crc32(run.encode()) % 60:02}:00+00:00",
        },
    }


def _values(workload: str, environment: str, policy: str) -> dict[str, Any]:
    total = 20000 + zlib.crc32(workload.encode()) % 180000  # 4 KiB pages touched
    share = {"reg": 0.0, "thp-paper": 0.1, "thp": 0.2}[policy] * (1 + zlib.crc32(workload[::-1].encode()) % 40 / 10)
    share = 0.0 if environment == "xen-pv" else min(share, 0.996)
    huge = int(total * share) // 512
    minor = total - 512 * huge + huge
    counted = {
        "minor_faults": (minor, "count"),
        "huge_faults": (huge, "count"),
        "alloc_ratio": (512 * huge / (512 * huge + minor - huge), "ratio"),
        "guest_huge_kib": (huge * 2048, "KiB"),
        "rss_peak_kib": (total * 4 + huge * 96, "KiB"),
        "instructions": (total * 1000 - huge, "instructions"),
    }
    values = {name: {"value": number, "unit": unit, "kind": "counted"} for name, (number, unit) in counted.items()}
    values["elapsed_s"] = {"value": 12.5, "unit": "s", "kind": "emulated"}
    values["host_huge_kib"] = {
        "value": None,
        "unit": "KiB",
        "kind": "counted",
        "reason": "no layer below the native system",
    }
    if environment != "native":
        backed = {"kvm-hap": 0.9, "kvm-shadow": 0.4, "xen-hap": 0.97}.get(environment, 0.0)
        below = {"host_huge_kib": int(RAM_MIB * 1024 * backed) // 2048 * 2048, "host_mapped_kib": RAM_MIB * 1024}
        values |= {name: {"value": number, "unit": "KiB", "kind": "counted"} for name, number in below.items()}
        values["vm_exits"] = {"value": minor // 10, "unit": "exits", "kind": "counted"}
    return values


def write(folder: Path) -> Path:
    """Every result file, but for the absent cells, and two measured allocators."""
    folder.mkdir(parents=True, exist_ok=True)
    for run in PLAN.runs():
        if str(run) not in ABSENT:
            data = result(run.workload, run.environment, run.policy)
            (folder / f"{run}.json").write_text(json.dumps(data), encoding="utf-8")
    samples = {
        name: [allocators.Sample(faults, huge, 200_000, seconds, seconds) for seconds in (1.0, 1.5, 1.1)]
        for name, faults, huge in (("stock", 50_000, 0), ("patched abh=1", 500, 98))
    }
    lines = allocators.summarize("sqlite", "paper", "madvise", samples)
    allocators.write(folder / allocators.RESULT, lines)
    return folder


# What the MMU model and --explain add to a result: name -> number, unit.
MODELLED = {
    "guest_user_tlb_misses": (20, "misses"),
    "guest_user_accesses": (1000, "accesses"),
    "guest_user_walk_cycles": (1500, "cycles"),
    "walks_completed": (40, "walks"),
    "walk_cycles": (2000, "cycles"),
    "walk_share_estimate_low": (0.1, "ratio (estimate)"),
    "walk_share_estimate_high": (0.2, "ratio (estimate)"),
    "fills_2m_2m": (30, "walks"),
    "fills_2m_4k": (10, "walks"),
}
# What is run under policies that PLAN does not have, beside the values of thp-paper.
OTHERS: dict[str, dict[str, int]] = {
    "dedup@native~abh": {"huge_splits": 0, "huge_pmd_splits": 3, "rss_peak_kib": 10**6},
    "sqlite@native~abh": {"huge_splits": 0, "huge_pmd_splits": 0, "free_hugepages": 300},
    "mcf@kvm-hap~abh": {"minor_faults": 500, "vm_exits": 90, "rss_peak_kib": 10**6},
    "sqlite@kvm-hap~abh-off": {"minor_faults": 700},
    "sqlite@native~abh-none": {"minor_faults": 100_000},
    "sqlite@native~abh-no-heap-end": {"minor_faults": 9},
    "sqlite@kvm-hap~abh-fragmented": {"huge_fallbacks": 90, "free_hugepages": 0},
    "set-conflict@native~abh-no-offset": {"congruent": 18},
    "mcf@xen-shadow~thp-xen2m": {"host_huge_kib": 51200},
    "matrix@itanium~sf": {"superpages_demoted": 0, "walks_ended": 7},
    "matrix@itanium~sf-lp": {"superpages_demoted": 3, "walks_ended": 90},
}
EXPLAINED = {"faults_huge": (12, "count"), "faults_not_covered": (900, "count"), "faults_not_anon": (88, "count")}
LEVELS = ("user", "kernel", "root")
# One at least for each figure of other page tables.
OTHER_TABLES = (("g16", "r4700"), ("g16-s128k", "r4700"), ("radix/radix", "i7-3770"), ("intel-48", "jacob-mudge"))


REPLAY = {"batch": "", "swept": {}, "warm": False, "fetches": "pages"}


def replay(name: str, machine: str, cycles: int, *, superpages: bool = False, **more: int) -> dict[str, object]:
    """One run through one organisation, of 1,000 accesses and ten refills."""
    counted = {"loads": 700, "stores": 200, "fetches": 100, "refills": 10, "refill_cycles": 10 * cycles,
               "references_flat": 40, "references_most": 4, "handler_instructions_user": 0,
               "handler_fetches_l2": 0, "handler_fetches_memory": 0}  # fmt: skip
    for level in LEVELS:
        counted |= {f"handler_instructions_{level}": 0, f"interrupts_{level}": 0}
        counted |= {f"table_loads_{level}_{where}": 0 for where in ("l1", "l2", "memory")}
    counted |= more
    counters = {"instructions": 1000, "layers": {"total": counted}, "table": {"bytes": 4096, "pages_mapped": 64}}
    return {"organisation": name, "machine": machine, "superpages": superpages, "counters": counters, **REPLAY}


def write_asked(folder: Path) -> Path:
    """The same, and results of runs that were asked for more: why a fault got no hugepage, what the MMU did, and what
    other policies make of it."""
    write(folder)
    for run, numbers in OTHERS.items():
        workload, environment, policy = run.replace("~", "@").split("@")
        data = result(workload, environment, "thp-paper") | {"run": run, "policy": policy}
        for name, number in numbers.items():
            known = data["values"].get(name, {"unit": "count", "kind": "counted"})
            data["values"][name] = {**known, "value": number}
        own = folder / spec.policy(policy).group
        own.mkdir(parents=True, exist_ok=True)
        (own / f"{run}.json").write_text(json.dumps(data), encoding="utf-8")
    swept = {"cpu": "zen2", "sweep": None, "counters": {"layers": {"guest_user": {"tlb_misses": 1, "accesses": 9}}}}
    sweep = {"run": "mcf@native~thp", "fingerprint": "", "replays": [swept]}
    for place, kind, said in (("mmu/zen2", "modelled", MODELLED), ("explained", "counted", EXPLAINED)):
        asked = (("tlb-overflow", "native", "thp"), *(("mcf", "kvm-hap", policy) for policy in ("reg", "thp", "abh")))
        for run in (Run(*names) for names in asked):
            data = result(run.workload, run.environment, "thp") | {"run": str(run), "policy": run.policy}
            more = {name: {"value": number, "unit": unit, "kind": kind} for name, (number, unit) in said.items()}
            data["values"] |= more
            (folder / place).mkdir(parents=True, exist_ok=True)
            (folder / place / f"{run}.json").write_text(json.dumps(data), encoding="utf-8")
    for policy in ("thp", "abh"):
        data = result("xz", "native", "thp") | {"run": f"xz@native~{policy}", "policy": policy, "size": "paper"}
        (folder / "paper/compat").mkdir(parents=True, exist_ok=True)
        (folder / f"paper/compat/xz@native~{policy}.json").write_text(json.dumps(data), encoding="utf-8")
    (folder / "mmu/sweep").mkdir()
    (folder / "mmu/sweep/mcf@native~thp.json").write_text(json.dumps(sweep), encoding="utf-8")
    thesis = folder / "mmu/organisations" / organisations.MADE_UP
    thesis.parent.mkdir(parents=True)
    others = [replay(name, machine, 37) for name, machine in OTHER_TABLES]
    replayed = {"run": "mcf@native~thp", "fingerprint": "", "replays": others}
    (folder / "mmu/organisations/mcf@native~thp.json").write_text(json.dumps(replayed), encoding="utf-8")
    line = {
        "workload": "task",
        "organisation": "mpt",
        "at": 2,
        "quantity": "cycles",
        "unit": "cycles",
        "value": 12_300.0,
    }
    made_up = {"fingerprint": "", "kind": "modelled", "lines": [line]}
    thesis.write_text(json.dumps(made_up), encoding="utf-8")
    anew = folder / "mmu/organisations" / organisations.of_program(next(iter(organisations.PROGRAMS)))
    anew.parent.mkdir(parents=True, exist_ok=True)
    program = {"fingerprint": "", "program": anew.stem, "replays": [replay("g16", "r4700", 37)]}
    anew.write_text(json.dumps(program), encoding="utf-8")
    walks = {"walk_share": {"value": 0.25, "unit": "ratio", "kind": "measured", "runs": 7}}
    real = result("mcf", "native", "thp") | {"run": "mcf@bare-metal~thp", "environment": "bare-metal", "values": walks}
    real |= {"repeats": 7, "processor": "a Skylake", "microarchitecture": "intel-skylake"}
    (folder / "collect/host").mkdir(parents=True)
    (folder / "collect/host/mcf@bare-metal~thp.json").write_text(json.dumps(real), encoding="utf-8")
    return folder


def study(folder: Path) -> Study:
    """The made-up study, by way of its files."""
    return make_study(PLAN, load(write(folder)), folder)


def test_the_made_up_results_keep_the_contract(tmp_path: Path) -> None:
    made = study(tmp_path)
    assert len(list(PLAN.runs())) == 144
    assert len(made.results) == 144 - len(ABSENT)
    assert {result.run for result in made.failed()} == set(ENDS)


if __name__ == "__main__":
    print(write(Path(sys.argv[1])))
