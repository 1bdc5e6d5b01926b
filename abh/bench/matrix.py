# SPDX-License-Identifier: MIT
"""The study's cells: which there are, what each depends on, and getting everything ready for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from abh import paths
from abh.bench import build, cache, cell, machine, spec
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
    files = [one.environment.path, one.policy.path, one.machine.path]
    if one.environment.domain:
        files.append(paths.VM_CONFIGS / "libvirt" / one.environment.domain)
    parts = [cache.digest_files(files, paths.CHECKOUT), cache.digest_tree(one.workload.folder, build.ignored), size]
    wanted = ["qemu", "plugin", "linux", f"{one.machine.root}-initramfs"]
    parts += [build.key_of(each) for each in wanted + (["xen"] if one.machine.boot == "xen" else [])]
    return cache.key_of(*parts)
