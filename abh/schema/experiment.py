# SPDX-License-Identifier: MIT
"""tests/kernel/navarro/<name>.toml: an experiment of Navarro's paper, and what is known of what he found."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from abh.paths import CHECKOUT
from abh.schema.keys import Name, Positive, Sentence, SnakeName, Spec, checked, no_repeat
from abh.schema.shelf import Shelf
from abh.schema.strict import Strict

# How sure the digits are: the paper itself was not at hand.
SURE = {
    "S": "stated in the text at hand",
    "X": "confirmed by another source",
    "R": "recalled, not confirmed",
    "R?": "weakly recalled, not confirmed",
}


class Reference(Strict):
    """What he found."""

    says: Sentence
    sure: Literal["S", "X", "R", "R?"]


Range = Annotated[
    tuple[int, ...], checked(lambda pair: len(pair) == 2 and pair[0] <= pair[1], "the least and the greatest number")
]
Names = Annotated[tuple[Name, ...], AfterValidator(no_repeat)]
Counts = Annotated[tuple[SnakeName, ...], AfterValidator(no_repeat)]


class Experiment(Spec):
    """An experiment: <name>.c beside the file has its function."""

    order: int
    reference: tuple[Reference, ...]
    shows: Counts  # of what is counted, in the table; each must be there
    policies: Names = ("reg", "thp", "reservation-navarro", "reservation-steps")  # by turns
    turns: Positive = 3  # of each; the median is shown
    files: bool = False  # /dev/vdb is the root of the study's guests, whose files it reads
    lacks: tuple[Sentence, ...] = ()  # what of his experiment is not here, and why
    bounds: dict[Name, dict[SnakeName, Range]] = Field(default_factory=dict)  # what must be counted, for a policy


SHELF = Shelf("experiment", Experiment, "tests/kernel/navarro/*.toml")


def experiments() -> list[Experiment]:
    """All of them, in their order."""
    return sorted(SHELF.all(CHECKOUT).values(), key=lambda each: each.order)
