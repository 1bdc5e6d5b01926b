# SPDX-License-Identifier: MIT
"""The MMU model beside a run: which processor it stands for, and what it says (hypervisor/mmu-model)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from abh import paths
from abh.errors import AbhError
from abh.schema import spec
from abh.schema.result import Kind, Value
from abh.schema.strict import did_you_mean

CPUS = paths.CHECKOUT / "hypervisor" / "mmu-model" / "cpus"
FOLDER = "mmu"  # beside a study's results, with a folder for each processor: the model makes a run some times longer
TRACE = "mmu.trace"  # in a run's folder
SWEEP = "sweep"  # folder, beside those of processors: one run on all of them, and over sizes of TLBs
TOTAL = "total"
LAYERS = ("guest_user", "guest_kernel", "hypervisor")
# What is told for each layer; of all layers together, everything is.
BY_LAYER = ("accesses", "tlb_misses", "tlb_fills_4k", "tlb_fills_2m", "tlb_fills_1g", "walk_refs", "walk_cycles")
# The estimate is a band: of a page walk's cycles the processor's file states how many are exposed, from least to most.
ENDS = ("low", "high")
ESTIMATE = "cycles_estimate"
PARTS = ("instructions", *(f"walks_{end}" for end in ENDS), "second_level_tlb", "data_stalls", "exits")
SHARE = "walk_share_estimate"
ESTIMATES, SHARES = (tuple(f"{name}_{end}" for end in ENDS) for name in (ESTIMATE, SHARE))
# What the emulator has seen happen; all else is the model's, which looks it up, walks, remembers and forgets.
EVENTS = ("loads", "stores")
UNITS = (  # the first whose word is in the name
    ("share", "ratio"),
    ("cycles", "cycles"),
    ("refs", "references"),
    ("flushes", "flushes"),
    ("flushed", "entries"),
    ("abandoned", "entries"),
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
    return _check("processor", name, cpus(), "hypervisor/mmu-model/cpus describes them")


def check_layer(name: str) -> str:
    """The name, if the model counts by it."""
    return _check("layer", name, [TOTAL, *LAYERS], f"{TOTAL} is all of them")


def _check(what: str, name: str, known: Sequence[str], otherwise: str) -> str:
    if name not in known:
        next_step = did_you_mean(name, known, otherwise)
        raise AbhError(f"unknown {what}", got=name, expected="one of " + ", ".join(known), next_step=next_step)
    return name


def arguments(
    environment: spec.Environment,
    cpu: str | None,
    *,
    check: bool = False,
    trace: bool = False,
    every_fetch: bool = False,
) -> str:
    """What the plugin is told: what stands between the machine and the workload, the processor, whether to record, and
    if each line that is fetched or one of each page."""
    stack = "native" if environment.hypervisor == "none" else "pv" if environment.paging == "pv" else "hvm"
    words = [f"stack={stack}", f"check={'on' if check else 'off'}"]
    words += [f"cpu={check_cpu(cpu)}"] if cpu else []
    words += [f"trace=/run/{TRACE}"] if trace else []
    words += ["fetches=lines"] if every_fetch else []
    return ",".join(words)


def program(words: Sequence[str], folder: Path, *, writes: bool = False) -> str:
    """What abh-mmu prints; it finds its files in `folder`, by names without a path, and may write there if asked to."""
    from abh.build import components, root

    enter = root.enter(
        root.path_of("build"),
        read_only={"/in/mmu": components.path_of("mmu"), **({} if writes else {"/in/files": folder})},
        writable={"/in/files": folder} if writes else None,
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
        said["counters"]["layers"][TOTAL], said["estimate"]["estimated_cycles_high"], said["perf"][TOTAL]
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
    kind: Kind = "counted" if name in EVENTS else "modelled"
    if number is None:
        return Value.unknown(_unit(name), kind, "no page of such a size was walked to")
    return Value.of(number, _unit(name), kind)


def values_of(said: Mapping[str, Any]) -> dict[str, Value]:
    """The counters of all layers together, and the main ones of each; then the estimate, and what was checked."""
    layers = said["counters"]["layers"]
    return dict(_values(layers, said))


def _values(layers: Mapping[str, Mapping[str, float | None]], said: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    for name, number in layers[TOTAL].items():
        yield name, _value(name, number)
    for layer in LAYERS:
        for name in BY_LAYER:
            yield f"{layer}_{name}", _value(name, layers[layer][name])
    yield from _estimated(said["estimate"])
    yield "accesses_not_followed", Value.of(said["not_followed"], "accesses", "counted")
    for control, number in said["tlb_control"].items():
        yield f"tlb_control_{control}", Value.of(number, "VM entries", "counted")
    if check := said["check"]:
        yield "accesses_checked", Value.of(check["accesses"], "accesses", "counted")
        yield "accesses_unchecked", Value.of(check["unchecked"], "accesses", "counted")
        yield "address_mismatches", Value.of(check["mismatches"], "accesses", "counted")


def _estimated(estimate: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """Counts times stated costs, their parts, and the share of page walks: the paper's "execution time"."""
    for part in PARTS:
        yield f"{ESTIMATE}_{part}", _estimate(estimate[f"of_{part}"], "cycles (estimate)")
    for end in ENDS:
        cycles, walks = estimate[f"estimated_cycles_{end}"], estimate[f"of_walks_{end}"]
        yield f"{ESTIMATE}_{end}", _estimate(cycles, "cycles (estimate)")
        yield f"{SHARE}_{end}", _estimate(walks / cycles if cycles else None, "ratio (estimate)")


def _estimate(number: float | None, unit: str) -> Value:
    if number is None:
        return Value.unknown(unit, "modelled", "a part of the estimate was not counted")
    return Value.of(number, unit, "modelled")


def perf_lines(said: Mapping[str, Any], layer: str) -> list[str]:
    """A layer's counts as `perf stat -j` prints them, under the names that perf has for them on this processor."""
    counted: Mapping[str, int] = said["perf"][layer]
    return [json.dumps({"counter-value": f"{number}.000000", "unit": "", "event": name, "event-runtime": 0,
                        "pcnt-running": 100.0}) for name, number in counted.items()]  # fmt: skip


def wrong_addresses(values: Mapping[str, Value]) -> str | None:
    """What is wrong, if the model found no or another machine address than the emulator anywhere, or looked nowhere.

    An access is told to the model when the emulator has made it, so none is to fault, whether addresses are compared or
    not.
    """
    if lost := sum(values[name].value or 0 for name in ("faults", "walks_unreadable")):
        return f"the MMU model found no machine address for {lost} accesses that the emulator made"
    if "accesses_checked" not in values:
        return None
    mismatches, checked = values["address_mismatches"].value, values["accesses_checked"].value
    if mismatches or not checked:
        return f"the MMU model found another machine address than the emulator in {mismatches} of {checked} accesses"
    return None
