# SPDX-License-Identifier: MIT
"""The types of single keys in the TOML files, shared by every kind of file."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from abh.schema.result import SIZES
from abh.schema.strict import KEBAB, SNAKE, Strict, bad, did_you_mean


def checked(test: Callable[[Any], object], expected: str) -> AfterValidator:
    """A validator that refuses a value for which `test` is false, saying what was expected."""

    def check(value: Any) -> Any:
        if not test(value):
            raise bad("wrong value", got=value, expected=expected, next_step="correct the value")
        return value

    return AfterValidator(check)


def _number_or_text(value: Any) -> bool:
    if isinstance(value, str):
        return _printable(value)
    return type(value) is int or (type(value) is float and value - value == 0)  # inf - inf and nan - nan are nan


def _printable(value: str) -> bool:
    return not any(ord(letter) < 32 or ord(letter) == 127 for letter in value)


def _inside(value: str) -> bool:
    return bool(value) and not value.startswith("/") and ".." not in value.split("/") and _printable(value)


def _kernel_path(value: str) -> bool:
    return value.startswith("/") and ".." not in value.split("/") and not re.search(r"\s", value)


SWITCHES = ("/sys/kernel/mm/", "/sys/kernel/debug/abh/", "/proc/sys/vm/")


def _switch(value: str) -> bool:
    return _kernel_path(value) and value.startswith(SWITCHES)


def no_repeat(values: tuple[str, ...]) -> tuple[str, ...]:
    """Refuses a name that is listed twice."""
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise bad("duplicate name", got=twice[0], expected="each name once", next_step="remove one of the two")
    return values


def known_sizes(table: dict[str, Any]) -> dict[str, Any]:
    """Refuses a table whose keys are not sizes, and one without any."""
    known_keys(table or [""], SIZES, "size", "remove it" if table else "add one")
    return table


def known_keys(names: Iterable[str], known: Collection[str], kind: str, otherwise: str = "remove it") -> None:
    """Refuses a name that is none of the known of its kind."""
    for name in names:
        if name not in known:
            raise bad(
                f"unknown {kind}",
                key=name,
                got=name,
                expected=f"one of {', '.join(known)}",
                next_step=did_you_mean(name, known, otherwise),
            )


def every_size(table: dict[str, Any]) -> dict[str, Any]:
    """Refuses a table whose keys are not exactly the sizes."""
    if lost := no_size(known_sizes(table)):
        raise lost
    return table


def no_size(table: dict[str, Any], key: str = "") -> Exception | None:
    """What is wrong with a table that lacks a size; None where it has all. `key` is the table's own, with a dot."""
    for name in SIZES:
        if name not in table:
            return bad(
                "missing size",
                key=f"{key}{name}",
                got=", ".join(table),
                expected=", ".join(SIZES),
                next_step=f"add `{name}`",
            )
    return None


def _pattern(text: str) -> str:
    try:
        groups = re.compile(text, re.MULTILINE).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise bad("bad regular expression", got=text, expected=str(error), next_step="correct the pattern") from None
    if groups != 1:
        raise bad(
            f"the pattern has {groups} groups",
            got=text,
            expected="exactly one group, around the value",
            next_step="put ( ) around the value; (?: ) groups without capturing",
        )
    return text


Sentence = Annotated[str, checked(lambda text: bool(text.strip()) and _printable(text), "one non-empty line")]
Line = Annotated[str, checked(_printable, "one line without control characters")]  # the machine reads lines
Word = Annotated[str, checked(lambda text: bool(text) and _printable(text), "one non-empty line")]
Name = Annotated[str, checked(KEBAB.fullmatch, "a kebab-case name, as kvm-hap")]
SnakeName = Annotated[str, checked(SNAKE.fullmatch, "a snake_case name, as table_mib")]
EnvName = Annotated[str, checked(re.compile(r"[A-Za-z_]\w*", re.ASCII).fullmatch, "an environment variable's name")]
KernelPath = Annotated[str, checked(_kernel_path, "an absolute path without spaces or ..")]
SwitchPath = Annotated[str, checked(_switch, f"a path below {' or '.join(SWITCHES)}, without spaces or ..")]
InsidePath = Annotated[str, checked(_inside, "a relative path without ..")]
Positive = Annotated[int, checked(lambda number: number > 0, "a whole number above 0")]
Scalar = Annotated[Any, checked(_number_or_text, "a number or a one-line string")]
ScalarWord = Annotated[Scalar, checked(lambda value: not re.search(r"\s|^$", str(value)), "one word without spaces")]
Sha256 = Annotated[str, checked(re.compile(r"[0-9a-f]{64}").fullmatch, "64 lower-case hexadecimal digits")]
Pattern = Annotated[str, AfterValidator(_pattern)]
PerSize = Annotated[dict[str, Positive], AfterValidator(every_size)]
Command = Annotated[tuple[Word, ...], checked(bool, "at least one word")]
Package = Annotated[str, checked(re.compile(r"[a-z0-9][a-z0-9+.-]+").fullmatch, "a Debian package's name")]
Packages = Annotated[tuple[Package, ...], AfterValidator(no_repeat)]


class Spec(Strict):
    """What every file gives beside its own keys: the name (of the file or folder) and the path."""

    name: Name
    path: Path
    purpose: Sentence
