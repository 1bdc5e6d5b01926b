# SPDX-License-Identifier: MIT
"""Where a policy for a VM is looked for: a file, its host's own, the project's."""

from __future__ import annotations

import json

import pytest

from abh import cli
from abh.errors import Status
from abh.schema import spec

HEAD = 'purpose = "Mine."\norder = 1\n'


@pytest.fixture
def own(tmp_path, monkeypatch):
    folder = tmp_path / "etc"
    folder.mkdir()
    monkeypatch.setattr(spec, "HOSTS_POLICIES", folder)
    return folder


def settings(capsys, word: str) -> dict[str, object]:
    for words in (("set", "test", word), ("get", "test", "--json")):
        capsys.readouterr()
        assert cli.main(["policy", *words, "--connect", URI]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)["settings"]


URI = "test:///default"


def test_a_policy_is_a_file_or_a_name_of_the_hosts_own_or_the_projects(own, tmp_path, monkeypatch, capsys):
    from abh.policy import binding

    (tmp_path / "mine.toml").write_text(f"{HEAD}[vm]\nksm = true\n")
    (own / "ours.toml").write_text(f'{HEAD}extends = "vm-thp"\n[vm]\nksm = true\n')
    (own / "vm-hugetlb.toml").write_text(f"{HEAD}[vm]\nksm = false\n")
    monkeypatch.chdir(tmp_path)
    with binding.connection(URI):  # the driver's state is the process's, as long as one is open
        for word in ("mine.toml", "./mine.toml", str(tmp_path / "mine.toml")):
            assert settings(capsys, word) == {"ksm": True}
        assert settings(capsys, "vm-hugetlb") == {"ksm": False}, "the host's own comes first"
        assert settings(capsys, "ours") == spec.policy("vm-thp").settings() | {"ksm": True}
        assert settings(capsys, "vm-thp") == spec.policy("vm-thp").settings()
        assert cli.main(["policy", "set", "test", "mine", "--connect", URI]) == Status.USAGE
        assert "one of ours, vm-hugetlb, " in capsys.readouterr().err
        cli.main(["policy", "unset", "test", "--connect", URI])
