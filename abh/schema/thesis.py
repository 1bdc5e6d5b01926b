# SPDX-License-Identifier: MIT
"""tests/itanium/thesis/<name>.toml: a program of Wienand's thesis, and what it must count on the Itanium machine."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field

from abh.paths import CHECKOUT
from abh.schema.keys import Line, Positive, Sentence, Spec, checked
from abh.schema.shelf import Shelf
from abh.schema.strict import Strict

Mode = Literal["none", "sf", "lf", "none-lp", "sf-lp", "lf-lp"]
Counter = Literal["instructions", "uncollected", "misses", "walked", "ended", "faults", "nested"]


def _rises(pair: tuple[Any, ...]) -> bool:
    return len(pair) == 2 and pair[0] < pair[1]


def _is_range(pair: tuple[Any, ...]) -> bool:
    return len(pair) == 2 and 0 <= pair[0] <= pair[1]


Rounds = Annotated[tuple[Positive, ...], checked(_rises, "two numbers of rounds, the greater last")]
Range = Annotated[tuple[int, ...], checked(_is_range, "the least and the greatest number")]
Size = Annotated[str, checked(re.compile(r"[1-9][0-9]*K").fullmatch, "a size as /proc/superpages has it, as 64K")]
Count = Annotated[int, checked(lambda number: number >= 0, "a whole number from 0")]
Largest = Annotated[str, checked(bool, "a page size, as 16M")]
Faulted = dict[Size, Count]
Bounds = dict[Mode, dict[Counter, Range]]
Pages = Literal["4k", "64k"]


class Otherwise(Strict):
    """What of a program is otherwise under a kernel with other base pages; its counts there are these alone."""

    superpages: Largest | None = None  # None: as there
    words: Line | None = None
    faulted: Faulted = Field(default_factory=dict)
    bounds: Bounds = Field(default_factory=dict)


class Program(Spec):
    """A program: <name>.c beside the file has its function."""

    thesis: Sentence  # where in the thesis, and what it says there
    rounds: Rounds  # of two runs: what is between them is counted
    superpages: Largest = "16M"  # the largest
    words: Line = ""  # more of the kernel's command line
    quick: bool = False  # its bounds are part of the stage `itanium`
    slice: bool = False  # and of the quick stage `itanium-slice`
    faulted: Faulted = Field(default_factory=dict)  # superpages of each size that a round gets, where it may
    bounds: Bounds = Field(default_factory=dict)  # of what a round counts
    pages: dict[Pages, Otherwise] = Field(default_factory=dict)  # under a kernel with other base pages


SHELF = Shelf("program of the thesis", Program, "tests/itanium/thesis/*.toml")


def programs() -> dict[str, Program]:
    """All of them, by name."""
    return SHELF.all(CHECKOUT)
