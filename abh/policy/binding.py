# SPDX-License-Identifier: MIT
"""libvirt's own Python binding, which is the distribution's package, and connections made with it.

The package is for the system's Python and lies among modules that the environment of bin/abh must not see: only the
four modules of the binding are taken from there.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from abh.errors import AbhError, Status

PACKAGE = "python3-libvirt"
DIST_PACKAGES = Path("/usr/lib/python3/dist-packages")
MODULES = ("libvirtmod", "libvirt", "libvirtmod_qemu", "libvirt_qemu")  # each after what it imports


def load(folder: Path = DIST_PACKAGES) -> Any:
    """The module `libvirt`."""
    try:
        return _quiet(importlib.import_module("libvirt"))
    except ImportError:
        pass
    for name in MODULES:
        if name not in sys.modules:
            _take(name, folder)
    return _quiet(sys.modules["libvirt"])


def qemu() -> Any:
    """The module `libvirt_qemu`, which talks to the agent in a guest."""
    load()
    return importlib.import_module("libvirt_qemu")


def _quiet(module: Any) -> Any:
    """Without its own error messages on stderr: they come as exceptions, too."""
    module.registerErrorHandler(lambda _context, _error: None, None)
    return module


def _take(name: str, folder: Path) -> None:
    suffixes = [*importlib.machinery.EXTENSION_SUFFIXES, ".py"]
    path = next((each for each in (folder / f"{name}{suffix}" for suffix in suffixes) if each.exists()), None)
    if path is None:
        others = sorted(each.name for each in folder.glob(f"{name}.*"))
        python = ".".join(map(str, sys.version_info[:2]))
        raise AbhError(
            "libvirt's Python binding is not here" if not others else "libvirt's Python binding is for another Python",
            where=folder,
            got=", ".join(others) or None,
            expected=f"{name} for Python {python}" if others else None,
            next_step="run bin/abh with the system's Python: ABH_PYTHON=/usr/bin/python3"
            if others
            else f"apt-get install {PACKAGE}",
        )
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        del sys.modules[name]
        raise AbhError(
            "libvirt's Python binding cannot be loaded",
            where=path,
            got=error,
            next_step=f"apt-get install --reinstall {PACKAGE}",
        ) from error


@contextlib.contextmanager
def connection(uri: str | None, *, read_only: bool = False) -> Iterator[Any]:
    """A connection to the libvirt of that URI, or to its default."""
    libvirt = load()
    with errors(f"libvirt, {uri or 'its default connection'}", "is libvirtd or virtqemud running, may you use it?"):
        made = libvirt.openReadOnly(uri) if read_only else libvirt.open(uri)
    try:
        yield made
    finally:
        with contextlib.suppress(libvirt.libvirtError):  # it may have gone away
            made.close()


class NoDomain(AbhError):
    """There is no such domain, or none any more: domains come and go while they are looked at."""


@contextlib.contextmanager
def errors(where: object, next_step: str) -> Iterator[None]:
    """libvirt's errors within, as ours: what it says is kept word for word."""
    libvirt = load()
    try:
        yield
    except libvirt.libvirtError as error:
        got = error.get_error_message() or str(error)
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            step = "`abh policy list` shows the domains of this connection"
            raise NoDomain(
                "there is no such domain", where=where, got=got, next_step=step, status=Status.USAGE
            ) from error
        raise AbhError("libvirt refuses", where=where, got=got, next_step=next_step) from error


def state_folder(made: Any) -> Path | None:
    """Where the system's libvirt of a local connection notes the processes of its VMs; None for a user's own."""
    uri = urllib.parse.urlsplit(str(made.getURI()))
    if not is_local(made) or uri.path != "/system":
        return None
    socket = urllib.parse.parse_qs(uri.query).get("socket", [""])[0]
    return Path(socket).parent if socket else Path("/run/libvirt")


def is_local(made: Any) -> bool:
    """Whether the connection is to this machine, so that its /proc is where the VMs are."""
    uri = str(made.getURI())
    scheme, _, rest = uri.partition("://")
    return ("+" not in scheme and rest.startswith("/")) or scheme.endswith("+unix")
