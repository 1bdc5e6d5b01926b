# SPDX-License-Identifier: MIT
"""What the tests of booted machines read of their results."""

from __future__ import annotations

from abh.schema.result import Result


def number(result: Result, name: str) -> float:
    """A value of a cell that succeeded; it is known."""
    assert result.outcome == "success", result.reason
    value = result.values[name]
    assert value.value is not None, f"{name}: {value.reason}"
    return value.value
