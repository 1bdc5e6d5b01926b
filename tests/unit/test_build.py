# SPDX-License-Identifier: MIT
"""Building a component: its recipe runs over its inputs, and what fails leaves its log and nothing else."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from abh import cli, paths
from abh.build import components, root, series, source
from abh.errors import AbhError, Status


@pytest.fixture
def rooms(own_cache, tmp_path, monkeypatch):
    """No Debian root, no download: a recipe is a Python function given the folders it would see."""
    for each in (components.key_of, components._source):
        each.cache_clear()
    recipe = {}
    monkeypatch.setattr(root, "path_of", lambda name: tmp_path / f"roots/{name}-0")
    monkeypatch.setattr(root, "contents", lambda name: root.Contents({name: "1"}))
    monkeypatch.setattr(root, "enter", lambda _root, **given: [given])

    def run(prefix, words, *, log: Path, **_):
        log.write_text("compiling\n")
        recipe["run"](prefix[0], words)

    monkeypatch.setattr(root, "run", run)
    monkeypatch.setattr(source, "fetch", lambda base: source.Source(base.package, base.version, ()))
    monkeypatch.setattr(root.cache, "_free_mib", lambda _: 1 << 20)
    recipe["run"] = lambda given, words: (given["writable"]["/out"] / "made").touch()
    yield recipe
    for each in (components.key_of, components._source):
        each.cache_clear()


def test_components_name_recipes_paths_and_components_that_are_there():
    for each in components.COMPONENTS.values():
        assert components.recipe_of(each).is_file(), each.name
        assert all((paths.CHECKOUT / path).exists() for path in each.reads), each.name
        assert each.series is None or paths.CHECKOUT / each.series in series.find_series()
        assert set(each.needs) <= set(components.COMPONENTS) and set(each.seen_as) <= set(each.needs)


def test_a_component_comes_after_all_that_it_needs():
    names = list(components.COMPONENTS)  # `abh build` goes by this order
    for each in components.COMPONENTS.values():
        assert all(names.index(need) < names.index(each.name) for need in each.needs), each.name


def test_a_recipe_sees_its_inputs_and_the_entry_keeps_its_log(rooms):
    seen = {}

    def recipe(given, words):
        seen.update(given, words=words)
        (given["writable"]["/out"] / "made").touch()

    rooms["run"] = recipe
    made = components.path_of("agent")
    assert sorted(path.name for path in made.iterdir()) == ["build.log", "made"]
    assert (made / "build.log").read_text() == "compiling\n"
    assert seen["words"] == [*root.SHELL, "/main/recipes/agent.sh"]
    assert not seen.get("network")


def test_of_the_checkout_a_recipe_sees_what_its_key_is_made_of_alone(rooms):
    seen = {}

    def recipe(given, words):
        seen.update({inside: outside for inside, outside in given["read_only"].items() if inside.startswith("/main")})
        assert "/main" in given["scratch"].split()
        (given["writable"]["/out"] / "made").touch()

    rooms["run"] = recipe
    components.path_of("agent")
    assert seen == {
        "/main/recipes/agent.sh": paths.CHECKOUT / "recipes/agent.sh",
        "/main/agent": paths.CHECKOUT / "agent",
    }


def test_every_file_of_the_checkout_that_a_recipe_names_is_read_by_its_component():
    for each in components.COMPONENTS.values():
        text = components.recipe_of(each).read_text()
        for name in re.findall(r"/main/([\w./-]+)", text):
            known = [*each.reads, f"recipes/{components.recipe_of(each).name}"]
            assert any(Path(name).is_relative_to(read) for read in known), f"{each.name}: {name}"


@pytest.mark.parametrize("prefix", [False, True])
def test_a_build_whose_sources_were_edited_meanwhile_is_not_kept(rooms, own_cache, tmp_path, monkeypatch, prefix):
    copy = tmp_path / "checkout"
    for name in ("agent", "recipes", "hypervisor/qemu", "vm-configs"):
        shutil.copytree(paths.CHECKOUT / name, copy / name)
    monkeypatch.setattr(paths, "CHECKOUT", copy)
    edited = copy / ("recipes/qemu.sh" if prefix else "agent/abh-init.c")

    def recipe(given, words):
        (given["writable"]["/out"] / "made").touch()
        edited.write_text(edited.read_text() + "\n# edited\n")

    def build():
        if not prefix:
            return components.path_of("agent")
        with components.PrefixBuilder() as builder:
            return builder(series.load(copy / "hypervisor/qemu/10.0"))

    monkeypatch.setattr(source, "unpack", lambda _source, work, _log: (work / source.TREE).mkdir())
    monkeypatch.setattr(series, "apply_series", lambda *_: None)
    rooms["run"] = recipe
    with pytest.raises(AbhError, match="was changed while it was built"):
        build()
    assert not [path for path in (own_cache / ("prefixes" if prefix else "built")).iterdir()]


def test_what_tools_leave_behind_changes_no_key():
    model = paths.CHECKOUT / "hypervisor/mmu-model"
    machine = paths.CHECKOUT / "hypervisor/itanium/target/release/deps"
    left = (model / "Cargo.lock", model / "target/release/abh-mmu", paths.CHECKOUT / "abh/__pycache__/cli.pyc", machine)
    assert all(components.ignored(each) for each in left)
    assert not any(components.ignored(each) for each in (model / "Cargo.toml", model / "model/src/target/walk.rs"))


def test_other_hugepages_of_the_machine_have_the_tests_run_again_and_rebuild_nothing(rooms, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "THP", tmp_path)
    keys = []
    for mode in (None, "always madvise [never]", "always [madvise] never"):
        if mode:
            (tmp_path / "enabled").write_text(mode)
        components.key_of.cache_clear()
        keys.append([components.key_of(name) for name in ("glibc-tests", "glibc")])
    tests, library = zip(*keys, strict=True)
    assert len(set(tests)) == 3 and len(set(library)) == 1


@pytest.mark.parametrize(
    ("of", "name", "changed"),
    [
        (root, "ENVIRONMENT", {**root.ENVIRONMENT, "LC_ALL": "C"}),
        (root, "SHELL", ("sh",)),
        (components, "_environment", lambda component: {**root.ENVIRONMENT, "CFLAGS": "-O0"}),
    ],
)
def test_what_a_recipe_runs_in_is_part_of_the_key(rooms, monkeypatch, of, name, changed):
    before = components.key_of("agent")
    components.key_of.cache_clear()
    monkeypatch.setattr(of, name, changed)
    assert components.key_of("agent") != before


def test_patches_rebuild_nothing_of_what_takes_the_source_as_it_is(rooms, monkeypatch):
    loaded, names = series.load, ("linux-ia64-headers", "linux-ia64")
    before = [components.key_of(name) for name in names]
    monkeypatch.setattr(series, "load", lambda folder: replace(loaded(folder), patches=loaded(folder).patches[:1]))
    components.key_of.cache_clear()
    headers, kernel = (components.key_of(name) for name in names)
    assert [headers == before[0], kernel == before[1]] == [True, False]


def test_a_failed_build_leaves_its_log_only(rooms, own_cache):
    def recipe(given, words):
        (given["writable"]["/out"] / "half").touch()
        raise AbhError("building agent failed")

    rooms["run"] = recipe
    with pytest.raises(AbhError, match="building agent failed"):
        components.path_of("agent")
    assert list((own_cache / "built").iterdir()) == []
    assert components.keep_log("agent").read_text() == "compiling\n"


def test_to_ask_whether_a_component_is_built_makes_nothing(rooms, own_cache, monkeypatch):
    with monkeypatch.context() as alone:
        alone.setattr(root, "contents", lambda name: pytest.fail(f"the root {name} is made"))
        assert not components.is_built("agent")
    components.path_of("agent")
    assert components.is_built("agent")
    components.key_of.cache_clear()
    monkeypatch.setattr(root, "contents", lambda name: root.Contents({name: "2"}))
    assert not components.is_built("agent"), "of another root's packages"


def test_what_a_component_needs_is_built_and_bound_under_its_name(rooms):
    seen = {}

    def recipe(given, words):
        seen[words[-1]] = given["read_only"]

    rooms["run"] = recipe
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "unpack", lambda _source, work, _log: work)
        patch.setattr(series, "apply_series", lambda *_: None)
        components.path_of("guest-initramfs")
    bound = seen["/main/recipes/initramfs.sh"]
    assert bound["/in/image"].name.startswith("guest-image-")
    assert bound["/in/agent"].name.startswith("agent-")
    assert "/in/guest-image" not in bound
    assert seen["/main/recipes/guest-image.sh"]["/in/root"].name == "guest-0"


def test_prefixes_are_built_in_one_tree_and_once(rooms, own_cache, monkeypatch):
    whole = series.load(paths.CHECKOUT / "hypervisor/qemu/10.0")
    monkeypatch.setattr(source, "unpack", lambda _source, work, _log: (work / source.TREE).mkdir())
    monkeypatch.setattr(series, "apply_series", lambda patches, tree: applied.append((patches.patches, tree)))

    def recipe(given, words):
        assert words == [*root.SHELL, "/main/recipes/qemu.sh"]
        (given["writable"]["/out"] / "made").touch()
        objects.add(given["writable"]["/obj"])

    rooms["run"] = recipe
    applied, objects = [], set()
    with components.PrefixBuilder() as builder:
        series.check_prefixes(whole, builder)
        assert len(objects) == len({tree for _, tree in applied}) == 1
    assert [patches for patches, _ in applied] == [(name,) for name in whole.patches]
    kept = sorted((own_cache / "prefixes").rglob("*"))
    assert len(kept) == len(whole.patches) and all(path.is_dir() for path in kept), kept

    applied, objects = [], set()
    with components.PrefixBuilder() as builder:
        series.check_prefixes(whole, builder)
    assert applied == []

    # One that is not known any more is built again, on top of those before it.
    kept[0].rmdir()
    with components.PrefixBuilder() as builder:
        series.check_prefixes(whole, builder)
    assert len(applied) == 1 and applied[0][0] == whole.patches[: len(applied[0][0])]


def test_a_prefix_is_known_to_be_good_once_it_was_tried(rooms, own_cache, monkeypatch):
    whole = series.load(paths.CHECKOUT / "hypervisor/qemu/10.0")
    monkeypatch.setattr(source, "unpack", lambda _source, work, _log: (work / source.TREE).mkdir())
    monkeypatch.setattr(series, "apply_series", lambda patches, tree: None)
    tried = []

    def attempt(patches, built):
        assert (built / "made").is_file()
        tried.append(len(patches.patches))
        if tried == [1, 2]:
            raise AbhError("it does not boot")

    rooms["run"] = lambda given, words: (given["writable"]["/out"] / "made").touch()
    with components.PrefixBuilder(attempt) as builder, pytest.raises(AbhError, match="up to"):
        series.check_prefixes(whole, builder)
    with components.PrefixBuilder(attempt) as builder:
        series.check_prefixes(whole, builder)
    assert tried == [1, 2, *range(2, len(whole.patches) + 1)]


def test_a_prefix_that_fails_leaves_no_tree(rooms, own_cache, monkeypatch):
    def recipe(given, words):
        raise AbhError("make failed")

    rooms["run"] = recipe
    monkeypatch.setattr(source, "unpack", lambda _source, work, _log: (work / source.TREE).mkdir())
    monkeypatch.setattr(series, "apply_series", lambda *_: None)
    with pytest.raises(AbhError, match="prefix of a series"), components.PrefixBuilder() as builder:
        series.check_prefixes(series.load(paths.CHECKOUT / "hypervisor/xen/4.20"), builder)
    assert list((own_cache / "prefixes").iterdir()) == []


def test_an_unknown_component_is_refused_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(components, "path_of", lambda name: pytest.fail("built"))
    with pytest.raises(AbhError, match="unknown component") as caught:
        cli.parse(["build", "agent", "qmeu"])
    assert caught.value.next_step == "did you mean `qemu`?" and caught.value.status == Status.USAGE


def test_the_command_builds_what_was_named_or_all(monkeypatch, capsys):
    monkeypatch.setattr(components, "path_of", lambda name: Path("/cache") / name)
    assert cli.main(["build", "xen"]) == 0
    assert capsys.readouterr().out.split() == ["xen", "/cache/xen"]
    assert cli.main(["build", "xen", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"xen": "/cache/xen"}
    assert cli.main(["build"]) == 0
    built = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert built == [name for name, each in components.COMPONENTS.items() if not each.on_demand]
    assert "linux" in built and "linux-debug" not in built
