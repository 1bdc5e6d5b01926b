# SPDX-License-Identifier: MIT
"""Memory while idle, and modes of hugepages, for `abh allocators`. Nothing is built or run."""

from __future__ import annotations

from pathlib import Path

import pytest

from abh.compare import idle, modes
from abh.errors import AbhError

SAID = "in_use_kib: 230\nidle_1s_kib: 120\nidle_10s_kib: 110\n"


def test_what_the_load_says_is_read() -> None:
    assert idle.sample_of(SAID) == idle.Sample(230, 120, 110)


@pytest.mark.parametrize("said", ["", SAID.replace("idle_1s", "idle_2s"), SAID.replace("110", "n/a")])
def test_what_the_load_does_not_say_is_an_error(said: str) -> None:
    with pytest.raises(AbhError, match="cannot be read"):
        idle.sample_of(said)


def test_idle_memory_is_a_median_with_its_lowest_and_highest() -> None:
    own = [idle.Sample(230, 120, 110), idle.Sample(250, 100, 90), idle.Sample(240, 110, 130)]
    (line,) = idle.summarize("always", {"stock": own})
    assert line == idle.Line("stock", "always", 3, 240, 110, 110, 90, 130)


def test_the_mode_is_set_back_after_an_error(tmp_path: Path) -> None:
    enabled = tmp_path / "enabled"
    enabled.write_text("always [madvise] never\n")
    with pytest.raises(AbhError, match="stop"), modes.thp_mode_set(enabled, "always"):
        assert enabled.read_text() == "always"
        raise AbhError("stop")
    assert enabled.read_text() == "madvise"


def test_the_mode_that_is_set_is_left_alone(tmp_path: Path) -> None:
    enabled = tmp_path / "enabled"
    enabled.write_text("[always] madvise never\n")
    with modes.thp_mode_set(enabled, "always"):
        assert enabled.read_text() == "[always] madvise never\n"
    assert enabled.read_text() == "[always] madvise never\n"


def test_who_may_not_set_the_mode_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enabled = tmp_path / "enabled"
    enabled.write_text("always [madvise] never\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(AbhError, match="cannot be set to always"), modes.thp_mode_set(enabled, "always"):
        pass
