"""The page of `serve` in a real browser: its text, its keyboard and its accessibility."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from support.cli import TOKENIZER, start
from support.engines import once

from bpetite import Tokenizer
from bpetite._web.app import MAX_BYTES
from bpetite._web.display import groups
from bpetite.analysis import explain
from conftest import CHROMIUM

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, Locator, Page, Route, ViewportSize, expect

# Each slow test looks at a detail, the others at the whole of a view.
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


def view(page: Page, name: str) -> None:
    """Open a view by its tab."""
    page.get_by_role("tab", name=name).click()
    expect(page.get_by_role("tabpanel", name=name)).to_be_visible()


def write(page: Page, text: str) -> None:
    """Type a text into the field of the first view."""
    view(page, "Tokens")
    box(page).fill(text)


def verdict(page: Page) -> Locator:
    """Return the sentence below a replay."""
    return page.locator("#verdict")


def replay(page: Page, text: str) -> None:
    """Type a text and replay it to its end at once."""
    write(page, text)
    view(page, "Stream")
    stream = page.locator("#stream")
    expect(stream.get_by_role("button", name="Play")).to_be_enabled()
    stream.get_by_role("button", name="last step").click()
    expect(verdict(page)).to_contain_text("The streamed text")


def shown(page: Page, name: str) -> str:
    """Return the whole text of the region with a name."""
    return page.get_by_role("region", name=name).text_content() or ""


def tokens(page: Page, model: str) -> list[str]:
    """Return the tokens of a model on the page; those that share a character are one."""
    listbox = page.get_by_role("listbox", name=f"Tokens of {model}")
    return listbox.locator(".token").all_text_contents()


def test_tokens_of_both_models_follow_the_typing(page: Page) -> None:
    box(page).fill("")
    box(page).press_sequentially("hello né\n")
    expect(page.locator(".summary").nth(1)).to_have_text("10 tokens 1.00 bytes per token")
    assert tokens(page, "bytes.json") == [*"hello·n", "é", "↵\n"]
    texts = [group.text for group in groups(TOKENIZER, "hello né\n")]
    marked = [text.replace(" ", "·").replace("\n", "↵\n") for text in texts]
    assert tokens(page, "model.json") == marked


@pytest.mark.slow
def test_neighbours_differ_in_colour(page: Page) -> None:
    box(page).fill("a🙂b")
    listbox = page.get_by_role("listbox", name="Tokens of bytes.json")
    expect(listbox.get_by_role("option")).to_have_count(6)
    colours = listbox.get_by_role("option").evaluate_all(
        "tokens => tokens.map((token) => getComputedStyle(token).backgroundColor)"
    )
    assert len(set(colours)) == 4
    assert all(one != two for one, two in pairwise(colours))
    assert listbox.locator(".shared i").count() == 4


@pytest.mark.slow
def test_invisible_characters_are_marked(page: Page) -> None:
    box(page).fill("\t\u00a0\u200d\u202e\u0301\ufe0f")
    expect(page.locator(".summary").nth(1)).to_have_text("14 tokens 1.00 bytes per token")
    marks = ["→\t", "\\u{a0}", "\\u{200d}", "\\u{202e}", "◌\u0301", "\\u{fe0f}"]
    assert tokens(page, "bytes.json") == marks


@pytest.mark.slow
def test_pointing_at_a_token_shows_ids_and_bytes(page: Page) -> None:
    box(page).fill("n 🙂<|endoftext|>")
    listbox = page.get_by_role("listbox", name="Tokens of bytes.json")
    detail = page.locator(".detail").nth(1)
    expect(page.locator(".summary").nth(1)).to_contain_text("7 tokens")
    listbox.get_by_role("group", name="🙂").get_by_text("🙂").hover()
    expect(detail).to_have_text("🙂token 1 of 4id 240F0")
    listbox.locator(".bricks i").nth(2).hover()
    expect(detail).to_have_text("🙂token 3 of 4id 15399")
    listbox.get_by_role("option", name="·").hover()
    expect(detail).to_have_text("·id 3220")
    listbox.get_by_role("option", name="<|endoftext|>").hover()
    expect(detail).to_contain_text("specialid 2563C 7C 65")
    page.get_by_role("heading", name="bpetite", exact=True).hover()
    expect(detail).to_contain_text("Point at a token")


@pytest.mark.slow
def test_special_tokens_may_be_ordinary_text(page: Page) -> None:
    box(page).fill("<|endoftext|>")
    expect(page.locator(".summary").nth(1)).to_have_text("1 token 13.00 bytes per token")
    page.get_by_label("special tokens are ordinary text").check()
    expect(page.locator(".summary").nth(1)).to_have_text("13 tokens 1.00 bytes per token")


@pytest.mark.slow
def test_replay_loses_characters_only_alone(page: Page) -> None:
    replay(page, TEXT)
    alone = "".join(TOKENIZER.decode([id], errors="replace") for id in TOKENIZER.encode(TEXT))
    assert shown(page, "DecodeStream") == TEXT
    assert shown(page, "Each token alone") == alone
    assert "\ufffd" in alone
    steps = len(TOKENIZER.encode(TEXT))
    expect(verdict(page)).to_have_text("The streamed text equals your text.")
    expect(page.locator("#lost")).to_have_text("\ufffd {} times".format(alone.count("\ufffd")))
    expect(page.locator("#strip .chip")).to_have_count(steps)


def test_stream_is_played_and_stepped(page: Page) -> None:
    write(page, "é!")
    view(page, "Stream")
    stream = page.locator("#stream")
    stream.get_by_role("combobox", name="vocabulary").select_option("bytes.json")
    expect(page.locator("#stream output")).to_have_text("token 0 of 3")
    stream.get_by_role("button", name="one step on").click()
    assert (shown(page, "Each token alone"), shown(page, "DecodeStream")) == ("\ufffd", "")
    expect(page.locator("#pending")).to_have_text("pending: C3")
    assert page.locator("#strip .now").all_text_contents() == ["C3"]
    stream.get_by_role("combobox", name="pace").select_option("fast")
    stream.get_by_role("button", name="Play").click()
    expect(page.locator("#stream output")).to_have_text("token 3 of 3")
    expect(stream.get_by_role("button", name="Play")).to_be_visible()
    assert [row.locator("td").all_text_contents() for row in page.locator("#steps tr").all()] == [
        ["1", "195", "C3", "\ufffd", "pending C3"],
        ["2", "169", "A9", "\ufffd", "é"],
        ["3", "33", "21", "!", "!"],
    ]
    page.locator("#strip .chip").nth(1).click()
    expect(page.locator("#stream output")).to_have_text("token 2 of 3")
    page.reload()
    expect(page.locator("#stream output")).to_have_text("token 2 of 3")


def test_html_in_a_text_is_text(page: Page) -> None:
    replay(page, TEXT)
    view(page, "Tokens")
    listbox = page.get_by_role("listbox", name="Tokens of bytes.json")
    expect(listbox).to_contain_text("</script>&amp;")  # the tokens come later than the replay
    assert "".join(tokens(page, "bytes.json")).replace("·", " ").endswith("</script>&amp;")
    assert page.locator("#tokens b:not(.detail b), main script, main [onclick]").count() == 0


@pytest.mark.slow
def test_new_text_ends_the_replay_of_the_old_one(page: Page) -> None:
    write(page, "hello " * 200)
    view(page, "Stream")
    page.locator("#stream").get_by_role("button", name="Play").click()
    expect(page.locator("#steps tr").nth(1)).to_be_attached()
    write(page, "né")
    view(page, "Stream")
    expect(page.locator("#stream output")).to_have_text("token 0 of 2")
    replay(page, "né")
    assert shown(page, "DecodeStream") == "né"


@pytest.mark.slow
def test_keyboard_reaches_everything(page: Page) -> None:
    box(page).focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("hé no")
    expect(page.locator(".summary").nth(1)).to_have_text("6 tokens 1.00 bytes per token")
    listbox = page.get_by_role("listbox", name="Tokens of bytes.json")
    while not listbox.get_by_role("option", name="h").evaluate("each => each.matches(':focus')"):
        page.keyboard.press("Tab")  # one stop for all tokens of a model
    detail = page.locator(".detail").nth(1)
    expect(detail).to_have_text("hid 10468")
    told = []
    for key in ("ArrowRight", "ArrowRight", "End", "ArrowRight", "ArrowLeft", "Home"):
        page.keyboard.press(key)
        told.append(detail.text_content())
    assert told == [
        "étoken 1 of 2id 195C3",
        "étoken 2 of 2id 169A9",
        "oid 1116F",
        "oid 1116F",
        "nid 1106E",
        "hid 10468",
    ]
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Merge tree")).to_be_focused()
    page.keyboard.press("Escape")
    expect(listbox.get_by_role("option", name="h")).to_be_focused()
    page.keyboard.press("4")
    expect(page.locator("#stream output")).to_have_text("token 0 of 6")
    page.keyboard.press("Space")
    expect(verdict(page)).to_contain_text("equals your text")
    assert shown(page, "DecodeStream") == "hé no"
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("3")
    expect(page.locator("#training output")).to_have_text("merge 0 of 13")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#training output")).to_have_text("merge 1 of 13")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")


@pytest.mark.slow
def test_focused_token_has_an_accessible_name(page: Page) -> None:
    box(page).fill("é")
    expect(page.locator(".summary").nth(1)).to_have_text("2 tokens 1.00 bytes per token")
    tokens = page.get_by_role("listbox", name="Tokens of bytes.json").get_by_role("option")
    token = tokens.nth(1)
    token.click()
    expect(token).to_be_focused()
    expect(token).to_have_accessible_name("é, token 2 of 2, id 169, A9")
    expect(token).to_have_attribute("aria-selected", "true")


@pytest.mark.slow
def test_arrows_move_between_lines(page: Page) -> None:
    box(page).fill("abc\nxyz")
    listbox = page.get_by_role("listbox", name="Tokens of bytes.json")
    expect(listbox.get_by_role("option")).to_have_count(7)
    listbox.get_by_text("b", exact=True).click()
    page.keyboard.press("ArrowDown")
    expect(listbox.get_by_text("y", exact=True)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(listbox.get_by_text("b", exact=True)).to_be_focused()


LUMINANCE = """(selector) => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const shown = document.querySelector(selector);
  let back = shown;
  while (parts(getComputedStyle(back).backgroundColor)[3] === 0) back = back.parentElement;
  const ground = parts(getComputedStyle(back).backgroundColor);
  const [red, green, blue, alpha = 1] = parts(getComputedStyle(shown).color);
  const ink = [red, green, blue].map((part, at) => alpha * part + (1 - alpha) * ground[at]);
  const light = (colour) => {
    const linear = colour.map((part) => part / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  return [light(ground), light(ink)];
}"""
"""The relative luminance of the background and of the text of an element."""


@pytest.mark.parametrize(
    ("page", "is_dark"),
    [({"color_scheme": "light"}, False), ({"color_scheme": "dark"}, True)],
    indirect=["page"],
    ids=["light", "dark"],
)
def test_contrast_in_light_and_dark(page: Page, is_dark: bool) -> None:
    replay(page, "one two three four      🙃 <|endoftext|>")
    hues = [f".token.hue-{hue}" for hue in range(4)]
    for part in ("body", "textarea", ".lost", *hues, *(f"{hue} .mark" for hue in hues)):
        back, text = page.evaluate(LUMINANCE, part)
        contrast = (max(back, text) + 0.05) / (min(back, text) + 0.05)
        assert ((back < text), contrast > 4.5) == (is_dark, True), part


@pytest.mark.slow
@pytest.mark.parametrize("page", [{"reduced_motion": "reduce"}], indirect=True)
def test_reduced_motion_stops_animations(page: Page) -> None:
    write(page, TEXT)
    view(page, "Stream")
    page.locator("#stream").get_by_role("button", name="Play").click()
    expect(verdict(page)).to_contain_text("equals your text")  # it goes to the end at once
    assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.slow
def test_long_texts_are_shown_in_part_or_refused(page: Page) -> None:
    summary = page.locator(".summary").nth(1)
    box(page).fill("né " * 3000)
    expect(summary).to_have_text("12,000 tokens 1.00 bytes per token; the first 5,333 are shown")
    assert tokens(page, "bytes.json") == (["n", "é", "·"] * 4000)[:4000]
    box(page).fill("hello world " * 100_000)
    expect(summary).to_have_text("1,200,000 tokens 1.00 bytes per token; the first 4,000 are shown")
    box(page).fill("é" * (MAX_BYTES // 2 + 1))
    alert = page.get_by_role("alert")
    expect(alert).to_have_text("The text has 2,097,154 bytes; 2,097,152 can be sent.")
    assert page.locator(".count").all_text_contents() == ["not counted"] * 2
    assert tokens(page, "bytes.json") == []
    box(page).fill("é")
    expect(alert).to_be_empty()
    expect(page.locator(".count").nth(1)).to_have_text("2 tokens")


# Trees


def test_click_on_a_token_shows_its_tree(page: Page) -> None:
    box(page).fill("hello world")
    listbox = page.get_by_role("listbox", name="Tokens of model.json")
    expect(page.locator(".count").nth(1)).to_have_text("11 tokens")
    listbox.get_by_role("option").last.click()
    (piece,) = (piece for piece in explain(TOKENIZER, "hello world") if piece.text == " world")
    rows = page.locator("#merges tbody tr")
    expect(rows).to_have_count(len(piece.steps) + 1)
    expect(rows.last).to_have_text("One token is left: the piece is done.")
    facts = page.locator("#facts")
    expect(facts).to_contain_text(f"rank {piece.steps[-1].rank} of {len(TOKENIZER.merges)}, from")
    expect(facts).to_contain_text("6 bytes 20 77 6F 72 6C 64")
    expect(page.locator("#tree .node")).to_have_count(len(piece.byte_ids) + len(piece.steps))
    seen = [row.locator("td").all_text_contents() for row in rows.all()[:-1]]
    for number, (cells, step) in enumerate(zip(seen, piece.steps, strict=True), 1):
        waits = step.lost and step.lost in [later.pair for later in piece.steps[number:]]
        fate = "waits" if waits else "its part is taken"
        lost = f" rank {step.lost_rank}: {fate}" if step.lost else "no other pair is a merge"
        assert (cells[0], cells[2], cells[3]) == (str(number), str(step.rank), str(step.id))
        assert cells[4] == step.token.hex(" ").upper()
        assert cells[5].endswith(lost)
    page.get_by_role("button", name="first step").first.click()
    expect(page.locator("#tree .node:not(.off)")).to_have_count(len(piece.byte_ids))
    page.keyboard.press(".")
    expect(page.locator("#tree .node.now")).to_have_count(1)


@pytest.mark.slow
def test_tree_matches_the_chosen_token(page: Page) -> None:
    def choose(token: str, text: str) -> None:
        box(page).fill(text)
        expect(page.locator(".count").nth(1)).to_have_text(f"{len(text)} tokens")
        page.get_by_role("listbox", name="Tokens of bytes.json").get_by_text(token).first.click()

    choose("d", "ab cd")
    expect(page.locator(".token.peer")).to_have_text(["·", "c", "d"])
    choose("b", "<b>bold</b>")
    expect(page.locator("#facts")).to_contain_text("in bytes.json")
    expect(page.locator("#tree")).to_be_visible()
    assert page.locator("#made b b, #made script").count() == 0
    box(page).fill("né")
    expect(page.locator("#tree")).to_be_hidden()
    choose("a", "a" * 300)
    expect(page.locator("#made-lead")).to_have_text(
        "This piece has 300 bytes; a tree of at most 256 is drawn."
    )


# Ids, links and directions


@pytest.mark.slow
def test_ids_can_be_copied(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    box(page).fill("hello né")
    expect(page.locator(".count").first).to_contain_text("token")
    page.get_by_role("button", name="Copy ids").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    ids = " ".join(map(str, TOKENIZER.encode("hello né")))
    assert page.evaluate("navigator.clipboard.readText()") == ids
    expect(page.locator(".ids code").first).to_have_text(ids)


@pytest.mark.slow
def test_address_brings_everything_back(page: Page) -> None:
    page.get_by_label("special tokens are ordinary text").check()
    box(page).fill("hello né\n")  # last, so no later answer replaces the tokens
    listbox = page.get_by_role("listbox", name="Tokens of bytes.json")
    expect(listbox.get_by_role("option")).to_have_count(10)
    listbox.get_by_role("option", name="n", exact=True).click()
    expect(page.locator("#facts")).to_contain_text("in bytes.json")
    page.reload()
    expect(box(page)).to_have_value("hello né\n")
    expect(page.get_by_label("special tokens are ordinary text")).to_be_checked()
    expect(page.locator("#facts")).to_contain_text("id 110")
    expect(listbox.locator("[aria-selected]")).to_have_text("n")


@pytest.mark.slow
def test_long_text_survives_a_reload_without_a_link(page: Page) -> None:
    text = "a long text " * 1000
    box(page).fill(text)
    expect(page.get_by_role("button", name="Copy link")).to_be_disabled()
    page.reload()
    expect(box(page)).to_have_value(text)


@pytest.mark.slow
def test_signs_are_left_to_right_in_any_text(page: Page) -> None:
    box(page).fill("שלום\t\u200babc")
    listbox = page.get_by_role("listbox", name="Tokens of model.json")
    expect(listbox.get_by_text("\\u{200b}")).to_be_visible()
    assert listbox.evaluate("each => getComputedStyle(each).direction") == "rtl"
    marks = listbox.locator(".mark").evaluate_all(
        "marks => marks.map((mark) => [mark.dir, getComputedStyle(mark).unicodeBidi])"
    )
    assert marks == [["ltr", "isolate"]] * 2


@pytest.mark.slow
def test_legend_explains_the_signs(page: Page) -> None:
    legend = page.get_by_role("list", name="legend")
    expect(legend).to_contain_text("one character in four tokens")
    expect(legend).to_contain_text("a special token")
    expect(legend).to_contain_text("space")


@pytest.mark.slow
@pytest.mark.parametrize("page", [{"viewport": PHONE, "has_touch": True}], indirect=True)
def test_phone_has_large_controls_and_scrolls_down_alone(page: Page) -> None:
    replay(page, TEXT + "x" * 500 + "🙂" * 100)
    for name in ("Stream", "Tokens", "Vocabulary", "Training"):
        view(page, name)
        expect(page.locator("main button:visible, main select:visible").first).to_be_visible()
        heights = page.locator("button:not(.chip, .jump):visible, select:visible").evaluate_all(
            "all => all.map((each) => each.getBoundingClientRect().height)"
        )
        assert min(heights) >= 44
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    view(page, "Tokens")
    page.get_by_role("listbox", name="Tokens of bytes.json").get_by_text("你").tap()
    expect(page.locator(".detail").nth(1)).to_have_text("你token 1 of 3id 228E4")
    write(page, "שלום hello")
    expect(page.locator(".count").nth(1)).to_have_text("14 tokens")
    page.get_by_role("listbox", name="Tokens of model.json").get_by_text("h").first.tap()
    expect(page.locator("#merges")).to_be_visible()
    spills = page.locator("#merges td").evaluate_all(
        "cells => cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).length"
    )
    assert spills == 0


# Vocabulary


def search(page: Page, text: str) -> list[str]:
    """Search the vocabulary and return the ids in its table."""
    before = page.locator("#hits").text_content()
    page.get_by_role("searchbox").fill(text)
    expect(page.locator("#hits")).not_to_have_text(str(before))
    return page.locator("#rows td:first-child").all_text_contents()


@pytest.mark.slow
def test_vocabulary_is_searched_by_text_bytes_and_id(page: Page) -> None:
    view(page, "Vocabulary")
    expect(page.locator("#hits")).to_contain_text("of 292")
    with_ll = [str(id) for id in TOKENIZER.ids if b"ll" in TOKENIZER.token_bytes(id)]
    assert sorted(search(page, "ll")) == sorted(with_ll)
    assert search(page, "#290") == ["290"]
    with_cafe = [str(id) for id in TOKENIZER.ids if b"\xc3\xa9" in TOKENIZER.token_bytes(id)]
    assert sorted(search(page, "c3 a9")) == sorted(with_cafe)
    assert search(page, "no such token") == []
    expect(page.locator("#nothing")).to_be_visible()


@pytest.mark.slow
def test_token_of_the_vocabulary_has_parts_and_wholes(page: Page) -> None:
    view(page, "Vocabulary")
    rank, (left, right) = next(
        (rank, pair) for rank, pair in enumerate(TOKENIZER.merges) if rank and max(pair) > 255
    )
    page.get_by_role("searchbox").fill(f"#{256 + rank}")
    expect(page.locator("#rows tr")).to_have_count(1)
    detail = page.get_by_role("complementary", name="The chosen token")
    expect(detail).to_contain_text(f"rank {rank}")
    expect(detail).to_contain_text("Learnt from the pair")
    part = max(left, right)
    detail.locator(f'button[title^="id {part}:"]').first.click()
    expect(detail).to_contain_text(f"id {part}")
    expect(detail).to_contain_text("Part of")


@pytest.mark.slow
def test_vocabulary_knows_the_tokens_of_the_text(page: Page) -> None:
    box(page).fill("hello hello")
    view(page, "Vocabulary")
    expect(page.locator("#hits")).to_contain_text("in your text")
    used = set(TOKENIZER.encode("hello hello"))
    page.get_by_role("combobox", name="tokens to show").select_option("used")
    expect(page.locator("#rows tr")).to_have_count(len(used))
    ids = page.locator("#rows td:first-child").all_text_contents()
    assert {int(id) for id in ids} == used
    page.get_by_role("combobox", name="tokens to show").select_option("unused")
    expect(page.locator("#hits")).to_contain_text(f"{292 - len(used)} tokens of 292")


# Training


@pytest.mark.slow
def test_training_is_played_and_stepped(page: Page) -> None:
    view(page, "Training")
    page.get_by_role("textbox", name="Training").fill("ab ab abc")
    expect(page.locator("#training output")).to_have_text("merge 0 of 3")
    expect(page.locator("#winner")).to_have_text(
        "a b has the highest count, 3. The merge has rank 0 and makes the id 256."
    )
    page.locator("#training").get_by_role("button", name="one step on").click()
    assert page.locator(".piece").all_text_contents() == ["ab", "·ab", "·abc"]
    assert page.locator("#learnt li").all_text_contents() == ["0ab"]
    page.locator("#training").get_by_role("button", name="one step on").click()
    page.locator("#training").get_by_role("button", name="Play").click()
    expect(page.locator("#training output")).to_have_text("merge 3 of 3")
    expect(page.locator("#winner")).to_contain_text("No pair is left")


@pytest.mark.slow
def test_training_explains_ties_and_refuses_long_texts(page: Page) -> None:
    view(page, "Training")
    corpus = page.get_by_role("textbox", name="Training")
    corpus.fill("ab cd")
    expect(page.locator("#winner")).to_have_text(
        "· c has the highest count, 1, and so have 2 other pairs. The smallest ids win: "
        "32 is less than 97, the first id of a b. The merge has rank 0 and makes the id 256."
    )
    corpus.fill("x" * 1001)
    expect(page.get_by_role("alert")).to_have_text("The text has 1,001 bytes; 1,000 can be sent.")
    expect(page.locator("#corpus-size")).to_have_text("1,001 of at most 1,000 bytes")
    expect(page.locator("#trained")).to_be_hidden()


def test_learnt_merges_encode_the_text(page: Page) -> None:
    write(page, "the hen")
    view(page, "Training")
    expect(page.locator("#training output")).to_have_text("merge 0 of 13")
    page.locator("#training").get_by_role("button", name="last step").click()
    page.get_by_role("button", name="Use these 13 merges in Tokens").click()
    name = "learnt in Training: 13 merges"
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    learnt = Tokenizer.train("the hen then met the ten men", 269)
    expect(page.locator(".ids code").nth(2)).to_have_text(
        " ".join(map(str, learnt.encode("the hen")))
    )
    page.reload()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("heading", name=name)).to_have_count(0)


@pytest.mark.slow
def test_words_have_definitions(page: Page) -> None:
    view(page, "Training")
    word = page.locator("#training .term").first
    expect(word.locator(".definition")).to_be_hidden()
    word.hover()
    expect(word.locator(".definition")).to_contain_text("cuts a text into pieces")
    page.locator("#training .term").nth(2).focus()
    expect(page.locator("#training .term").nth(2).locator(".definition")).to_be_visible()


def test_learnt_token_leads_to_its_step(page: Page) -> None:
    view(page, "Training")
    page.locator("#training").get_by_role("button", name="last step").click()
    page.locator("#learnt").get_by_role("button").nth(2).click()
    expect(page.locator("#training output")).to_have_text("merge 2 of 13")
    expect(page.locator("#winner")).to_contain_text("The merge has rank 2 and makes the id 258.")


@pytest.mark.slow
def test_training_has_no_steps_before_its_answer(page: Page) -> None:
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        waiting.append(route)

    page.route("**/training*", hold)
    view(page, "Training")
    for name in ("Play", "first step", "one step back", "one step on", "last step"):
        expect(page.locator("#training").get_by_role("button", name=name)).to_be_disabled()
    page.keyboard.press(",")
    waiting[0].continue_()
    page.unroute("**/training*")
    expect(page.locator("#training output")).to_have_text("merge 0 of 13")


# The address, and keys of single views


@pytest.mark.slow
def test_nonsense_in_the_address_is_ignored(page: Page) -> None:
    page.goto(page.url.partition("#")[0] + "#vocabulary?sort=x&show=y&of=7&id=x&at=-1&no=1")
    expect(page.get_by_role("tabpanel", name="Vocabulary")).to_be_visible()
    expect(page.get_by_role("combobox", name="sort by")).to_have_value("uses")
    expect(page.locator("#vocabulary select.of")).to_have_value("0")


@pytest.mark.slow
def test_arrows_move_between_rows_of_the_vocabulary(page: Page) -> None:
    view(page, "Vocabulary")
    page.get_by_role("combobox", name="sort by").select_option("rank")
    detail = page.get_by_role("complementary", name="The chosen token")
    expect(detail).to_contain_text("id 0")
    page.locator("#rows tr").first.focus()
    page.keyboard.press("ArrowDown")
    expect(detail).to_contain_text("id 1")
    expect(page.locator("#rows tr").nth(1)).to_be_focused()


@pytest.mark.slow
def test_theme_and_size_can_be_chosen(page: Page) -> None:
    body = page.locator("body")
    expect(body).to_have_css("background-color", "rgb(251, 250, 246)")
    page.get_by_role("button", name="light or dark").click()
    expect(body).to_have_css("background-color", "rgb(25, 24, 22)")
    before = page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")
    page.get_by_role("button", name="larger type").click()
    assert page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") > before
