# SPDX-License-Identifier: MIT
"""The one error type a user meets: what went wrong, where, and what to do next."""

from __future__ import annotations


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
        status: int = 1,
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
