# SPDX-License-Identifier: MIT
"""What a patch says of itself: its DEP-3 header, the files it touches, and the licence of those it adds."""

from __future__ import annotations

import datetime
import email.utils
import re
from dataclasses import dataclass

FIELD = re.compile(r"([A-Z][A-Za-z-]*):[ \t]*(.*)")
START_OF_DIFF = re.compile(r"(?m)^(?:---$|---[ \t]\S|diff --git |Index: )")
FILE_LINES = re.compile(r"(?m)^--- ([^\t\n]+).*\n\+\+\+ ([^\t\n]+).*\n(?=@@ -)")
RENAMED = re.compile(r"(?m)^(?:rename|copy) (?:from|to) (.+)$")
SPDX = re.compile(r"SPDX-License-Identifier:[ \t]*([A-Za-z0-9.+-]+(?: (?:OR|AND|WITH) [A-Za-z0-9.+-]+)*)")
FORWARDED = re.compile(r"no|not-needed|yes|https?://\S+|<?\S+@\S+>?")
SIGNED = re.compile(r"\S.* <[^<>\s]+@[^<>\s]+>")
LEFT_BEHIND = (".orig", ".rej")

# Each line: one of these fields must be there, with a value.
NEEDED = (
    ("Description", "Subject"),
    ("Origin", "Author", "From"),
    ("Forwarded",),
    ("Last-Update", "Date"),
    ("Signed-off-by",),
)


@dataclass(frozen=True)
class Change:
    """One file in a patch."""

    path: str
    added: bool
    body: str


def header(text: str) -> str:
    """What comes before the diff, without git's own `---` and summary."""
    start = START_OF_DIFF.search(text)
    return text[: start.start()] if start else text


def fields(text: str) -> dict[str, list[str]]:
    """The fields of the header, with their values in order; continuation lines are joined."""
    found: dict[str, list[str]] = {}
    values: list[str] | None = None
    for line in header(text).splitlines():
        match = FIELD.fullmatch(line)
        if match:
            values = found.setdefault(match[1], [])
            values.append(match[2].strip())
        elif values and line.startswith((" ", "\t")):
            values[-1] = f"{values[-1]} {line.strip()}".strip()
        else:
            values = None
    return found


def changes(text: str) -> list[Change]:
    """The files that a patch changes by hunks."""
    found = list(FILE_LINES.finditer(text))
    ends = [*(match.start() for match in found), len(text)][1:]
    return [
        Change(_strip(new if new != "/dev/null" else old), old == "/dev/null", text[match.end() : end])
        for match, end in zip(found, ends, strict=True)
        for old, new in [match.groups()]
    ]


def touched(text: str) -> set[str]:
    """Every path that a patch reads or writes, without the first component (as `patch -p1`)."""
    both = {_strip(name) for match in FILE_LINES.finditer(text) for name in match.groups() if name != "/dev/null"}
    return both | set(RENAMED.findall(text))


def _strip(name: str) -> str:
    return name.partition("/")[2]


def _is_day(value: str) -> bool:
    try:
        return datetime.date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _is_mail_date(value: str) -> bool:
    try:
        email.utils.parsedate_to_datetime(value)
    except ValueError:
        return False
    return True


def updated(text: str) -> datetime.date | None:
    """The newest day that its header names; None if it names none."""
    have = fields(text)
    days = [datetime.date.fromisoformat(each) for each in have.get("Last-Update", []) if _is_day(each)]
    mails = [email.utils.parsedate_to_datetime(each) for each in have.get("Date", []) if _is_mail_date(each)]
    days += [(each.astimezone(datetime.UTC) if each.tzinfo else each).date() for each in mails]
    return max(days, default=None)


# What a field's value must be, where that can be told.
CHECKS = (
    ("Forwarded", FORWARDED.fullmatch, "one of no, not-needed, yes, nor an address"),
    ("Signed-off-by", SIGNED.fullmatch, "a name and an address, Name <who@where>"),
    ("Last-Update", _is_day, "a date like 2026-01-31"),
    ("Date", _is_mail_date, "a date as in mail"),
)


def problems(text: str) -> list[str]:
    """Everything that is wrong with what a patch says of itself."""
    have = fields(text)
    found = [
        f"no {' or '.join(names)} in its header" for names in NEEDED if not any(any(have.get(n, [])) for n in names)
    ]
    found += [
        f"{name}: {value!r}: not {what}"
        for name, is_good, what in CHECKS
        for value in have.get(name, [])
        if value and not is_good(value)
    ]
    if "GIT binary patch" in text:
        found.append("holds a binary change, which patch cannot apply")
    if not changes(text) and not RENAMED.search(text):
        found.append("changes nothing")
    found += [
        f"changes {path}, which a patch program left behind: another unpacking of the base has not got it"
        for path in sorted(touched(text))
        if path.endswith(LEFT_BEHIND)
    ]
    stated = SPDX.search(header(text))
    found += [
        f"adds {change.path} without a licence: neither the file nor the header has an SPDX-License-Identifier line"
        for change in changes(text)
        if change.added and not stated and not SPDX.search(change.body)
    ]
    return found
