# SPDX-License-Identifier: MIT
"""What is said where the roots are no longer those of the committed results."""

from __future__ import annotations

import json

import pytest
import test_report_matrix as matrix

from abh import cli
from abh.build import moved, root
from abh.errors import AbhError
from abh.schema import spec

OLD = {"gcc-14": "14.2.0-19", "libc6": "2.41-12", "python3": "3.13.5", "tzdata": "2025a", "zlib1g": "1.3"}


@pytest.fixture
def roots(own_cache, monkeypatch):
    """The roots' packages: to be changed by a test."""
    held = {"build": dict(OLD), "guest": dict(OLD)}
    monkeypatch.setattr(root, "contents", lambda name: root.Contents(dict(held[name])))
    monkeypatch.setattr(root, "path_of", lambda name: own_cache / name)
    return held


@pytest.fixture
def records(roots, tmp_path):
    """The records of the roots as they are at first."""
    moved.record({name: root.contents(name).digest for name in roots}, tmp_path)
    return tmp_path


def test_a_record_says_what_was_in_the_root(records):
    assert moved.read(records / "build.txt") == OLD
    assert (records / "build.txt").read_text().startswith("# SPDX-License-Identifier: MIT\n")


def test_the_same_roots_are_no_news(roots, records, capsys):
    moved.tell(["build", "guest"], records)
    assert capsys.readouterr().err == ""


def test_what_differs_is_told_with_what_matters_first(roots, records, own_cache, capsys):
    roots["build"] |= {"gcc-14": "14.2.0-20", "tzdata": "2025b", "aaa": "1", "libc6": "2.41-13"}
    roots["guest"] |= {"libc6": "2.41-13"}
    del roots["guest"]["zlib1g"]
    moved.tell(["build", "guest"], records)
    first, one, two, last = capsys.readouterr().err.splitlines()
    assert first == "abh: the mirror has moved on since the committed results: 5 packages differ, in build, guest"
    assert one == (
        "abh:   gcc-14 14.2.0-19 -> 14.2.0-20 (build); libc6 2.41-12 -> 2.41-13 (build, guest); "
        "zlib1g 1.3 -> absent (guest)"
    )
    assert two == "abh:   aaa absent -> 1 (build); tzdata 2025a -> 2025b (build)"
    full = own_cache / "logs" / moved.FULL
    assert str(full) in last and len(full.read_text().splitlines()) == 5


def test_however_much_differs_it_is_five_lines(roots, records, own_cache, capsys):
    roots["guest"] |= {f"package-{number}": "1" for number in range(100)}
    moved.tell(["build", "guest"], records)
    assert len(capsys.readouterr().err.splitlines()) == 5
    assert len((own_cache / "logs" / moved.FULL).read_text().splitlines()) == 100
    moved.tell(["build", "guest", "host"], records)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 5 and not any("host" in each for each in said)  # of which there is no record


@pytest.mark.parametrize("line", ["libc6", "libc6 1 2", "libc6 ", "tzdata 1", ""])
def test_a_record_that_is_spoilt_is_an_error(records, line):
    path = records / "guest.txt"
    path.write_text(f"tzdata 0\n{line}\n")
    with pytest.raises(AbhError, match="cannot be read") as caught:
        moved.tell(["guest"], records)
    assert caught.value.where == f"{path}:2" and caught.value.next_step


def test_roots_that_the_results_are_not_of_are_not_recorded(roots, tmp_path):
    digests = {name: root.contents(name).digest for name in roots}
    roots["guest"]["libc6"] = "2.41-13"
    with pytest.raises(AbhError, match="root 'guest' is not the one"):
        moved.record(digests, tmp_path / "records")
    assert not (tmp_path / "records").exists()


@pytest.fixture
def measured(roots, tmp_path, monkeypatch):
    """Results of the roots as they are: a function that writes one."""
    monkeypatch.setattr(moved, "RECORDS", tmp_path / "records")

    def write(policy):
        data = matrix.result("cc1", "kvm-hap", policy)
        data["provenance"]["roots"] = {name: root.contents(name).digest for name in roots}
        (tmp_path / f"{data['run']}.json").write_text(json.dumps(data))

    write("thp")
    return write


def report(folder):
    return cli.main(["report", "--results", str(folder), "--out", str(folder / "out"), "--record-roots"])


def test_the_report_records_the_roots_of_its_results(roots, measured, tmp_path, capsys):
    assert report(tmp_path) == 0
    assert moved.read(tmp_path / "records/guest.txt") == OLD
    assert "records/build.txt" in capsys.readouterr().out


def test_results_of_different_roots_are_not_recorded(roots, measured, tmp_path, capsys):
    roots["guest"]["libc6"] = "2.41-13"
    measured("reg")
    assert report(tmp_path) == 1
    assert "made with different roots 'guest'" in capsys.readouterr().err
    assert not (tmp_path / "records").exists()


def test_without_results_there_is_nothing_to_record():
    with pytest.raises(AbhError, match="there is no result"):
        moved.digests_of([])


@pytest.mark.parametrize(
    ("package", "rank"),
    [("gcc-14-base", 0), ("g++-14", 0), ("rustc", 0), ("libc6-dev", 1), ("libvirt0", 2), ("qemu-system-x86", 3)]
    + [("seabios", 3), ("libxenmisc4.20", 4), ("xen-utils-4.20", 4), ("xalan", 5), ("libcap2", 6), ("gccgo", 6)],
)
def test_what_matters_is_known_by_name(package, rank):
    assert moved._rank(moved.Change(package, "1", "2"), ["guest"], spec.roots())[0] == rank
