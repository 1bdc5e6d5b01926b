# SPDX-License-Identifier: MIT
"""Policies that extend others, and what lies in a folder more: groups, which are no part of the study."""

from __future__ import annotations

from pathlib import Path

import pytest
from described import ROOT, WORKLOAD, error_of, write

from abh.paths import CHECKOUT
from abh.schema import spec
from abh.schema.result import SIZES


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write(tmp_path)
    return tmp_path


# --- a policy that extends another ------------------------------------------------------------------------------


def extend(tree: Path, name: str, text: str) -> spec.Policy:
    (tree / f"vm-configs/policies/{name}.toml").write_text(f'purpose = "As another."\norder = 90\n{text}')
    return spec.policy(name, tree)


def test_a_policy_has_the_settings_it_extends_then_its_own(tree: Path) -> None:
    base = spec.policy("reg", tree)
    path, word = next(iter(base.guest.sysfs.items()))
    more = extend(
        tree,
        "more",
        'extends = "reg"\nrequires = ["/proc/sys/vm/new"]\n'
        f'[guest]\nsysfs = {{ "/proc/sys/vm/new" = "1", "{path}" = "{word}2" }}\nenv = {{ A = "b" }}\n',
    )
    assert list(more.guest.sysfs) == [*base.guest.sysfs, "/proc/sys/vm/new"]
    assert more.guest.sysfs == {**base.guest.sysfs, path: f"{word}2", "/proc/sys/vm/new": "1"}
    assert more.guest.env == {**base.guest.env, "A": "b"}
    assert (more.host, more.order, more.purpose) == (base.host, 90, "As another.")
    assert more.requires == (*base.requires, "/proc/sys/vm/new")
    assert spec.policies(tree)["more"] == more


def test_a_policy_extends_a_known_one_and_what_that_extends(tree: Path) -> None:
    assert "did you mean `reg`" in str(error_of(lambda: extend(tree, "more", 'extends = "rge"\n')))
    extend(tree, "more", 'extends = "reg"\n[guest]\nenv = { A = "b", C = "d" }\n')
    most = extend(tree, "most", 'extends = "more"\n[guest]\nenv = { A = "e" }\n')
    assert most.guest.env == {**spec.policy("reg", tree).guest.env, "A": "e", "C": "d"}
    assert most.requires == spec.policy("reg", tree).requires


def test_what_extends_no_policy_names_its_file_and_none_of_a_group_that_is_for_others(tree: Path, tmp_path) -> None:
    for folder in ("itanium", "vm"):
        (tree / "vm-configs/policies" / folder).mkdir()
        (tree / f"vm-configs/policies/{folder}/{folder}-none.toml").write_text('purpose = "x"\norder = 1\n')
    error = error_of(lambda: extend(tree, "more", 'extends = "none"\n'))
    assert error.where == f"{tree / 'vm-configs/policies/more.toml'}: extends" and "-none" not in str(error)
    (mine := tmp_path / "mine.toml").write_text('purpose = "x"\norder = 1\nextends = "nope"\n')
    error = error_of(lambda: spec.vm_policy(str(mine)))
    assert error.where == f"{mine}: extends" and "vm-thp, " in str(error) and "lf-lp" not in str(error)
    assert "`none`" not in str(error)


def test_a_policy_that_extends_itself_by_way_of_another_is_an_error(tree: Path) -> None:
    (tree / "vm-configs/policies/more.toml").write_text('purpose = "x"\norder = 1\nextends = "most"\n')
    error = str(error_of(lambda: extend(tree, "most", 'extends = "more"\n')))
    assert "extends itself" in error and "more.toml" in error


# --- groups of policies -----------------------------------------------------------------------------------------


def test_policies_in_a_folder_are_no_part_of_the_study(tree: Path) -> None:
    (tree / "vm-configs/policies/extra").mkdir()
    path = tree / "vm-configs/policies/extra/less.toml"
    path.write_text('purpose = "Less."\norder = 1\nextends = "reg"\n')
    assert list(spec.policies(tree)) == ["reg"] and spec.groups(tree) == ["extra"]
    assert list(spec.policies(tree, "extra")) == ["less"]
    assert spec.policy(spec.Run.parse("rows@kvm-hap~less", tree).policy, tree).group == "extra"
    assert spec.policy("less", tree).guest == spec.policy("reg", tree).guest
    extend(tree, "over", 'extends = "less"\n')
    path.rename(path.with_name("reg.toml"))
    assert "two files of one name, a policy's" in str(error_of(lambda: spec.policies(tree)))


# --- groups of workloads ----------------------------------------------------------------------------------------


def test_workloads_in_a_folder_are_no_part_of_the_study_and_have_a_root_of_their_own(tree: Path) -> None:
    folder = tree / "workloads/extra/more"
    folder.mkdir(parents=True)
    path = folder / "workload.toml"
    lines = [each for each in WORKLOAD.splitlines() if "smoke" not in each]  # one size is enough there
    path.write_text("\n".join([*lines, 'packages = ["zstd"]']), encoding="utf-8")
    (tree / "vm-configs/roots/guest.toml").write_text(f'{ROOT}workloads = "packages"\n')
    (tree / "vm-configs/roots/extra-guest.toml").write_text(f'{ROOT}workloads = "packages"\ngroup = "extra"\n')
    assert list(spec.workloads(tree)) == ["rows"] and spec.workload_groups(tree) == ["extra"]
    assert list(spec.workloads(tree, "extra")) == ["more"]
    assert spec.workload(spec.Run.parse("more@kvm-hap~reg", tree).workload, tree).group == "extra"
    assert spec.roots(tree)["guest"].packages == ("g++", "kmod")
    assert spec.roots(tree)["extra-guest"].packages == ("g++", "kmod", "zstd")
    assert spec.of_group("guest-image", "extra") == "extra-guest-image" and spec.of_group("x", "") == "x"
    (tree / "workloads/extra/_shared").mkdir()
    (tree / "workloads/extra/empty").mkdir()
    for name, lost in (("_shared/x.h", False), ("empty/x.c", True)):
        (tree / "workloads/extra" / name).write_text("", encoding="utf-8")
        if lost:
            assert error_of(lambda: spec.workloads(tree)).where == tree / "workloads/extra/empty"
        else:
            spec.workloads(tree)
    folder.rename(folder.with_name("rows"))
    assert "two files of one name, a workload's" in str(error_of(lambda: spec.workloads(tree)))


# --- the policies of the study ----------------------------------------------------------------------------------


def test_the_policies_write_the_same_knobs() -> None:
    found = spec.policies(CHECKOUT)
    own = {name: set(found[name].guest.sysfs) for name in ("reg", "thp", "thp-paper")}
    assert own["reg"] == own["thp"] == own["thp-paper"] - set(found["thp-paper"].requires)
    assert len({frozenset(found[name].host.sysfs) for name in own}) == 1
    assert set(found["thp-paper"].requires) < set(found["thp-paper"].guest.sysfs)
    assert SIZES == ("smoke", "paper")
