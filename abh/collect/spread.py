# SPDX-License-Identifier: MIT
"""Many runs' values as one: medians, and intervals for them that suppose nothing of how the values are spread."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from abh.collect.program import Values
from abh.schema.measured import CONFIDENCE, Measure
from abh.schema.result import Value

# Of as many values, the least and the greatest bound the median with at least CONFIDENCE: 1 - 2/2**6 is 0.969.
LEAST_RUNS = 6


def interval(numbers: Sequence[float]) -> tuple[float, float] | None:
    """Of the median, at CONFIDENCE, by order statistics; None where so few values bound it no so surely."""
    if len(numbers) < LEAST_RUNS:
        return None
    from scipy import stats  # type: ignore[import-untyped]  # here, as it takes a second

    found = stats.quantile_test(numbers, p=0.5).confidence_interval(confidence_level=CONFIDENCE)
    low, high = float(found.low), float(found.high)
    return None if math.isnan(low) or math.isnan(high) else (low, high)


def merge(runs: Sequence[Values]) -> dict[str, Measure]:
    """Each value over all runs that have it; events of other passes are in other runs."""
    names = dict.fromkeys(name for each in runs for name in each)
    return {name: measure([each[name] for each in runs if name in each]) for name in names}


def measure(values: Sequence[Value]) -> Measure:
    """The median. Where more runs than not have no number, there is none; where some have not, that is said."""
    first = values[0]
    known = [each for each in values if each.value is not None]
    lost = [each for each in values if each.value is None]
    if 2 * len(known) <= len(values):
        why = lost[0].reason or "no reason was given"
        why = why if not known else f"{len(lost)} of {len(values)} runs: {why}"
        return Measure(value=None, unit=first.unit, kind=first.kind, reason=why, runs=0)
    numbers = [each.value for each in known]
    notes = [known[0].reason] if known[0].reason else []
    if lost:
        notes.append(f"without {len(lost)} of {len(values)} runs: {lost[0].reason}")
    ends = interval(numbers)
    low, high = ends or (None, None)
    return Measure(
        value=_whole(statistics.median(numbers)),
        unit=first.unit,
        kind=first.kind,
        reason="; ".join(notes) or None,
        low=min(numbers),
        high=max(numbers),
        interval_low=low,
        interval_high=high,
        runs=len(numbers),
    )


def _whole(number: float) -> float:
    return int(number) if float(number).is_integer() else number
