# SPDX-License-Identifier: MIT
"""Builds every component (recipes/<name>.toml): a recipe run in a Debian root over patched sources.

A component's key is the content of all it is made from, the versions of the root's packages among it, so editing one
patch, option or recipe rebuilds what depends on it and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache as once
from pathlib import Path

from abh import paths
from abh.build import cache, root, series, source
from abh.errors import AbhError
from abh.schema import spec

# Compiled objects are kept between builds so that a change to one patch recompiles only what it touches.
CCACHE = "ccache"
# Of a cargo that somebody ran there.
CARGO_TARGETS = {paths.CHECKOUT / "hypervisor" / each / "target" for each in ("mmu-model", "itanium")}


COMPONENTS = spec.components()


def with_needs(names: Iterable[str]) -> list[str]:
    """These components and all that they need, each after what it needs."""
    wanted, found = list(names), set()
    while wanted:
        if (name := wanted.pop()) not in found:
            found.add(name)
            wanted += COMPONENTS[name].needs
    return [name for name in COMPONENTS if name in found]


def recipe_of(component: spec.Component) -> Path:
    """The script that builds a component."""
    return paths.CHECKOUT / "recipes" / (component.recipe or f"{component.name}.sh")


def ignored(path: Path) -> bool:
    """Files that decide nothing of what is built: prose, and what Python and cargo leave behind."""
    left = "__pycache__" in path.parts or not CARGO_TARGETS.isdisjoint(path.parents)
    return left or path.name in ("README.md", "Cargo.lock")


@once
def _source(folder: str) -> source.Source:
    return source.fetch(series.load(paths.CHECKOUT / folder).base)


def _own_series(component: spec.Component) -> series.Series | None:
    if not component.series:
        return None
    whole = series.load(paths.CHECKOUT / component.series)
    return whole if component.patched else replace(whole, patches=())


def _hugepages() -> str:
    """What the running kernel says of its hugepages: tests that had none are to run again once there are some."""
    files = [paths.THP / name for name in ("enabled", "hpage_pmd_size")]
    return " ".join(file.read_text(encoding="ascii").strip() if file.exists() else "none" for file in files)


@once
def key_of(name: str) -> str:
    """The key of a component: every input's content."""
    return _key(COMPONENTS[name], _own_series(COMPONENTS[name]))


def _key(component: spec.Component, patches: series.Series | None) -> str:
    parts = [component.name, hashlib.sha256(recipe_of(component).read_bytes()).hexdigest()]
    parts += [*root.SHELL, *(f"{name}={value}" for name, value in sorted(_environment(component).items()))]
    parts.append(root.contents(component.root).digest)
    if component.series and patches:
        parts += [_source(component.series).digest, series.series_hash(patches)]
    parts += [cache.digest_tree(paths.CHECKOUT / folder, _unread(component)) for folder in component.reads]
    parts += [root.contents(each).digest for each in component.roots]
    parts += [key_of(each) for each in component.needs]
    parts += [_hugepages()] if component.sysfs else []
    return cache.key_of(*parts)


def _unread(component: spec.Component) -> Callable[[Path], bool]:
    """Says of a file within what a component reads whether it decides nothing of it."""
    left = {paths.CHECKOUT / each for each in component.leaves}
    return lambda path: ignored(path) or not left.isdisjoint((path, *path.parents))


def version_of(name: str) -> str:
    """The upstream version of a component that has a series, as fetched."""
    folder = COMPONENTS[name].series
    assert folder is not None
    return _source(folder).version


def path_of(name: str) -> Path:
    """The folder of a built component, made on first use."""
    component = COMPONENTS[name]
    return _built(component, _own_series(component), key_of(name))


def is_built(name: str) -> bool:
    """Whether a component is in the cache as its sources are now; where it never was, nothing is made to find out."""
    ever = any((paths.cache() / "built").glob(f"{name}-*"))
    return ever and (paths.cache() / "built" / f"{name}-{key_of(name)}").exists()


def build_series(patches: series.Series, name: str | None = None) -> Path:
    """Builds the component of a series with these patches only: a prefix of the series, for instance."""
    component = _component_of(patches, name)
    return _built(component, patches, _key(component, patches))


def of_series(folder: Path) -> spec.Component:
    """The component that a series of patches is for: the one that a study builds, else any that is built of it."""
    name = str(folder.resolve().relative_to(paths.CHECKOUT))
    made = sorted((each for each in COMPONENTS.values() if each.series == name), key=lambda each: each.on_demand)
    if not made:
        raise AbhError(
            "no component is built of this series",
            where=folder,
            expected=f'a file in recipes/ with series = "{name}"',
            next_step="write it, and its recipe",
        )
    return made[0]


def prefix_of(folder: Path) -> spec.Component:
    """The component that shows that a part of a series builds."""
    whole = of_series(folder)
    return COMPONENTS[whole.prefix or whole.name]


def _component_of(patches: series.Series, name: str | None) -> spec.Component:
    return COMPONENTS[name] if name else of_series(patches.folder)


def _inputs(component: spec.Component) -> dict[str, Path]:
    inputs = {f"/in/{component.seen_as.get(each, each)}": path_of(each) for each in component.needs}
    for each in component.roots:
        inputs["/in/root"] = root.path_of(each)
    return inputs


def _built(component: spec.Component, patches: series.Series | None, key: str) -> Path:
    inputs = _inputs(component)
    minutes = f" (about {component.minutes:g} min)" if component.minutes >= 1 else ""

    def make(out: Path) -> None:
        _make(component, patches, inputs, out)
        _check_unchanged(component, patches, key)

    about = f"building {component.name}{minutes}"
    return cache.produce("built", component.name, key, make, about=about, needs_mib=component.needs_mib)


def _check_unchanged(component: spec.Component, patches: series.Series | None, key: str) -> None:
    """An error if what was built is not surely of this key: whoever edits a source meanwhile must not find it again."""
    if _key(component, patches) != key:
        raise AbhError(
            f"what {component.name} is made of was changed while it was built",
            where=recipe_of(component),
            next_step="run the same command again: it builds what is there now",
        )


def _make(component: spec.Component, patches: series.Series | None, inputs: Mapping[str, Path], out: Path) -> None:
    work = out / ".work"  # sources and objects: removed with success, and with the scratch folder on failure
    (work / "obj").mkdir(parents=True)
    log = _new_log(component.name)
    writable = {"/out": out, "/obj": work / "obj"}
    if component.series and patches:
        tree = source.unpack(_source(component.series), work, log)
        series.apply_series(patches, tree)
        writable["/src"] = tree
    _run_recipe(component, inputs, writable, log)
    shutil.copyfile(log, out / "build.log")
    cache.remove(work)


def _environment(component: spec.Component) -> dict[str, str]:
    """What a recipe finds in its environment."""
    return {
        **root.ENVIRONMENT,
        "CCACHE_DIR": "/cache",
        "CCACHE_MAXSIZE": "3G",
        # Depend mode: the compiler itself says what it read, so a miss costs no pass of the preprocessor (a quarter).
        "CCACHE_DEPEND": "1",
        "READS": " ".join(component.reads),
    }


def _run_recipe(component: spec.Component, inputs: Mapping[str, Path], writable: Mapping[str, Path], log: Path) -> None:
    ccache = paths.cache() / CCACHE
    ccache.mkdir(exist_ok=True)
    recipe = f"/main/recipes/{recipe_of(component).name}"
    # Of the checkout what the key is made of, and no more: a recipe that reads another file does not find it.
    read = {f"/main/{each}": paths.CHECKOUT / each for each in component.reads}
    prefix = root.enter(
        root.path_of(component.root),
        read_only={
            **inputs,
            recipe: recipe_of(component),
            **read,
            **({"/sys": Path("/sys")} if component.sysfs else {}),
        },
        writable={**writable, "/cache": ccache},
        scratch="/in /main",
        env=_environment(component),
    )
    root.run(prefix, [*root.SHELL, recipe], log=log, what=f"building {component.name}")


def check_applies(patches: series.Series) -> None:
    """Applies a series to its base, which is fetched; raises AbhError where it does not apply."""
    key = cache.key_of(_source(str(patches.folder.relative_to(paths.CHECKOUT))).digest, series.series_hash(patches))

    def make(out: Path) -> None:
        tree = source.unpack(source.fetch(patches.base), out, _new_log("apply"))
        series.apply_series(patches, tree)
        cache.remove(tree)

    cache.produce("applied", patches.folder.name, key, make, about=f"applying {patches.name}", needs_mib=2500)


class PrefixBuilder:
    """Builds the component of a series after each of its patches, in one tree, and tries it.

    So only what a patch touches is compiled again. Of a prefix that builds, nothing but the fact is kept, in the cache.
    Called with ever longer prefixes of one series; as a context it removes its tree at the end.
    attempt: takes the prefix and the folder with what was built, and raises AbhError if it is no good.
    """

    def __init__(self, attempt: Callable[[series.Series, Path], None] = lambda patches, built: None) -> None:
        self._attempt = attempt
        self._work: Path | None = None
        self._applied = 0
        self._at_exit = contextlib.ExitStack()

    def __enter__(self) -> PrefixBuilder:
        return self

    def __exit__(self, *_: object) -> None:
        self._at_exit.close()

    def __call__(self, patches: series.Series) -> None:
        """Builds this prefix, unless it is known to build."""
        component = prefix_of(patches.folder)
        key = _key(component, patches)
        if (paths.cache() / "built" / f"{component.name}-{key}").exists():
            return

        def make(out: Path) -> None:
            self._make(component, patches, out)
            _check_unchanged(component, patches, key)

        about = f"building {component.name} up to {Path(patches.patches[-1]).stem}"
        cache.produce("prefixes", component.name, key, make, about=about, needs_mib=component.needs_mib)

    def _make(self, component: spec.Component, patches: series.Series, out: Path) -> None:
        log = _new_log(component.name)
        if self._work is None:
            self._work = self._scratch(component, out.parent)
            (self._work / "obj").mkdir()
            assert component.series
            source.unpack(_source(component.series), self._work, log)
        tree = self._work / source.TREE
        series.apply_series(replace(patches, patches=patches.patches[self._applied :]), tree)
        self._applied = len(patches.patches)
        made = out / ".out"
        made.mkdir()
        _run_recipe(component, _inputs(component), {"/out": made, "/obj": self._work / "obj", "/src": tree}, log)
        self._attempt(patches, made)
        cache.remove(made)

    def _scratch(self, component: spec.Component, folder: Path) -> Path:
        """A folder named and locked as an entry's scratch folder is: only of a killed run will it be swept."""
        entry = f"{component.name}-{cache.key_of('prefixes', str(os.getpid()))}"
        self._at_exit.enter_context(cache.lock(f"{folder.name}-{entry}", "building prefixes"))
        work = Path(tempfile.mkdtemp(prefix=f".{entry}-", dir=folder))
        self._at_exit.callback(cache.remove, work)
        return work


def _new_log(name: str) -> Path:
    log = keep_log(name)
    log.write_bytes(b"")
    return log


def keep_log(name: str) -> Path:
    """The log of a build, kept outside the entry so that a failed build leaves it."""
    folder = paths.cache() / "logs"
    folder.mkdir(exist_ok=True)
    return folder / f"{name}-{os.getpid()}.log"
