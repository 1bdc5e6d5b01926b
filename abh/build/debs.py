# SPDX-License-Identifier: MIT
"""Debian packages: what is built, laid out by packages/<name>/stage.sh and packed by dpkg-deb in the build root.

A version is `<base>+abh<project's version>.<time>.<series>`: that of the upstream package, as Debian has it, when what
the package is made of was last changed, by which dpkg tells what is newer, and the first digits of the series' digest.
The project's own package has the project's version alone.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

from abh import paths
from abh.build import cache, components, root, series
from abh.schema import package
from abh.schema.package import SCRIPTS, Package

MAINTAINER = "abh developers <abh@localhost.invalid>"
PACKER = "packages/pack.sh"
SERIES_DIGITS = 8
GENERATED = "/in/generated"  # what the caller has made, as manual pages


def version(one: Package, project: str) -> str:
    """The package's version."""
    if not one.needs or not (folder := components.COMPONENTS[one.needs[0]].series):
        return project
    patched = series.load(paths.CHECKOUT / folder)
    digest = series.series_hash(patched)[:SERIES_DIGITS]
    time = max(f"{patched.updated}0000", committed(made_of(one)))
    return f"{components.version_of(one.needs[0])}+abh{project}.{time}.{digest}"


def made_of(one: Package) -> list[str]:
    """The files and folders of the checkout that decide what is in the package.

    All of packages/ for each: a package that depends on the same version of another (`{self}`) is of the same time.
    """
    found = {"packages", *one.reads}
    for name in components.with_needs(one.needs):
        component = components.COMPONENTS[name]
        found |= {str(components.recipe_of(component).relative_to(paths.CHECKOUT)), *component.reads}
        found |= {component.series} if component.series else set()
    return sorted(found)


def committed(names: Iterable[str], checkout: Path = paths.CHECKOUT) -> str:
    """When one of them was last committed, in UTC, to the minute, as 202601311645; "0" where git knows of none."""
    words = ["git", "-C", str(checkout), "log", "-1", "--format=%cd", "--date=format-local:%Y%m%d%H%M", "--", *names]
    try:
        done = subprocess.run(words, env={**os.environ, "TZ": "UTC"}, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "0"
    return done.stdout.strip() or "0"


def control(one: Package, project: str) -> str:
    """DEBIAN/control, but for the size, which the packer knows."""
    found = version(one, project)
    base = found.partition("+abh")[0]
    fields = {
        "Package": one.name,
        "Version": found,
        "Architecture": one.architecture,
        "Maintainer": MAINTAINER,
        "Depends": ", ".join(each.replace("{version}", base).replace("{self}", found) for each in one.depends),
        "Recommends": ", ".join(one.recommends),
        "Section": one.section,
        "Priority": "optional",
    }
    lines = [f"{name}: {value}" for name, value in fields.items() if value]
    lines.append(f"Description: {one.purpose.rstrip('.')}")
    for number, paragraph in enumerate(one.details):
        lines += [" ."] if number else []
        lines += [f" {line}" for line in textwrap.wrap(paragraph, 78)]
    return "\n".join(lines) + "\n"


def key_of(one: Package, project: str, generated: Mapping[str, str]) -> str:
    """Everything that decides the package's content."""
    parts = [control(one, project), hashlib.sha256((paths.CHECKOUT / PACKER).read_bytes()).hexdigest()]
    folders = [one.path.parent, *(paths.CHECKOUT / each for each in one.reads)]
    parts += [cache.digest_tree(folder, components.ignored) for folder in folders]
    parts += [components.key_of(each) for each in one.needs]
    parts += [f"{name} {hashlib.sha256(text.encode()).hexdigest()}" for name, text in sorted(generated.items())]
    return cache.key_of(*parts, root.contents("build").digest)


def path_of(name: str, project: str, generated: Mapping[str, str] | None = None) -> Path:
    """The .deb, made on first use. `generated`: files that stage.sh finds in GENERATED."""
    one = package.PACKAGE.one(name, paths.CHECKOUT)
    inputs = {f"/in/{each}": components.path_of(each) for each in one.needs}
    made = generated or {}
    folder = cache.produce(
        "debs",
        name,
        key_of(one, project, made),
        lambda out: _pack(one, project, made, inputs, out),
        about=f"packing {name}",
        needs_mib=500,
    )
    (found,) = folder.glob("*.deb")
    return found


def _pack(one: Package, project: str, generated: Mapping[str, str], inputs: Mapping[str, Path], out: Path) -> None:
    told, made = out / "told", out / "generated"
    told.mkdir()
    made.mkdir()
    (told / "control").write_text(control(one, project), encoding="utf-8")
    for script in SCRIPTS:
        if (path := one.path.parent / script).exists():
            (told / script).write_bytes(path.read_bytes())
    for name, text in generated.items():
        (made / name).write_text(text, encoding="utf-8")
    prefix = root.enter(
        root.path_of("build"),
        read_only={**inputs, "/in/told": told, GENERATED: made, "/main": paths.CHECKOUT},
        writable={"/out": out},
        scratch="/in",
        env={
            "PACKAGE": one.name,
            "VERSION": version(one, project),
            "LICENCE": one.licence,
            "READS": " ".join(one.reads),
        },
    )
    log = components.keep_log(one.name)
    log.write_bytes(b"")
    root.run(prefix, [*root.SHELL, f"/main/{PACKER}"], log=log, what=f"packing {one.name}")
    cache.remove(told)
    cache.remove(made)
