# SPDX-License-Identifier: MIT
"""What the tests that compile or run something in the build root need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from abh.build import root


@pytest.fixture(scope="session")
def in_build_root() -> Callable[[Path, Path], list[str]]:
    """The command prefix that runs what follows in the build root, in the first folder (/src); the second is /out.

    A machine need not have a compiler, so all use that one. What is to run on the machine itself is built static.
    """
    made = root.path_of("build")  # at once: later, a test may have a cache or a checkout of its own

    def prefix(source: Path, out: Path) -> list[str]:
        return root.enter(made, read_only={"/src": source}, writable={"/out": out}, chdir="/src")

    return prefix
