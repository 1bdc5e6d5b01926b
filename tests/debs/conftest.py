# SPDX-License-Identifier: MIT
"""The packages, as `make debs` makes them."""

from __future__ import annotations

import pytest

from abh import cli, paths
from abh.build import debs
from abh.commands import debs as command
from abh.schema import package


@pytest.fixture(scope="session")
def made():
    """Name to package."""
    names = package.PACKAGE.paths(paths.CHECKOUT)
    return {name: debs.path_of(name, cli.version(), command._generated() if name == "abh" else None) for name in names}
