# SPDX-License-Identifier: MIT
"""A real browser on the made-up study's page: Chromium of the bench's own Debian root, made on first use.

To use another one: ABH_CHROMEDRIVER is the URL of a running chromedriver, or the path of a chromedriver program;
ABH_CHROMIUM is the path of the browser as that chromedriver sees it; ABH_BROWSER_FILES is a folder both sides see under
the same name, for the page and the browser's profile (default: a temporary folder).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.proxy import Proxy, ProxyType
from selenium.webdriver.remote.client_config import ClientConfig
from selenium.webdriver.remote.webdriver import WebDriver

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "unit")]

from abh.build import root  # noqa: E402
from abh.errors import AbhError  # noqa: E402

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
    "--remote-debugging-pipe",  # not a port: chromedriver looks up localhost, which a root need not know
    # chromedriver is reached over the loopback of this machine, so the network is not unshared: no name resolves.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--no-proxy-server",
)
PAGE_TIMEOUT_S = 120  # arbitrary: a loaded machine is slow, a hung browser is slower
START_TIMEOUT_S = 60
INSIDE = Path("/tmp/abh")  # where the root has the shared folder


@dataclass(frozen=True)
class Shared:
    """A folder that this process and the browser see, and its name for each."""

    here: Path
    there: Path


@pytest.fixture(scope="session")
def files() -> Iterator[Shared]:
    """A new empty folder that the browser can read; it goes with the profile and all the browser left there."""
    folder = os.environ.get("ABH_BROWSER_FILES")
    # Another browser may run as another user: what it left may not be ours to remove.
    with tempfile.TemporaryDirectory(prefix="abh-browser-", dir=folder, ignore_cleanup_errors=True) as name:
        yield Shared(Path(name), Path(name) if os.environ.get("ABH_CHROMEDRIVER") else INSIDE)


def wait_for_port(process: subprocess.Popen[bytes], log: Path) -> int:
    """The port that a chromedriver, told to take a free one, says it took."""
    limit = time.monotonic() + START_TIMEOUT_S
    while True:
        ended = process.poll()
        if found := re.search(r"started successfully on port (\d+)", log.read_text(errors="replace")):
            return int(found[1])
        if ended is not None or time.monotonic() > limit:
            raise AbhError(
                "chromedriver did not start in the root 'browser'",
                got=f"silence for {START_TIMEOUT_S} s" if ended is None else f"exit status {ended}",
                expected="its port",
                next_step="set ABH_CHROMEDRIVER to use another one",
                tail=root.tail_of(log),
            )
        time.sleep(0.1)


@contextmanager
def own_chromedriver(files: Shared) -> Iterator[str]:
    """The URL of a new chromedriver in the bench's root; it and its browsers end with this."""
    prefix = root.enter(root.path_of("browser"), writable={str(files.there): files.here}, network=True)
    log = files.here / "chromedriver.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*prefix, "chromedriver", "--port=0"], stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        yield f"http://127.0.0.1:{wait_for_port(process, log)}"
    finally:
        process.kill()  # of bubblewrap, which is the parent of the first process of a namespace: all in it end too
        process.wait()


@contextmanager
def session(driver: str, options: Options) -> Iterator[WebDriver]:
    """A browser of the chromedriver at this URL or path."""
    if driver.startswith(("http://", "https://")):
        # A proxy the user has for the web does not lead to a chromedriver.
        config = ClientConfig(driver, proxy=Proxy({"proxyType": ProxyType.DIRECT}))
        opened = webdriver.Remote(driver, options=options, client_config=config)
    else:
        opened = webdriver.Chrome(options=options, service=Service(driver))
    try:
        opened.set_page_load_timeout(PAGE_TIMEOUT_S)
        yield opened
    finally:
        opened.quit()


@pytest.fixture(scope="session")
def browser(files: Shared) -> Iterator[WebDriver]:
    """Chromium with a new profile."""
    options = Options()
    for flag in (*FLAGS, f"--user-data-dir={files.there / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    if driver := os.environ.get("ABH_CHROMEDRIVER"):
        options.binary_location = os.environ.get("ABH_CHROMIUM", "")
        with session(driver, options) as opened:
            yield opened
    else:
        options.binary_location = "/usr/bin/chromium"
        with own_chromedriver(files) as url, session(url, options) as opened:
            yield opened


@pytest.fixture(scope="session")
def page(files: Shared) -> str:
    """Where the page of the made-up study is, for the browser."""
    import test_report_matrix as matrix

    from abh.report import figures, svg
    from abh.report.load import load
    from abh.report.page import render
    from abh.report.study import make_study

    folder = matrix.write_asked(files.here / "measured")
    study = make_study(matrix.PLAN, load(folder), folder)
    (files.here / "report.html").write_text(render(study, figures.find()), encoding="utf-8")
    for figure in figures.find():
        if drawn := figure.chart(study):
            (files.here / f"{figure.name}.svg").write_text(svg.standalone(drawn), encoding="utf-8")
    return (files.there / "report.html").as_uri()
