# SPDX-License-Identifier: MIT
"""What several tests of the engine need: a cache of their own and programs that only pretend."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Machines are noisy: how long an example takes is no finding.
settings.register_profile("abh", deadline=None)
settings.load_profile("abh")

# A shell that starts the tests in the background has them ignore SIGINT, nohup SIGHUP, and so would every command
# they start: tests of interruptions need both as they are at a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# make tells its children that they are run by make; one of a test's own would say more because of it.
for word in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"):
    os.environ.pop(word, None)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("ABH_CACHE", str(folder))
    return folder


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Puts a Python program of that name in front of PATH."""
    folder = tmp_path / "stubs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def make(name: str, text: str) -> Path:
        path = folder / name
        path.write_text(f"#!{sys.executable}\n{text}")
        path.chmod(0o755)
        return path

    return make
