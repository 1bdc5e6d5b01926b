# SPDX-License-Identifier: MIT
"""A study on a host that SSH, or Slurm, leads to. What `abh run` does there is a script's part: it needs a KVM."""

from __future__ import annotations

import pytest

from abh.errors import AbhError
from tests.unit.test_through import asked, results, run


@pytest.mark.parametrize("way", ["ssh", "srun"])
def test_a_study_runs_there(cluster, there, way):
    there.command = getattr(cluster, way)()
    assert run(there) == 0
    assert (there.folder / "ran-on").read_text() == "cluster\n"
    found = results(there)
    assert {each.values["elapsed"].runs for each in found.values()} == {2} and len(found) == 3
    assert ["abh", "run", "sqlite@kvm-hap~abh", "--size", "smoke", "--machine", "local", "--json"] in asked(there)


@pytest.mark.parametrize("way", ["ssh", "srun"])
def test_the_status_there_is_the_outcome_here(cluster, there, way):
    there.command = getattr(cluster, way)()
    there(4, outcome="failure", reason="a wrong answer")
    assert run(there) == 1
    assert {each.outcome for each in results(there).values()} == {"failure"}


def test_a_host_that_goes_away_costs_its_runs_and_no_others(cluster, there):
    there.command = cluster.ssh()
    assert run(there, "--policy", "reg") == 0
    before = len(asked(there))
    cluster.stop("/usr/sbin/sshd")
    with pytest.raises(AbhError, match="does not lead to this version") as error:
        run(there, "--repeats", "3")
    assert "Connection refused" in str(error.value)
    cluster.ssh()
    assert run(there, "--repeats", "3") == 0
    assert len(asked(there)) == before + 1 + 3  # of each cell the one run that is new
    assert {each.values["elapsed"].runs for each in results(there).values()} == {3}
