# SPDX-License-Identifier: MIT
"""Cells on another machine's own KVM: `abh run --machine local` there, by a command that leads to it.

`ssh HOST` is such a command, and so is Slurm's `srun`: what it starts has the words that follow, its output comes back,
and it ends with that program's status. The order of the runs, and what is made of them, stay here.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
from collections.abc import Sequence

from abh.errors import AbhError, Status
from abh.schema.result import Result
from abh.schema.strict import kebab
from abh.study import cell

OUTCOMES = (Status.SUCCESS, Status.SKIP, Status.ERROR, Status.FAILURE, Status.CRASH)  # with which there is a result
MINUTES = {"smoke": 30, "paper": 180}  # until one run is given up: the other machine may build first, or have a queue
TAIL = 2000
LONGEST = 60  # of a folder's name that one still reads


def words_of(command: str) -> list[str]:
    """The words of the command; an error where it has none, or a quote without its end."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise _wrong(command, error) from None
    if not words:
        raise _wrong(command, "no word")
    return words


def _wrong(command: str, got: object) -> AbhError:
    return AbhError(
        "not a command",
        where="--through",
        got=f"{command!r}: {got}",
        next_step="give one as 'ssh host' or 'srun --exclusive'",
        status=Status.USAGE,
    )


def place_of(words: Sequence[str]) -> str:
    """Names the folder of what was measured there; of a long command its end, where the host is, and a digest."""
    name = kebab(" ".join(words))
    if len(name) <= LONGEST:
        return name
    return kebab(f"{hashlib.sha256(shlex.join(words).encode()).hexdigest()[:8]}-{name[-LONGEST:]}")


def check(words: Sequence[str], version: str) -> None:
    """An error unless the command leads to the same version of abh."""
    done = _ran([*words, "abh", "--version"], 10)
    if done.stdout.split()[-1:] != [version]:
        raise AbhError(
            "the command does not lead to this version of abh",
            where=shlex.join([*words, "abh", "--version"]),
            got=f"status {done.returncode}, {done.stdout.strip()[-200:]!r}",
            expected=f"abh {version}",
            next_step="try the command by itself; `abh` must be in the PATH there: the package's, or a link to bin/abh",
            tail=done.stderr[-TAIL:],
        )


def run(one: cell.Cell, words: Sequence[str]) -> Result:
    """Runs a cell there. The names of runs have no letter that a shell there, as ssh has one, would read otherwise."""
    said = [*words, "abh", "run", str(one.run), "--size", one.size, "--machine", "local", "--json"]
    done = _ran(said, MINUTES[one.size])
    try:
        if done.returncode not in OUTCOMES:
            raise ValueError(f"exit status {done.returncode}")
        made = Result.model_validate(json.loads(done.stdout)["result"])
        if (made.run, made.size) != (str(one.run), one.size):
            raise ValueError(f"a result of {made.run} ({made.size})")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AbhError(
            "no result came back",
            where=shlex.join(said),
            got=str(error).splitlines()[0] if str(error) else error,
            next_step="run the same command by itself",
            tail=done.stderr[-TAIL:],
        ) from None
    mine = cell.provenance(one)
    if (made.provenance.series, made.provenance.commit) != (mine.series, mine.commit):
        raise AbhError(
            "the other machine has other sources of abh",
            where=shlex.join(said),
            got=f"commit {made.provenance.commit}, or other patches",
            expected=f"commit {mine.commit}",
            next_step="bring the same checkout, or the same package, there",
        )
    return made


def _ran(words: Sequence[str], minutes: float) -> subprocess.CompletedProcess[str]:
    """The command with no input of ours: ssh would take it."""
    try:
        return subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=minutes * 60, check=False,
        )  # fmt: skip
    except OSError as error:
        raise AbhError(
            "the command cannot be started", where=words[0], got=error.strerror, next_step="correct --through"
        ) from None
    except subprocess.TimeoutExpired:
        raise AbhError(
            "nothing came back in time", where=shlex.join(words), expected=f"an end within {minutes:g} min",
            next_step="is the machine reachable, and does its queue move?",
        ) from None  # fmt: skip
