"""The page of a report in a real browser: light, dark, on a phone, and on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import ROOT
from support.engines import once
from support.examples import slow_except

from bpetite import Tokenizer
from bpetite.analysis import page, report
from conftest import CHROMIUM

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, Page

pytestmark = [once, pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")]

README = (ROOT / "README.md").read_text("utf-8")

FOUND = report(
    {"small": Tokenizer.train(README, 1024), "bytes": Tokenizer.train("", 300)},
    {"readme": README, "mixed": "né 你好 🙂\n\t" * 20, "a-name-" + "of-a-file-" * 9: "x y z " * 99},
    parallel={"English": "a hen", "Greek": "μια κότα", "Chinese": "一只母鸡"},
)

SCREENS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "tablet": {"viewport": {"width": 800, "height": 900}},
    "phone": {"viewport": {"width": 320, "height": 640}, "has_touch": True},
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the file."""
    path: Path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(FOUND, "bpetite report model.json README.md"), "utf-8")
    return path.as_uri()


def opened(browser: Browser, address: str, screen: str) -> tuple[Page, list[str]]:
    """Open the page, and return it with its complaints and its requests."""
    found = browser.new_context(**SCREENS[screen]).new_page()
    complaints: list[str] = []
    found.on("console", lambda message: complaints.append(message.text))
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on("request", lambda request: complaints.append(request.url))
    found.goto(address)
    return found, complaints


@pytest.mark.parametrize("screen", slow_except(SCREENS, "dark", "phone"))
def test_page_fits_the_screen_and_its_colours(browser: Browser, address: str, screen: str) -> None:
    found, complaints = opened(browser, address, screen)
    assert complaints == [address]
    width = SCREENS[screen]["viewport"]["width"]
    assert found.evaluate("document.documentElement.scrollWidth") == width
    assert found.locator("section").count() == 10
    sizes = found.eval_on_selector_all(".chart", "all => all.map(each => each.clientWidth)")
    assert min(sizes) > 100
    colour = found.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(25, 24, 22)" if screen == "dark" else "rgb(251, 250, 246)")
    found.close()


def test_curves_are_read_by_keys_and_pointer(browser: Browser, address: str) -> None:
    found, complaints = opened(browser, address, "light")
    use = FOUND.vocabularies[0].uses[0]
    size, tokens = use.curve[-1]
    found.locator(".curve").first.focus()
    reading = found.locator("#reading")
    assert f"readme, {size:,} ids: small {use.bytes_per_token:.2f} ({tokens:,}" in (
        reading.inner_text()
    )
    found.keyboard.press("ArrowLeft")
    size, tokens = use.curve[-2]
    assert f"readme, {size:,} ids: small" in reading.inner_text()
    found.locator(".curve").nth(1).hover(position={"x": 30, "y": 60})
    assert "mixed, 256 ids: small 1.00" in reading.inner_text()
    assert complaints == [address]
    found.close()


@pytest.mark.slow  # a detail of the page
def test_definitions_open_next_to_their_figures(browser: Browser, address: str) -> None:
    for screen in ("light", "phone"):
        found, complaints = opened(browser, address, screen)
        found.locator("a.term", has_text="Gini").first.click()
        box = found.locator("#definition")
        assert box.is_visible()
        assert "mean absolute difference" in box.inner_text()
        edges = box.bounding_box()
        assert edges is not None
        assert edges["x"] + edges["width"] <= SCREENS[screen]["viewport"]["width"]
        assert complaints == [address]
        found.close()


@pytest.mark.slow  # a detail of the page
def test_print_has_light_colours_and_few_pages(browser: Browser, address: str) -> None:
    found, _ = opened(browser, address, "dark")
    pdf = found.pdf(prefer_css_page_size=True, print_background=True)
    assert pdf.startswith(b"%PDF")
    assert 1 < pdf.count(b"/Type /Page\n") <= 6
    found.emulate_media(media="print")
    assert found.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not found.locator("#reading").is_visible()
    found.close()
