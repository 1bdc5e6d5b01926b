# SPDX-License-Identifier: MIT
"""The study's cells: choosing them, and noticing what makes a result stale."""

from __future__ import annotations

import functools
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from abh import paths
from abh.bench import build, cell, machine, matrix, root, source, spec
from abh.errors import AbhError

FOLDERS = ("agent", "glibc-patches", "hypervisor", "kernel-patches", "recipes", "vm-configs", "workloads")
RUN = "sqlite@kvm-hap~thp"


def test_the_whole_matrix_is_every_combination_once_xen_first():
    names = matrix.select()
    assert len(names) == len(set(names)) == len(spec.workloads()) * len(spec.environments()) * len(spec.policies())
    runs = [spec.Run.parse(name) for name in names]
    order = [spec.environments()[run.environment].order for run in runs]
    assert order == sorted(order, reverse=True)


def test_a_part_of_it_is_what_was_named():
    assert matrix.select(["sqlite"], ["kvm-hap"], ["thp"]) == [RUN]
    assert matrix.select(["sqlite"], ["native", "kvm-hap"], ["thp"]) == [RUN, "sqlite@native~thp"]
    assert len(matrix.select(["sqlite", "sqlite"], ["kvm-hap"])) == len(spec.policies())


@pytest.mark.parametrize(
    ("wanted", "label", "step"),
    [
        ({"workloads": ["sqlit"]}, "unknown workload", "did you mean `sqlite`?"),
        ({"environments": ["kvm-happ"]}, "unknown environment", "did you mean `kvm-hap`?"),
        ({"policies": ["THP"]}, "unknown policy", "did you mean `thp`?"),
        ({"workloads": ["sqlite", "qqqqq"]}, "unknown workload", "`abh list` shows the names"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(wanted, label, step):
    with pytest.raises(AbhError, match=label) as caught:
        matrix.select(**wanted)
    assert caught.value.next_step == step


# --- fingerprints -----------------------------------------------------------------------------------------------


@pytest.fixture
def fingerprint(tmp_path, monkeypatch) -> Callable[..., str]:
    """The fingerprint of a run in a copy of the checkout that a test may change; nothing is built or fetched."""
    copy = tmp_path / "checkout"
    for name in FOLDERS:
        shutil.copytree(paths.CHECKOUT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "target"))
    monkeypatch.setattr(paths, "CHECKOUT", copy)
    monkeypatch.setattr(paths, "VM_CONFIGS", copy / "vm-configs")
    for name in ("environment", "policy", "machine", "workload"):
        monkeypatch.setattr(spec, name, functools.partial(getattr(spec, name), root=copy))
    monkeypatch.setattr(root, "path_of", lambda name: Path(f"/roots/{name}-0"))
    monkeypatch.setattr(source, "fetch", lambda base: source.Source(base.package, base.version, ()))

    def of(run: str = RUN, size: str = "smoke") -> str:
        for each in (build.key_of, build._source):
            each.cache_clear()
        return matrix.fingerprint(run, size)

    yield of
    for each in (build.key_of, build._source):
        each.cache_clear()


def changed(path: str) -> None:
    file = paths.CHECKOUT / path
    file.write_text(file.read_text() + "\n# changed\n" if file.exists() else "new\n")


@pytest.mark.parametrize(
    "path",
    [
        "vm-configs/kvm-hap.toml",
        "vm-configs/machines/kvm-host.toml",
        "vm-configs/libvirt/kvm.xml",
        "vm-configs/libvirt/etc/qemu.conf",
        "vm-configs/kconfig/linux/10-base.config",
        "workloads/sqlite/rows.c",
        "workloads/sqlite/workload.toml",
        "workloads/sqlite/new-file",
        "agent/abh-init.c",
        "agent/init-host",
        "recipes/linux.sh",
        "recipes/initramfs.sh",
        "recipes/qemu.sh",
        "hypervisor/qemu/plugin/region.c",
    ],
)
def test_what_a_result_depends_on_changes_its_fingerprint(fingerprint, path):
    before = fingerprint()
    changed(path)
    assert fingerprint() != before


def test_settings_change_the_fingerprint_of_their_policy_and_of_those_that_extend_it(fingerprint):
    runs = [f"sqlite@kvm-hap~{policy}" for policy in ("thp", "abh-malloc", "reg")]
    before = [fingerprint(run) for run in runs]
    file = paths.CHECKOUT / "vm-configs/policies/thp.toml"
    file.write_text(file.read_text().replace('"511"', '"255"', 1))
    assert [fingerprint(run) == old for run, old in zip(runs, before, strict=True)] == [False, False, True]


@pytest.mark.parametrize(
    "path",
    [
        "workloads/sqlite/README.md",
        "agent/README.md",
        "workloads/sqlite/__pycache__/x.pyc",
        "kernel-patches/6.12/README.md",
        "vm-configs/policies/thp.toml",
        "vm-configs/policies/reg.toml",
        "vm-configs/xen-hap.toml",
        "vm-configs/libvirt/xen-hap.xml",
        "vm-configs/machines/xen-host.toml",
        "vm-configs/kconfig/xen/10-base.config",
        "recipes/xen.sh",
    ],
)
def test_what_it_does_not_depend_on_does_not(fingerprint, path):
    before = fingerprint()
    (paths.CHECKOUT / path).parent.mkdir(exist_ok=True)
    changed(path)
    assert fingerprint() == before


def test_xen_is_part_of_runs_on_xen_only(fingerprint):
    before = fingerprint("sqlite@xen-hap~thp")
    changed("recipes/xen.sh")
    assert fingerprint("sqlite@xen-hap~thp") != before


def test_a_patch_series_is_part_of_it(fingerprint):
    before = fingerprint()
    base = paths.CHECKOUT / "kernel-patches/6.12/BASE"
    base.write_text(base.read_text().replace('sha256 = "', 'sha256 = "f', 1).replace('"f', '"', 1))
    assert fingerprint() == before
    base.write_text(base.read_text().replace("6.12.117-1", "6.12.118-1"))
    assert fingerprint() != before


def test_size_and_run_are_part_of_it(fingerprint):
    names = [RUN, "sqlite@kvm-shadow~thp", "sqlite@kvm-hap~reg", "mcf@kvm-hap~thp"]
    assert len({fingerprint(name, size) for name in names for size in ("smoke", "paper")}) == 8


# --- preparing --------------------------------------------------------------------------------------------------


def test_preparing_boots_each_environment_once(monkeypatch):
    built, frozen = [], []
    monkeypatch.setattr(build, "parts_of", lambda *words: built.append(words))
    monkeypatch.setattr(cell, "frozen_state", lambda one: frozen.append((one.environment.name, one.size)))
    matrix.prepare(matrix.select(), "smoke")
    assert sorted(frozen) == sorted((name, "smoke") for name in spec.environments())
    assert set(built) == {("linux", "guest"), ("linux", "host"), ("xen", "host")}


def test_an_interruption_ends_the_boots_that_other_threads_wait_for(monkeypatch):
    ended, started = threading.Event(), threading.Event()

    def freeze(_one: cell.Cell) -> None:
        if not started.is_set():
            started.set()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert ended.wait(20), "nobody ended the machine"

    monkeypatch.setattr(build, "parts_of", lambda *_: None)
    monkeypatch.setattr(cell, "frozen_state", freeze)
    monkeypatch.setattr(machine, "end_all", ended.set)
    with pytest.raises(KeyboardInterrupt):
        matrix.prepare(matrix.select(["sqlite"]), "smoke")
    assert ended.is_set()


def test_a_machine_that_does_not_boot_stops_the_study(monkeypatch):
    def freeze(one):
        raise AbhError(f"booting {one.machine.name}")

    monkeypatch.setattr(build, "parts_of", lambda *_: None)
    monkeypatch.setattr(cell, "frozen_state", freeze)
    with pytest.raises(AbhError, match="booting kvm-host"):
        matrix.prepare([RUN], "smoke")
