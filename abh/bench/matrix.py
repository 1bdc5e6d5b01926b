# SPDX-License-Identifier: MIT
"""The study's cells: which there are, what each depends on, and getting everything ready for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from abh import paths
from abh.bench import build, cache, cell, machine, result, spec
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
) -> list[str]:
    """Names of the runs of the matrix, or of a part of it; the long ones (Xen, then KVM) first."""
    return [
        str(spec.Run(workload, environment, policy))
        for environment in reversed(_chosen("environment", spec.environments(), environments))
        for policy in _chosen("policy", spec.policies(), policies)
        for workload in _chosen("workload", spec.workloads(), workloads)
    ]


def prepare(names: Sequence[str], size: str) -> None:
    """Builds every component the runs need and boots every environment they run in, once."""
    cells = {one.environment.name: one for one in (cell.Cell.of(name, size) for name in names)}
    for each in cells.values():
        build.parts_of(each.machine.boot, each.machine.root)
    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            for boot in [pool.submit(cell.frozen_state, each) for each in cells.values()]:
                boot.result()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            machine.end_all()  # else the threads would wait for their machines to come up
            raise


def fingerprint(name: str, size: str) -> str:
    """Changes when a run's result could: its specs, its machine and everything that the machine is made of."""
    one = cell.Cell.of(name, size)
    files = [one.environment.path, one.machine.path]
    if one.environment.domain:
        files.append(paths.VM_CONFIGS / "libvirt" / one.environment.domain)
    parts = [cache.digest_files(files, paths.CHECKOUT), cache.digest_tree(one.workload.folder, build.ignored), size]
    parts.append(one.policy.model_dump_json(include={"guest", "host", "requires"}))  # not its file: it may extend one
    wanted = ["qemu", "plugin", "linux", f"{one.machine.root}-initramfs"]
    parts += [build.key_of(each) for each in wanted + (["xen"] if one.machine.boot == "xen" else [])]
    return cache.key_of(*parts)


def _mark(folder: Path, name: str) -> Path:
    return folder / ".fingerprints" / name


def write_mark(folder: Path, name: str, size: str | None) -> None:
    """Notes what a run's result is about to depend on; written before the result, so a result always has its mark.

    Without a size (a free-running cell) the mark holds for no study.
    """
    mark = _mark(folder, name)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(fingerprint(name, size) if size else "free-running")


def drop_stale(folder: Path, names: Sequence[str], size: str) -> None:
    """Removes results that no longer hold: of other specs or components, of another size, failed, or unreadable."""
    for name in names:
        path = folder / f"{name}.json"
        if path.exists() and not _holds(folder, path, name, size):
            path.unlink()


def _holds(folder: Path, path: Path, name: str, size: str) -> bool:
    try:
        good = result.read(path).outcome in ("success", "skip")
    except AbhError:
        return False
    mark = _mark(folder, name)
    return good and mark.exists() and mark.read_text() == fingerprint(name, size)
