# SPDX-License-Identifier: MIT
"""The TOML files as typed objects: workloads, environments, policies, machines, roots, and a run's identity.

Each class is one kind of file and each field one key; a folder is read by globbing, so a new file needs no
registration. Any problem in a file is an AbhError with the file, the key, and what to do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from abh.errors import AbhError, Status
from abh.paths import CHECKOUT
from abh.schema.keys import (
    InsidePath,
    KernelPath,
    Line,
    Name,
    Packages,
    PerSize,
    Positive,
    ScalarWord,
    Sentence,
    SnakeName,
    Spec,
    Word,
    checked,
    no_repeat,
)
from abh.schema.policy import GuestPolicy as GuestPolicy
from abh.schema.policy import Policy as Policy
from abh.schema.policy import PolicyShelf
from abh.schema.shelf import GroupedShelf, Shelf
from abh.schema.strict import Strict, bad, did_you_mean
from abh.schema.workload import Workload

# --- environments and the machines they run on ------------------------------------------------------------------


class Host(Strict):
    """What an environment asks of its host."""

    modules: dict[SnakeName, dict[SnakeName, ScalarWord]] = Field(
        default_factory=dict
    )  # kernel module -> parameter -> value


class HostHuge(Strict):
    """Where the number of hugepages behind the guest is read."""

    source: Literal["kvm-debugfs", "xen-leaves", "none"]
    why: Sentence | None = None  # iff the source is none

    @model_validator(mode="after")
    def _why_iff_none(self) -> HostHuge:
        if self.source == "none" and self.why is None:
            raise bad("no source and no reason", key="why", got="", next_step="say why it cannot be read")
        if self.source != "none" and self.why is not None:
            raise bad(
                "a reason for having no source, and a source",
                key="why",
                got=self.why,
                next_step='remove `why`, or set `source = "none"`',
            )
        return self


_PAGING = {"none": ("native",), "kvm": ("hap", "shadow"), "xen": ("hap", "shadow", "pv")}
_HUGE_SOURCE = {"none": ("none",), "kvm": ("kvm-debugfs", "none"), "xen": ("xen-leaves", "none")}


class Environment(Spec):
    """vm-configs/<name>.toml: one way to run a guest, or none."""

    order: int
    on_demand: bool = False  # it runs when it is named; the study goes without
    hypervisor: Literal["none", "kvm", "xen"]
    machine: Name  # vm-configs/machines/<machine>.toml
    domain: InsidePath | None = None  # vm-configs/libvirt/<domain>, iff there is a hypervisor
    paging: Literal["native", "hap", "shadow", "pv"]
    guest_cmdline: Line
    vcpus: Positive
    memory_mib: PerSize  # of the guest
    host: Host = Host()
    # Folders that guest or host do not have: a policy's settings below them are left out, and the agents check it.
    guest_lacks: tuple[KernelPath, ...] = ()
    host_lacks: tuple[KernelPath, ...] = ()
    host_huge: HostHuge | None = None
    domain_settings: Annotated[tuple[SnakeName, ...], AfterValidator(no_repeat)] = ()  # of `host.domain`, that it has
    group: Name | Literal[""] = ""  # of policies and workloads that are for it alone; it has no other policies

    @model_validator(mode="after")
    def _fits_hypervisor(self) -> Environment:
        if self.hypervisor == "none" and self.domain is not None:
            raise bad(
                "a domain without a hypervisor",
                key="domain",
                got=self.domain,
                next_step="remove `domain`, or name the hypervisor",
            )
        if self.hypervisor != "none" and self.domain is None:
            raise bad(
                f"no domain for {self.hypervisor}",
                key="domain",
                got="",
                expected="a file under vm-configs/libvirt/",
                next_step='add `domain = "….xml"`',
            )
        if self.paging not in _PAGING[self.hypervisor]:
            raise bad(
                f"hypervisor {self.hypervisor} has no such paging",
                key="paging",
                got=self.paging,
                expected="one of " + ", ".join(_PAGING[self.hypervisor]),
            )
        if self.host_huge and self.host_huge.source not in _HUGE_SOURCE[self.hypervisor]:
            raise bad(
                f"hypervisor {self.hypervisor} has no such source",
                key="host_huge.source",
                got=self.host_huge.source,
                expected="one of " + ", ".join(_HUGE_SOURCE[self.hypervisor]),
            )
        if self.hypervisor == "none" and self.host.modules:
            raise bad(
                "host modules without a hypervisor",
                key="host.modules",
                got=self.host.modules,
                next_step="remove them, or name the hypervisor",
            )
        return self


class Architecture(Spec):
    """vm-configs/architectures/<name>.toml: a kind of computer that QEMU emulates."""

    emulator: Word  # the program that QEMU's component holds
    firmware: tuple[Word, ...] = ()  # folders of the build root where QEMU looks for it
    args: tuple[Word, ...]  # what every machine of this kind has


class Machine(Spec):
    """vm-configs/machines/<name>.toml: the emulated computer."""

    architecture: Name = "x86-64"  # vm-configs/architectures/<architecture>.toml
    emulator: Name = "qemu"  # the component that emulates it: QEMU, or the Itanium machine
    kernel: Name = "linux"  # the component whose vmlinuz it boots
    cpu: Word  # QEMU's -cpu; of the Itanium machine, its costs: vm-configs/costs/<cpu>.toml
    memory_mib: PerSize
    qemu_args: tuple[Word, ...]
    kernel_cmdline: Line
    boot: Literal["linux", "xen"]
    xen_cmdline: Line | None = None  # iff boot is xen
    root: Literal["guest", "host", "ia64"]  # the image it boots
    boot_timeout_s: Positive

    @model_validator(mode="after")
    def _agrees(self) -> Machine:
        if self.boot == "xen" and self.xen_cmdline is None:
            raise bad(
                "boots Xen without its command line",
                key="xen_cmdline",
                got="",
                expected="a string",
                next_step='add `xen_cmdline = "…"`',
            )
        if self.boot == "linux" and self.xen_cmdline is not None:
            raise bad(
                "a Xen command line on a machine that boots Linux",
                key="xen_cmdline",
                got=self.xen_cmdline,
                next_step='remove it, or set `boot = "xen"`',
            )
        if self.boot == "xen" and self.root != "host":
            raise bad("Xen boots with the guest's image", key="root", got=self.root, expected="host")
        for option, key in (("-cpu", "cpu"), ("-m", "memory_mib"), ("-append", "kernel_cmdline")):
            if option in self.qemu_args:
                raise bad(f"{option} is the key `{key}`", key="qemu_args", got=option, next_step=f"set `{key}` instead")
        return self


# --- roots -----------------------------------------------------------------------------------------


class RootFs(Spec):
    """vm-configs/roots/<name>.toml: a Debian tree."""

    suite: Name
    packages: Packages = ()
    extends: Name | None = None  # another root, whose packages this one has too
    workloads: Literal["packages", "build_packages"] | None = None  # the workloads' packages that it has too
    group: Name | None = None  # of the workloads that these are of; None: the study's own


# --- finding and loading ----------------------------------------------------------------------------------------


class Component(Spec):
    """recipes/<name>.toml: something built, by a recipe in a Debian root, from all that the file names."""

    recipe: InsidePath | None = None  # in recipes/; <name>.sh where there is no other
    minutes: Annotated[float, checked(lambda number: number > 0, "a number above 0")]  # on two cores, once
    series: InsidePath | None = None  # folder of a patch series
    patched: bool = True  # false: what the series is of, without its patches
    reads: tuple[InsidePath, ...] = ()  # folders and files of the checkout that the recipe reads
    leaves: tuple[InsidePath, ...] = ()  # files and folders within these that it does not
    needs: tuple[Name, ...] = ()  # components, seen by the recipe as /in/<name>
    seen_as: dict[Name, Name] = Field(default_factory=dict)  # component -> its other name under /in
    roots: tuple[Name, ...] = ()  # Debian roots, seen as /in/root
    root: Name = "build"  # the Debian root it is built in
    needs_mib: Positive = 500  # of disk, while it is built
    sysfs: bool = False  # its tests ask the running kernel what it has
    on_demand: bool = False  # tests ask for it; a study does not pay for it
    prefix: Name | None = None  # the component that shows that a part of the series builds; None: this one


WORKLOAD = GroupedShelf("workload", Workload, "workloads/*/workload.toml")
ENVIRONMENT = Shelf("environment", Environment, "vm-configs/*.toml")
HOSTS_POLICIES = Path("/etc/abh/policies")  # its administrator's own, <name>.toml
POLICY = PolicyShelf("policy", Policy, "vm-configs/policies/*.toml")
MACHINE = Shelf("machine", Machine, "vm-configs/machines/*.toml")
ARCHITECTURE = Shelf("architecture", Architecture, "vm-configs/architectures/*.toml")
COMPONENT = Shelf("component", Component, "recipes/*.toml")
ROOT = Shelf("root", RootFs, "vm-configs/roots/*.toml")


def workloads(root: Path = CHECKOUT, group: str = "") -> dict[str, Workload]:
    """The study's workloads, or those of another group; a folder without workload.toml is an error, not a gap."""
    found = WORKLOAD.all(root)
    folders = {each.folder for each in found.values()}
    rooms = {root / "workloads"} | {folder.parent for folder in folders}
    for folder in sorted(path for room in rooms for path in room.glob("[!._]*/") if path.is_dir()):
        if folder not in folders | rooms and any(folder.glob("[!_]*")):
            raise AbhError(
                "a workload without workload.toml",
                where=folder,
                next_step="write it (`abh new-workload` shows one), or remove the folder",
            )
    return {name: each for name, each in found.items() if each.group == group}


def workload_groups(root: Path = CHECKOUT) -> list[str]:
    """The groups of workloads, but for the study's own."""
    return sorted({each.group for each in WORKLOAD.all(root).values()} - {""})


def of_group(name: str, group: str) -> str:
    """What a group of workloads has in place of this component or root: its images have other packages in them."""
    return f"{group}-{name}" if group else name


def environments(root: Path = CHECKOUT, *, on_demand: bool = False) -> dict[str, Environment]:
    """The study's environments, checked against machine and domain; with those that run on demand, too, or without."""
    found = ENVIRONMENT.all(root).items()
    return {name: _fits(each, root) for name, each in found if on_demand or not each.on_demand}


def check_together(workload: Workload, environment: Environment, policy: Policy, root: Path = CHECKOUT) -> None:
    """Refuses a policy or a workload that is for another environment."""
    own = environment.group
    apart = {each.group for each in ENVIRONMENT.all(root).values()} - {"", own}
    for label, each, lost in (
        ("policy", policy, bool(own) and policy.group != own),
        ("workload", workload, False),
    ):
        if lost or each.group in apart:
            fit = [other.name for other in ENVIRONMENT.all(root).values() if other.group == each.group in apart]
            raise AbhError(
                f"{label} `{each.name}` is not for environment `{environment.name}`",
                got=f"{label} of the " + (f"group {each.group}" if each.group else "study"),
                expected=f"a {label} of the group {own}" if lost else f"environment {' or '.join(fit)}",
                next_step="`abh list` shows the groups",
                status=Status.USAGE,
            )


def policies(root: Path = CHECKOUT, group: str = "") -> dict[str, Policy]:
    """The study's policies, or those of another group."""
    return {name: each for name, each in POLICY.all(root).items() if each.group == group}


def groups(root: Path = CHECKOUT) -> list[str]:
    """The groups of policies, but for the study's own."""
    return sorted({each.group for each in POLICY.all(root).values()} - {""})


def machines(root: Path = CHECKOUT) -> dict[str, Machine]:
    """Every emulated computer."""
    return MACHINE.all(root)


def roots(root: Path = CHECKOUT) -> dict[str, RootFs]:
    """Every Debian tree, with all its packages: also those of the root it extends, and those that workloads ask for."""
    own = ROOT.all(root)
    asked = {name: [*each.packages, *_asked(each, root)] for name, each in own.items()}
    for name, each in own.items():
        if each.extends and (each.extends not in own or own[each.extends].extends):
            raise AbhError(
                "a root extends one that is not there, or that itself extends another",
                where=f"{each.path}: extends",
                got=each.extends,
                expected="one of " + ", ".join(known for known in own if not own[known].extends),
                next_step="name another root",
            )
        asked[name] += asked[each.extends] if each.extends else []
    return {name: each.model_copy(update={"packages": tuple(sorted(set(asked[name])))}) for name, each in own.items()}


def _asked(each: RootFs, root: Path) -> list[str]:
    key = each.workloads
    own = workloads(root, each.group or "").values() if key else ()
    return [package for one in own for package in getattr(one, str(key))]


def components(root: Path = CHECKOUT) -> dict[str, Component]:
    """Everything that is built, each after all that it needs."""
    found = COMPONENT.all(root)
    for each in found.values():
        for need in each.needs:
            if need not in found:
                raise AbhError(
                    "unknown component",
                    where=f"{each.path}, key needs",
                    got=need,
                    expected="one of " + ", ".join(found),
                    next_step=did_you_mean(need, found, "write its file"),
                )
    try:
        order = list(TopologicalSorter({name: each.needs for name, each in found.items()}).static_order())
    except CycleError as error:
        raise AbhError(
            "components need each other",
            where=root / "recipes",
            got=" -> ".join(error.args[1]),
            next_step="break the circle",
        ) from None
    return {name: found[name] for name in order}


def architecture(name: str, root: Path = CHECKOUT) -> Architecture:
    """One kind of computer."""
    return ARCHITECTURE.one(name, root)


def workload(name: str, root: Path = CHECKOUT) -> Workload:
    """One workload; other files are not read."""
    return WORKLOAD.one(name, root)


def environment(name: str, root: Path = CHECKOUT) -> Environment:
    """One environment, checked against its machine and domain."""
    return _fits(ENVIRONMENT.one(name, root), root)


def policy(name: str, root: Path = CHECKOUT) -> Policy:
    """One policy."""
    return POLICY.one(name, root)


def vm_policy(word: str) -> Policy:
    """A policy for a VM of this host: in a file, or of a name, first of its administrator's own."""
    if is_file(word):
        return POLICY.load(Path(word).absolute())
    own = HOSTS_POLICIES / f"{word}.toml"
    return POLICY.load(own) if own.is_file() else policy(word)


def is_file(word: str) -> bool:
    """Whether that means a file, and is no name."""
    return "/" in word or word.endswith(".toml")


def machine(name: str, root: Path = CHECKOUT) -> Machine:
    """One emulated computer."""
    return MACHINE.one(name, root)


def _fits(env: Environment, root: Path) -> Environment:
    """The environment, if its machine and domain exist and can carry it."""
    known = MACHINE.paths(root)
    if env.machine not in known:
        raise AbhError(
            "unknown machine",
            where=f"{env.path}, key machine",
            got=env.machine,
            expected="one of " + ", ".join(known) if known else "a file in vm-configs/machines/",
            next_step=did_you_mean(env.machine, known, "write the machine's file"),
        )
    domains = sorted(path.name for path in root.glob("vm-configs/libvirt/*") if path.is_file())
    if env.domain is not None and not (root / "vm-configs" / "libvirt" / env.domain).is_file():
        raise AbhError(
            "no such domain file",
            where=f"{env.path}, key domain",
            got=env.domain,
            expected="one of " + ", ".join(domains) if domains else "a file in vm-configs/libvirt/",
            next_step=did_you_mean(env.domain, domains, "write the domain's file"),
        )
    machine_ = MACHINE.load(known[env.machine])
    alone = ("linux", "guest" if machine_.root == "host" else machine_.root)
    needs = {"none": alone, "kvm": ("linux", "host"), "xen": ("xen", "host")}[env.hypervisor]
    if (machine_.boot, machine_.root) != needs:
        raise AbhError(
            f"this machine cannot carry hypervisor {env.hypervisor}",
            where=f"{env.path}, key machine",
            got=f"{env.machine}: boot = {machine_.boot}, root = {machine_.root}",
            expected=f"boot = {needs[0]}, root = {needs[1]}",
            next_step="name another machine",
        )
    for size, mib in env.memory_mib.items():
        if mib > machine_.memory_mib[size]:
            raise AbhError(
                "the guest has more memory than its machine",
                where=f"{env.path}, key memory_mib.{size}",
                got=f"{mib} MiB",
                expected=f"at most {machine_.memory_mib[size]} MiB ({machine_.path})",
                next_step="lower one or raise the other",
            )
    return env


# --- a run's identity -------------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Run:
    """`<workload>@<environment>~<policy>`: the same words in ids, logs, folders and tables."""

    workload: str
    environment: str
    policy: str

    @classmethod
    def parse(cls, text: str, root: Path = CHECKOUT) -> Run:
        """The run the text names; every part must exist."""
        parts = re.fullmatch(r"([^@~\s]+)@([^@~\s]+)~([^@~\s]+)", text)
        if parts is None:
            raise AbhError(
                "not the name of a run",
                got=text or "(nothing)",
                expected="<workload>@<environment>~<policy>, as sqlite@kvm-hap~thp",
                next_step="`abh list` shows the names",
            )
        run = cls(*parts.groups())
        WORKLOAD.find(run.workload, root)
        ENVIRONMENT.find(run.environment, root)
        POLICY.find(run.policy, root)
        return run

    def __str__(self) -> str:
        return f"{self.workload}@{self.environment}~{self.policy}"
