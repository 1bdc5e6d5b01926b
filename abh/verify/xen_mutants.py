# SPDX-License-Identifier: MIT
"""Xen with one thing taken away (tests/xen/mutants): the guests named for it have to show that it is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from abh.errors import AbhError, Status
from abh.schema.strict import Strict, bad, did_you_mean, read_toml, validate
from abh.verify import xen, xen_counted

FILE = xen.TESTS / "mutants/mutants.toml"


class Mutant(Strict):
    """What a debug key takes away, the jobs of tests/xen/run that are to show it, and how."""

    key: Annotated[str, Field(pattern="^[1-9bfjky]$")]
    taken: str
    jobs: Annotated[tuple[str, ...], Field(min_length=1)]
    shows: Literal["stale", "failure", "counters", "nothing"]
    because: str | None = None  # nothing shows it

    @model_validator(mode="after")
    def _why_nothing_shows(self) -> Mutant:
        if (self.shows == "nothing") != (self.because is not None):
            raise bad("`because` says why nothing shows it", got=self.because, next_step="give it there alone")
        return self


class Mutants(Strict):
    """mutants.toml."""

    mutant: tuple[Mutant, ...]

    @model_validator(mode="after")
    def _one_for_a_key(self) -> Mutants:
        keys = [each.key for each in self.mutant]
        if twice := sorted({key for key in keys if keys.count(key) > 1}):
            raise bad("two mutants have one key", got=", ".join(twice), next_step="give each its own")
        return self


@dataclass
class Seen:
    """How a mutant ended: whether as its file says, how many translations were stale, and all of it in a line."""

    key: str
    as_said: bool
    stale: int
    told: str


def chosen(keys: Sequence[str], file: Path = FILE) -> list[Mutant]:
    """The mutants of these keys; all, if there are none."""
    known = {each.key: each for each in validate(Mutants, read_toml(file), file).mutant}
    if unknown := [key for key in keys if key not in known]:
        raise AbhError(
            "no such mutant",
            where=file,
            got=unknown[0],
            next_step=did_you_mean(unknown[0], known, f"take one of {', '.join(known)}"),
            status=Status.USAGE,
        )
    return [known[key] for key in keys] if keys else list(known.values())


def tried(mutant: Mutant, built: Path, limit_s: float) -> Seen:
    """Runs a mutant's jobs on that Xen, with the MMU model beside."""
    jobs = [f"key {mutant.key}", *mutant.jobs]
    ended, _ = xen.run(jobs, xen=built, limit_s=limit_s, mmu=xen.MMU_CHECK, state=xen.frozen_state(built, limit_s))
    return judged(mutant, ended)


def judged(mutant: Mutant, ended: xen.Ended) -> Seen:
    """Whether what came of a mutant is what its file says. Stale is so only where each guest succeeded and no more is
    wrong: another failure would hide that nobody looks for it."""
    stale, entries, other = (
        sum(each.checked.get(key, 0) for each in ended.verdicts) for key in ("stale", "entries", "mismatches")
    )
    well = all(each.outcome == "success" for each in ended.verdicts)
    uncounted = xen_counted.unshown(ended.verdicts)
    as_said = {
        "stale": well and stale > 0,
        "failure": not well,
        "counters": well and bool(uncounted),
        "nothing": ended.passed and not uncounted,
    }[mutant.shows]
    outcomes = "; ".join(f"{each.variant} {each.outcome} {each.reason}".rstrip() for each in ended.verdicts)
    told = "; ".join([f"{stale} stale, {other} addresses differ, of {entries} compared", outcomes, *uncounted])
    return Seen(mutant.key, as_said, stale, told)
