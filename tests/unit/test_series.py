# SPDX-License-Identifier: MIT
"""Patch series: BASE, listing, headers, licences, hashes, and what applying accepts."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from debian.debian_support import Version
from hypothesis import given, settings
from hypothesis import strategies as st

from abh import cli, paths
from abh.build import debs, dep3, series
from abh.errors import AbhError
from abh.schema import package

BASE = """\
package = "hello"
kind = "source"
version = "2.10-3"
[[file]]
name = "hello_2.10.orig.tar.gz"
sha256 = "{sha}"
""".format(sha="0f" * 32)

HEADER = """\
From: A Person <person@example.org>
Date: Thu, 19 Nov 2026 10:00:00 +0000
Subject: [PATCH] hello: say more

Today it says one line.

Origin: vendor
Forwarded: no
Signed-off-by: A Person <person@example.org>
---
 hello.c | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

"""
LINES = [f"line {n}\n" for n in range(1, 21)]


def diff(old: list[str], new: list[str], name: str = "hello.c", n: int = 3) -> str:
    return "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", n=n))


def changed(number: int, text: str, lines: list[str] = LINES) -> list[str]:
    return [*lines[: number - 1], f"{text}\n", *lines[number:]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound series of two patches; the second needs the first."""
    top = tmp_path / "hello" / "2.10"
    (top / "topic").mkdir(parents=True)
    (top / "BASE").write_text(BASE)
    (top / "series").write_text("# heading\n\ntopic/0001-one.patch\ntopic/0002-two.patch  # why\n")
    one = changed(10, "ten")
    (top / "topic/0001-one.patch").write_text(HEADER + diff(LINES, one))
    (top / "topic/0002-two.patch").write_text(HEADER + diff(one, changed(11, "eleven", one)))
    return top


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    top.mkdir()
    (top / "hello.c").write_text("".join(LINES))
    return top


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_sound_series_has_no_problems(folder):
    assert series.problems(folder) == []
    loaded = series.load(folder)
    assert loaded.patches == ("topic/0001-one.patch", "topic/0002-two.patch")
    assert (loaded.base.package, loaded.base.kind, loaded.base.version) == ("hello", "source", "2.10-3")
    assert [(f.name, f.sha256) for f in loaded.base.files] == [("hello_2.10.orig.tar.gz", "0f" * 32)]


def test_an_empty_series_is_sound(folder, tree):
    shutil.rmtree(folder / "topic")
    (folder / "series").write_text("# nothing yet\n")
    assert series.problems(folder) == []
    empty = series.load(folder)
    series.apply_series(empty, tree)
    series.check_prefixes(empty, lambda prefix: pytest.fail("there is no prefix to build"))
    assert (tree / "hello.c").read_text() == "".join(LINES)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kind", "sort", "unknown key `sort`"),
        ('kind = "source"\n', "", "missing key `kind`"),
        ('"source"', '"tarball"', "one of source, binary"),
        ("0f0f", "0F0F", "file.0.sha256"),
        ('"hello_2.10.orig.tar.gz"', '"../hello"', "file.0.name"),
        ("[[file]]", "[[files]]", "unknown key `files`"),
        ('version = "2.10-3"', "version = 2.10", "version"),
        ('package = "hello"', "package = ", "TOML syntax error"),
    ],
)
def test_a_wrong_base_is_told(folder, old, new, said):
    edit(folder / "BASE", old, new)
    (problem,) = series.problems(folder)
    assert problem.startswith("BASE: ")
    assert said in problem
    with pytest.raises(AbhError):
        series.load(folder)


def test_a_base_that_lists_a_file_twice_is_told(folder):
    with (folder / "BASE").open("a") as base:
        base.write(BASE[BASE.index("[[file]]") :])
    assert "listed twice" in series.problems(folder)[0]


@pytest.mark.parametrize(
    ("listing", "said"),
    [
        ("topic/0001-one.patch\n", "topic/0002-two.patch: there, but not listed"),
        (
            "topic/0001-one.patch\ntopic/0002-two.patch\ntopic/0003-x.patch\n",
            "topic/0003-x.patch: listed, but not there",
        ),
        ("topic/0001-one.patch\ntopic/0002-two.patch\ntopic/0001-one.patch\n", "topic/0001-one.patch: listed twice"),
        ("topic/0001-one.patch\ntopic/0002-two.patch\n../0001-up.patch\n", "../0001-up.patch: not of the form"),
        ("topic/0001-one.patch -p0\ntopic/0002-two.patch\n", "topic/0001-one.patch -p0: not of the form"),
    ],
)
def test_a_listing_that_disagrees_is_told(folder, listing, said):
    (folder / "series").write_text(listing)
    assert any(said in problem for problem in series.problems(folder))
    with pytest.raises(AbhError, match="not sound"):
        series.load(folder)


def test_an_orphan_in_another_folder_is_told(folder):
    (folder / "old").mkdir()
    (folder / "old/thing.diff").write_text("")
    assert series.problems(folder) == ["old/thing.diff: there, but not listed in series"]


def test_a_missing_series_file_is_told(folder):
    (folder / "series").unlink()
    assert any("series" in problem for problem in series.problems(folder))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Subject: [PATCH] hello: say more\n", "", "no Description or Subject"),
        ("Subject: [PATCH] hello: say more\n", "Subject:\n", "no Description or Subject"),
        ("Forwarded: no\n", "", "no Forwarded"),
        ("Forwarded: no\n", "Forwarded: soon\n", "Forwarded: 'soon'"),
        ("Signed-off-by: A Person <person@example.org>\n", "", "no Signed-off-by"),
        ("<person@example.org>\n---", "\n---", "Signed-off-by: 'A Person'"),
        ("Date: Thu, 19 Nov 2026 10:00:00 +0000\n", "", "no Last-Update or Date"),
        ("Date: Thu, 19 Nov 2026 10:00:00 +0000", "Date: some day", "Date: 'some day'"),
        ("Date: Thu, 19 Nov 2026 10:00:00 +0000", "Last-Update: 2026-02-30", "Last-Update: '2026-02-30'"),
    ],
)
def test_an_incomplete_header_is_told(folder, old, new, said):
    edit(folder / "topic/0002-two.patch", old, new)
    (problem,) = series.problems(folder)
    assert problem.startswith("topic/0002-two.patch: ")
    assert said in problem


def test_who_wrote_it_is_told_in_one_of_three_ways():
    body = "\n".join(line for line in HEADER.splitlines() if not line.startswith(("From:", "Origin:")))
    text = body + "\n" + diff(LINES, changed(1, "x"))
    assert dep3.problems(text) == ["no Origin or Author or From in its header"]
    for field in ("Origin: upstream, https://example.org/1", "Author: A", "From: A <a@b.c>"):
        assert dep3.problems(f"{field}\n{text}") == []


def test_a_package_of_a_series_with_a_later_patch_is_newer(folder, monkeypatch):
    """To dpkg, whatever the digests are."""
    one, ours = package.PACKAGE.one("linux-image-abh", paths.CHECKOUT), series.load(folder)
    monkeypatch.setattr(debs.series, "load", lambda _: ours)
    monkeypatch.setattr(debs.components, "version_of", lambda _: "6.12-1")  # else the base would be downloaded
    digests = iter(("f" * 64, "0" * 64, "f" * 64))
    monkeypatch.setattr(series, "series_hash", lambda _: next(digests))
    first = folder / series.listed(folder)[0]
    text, found = first.read_text(), []
    when = "Date: Thu, 19 Nov 2026 10:00:00 +0000"
    assert when in text
    for day in ("Last-Update: 2026-12-31", "Last-Update: 2027-01-01", "Date: Sat, 2 Jan 2027 23:30:00 -0500"):
        first.write_text(text.replace(when, day))
        found.append(debs.version(one, "0.1.0"))
    assert [each.split(".")[-2] for each in found] == ["202612310000", "202701010000", "202701030000"]
    monkeypatch.setattr(debs, "committed", lambda _: "202701030001")
    monkeypatch.setattr(series, "series_hash", lambda _: "0" * 64)
    found.append(debs.version(one, "0.1.0"))
    monkeypatch.setattr(debs, "committed", lambda _: "0")  # no git here
    assert debs.version(one, "0.1.0").split(".")[-2] == "202701030000"
    assert Version(found[0]) < Version(found[1]) < Version(found[2]) < Version(found[3])
    assert replace(ours, patches=()).updated == "0"


def test_the_last_commit_to_what_a_package_is_made_of_counts_to_the_minute(tmp_path, monkeypatch):
    def git(*words: str, at: str = "") -> None:
        dates = {"GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": at}
        names = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        subprocess.run(["git", "-C", tmp_path, *words], env={**os.environ, **dates, **names}, check=True)

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert debs.committed(["a"], tmp_path) == "0"  # no git's
    git("init", "-q")
    assert debs.committed(["a"], tmp_path) == "0"  # nothing committed
    for name, at in (("a", "2026-11-25T16:45:59+0100"), ("b", "2026-11-25T15:46:00Z"), ("c", "2026-11-25T17:00:00Z")):
        (tmp_path / name).write_text(name)
        git("add", name)
        git("commit", "-qm", name, at=at)
    told = [debs.committed(names, tmp_path) for names in (["a"], ["b", "a"], ["c"], ["none"])]
    assert told == ["202611251545", "202611251546", "202611251700", "0"]


def test_a_package_is_made_of_recipe_options_series_and_packaging():
    made = debs.made_of(package.PACKAGE.one("linux-image-abh", paths.CHECKOUT))
    assert {"kernel-patches/6.12", "recipes/linux.sh", "packages"} <= set(made)
    assert [each for each in made if each.startswith("vm-configs/kconfig")]
    for name in package.PACKAGE.paths(paths.CHECKOUT):
        assert all((paths.CHECKOUT / each).exists() for each in debs.made_of(package.PACKAGE.one(name, paths.CHECKOUT)))
    library, system = (package.PACKAGE.one(name, paths.CHECKOUT) for name in ("abh-glibc", "abh-glibc-system"))
    assert debs.made_of(library) == debs.made_of(system)  # the second depends on the first, of the very version


def test_fields_below_the_header_do_not_count():
    text = HEADER.replace("Forwarded: no\n", "").replace("---\n", "---\nForwarded: no\n") + diff(LINES, changed(1, "x"))
    assert dep3.problems(text) == ["no Forwarded in its header"]


def test_a_description_may_go_on_over_lines():
    assert dep3.fields("Description: one\n two\n\tthree\nOrigin: vendor\n\n four\n") == {
        "Description": ["one two three"],
        "Origin": ["vendor"],
    }


def added(*lines: str) -> str:
    return "--- /dev/null\n+++ b/new.c\n" + f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)


def test_an_added_file_needs_a_licence():
    bare = HEADER + added("int x;")
    assert dep3.problems(bare) == [
        "adds new.c without a licence: neither the file nor the header has an SPDX-License-Identifier line"
    ]
    assert dep3.problems(HEADER + added("/* SPDX-License-Identifier: GPL-2.0-only */", "int x;")) == []
    assert dep3.problems("SPDX-License-Identifier: LGPL-2.1-or-later\n" + bare) == []
    # The licence of one added file is not that of the next.
    two = HEADER + added("// SPDX-License-Identifier: MIT") + added("int y;").replace("new.c", "other.c")
    assert [problem for problem in dep3.problems(two) if "other.c" in problem]


def test_a_patch_without_a_change_is_told():
    assert dep3.problems(HEADER) == ["changes nothing"]


def test_a_change_of_what_a_patch_program_left_behind_is_told():
    text = HEADER + added("// SPDX-License-Identifier: MIT")
    for left in ("new.c.orig", "new.c.rej"):
        assert dep3.problems(text.replace("new.c", left)) == [
            f"changes {left}, which a patch program left behind: another unpacking of the base has not got it"
        ]


def test_a_binary_change_is_told():
    assert any("binary" in problem for problem in dep3.problems(HEADER + "GIT binary patch\nliteral 3\n"))


def test_patches_apply_in_the_order_of_the_series(folder, tree):
    series.apply_series(series.load(folder), tree)
    assert (tree / "hello.c").read_text().splitlines()[8:12] == ["line 9", "ten", "eleven", "line 12"]
    assert os.listdir(tree) == ["hello.c"]


def test_order_matters_and_the_error_names_the_patch(folder, tree):
    (folder / "series").write_text("topic/0002-two.patch\ntopic/0001-one.patch\n")
    with pytest.raises(AbhError) as caught:
        series.apply_series(series.load(folder), tree)
    assert str(caught.value.where).endswith("hello/2.10/topic/0002-two.patch")
    assert "FAILED" in (caught.value.tail or "")


def test_an_offset_is_accepted(folder, tree):
    (tree / "hello.c").write_text("new first line\n" * 5 + "".join(LINES))
    series.apply_series(series.load(folder), tree)
    assert "eleven\n" in (tree / "hello.c").read_text()
    assert os.listdir(tree) == ["hello.c"]  # no backup


def test_fuzz_is_refused(folder, tree):
    # One line of the outermost context differs: patch's default would take it with fuzz 1.
    edit(tree / "hello.c", "line 7\n", "line seven\n")
    with pytest.raises(AbhError, match="does not apply"):
        series.apply_series(series.load(folder), tree)


def test_a_patch_applied_before_is_refused(folder, tree):
    loaded = series.load(folder)
    series.apply_series(next(series.prefixes(loaded)), tree)
    with pytest.raises(AbhError) as caught:
        series.apply_series(loaded, tree)
    assert "0001-one.patch" in str(caught.value.where)


@pytest.mark.parametrize("text", ["", "no diff here\n"])
def test_a_patch_that_holds_no_diff_is_refused(folder, tree, text):
    (folder / "topic/0001-one.patch").write_text(text)
    with pytest.raises(AbhError, match="does not apply"):
        series.apply_series(series.load(folder), tree)


def test_a_patch_cannot_leave_the_tree(folder, tree):
    outside = tree.parent / "outside.c"
    outside.write_text("".join(LINES))
    (folder / "topic/0001-one.patch").write_text(HEADER + diff(LINES, changed(3, "x"), name="../outside.c"))
    with pytest.raises(AbhError):
        series.apply_series(series.load(folder), tree)
    assert outside.read_text() == "".join(LINES)


def test_variables_of_patch_do_not_matter(folder, tree, monkeypatch):
    # With this one, patch keeps a file that a patch removes, empty.
    monkeypatch.setenv("POSIXLY_CORRECT", "1")
    removal = diff(LINES, []).replace("+++ b/hello.c", "+++ /dev/null")
    (folder / "topic/0001-one.patch").write_text(HEADER + removal)
    series.apply_series(next(series.prefixes(series.load(folder))), tree)
    assert os.listdir(tree) == []


def test_a_missing_patch_program_is_told(folder, tree, monkeypatch):
    monkeypatch.setenv("PATH", str(tree))
    with pytest.raises(AbhError, match="cannot apply"):
        series.apply_series(series.load(folder), tree)


def test_check_applies_leaves_the_tree_as_it_is(folder, tree):
    series.check_applies(series.load(folder), tree)
    assert (tree / "hello.c").read_text() == "".join(LINES)
    (tree / "hello.c").unlink()
    with pytest.raises(AbhError):
        series.check_applies(series.load(folder), tree)


texts = st.lists(st.sampled_from(["a\n", "b\n", "--- c\n", "+d\n", "\n", "@@ -1 +1 @@\n"]), min_size=1, max_size=15)


@settings(max_examples=25, deadline=None)
@given(old=texts, new=texts)
def test_applying_a_diff_gives_the_new_text(tmp_path_factory, old, new):
    if old == new:
        return
    top = tmp_path_factory.mktemp("series")
    (top / "t").mkdir()
    (top / "t/0001-x.patch").write_text(HEADER + diff(old, new))
    (top / "BASE").write_text(BASE)
    (top / "series").write_text("t/0001-x.patch\n")
    tree = top / "tree"
    tree.mkdir()
    (tree / "hello.c").write_text("".join(old))
    series.apply_series(series.load(top), tree)
    assert (tree / "hello.c").read_text() == "".join(new)


def test_the_hash_follows_what_decides_the_tree(folder):
    def now() -> str:
        return series.series_hash(series.load(folder))

    first = now()
    (folder / "series").write_text("topic/0001-one.patch\n# another comment\ntopic/0002-two.patch\n")
    (folder / "README.md").write_text("words")
    assert now() == first
    seen = {first}
    edit(folder / "BASE", "2.10-3", "2.10-4")
    seen.add(now())
    (folder / "series").write_text("topic/0002-two.patch\ntopic/0001-one.patch\n")
    seen.add(now())
    edit(folder / "topic/0002-two.patch", "+eleven", "+elven")
    seen.add(now())
    (folder / "topic/0002-two.patch").rename(folder / "topic/0003-two.patch")
    (folder / "series").write_text("topic/0003-two.patch\ntopic/0001-one.patch\n")
    seen.add(now())
    assert len(seen) == 5
    assert all(len(each) == 64 for each in seen)


def test_a_key_that_a_base_may_have_and_has_not_is_no_part_of_the_hash(folder):
    bare = replace(series.load(folder), patches=())
    given = json.dumps(bare.base.model_dump(exclude_unset=True), sort_keys=True)
    assert series.series_hash(bare) == hashlib.sha256(given.encode()).hexdigest()


def test_every_prefix_is_built_and_has_its_own_hash(folder):
    built: list[series.Series] = []
    loaded = series.load(folder)
    series.check_prefixes(loaded, built.append)
    assert [len(prefix.patches) for prefix in built] == [1, 2]
    assert built[-1] == loaded
    assert len({series.series_hash(prefix) for prefix in built}) == 2


def test_a_prefix_that_does_not_build_is_named(folder):
    def build(prefix: series.Series) -> None:
        if len(prefix.patches) == 1:
            raise AbhError("make failed", tail="error: no such function")

    with pytest.raises(AbhError) as caught:
        series.check_prefixes(series.load(folder), build)
    assert str(caught.value.where).endswith("up to topic/0001-one.patch")
    assert caught.value.tail == "error: no such function"


def test_series_are_found_by_their_base(tmp_path, folder):
    bases = ["hypervisor/bhyve/14", "hypervisor/qemu/10.0", "kernel-patches/6.1-ia64", "musl-patches/1.2"]
    for name in (*bases, "hypervisor/qemu/plugin", "elsewhere/1"):
        (tmp_path / name).mkdir(parents=True)
        if not name.endswith("plugin"):
            (tmp_path / name / "BASE").write_text(BASE)
    found = [path.relative_to(tmp_path).as_posix() for path in series.find_series(tmp_path)]
    assert found == bases, "also a hypervisor's or a library's that no code knows"


def test_the_command_says_sound_or_lists_every_problem(folder, tree, capsys):
    assert cli.main(["check-series", str(folder), "--tree", str(tree)]) == 0
    assert "2 patches, they apply): sound" in capsys.readouterr().out
    edit(folder / "topic/0001-one.patch", "Forwarded: no\n", "")
    edit(folder / "topic/0002-two.patch", "Forwarded: no\n", "")
    assert cli.main(["check-series", str(folder)]) == 1
    captured = capsys.readouterr()
    assert captured.out.count("no Forwarded") == 2
    assert "2 problem(s)" in captured.err


def test_the_command_refuses_what_is_no_series(tmp_path, capsys):
    assert cli.main(["check-series", str(tmp_path)]) == 2
    assert "has no BASE" in capsys.readouterr().err


@pytest.mark.parametrize("folder", series.find_series(), ids=lambda path: path.relative_to(paths.CHECKOUT).as_posix())
def test_the_series_of_this_checkout_are_sound(folder):
    assert series.problems(folder) == []
