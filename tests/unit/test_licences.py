# SPDX-License-Identifier: MIT
"""Every file says its licence where its format allows, and it is the one of its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from abh.errors import AbhError
from abh.paths import CHECKOUT
from tools import licences, lint

# Split, so that this file does not state what it only tests with.
KEY = "SPDX-License" + "-Identifier:"


def test_every_file_of_this_checkout_states_the_licence_of_its_folder():
    wrong = licences.problems(CHECKOUT, lint.sources(CHECKOUT))
    assert not wrong, "\n".join(f"{path}: {problem}" for path, problem in wrong.items()) + "\nnext: make format"


def test_every_licence_in_use_has_its_text():
    names = {licences.DEFAULT, *licences.BY_FOLDER.values()}
    assert {path.stem for path in (CHECKOUT / "LICENSES").iterdir()} == names
    for name, words in {
        "MIT": "WITHOUT WARRANTY OF ANY KIND",
        "GPL-2.0-only": "GNU GENERAL PUBLIC LICENSE\n                       Version 2, June 1991",
        "GPL-2.0-or-later": "Version 2, June 1991",
        "LGPL-2.1-or-later": "GNU LESSER GENERAL PUBLIC LICENSE\n                       Version 2.1, February 1999",
    }.items():
        assert words in (CHECKOUT / "LICENSES" / f"{name}.txt").read_text()


def test_the_overview_names_every_folder_and_licence():
    text = (CHECKOUT / "LICENSE").read_text()
    for folder, licence in licences.BY_FOLDER.items():
        assert any(folder in line and licence in line for line in text.splitlines()), folder


@pytest.mark.parametrize(
    ("name", "licence"),
    [
        ("abh/cli.py", "MIT"),
        ("kernel-patches/6.12/BASE", "GPL-2.0-only"),
        ("hypervisor/xen/4.20/series", "GPL-2.0-only"),
        ("hypervisor/qemu/plugin/region.c", "GPL-2.0-or-later"),
        ("glibc-patches/2.41/series", "LGPL-2.1-or-later"),
    ],
)
def test_the_place_tells_the_licence(name, licence):
    assert licences.licence_of(Path(name)) == licence


def test_what_is_wrong_is_told(tmp_path):
    files = {
        "good.py": f"#!/usr/bin/python3\n# {KEY} MIT\n",
        "none.py": "import os\n",
        "late.py": "\n" * licences.HEAD_LINES + f"# {KEY} MIT\n",
        "other.c": f"/* {KEY} GPL-2.0-only */\n",
        "page.html": f"<!-- {KEY} MIT -->\n",
        "README.md": "words\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    wrong = licences.problems(tmp_path, map(Path, files))
    assert sorted(map(str, wrong)) == ["late.py", "none.py", "other.c"]
    assert wrong[Path("other.c")] == "states GPL-2.0-only, but its folder is under MIT"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", "x\n", f"# {KEY} MIT\nx\n"),
        ("a.sh", "#!/bin/sh\nx\n", f"#!/bin/sh\n# {KEY} MIT\nx\n"),
        ("a.xml", '<?xml version="1.0"?>\n<a/>\n', f'<?xml version="1.0"?>\n<!-- {KEY} MIT -->\n<a/>\n'),
        ("glibc-patches/2.41/BASE", "", f"# {KEY} LGPL-2.1-or-later\n"),
        ("a.css", "a {}\n", f"/* {KEY} MIT */\na {{}}\n"),
        ("a.unknown", "x\n", None),
    ],
)
def test_a_line_goes_where_the_format_allows(name, text, expected):
    new = licences.with_line(Path(name), text)
    assert new == expected
    assert new is None or licences.stated(new) == licences.licence_of(Path(name))


def test_fix_puts_lines_in_and_never_changes_a_stated_licence(tmp_path, capsys):
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "other.py").write_text(f"# {KEY} Apache-2.0\n")
    files = [Path("none.py"), Path("other.py")]
    assert not licences.check(tmp_path, files, fix=True)
    assert capsys.readouterr().out.startswith("other.py: states Apache-2.0")
    assert licences.stated((tmp_path / "none.py").read_text()) == "MIT"
    assert licences.check(tmp_path, files[:1], fix=False)


def test_every_exemption_has_a_reason_and_a_use_that_matches():
    assert all(licences.EXEMPT.values())
    assert not licences.is_exempt(Path("vm-configs/native.toml"))
    assert licences.is_exempt(Path("workloads/cc1/sample-output.txt"))
    assert licences.is_exempt(Path("kernel-patches/6.12/thp/0001-x.patch"))


def test_lint_tells_shell_scripts_by_their_first_line(tmp_path):
    for name, text, shell in (
        ("run", "#!/bin/sh\n", True),
        ("run2", "#!/usr/bin/env bash\n", True),
        ("a.sh", "", True),
        ("tool", "#!/usr/bin/python3\n", False),
        ("data", "", False),
        ("a.py", "#!/bin/sh\n", False),
    ):
        (tmp_path / name).write_text(text)
        assert lint.is_shell(tmp_path / name) is shell, name


def test_lint_checks_each_file_with_its_tool(tmp_path):
    (tmp_path / "x.sh").write_text("#!/bin/sh\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/Cargo.toml").write_text("[workspace]\n")
    files = [Path("x.sh"), Path("a.c"), Path("workloads/w/b.c"), Path("model/Cargo.toml")]
    checks = {name: argv for name, argv in lint.commands(tmp_path, files, fix=False)}
    assert checks["shellcheck"][1:] == ["x.sh"]
    assert checks["clang-format"][-1] == "a.c"
    assert "workloads/w/b.c" not in checks["clang-format"]
    assert "-Werror" in checks["clang-format"]
    assert "--check" in checks["cargo fmt (model/Cargo.toml)"]
    assert set(lint.commands(tmp_path, [], fix=False)[0][1]) >= {"check"}
    assert "clang-format" not in dict(lint.commands(tmp_path, [Path("a.py")], fix=False))


def test_lint_outside_a_clone_says_so(tmp_path):
    with pytest.raises(AbhError, match="git cannot list"):
        lint.sources(tmp_path)


def test_lint_names_the_check_that_found_fault(tmp_path, capfd):
    lint.subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    line = f"# {KEY} MIT\n"
    (tmp_path / "pyproject.toml").write_text(f'{line}[tool.mypy]\nfiles = ["good.py"]\n')
    (tmp_path / "bad.sh").write_text(f"#!/bin/sh\n{line}echo $unquoted\n")
    (tmp_path / "good.py").write_text(f'{line}"""A module."""\n')
    assert lint.run(checkout=tmp_path) == ["shellcheck"]
    (tmp_path / "bad.sh").write_text(f"#!/bin/sh\n{line}echo ok\n")
    (tmp_path / "good.py").write_text(f'{line}"""A module."""\nx = ( 1)\n')
    assert lint.run(checkout=tmp_path) == ["ruff format"]
    assert lint.run(checkout=tmp_path, fix=True) == []
    assert lint.run(checkout=tmp_path) == []
    (tmp_path / "good.py").write_text(f'{line}"""A module."""\n\nx: int = "1"\n')
    assert lint.run(checkout=tmp_path) == ["mypy"]
