# SPDX-License-Identifier: MIT
"""The study's cells: which there are, what each depends on, and getting everything ready for them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from abh.build import cache, components
from abh.errors import AbhError, Status
from abh.files import write_text
from abh.paths import CHECKOUT
from abh.schema import result, spec
from abh.schema.strict import did_you_mean
from abh.study import cell, code, computers, itanium

# In the mark of a run that would not repeat to the digit (free-running, or on this machine): it holds for no study.
NO_REPEAT = "not to be repeated"


def _chosen(label: str, known: Iterable[str], wanted: Sequence[str] | None) -> list[str]:
    names = list(known)
    for name in wanted or ():
        if name not in names:
            raise AbhError(
                f"unknown {label}",
                got=name,
                expected="one of " + ", ".join(names),
                next_step=did_you_mean(name, names, "`abh list` shows the names"),
            )
    return [name for name in names if not wanted or name in wanted]


def select(
    workloads: Sequence[str] | None = None,
    environments: Sequence[str] | None = None,
    policies: Sequence[str] | None = None,
    group: str = "",
    of: str = "",
) -> list[str]:
    """Names of the runs of the matrix, or of a part of it; the long ones (Xen, then KVM) first.

    Under the study's policies or those of another `group`, and of the study's workloads or those `of` another group.
    Where a group is an environment's own, it is of that one, with the workloads of the group and those of the study
    that can be had there.
    """
    if group:
        _chosen("group of policies", spec.groups(), [group])
    _check_group(policies or (), group)
    own = [name for name, each in spec.environments(on_demand=True).items() if group and each.group == group]
    _check_environments(environments or (), group, own)
    _check_workloads(workloads or (), {of, group} if own else {of})
    known = own or spec.environments(on_demand=bool(environments))
    of_group = spec.workloads(group=group) if own else {}
    found = [
        spec.Run(workload, environment, policy)
        for environment in reversed(_chosen("environment", known, environments))
        for policy in _chosen("policy", spec.policies(group=group), policies)
        for workload in _chosen("workload", spec.workloads(group=of) | of_group, workloads)
    ]
    return [str(run) for run in found if workloads or not own or not itanium.why_not(spec.workload(run.workload))]


def _check_environments(names: Sequence[str], group: str, own: Sequence[str]) -> None:
    """Refuses an environment that has other policies than those of the group."""
    for name in names:
        if name not in spec.ENVIRONMENT.paths(CHECKOUT) or (theirs := spec.environment(name).group) == group:
            continue
        if theirs or own:
            raise AbhError(
                f"environment `{name}` has policies of " + (f"the group {theirs}" if theirs else "the study"),
                got=f"--group {group}" if group else "no --group",
                next_step=f"add --group {theirs}" if theirs else f"leave --group out, or name {' or '.join(own)}",
                status=Status.USAGE,
            )


def _check_group(policies: Sequence[str], group: str) -> None:
    """Refuses a policy of another group, and says how it is asked for."""
    every = spec.POLICY.all(CHECKOUT)
    for name in policies:
        if name in every and every[name].group != group:
            own = every[name].group
            raise AbhError(
                f"policy `{name}` is of " + (f"the group {own}" if own else "the study"),
                got=f"--group {group}" if group else "no --group",
                next_step=f"add --group {own}" if own else "leave --group out",
                status=Status.USAGE,
            )


def _check_workloads(names: Sequence[str], of: Collection[str]) -> None:
    """Refuses a workload of another group, and says how it is run."""
    for name in names:
        own = spec.workload(name).group if name in spec.WORKLOAD.paths(CHECKOUT) else None
        if own is not None and own not in of:
            by = f"study --group {own} --workload" if own in spec.groups() else own or "study --workload"
            raise AbhError(
                f"workload `{name}` is of " + (f"the group {own}" if own else "the study"),
                got=name,
                next_step=f"`abh {by} {name}` runs it, as `abh run` does",
                status=Status.USAGE,
            )


def cells_of(
    names: Sequence[str], size: result.Size, *, cpu: str | None = None, draws: int | None = 1
) -> list[cell.Cell]:
    """The cells of these runs, with the MMU model of a processor or without, each of one draw of addresses or more;
    None: of as many as its workload asks for."""
    cells = [cell.Cell.of(name, size, mmu=cpu, draws=draws or 1) for name in names]
    return cells if draws else [dataclasses.replace(each, draws=each.workload.draws) for each in cells]


def fingerprint(one: cell.Cell) -> str:
    """Changes when a run's result could: with what the machine is told, what emulates it and how, all that it is made
    of, and the code that makes values of its answers."""
    said = {"purpose", "order", "path", "on_demand", "draws"}  # to readers, and to who chooses
    specs = [one.workload, one.environment, one.machine, spec.architecture(one.machine.architecture)]
    parts = [each.model_dump_json(exclude=said) for each in specs]
    # Of a policy only what the machine is told decides anything: its name does not.
    computer = computers.of(one)
    parts += [one.size, *computer.told(one), str(one.draws), str(one.explain), code.digest(computer.__name__)]
    parts += [one.linux.name] if one.linux else []
    parts += [components.key_of(each) for each in one.components]
    return cache.key_of(*parts)


def _mark(folder: Path, name: str) -> Path:
    return folder / ".fingerprints" / name


def _text_of_mark(depends: str, path: Path) -> str:
    """What a result depends on, and which one it is: another command may write one of the same run meanwhile."""
    return f"{depends} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def keep(folder: Path, one: cell.Cell, made: result.Result, depends: str) -> None:
    """Writes a run's result, and after it the mark of what it depends on: a result without its mark holds for nothing.

    `depends` is the fingerprint from before the run, as sources may have been edited since; or NO_REPEAT.
    """
    mark, path = _mark(folder, str(one.run)), folder / f"{one.run}.json"
    mark.unlink(missing_ok=True)
    result.write(made, path)
    write_text(mark, _text_of_mark(depends, path))


def holds(folder: Path, one: cell.Cell) -> bool:
    """Whether the folder has the run's result, and running again would give the same."""
    path, mark = folder / f"{one.run}.json", _mark(folder, str(one.run))
    try:
        good = result.read(path).outcome in ("success", "skip")
    except AbhError:
        return False
    return good and mark.exists() and mark.read_bytes() == _text_of_mark(fingerprint(one), path).encode()
