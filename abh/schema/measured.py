# SPDX-License-Identifier: MIT
"""A result of real hardware: the bench's, with what is known of each value's spread over repeated runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_serializer, model_validator

from abh.schema.result import Number, Result, Value
from abh.schema.strict import bad, read_json, validate

CONFIDENCE = 0.95
OWN = "own"  # the size of a command that is none of the bench's


class Measure(Value):
    """A median over runs; `low` and `high` are the least and the greatest of them."""

    interval_low: Number = None  # of the median, at CONFIDENCE
    interval_high: Number = None
    runs: Annotated[int, Field(ge=0)] = 1  # that it is the median of

    @model_validator(mode="after")
    def _interval_is_whole(self) -> Measure:
        if (self.interval_low is None) != (self.interval_high is None):
            raise bad("half an interval", key="interval_low", got=self.interval_low, expected="both ends, or none")
        return self

    @model_serializer
    def _without_what_is_not_known(self) -> dict[str, Any]:
        table = {"value": self.value, "unit": self.unit, "kind": self.kind, "runs": self.runs}
        more = {
            "reason": self.reason,
            "low": self.low,
            "high": self.high,
            "interval_low": self.interval_low,
            "interval_high": self.interval_high,
        }
        return table | {name: each for name, each in more.items() if each is not None}


class Measured(Result):
    """analysis/measured/collect/<host>/<run>.json: the keys of a result, and on what processor it was measured."""

    size: Literal["smoke", "paper", "own"]  # type: ignore[assignment]  # wider than the bench's
    values: dict[str, Measure]  # type: ignore[assignment]  # the same, with more in them
    repeats: Annotated[int, Field(ge=1)]
    processor: str  # its name; of a virtual machine what that is told
    microarchitecture: str | None  # the file of vm-configs/events; none: only software was counted


def read(path: Path) -> Measured:
    """The result in the file; AbhError names the file and the key that is wrong."""
    return validate(Measured, read_json(path), path)
