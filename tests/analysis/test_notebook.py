"""A notebook shows a tokenizer as a table, and an explanation as tokens and their merges."""

from __future__ import annotations

import sys
from html.parser import HTMLParser

import pytest
from support.engines import quick_once

from bpetite import Tokenizer
from bpetite.analysis import Explanation, explain

pytest.importorskip("jinja2")

pytestmark = quick_once

TOKENIZER = Tokenizer.train(
    "the hen then met the ten men", 262, special_tokens=["<|endoftext|>", "<b>&"]
)
TEXT = "then the\n hen <i>é&</i> then<b>&"


class Tags(HTMLParser):
    """The tags of HTML, the text in its cells, and the titles of its tokens."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.titles: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.titles += [value or "" for name, value in attributes if name == "title"]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.rstrip("\n")


def html_of(value: Tokenizer | Explanation) -> str:
    """Return what a notebook shows of a value."""
    html = value._repr_html_()
    assert isinstance(html, str)
    return html


def test_explanation_shows_every_token_in_order() -> None:
    found = Tags(html_of(explain(TOKENIZER, TEXT)))
    ids = TOKENIZER.encode(TEXT)
    assert found.titles == [f"id {id}: {TOKENIZER.token_bytes(id).hex(' ')}" for id in ids]


def test_explanation_shows_the_merges_of_each_piece_once() -> None:
    rows = Tags(html_of(explain(TOKENIZER, "then then hen then"))).rows
    assert rows == [
        ["piece", "pair", "rank", "id", "best pair that lost", "the piece after it"],
        ["then", "e n", "0", "256", "h e rank 3", "t h en "],
        ["h en", "4", "260", "no other", "t hen "],
        ["·then", "e n", "0", "256", "· t rank 1", "· t h en "],
        ["· t", "1", "257", "h en rank 4", "·t h en "],
        ["h en", "4", "260", "no other", "·t hen "],
        ["·hen", "e n", "0", "256", "h e rank 3", "· h en "],
        ["h en", "4", "260", "no other", "· hen "],
        ["· hen", "5", "261", "no other", "·hen "],
    ]


def test_text_is_never_html() -> None:
    for value in (explain(TOKENIZER, TEXT), TOKENIZER):
        tags = Tags(html_of(value)).tags
        assert tags.isdisjoint({"b", "script"})
        assert "<b>&" not in html_of(value)
    assert "i" in Tags(html_of(explain(TOKENIZER, "a b"))).tags  # the sign of a space
    assert "&lt;b&gt;&amp;" in html_of(TOKENIZER)


def test_explanation_is_shown_before_and_after_it_is_read() -> None:
    found = explain(TOKENIZER, TEXT)
    before = html_of(found)
    assert [id for piece in found for id in piece.ids] == TOKENIZER.encode(TEXT)
    assert html_of(found) == before


def test_long_texts_are_shown_in_part() -> None:
    html = html_of(explain(TOKENIZER, "then " * 10_000 + "x" * 100))
    assert "the first 400 are shown" in html
    assert len(html) < 100_000
    html = html_of(explain(TOKENIZER, "hen" * 40))
    assert "1 long or late piece without merges here" in html


def test_nothing_is_shown_in_html_without_jinja(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert explain(TOKENIZER, TEXT)._repr_html_() is None


def test_tokenizer_is_a_table() -> None:
    many = Tokenizer.train(
        "", 256, pattern=r"\S+|\s+", special_tokens=[f"<|{n}|>" for n in range(12)]
    )
    rows = Tags(html_of(many)).rows
    assert rows == [
        ["Tokenizer", "268 ids = 256 bytes + 0 merges + 12 special tokens"],
        ["pattern", r"\S+|\s+"],
        ["special tokens", ", ".join([*(f"'<|{n}|>'" for n in range(8)), "4 more"])],
    ]
    assert Tags(html_of(Tokenizer.train("", 256, special_tokens=()))).rows[1:] == [
        ["pattern", "gpt2"],
        ["special tokens", "none"],
    ]


def test_a_notebook_shows_both() -> None:
    """A kernel asks this object of IPython for the forms of a value."""
    formatter = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    for value in (TOKENIZER, explain(TOKENIZER, TEXT)):
        forms, _ = formatter.format(value)
        assert forms["text/html"] == html_of(value)
