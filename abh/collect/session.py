# SPDX-License-Identifier: MIT
"""All runs of one measurement: every pass as often as asked for, in random order, kept as they end, and their medians.

What each run came to is appended to a file beside the result, so a measurement that was killed goes on with what is
left of it, if command, events, processor, kernel and settings are still those that it began with.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abh import paths
from abh.collect import here, perf, spread
from abh.collect.passes import Pass
from abh.collect.program import Observed, Values
from abh.errors import AbhError, Status
from abh.schema.measured import OWN, Measured
from abh.schema.result import Provenance, Value, write_json

FOLDER = paths.MEASURED / "collect"
RUNS = ".runs.jsonl"  # what each run came to, beside the result
PART = ".part.jsonl"  # the same, of a measurement that has not ended


@dataclass(frozen=True)
class Asked:
    """What is to be measured."""

    run: tuple[str, str, str]  # the three parts of its name
    command: tuple[str, ...]  # as told in the provenance
    passes: tuple[Pass, ...]
    repeats: int
    seed: int
    microarchitecture: str | None
    size: str = OWN
    extra: Mapping[str, str] = field(default_factory=dict)  # what else it depends on

    @property
    def name(self) -> str:
        """The run's."""
        return "{}@{}~{}".format(*self.run)

    def order(self) -> list[tuple[int, int]]:
        """(repeat, pass) of every run, in the order of this seed: what drifts meanwhile is no pass's alone."""
        every = [(repeat, number) for repeat in range(self.repeats) for number in range(len(self.passes))]
        random.Random(self.seed).shuffle(every)
        return every


def key_of(asked: Asked, machine: here.Machine, tool: perf.Perf) -> str:
    """Names what the runs of one measurement have in common."""
    parts = [
        asked.command,
        [one.specs for one in asked.passes],
        asked.repeats,
        asked.seed,
        machine.text,
        tool.version,
        tool.user_only,
        dict(asked.extra),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def check_free(asked: Asked, folder: Path) -> None:
    """An error if another command has a result of that name, or a measurement that has not ended.

    Names are made of those of programs and machines, without what a file's name should not have: `web_1` and `web-1`
    have one, and so have programs of one name in two folders.
    """
    for path in (folder / f"{asked.name}.json", folder / f"{asked.name}{PART}"):
        try:
            text = path.read_text(encoding="utf-8")
            found = json.loads(text.partition("\n")[0] if path.name.endswith(PART) else text)
            other = found.get("provenance", found).get("command")
        except (OSError, ValueError, AttributeError):
            continue
        if other is not None and _subject(other) != _subject(" ".join(asked.command)):
            raise AbhError(
                "a result of this name is another command's",
                where=path,
                got=" ".join(asked.command),
                expected=other,
                next_step="give this one another name, by --name or --label; or remove the other",
                status=Status.USAGE,
            )


def _subject(command: str) -> str:
    """What a command measures, however long it does."""
    return re.sub(r" --seconds \S+$", "", command)


class Log:
    """The file of runs: its first line is the key and the command, each other a run."""

    def __init__(self, path: Path, key: str, command: str) -> None:
        self.path = path
        self.done = self._read(key)
        if not self.done:
            path.write_text(json.dumps({"key": key, "command": command}) + "\n", encoding="utf-8")

    def _read(self, key: str) -> dict[tuple[int, int], Observed]:
        """What is there of the same measurement. A last line that was cut off is left out, and cut off."""
        if not self.path.exists():
            return {}
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        lines = [json.loads(line) for line in whole.splitlines()]
        if not lines or lines[0].get("key") != key:
            return {}
        if whole != text:
            self.path.write_text(whole, encoding="utf-8")
        return {(line["repeat"], line["pass"]): _observed(line) for line in lines[1:]}

    def add(self, repeat: int, number: int, seen: Observed) -> None:
        """Keeps a run, on the disk."""
        values = {name: each.model_dump() for name, each in seen.values.items()}
        line = {"repeat": repeat, "pass": number, "status": seen.status, "values": values}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.done[repeat, number] = seen


def _observed(line: Mapping[str, Any]) -> Observed:
    return Observed(line["status"], {name: Value(**each) for name, each in line["values"].items()})


def measure(
    asked: Asked,
    machine: here.Machine,
    tool: perf.Perf,
    folder: Path,
    once: Callable[[Pass], Observed],
    tell: Callable[[str], None],
) -> tuple[Measured, Path]:
    """Runs what is left, and writes the result and its runs. A run that fails is the last."""
    folder.mkdir(parents=True, exist_ok=True)
    check_free(asked, folder)
    path = folder / f"{asked.name}.json"
    log = Log(path.with_name(f"{asked.name}{PART}"), key_of(asked, machine, tool), " ".join(asked.command))
    order = asked.order()
    if log.done:
        tell(f"{len(log.done)} of {len(order)} runs were there already")
    for count, (repeat, number) in enumerate(order, 1):
        if (repeat, number) in log.done:
            continue
        if here.settings() != machine.settings:
            raise AbhError(
                "the machine's settings changed during the measurement",
                got=here.settings(),
                expected=machine.settings,
                next_step="set them back to go on, or run the command again to begin anew",
            )
        seen = once(asked.passes[number])
        log.add(repeat, number, seen)
        tell(f"run {count} of {len(order)}: {seen.values['elapsed'].value:.3f} s")
        if seen.problem:
            break
    made = _result(asked, machine, tool, list(log.done.values()))
    write_json(made.model_dump(), path)
    os.replace(log.path, path.with_name(f"{asked.name}{RUNS}"))
    return made, path


def _result(asked: Asked, machine: here.Machine, tool: perf.Perf, runs: Sequence[Observed]) -> Measured:
    problem = next((seen.problem for seen in runs if seen.problem), None)
    workload, environment, policy = asked.run
    return Measured(
        run=asked.name,
        workload=workload,
        environment=environment,
        policy=policy,
        size=asked.size,  # type: ignore[arg-type]  # one of the sizes
        outcome="failure" if problem else "success",
        reason=problem,
        values=spread.merge([seen.values for seen in runs]),
        repeats=asked.repeats,
        processor=machine.cpu.named or str(machine.cpu),
        microarchitecture=asked.microarchitecture,
        provenance=provenance(asked, machine, tool),
    )


def provenance(asked: Asked, machine: here.Machine, tool: perf.Perf) -> Provenance:
    """What made the numbers."""
    return Provenance(
        commit=here.commit(),
        series={},
        components={"linux": machine.kernel, "perf": tool.version},
        roots={},
        command=" ".join(asked.command),
        seed=asked.seed,
        machine=machine.text,
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def complete(made: Measured, path: Path, more: Values, lost: Values) -> tuple[Measured, Path]:
    """The result with what was asked for once, at the end, and what could not be counted."""
    values = dict(made.values)
    for name, value in more.items():
        values[name] = spread.measure([value])
    for name, value in lost.items():
        values.setdefault(name, spread.measure([value]))
    whole = made.model_copy(update={"values": values})
    write_json(whole.model_dump(), path)
    return whole, path
