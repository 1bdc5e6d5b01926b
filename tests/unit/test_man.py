# SPDX-License-Identifier: MIT
"""`abh man`: a page for each command, that man shows without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from abh import cli, paths
from abh.commands import man
from abh.errors import Status


@pytest.fixture(scope="module")
def pages():
    return man.pages()


def test_there_is_a_page_for_each_command(pages):
    assert set(pages) == {"abh.1", *(f"abh-{name}.1" for name in cli.command_names())}


def test_every_page_has_its_name_its_options_and_every_exit_status(pages):
    for file, page in pages.items():
        name = file.removesuffix(".1")
        assert page.startswith(f'.TH {name.upper()} "1"'.replace("-", "\\-")), file
        assert f".SH NAME\n{name} \\- ".replace("-", "\\-").replace("\\\\-", "\\-") in page, file
        for status in Status:
            assert f"\\fB{int(status)}\\fR\n{man._escaped(status.meaning)}" in page, file
        assert ("abh\\-run(1)" in page) == (file == "abh.1")
    assert "\\-\\-free\\-running" in pages["abh-run.1"] and "\\-\\-episode" in pages["abh-kernel-test.1"]


def test_what_a_status_means_to_a_verifier_is_said(pages):
    assert "cannot be seen" in pages["abh-policy.1"]


def test_no_page_has_a_path_of_the_machine_it_is_made_on(pages):
    for file, page in pages.items():
        assert str(paths.CHECKOUT) not in page.replace("\\-", "-"), file


def test_man_shows_every_page_without_a_warning(pages):
    if not shutil.which("groff"):
        pytest.skip("this machine has no groff")
    assert "linux, xen, qemu" in pages["abh-build.1"] and "\\[u2026]" in pages["abh-build.1"]
    for file, page in pages.items():
        argv = ["groff", "-man", "-ww", "-Tutf8", "-P-c"]
        done = subprocess.run(argv, input=page, capture_output=True, text=True, check=True)
        assert done.stderr == "", file
        assert re.search(r"^EXIT STATUS$", re.sub(r".\x08", "", done.stdout), re.M), file
