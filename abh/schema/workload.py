# SPDX-License-Identifier: MIT
"""workload.toml as a typed object: its commands at each size, and the check of its output."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from abh.errors import AbhError, Status
from abh.schema.keys import (
    Command,
    EnvName,
    InsidePath,
    Line,
    Packages,
    Pattern,
    Positive,
    Scalar,
    Sentence,
    Sha256,
    SnakeName,
    Spec,
    Word,
    checked,
    known_sizes,
    no_size,
)
from abh.schema.result import Value, kind_of_unit
from abh.schema.strict import SNAKE, Strict, bad, did_you_mean


class Metric(Strict):
    """One number in a workload's output."""

    pattern: Pattern
    unit: Word
    better: Literal["higher", "lower"]

    def find(self, text: str) -> Value:
        """The number in the output, or an unknown value saying why."""
        kind = kind_of_unit(self.unit)
        found = {str(match) for match in re.findall(self.pattern, text, re.MULTILINE)}
        if len(found) != 1:
            many = f"the pattern matches {len(found)} different values in the output: {self.pattern}"
            none = f"no match in the output for: {self.pattern}"
            return Value.unknown(self.unit, kind, many if found else none)
        number = _number(word := found.pop())
        if number is None:
            return Value.unknown(self.unit, kind, f"not a finite number: {word[:80]!r}")
        return Value.of(number, self.unit, kind)


class Input(Strict):
    """A file made by a workload's build, and what it must contain."""

    file: InsidePath
    sha256: Sha256


class Workload(Spec):
    """workloads/<name>/workload.toml"""

    paper: Sentence
    counterpart: Sentence | None = None  # a row of the paper's Table 1
    build: tuple[Command, ...]
    argv: Command
    env: dict[EnvName, Line] = Field(default_factory=dict)
    seed: Annotated[int, checked(lambda number: number >= 0, "a whole number, 0 or more")]
    timeout_s: Positive
    answer: Pattern | None = None  # without one, only the exit status judges the run
    size: Annotated[dict[str, dict[SnakeName, Scalar]], AfterValidator(known_sizes)]
    input: dict[str, Input] = Field(default_factory=dict)
    metric: dict[SnakeName, Metric] = Field(default_factory=dict)
    packages: Packages = ()  # of Debian, in the guest
    build_packages: Packages = ()  # of Debian, where its build's commands run
    # Of so many runs a comparison takes the median: threads and collectors meet other memory in each.
    draws: Annotated[int, checked(lambda number: 1 <= number <= 99, "1 to 99")] = 1
    idle: bool = False  # what its first process leaves running is looked at again when it has had nothing to do

    @property
    def folder(self) -> Path:
        """Where the workload's source is."""
        return self.path.parent

    @property
    def group(self) -> str:
        """The folder it lies in below workloads/: "" for the study's own. Others run when asked for."""
        above = self.folder.parent.name
        return "" if above == "workloads" else above

    def parameters(self, size: str) -> dict[str, str]:
        """Every placeholder of argv at this size."""
        own = {key: str(value) for key, value in self._size(size).items() if key != "answer"}
        return {**own, "seed": str(self.seed), "size": size}

    def argv_for(self, size: str) -> list[str]:
        """The command at this size, placeholders filled in; a literal brace is written twice."""
        return [word.format_map(self.parameters(size)) for word in self.argv]

    def build_for(self, out: str) -> list[list[str]]:
        """The build's commands; only {out} is replaced, so shell and awk braces stay as they are."""
        return [[word.replace("{out}", out) for word in command] for command in self.build]

    def answer_for(self, size: str) -> str | None:
        """The answer the program must print at this size, if the workload has one."""
        return self._size(size).get("answer")

    def answers_in(self, text: str) -> list[str]:
        """What the answer's pattern finds in the output."""
        return re.findall(self.answer, _plain(text), re.MULTILINE) if self.answer is not None else []

    def check_output(self, size: str, text: str) -> tuple[bool, dict[str, Value]]:
        """Whether every answer printed (and at least one) is the expected one, and the metrics.

        A workload without `answer` is right whenever it exits with 0; the caller judges that.
        """
        expected, found = self.answer_for(size), self.answers_in(text)
        right = self.answer is None or (bool(found) and all(each == expected for each in found))
        return right, {name: metric.find(_plain(text)) for name, metric in self.metric.items()}

    def check_size(self, size: str) -> None:
        """Refuses a size that it does not have."""
        if size not in self.size:
            raise AbhError(
                f"{self.name} has no size {size}",
                where=f"workload {self.name}",
                got=size,
                expected=", ".join(self.size),
                next_step=did_you_mean(size, self.size, f"--size {next(iter(self.size))}"),
                status=Status.USAGE,
            )

    def _size(self, size: str) -> dict[str, Any]:
        self.check_size(size)
        return self.size[size]

    @model_validator(mode="after")
    def _of_the_study_at_every_size(self) -> Workload:
        if not self.group and (lost := no_size(self.size, "size.")):
            raise lost
        return self

    @model_validator(mode="after")
    def _answers_agree(self) -> Workload:
        for name, table in self.size.items():
            if self.answer is None and "answer" in table:
                raise bad(
                    "an answer is expected but the workload has no `answer` pattern",
                    key=f"size.{name}.answer",
                    got=table["answer"],
                    next_step="add `answer = '…(…)'`, or remove this key",
                )
            if self.answer is not None and not isinstance(table.get("answer"), str):
                raise bad(
                    "no answer expected at this size" if "answer" not in table else "wrong type",
                    key=f"size.{name}.answer",
                    got=table.get("answer", ""),
                    expected="a string",
                    next_step="run the program once, check its answer by hand, and write it here",
                )
        return self

    @model_validator(mode="after")
    def _placeholders_agree(self) -> Workload:
        used = {name for word in self.argv for name in _placeholders(word)}
        for size, table in self.size.items():
            own = set(table) - {"answer"}
            for name in sorted(own & {"seed", "size", "out"}):
                raise bad("this name is the bench's own", key=f"size.{size}.{name}", got=name, next_step="rename it")
            for name in sorted(used - own - {"seed", "size"}):
                raise bad(
                    f"placeholder {{{name}}} is not defined by size.{size}",
                    key="argv",
                    got=f"{{{name}}}",
                    expected="one of " + ", ".join(sorted(own | {"seed", "size"})),
                    next_step=did_you_mean(name, own, f"add `{name} = …` to size.{size}"),
                )
            for name in sorted(own - used):
                raise bad(
                    "no word of argv uses this parameter",
                    key=f"size.{size}.{name}",
                    got=table[name],
                    expected=f"{{{name}}} in argv",
                    next_step="use it in argv or remove it",
                )
        for index, command in enumerate(self.build):
            for name in re.findall(r"(?<!\$)\{(\w+)\}", " ".join(command)):
                if name != "out" and (name in used or name in ("seed", "size", "output", "Out", "OUT")):
                    raise bad(
                        f"placeholder {{{name}}} does not exist in build",
                        key=f"build.{index}",
                        got=f"{{{name}}}",
                        expected="{out}",
                        next_step="use {out}, or write the value",
                    )
        return self

    @model_validator(mode="after")
    def _inputs_and_names_agree(self) -> Workload:
        for name, each in self.input.items():
            if name not in self.size:
                raise bad(
                    "an input for a size that is not declared",
                    key=f"input.{name}",
                    got=each.file,
                    expected=f"one of {', '.join(self.size)}",
                    next_step=did_you_mean(name, self.size, "remove it"),
                )
        if "alloc_ratio" in self.metric:
            raise bad(
                "duplicate name: the bench reports a value of this name",
                key="metric.alloc_ratio",
                got="alloc_ratio",
                next_step="rename the metric",
            )
        return self


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")  # a serial console ends lines with both


def _number(word: str) -> int | float | None:
    if re.fullmatch(r"[+-]?[0-9]{1,4000}", word):
        return int(word)
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", word):
        return None
    number = float(word)
    return number if number - number == 0 else None


def _placeholders(word: str) -> list[str]:
    try:
        parts = list(string.Formatter().parse(word))
    except ValueError as error:
        raise bad(
            "unbalanced brace", key="argv", got=word, expected=str(error), next_step="write a literal brace twice"
        ) from None
    for _, name, style, conversion in parts:
        if name is not None and (not SNAKE.fullmatch(name) or style or conversion):
            raise bad(
                "ill-formed placeholder",
                key="argv",
                got=word,
                expected="{name}, in snake_case and nothing else",
                next_step="write a literal brace twice",
            )
    return [name for _, name, _, _ in parts if name is not None]
