# SPDX-License-Identifier: MIT
"""Builds every component: a recipe (recipes/<name>.sh) run in the build root over patched sources.

A component's key is the content of all it is made from, so editing one patch, option
or recipe rebuilds what depends on it and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache as once
from pathlib import Path

from abh import paths
from abh.bench import cache, root, series, source
from abh.bench.doctor import THP
from abh.bench.machine import Parts

# Compiled objects are kept between builds so that a change to one patch recompiles only what it touches.
CCACHE = "ccache"
CARGO_TARGET = paths.CHECKOUT / "hypervisor/mmu-model/target"  # of a cargo that somebody ran there


@dataclass(frozen=True)
class Component:
    """A recipe and what it reads: a patch series, folders of the checkout, other components."""

    name: str
    minutes: float  # on two cores, for the progress line
    series: str | None = None  # folder of a patch series
    reads: tuple[str, ...] = ()  # folders of the checkout that the recipe reads
    needs: tuple[str, ...] = ()  # components, seen by the recipe as /in/<name>
    roots: tuple[str, ...] = ()  # Debian roots, seen as /in/root
    needs_mib: int = 500
    root: str = "build"  # the Debian root it is built in
    sysfs: bool = False  # its tests ask the running kernel what it has
    on_demand: bool = False  # tests of the kernel ask for it; a study does not pay for it
    prefix: str | None = None  # the component that shows that a part of the series builds; None: this one
    rename: Mapping[str, str] = field(default_factory=dict)  # component -> its name under /in


COMPONENTS = {
    each.name: each
    for each in (
        Component(
            "linux", 9, "kernel-patches/6.12", ("vm-configs/kconfig/linux",), needs_mib=3500, prefix="linux-prefix"
        ),
        Component(
            "linux-prefix",
            2,
            "kernel-patches/6.12",
            ("vm-configs/kconfig/linux-prefix",),
            needs_mib=2500,
            on_demand=True,
        ),
        Component(
            "linux-debug",
            12,
            "kernel-patches/6.12",
            ("vm-configs/kconfig/linux", "vm-configs/kconfig/linux-debug"),
            needs_mib=5000,
            on_demand=True,
        ),
        Component("xen", 1.5, "hypervisor/xen/4.20", ("vm-configs/kconfig/xen",)),
        Component("qemu", 4, "hypervisor/qemu/10.0", needs_mib=2000),
        Component("glibc", 5, "glibc-patches/2.41", needs_mib=1500),
        Component("glibc-tests", 12, "glibc-patches/2.41", needs_mib=3000, sysfs=True, on_demand=True),
        Component("plugin", 0.1, reads=("hypervisor/qemu/plugin", "agent"), needs=("qemu",)),
        Component("mmu", 1.5, reads=("hypervisor/mmu-model",), needs_mib=1500, root="rust", on_demand=True),
        Component("mmu-tests", 3, reads=("hypervisor/mmu-model",), needs_mib=2500, root="rust", on_demand=True),
        Component("agent", 0.1, reads=("agent",)),
        Component("kernel-tests", 0.1, reads=("tests/kernel",), on_demand=True),
        Component("mm-selftests", 2, "kernel-patches/6.12", needs_mib=2500, on_demand=True),
        Component("workloads", 1, reads=("workloads",)),
        Component("guest-image", 0.5, needs=("glibc", "workloads", "agent"), roots=("guest",), needs_mib=1000),
        Component(
            "host-image",
            0.5,
            reads=("vm-configs/libvirt/etc",),
            needs=("linux", "agent"),
            roots=("host",),
            needs_mib=1000,
        ),
        Component("guest-initramfs", 0.1, needs=("guest-image", "agent"), rename={"guest-image": "image"}),
        Component(
            "host-initramfs", 0.1, needs=("host-image", "guest-image", "linux", "agent"), rename={"host-image": "image"}
        ),
    )
}


def _recipe(name: str) -> Path:
    stem = "initramfs" if name.endswith("-initramfs") else name.removesuffix("-debug").removesuffix("-prefix")
    return paths.CHECKOUT / "recipes" / f"{stem}.sh"


def ignored(path: Path) -> bool:
    """Files that decide nothing of what is built: prose, and what Python and cargo leave behind."""
    return "__pycache__" in path.parts or CARGO_TARGET in path.parents or path.name in ("README.md", "Cargo.lock")


@once
def _source(folder: str) -> source.Source:
    return source.fetch(series.load(paths.CHECKOUT / folder).base)


def _own_series(component: Component) -> series.Series | None:
    return series.load(paths.CHECKOUT / component.series) if component.series else None


def _hugepages() -> str:
    """What the running kernel says of its hugepages: tests that had none are to run again once there are some."""
    files = [THP / name for name in ("enabled", "hpage_pmd_size")]
    return " ".join(file.read_text(encoding="ascii").strip() if file.exists() else "none" for file in files)


@once
def key_of(name: str) -> str:
    """The key of a component: every input's content."""
    return _key(COMPONENTS[name], _own_series(COMPONENTS[name]))


def _key(component: Component, patches: series.Series | None) -> str:
    parts = [component.name, hashlib.sha256(_recipe(component.name).read_bytes()).hexdigest()]
    parts.append(root.path_of(component.root).name)
    if component.series and patches:
        parts += [_source(component.series).digest, series.series_hash(patches)]
    parts += [cache.digest_tree(paths.CHECKOUT / folder, ignored) for folder in component.reads]
    parts += [root.path_of(each).name for each in component.roots]
    parts += [key_of(each) for each in component.needs]
    parts += [_hugepages()] if component.sysfs else []
    return cache.key_of(*parts)


def version_of(name: str) -> str:
    """The upstream version of a component that has a series, as fetched."""
    folder = COMPONENTS[name].series
    assert folder is not None
    return _source(folder).version


def path_of(name: str) -> Path:
    """The folder of a built component, made on first use."""
    component = COMPONENTS[name]
    return _built(component, _own_series(component), key_of(name))


def build_series(patches: series.Series, name: str | None = None) -> Path:
    """Builds the component of a series with these patches only: a prefix of the series, for instance."""
    component = _component_of(patches, name)
    return _built(component, patches, _key(component, patches))


def _component_of(patches: series.Series, name: str | None) -> Component:
    folder = patches.folder.resolve().relative_to(paths.CHECKOUT)
    return next(each for each in COMPONENTS.values() if each.series == str(folder) and name in (None, each.name))


def _inputs(component: Component) -> dict[str, Path]:
    inputs = {f"/in/{component.rename.get(each, each)}": path_of(each) for each in component.needs}
    for each in component.roots:
        inputs["/in/root"] = root.path_of(each)
    return inputs


def _built(component: Component, patches: series.Series | None, key: str) -> Path:
    inputs = _inputs(component)
    minutes = f" (about {component.minutes:g} min)" if component.minutes >= 1 else ""

    def make(out: Path) -> None:
        _make(component, patches, inputs, out)

    about = f"building {component.name}{minutes}"
    return cache.produce("built", component.name, key, make, about=about, needs_mib=component.needs_mib)


def _make(component: Component, patches: series.Series | None, inputs: Mapping[str, Path], out: Path) -> None:
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


def _run_recipe(component: Component, inputs: Mapping[str, Path], writable: Mapping[str, Path], log: Path) -> None:
    ccache = paths.cache() / CCACHE
    ccache.mkdir(exist_ok=True)
    prefix = root.enter(
        root.path_of(component.root),
        read_only={**inputs, "/main": paths.CHECKOUT, **({"/sys": Path("/sys")} if component.sysfs else {})},
        writable={**writable, "/cache": ccache},
        scratch="/in",
        # Depend mode: the compiler itself says what it read, so a miss costs no pass of the preprocessor (a quarter).
        env={
            "CCACHE_DIR": "/cache",
            "CCACHE_MAXSIZE": "3G",
            "CCACHE_DEPEND": "1",
            "READS": " ".join(component.reads),
        },
    )
    recipe = f"/main/recipes/{_recipe(component.name).name}"
    root.run(prefix, ["sh", recipe], log=log, what=f"building {component.name}")


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
        component = _component_of(patches, None)
        component = COMPONENTS[component.prefix or component.name]
        key = _key(component, patches)
        if (paths.cache() / "built" / f"{component.name}-{key}").exists():
            return

        def make(out: Path) -> None:
            self._make(component, patches, out)

        about = f"building {component.name} up to {Path(patches.patches[-1]).stem}"
        cache.produce("prefixes", component.name, key, make, about=about, needs_mib=component.needs_mib)

    def _make(self, component: Component, patches: series.Series, out: Path) -> None:
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

    def _scratch(self, component: Component, folder: Path) -> Path:
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


def parts_of(boot: str, image: str, *, mmu: bool = False) -> Parts:
    """What a machine needs, built: boot is "linux" or "xen", image "guest" or "host"."""
    return Parts(
        qemu=path_of("qemu"),
        plugin=path_of("plugin"),
        linux=path_of("linux"),
        initramfs=path_of(f"{image}-initramfs"),
        xen=path_of("xen") if boot == "xen" else None,
        mmu=path_of("mmu") if mmu else None,
    )
