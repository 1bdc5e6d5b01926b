# SPDX-License-Identifier: MIT
"""The cache: whole entries or none, made once, old ones forgotten, scratch of killed runs swept."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from filelock import FileLock

from abh import paths
from abh.build import cache
from abh.errors import AbhError

KEY = cache.key_of("a key")
PATIENCE_S = 30
MAKER = """
import os, sys, time
from pathlib import Path
from abh.build import cache

def make(out):
    with open(os.environ["MADE"], "a") as made:
        made.write("made\\n")
    (out / "file").write_text("half")
    print("making", flush=True)
    for _ in range(3000):
        if Path(sys.argv[1]).exists():
            break
        time.sleep(0.02)
    (out / "file").write_text("whole")

print((cache.produce("built", "thing", cache.key_of("a key"), make, about="making a thing") / "file").read_text())
"""


def start_maker(made: Path, until: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MAKER, str(until)],
        env={**os.environ, "PYTHONPATH": str(paths.CHECKOUT), "MADE": str(made)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def produce(make, **options) -> Path:
    return cache.produce("built", "thing", KEY, make, about="making a thing", **options)


def entries(own_cache: Path) -> list[str]:
    return sorted(path.name for path in (own_cache / "built").iterdir())


def fill(out: Path) -> None:
    (out / "file").write_text("whole")


def test_an_entry_is_made_once_and_found_again(own_cache):
    made = []
    for _ in range(2):
        final = produce(lambda out: (made.append(out), fill(out)))
        assert (final / "file").read_text() == "whole"
    assert len(made) == 1
    assert final == own_cache / "built" / f"thing-{KEY}"
    assert entries(own_cache) == [final.name]
    assert final.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("problem", [ValueError("broken"), KeyboardInterrupt(), AbhError("did not build")])
def test_an_interruption_leaves_nothing(own_cache, problem):
    def make(out):
        fill(out)
        raise problem

    with pytest.raises(type(problem)) as caught:
        produce(make)
    assert caught.value is problem
    assert entries(own_cache) == []
    assert produce(fill).is_dir(), "the next one can make it"


def test_two_processes_make_it_once(own_cache, tmp_path):
    made, until = tmp_path / "made", tmp_path / "until"
    first = start_maker(made, until)
    assert first.stdout is not None and first.stdout.readline() == "making\n"
    second = start_maker(made, until)
    assert second.stderr is not None
    assert second.stderr.readline() == "abh: waiting for another abh that is making a thing\n"
    until.touch()
    assert second.communicate(timeout=PATIENCE_S)[0] == "whole\n"
    assert first.communicate(timeout=PATIENCE_S)[0] == "whole\n"
    assert made.read_text() == "made\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_what_to_do(own_cache, number):
    def make(out):
        raise OSError(number, os.strerror(number))

    with pytest.raises(AbhError, match="the disk filled up while making a thing") as caught:
        produce(make)
    assert "free some space" in caught.value.next_step
    assert entries(own_cache) == []


def test_other_errors_of_the_system_keep_their_type(own_cache):
    def make(out):
        raise PermissionError(errno.EACCES, "no")

    with pytest.raises(PermissionError):
        produce(make)
    assert entries(own_cache) == []


def test_too_little_space_is_said_before_the_work(own_cache):
    with pytest.raises(AbhError, match="not enough disk space for making a thing") as caught:
        produce(lambda out: pytest.fail("was made"), needs_mib=1 << 40)
    assert f"at least {1 << 40} MiB" in str(caught.value)
    assert "ABH_CACHE" in caught.value.next_step
    assert entries(own_cache) == []


def test_entries_of_the_same_name_that_nobody_asked_for_are_forgotten(own_cache):
    built = own_cache / "built"
    old, other = (built / f"{name}-{cache.key_of(name)}" for name in ("thing", "thing-else"))
    recent = built / f"thing-{cache.key_of('recent')}"
    for folder in (old, recent, other):
        folder.mkdir(parents=True)
    long_ago = time.time() - 31 * 86400
    os.utime(old, (long_ago, long_ago))
    os.utime(other, (long_ago, long_ago))
    final = produce(fill)
    assert entries(own_cache) == sorted([final.name, recent.name, other.name])


def test_asking_for_an_entry_keeps_it(own_cache):
    final = produce(fill)
    long_ago = time.time() - 31 * 86400
    os.utime(final, (long_ago, long_ago))
    produce(fill)
    cache.produce("built", "thing", cache.key_of("another"), fill, about="making another")
    assert final.exists()


def test_an_entry_that_is_young_is_not_touched_as_somebody_may_be_packing_it(own_cache):
    final = produce(fill)
    an_hour_ago = time.time() - 3600
    os.utime(final, (an_hour_ago, an_hour_ago))
    before = final.stat().st_ctime_ns
    produce(fill)
    assert final.stat().st_ctime_ns == before


def test_a_killed_run_leaves_only_scratch_and_that_is_swept(own_cache, tmp_path):
    process = start_maker(tmp_path / "made", tmp_path / "never")
    assert process.stdout is not None and process.stdout.readline() == "making\n"
    (scratch,) = entries(own_cache)
    assert scratch.startswith(".")
    cache.sweep_scratch()
    assert entries(own_cache) == [scratch], "in use: its maker lives"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert entries(own_cache) == [scratch]
    cache.sweep_scratch()
    assert entries(own_cache) == []


def test_sweeping_leaves_what_it_does_not_know(own_cache):
    kept = [
        own_cache / name for name in ("built/.hidden", f"built/thing-{KEY}", "downloads/.x-y", "python/.a-12345678")
    ]
    for folder in kept:
        folder.mkdir(parents=True)
    cache.sweep_scratch()
    assert all(folder.exists() for folder in kept)


def test_a_lock_is_free_after_its_block_even_while_something_refers_to_it(own_cache, monkeypatch):
    kept = []
    monkeypatch.setattr(cache, "FileLock", lambda path: kept.append(FileLock(path)) or kept[-1])
    with pytest.raises(ValueError), cache.lock("name", "testing"):
        assert not _is_free(own_cache / "locks/name")
        raise ValueError
    assert _is_free(own_cache / "locks/name")


def _is_free(path: Path) -> bool:
    code = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=False)
    return done.returncode == 0


# --- digests ----------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "inner").mkdir(parents=True)
    (top / "inner/a").write_text("a")
    (top / "b").write_text("b")
    return top


@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "b").write_text("c"),
        lambda top: (top / "b").rename(top / "c"),
        lambda top: (top / "inner").rename(top / "inner2"),
        lambda top: (top / "b").rename(top / "inner/b"),
        lambda top: (top / "b").chmod(0o755),
        lambda top: (top / "new").write_text(""),
        lambda top: (top / "inner/a").unlink(),
    ],
    ids=["content", "name", "folder", "place", "executable", "added", "removed"],
)
def test_a_digest_notices(tree, change):
    before = cache.digest_tree(tree)
    change(tree)
    assert cache.digest_tree(tree) != before


def test_a_digest_of_one_file_is_of_its_content_and_name(tree):
    digests = [cache.digest_tree(tree / "b")]
    (tree / "b").write_text("c")
    digests.append(cache.digest_tree(tree / "b"))
    digests.append(cache.digest_tree((tree / "b").rename(tree / "c")))
    assert len(set(digests)) == 3


def test_a_digest_does_not_care_for_times_place_or_what_is_ignored(tree, tmp_path):
    before = cache.digest_tree(tree)
    os.utime(tree / "b", (1, 1))
    (tree / "inner/README.md").write_text("words")
    moved = tree.rename(tmp_path / "elsewhere")
    assert cache.digest_tree(moved, lambda path: path.name == "README.md") == before
    assert cache.digest_tree(moved) != before


def test_a_key_keeps_its_parts_apart():
    assert cache.key_of("ab", "c") != cache.key_of("a", "bc")
    assert cache.key_of("a", "b") != cache.key_of("b", "a")
    assert len(cache.key_of("a")) == cache.KEY_CHARS


# --- removing ---------------------------------------------------------------------------------------------------


def as_nobody(action, *owned: Path) -> int:
    """Runs it as a user whom permissions bind, in a child; returns its exit status."""
    if os.geteuid() == 0:
        for path in owned:
            os.chown(path, 65534, 65534)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("mode", [0o500, 0o300, 0o000], ids=oct)
def test_folders_without_permissions_are_removed_and_links_not_followed(mode):
    # Not below pytest's own folder, which others may not enter.
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o777)
        top, outside = Path(outer) / "top", Path(outer) / "outside"
        (top / "inner/deep").mkdir(parents=True)
        (top / "inner/deep/file").touch()
        outside.mkdir(mode=0o500)
        (top / "link").symlink_to(outside)
        for folder in (top / "inner/deep", top / "inner", top):
            folder.chmod(mode)
        assert as_nobody(lambda: cache.remove(top), top, top / "inner", top / "inner/deep", outside) == 0
        assert not top.exists()
        assert outside.stat().st_mode & 0o777 == 0o500


def test_a_file_a_link_or_nothing_is_removed_too(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(target)
    file.touch()
    for path in (link, file, tmp_path / "nothing"):
        cache.remove(path)
    assert os.listdir(tmp_path) == ["target"]
