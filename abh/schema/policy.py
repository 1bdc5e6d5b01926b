# SPDX-License-Identifier: MIT
"""A policy: how hugepages are handed out, in a cell of the study and in a VM of a libvirt host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from abh.errors import AbhError
from abh.paths import CHECKOUT
from abh.schema.keys import (
    EnvName,
    KernelPath,
    Line,
    Name,
    SnakeName,
    Spec,
    SwitchPath,
    Word,
    checked,
    known_keys,
    no_repeat,
)
from abh.schema.shelf import GroupedShelf
from abh.schema.strict import Strict, bad, did_you_mean, one_of, validate

# What the hypervisor does otherwise for one guest, with the values: as agent/init-host and abh.policy.hook have it.
DOMAIN_SETTINGS: Mapping[str, tuple[str, ...]] = {"shadow_superpages": ("0", "1")}


def _of_domain(table: dict[str, str]) -> dict[str, str]:
    """Refuses a setting of a domain, or a value, that nobody knows: it would be found out when the domain starts."""
    known_keys(table, DOMAIN_SETTINGS, "setting of a domain")
    for name, value in table.items():
        if value not in (values := DOMAIN_SETTINGS[name]):
            expected = " or ".join(f'"{each}"' for each in values)
            raise bad("wrong value", key=name, got=value, expected=expected, next_step="correct the value")
    return table


class GuestPolicy(Strict):
    """Settings inside the guest, or on the machine itself in the native environments."""

    sysfs: dict[SwitchPath, Word] = Field(default_factory=dict)  # written in the file's order
    env: dict[EnvName, Line] = Field(default_factory=dict)  # of the workload
    before: tuple[Word, ...] = ()  # a command that has said "ready" before the workload starts, and stays beside it
    cmdline: Line = ""  # more of its kernel's command line, in an environment where each run boots its own kernel


class HostPolicy(Strict):
    """Settings on the host (Xen: in dom0)."""

    sysfs: dict[SwitchPath, Word] = Field(default_factory=dict)
    # Of the guest, asked of the hypervisor.
    domain: Annotated[dict[SnakeName, Word], AfterValidator(_of_domain)] = Field(default_factory=dict)


Setting = Literal[
    "thp", "huge_share", "collapse", "hugetlb_kib", "alignment_kib", "ksm", "paging", "guest", "host", "domain"
]


class VmPolicy(Strict):
    """How one VM of a libvirt host is backed and paged (docs/policy.md). A setting left out is not looked at."""

    thp: Literal["advised", "off"] | None = None  # hugepages for the guest's memory, by the host's kernel
    huge_share: Annotated[float, checked(lambda share: 0 < share <= 1, "above 0, at most 1")] | None = None
    collapse: Literal["start", "request"] | None = None  # by process_madvise(MADV_COLLAPSE)
    hugetlb_kib: Literal[2048, 1048576] | None = None  # from the host's pool of hugepages of this size
    alignment_kib: Annotated[int, checked(lambda kib: kib > 0 and kib & (kib - 1) == 0, "a power of 2")] | None = None
    ksm: bool | None = None  # whether the host may merge equal pages
    paging: Literal["hap", "shadow"] | None = None
    required: Annotated[tuple[Setting, ...], AfterValidator(no_repeat)] = ()  # the others are best-effort

    @model_validator(mode="after")
    def _agrees(self) -> VmPolicy:
        for name in ("thp", "collapse"):
            if self.hugetlb_kib is not None and getattr(self, name) not in (None, "off"):
                raise bad(
                    "memory from the hugetlb pool has no transparent hugepages",
                    key=name,
                    got=getattr(self, name),
                    next_step=f"remove `{name}`, or `hugetlb_kib`",
                )
        if self.thp == "off" and self.collapse is not None:
            raise bad("no hugepages, and a collapse into hugepages", key="collapse", got=self.collapse)
        return self


class Policy(Spec):
    """vm-configs/policies/<name>.toml: how hugepages are handed out."""

    order: int
    extends: Name | None = None  # another policy, whose settings hold unless this one names them too
    guest: GuestPolicy = GuestPolicy()
    host: HostPolicy = HostPolicy()
    vm: VmPolicy = VmPolicy()  # of a libvirt host; the study's environments have it from their machines
    requires: Annotated[tuple[KernelPath, ...], AfterValidator(no_repeat)] = ()  # in the guest; absent: a skip

    @property
    def group(self) -> str:
        """The folder it lies in, below that of the policies: "" for the study's own. Others run when asked for."""
        return "" if self.path.parent.name == "policies" else self.path.parent.name

    @property
    def wants_superpages(self) -> bool:
        """Whether it has superpages in Xen's shadow, which only a domain with shadow paging can have."""
        return self.host.domain.get("shadow_superpages") == "1"

    def settings(self) -> dict[str, object]:
        """What is asked for a VM, by the names of Setting: a value, or a table of paths or names and values."""
        own = self.vm.model_dump(exclude={"required"}, exclude_none=True)
        tables = {"guest": self.guest.sysfs, "host": self.host.sysfs, "domain": self.host.domain}
        return own | {name: table for name, table in tables.items() if table}

    def checked(self) -> Policy:
        """This policy; an error if it requires what it does not set, or wants what excludes each other."""
        if lost := [name for name in self.vm.required if name not in self.settings()]:
            raise AbhError(
                "a policy requires what it does not set",
                where=f"{self.path}, key vm.required",
                got=", ".join(lost),
                expected="some of " + ", ".join(self.settings()) if self.settings() else "none: nothing is set",
                next_step="set it, or take it out of `required`",
            )
        if self.wants_superpages and self.vm.paging == "hap":
            raise AbhError(
                "superpages in the shadow, of a domain that has no shadow",
                where=f"{self.path}, key vm.paging",
                got='paging = "hap", beside shadow_superpages = "1" in [host.domain]',
                expected='paging = "shadow"',
                next_step="change it, or take shadow_superpages out: nested paging maps hugepages without it",
            )
        return self


class PolicyShelf(GroupedShelf[Policy]):
    """Policies, of which one may say only what it changes in another."""

    def load(self, path: Path) -> Policy:
        """The policy in one file, complete: the settings of what it extends are written before its own."""
        return self._load(path, ()).checked()

    def _base(self, own: Policy, path: Path, root: Path) -> Path:
        """The file of the policy that it extends; if there is none, those of other groups are not suggested."""
        known = self.paths(root)
        if own.extends in known:
            return known[own.extends]
        groups = {"policies", path.parent.name if path.is_relative_to(root / "vm-configs") else "vm"}
        names = [name for name, each in known.items() if each.parent.name in groups]
        raise AbhError(
            f"unknown {self.label} `{own.extends}`",
            where=f"{path}: extends",
            got=own.extends,
            expected=one_of(own.extends or "", names),
            next_step=did_you_mean(own.extends or "", names, "name a policy that there is"),
        )

    def _load(self, path: Path, extended_by: tuple[Path, ...]) -> Policy:
        own = super().load(path)
        if own.extends is None:
            return own
        root = next((folder.parent for folder in path.parents if folder.name == "vm-configs"), CHECKOUT)
        base_path = self._base(own, path, root)
        if base_path in (*extended_by, path):
            raise AbhError(
                "a policy extends itself", where=f"{path}: extends", got=own.extends, next_step="name another policy"
            )
        base = self._load(base_path, (*extended_by, path))
        guest = GuestPolicy(
            sysfs={**base.guest.sysfs, **own.guest.sysfs},
            env={**base.guest.env, **own.guest.env},
            before=own.guest.before or base.guest.before,
            cmdline=own.guest.cmdline or base.guest.cmdline,
        )
        host = HostPolicy(sysfs={**base.host.sysfs, **own.host.sysfs}, domain={**base.host.domain, **own.host.domain})
        vm = validate(
            VmPolicy,
            {
                **base.vm.model_dump(exclude_none=True),
                **own.vm.model_dump(exclude_none=True, exclude_unset=True),
                "required": tuple(dict.fromkeys((*base.vm.required, *own.vm.required))),
            },
            path,
        )
        requires = tuple(dict.fromkeys((*base.requires, *own.requires)))
        return own.model_copy(update={"guest": guest, "host": host, "vm": vm, "requires": requires})
