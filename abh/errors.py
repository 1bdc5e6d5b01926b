# SPDX-License-Identifier: MIT
"""How a command ends: its exit status, and the one error type a user meets."""

from __future__ import annotations

import os
from enum import IntEnum


class Status(IntEnum):
    """Every exit status, with what it means; `abh man` prints this table."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Status:
        """A member that is its number, and carries its meaning."""
        one = int.__new__(cls, value)
        one._value_ = value
        one.meaning = meaning
        return one

    SUCCESS = 0, "Done, and all that was checked holds."
    FAILED = 1, "Something failed or does not hold; standard error says what."
    USAGE = 2, "Wrong usage: an option, a number out of its bounds, or a name that does not exist. Nothing was done."
    ERROR = 3, "The run came to no result: the bench is at fault. Of `abh policy verify`: something cannot be seen."
    FAILURE = 4, "The program under study gave a wrong answer, or exited with a failure."
    CRASH = 5, "A kernel or a hypervisor died or hung during the run."
    SKIP = 77, "The run cannot apply here, and was skipped; the reason is in its result."
    CANNOT_RUN = 126, "The program of `abh exec` or `abh collect` cannot be run."
    NOT_FOUND = 127, "The program of `abh exec` or `abh collect` was not found."
    INTERRUPTED = 130, "Interrupted; it can be run again, and standard error says whether it goes on or begins anew."
    PIPE_CLOSED = 141, "The reader of standard output has left."


def as_root(otherwise: str) -> str:
    """The advice to run it as root; to who is root, what else there is to do."""
    return "run this as root" if os.geteuid() else otherwise


class AbhError(Exception):
    """A failure a user can act on.

    what: one sentence; where: path, command or run; got / expected: the two sides
    of a comparison, where there are two; next_step: what the user does now;
    status: the command's exit status.
    """

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        got: object = None,
        expected: object = None,
        next_step: str | None = None,
        tail: str | None = None,
        status: int = Status.FAILED,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.got = got
        self.expected = expected
        self.next_step = next_step
        self.tail = tail
        self.status = status

    def __str__(self) -> str:
        parts = [("where", self.where), ("got", self.got), ("expected", self.expected), ("next", self.next_step)]
        lines = [self.what, *(f"  {name}: {text}" for name, text in parts if text is not None)]
        if self.tail:
            lines += ["  last lines:", *(f"  | {line}" for line in self.tail.splitlines())]
        return "\n".join(lines)
