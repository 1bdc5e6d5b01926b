# SPDX-License-Identifier: MIT
"""The study's cells: choosing them, and noticing what makes a result stale."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from abh import paths
from abh.build import components, root, source
from abh.errors import AbhError
from abh.machine import emulated
from abh.schema import spec
from abh.study import cell, code, matrix

FOLDERS = ("abh", "agent", "glibc-patches", "hypervisor", "kernel-patches", "recipes", "vm-configs", "workloads")
RUN = "sqlite@kvm-hap~thp"
PACKAGES: dict[str, str] = {}  # a root whose package is not of version 1


def test_the_whole_matrix_is_every_combination_once_xen_first():
    names = matrix.select()
    assert len(names) == len(set(names)) == len(spec.workloads()) * len(spec.environments()) * len(spec.policies())
    runs = [spec.Run.parse(name) for name in names]
    environments = spec.environments()
    order = [environments[run.environment].order for run in runs]
    assert order == sorted(order, reverse=True)


def test_a_part_of_it_is_what_was_named():
    assert matrix.select(["sqlite"], ["kvm-hap"], ["thp"]) == [RUN]
    assert matrix.select(["sqlite"], ["native", "kvm-hap"], ["thp"]) == [RUN, "sqlite@native~thp"]
    assert len(matrix.select(["sqlite", "sqlite"], ["kvm-hap"])) == len(spec.policies())


def test_an_environment_on_demand_runs_when_it_is_named():
    every = spec.environments(on_demand=True).items()
    lazy = [name for name, each in every if each.on_demand and not each.group]
    assert lazy and not set(lazy) & spec.environments().keys()
    assert not [name for name in matrix.select() if spec.Run.parse(name).environment in lazy]
    named = matrix.select(workloads=["mcf"], environments=lazy, policies=["thp"])
    assert named == [f"mcf@{name}~thp" for name in reversed(lazy)]


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


def test_workloads_of_a_group_are_run_when_they_are_asked_for():
    assert matrix.select(["xz"], ["native"], ["thp"], of="compat") == ["xz@native~thp"]
    assert not {spec.Run.parse(name).workload for name in matrix.select()} & set(spec.workloads(group="compat"))
    with pytest.raises(AbhError, match="`xz` is of the group compat") as caught:
        matrix.select(["xz"])
    assert "`abh compat xz` runs it" in str(caught.value.next_step)
    with pytest.raises(AbhError, match="`sqlite` is of the study"):
        matrix.select(["sqlite"], of="compat")


# --- fingerprints -----------------------------------------------------------------------------------------------


@pytest.fixture
def fingerprint(tmp_path, monkeypatch) -> Callable[..., str]:
    """The fingerprint of a run in a copy of the checkout that a test may change; nothing is built or fetched."""
    copy = tmp_path / "checkout"
    code_digest = code.digest
    for name in FOLDERS:
        shutil.copytree(paths.CHECKOUT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "target"))
    monkeypatch.setattr(paths, "CHECKOUT", copy)
    monkeypatch.setattr(paths, "VM_CONFIGS", copy / "vm-configs")
    for name in ("environment", "policy", "machine", "workload"):
        monkeypatch.setattr(spec, name, functools.partial(getattr(spec, name), root=copy))
    monkeypatch.setattr(root, "path_of", lambda name: Path(f"/roots/{name}-0"))
    monkeypatch.setattr(root, "contents", lambda name: root.Contents({name: PACKAGES.get(name, "1")}))
    monkeypatch.setattr(code, "digest", lambda start: code_digest.__wrapped__(start, copy))
    monkeypatch.setattr(source, "fetch", lambda base: source.Source(base.package, base.version, ()))

    def of(run: str = RUN, size: str = "smoke", **options: object) -> str:
        for each in (components.key_of, components._source):
            each.cache_clear()
        return matrix.fingerprint(cell.Cell.of(run, size, **options))

    yield of
    for each in (components.key_of, components._source):
        each.cache_clear()


def changed(path: str) -> None:
    file = paths.CHECKOUT / path
    file.write_text(file.read_text() + "\n# changed\n" if file.exists() else "new\n")


@pytest.mark.parametrize(
    "path",
    [
        "vm-configs/libvirt/kvm.xml",
        "vm-configs/libvirt/etc/qemu.conf",
        "vm-configs/kconfig/linux/10-base.config",
        "workloads/sqlite/rows.c",
        "workloads/sqlite/workload.toml",
        "workloads/sqlite/new-file",
        "agent/abh-init.c",
        "agent/init-host",
        "agent/protocol.h",
        "recipes/linux.sh",
        "recipes/initramfs.sh",
        "recipes/qemu.sh",
        "recipes/workloads.py",
        "hypervisor/qemu/plugin/region.c",
    ],
)
def test_what_a_result_depends_on_changes_its_fingerprint(fingerprint, path):
    before = fingerprint()
    changed(path)
    assert fingerprint() != before


def test_a_program_of_a_group_changes_no_fingerprint_of_the_study(fingerprint):
    before = [fingerprint(), fingerprint("xz@native~thp", "paper")]
    changed("workloads/compat/gawk/table.awk")
    assert fingerprint() == before[0] and fingerprint("xz@native~thp", "paper") != before[1]
    before = [fingerprint(), fingerprint("xz@native~thp", "paper")]
    changed("workloads/sqlite/rows.c")
    assert fingerprint() != before[0] and fingerprint("xz@native~thp", "paper") == before[1]


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
    base.write_text(base.read_text().replace("6.12.118-1", "6.12.119-1"))
    assert fingerprint() != before


def test_the_mmu_model_is_part_of_runs_with_it_only(fingerprint):
    def both() -> tuple[str, str]:
        return fingerprint(), fingerprint(mmu="i7-3770")

    before = both()
    assert len({*before, fingerprint(mmu="zen2"), fingerprint(mmu="zen2", mmu_check=True)}) == 4
    changed("hypervisor/mmu-model/model/src/walk.rs")
    after = both()
    assert after[0] == before[0] and after[1] != before[1]


def test_size_and_run_are_part_of_it(fingerprint):
    names = [RUN, "sqlite@kvm-shadow~thp", "sqlite@kvm-hap~reg", "mcf@kvm-hap~thp"]
    assert len({fingerprint(name, size) for name in names for size in ("smoke", "paper")}) == 8


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("abh/machine/emulated.py", "shift=1", "shift=2"),
        ("abh/study/cell.py", 'said.end != "exit 0"', 'said.end == "exit 0"'),
        ("abh/study/cell.py", "PROTOCOL = 2", "PROTOCOL = 3"),
        ("abh/study/faults.py", "def values_of(", "def values_off("),
        ("abh/schema/result.py", "HUGE_PER_REGULAR = 512", "HUGE_PER_REGULAR = 511"),
        ("abh/schema/workload.py", "return ", "return not "),
        ("abh/model/mmu.py", "return ", "return not "),
        ("vm-configs/kvm-hap.toml", "vcpus", "vcpus         = 2 #"),
        ("vm-configs/machines/kvm-host.toml", "abh_", "quiet abh_"),
    ],
)
def test_the_code_that_asks_and_judges_is_part_of_it(fingerprint, path, old, new):
    before = fingerprint()
    file = paths.CHECKOUT / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    assert fingerprint() != before


@pytest.mark.parametrize("path", ["abh/study/cell.py", "abh/report/page.py", "abh/commands/study.py", "abh/cli.py"])
def test_comments_and_code_that_only_shows_are_not(fingerprint, path):
    before = fingerprint()
    changed(path)
    assert fingerprint() == before


def test_the_emulators_command_line_is_part_of_it(fingerprint, monkeypatch):
    before = fingerprint()
    real = emulated.qemu_words
    with monkeypatch.context() as patch:
        patch.setattr(emulated, "qemu_words", lambda *args, **options: [*real(*args, **options), "-extra"])
        assert fingerprint() != before
    assert fingerprint() == before and fingerprint(icount=False) != before


def test_what_the_guest_is_told_is_part_of_it(fingerprint, monkeypatch):
    before = fingerprint()
    for name in ("guest_lines", "module_lines", "domain_xml"):
        real = getattr(cell, name)
        with monkeypatch.context() as patch:
            more = (lambda one, real=real: [*real(one), "x"]) if name == "module_lines" else (
                lambda one, real=real: real(one) + "x"
            )  # fmt: skip
            patch.setattr(cell, name, more)
            assert fingerprint() != before, name


@pytest.mark.parametrize(("name", "changes"), [("guest", True), ("host", True), ("build", True), ("browser", False)])
def test_the_version_of_a_package_in_a_root_is_part_of_it(fingerprint, monkeypatch, name, changes):
    before = fingerprint()
    monkeypatch.setitem(PACKAGES, name, "1.1")
    assert (fingerprint() != before) is changes


def test_draws_differ_and_so_does_their_number(fingerprint):
    each = {fingerprint(draw=draw, draws=draws) for draws in (1, 3, 5) for draw in (0, 1, 2)}
    assert len(each) == 9


@pytest.mark.parametrize(("policies", "group", "said"), [(["abh-off"], "", "add --group controls"),
                                                         (["thp"], "controls", "leave --group out")])  # fmt: skip
def test_a_policy_of_another_group_is_refused_with_the_way_to_ask_for_it(policies, group, said):
    with pytest.raises(AbhError, match="is of the") as caught:
        matrix.select(policies=policies, group=group)
    assert (caught.value.next_step, caught.value.status) == (said, 2)
