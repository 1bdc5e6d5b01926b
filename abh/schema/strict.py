# SPDX-License-Identifier: MIT
"""Strict parsing: every problem in a TOML or JSON file becomes one AbhError with the file and the key."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from abh.errors import AbhError

KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MOST_BYTES = 64 << 20  # of a file: the largest of ours have some hundred KiB
FEW = 12  # names that an error lists beside a guess; arbitrary: about two lines
SNAKE = re.compile(r"[a-z][a-z0-9_]*")

# What a pydantic error type asks for, in the words of a person writing TOML or JSON.
_EXPECTED = {
    "string_type": "a string",
    "string_sub_type": "a string",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "an array",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_MOST_TELLING = ("extra_forbidden", "missing")  # a misspelt key is both: name the misspelling first


class Strict(BaseModel):
    """Base of every parsed object: no unknown key, no conversion between types, no change after loading."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


Model = TypeVar("Model", bound=BaseModel)


def bad(
    what: str, *, key: str = "", got: object = None, expected: object = None, next_step: str | None = None
) -> PydanticCustomError:
    """The error a validator raises; `key` is the rest of the key path below the place being validated."""
    return PydanticCustomError(
        "abh", "{what}", {"what": what, "key": key, "got": got, "expected": expected, "next_step": next_step}
    )


def suggest(got: str, names: Iterable[str], *, nearness: float = 0.6) -> str | None:
    """The name a person probably meant, or None: a number is not misspelt, and is as near to one as to another. Names
    that are alike have a nearness of 1 (difflib)."""
    known = [] if got.isdecimal() else list(names)
    lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(got.lower(), lower, n=1, cutoff=nearness)
    return lower[close[0]] if close else None


def kebab(name: str) -> str:
    """The nearest well-formed name, to suggest."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "my-name"


def one_of(got: str, names: Collection[str]) -> str:
    """What is expected in place of a name: all that there are, unless they are many and one of them is near."""
    if len(names) > FEW and (near := suggest(got, names)):
        return f"one of {len(names)} names; the nearest is {near}"
    return "one of " + ", ".join(names) if names else "(there are none)"


def did_you_mean(got: str, names: Iterable[str], otherwise: str) -> str:
    """A next step: the nearest name if there is one, else the given sentence."""
    near = suggest(got, names)
    return f"did you mean `{near}`?" if near else otherwise


def read_toml(path: Path) -> dict[str, Any]:
    """The file as a table, its arrays as tuples; AbhError names the line of a syntax error."""
    return read_toml_text(path, _read_text(path))


def read_toml_text(path: Path, text: str) -> dict[str, Any]:
    """The same of a text that is in no file; the path says in an error where it is."""
    try:
        table: dict[str, Any] = _frozen(tomllib.loads(text))
        return table
    except RecursionError:
        raise AbhError("the TOML is nested too deeply", where=path, next_step="flatten the file") from None
    except ValueError as error:
        raise _syntax_error(path, text, str(error)) from None


def read_json(path: Path) -> dict[str, Any]:
    """The file as a JSON object; NaN, Infinity and repeated keys are refused."""

    def constant(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(items)
        if len(table) != len(items):
            raise ValueError(f"repeated key in the object with keys {', '.join(key for key, _ in items)}")
        return table

    try:
        data = json.loads(_read_text(path), parse_constant=constant, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise AbhError("not a valid JSON file", where=path, got=error, next_step="delete it and run again") from None
    if not isinstance(data, dict):
        raise AbhError("not a JSON object", where=path, got=show(data), next_step="delete it and run again")
    return data


def validate(model: type[Model], data: dict[str, Any], path: Path, injected: dict[str, Any] | None = None) -> Model:
    """Build the model from a file's table. `injected` fields come from the caller; the file may not set them."""
    extra = injected or {}
    allowed = [name for name in model.model_fields if name not in extra]
    for name in extra:
        if name in data:
            raise _unknown_key(path, name, data[name], allowed)
    try:
        return model.model_validate({**data, **extra})
    except ValidationError as error:
        raise _translate(error, model, path, set(extra)) from None


def show(value: object) -> str:
    """A value as its author wrote it, shortened."""
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, tuple):
        text = "[" + ", ".join(show(item) for item in value) + "]"
    elif isinstance(value, dict):
        text = "{" + ", ".join(f"{key} = {show(item)}" for key, item in value.items()) + "}"
    else:
        text = str(value)
    return text if len(text) <= 120 else text[:117] + "..."


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:  # some files have no end, /dev/zero for one
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise AbhError(
                "the file is too large",
                where=path,
                got=f"more than {MOST_BYTES >> 20} MiB",
                expected=f"at most {MOST_BYTES >> 20} MiB",
                next_step="check the path",
            )
        return data.decode("utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise AbhError("cannot read the file", where=path, got=error.strerror, next_step="check the path") from None
    except UnicodeDecodeError as error:
        raise AbhError("the file is not UTF-8", where=path, got=error, next_step="save it as UTF-8") from None


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value


def _syntax_error(path: Path, text: str, message: str) -> AbhError:
    lines = text.split("\n")
    at = re.search(r"at line (\d+)", message)
    number = int(at.group(1)) if at else len(lines)
    twice = re.search(r"overwrite|redefine|twice|[Dd]uplicate|mutate", message) is not None
    return AbhError(
        "duplicate key in the TOML" if twice else "TOML syntax error",
        where=f"{path}:{number}",
        got=lines[number - 1].strip() or "(empty line)",
        expected=message,
        next_step="keep one of the two definitions" if twice else "correct the line",
    )


def _fields_at(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    """The keys allowed in the table at `loc`, for suggestions."""
    here: Any = model
    for step in loc:
        if isinstance(here, type) and issubclass(here, BaseModel) and step in here.model_fields:
            here = here.model_fields[step].annotation
        else:  # an entry of dict[str, X], or of tuple[X, ...]
            here = ([each for each in get_args(here) if each is not ...] or [None])[-1]
        options = [arg for arg in get_args(here) if isinstance(arg, type) and issubclass(arg, BaseModel)]
        if type(None) in get_args(here) and options:  # X | None
            here = options[0]
    return list(here.model_fields) if isinstance(here, type) and issubclass(here, BaseModel) else []


def _unknown_key(path: Path, key: str, value: object, allowed: list[str]) -> AbhError:
    return AbhError(
        f"unknown key `{key}`",
        where=f"{path}, key {key}",
        got=f"{key.rsplit('.', 1)[-1]} = {show(value)}",
        expected="one of " + ", ".join(allowed),
        next_step=did_you_mean(key.rsplit(".", 1)[-1], allowed, "remove the key"),
    )


def _translate(error: ValidationError, model: type[BaseModel], path: Path, hidden: set[str]) -> AbhError:
    problems = sorted(
        error.errors(include_url=False),
        key=lambda each: _MOST_TELLING.index(each["type"]) if each["type"] in _MOST_TELLING else 2,
    )
    main = _one(problems[0], model, path, hidden)
    if len(problems) > 1:
        others = ", ".join(str(_one(each, model, path, hidden).what) for each in problems[1:6])
        main.next_step = f"{main.next_step}; then {len(problems) - 1} more here: {others}"
    return main


def _one(problem: Any, model: type[BaseModel], path: Path, hidden: set[str]) -> AbhError:
    loc = tuple(step for step in problem["loc"] if step != "[key]")
    key = ".".join(str(step) for step in loc)
    got, kind, context = problem.get("input"), problem["type"], problem.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(path, key, got, [name for name in _fields_at(model, loc[:-1]) if name not in hidden])
    if kind == "missing":
        return AbhError(f"missing key `{key}`", where=f"{path}, key {key}", next_step=f"add `{key} = …`")
    if kind == "abh":
        key = ".".join(part for part in (key, context["key"]) if part)
        got = context["got"] if context["got"] is not None else got
        named = f"`{key}`: " if key else ""
        return AbhError(
            named + context["what"],
            where=f"{path}, key {key}" if key else path,
            got=None if isinstance(got, BaseModel) or (not key and isinstance(got, dict)) else show(got),
            expected=context["expected"],
            next_step=context["next_step"] or "correct the file",
        )
    if kind == "literal_error":
        choices = [each.strip("'") for each in re.split(r", | or ", context["expected"])]
        step = did_you_mean(str(got), choices, "use one of the expected values")
        return AbhError(
            f"`{key}`: not a known value",
            where=f"{path}, key {key}",
            got=show(got),
            expected="one of " + ", ".join(choices),
            next_step=step,
        )
    return AbhError(
        f"`{key}`: wrong {'type' if kind in _EXPECTED else 'value'}",
        where=f"{path}, key {key}",
        got=f"{show(got)} ({type(got).__name__})",
        expected=_EXPECTED.get(kind, problem["msg"]),
        next_step="correct the value",
    )
