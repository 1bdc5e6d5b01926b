# SPDX-License-Identifier: MIT
"""Debian roots: how one is made and entered, with programs that only pretend."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from abh.build import root
from abh.errors import AbhError
from abh.schema import spec

# Writes a tar of a tree with etc/apt/sources.list, and what it was asked.
MMDEBSTRAP = """
import io, os, sys, tarfile
from pathlib import Path
Path(os.environ["ASKED"]).write_text("\\n".join(sys.argv[1:]))
print("I: downloading", file=sys.stderr)
if os.environ.get("BROKEN") == "name":
    sys.exit("E: Unable to locate package jqq")
if os.environ.get("BROKEN") == "early":
    sys.exit("E: unable to resolve host")
STATUS = '''Package: dash
Status: install ok installed
Version: 0.5

Package: bash
Status: install ok installed
Version: 5.2-REVISION

Package: gone
Status: deinstall ok config-files
Version: 1
'''.replace("REVISION", os.environ.get("REVISION", "1"))
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as tar:
    for name, text in {
        "etc/apt/sources.list": "deb http://HOST/debian trixie main\\n#deb x\\n",
        "var/lib/dpkg/status": STATUS,
        "dev/odd": "",
    }.items():
        entry = tarfile.TarInfo("./" + name)
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text.encode()))
    folder = tarfile.TarInfo("./etc/apt/sources.list.d")
    folder.type, folder.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(folder)
if os.environ.get("BROKEN") == "late":
    sys.exit("E: unable to resolve host")
"""


@pytest.fixture
def mmdebstrap(own_cache, stub, tmp_path, monkeypatch) -> Path:
    stub("mmdebstrap", MMDEBSTRAP)
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    monkeypatch.setattr(root.cache, "_free_mib", lambda _: 1 << 20)
    return tmp_path / "asked"


def test_a_root_is_made_once_with_its_packages_and_source_lists(mmdebstrap):
    made = root.path_of("guest")
    assert (made / "etc/apt/sources.list.d/sources.list").read_text() == "deb-src http://HOST/debian trixie main\n"
    assert not (made / "dev/odd").exists(), "device nodes cannot be made without root"
    assert all((made / folder).is_dir() for folder in ("src", "out", "obj", "main", "cache", "in"))
    words = mmdebstrap.read_text().splitlines()
    wanted = spec.roots()["guest"]
    assert words[-2:] == [wanted.suite, "-"]
    assert f"--include={','.join(wanted.packages)}" in words
    assert f"--mode={'root' if os.geteuid() == 0 else 'unshare'}" in words
    mmdebstrap.unlink()
    assert root.path_of("guest") == made
    assert not mmdebstrap.exists()


@pytest.mark.parametrize("when", ["early", "late"])
def test_a_root_that_cannot_be_made_says_why_and_leaves_nothing(mmdebstrap, own_cache, monkeypatch, when):
    monkeypatch.setenv("BROKEN", when)
    with pytest.raises(AbhError, match="the Debian root 'guest' could not be made") as caught:
        root.path_of("guest")
    assert "unable to resolve host" in str(caught.value)
    assert "abh doctor" in caught.value.next_step
    assert list((own_cache / "roots").iterdir()) == []


def test_another_package_is_another_root(mmdebstrap, monkeypatch):
    first = root.path_of("guest")
    roots = spec.roots()
    more = roots["guest"].model_copy(update={"packages": (*roots["guest"].packages, "more")})
    monkeypatch.setattr(root.spec, "roots", lambda: {"guest": more})
    assert root.path_of("guest") != first


def test_a_root_that_has_no_more_than_the_one_it_extends_is_not_made(mmdebstrap, monkeypatch):
    base = spec.roots()["build"]
    same = base.model_copy(update={"name": "workloads", "extends": "build", "packages": base.packages})
    monkeypatch.setattr(root.spec, "roots", lambda: {"build": base, "workloads": same})
    built = root.path_of("build")
    assert root.path_of("workloads") == built
    more = same.model_copy(update={"packages": (*base.packages, "libmore-dev")})
    monkeypatch.setattr(root.spec, "roots", lambda: {"build": base, "workloads": more})
    assert root.path_of("workloads") != built == root.path_of("build")
    assert "libmore-dev" in mmdebstrap.read_text()


def pairs(words: list[str], option: str) -> list[tuple[str, str]]:
    return [(words[at + 1], words[at + 2]) for at, word in enumerate(words) if word == option]


def test_entering_shares_nothing_that_was_not_asked_for():
    words = root.enter(Path("/r"), read_only={"/in/a": Path("/a")}, writable={"/out": Path("/o")}, env={"A": "b c"})
    assert words[0] == "bwrap"
    assert pairs(words, "--ro-bind") == [("/r", "/"), ("/a", "/in/a")]
    assert pairs(words, "--bind") == [("/o", "/out")]
    assert {"--die-with-parent", "--clearenv", "--unshare-net", "--unshare-pid"} <= set(words)
    assert dict(pairs(words, "--setenv")) == {**root.ENVIRONMENT, "A": "b c"}
    assert ("--unshare-user" in words) == (os.geteuid() != 0)


def test_scratch_stands_before_what_is_bound_into_it():
    words = root.enter(Path("/r"), read_only={"/in/a": Path("/a")}, scratch="/in")
    assert words.index("--tmpfs", words.index("/in") - 1) < words.index("/in/a")
    words = root.enter(Path("/r"), read_only={"/in/a": Path("/a")}, scratch="/in /main")
    assert [words[at + 1] for at, word in enumerate(words) if word == "--tmpfs"] == ["/tmp", "/in", "/main"]


def test_the_network_brings_its_proxy_and_resolver(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy:1")
    monkeypatch.delenv("http_proxy", raising=False)
    words = root.enter(Path("/r"), network=True, root_writable=True)
    assert "--unshare-net" not in words
    assert ("https_proxy", "http://proxy:1") in pairs(words, "--setenv")
    assert "http_proxy" not in dict(pairs(words, "--setenv"))
    assert pairs(words, "--bind") == [("/r", "/")]


def test_a_command_that_works_leaves_its_output_in_the_log(tmp_path):
    log = tmp_path / "log"
    root.run(["env", "A=b"], ["sh", "-c", "echo $A; echo err >&2"], log=log, what="testing")
    assert log.read_text() == "$ sh -c 'echo $A; echo err >&2'\nb\nerr\n"


def test_what_is_made_has_the_same_rights_whatever_the_users_umask(mmdebstrap, tmp_path):
    before = os.umask(0o077)
    try:
        made = root.path_of("guest")
        root.run([], ["sh", "-c", "umask"], log=tmp_path / "log", what="testing")
    finally:
        os.umask(before)
    assert (tmp_path / "log").read_text().splitlines()[-1] == "0022"
    folders = [made, *(made / each for each in (*root.MOUNT_POINTS, "etc/apt/sources.list.d"))]
    assert {oct(path.stat().st_mode & 0o777) for path in folders} == {"0o755"}


def test_a_command_that_fails_shows_the_end_of_its_log(tmp_path):
    command = ["sh", "-c", "seq 100; exit 7"]
    with pytest.raises(AbhError, match="testing failed") as caught:
        root.run([], command, log=tmp_path / "log", what="testing")
    assert (caught.value.got, caught.value.where) == ("exit status 7", shlex.join(command))
    assert str(caught.value.tail).splitlines() == [str(number) for number in range(76, 101)]


def test_a_command_that_hangs_is_ended(tmp_path):
    with pytest.raises(AbhError, match="testing failed") as caught:
        root.run([], ["sleep", "1000"], log=tmp_path / "log", what="testing", timeout_s=0.2)
    assert "still running after" in str(caught.value.got)


@pytest.mark.parametrize(("text", "tail"), [("a\nb\nc\n", "b\nc"), ("", ""), ("\udcff", "\ufffd")])
def test_the_tail_of_a_log(tmp_path, text, tail):
    log = tmp_path / "log"
    log.write_bytes(text.encode(errors="surrogateescape"))
    assert root.tail_of(log, 2) == tail
    assert root.tail_of(tmp_path / "none") == ""


def test_a_package_that_debian_has_not_is_named(mmdebstrap, monkeypatch):
    monkeypatch.setenv("BROKEN", "name")
    with pytest.raises(AbhError, match="there is no Debian package `jqq`"):
        root.path_of("guest")
