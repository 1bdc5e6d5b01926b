# SPDX-License-Identifier: MIT
"""What `--machine local` refuses, and why; guests are booted in tests/boot."""

import pytest

from abh import cli
from abh.commands import run
from abh.errors import AbhError, Status
from abh.study import cell, local


@pytest.fixture
def kvm(tmp_path, monkeypatch):
    """Says what the machine's KVM modules say."""

    def says(**parameters):
        paths = []
        for name, text in parameters.items():
            paths.append(tmp_path / name)
            paths[-1].write_text(f"{text}\n")
        monkeypatch.setattr(local, "PAGING", paths)

    says()
    return says


def one(environment):
    return cell.Cell.of(f"sqlite@{environment}~thp", "smoke")


def test_without_a_device_it_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "DEVICE", tmp_path / "kvm")
    local.why_not.cache_clear()
    with pytest.raises(AbhError, match="own hypervisor can't be used") as caught:
        local.check()
    local.why_not.cache_clear()
    assert "there is no" in str(caught.value) and "--machine local" in str(caught.value)


@pytest.mark.parametrize("environment", ["native", "xen-hap", "xen-shadow", "xen-pv"])
def test_only_kvm_is_used(environment, kvm):
    assert "here only KVM" in local.skipped(one(environment))


@pytest.mark.parametrize(
    ("parameters", "runs"),
    [({"npt": "1"}, "kvm-hap"), ({"npt": "0"}, "kvm-shadow"), ({"ept": "Y"}, "kvm-hap"), ({"ept": "N"}, "kvm-shadow")],
)
def test_the_machines_own_paging_decides(parameters, runs, kvm):
    kvm(**parameters)
    for environment in ("kvm-hap", "kvm-shadow"):
        assert (local.skipped(one(environment)) is None) == (environment == runs)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "matrix@itanium~sf-lp"],
        ["study", "--group", "itanium"],
        ["study", "--group", "itanium", "--repeats", "3", "--through", "ssh there"],
    ],
)
def test_cells_of_the_itanium_machine_are_refused_before_a_probe(words, monkeypatch, capsys):
    monkeypatch.setattr(local, "why_not", lambda: pytest.fail("probed"))
    assert cli.main([*words, "--machine", "local"]) == Status.USAGE
    err = capsys.readouterr().err
    assert "the Itanium machine is emulated" in err and "@itanium~" in err
    assert "next: leave --machine local out" in err


def test_a_refused_machine_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(local, "why_not", lambda: "it hangs")
    args = cli.parse(["run", "sqlite@kvm-hap~thp", "--results", str(tmp_path), "--machine", "local"])
    with pytest.raises(AbhError, match="own hypervisor"):
        run.run(args)
    assert list(tmp_path.iterdir()) == []
