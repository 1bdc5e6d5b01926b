# SPDX-License-Identifier: MIT
"""vm-configs/events/<name>.toml: which events of a processor's counters say what page walks cost, and how they lie."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from abh.errors import AbhError
from abh.paths import CHECKOUT
from abh.schema.keys import Positive, Sentence, SnakeName, Spec, Word, checked, no_repeat
from abh.schema.shelf import Shelf
from abh.schema.strict import Strict, bad

_TERM = r"(event|umask|cmask|inv|edge)=(0x[0-9a-f]+|[0-9]+)"
_MODELS = re.compile(r"([0-9a-f]{2})(?:-([0-9a-f]{2}))?")
# In every pass, so that a share is of numbers that were counted together.
ALWAYS = ("cycles", "instructions")

Code = Annotated[str, checked(re.compile(rf"{_TERM}(,{_TERM})*").fullmatch, "terms of perf, as event=0x08,umask=0x82")]
Models = Annotated[str, checked(_MODELS.fullmatch, "a model or a range of them in hexadecimal, as 3a or 00-2f")]


class Cpu(Strict):
    """Processors by what CPUID says of them."""

    vendor: Literal["GenuineIntel", "AuthenticAMD"]
    family: Positive
    models: Annotated[tuple[Models, ...], AfterValidator(no_repeat)]
    called: Sentence

    def numbers(self) -> set[int]:
        """The models, as numbers."""
        found: set[int] = set()
        for each in self.models:
            first, last = each.partition("-")[::2]
            found.update(range(int(first, 16), int(last or first, 16) + 1))
        return found


class Event(Strict):
    """One event: what perf is told, what the number means, and what is wrong with it."""

    name: Word  # the vendor's
    code: Code
    unit: Word
    means: Sentence
    lies: tuple[Sentence, ...] = ()  # said beside each number
    fixed: bool = False  # has a counter of its own


class Ratio(Strict):
    """A number that is others', divided: they are counted in one run."""

    of: Annotated[tuple[SnakeName, ...], checked(bool, "at least one event"), AfterValidator(no_repeat)]  # added up
    per: SnakeName
    means: Sentence
    lies: tuple[Sentence, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """All events in it."""
        return (*self.of, self.per)


class Microarchitecture(Spec):
    """vm-configs/events/<name>.toml: processors that count alike."""

    pmu: SnakeName = "cpu"  # the kernel's name of the counters
    counters: Positive  # general ones, of a thread
    perf_lists: Annotated[tuple[Word, ...], checked(bool, "at least one")]  # folders of perf's own list of events
    source: Sentence
    cpu: tuple[Cpu, ...]
    event: dict[SnakeName, Event]
    ratio: dict[SnakeName, Ratio] = Field(default_factory=dict)
    absent: dict[SnakeName, Sentence] = Field(default_factory=dict)  # numbers that these processors don't have, and why

    @model_validator(mode="after")
    def _agrees(self) -> Microarchitecture:
        for name in (*ALWAYS, *(part for each in self.ratio.values() for part in each.parts)):
            if name not in self.event:
                raise bad("no such event", key=f"event.{name}", got=name, next_step="describe it, or leave it out")
        for name in self.absent.keys() & (self.event.keys() | self.ratio.keys()):
            raise bad("a number that is absent", key=f"absent.{name}", got=name, next_step="leave one of the two out")
        taken = sum(not self.event[name].fixed for name in ALWAYS)
        if self.counters <= taken:
            raise bad("no counter is left", key="counters", got=self.counters, expected=f"more than {taken}")
        return self


@dataclass(frozen=True)
class Identity:
    """What a processor says of itself."""

    vendor: str
    family: int
    model: int
    named: str = ""

    def __str__(self) -> str:
        return f"{self.named or self.vendor} ({self.vendor}, family {self.family:#x}, model {self.model:#04x})"


MICROARCHITECTURE: Shelf[Microarchitecture] = Shelf("microarchitecture", Microarchitecture, "vm-configs/events/*.toml")


def of(cpu: Identity, root: Path = CHECKOUT) -> Microarchitecture:
    """The file of this processor."""
    known = MICROARCHITECTURE.all(root)
    for each in known.values():
        if any((one.vendor, one.family) == (cpu.vendor, cpu.family) and cpu.model in one.numbers() for one in each.cpu):
            return each
    raise AbhError(
        "no file says how this processor counts page walks",
        where=root / MICROARCHITECTURE.glob,
        got=cpu,
        expected="one of " + ", ".join(known),
        next_step="write one for it, after its manual; or count what the kernel counts alone, with --software",
    )
