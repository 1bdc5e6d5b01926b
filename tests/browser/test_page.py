# SPDX-License-Identifier: MIT
"""The report in a real browser, as a desktop and as a phone shows it."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from abh.report.page import SECTIONS

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")

CONTRAST = """
const parse = text => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = node => {
  for (; node; node = node.parentElement) {
    const colour = parse(getComputedStyle(node).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const poor = [];
for (const node of document.querySelectorAll("main *, header *")) {
  if (![...node.childNodes].some(child => child.nodeType === 3 && child.data.trim())) continue;
  const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push([node.tagName, node.className, node.textContent.slice(0, 30), ratio]);
}
return poor;
"""
# Elements reaching past the window, but for those that scroll inside a box of their own.
WIDE = """
return [...document.querySelectorAll("body *")].filter(node => node.getBoundingClientRect().right > innerWidth + 0.5
  && !node.closest(".wide, .panel, pre")).map(node => node.tagName + "." + node.className);
"""
FIGURES = """
return [...document.querySelectorAll("figure")].map(figure => {
  const box = figure.getBoundingClientRect();
  const tables = [...figure.querySelectorAll("table")];
  return {id: figure.id, width: box.width, height: box.height, caption: figure.querySelector("figcaption").innerText,
    tables: tables.length, shown: tables.filter(table => table.checkVisibility() && table.offsetHeight > 20).length};
});
"""
PICTURES = """
const ground = getComputedStyle(document.body).backgroundColor;
return [...document.querySelectorAll(".pictures svg")].map(svg => {
  const box = svg.getBoundingClientRect();
  const marks = [...svg.querySelectorAll("*")].filter(node => /^[fs][0-7]/.test(node.getAttribute("class")));
  const parts = [...svg.querySelectorAll("text, circle, path, line")];
  return {width: box.width, height: box.height, ground: ground, marks: marks.length,
    inks: marks.map(node => getComputedStyle(node)[node.getAttribute("class")[0] === "f" ? "fill" : "stroke"]),
    outside: parts.filter(node => { const own = node.getBoundingClientRect();
      return own.left < box.left - 1 || own.right > box.right + 1 || own.bottom > box.bottom + 1; })
      .map(node => node.outerHTML)};
});
"""
FOLDED = """
const entries = [...document.querySelectorAll("#empty dd")];
return [entries.filter(entry => entry.checkVisibility()).length, entries.length];
"""
PICTURE = """
const parse = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
return [parse(getComputedStyle(document.querySelector("rect")).fill),
  parse(getComputedStyle(document.querySelector("text")).fill), document.documentElement.textContent];
"""
NOTES = """
return [...document.querySelectorAll(".na")].map(node => {
  const note = document.getElementById(node.querySelector("a").hash.slice(1));
  const seen = !!note && note.checkVisibility();
  return {text: node.firstChild.data, title: node.title, note: note && note.innerText, seen};
});
"""


def show(browser: WebDriver, page: str, width: int, scheme: str) -> list[dict[str, Any]]:
    """Open the page as such a screen would; the messages of Chromium's network log while it loaded."""
    metrics = {"width": width, "height": 850, "deviceScaleFactor": 1, "mobile": width < 500}
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute("executeCdpCommand", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})
    browser.execute("executeCdpCommand", {"cmd": "Emulation.setEmulatedMedia", "params": media})
    browser.execute("getLog", {"type": "performance"})  # forget what was before
    browser.get(page)
    entries = browser.execute("getLog", {"type": "performance"})["value"]
    return [json.loads(entry["message"])["message"] for entry in entries]


@pytest.fixture(autouse=True, scope="module")
def _commands(browser: WebDriver) -> None:
    """webdriver.Remote knows neither; webdriver.Chrome knows both by other names."""
    executor = browser.command_executor
    executor.add_command("executeCdpCommand", "POST", "/session/$sessionId/goog/cdp/execute")
    executor.add_command("getLog", "POST", "/session/$sessionId/se/log")


@pytest.fixture(
    params=[(width, scheme) for width in WIDTHS for scheme in SCHEMES], ids=lambda each: f"{each[0]}-{each[1]}"
)
def network(browser: WebDriver, page: str, request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The page, opened on each screen in each colour scheme."""
    return show(browser, page, *request.param)


def test_nothing_but_the_page_is_asked_for(network: list[dict[str, Any]], page: str) -> None:
    asked = [each["params"]["request"]["url"] for each in network if each["method"] == "Network.requestWillBeSent"]
    assert asked and set(asked) - {"data:,"} == {page}


@pytest.mark.usefixtures("network")
def test_the_console_is_silent(browser: WebDriver) -> None:
    assert browser.execute("getLog", {"type": "browser"})["value"] == []


@pytest.mark.usefixtures("network")
def test_the_page_does_not_scroll_sideways(browser: WebDriver) -> None:
    width, inner = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert width <= inner in WIDTHS
    assert browser.execute_script(WIDE) == []


@pytest.mark.usefixtures("network")
def test_every_figure_is_seen(browser: WebDriver) -> None:
    found = browser.execute_script(FIGURES)
    scripts = {path.stem for path in Path(__file__).resolve().parents[2].glob("analysis/figures/[!_]*.py")}
    assert found[0]["id"] == "what-abh-changes", "the answer is first"
    # The made-up study has no result of size paper, and no estimate of the model's.
    assert scripts - {each["id"].replace("-", "_") for each in found} <= {"aims", "walk_share", "abh_prose"}
    for each in found:
        assert each["width"] > 300 and each["height"] > 200 and "Kind:" in each["caption"], each
        assert each["tables"] == each["shown"] > 0, each
    marks = browser.execute_script(
        "return [...document.querySelectorAll('.rail .mark')].map(mark => [mark.getBoundingClientRect(), "
        "mark.parentElement.getBoundingClientRect()]).filter(([mark, rail]) => mark.width < 5 || rail.width < 40 || "
        "mark.left < rail.left - 9 || mark.right > rail.right + 9).length"
    )
    assert marks == 0


@pytest.mark.usefixtures("network")
def test_every_na_has_a_reason(browser: WebDriver) -> None:
    notes = browser.execute_script(NOTES)
    assert len(notes) > 50
    for note in notes:
        assert note["text"] == "n/a" and note["title"] and note["seen"], note
        assert note["note"].split() == note["title"].split(), note


@pytest.mark.usefixtures("network")
def test_the_text_can_be_read(browser: WebDriver) -> None:
    assert browser.execute_script(CONTRAST) == []


@pytest.mark.usefixtures("network")
def test_the_answer_is_seen_first(browser: WebDriver) -> None:
    drawn = browser.execute_script(PICTURES)
    assert len(drawn) == 5
    for each in drawn:
        assert each["width"] > 300 and each["height"] > 80, each
        assert each["marks"] > 0 and each["outside"] == [], each
        assert each["ground"] not in each["inks"], "a mark in the colour of the page"
    top = browser.execute_script("return document.querySelector('.answer').getBoundingClientRect().top")
    assert top < 850, "on the first screen"


@pytest.mark.usefixtures("network")
def test_what_was_not_run_is_folded(browser: WebDriver) -> None:
    closed, inside = browser.execute_script(FOLDED)
    assert closed == 0 < inside, "its entries are not shown before it is opened"
    browser.execute_script("document.querySelector('#empty summary').click()")
    shown, inside = browser.execute_script(FOLDED)
    assert shown == inside


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_picture_of_its_own_is_light_and_dark(browser: WebDriver, page: str, scheme: str) -> None:
    show(browser, page.replace("report.html", "what_abh_changes.svg"), 1280, scheme)
    ground, ink, words = browser.execute_script(PICTURE)
    assert (sum(ground) > sum(ink)) == (scheme == "light") and abs(sum(ground) - sum(ink)) > 400
    assert "Alloc.Ratio" in words and "mcf" not in words


def test_hostile_text_stays_text(browser: WebDriver, page: str) -> None:
    show(browser, page, 1280, "light")
    assert browser.execute_script("return document.scripts.length") == 0
    text = browser.execute_script("return document.querySelector('#failed').innerText")
    assert "<script>alert(1)</script>" in text and "[bold]not markup[/bold]" in text


def test_a_link_leads_to_its_section(browser: WebDriver, page: str) -> None:
    show(browser, page, 390, "light")
    links = browser.execute_script(
        "return [...document.querySelectorAll('nav a')]"
        ".map(a => [a.innerText, !!document.getElementById(a.hash.slice(1)), a.offsetHeight])"
    )
    titles = [title for _, _, title in SECTIONS]  # the made-up study has a figure in each
    assert [name for name, _, _ in links if name in titles] == titles
    assert len(links) == len(titles) + 5  # what stands before and after the argument
    for name, exists, height in links:
        assert exists and height >= 24, name


def test_screenshots(browser: WebDriver, page: str) -> None:
    """Pictures for a person to look at, where ABH_SCREENSHOTS says."""
    folder = os.environ.get("ABH_SCREENSHOTS")
    if not folder:
        pytest.skip("ABH_SCREENSHOTS names no folder for the pictures")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for width in WIDTHS:
        for scheme in SCHEMES:
            show(browser, page, width, scheme)
            height = browser.execute_script("return document.documentElement.scrollHeight")
            clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
            params = {"format": "png", "captureBeyondViewport": True, "clip": clip}
            shot = browser.execute("executeCdpCommand", {"cmd": "Page.captureScreenshot", "params": params})
            path = Path(folder) / f"report-{width}-{scheme}.png"
            path.write_bytes(base64.b64decode(shot["value"]["data"]))
            assert path.stat().st_size > 10_000
