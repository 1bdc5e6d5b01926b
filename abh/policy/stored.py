# SPDX-License-Identifier: MIT
"""A policy as text that travels with a domain: the whole of it, whatever files it extended."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from abh.errors import AbhError
from abh.schema.policy import Policy
from abh.schema.strict import KEBAB, read_toml_text, validate

LEFT_OUT = {"name", "path", "extends"}  # of a file, not of what it says


def text_of(policy: Policy) -> str:
    """The policy as TOML, complete: reading it gives the same settings."""
    told = policy.model_dump(exclude=LEFT_OUT, exclude_defaults=True, mode="json")
    return "".join(f"{line}\n" for line in _lines(told, ()))


def policy_of(text: str, name: str, domain: str) -> Policy:
    """The policy in such a text, of the metadata of a domain."""
    where = f"the policy of domain {domain!r}"
    if not KEBAB.fullmatch(name):
        raise AbhError("the policy of a domain has an ill-formed name", where=where, got=repr(name))
    path = Path(where)
    return validate(Policy, read_toml_text(path, text), path, {"name": name, "path": path}).checked()


def _lines(table: Mapping[str, Any], above: tuple[str, ...]) -> list[str]:
    """The values of a table, then its own tables, each under its heading."""
    values = [f"{_key(key)} = {_value(value)}" for key, value in table.items() if not isinstance(value, dict)]
    heading = [f"[{'.'.join(map(_key, above))}]"] if above and values else []
    inner = [line for key, value in table.items() if isinstance(value, dict) for line in _lines(value, (*above, key))]
    return heading + values + inner


def _key(key: str) -> str:
    return key if key.replace("_", "").isalnum() and key.isascii() else _value(key)


def _value(value: object) -> str:
    """JSON writes strings, numbers, truths and arrays of them as TOML reads them, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def same(one: str, other: str) -> bool:
    """Whether two such texts say the same."""
    return tomllib.loads(one) == tomllib.loads(other)
