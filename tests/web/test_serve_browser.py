"""The page of `serve` in a real browser: its text, its keyboard and its accessibility."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli import TOKENIZER, start
from support.engines import once

from bpetite import Tokenizer
from bpetite._web.display import groups

sync_api = pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    once,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals"),
]

expect.set_options(timeout=60_000)

BYTES = Tokenizer.train("", 256)

PHONE: ViewportSize = {"width": 320, "height": 640}

TEXT = "Hello né 你好 🙂👩‍👩‍👧\n\t<b onclick=alert(1)>bold</b> <script>alert(2)</script>&amp;"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The command with two models: its address, and the file of its standard error."""
    folder = tmp_path_factory.mktemp("serve")
    TOKENIZER.save(folder / "model.json")
    BYTES.save(folder / "bytes.json")
    models = ("--model", str(folder / "model.json"), "--model", str(folder / "bytes.json"))
    errors = folder / "stderr"
    with errors.open("wb") as stderr, start("serve", *models, "--port", "0", stderr=stderr) as run:
        while not errors.read_text().endswith("/\n"):
            assert run.poll() is None
        yield errors.read_text().split(" at ")[1].strip(), errors
        run.terminate()
        run.wait(timeout=30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def pages() -> dict[str, tuple[Page, list[str]]]:
    """The open pages by their options, each with the browser's complaints."""
    return {}


@pytest.fixture(params=[{}], ids=[""])
def page(
    browser: Browser,
    server: tuple[str, Path],
    pages: dict[str, tuple[Page, list[str]]],
    request: pytest.FixtureRequest,
) -> Iterator[Page]:
    """The page, with the options of the parameter; any complaint fails the test."""
    address, errors = server
    options = str(request.param)
    if options not in pages:
        page = browser.new_context(**request.param).new_page()
        pages[options] = page, watched(page, address)
    page, complaints = pages[options]
    page.goto(address)
    expect(page.locator(".token").first).to_be_visible()
    yield page
    found = [*complaints, *errors.read_text().splitlines()[1:]]  # the first line is the address
    complaints.clear()
    assert found == []


def watched(page: Page, address: str) -> list[str]:
    """Return a list that receives the browser's complaints and requests to other sites."""
    complaints: list[str] = []

    def check(address_asked: str) -> None:
        if not address_asked.startswith(address):
            complaints.append(address_asked)

    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: check(request.url))
    return complaints


def box(page: Page) -> Locator:
    """Return the text field."""
    return page.get_by_role("textbox", name="Text")


def replay(page: Page, text: str, pause: str = "0") -> None:
    """Type a text and replay it to the end."""
    box(page).fill(text)
    page.get_by_role("combobox", name="pause").select_option(pause)
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("status")).not_to_be_empty()


def shown(page: Page, name: str) -> str:
    """Return the whole text of the region with a name."""
    return page.get_by_role("region", name=name).text_content() or ""


def tokens(page: Page, model: str) -> list[str]:
    """Return the tokens of a model on the page."""
    listbox = page.get_by_role("listbox", name=f"Tokens of {model}")
    return listbox.get_by_role("option").all_text_contents()


def test_tokens_of_both_models_follow_the_typing(page: Page) -> None:
    box(page).fill("")
    box(page).press_sequentially("hello né\n")
    expect(page.locator(".summary").nth(1)).to_have_text("10 tokens 1.00 bytes per token")
    assert tokens(page, "bytes.json") == [*"hello·n", "é", "↵\n"]
    texts = [group.text for group in groups(TOKENIZER, "hello né\n")]
    marked = [text.replace(" ", "·").replace("\n", "↵\n") for text in texts]
    assert tokens(page, "model.json") == marked


def test_neighbours_differ_in_colour(page: Page) -> None:
    box(page).fill("a🙂b")
    listbox = page.get_by_role("listbox", name="Tokens of bytes.json")
    expect(listbox.get_by_role("option")).to_have_count(3)
    colours = listbox.get_by_role("option").evaluate_all(
        "tokens => tokens.map((token) => getComputedStyle(token).backgroundColor)"
    )
    assert len(set(colours)) == 3
    assert listbox.locator(".shared i").count() == 4


def test_invisible_characters_are_marked(page: Page) -> None:
    box(page).fill("\t\u00a0\u200d\u202e\u0301\ufe0f")
    expect(page.locator(".summary").nth(1)).to_have_text("14 tokens 1.00 bytes per token")
    marks = ["→\t", "\\u{a0}", "\\u{200d}", "\\u{202e}", "◌\u0301", "\\u{fe0f}"]
    assert tokens(page, "bytes.json") == marks


def test_pointing_at_a_token_shows_ids_and_bytes(page: Page) -> None:
    box(page).fill("n 🙂<|endoftext|>")
    listbox = page.get_by_role("listbox", name="Tokens of bytes.json")
    detail = page.locator(".detail").nth(1)
    expect(page.locator(".summary").nth(1)).to_contain_text("7 tokens")
    listbox.get_by_role("option", name="🙂").hover()
    expect(detail).to_have_text("🙂4 tokens:240 (f0)159 (9f)153 (99)130 (82)")
    listbox.get_by_role("option", name="·").hover()
    expect(detail).to_have_text("·32 (20)")
    listbox.get_by_role("option", name="<|endoftext|>").hover()
    expect(detail).to_contain_text("special256 (3c 7c 65")
    page.get_by_role("heading", name="bpetite", exact=True).hover()
    expect(detail).to_contain_text("Point at a token")


def test_special_tokens_may_be_ordinary_text(page: Page) -> None:
    box(page).fill("<|endoftext|>")
    expect(page.locator(".summary").nth(1)).to_have_text("1 token 13.00 bytes per token")
    page.get_by_label("special tokens are ordinary text").check()
    expect(page.locator(".summary").nth(1)).to_have_text("13 tokens 1.00 bytes per token")


def test_replay_loses_characters_only_alone(page: Page) -> None:
    replay(page, TEXT)
    alone = "".join(TOKENIZER.decode([id], errors="replace") for id in TOKENIZER.encode(TEXT))
    assert shown(page, "DecodeStream") == TEXT
    assert shown(page, "Each token alone") == alone
    assert "\ufffd" in alone
    steps = len(TOKENIZER.encode(TEXT))
    lost = alone.count("\ufffd")
    expect(page.get_by_role("status")).to_have_text(
        f"{steps} tokens. The streamed text equals your text; decoded alone, the tokens have "
        f"\ufffd {lost} times."
    )
    expect(page.locator("tbody tr")).to_have_count(steps)


def test_each_step_of_a_replay_is_a_row(page: Page) -> None:
    page.get_by_role("combobox", name="replay of").select_option("bytes.json")
    replay(page, "é!", pause="20")
    rows = page.locator("tbody tr").all()
    assert [row.locator("td").all_text_contents() for row in rows] == [
        ["1", "195", "c3", "\ufffd", "pending c3"],
        ["2", "169", "a9", "\ufffd", "é"],
        ["3", "33", "21", "!", "!"],
    ]


def test_html_in_a_text_is_text(page: Page) -> None:
    replay(page, TEXT)
    assert "".join(tokens(page, "bytes.json")).replace("·", " ").endswith("</script>&amp;")
    assert page.locator("main b:not(.detail b), main script, main [onclick]").count() == 0


@pytest.mark.parametrize("key", ["Enter", "Escape"])
def test_replay_can_stop_and_start_again(page: Page, key: str) -> None:
    """The fixture `page` checks that the server reports no error."""
    box(page).fill("hello " * 200)
    page.get_by_role("combobox", name="pause").select_option("20")
    page.get_by_role("button", name="Replay").press("Enter")
    expect(page.locator("tbody tr").nth(1)).to_be_attached()
    page.get_by_role("button", name="Stop").press(key)
    expect(page.get_by_role("button", name="Replay")).to_be_visible()
    replay(page, "né")
    assert shown(page, "DecodeStream") == "né"


def test_leaving_during_a_replay_is_no_error(page: Page) -> None:
    page.get_by_role("combobox", name="pause").select_option("20")
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("tbody tr").nth(1)).to_be_attached()
    page.reload()
    expect(page.get_by_role("status")).to_be_empty()


def test_keyboard_reaches_everything(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_label("special tokens are ordinary text")).to_be_focused()
    page.keyboard.press("Tab")
    expect(box(page)).to_be_focused()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("hé no")
    expect(page.locator(".summary").nth(1)).to_have_text("6 tokens 1.00 bytes per token")
    page.keyboard.press("Tab")  # to the tokens of the first model: one stop for all of them
    page.keyboard.press("Tab")
    detail = page.locator(".detail").nth(1)
    expect(detail).to_have_text("h104 (68)")
    told = []
    for key in ("ArrowRight", "ArrowRight", "End", "ArrowRight", "ArrowLeft", "Home"):
        page.keyboard.press(key)
        told.append(detail.text_content())
    assert told == [
        "é2 tokens:195 (c3)169 (a9)",
        "·32 (20)",
        "o111 (6f)",
        "o111 (6f)",
        "n110 (6e)",
        "h104 (68)",
    ]
    page.keyboard.press("Tab")
    expect(page.get_by_role("combobox", name="replay of")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("End")  # of the pauses: none
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("equals your text")
    assert shown(page, "DecodeStream") == "hé no"


def test_focused_token_has_an_accessible_name(page: Page) -> None:
    box(page).fill("é")
    expect(page.locator(".summary").nth(1)).to_have_text("2 tokens 1.00 bytes per token")
    token = page.get_by_role("listbox", name="Tokens of bytes.json").get_by_role("option")
    token.click()
    expect(token).to_have_accessible_name('"é": id 195, bytes c3; id 169, bytes a9')
    expect(token).to_have_attribute("aria-selected", "true")


def test_arrows_move_between_lines(page: Page) -> None:
    box(page).fill("abc\nxyz")
    listbox = page.get_by_role("listbox", name="Tokens of bytes.json")
    expect(listbox.get_by_role("option")).to_have_count(7)
    listbox.get_by_text("b", exact=True).click()
    page.keyboard.press("ArrowDown")
    expect(listbox.get_by_text("y", exact=True)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(listbox.get_by_text("b", exact=True)).to_be_focused()


@pytest.mark.parametrize("page", [{"viewport": PHONE, "has_touch": True}], indirect=True)
def test_phone_needs_no_sideways_scrolling(page: Page) -> None:
    replay(page, TEXT + "x" * 500 + "🙂" * 100)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    page.get_by_role("listbox", name="Tokens of bytes.json").get_by_text("你").tap()
    expect(page.locator(".detail").nth(1)).to_have_text("你3 tokens:228 (e4)189 (bd)160 (a0)")


LUMINANCE = """(selector) => {
  const colour = (name) => getComputedStyle(document.querySelector(selector))[name];
  const light = (text) => {
    const parts = text.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
    const linear = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  return [light(colour("backgroundColor")), light(colour("color"))];
}"""
"""The relative luminance of the background and of the text of an element."""


@pytest.mark.parametrize(
    ("page", "is_dark"),
    [({"color_scheme": "light"}, False), ({"color_scheme": "dark"}, True)],
    indirect=["page"],
    ids=["light", "dark"],
)
def test_contrast_in_light_and_dark(page: Page, is_dark: bool) -> None:
    replay(page, "one two three four 🙃 <|endoftext|>")
    for part in ("body", "textarea", ".lost", *(f".hue-{hue}" for hue in range(5))):
        back, text = page.evaluate(LUMINANCE, part)
        contrast = (max(back, text) + 0.05) / (min(back, text) + 0.05)
        assert ((back < text), contrast > 4.5) == (is_dark, True), part


@pytest.mark.parametrize("page", [{"reduced_motion": "reduce"}], indirect=True)
def test_reduced_motion_stops_animations(page: Page) -> None:
    expect(page.get_by_role("combobox", name="pause")).to_have_value("0")
    page.get_by_role("combobox", name="pause").select_option("300")
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert page.evaluate("document.getAnimations().length") == 0


def test_too_long_text_is_not_sent(page: Page) -> None:
    box(page).fill("é" * 32_769)
    expect(page.get_by_role("alert")).to_have_text("The text has 65,538 bytes; 65,536 can be sent.")
    box(page).fill("é")
    expect(page.get_by_role("alert")).to_be_empty()


def test_long_text_shows_its_first_tokens(page: Page) -> None:
    box(page).fill("né " * 3000)
    expect(page.locator(".summary").nth(1)).to_have_text(
        "12,000 tokens 1.00 bytes per token; the first are shown"
    )
    assert tokens(page, "bytes.json") == (["n", "é", "·"] * 4000)[:4000]
