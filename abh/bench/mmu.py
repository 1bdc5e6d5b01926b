# SPDX-License-Identifier: MIT
"""The MMU model beside a run: which processor it stands for, and what it counted (hypervisor/mmu-model)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from abh import paths
from abh.bench import spec
from abh.bench.result import Value
from abh.bench.strict import did_you_mean
from abh.errors import AbhError

CPUS = paths.CHECKOUT / "hypervisor" / "mmu-model" / "cpus"
FOLDER = "mmu"  # beside a study's results, with a folder for each processor: the model makes a run some times longer
TRACE = "mmu.trace"  # in a run's folder
SWEEP = "sweep"  # folder, beside those of processors: one run on all of them, and over sizes of TLBs
LAYERS = ("guest_user", "guest_kernel", "hypervisor")
# What is told for each layer; of all layers together, everything is.
BY_LAYER = ("accesses", "tlb_misses", "tlb_fills_4k", "tlb_fills_2m", "tlb_fills_1g", "walk_refs", "walk_cycles")
UNITS = (  # the first whose word is in the name
    ("share", "ratio"),
    ("cycles", "cycles"),
    ("refs", "references"),
    ("flushes", "flushes"),
    ("flushed", "entries"),
    ("hits", "hits"),
    ("misses", "misses"),
    ("walks", "walks"),
    ("fills", "walks"),
    ("faults", "faults"),
    ("", "accesses"),
)


def cpus() -> list[str]:
    """Names of the processors that the model knows."""
    return sorted(path.stem for path in CPUS.glob("*.toml"))


def check_cpu(name: str) -> str:
    """The name, if there is such a processor."""
    if name not in cpus():
        raise AbhError(
            "unknown processor",
            got=name,
            expected="one of " + ", ".join(cpus()),
            next_step=did_you_mean(name, cpus(), f"they are described in {CPUS.relative_to(paths.CHECKOUT)}"),
        )
    return name


def arguments(environment: spec.Environment, cpu: str | None, *, check: bool = False, trace: bool = False) -> str:
    """What the plugin is told: what stands between the machine and the workload, the processor, whether to record."""
    stack = "native" if environment.hypervisor == "none" else "pv" if environment.paging == "pv" else "hvm"
    words = [f"stack={stack}", f"check={'on' if check else 'off'}"]
    words += [f"cpu={check_cpu(cpu)}"] if cpu else []
    words += [f"trace=/run/{TRACE}"] if trace else []
    return ",".join(words)


def program(words: Sequence[str], folder: Path) -> str:
    """What abh-mmu prints; it finds its files in `folder`, by names without a path."""
    from abh.bench import build, root

    enter = root.enter(
        root.path_of("build"),
        read_only={"/in/mmu": build.path_of("mmu"), "/in/files": folder},
        scratch="/in",
        chdir="/in/files",
    )
    command = [*enter, "/in/mmu/abh-mmu", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AbhError("abh-mmu failed", where=" ".join(words), got=done.stderr.strip() or f"status {done.returncode}")
    return done.stdout


def read(text: str) -> dict[str, Any]:
    """The plugin's one line; an error if it is not there or not whole."""
    lines = text.splitlines()
    try:
        (line,) = lines
        said = json.loads(line)
        said["counters"]["layers"]["total"]
    except (ValueError, KeyError, TypeError):
        raise AbhError(
            "the MMU model did not report the one marked region",
            got=f"{len(lines)} lines: {text[:200]!r}",
            expected="one line of JSON with its counters",
        ) from None
    return dict(said)


def read_sweep(path: Path) -> dict[str, Any]:
    """What `abh sweep` has written."""
    try:
        found = json.loads(path.read_text())
        found["fingerprint"], found["run"], found["replays"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AbhError("this is no sweep", where=path, got=error, next_step="remove it and run `abh sweep`") from None
    return dict(found)


def _unit(name: str) -> str:
    return next(unit for word, unit in UNITS if word in name)


def _value(name: str, number: float | None) -> Value:
    if number is None:
        return Value.unknown(_unit(name), "counted", "no page of such a size was walked to")
    return Value.of(number, _unit(name), "counted")


def values_of(said: Mapping[str, Any]) -> dict[str, Value]:
    """The counters of all layers together, and the main ones of each."""
    layers = said["counters"]["layers"]
    return dict(_values(layers, said))


def _values(layers: Mapping[str, Mapping[str, float | None]], said: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    for name, number in layers["total"].items():
        yield name, _value(name, number)
    for layer in LAYERS:
        for name in BY_LAYER:
            yield f"{layer}_{name}", _value(name, layers[layer][name])
    yield "accesses_not_followed", Value.of(said["not_followed"], "accesses", "counted")
    if check := said["check"]:
        yield "accesses_checked", Value.of(check["accesses"], "accesses", "counted")
        yield "address_mismatches", Value.of(check["mismatches"], "accesses", "counted")


def wrong_addresses(values: Mapping[str, Value]) -> str | None:
    """What is wrong, if the model found another machine address than the emulator anywhere, or looked nowhere."""
    if "accesses_checked" not in values:
        return None
    mismatches, checked = values["address_mismatches"].value, values["accesses_checked"].value
    if mismatches or not checked:
        return f"the MMU model found another machine address than the emulator in {mismatches} of {checked} accesses"
    return None
