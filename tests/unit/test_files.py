# SPDX-License-Identifier: MIT
"""Files that appear whole or not at all."""

from __future__ import annotations

import os

import pytest

from abh import cli, files
from abh.collect import around, vm
from abh.commands import explain
from abh.errors import AbhError
from abh.policy import binding, install


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


def test_a_place_that_cannot_be_written_names_no_option_that_the_command_may_not_have(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AbhError, match="a file cannot be written") as caught:
        files.write_text(tmp_path / "file" / "target", "text\n")
    assert "--" not in caught.value.next_step and "another place" in caught.value.next_step


@pytest.mark.parametrize("uid", [0, 1000])
def test_who_is_root_is_not_told_to_be_it(tmp_path, monkeypatch, uid):
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(around, "memory_of", lambda _: None)
    (tmp_path / "hooks").touch()
    with pytest.raises(AbhError, match="cannot be changed") as caught:
        install.install(tmp_path / "hooks")
    said = [caught.value.next_step, vm._of_memory(1)["host_memory_kib"].reason]
    with binding.connection("test:///default"), pytest.raises(AbhError, match="memory cannot be seen") as caught:
        explain.run(cli.parse(["explain", "test", "--connect", "test:///default"]))
    said.append(caught.value.next_step)
    assert all(("as root" in each) == bool(uid) for each in said), said


def test_a_written_file_can_be_read_by_all(tmp_path):
    files.write_text(tmp_path / "target", "text\n")
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o644
