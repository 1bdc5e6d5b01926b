# SPDX-License-Identifier: MIT
"""Upstream sources: pinned files, a mirror that has moved on or lies, interrupted downloads; no network."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from abh.build import root, source
from abh.build.series import Base, BaseFile
from abh.errors import AbhError

VERSION, NEWER = "4.20.3+127-gc42374a105-0+deb13u1", "4.20.9-0+deb13u2"
ORIG, DEBIAN = "xen_4.20.3+127-gc42374a105.orig.tar.xz", f"xen_{VERSION}.debian.tar.xz"
# Stands for apt inside the root, and for apt-helper: what it may say is in $MIRROR, what it was asked in $ASKED.
APT = """
import json, os, sys
from pathlib import Path
words = sys.argv[1:]
mirror = json.loads(Path(os.environ["MIRROR"]).read_text())
with open(os.environ["ASKED"], "a") as asked:
    asked.write(" ".join(words) + "\\n")
for line in mirror["complains"]:
    print(line, file=sys.stderr)
if "update" in words:
    sys.exit(mirror["status"])
if "--print-uris" in words:
    print("\\n".join(mirror["uris"].get(words[-1], [])))
elif "madison" in words:
    print("\\n".join(mirror["madison"]))
elif "download-file" in words:
    uri, out = words[-2:]
    if uri not in mirror["files"]:
        sys.exit("E: 404  Not Found")
    Path(os.environ["OUT"], Path(out).name).write_text(mirror["files"][uri])
"""


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def uri_of(name: str) -> str:
    return "http://HOST/debian/pool/main/x/xen/" + name.replace("+", "%2b")


def uri_in_pool(name: str) -> str:
    return "http://HOST/debian/pool/main/x/xen/" + name.replace("+", "%2B")  # as urllib quotes it; apt has %2b


def line(name: str, text: str, hashed: str | None = None) -> str:
    return f"'{uri_of(name)}' {name} {len(text)} SHA256:{hashed or sha(text)}"


class Mirror:
    """A Debian mirror that exists only in a file."""

    def __init__(self, folder: Path) -> None:
        self.path, self.log = folder / "mirror.json", folder / "asked"
        self.uris: dict[str, list[str]] = {}
        self.madison: list[str] = []
        self.files: dict[str, str] = {}
        self.complains: list[str] = []
        self.status = 0  # of `apt-get update`

    def carry(self, version: str, files: dict[str, str], package: str = "xen") -> None:
        self.uris[f"{package}={version}"] = [
            line(f"xen_{version}.dsc", "dsc"),
            *(line(*each) for each in files.items()),
        ]
        self.files |= {uri_of(name): text for name, text in files.items()}
        self.write()

    def write(self) -> None:
        says = {"uris": self.uris, "madison": self.madison, "files": self.files}
        self.path.write_text(json.dumps({**says, "complains": self.complains, "status": self.status}))

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def mirror(own_cache, tmp_path, monkeypatch) -> Mirror:
    made = Mirror(tmp_path)
    made.write()
    program = tmp_path / "apt.py"
    program.write_text(APT)

    def entered(*_: object, writable: dict[str, Path] | None = None, **__: object) -> list[str]:
        out = (writable or {}).get("/out", tmp_path)
        words = ["env", f"MIRROR={made.path}", f"ASKED={made.log}", f"OUT={out}", sys.executable, str(program)]
        return words

    monkeypatch.setattr(root, "path_of", lambda name: tmp_path)
    monkeypatch.setattr(root, "enter", entered)
    return made


def base_of(files: dict[str, str], version: str = VERSION, kind: str = "source") -> Base:
    listed = tuple(BaseFile(name=name, sha256=sha(text)) for name, text in files.items())
    return Base(package="xen", kind=kind, version=version, file=listed)  # type: ignore[arg-type]


FILES = {ORIG: "upstream", DEBIAN: "debian"}
NEWER_FILES = {"xen_4.20.9.orig.tar.xz": "newer", f"xen_{NEWER}.debian.tar.xz": "newer debian"}


def contents(found: source.Source) -> dict[str, str]:
    return {path.name: path.read_text() for path in found.files}


def test_a_real_line_of_apt_is_read(monkeypatch):
    text = (
        "'http://HOST/debian/pool/main/x/xen/xen_4.20.3%2b127-gc42374a105-0%2bdeb13u1.dsc' "
        f"xen_4.20.3+127-gc42374a105-0+deb13u1.dsc 4242 SHA256:{'1' * 64}\n"
        "'http://HOST/debian/pool/main/x/xen/xen_4.20.3%2b127-gc42374a105.orig.tar.xz' "
        f"xen_4.20.3+127-gc42374a105.orig.tar.xz 4961352 SHA256:df08{'3' * 60}\n"
        "'http://HOST/debian/pool/main/q/qemu-kvm_1%253a10.0.deb' qemu-kvm_1%3a10.0_all.deb 7 "
        f"SHA256:{'4' * 64}\nNeed to get 12 MB\n"
    )
    monkeypatch.setattr(source, "_ask", lambda words: text)
    assert source._offers(base_of(FILES), VERSION) == [
        (
            "http://HOST/debian/pool/main/x/xen/xen_4.20.3%2b127-gc42374a105.orig.tar.xz",
            "xen_4.20.3+127-gc42374a105.orig.tar.xz",
            f"df08{'3' * 60}",
        ),
        ("http://HOST/debian/pool/main/q/qemu-kvm_1%253a10.0.deb", "qemu-kvm_1:10.0_all.deb", "4" * 64),
    ]


def test_the_pinned_version_is_fetched_whole(mirror):
    mirror.carry(VERSION, FILES)
    found = source.fetch(base_of(FILES))
    assert (found.version, contents(found)) == (VERSION, FILES)
    assert [path.parent.name for path in found.files] == [sha(text) for text in FILES.values()]


def test_pinned_files_that_are_there_need_no_network(mirror, monkeypatch):
    mirror.carry(VERSION, FILES)
    first = source.fetch(base_of(FILES))
    mirror.log.unlink()
    monkeypatch.setattr(root, "enter", lambda *_, **__: pytest.fail("entered the root"))
    assert source.fetch(base_of(FILES)) == first
    assert mirror.asked() == []


def test_a_package_that_is_binary_is_asked_for_as_such(mirror):
    mirror.carry(VERSION, FILES)
    source.fetch(base_of(FILES, kind="binary"))
    asked = next(each for each in mirror.asked() if "--print-uris" in each)
    assert " download --print-uris xen=" in asked and " source " not in asked


@pytest.mark.parametrize(("kind", "lines", "index"), [("binary", "deb", "sid"), ("source", "deb-src", "sid-sources")])
def test_a_package_of_another_suite_has_an_index_of_its_own(mirror, tmp_path, kind, lines, index):
    (tmp_path / "etc/apt").mkdir(parents=True)
    (tmp_path / "etc/apt/sources.list").write_text("# ours\ndeb http://HOST/debian trixie main\n")
    mirror.carry(VERSION, FILES)
    source.fetch(base_of(FILES, kind=kind).model_copy(update={"suite": "sid"}))
    listed = (tmp_path / f"etc/apt/{index}.list").read_text()
    assert listed == f"{lines} http://HOST/debian sid main\n"
    update, offers = (next(each for each in mirror.asked() if word in each) for word in ("update", "--print-uris"))
    for asked in (update, offers):
        assert f"Dir::Etc::SourceList=/etc/apt/{index}.list " in asked
        assert f"Dir::State::Lists=/var/lib/apt/{index} " in asked


def test_a_corrupt_download_is_refused_and_removed(mirror, own_cache):
    mirror.carry(VERSION, FILES)
    mirror.files[uri_of(ORIG)] = "not what was promised"
    mirror.write()
    with pytest.raises(AbhError, match="is corrupt") as caught:
        source.fetch(base_of(FILES))
    assert caught.value.expected == f"SHA-256 {sha('upstream')}"
    assert caught.value.got == f"SHA-256 {sha('not what was promised')}"
    assert [path.name for path in own_cache.glob("downloads/*/*")] == []
    mirror.files[uri_of(ORIG)] = "upstream"
    mirror.write()
    assert contents(source.fetch(base_of(FILES))) == FILES


def test_one_file_that_fails_keeps_the_others(mirror, own_cache):
    mirror.carry(VERSION, FILES)
    del mirror.files[uri_of(DEBIAN)]
    mirror.write()
    with pytest.raises(AbhError, match="could not download") as caught:
        source.fetch(base_of(FILES))
    assert "404" in str(caught.value.got)
    assert "finished downloads are kept" in caught.value.next_step
    mirror.files = {uri_of(DEBIAN): "debian"}
    mirror.write()
    assert contents(source.fetch(base_of(FILES))) == FILES


def test_an_interrupted_download_is_done_again(mirror):
    mirror.carry(VERSION, FILES)
    part = source._slot(ORIG, sha("upstream")).with_name(f".{ORIG}.part")
    part.parent.mkdir(parents=True)
    part.write_text("upstr")
    assert contents(source.fetch(base_of(FILES))) == FILES
    assert not part.exists()


def test_a_mirror_that_has_moved_on_gives_a_newer_release_and_that_is_said(mirror, capsys):
    mirror.madison = [
        "xen | 5.1.0-1 | http://HOST/debian sid/main Sources",
        f"xen | {NEWER} | http://HOST/debian trixie/main amd64 Packages",
        f"xen | {NEWER} | http://HOST/debian trixie/main Sources",
        "xen | 4.20.1-1 | http://HOST/debian trixie/main Sources",
    ]
    mirror.carry(NEWER, NEWER_FILES)
    found = source.fetch(base_of(FILES))
    assert (found.version, contents(found)) == (NEWER, NEWER_FILES)
    said = capsys.readouterr().err
    assert f"the mirror has moved on: taking xen {NEWER} instead of {VERSION} (could not download {ORIG}: " in said
    assert "404  Not Found)" in said
    mirror.log.unlink()
    assert source.fetch(base_of(FILES)) == found, "remembered"
    assert mirror.asked() == []


def newer_alone(mirror: Mirror) -> None:
    """The index lists the newer release; the pool's files are for each test to say."""
    mirror.madison = [f"xen | {NEWER} | http://HOST/debian trixie/main Sources"]
    mirror.carry(NEWER, NEWER_FILES)


def test_the_pinned_release_is_taken_from_the_pool_when_the_index_no_longer_lists_it(mirror, capsys):
    newer_alone(mirror)
    mirror.files = {uri_in_pool(name): text for name, text in FILES.items()}  # an index ahead of its pool
    mirror.write()
    found = source.fetch(base_of(FILES))
    assert (found.version, contents(found)) == (VERSION, FILES)
    assert "moved on" not in capsys.readouterr().err


@pytest.mark.parametrize("old", [{ORIG: "upstream"}, {ORIG: "upstream", DEBIAN: "tampered"}], ids=["half", "tampered"])
def test_a_pool_without_the_pinned_content_gives_the_newer_release(mirror, own_cache, old):
    newer_alone(mirror)
    mirror.files |= {uri_in_pool(name): text for name, text in old.items()}
    mirror.write()
    found = source.fetch(base_of(FILES))
    assert (found.version, contents(found)) == (NEWER, NEWER_FILES)
    assert not [path for path in own_cache.glob("downloads/*/*") if path.read_text() == "tampered"]


def test_the_same_version_with_other_content_is_not_the_pinned_one(mirror):
    mirror.carry(VERSION, {ORIG: "tampered", DEBIAN: "debian"})
    with pytest.raises(AbhError, match="neither"):
        source.fetch(base_of(FILES))


@pytest.mark.parametrize(
    ("pinned", "offered", "taken"),
    [
        ("6.12.117-1", "6.12.120-1", True),
        ("6.12.117-1", "6.120.1-1", False),
        ("6.12.117-1", "6.1.12-1", False),
        ("1:10.0.13+ds-0", "1:10.0.20+ds-1", True),
        ("1:10.0.13+ds-0", "1:10.2.0+ds-1", False),
        ("2.41-12+deb13u4", "2.41-12+deb13u5", True),
    ],
)
def test_newer_means_of_the_same_upstream_series(mirror, pinned, offered, taken):
    mirror.madison = [f"xen | {offered} | http://HOST/debian trixie/main Sources"]
    mirror.write()
    assert source._newest(base_of(FILES, pinned)) == (offered if taken else None)


def test_not_available_says_so(mirror):
    with pytest.raises(AbhError, match="neither xen") as caught:
        source.fetch(base_of(FILES))
    assert "apt-get says above" in caught.value.next_step
    assert not [each for each in mirror.asked() if "download-file" in each]


@pytest.mark.parametrize("status", [0, 100], ids=["as a warning", "as an error"])
def test_an_index_that_cannot_be_renewed_is_told_in_apts_own_words(mirror, capsys, status):
    words = [f"{'E' if status else 'W'}: Failed to fetch InRelease  Could not resolve host", "N: just a notice"]
    mirror.complains, mirror.status = words, status
    mirror.carry(VERSION, FILES)
    assert contents(source.fetch(base_of(FILES))) == FILES, "what is listed is taken all the same"
    said = capsys.readouterr().err
    assert f"abh: apt-get: {words[0]}\n" in said and "notice" not in said


def test_what_fails_without_a_word_of_apts_is_told_too(mirror, capsys, monkeypatch):
    mirror.complains, mirror.status = ["bwrap: Creating new namespace failed"], 1
    mirror.carry(VERSION, FILES)
    source._ask(["apt-get", "update"])
    mirror.complains = []
    mirror.write()
    source._ask(["apt-get", "update"])
    assert capsys.readouterr().err == (
        "abh: apt-get: bwrap: Creating new namespace failed\nabh: apt-get: exit status 1\n"
    )


def test_an_apt_that_complains_at_length_has_its_last_words_told(mirror, capsys):
    mirror.complains = [f"W: number {number}" for number in range(20)]
    mirror.write()
    source._ask(["apt-cache", "madison", "xen"])
    said = capsys.readouterr().err.splitlines()
    assert len(said) == source.COMPLAINTS and said[-1] == "abh: apt-cache: W: number 19"


def test_a_broken_mirror_answer_is_no_release(mirror):
    mirror.madison = ["W: something else", "", "xen | 4.20.9"]
    mirror.write()
    with pytest.raises(AbhError, match="neither"):
        source.fetch(base_of(FILES))


def test_what_another_process_fetched_meanwhile_is_taken(mirror, monkeypatch):
    mirror.carry(VERSION, FILES)
    import contextlib

    @contextlib.contextmanager
    def slow(*_):
        for name, text in FILES.items():  # the one that held the lock
            slot = source._slot(name, sha(text))
            slot.parent.mkdir(parents=True)
            slot.write_text(text)
        yield

    monkeypatch.setattr(source.cache, "lock", slow)
    assert contents(source.fetch(base_of(FILES))) == FILES
    assert mirror.asked() == []


def test_the_digest_names_version_and_content(tmp_path):
    def of(version: str, folder: str) -> str:
        return source.Source("xen", version, (tmp_path / folder / "file",)).digest

    assert len({of("1", "a"), of("2", "a"), of("1", "b")}) == 3
    assert of("1", "a") == of("1", "a")


def test_a_record_of_what_the_mirror_had_that_is_cut_short_is_made_again(mirror):
    newer_alone(mirror)
    base = base_of(FILES)
    source._moved(base).parent.mkdir(parents=True)
    for text in ("", '{"package": "xen", "ver', "[]", '{"package": "xen"}'):
        source._moved(base).write_text(text)
        assert source.fetch(base).version == NEWER


def test_a_download_that_has_become_another_is_not_unpacked(mirror, monkeypatch, tmp_path):
    mirror.carry(VERSION, FILES)
    found = source.fetch(base_of(FILES))
    found.files[0].write_text("upstr")
    monkeypatch.setattr(root, "run", lambda *_, **__: pytest.fail("unpacked"))
    with pytest.raises(AbhError, match="is corrupt"):
        source.unpack(found, tmp_path, tmp_path / "log")
    assert contents(source.fetch(base_of(FILES))) == FILES


def test_unpacking_hands_over_every_file_and_never_the_network(own_cache, tmp_path, monkeypatch):
    slot = source._slot("xen_4.20.orig.tar.xz", sha("tar"))
    slot.parent.mkdir(parents=True)
    slot.write_text("tar")
    seen = {}
    monkeypatch.setattr(root, "path_of", lambda name: tmp_path)
    monkeypatch.setattr(root, "run", lambda prefix, command, **_: seen.update(prefix=prefix, command=command))
    out = tmp_path / "out"
    out.mkdir()
    assert source.unpack(source.Source("xen", "4.20", (slot,)), out, tmp_path / "log") == out / "tree"
    assert os.listdir(out / "in") == ["xen_4.20.orig.tar.xz"]
    assert "--unshare-net" in seen["prefix"]
    assert seen["command"][:-1] == [*root.SHELL, "-c"]
