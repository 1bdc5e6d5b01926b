# SPDX-License-Identifier: MIT
"""Several draws of one cell: the same run after the kernel's randomness has been given another seed.

A cell is one draw of addresses, and where memory begins decides how many of a small program's pages are huge. The
median over draws says what a program gets, and the range how far chance goes. Draw 0 is what the machine draws by
itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from abh.errors import AbhError
from abh.schema.result import OUTCOMES, Provenance, Result, Value

if TYPE_CHECKING:
    from abh.study.cell import Cell

FOLDER = "draws"  # beside the results of single draws and medians
MOST = 99


def numbers(draws: int) -> range:
    """The draws of a cell."""
    if not 1 <= draws <= MOST:
        raise AbhError(
            "no such number of draws",
            where="--draws",
            got=draws,
            expected=f"1 to {MOST}",
            next_step="name an odd number, as 5",
            status=2,
        )
    return range(draws)


def folder_of(folder: Path, one: Cell) -> Path:
    """Where the result of one draw is kept: the only draw's among the results, each of several in its own folder."""
    return folder if one.draws == 1 else folder / FOLDER / str(one.draw)


def median(results: Sequence[Result], provenance: Provenance) -> Result:
    """The median of every value over the draws' results, with the lowest and the highest; of the outcomes the worst."""
    first, *_ = results
    worst = max(results, key=lambda each: OUTCOMES.index(each.outcome))
    names = dict.fromkeys(name for each in results for name in each.values)
    return first.model_copy(
        update={
            "values": {name: _value([each.values[name] for each in results if name in each.values]) for name in names},
            "outcome": worst.outcome,
            "reason": worst.reason,
            "provenance": provenance,
            "draws": len(results),
        }
    )


def _value(each: Sequence[Value]) -> Value:
    """The median of one value; unknown where it is unknown in any draw, for that draw's reason."""
    unknown = next((value for value in each if value.value is None), None)
    if unknown is not None:
        return unknown
    found = [value.value for value in each]
    middle = statistics.median(found)
    if isinstance(middle, float) and middle.is_integer() and all(isinstance(number, int) for number in found):
        middle = int(middle)
    return each[0].model_copy(update={"value": middle, "low": min(found), "high": max(found)})
