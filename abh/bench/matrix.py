# SPDX-License-Identifier: MIT
"""The study's cells: which there are, what each depends on, and getting everything ready for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from abh import paths
from abh.bench import build, cache, cell, machine, mmu, result, spec
from abh.bench.strict import did_you_mean
from abh.errors import AbhError


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
) -> list[str]:
    """Names of the runs of the matrix, or of a part of it, under the study's policies or those of another group; the
    long ones (Xen, then KVM) first."""
    if group:
        _chosen("group of policies", spec.groups(), [group])
    return [
        str(spec.Run(workload, environment, policy))
        for environment in reversed(_chosen("environment", spec.environments(), environments))
        for policy in _chosen("policy", spec.policies(group=group), policies)
        for workload in _chosen("workload", spec.workloads(), workloads)
    ]


def cells_of(names: Sequence[str], size: str, *, cpu: str | None = None) -> list[cell.Cell]:
    """The cells of these runs, with the MMU model of a processor or without."""
    return [cell.Cell.of(name, size, mmu=cpu) for name in names]


def prepare(cells: Iterable[cell.Cell]) -> None:
    """Builds every component the runs need and boots every environment they run in, once."""
    one_each = {one.environment.name: one for one in cells}
    for each in one_each.values():
        build.parts_of(each.machine.boot, each.machine.root, mmu=each.mmu is not None)
    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            for boot in [pool.submit(cell.frozen_state, each) for each in one_each.values()]:
                boot.result()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            machine.end_all()  # else the threads would wait for their machines to come up
            raise


def fingerprint(one: cell.Cell) -> str:
    """Changes when a run's result could: its specs, its machine and everything that the machine is made of."""
    files = [one.environment.path, one.machine.path]
    if one.environment.domain:
        files.append(paths.VM_CONFIGS / "libvirt" / one.environment.domain)
    parts = [cache.digest_files(files, paths.CHECKOUT), cache.digest_tree(one.workload.folder, build.ignored), one.size]
    parts.append(one.policy.model_dump_json(include={"guest", "host", "requires"}))  # not its file: it may extend one
    wanted = ["qemu", "plugin", "linux", f"{one.machine.root}-initramfs"]
    wanted += ["xen"] if one.machine.boot == "xen" else []
    if one.mmu:
        parts.append(mmu.arguments(one.environment, one.mmu, check=one.mmu_check))
        wanted.append("mmu")
    parts += [build.key_of(each) for each in wanted]
    return cache.key_of(*parts)


def _mark(folder: Path, name: str) -> Path:
    return folder / ".fingerprints" / name


def write_mark(folder: Path, one: cell.Cell, *, repeats: bool = True) -> None:
    """Notes what a run's result is about to depend on; written before the result, so a result always has its mark.

    The mark of a run that would not repeat to the digit (free-running, or on this machine) holds for no study.
    """
    mark = _mark(folder, str(one.run))
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(fingerprint(one) if repeats else "not to be repeated")


def drop_stale(folder: Path, cells: Iterable[cell.Cell]) -> None:
    """Removes results that no longer hold: of other specs or components, of another size, failed, or unreadable."""
    for one in cells:
        path = folder / f"{one.run}.json"
        if path.exists() and not holds(folder, one):
            path.unlink()


def holds(folder: Path, one: cell.Cell) -> bool:
    """Whether the folder has the run's result, and running again would give the same."""
    try:
        good = result.read(folder / f"{one.run}.json").outcome in ("success", "skip")
    except AbhError:
        return False
    mark = _mark(folder, str(one.run))
    return good and mark.exists() and mark.read_text() == fingerprint(one)
