# SPDX-License-Identifier: MIT
"""One run: what the machine is asked, and what its answers mean."""

from __future__ import annotations

import datetime
import functools
import json
import math
import os
import platform
import string
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from abh import paths
from abh.build import cache, components, root, series
from abh.errors import AbhError, Status
from abh.machine import emulated, itanium
from abh.model import mmu
from abh.schema import result, spec
from abh.schema.result import Result, Value
from abh.schema.workload import Workload
from abh.study import aligned, faults

# What an agent reports, with its unit and kind; anything else it says is an error of the bench.
REPORTED: dict[str, tuple[str, result.Kind]] = {
    "minor_faults": ("faults", "counted"),
    "major_faults": ("faults", "counted"),
    "huge_faults": ("faults", "counted"),
    "huge_fallbacks": ("faults", "counted"),
    "huge_splits": ("hugepages", "counted"),
    "huge_pmd_splits": ("hugepages", "counted"),
    "huge_collapses": ("hugepages", "counted"),
    "system_faults": ("faults", "counted"),
    "system_huge_faults": ("faults", "counted"),
    "rss_peak_kib": ("KiB", "counted"),
    "memory_peak_kib": ("KiB", "counted"),
    "memory_idle_1s_kib": ("KiB", "counted"),
    "memory_idle_10s_kib": ("KiB", "counted"),
    "mappings_peak": ("mappings", "counted"),
    "processes_left": ("processes", "counted"),  # of the workload, when its first one had ended
    "guest_huge_kib": ("KiB", "counted"),
    "free_hugepages": ("hugepages", "counted"),  # that free memory could give, just before the workload
    "host_huge_kib": ("KiB", "counted"),
    "host_mapped_kib": ("KiB", "counted"),  # all that the host maps for the guest, hugepages or not
    "p2m_huge_kib": ("KiB", "counted"),
    "splintered_superpages": ("superpages", "counted"),
    "superpages_live": ("entries", "counted"),  # of the shadow's, when the workload had ended
    "superpages_shadow_pages": ("pages", "counted"),
    "superpages_direct": ("entries", "counted"),
    "superpages_promoted": ("superpages", "counted"),
    "superpages_demoted_table": ("entries", "counted"),
    "superpages_demoted_mapping": ("entries", "counted"),
    "superpages_demoted_fault": ("entries", "counted"),
    "superpages_splintered_p2m": ("superpages", "counted"),
    "superpages_splintered_dirty": ("superpages", "counted"),
    "superpages_splintered_cache": ("superpages", "counted"),
    "superpages_splintered_write": ("superpages", "counted"),
    "superpages_splintered_page": ("superpages", "counted"),
    "superpages_splintered_wait": ("superpages", "counted"),
    "superpages_splintered_many": ("superpages", "counted"),
    "elapsed": ("s", "emulated"),
}
PROTOCOL = 2  # ABH_VERSION in agent/protocol.h
# Of which processes a value is, said beside it in the result. What has no note here is of the whole system.
_GROUP = "of all processes of the workload's control group, until the agent ended those left"
_MEMORY = "what the workload's control group is charged with, the kernel's own for it too, without files and tmpfs"
OF_WHICH = {
    "minor_faults": _GROUP,
    "major_faults": f"{_GROUP}; without those whose parent ignored their end, whose major faults are minor_faults",
    "huge_faults": _GROUP,
    "guest_huge_kib": f"{_GROUP}; the peak of samples, one every 20 ms",
    "memory_peak_kib": f"{_MEMORY}; the peak of samples, one every 20 ms",
    "memory_idle_1s_kib": f"{_MEMORY}, 1 s after the first process had ended",
    "memory_idle_10s_kib": f"{_MEMORY}, 10 s after the first process had ended",
    "mappings_peak": "the most that one process of the workload's control group had; samples, one every 240 ms",
    "rss_peak_kib": "the largest of: each process's own peak; samples of what all processes of the workload's control "
    "group had together, one every 20 ms (pages that processes share are in each one's)",
}
NO_VM_EXITS = {
    "native": "no hypervisor, so nothing to leave a guest for",
    "pv": "a para-virtual guest does not run in SVM guest mode: it traps and calls into Xen, without VM exits",
}
# Seconds of the emulator's processor time; the workload's own limit counts in the guest's. A machine that needs more
# than this is hung.
LIMIT_S = {"smoke": 400.0, "paper": 6 * 3600.0}
MMU_SLOWDOWN = 5  # of a cell with the MMU model in checking mode; without checks it is about half of that
REASON_CHARS = 2000  # of console or output, in a reason
ENDINGS = {"skip": "skip", "error": "error", "crash": "crash"}


@dataclass(frozen=True)
class Cell:
    """A run with everything it names, loaded."""

    run: spec.Run
    size: result.Size
    workload: Workload
    environment: spec.Environment
    policy: spec.Policy
    machine: spec.Machine
    icount: bool = True
    explain: bool = False  # count faults by the reason they got no hugepage: a few more instructions a fault
    mmu: str | None = None  # the processor whose MMU is modelled beside the run
    mmu_check: bool = False  # compare each address the model finds with the emulator's
    trace: Path | None = None  # where all accesses are recorded, to be replayed on other processors
    every_fetch: bool = False  # in the trace: each line of instructions, not the first of each page
    draw: int = 0  # another seed of the kernel's randomness for each; 0: as the machine draws by itself
    draws: int = 1  # of which this cell is one, or the median
    linux: Path | None = None  # another kernel than the series' (testbed.kernel); a host's modules stay the series'

    @classmethod
    def of(cls, name: str, size: result.Size, **options: Any) -> Cell:
        """Loads the specs that `<workload>@<environment>~<policy>` names; options are the last fields."""
        run = spec.Run.parse(name)
        environment = spec.environment(run.environment)
        workload, policy = spec.workload(run.workload), spec.policy(run.policy)
        spec.check_together(workload, environment, policy)
        workload.check_size(size)
        return cls(run, size, workload, environment, policy, spec.machine(environment.machine), **options)

    def __post_init__(self) -> None:
        """Refuses what only QEMU's machines have."""
        options = {
            "--free-running": not self.icount,
            "--explain": self.explain,
            "--mmu": self.mmu,
            "--trace": self.trace,
            "--draws": self.draws > 1,
        }
        if itanium.runs(self.machine) and (given := [name for name, is_given in options.items() if is_given]):
            raise AbhError(
                "the Itanium machine has no such option",
                where=str(self.run),
                got=", ".join(given),
                next_step="leave it out: it counts what its own MMU does in every run",
                status=Status.USAGE,
            )

    @property
    def name(self) -> str:
        """The run, and its draw where it has several."""
        return str(self.run) if self.draws == 1 else f"{self.run} draw {self.draw}"

    @property
    def components(self) -> list[str]:
        """The components that its machine is made of."""
        if itanium.runs(self.machine):
            return itanium.component_names(self.machine)
        return emulated.component_names(self.machine, self.workload.group, mmu=self.model is not None)

    @property
    def model(self) -> str | None:
        """Arguments of the MMU model, if it runs."""
        if not self.mmu and not self.trace:
            return None
        recorded = {"trace": self.trace is not None, "every_fetch": self.every_fetch}
        return mmu.arguments(self.environment, self.mmu, check=self.mmu_check, **recorded)


def _settings(sysfs: Mapping[str, str], lacks: Sequence[str]) -> list[str]:
    """Lines that set a policy's knobs; below a folder the system lacks they are left out, and the lack is checked."""
    kept = {path: value for path, value in sysfs.items() if not any(path.startswith(f"{each}/") for each in lacks)}
    return [f"absent {path}" for path in lacks] + [f"set {path} {value}" for path, value in kept.items()]


def guest_lines(cell: Cell) -> str:
    """The cell as the guest's agent reads it (agent/protocol.h)."""
    lacks = cell.environment.guest_lacks
    lines = [f"ABHCELL {PROTOCOL}"]
    lines += [f"require {path}" for path in cell.policy.requires if not any(path.startswith(f"{x}/") for x in lacks)]
    lines += _settings(cell.policy.guest.sysfs, lacks)
    lines += [f"draw {cell.draw}"] if cell.draw else []
    lines += [f"set {faults.KNOB} 1"] if cell.explain else []
    lines += [f"env {name}={value}" for name, value in {**cell.workload.env, **cell.policy.guest.env}.items()]
    lines += [f"before {word}" for word in cell.policy.guest.before]
    lines += [f"cwd /abh/workloads/{cell.workload.name}", f"timeout {cell.workload.timeout_s}"]
    lines += ["idle"] if cell.workload.idle else []
    lines += [f"arg {word}" for word in cell.workload.argv_for(cell.size)]
    return "\n".join([*lines, "end", ""])


def host_lines(cell: Cell) -> str:
    """What the host does: modules with their parameters before the guest is created, the policy's knobs after."""
    lines = module_lines(cell)
    if cell.environment.hypervisor != "none":
        lines += _settings(cell.policy.host.sysfs, cell.environment.host_lacks)
        known = cell.environment.domain_settings
        lines += [f"domain {name} {value}" for name, value in cell.policy.host.domain.items() if name in known]
    return "\n".join([*lines, "end", ""])


def module_lines(cell: Cell) -> list[str]:
    """The host's kernel modules, with parameters."""
    return [
        " ".join(["module", name, *(f"{key}={value}" for key, value in parameters.items())])
        for name, parameters in cell.environment.host.modules.items()
    ]


def domain_xml(cell: Cell) -> str:
    """The libvirt domain with this run's sizes and command line; empty where there is no hypervisor."""
    environment = cell.environment
    if environment.domain is None:
        return ""
    template = (paths.VM_CONFIGS / "libvirt" / environment.domain).read_text()
    return string.Template(template).substitute(
        memory_mib=environment.memory_mib[cell.size],
        vcpus=environment.vcpus,
        cmdline=escape(environment.guest_cmdline),
    )


def cell_text(cell: Cell) -> str:
    """All that the machine is told: the guest's part, the host's, the domain (split again by agent/init-host)."""
    return f"{guest_lines(cell)}@host\n{host_lines(cell)}@domain\n{domain_xml(cell)}"


def setup_text(cell: Cell) -> str:
    """What the machine is told before it is frozen: all that the guest's creation depends on, no policy, no cell."""
    modules = "\n".join([*module_lines(cell), "end"])
    return f"end\n@host\n{modules}\n@domain\n{domain_xml(cell)}"


def told(cell: Cell) -> list[str]:
    """All that decides what a cell does and says, but for what the machine is made of."""
    # Where the parts are decides nothing; what they are, their keys say.
    here = Path()
    somewhere = emulated.Parts(here, here, here, here, here if cell.machine.boot == "xen" else None)
    words = emulated.qemu_words(cell.machine, cell.size, somewhere, icount=cell.icount, resumed=True, mmu=cell.model)
    return [cell_text(cell), setup_text(cell), *words]


@dataclass
class Said:
    """What the agents said: values, the workload's output, the table of faults, how guest and host ended."""

    values: dict[str, str] = field(default_factory=dict)
    output: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    end: str | None = None


def listen(lines: list[str]) -> Said:
    """Reads the agents' lines."""
    said = Said()
    for line in lines:
        words = line.split(" ", 2)
        if words[0] != "ABH" or len(words) < 2:
            continue
        rest = words[2] if len(words) > 2 else ""
        if words[1] == "value":
            name, _, value = rest.partition(" ")
            said.values[name] = value
        elif words[1] == "out":
            said.output.append(rest)
        elif words[1] == "faults":
            said.faults.append(rest)
        elif words[1] == "console":
            said.console.append(rest)
        elif words[1] == "guest-end" or (words[1] == "end" and rest != "host"):
            said.end = rest
    return said


def _reported(said: Said) -> Iterator[tuple[str, Value]]:
    for name, text in said.values.items():
        if name not in REPORTED:
            raise AbhError(f"the agent reports an unknown value '{name}'", got=text, expected=", ".join(REPORTED))
        unit, kind = REPORTED[name]
        try:
            number = float(text) if "." in text else int(text)
        except ValueError:
            raise AbhError(f"the agent reports garbage for '{name}'", got=text, expected="a number") from None
        if not math.isfinite(number):
            raise AbhError(f"the agent reports garbage for '{name}'", got=text, expected="a number")
        if number < 0:
            yield name, Value.unknown(unit, kind, "this kernel does not report it")
        else:
            yield name, Value(value=number, unit=unit, kind=kind, reason=OF_WHICH.get(name))


def _object(text: str) -> dict[str, Any]:
    """A line of the plugin; empty if it was cut off."""
    try:
        read = json.loads(text)
    except ValueError:
        return {}
    return dict(read) if isinstance(read, dict) else {}


def _counted_outside(cell: Cell, region: str) -> dict[str, Value]:
    """What the plugin counted in the marked region."""
    lines = [_object(line) for line in region.splitlines()]
    whole = [line for line in lines if type(line.get("instructions")) is type(line.get("vmrun")) is int]
    if len(lines) != 1 or len(whole) != 1:
        reason = f"the plugin saw {len(whole)} whole regions, not one: {region.strip()[:200] or 'no line'}"
        instructions = Value.unknown("instructions", "counted", reason)
        exits = Value.unknown("exits", "counted", reason)
    else:
        instructions = Value.of(whole[0]["instructions"], "instructions", "counted")
        exits = Value.of(whole[0]["vmrun"], "exits", "counted")
    if why := NO_VM_EXITS.get(cell.environment.paging):
        exits = Value.unknown("exits", "counted", why)
    return {"instructions": instructions, "vm_exits": exits}


def values_of(cell: Cell, said: Said, region: str) -> dict[str, Value]:
    """All values of a run."""
    values = dict(_reported(said))
    minor, huge = values.get("minor_faults"), values.get("huge_faults")
    if minor and huge and minor.value is not None and huge.value is not None:
        values["alloc_ratio"] = result.alloc_ratio(huge.value, minor.value - huge.value)
    elif minor and huge:
        values["alloc_ratio"] = Value.unknown("ratio", "counted", "the faults it is made of are not known")
    if "host_huge_kib" not in values:
        source = cell.environment.host_huge
        why = source.why if source and source.why else "the host reported nothing"
        values["host_huge_kib"] = Value.unknown("KiB", "counted", why)
    values |= aligned.values_of(cell.environment.paging, values)
    table = said.faults if said.end else []  # of a guest that died it may be cut short
    return {**values, **faults.values_of(table), **_counted_outside(cell, region)}


def judge(cell: Cell, said: Said, problem: str | None, console: str) -> tuple[result.Outcome, str | None]:
    """Outcome and reason, from how the cell ended and whether the workload's answer is right."""
    if said.end is None:
        return "crash", f"{problem or 'no end was reported'}\n{console[-REASON_CHARS:]}".strip()
    word, _, rest = said.end.partition(" ")
    output = "\n".join(said.output)
    if word in ENDINGS:
        return ENDINGS[word], "\n".join([rest or said.end, *said.console])  # type: ignore[return-value]
    if word not in ("exit", "signal", "timeout"):
        return "error", f"the agent's end is not one of the protocol: {said.end[:REASON_CHARS]}"
    if said.end in ("exit 126", "exit 127"):
        return "error", f"the agent could not start the workload\n{output[-REASON_CHARS:]}".strip()
    if said.end != "exit 0":
        return "failure", f"the workload ended with {said.end}\n{output[-REASON_CHARS:]}".strip()
    if cell.workload.idle and said.values.get("processes_left") == "0":
        return "failure", f"the workload left no process to be idle\n{output[-REASON_CHARS:]}".strip()
    right, _ = cell.workload.check_output(cell.size, output)
    if not right:
        return "failure", f"the workload's answer is not the one expected\n{output[-REASON_CHARS:]}".strip()
    return "success", None


def _metrics(cell: Cell, said: Said) -> dict[str, Value]:
    _, metrics = cell.workload.check_output(cell.size, "\n".join(said.output))
    return metrics


@functools.cache
def _commit() -> str:
    words = ["git", "-C", str(paths.CHECKOUT), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"


@functools.cache
def _this_machine() -> str:
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo") as info:
        model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), model)
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def _options(cell: Cell) -> str:
    options = {
        " --free-running": not cell.icount,
        " --explain": cell.explain,
        f" --mmu {cell.mmu}": cell.mmu,
        " --mmu-check": cell.mmu_check,
        f" --trace {cell.trace}": cell.trace,
        " --every-fetch": cell.every_fetch,
        f" --draws {cell.draws}": cell.draws > 1,
    }
    return "".join(option for option, given in options.items() if given)


def roots_of(cell: Cell) -> list[str]:
    """The Debian roots that a run's machine is made of, compilers included."""
    built = [components.COMPONENTS[name] for name in _made_of(cell)]
    return sorted({name for each in built for name in (each.root, *each.roots)})


def _made_of(cell: Cell) -> list[str]:
    """The components that a run is made of, and all that these need."""
    return components.with_needs(cell.components)


def provenance(cell: Cell) -> result.Provenance:
    """What made the numbers."""
    built = {name: each for name in _made_of(cell) if (each := components.COMPONENTS[name]).series}
    return result.Provenance(
        commit=_commit(),
        series={
            folder: series.series_hash(series.load(paths.CHECKOUT / folder))
            for folder in sorted({str(each.series) for each in built.values()})
        },
        components={name: components.version_of(name) for name in built},
        roots={name: root.contents(name).digest for name in roots_of(cell)},
        command=f"abh run {cell.run} --size {cell.size}{_options(cell)}",
        seed=cell.workload.seed,
        machine=_this_machine(),
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _parts(cell: Cell, *, mmu: bool = False) -> emulated.Parts:
    parts = emulated.parts_of(cell.machine, cell.workload.group, mmu=mmu)
    return replace(parts, linux=cell.linux) if cell.linux else parts


def frozen_state(cell: Cell) -> Path:
    """The folder with the environment's machine, frozen with its guest created but not started; made on first use."""
    parts = _parts(cell)
    made_of = [part.name for part in (parts.qemu, parts.plugin, parts.linux, parts.initramfs, parts.xen) if part]
    words = emulated.qemu_words(cell.machine, cell.size, parts, icount=True, resumed=False)
    setup = setup_text(cell)
    return cache.produce(
        "frozen",
        spec.of_group(f"{cell.environment.name}-{cell.size}", cell.workload.group),
        cache.key_of(*made_of, *words, setup),
        lambda out: emulated.freeze(cell.machine, cell.size, parts, setup, out),
        about=f"booting environment '{cell.environment.name}' once",
        needs_mib=1500,
    )


def emulate(cell: Cell) -> emulated.Ended:
    """Lets a freshly thawed machine run the cell in a fresh guest."""
    parts = _parts(cell, mmu=cell.model is not None)
    return emulated.run(
        cell.machine,
        cell.size,
        parts,
        frozen_state(cell) if cell.icount else None,
        cell_text(cell),
        icount=cell.icount,
        limit_s=LIMIT_S[cell.size] * (MMU_SLOWDOWN if cell.model else 1),
        mmu=cell.model,
        keep={mmu.TRACE: cell.trace} if cell.trace else {},
    )


def run(cell: Cell, heard: Callable[[Mapping[str, Any]], None] = lambda _: None) -> Result:
    """Runs a cell and judges how it ended; `heard` is given what the MMU model said, if it ran and was whole."""
    ended = emulate(cell)
    said = listen(ended.lines)
    outcome, reason = judge(cell, said, ended.problem, ended.console)
    values = values_of(cell, said, ended.region)
    if cell.mmu and outcome == "success":
        model = mmu.read(ended.region)
        heard(model)
        values |= mmu.values_of(model)
        if wrong := mmu.wrong_addresses(values):
            outcome, reason = "error", wrong
    return result_of(cell, outcome, reason, values, said)


def result_of(cell: Cell, outcome: result.Outcome, reason: str | None, values: dict[str, Value],
              said: Said | None = None) -> Result:  # fmt: skip
    """A run's result; the workload's own metrics count only where it succeeded."""
    if outcome == "success" and said:
        values = values | _metrics(cell, said)
    return Result(
        run=str(cell.run),
        workload=cell.run.workload,
        environment=cell.run.environment,
        policy=cell.run.policy,
        size=cell.size,
        outcome=outcome,
        reason=reason,
        values=values,
        provenance=provenance(cell),
    )
