# SPDX-License-Identifier: MIT
"""A real browser on the made-up study's page; without one, the tests skip and say how to get one.

ABH_CHROMEDRIVER is the URL of a running chromedriver, or the path of a chromedriver program; ABH_CHROMIUM is the path
of the browser as that chromedriver sees it; ABH_BROWSER_FILES is a folder both sides see under the same name, for the
page and the browser's profile (default: pytest's own temporary folder).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webdriver import WebDriver

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "unit")]

FLAGS = (
    "--headless",
    "--no-sandbox",  # tests may run as root; the page is our own
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PAGE_TIMEOUT_S = 120  # arbitrary: a loaded machine is slow, a hung browser is slower


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new empty folder that the browser can read."""
    shared = os.environ.get("ABH_BROWSER_FILES")
    if shared is None:
        yield tmp_path_factory.mktemp("browser")
        return
    folder = Path(shared) / f"abh-browser-{os.getpid()}"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # the browser, which may run as another user, left its profile here


@pytest.fixture(scope="session")
def browser(files: Path) -> Iterator[WebDriver]:
    """Chromium with a new profile."""
    driver = os.environ.get("ABH_CHROMEDRIVER") or shutil.which("chromedriver")
    remote = bool(driver and driver.startswith(("http://", "https://")))
    chromium = os.environ.get("ABH_CHROMIUM") or (None if remote else shutil.which("chromium"))
    if not driver or not (remote or chromium):
        pytest.skip("no chromium and chromedriver on PATH, and ABH_CHROMEDRIVER names none")
    options = Options()
    for flag in (*FLAGS, f"--user-data-dir={files / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    if chromium:
        options.binary_location = chromium
    if remote:
        session = webdriver.Remote(driver, options=options)
    else:
        session = webdriver.Chrome(options=options, service=Service(driver))
    try:
        session.set_page_load_timeout(PAGE_TIMEOUT_S)
        yield session
    finally:
        session.quit()


@pytest.fixture(scope="session")
def page(files: Path) -> str:
    """Where the page of the made-up study is."""
    import test_report_matrix as matrix

    from abh.report import figures
    from abh.report.page import render

    path = files / "report.html"
    path.write_text(render(matrix.study(files / "measured"), figures.find()), encoding="utf-8")
    return path.as_uri()
