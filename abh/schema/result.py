# SPDX-License-Identifier: MIT
"""One run's result: its type, its JSON file, and the paper's Alloc.Ratio."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_serializer, model_validator

from abh.errors import AbhError
from abh.schema.strict import SNAKE, Strict, bad, read_json, validate

SIZES = ("smoke", "paper")
Outcome = Literal["success", "skip", "error", "failure", "crash"]
Size = Literal["smoke", "paper"]
OUTCOMES: tuple[Outcome, ...] = (
    "success",
    "skip",
    "error",
    "failure",
    "crash",
)  # from best to worst; a group shows its worst
Kind = Literal["counted", "modelled", "emulated", "measured", "reference"]

HUGE_PER_REGULAR = 512  # 2 MiB / 4 KiB
_TIME_UNIT = re.compile(r"(s|ms|us|ns|min|cycles)|.*/(s|ms|us|ns|min|cycles?)")


def _finite_number(value: Any) -> Any:
    if value is None or (type(value) in (int, float) and math.isfinite(value)):
        return value
    raise bad("not a finite number", got=str(value), expected="a finite number, or null with a `reason`")


def _one_line(value: str) -> str:
    if not value.strip():
        raise bad("empty text", got=value, expected="a non-empty string", next_step="write it, or leave the key out")
    return value


def _moment(value: str) -> str:
    try:
        aware = datetime.datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        aware = False
    if not aware:
        raise bad("not a point in time", got=value, expected="ISO 8601 with a zone, as 2026-01-31T12:00:00+00:00")
    return value


Text = Annotated[str, AfterValidator(_one_line)]
Number = Annotated[Any, AfterValidator(_finite_number)]


class Value(Strict):
    """One number with its unit and how it came to be; None when unknown, and then a reason (else an optional note)."""

    value: Number
    unit: Text
    kind: Kind
    reason: Text | None = None
    low: Number = None  # where the value is the median of several draws: the lowest and the highest of them
    high: Number = None

    @classmethod
    def of(cls, value: int | float, unit: str, kind: Kind) -> Value:
        """A known number."""
        return cls(value=value, unit=unit, kind=kind)

    @classmethod
    def unknown(cls, unit: str, kind: Kind, reason: str) -> Value:
        """A number that is not known, and why."""
        return cls(value=None, unit=unit, kind=kind, reason=reason)

    @model_validator(mode="after")
    def _reason_if_unknown(self) -> Value:
        if self.value is None and self.reason is None:
            raise bad("an unknown value without a reason", key="reason", got="", next_step="say why it is not known")
        return self

    @model_serializer
    def _without_empty_reason(self) -> dict[str, Any]:
        table = {"value": self.value, "unit": self.unit, "kind": self.kind}
        more = {"reason": self.reason, "low": self.low, "high": self.high}
        return table | {name: each for name, each in more.items() if each is not None}


class Provenance(Strict):
    """What made the numbers: enough to run again."""

    commit: Text
    series: dict[str, str]  # folder of a patch series -> SHA-256 of its content
    components: dict[str, str]  # linux, xen, qemu, glibc -> version
    roots: dict[str, str]  # Debian root -> digest of the versions of its packages
    command: Text
    seed: int
    machine: Text
    when: Annotated[str, AfterValidator(_moment)]


class Result(Strict):
    """What one run produced (the contract in docs/map.md)."""

    run: Text
    workload: Text
    environment: Text
    policy: Text
    size: Size
    outcome: Outcome
    reason: Text | None
    values: dict[str, Value]
    provenance: Provenance
    draws: Annotated[int, Field(ge=1)] = 1  # of addresses; of several the values are medians

    @model_validator(mode="after")
    def _consistent(self) -> Result:
        identity = f"{self.workload}@{self.environment}~{self.policy}"
        if self.run != identity:
            raise bad("the run does not name its own parts", key="run", got=self.run, expected=identity)
        if self.outcome == "success" and self.reason is not None:
            raise bad("a success with a reason", key="reason", got=self.reason, expected="null")
        if self.outcome != "success" and self.reason is None:
            raise bad(f"{self.outcome} without a reason", key="reason", got="null", next_step="say what happened")
        for name in self.values:
            if not SNAKE.fullmatch(name):
                raise bad("ill-formed name of a value", key=f"values.{name}", got=name, expected="snake_case")
        return self


def kind_of_unit(unit: str) -> Kind:
    """How a number printed by a workload came to be: times and rates run on the emulator's clock, counts do not."""
    return "emulated" if _TIME_UNIT.fullmatch(unit) else "counted"


def alloc_ratio(huge_faults: int, regular_faults: int) -> Value:
    """The share of fault-allocated memory that came as hugepages.

    Alloc.Ratio = 512 * hpgf / (512 * hpgf + rpgf), in Wang, Luo, Hu, Wang, Luo, "Evaluating the impacts of
    hugepage on virtual machines", Sci China Inf Sci 60(1):012103, 2017, section 2 and Table 1. Counted when
    memory is allocated and blind to frees: it approximates the make-up of the page table, it does not measure it.
    """
    for name, faults in (("huge_faults", huge_faults), ("regular_faults", regular_faults)):
        if type(faults) is not int or faults < 0:
            raise AbhError(
                "not a number of faults",
                where=name,
                got=faults,
                expected="a whole number, 0 or more",
                next_step="check that the counter was read before and after the same run",
            )
    huge = HUGE_PER_REGULAR * huge_faults
    if huge + regular_faults == 0:
        return Value.unknown("ratio", "counted", "no page fault was counted")
    return Value.of(huge / (huge + regular_faults), "ratio", "counted")


def write(result: Result, path: Path) -> None:
    """Write a result's file."""
    write_json(result.model_dump(), path)


def write_json(data: object, path: Path) -> None:
    """Write the file whole or not at all: a reader sees the old content or the new, even across a power cut."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp made it private to this user
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise AbhError(
            "cannot write the result",
            where=path,
            got=error.strerror,
            next_step="check the folder's permissions and free space",
        ) from error
    finally:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)


def read(path: Path) -> Result:
    """The result in the file; AbhError names the file and the key that is wrong."""
    try:
        return validate(Result, read_json(path), path)
    except AbhError as error:
        if "did you mean" not in (error.next_step or ""):  # else it is the advice of a file that somebody writes
            error.next_step = "delete it and run again"
        raise


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
