# SPDX-License-Identifier: MIT
"""Where a number stands on an axis, and which places of the axis are named."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

MOST_NAMED = 4  # named on an axis; arbitrary
STEPS = tuple(step * 10.0**power for power in range(-12, 16) for step in (1, 2, 5))
FINEST = 0.01  # of a share: a change of less needs no finer axis
ROOM = 0.22  # of an axis, for a named place; arbitrary


@dataclass(frozen=True)
class Scale:
    """An axis from `start` to `end`; on a logarithmic one, equal distances are equal ratios."""

    start: float
    end: float
    log: bool = False
    step: float | None = None  # between the named places of an axis that is not logarithmic

    def place(self, value: float) -> float:
        """How far along the axis, from 0 to 1; what is beyond an end stands at it."""
        if self.log:
            if value <= 0:
                return 0.0
            share = math.log(value / self.start) / math.log(self.end / self.start)
        else:
            share = (value - self.start) / (self.end - self.start)
        return min(max(share, 0.0), 1.0)

    def ticks(self) -> tuple[float, ...]:
        """Ends and middle, or each step; on a logarithmic axis powers of ten, and the ends that have room."""
        if not self.log:
            step = self.step or (self.end - self.start) / 2
            return tuple(self.start + place * step for place in range(round((self.end - self.start) / step) + 1))
        powers = range(math.ceil(math.log10(self.start) - 1e-9), math.floor(math.log10(self.end) + 1e-9) + 1)
        named = [10.0**power for power in powers[:: max(1, math.ceil(len(powers) / MOST_NAMED))]]
        free = [
            end for end in (self.start, self.end) if all(abs(self.place(end) - self.place(x)) > ROOM for x in named)
        ]
        return tuple(sorted([*named, *free]))


def linear(values: Iterable[float], end: float | None = None) -> Scale:
    """From 0 to `end`, or to the largest of the values."""
    return Scale(0.0, end if end is not None else max([*values, 0.0]) or 1.0)


def around_zero(values: Iterable[float]) -> Scale:
    """Even steps of 1, 2 or 5 times a power of ten, few of them, that 0 is one of."""
    least, most = min(ends := [0.0, *values]), max(ends)
    for step in STEPS:
        below, above = math.floor(least / step + 1e-9), max(math.ceil(most / step - 1e-9), 1)
        if step >= FINEST and above - below < MOST_NAMED:
            return Scale(below * step, above * step, step=step)
    raise ValueError(f"no axis from {least} to {most}")


def logarithmic(values: Iterable[float]) -> Scale:
    """From one of 1, 2, 5, 10, 20, … to another; what is not above 0 stands at the start."""
    known = [value for value in values if value > 0] or [1.0]
    start = max(step for step in STEPS if step <= min(known) * (1 + 1e-9))
    return Scale(start, min(step for step in STEPS if step >= max(known) * (1 - 1e-9) and step > start), log=True)
