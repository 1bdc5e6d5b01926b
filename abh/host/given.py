# SPDX-License-Identifier: MIT
"""The environment that this process was given, for programs that are to have it as it was."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ENVIRONMENT = Path("/proc/self/environ")


def environment() -> Mapping[bytes, bytes]:
    """Of a process that was given no locale, Python has set LC_CTYPE in its own."""
    if not ENVIRONMENT.exists():
        return os.environb
    given = ENVIRONMENT.read_bytes().split(b"\0")
    return dict(each.split(b"=", 1) for each in given if b"=" in each)
