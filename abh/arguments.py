# SPDX-License-Identifier: MIT
"""Types of arguments: numbers with bounds, names that exist, files and folders. What is wrong ends with status 2.

A type is a function of the word, as argparse wants it. The names of NAMES are looked up when a word is judged, or a
shell's completion is made, so a command's parser costs nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from abh.errors import AbhError, Status

SEED_MOST = 2**64 - 1


def whole(least: int, most: int) -> Callable[[str], int]:
    """A whole number from `least` to `most`, in decimal."""

    def read(word: str) -> int:
        digits = word[1:] if word[:1] in ("-", "+") else word
        # Up to 20 digits: all that is in bounds has fewer, and Python refuses to read thousands.
        if digits.isascii() and digits.isdecimal() and len(digits) <= 20 and least <= int(word) <= most:
            return int(word)
        raise argparse.ArgumentTypeError(f"got {word!r}, expected a whole number from {least:,} to {most:,}")

    return read


def number(above: float, most: float) -> Callable[[str], float]:
    """A number greater than `above`, up to `most`."""

    def read(word: str) -> float:
        with contextlib.suppress(ValueError):
            if math.isfinite(found := float(word)) and above < found <= most:
                return found
        raise argparse.ArgumentTypeError(f"got {word!r}, expected a number above {above:,g}, up to {most:,g}")

    return read


def seed(word: str) -> int:
    """The seed of a generator of random numbers: 64 bits without a sign."""
    return whole(0, SEED_MOST)(word)


def draws(word: str) -> int:
    """How many draws of a cell."""
    from abh.study import draws

    return whole(1, draws.MOST)(word)


def cores(word: str) -> int:
    """How many steps at a time."""
    return whole(1, 4096)(word)


def file(word: str) -> Path:
    """A file that is there, to be read."""
    path = _path(word)
    if path.is_file():
        return path
    raise argparse.ArgumentTypeError(f"{word}: {'not a file' if path.exists() else 'no such file'}")


def folder(word: str) -> Path:
    """A folder that is there, to be read."""
    path = _path(word)
    if path.is_dir():
        return path
    raise argparse.ArgumentTypeError(f"{word}: {'not a folder' if path.exists() else 'no such folder'}")


def new_file(word: str) -> Path:
    """A file to be written, in a folder that is there: a word that is mistyped makes none.

    It takes the place of what has its name, so a device or a pipe is none.
    """
    path = _path(word)
    if os.path.exists(path) and not os.path.isfile(path):  # of what may not be looked at, writing says why
        what = "a folder" if os.path.isdir(path) else "no file but a device, pipe or socket"
        raise argparse.ArgumentTypeError(f"{word}: {what}, expected the name of a file")
    above = path.absolute().parent
    if not above.is_dir():
        raise argparse.ArgumentTypeError(f"{'not a folder' if above.exists() else 'no such folder'}: {above}")
    return Path(os.path.realpath(path)) if os.path.islink(path) else path  # a link stays, /dev/stdout among them


def new_folder(word: str) -> Path:
    """A folder to be written to, made where it is missing: output.check_writable() says whether that can be."""
    path = _path(word)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{word}: not a folder")
    return path


def _path(word: str) -> Path:
    if not word or "\0" in word:
        raise argparse.ArgumentTypeError(f"got {word!r}, expected a path")
    return Path(word)


# --- names ------------------------------------------------------------------------------------------------------


def _shelf(name: str) -> Callable[[], list[str]]:
    def names() -> list[str]:
        from abh.paths import CHECKOUT
        from abh.schema import spec

        return sorted(getattr(spec, name).paths(CHECKOUT))

    return names


def _workloads(group: str) -> Callable[[], list[str]]:
    def names() -> list[str]:
        from abh.schema import spec

        return sorted(spec.workloads(group=group))

    return names


def _study_workloads() -> list[str]:
    """Those of `abh study`: its own, and those of an environment alone."""
    from abh.schema import spec

    groups = {"", *(each.group for each in spec.environments(on_demand=True).values())}
    return sorted(name for group in groups for name in spec.workloads(group=group))


def _groups() -> list[str]:
    from abh.schema import spec

    return sorted(spec.groups())


def _processors() -> list[str]:
    from abh.model import mmu

    return mmu.cpus()


def _layers() -> list[str]:
    from abh.model import mmu

    return [mmu.TOTAL, *mmu.LAYERS]


def _packages() -> list[str]:
    from abh.paths import CHECKOUT
    from abh.schema import package

    return sorted(package.PACKAGE.paths(CHECKOUT))


def _itanium_modes() -> list[str]:
    from abh.schema import spec

    return list(spec.policies(group="itanium"))


def _itanium_pages() -> list[str]:
    from abh.verify import itanium

    return [str(kib) for kib in itanium.sizes()]


def _itanium_programs() -> list[str]:
    from abh.paths import CHECKOUT
    from abh.schema import thesis

    return sorted(thesis.SHELF.paths(CHECKOUT))


def _experiments() -> list[str]:
    from abh.paths import CHECKOUT
    from abh.schema import experiment

    return sorted(experiment.SHELF.paths(CHECKOUT))


def _stages() -> list[str]:
    from abh.verify import stages

    return list(stages.STAGES)


def _xen_tests() -> list[str]:
    from abh.verify import xen

    return [*xen.names(), *xen.MOVED, xen.REFUSE]


NAMES: dict[str, Callable[[], list[str]]] = {
    "workload": _study_workloads,
    "program": _workloads("compat"),
    "environment": _shelf("ENVIRONMENT"),
    "policy": _shelf("POLICY"),
    "component": _shelf("COMPONENT"),
    "group": _groups,
    "processor": _processors,
    "layer": _layers,
    "package": _packages,
    "stage": _stages,
    "experiment": _experiments,
    "itanium-mode": _itanium_modes,
    "itanium-pages": _itanium_pages,
    "itanium-program": _itanium_programs,
    "xen-test": _xen_tests,
}
# Kinds whose names are no words for people.
WORDS = {
    "itanium-mode": "mode of the Itanium machine",
    "itanium-pages": "size of base pages of the Itanium machine",
    "itanium-program": "program of the thesis",
    "xen-test": "test of Xen",
}
CELL = "cell"
CELL_FORM = "WORKLOAD@ENVIRONMENT~POLICY"


def name(kind: str) -> Callable[[str], str]:
    """A name of a kind of NAMES."""

    def read(word: str) -> str:
        known = NAMES[kind]()
        if word not in known:
            raise unknown(WORDS.get(kind, kind), word, known)
        return word

    return read


def vm_policy(word: str) -> str:
    """A policy for a VM: a file, or a name, of its host's own or of vm-configs/policies."""
    from abh.schema import spec

    if spec.is_file(word):
        file(word)
        return word
    own = sorted(path.stem for path in spec.HOSTS_POLICIES.glob("*.toml"))
    if word not in (*own, *NAMES["policy"]()):
        raise unknown("policy", word, [*own, *sorted(spec.policies(group="vm"))])
    return word


def unknown(kind: str, word: str, known: Sequence[str]) -> AbhError:
    """The error that a name is none of the known."""
    from abh.schema.strict import did_you_mean, one_of

    return AbhError(
        f"unknown {kind} `{word}`",
        got=word or "(nothing)",
        expected=one_of(word, known),
        next_step=did_you_mean(word, known, "name one of these"),
        status=Status.USAGE,
    )


def cell(word: str) -> str:
    """The name of a run, all of whose parts exist."""
    from abh.schema import spec

    with usage():
        return str(spec.Run.parse(word))


def add_cell(parser: argparse.ArgumentParser, word: str, **options: Any) -> None:
    """An argument that names a run."""
    options.setdefault("help", "`abh list` shows the names")
    completed(parser.add_argument(word, metavar=CELL_FORM, type=cell, **options), CELL)


def add_itanium_pages(parser: argparse.ArgumentParser) -> None:
    """`--pages`: which of the Itanium machine's own kernels."""
    kind = "itanium-pages"
    pages = parser.add_argument(
        "--pages",
        type=name(kind),
        default="16",
        metavar="KIB",
        help="base pages of the bench's own kernel and RAM disk (default: %(default)s)",
    )
    completed(pages, kind)


@contextlib.contextmanager
def usage() -> Iterator[None]:
    """What is wrong within is the command line's."""
    try:
        yield
    except AbhError as error:
        error.status = Status.USAGE
        raise


def wrong(what: str, *, got: str, expected: str | None = None, next_step: str) -> AbhError:
    """The error of options that do not go together."""
    return AbhError(what, got=got, expected=expected, next_step=next_step, status=Status.USAGE)


def completed(action: argparse.Action, kind: str) -> Any:
    """The action, whose words a shell completes: names of that kind, a CELL, or a `file` or `directory`."""
    action.complete = kind  # type: ignore[attr-defined]  # shtab reads it
    return action
