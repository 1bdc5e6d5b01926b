# SPDX-License-Identifier: MIT
"""Files that appear whole or not at all."""

from __future__ import annotations

import os

from abh import files


def test_a_link_put_under_the_name_meanwhile_changes_no_other_file(tmp_path, monkeypatch):
    other, target = tmp_path / "other", tmp_path / "folder" / "target"
    other.write_text("secret\n")
    other.chmod(0o600)
    target.parent.mkdir()
    opened = os.fdopen

    def swapped(handle, *words, **more):
        (made,) = target.parent.iterdir()
        made.unlink()
        made.symlink_to(other)
        return opened(handle, *words, **more)

    monkeypatch.setattr(os, "fdopen", swapped)
    files.write_text(target, "text\n")
    assert other.stat().st_mode & 0o777 == 0o600 and other.read_text() == "secret\n"


def test_a_written_file_can_be_read_by_all(tmp_path):
    files.write_text(tmp_path / "target", "text\n")
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o644
