# SPDX-License-Identifier: MIT
"""What has become of each VM's hugepages since the last look at them, which the user's cache keeps for the next."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from abh import files, paths
from abh.errors import AbhError
from abh.policy.evidence import Shares

NAMES = ("both_kib", "host_huge_kib")  # the first that both looks have seen


@dataclass(frozen=True)
class Look:
    """What was seen, by UUID, and when; of none, nothing."""

    when: str = ""
    kib: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)

    def change_kib(self, uuid: str, now: Shares) -> int | None:
        """By how much the hugepages of guest and host at once have grown, or, where that is not known, the host's."""
        for name in NAMES:
            was, is_ = self.kib.get(uuid, {}).get(name), getattr(now, name)
            if was is not None and is_ is not None:
                return int(is_ - was)
        return None


def of(seen: Iterable[tuple[str, Shares]]) -> Look:
    """A look at this moment."""
    when = datetime.datetime.now().astimezone().isoformat(" ", timespec="seconds")
    return Look(when, {uuid: {name: getattr(shares, name) for name in NAMES} for uuid, shares in seen})


def _path_of(uri: str) -> Path:
    return paths.cache() / "status" / f"{hashlib.sha256(uri.encode()).hexdigest()[:16]}.json"


def last(uri: str) -> Look:
    """The last look at a connection's VMs; of none where there is none, or what is there is no look."""
    try:
        found = json.loads(_path_of(uri).read_text(encoding="utf-8"))
        kib = {
            uuid: {name: int(each[name]) for name in NAMES if each.get(name) is not None}
            for uuid, each in found["kib"].items()
        }
        return Look(str(found["when"]), kib)
    except (AbhError, OSError, ValueError, OverflowError, KeyError, TypeError, AttributeError):
        return Look()


def keep(uri: str, look: Look) -> None:
    """For the next look. Where there is no cache to keep it in, that one has no trend, and no more is lost."""
    with contextlib.suppress(AbhError):
        files.write_text(_path_of(uri), json.dumps({"when": look.when, "kib": look.kib}))
