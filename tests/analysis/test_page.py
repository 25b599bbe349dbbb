"""`bpetite.analysis.page`: one file in HTML, for every kind of report."""

from __future__ import annotations

import re
import sys
from functools import cache
from html.parser import HTMLParser

import pytest
from support.engines import once
from support.vocabularies import vocabulary

from bpetite import Tokenizer
from bpetite.analysis import page, report

pytestmark = once

SMALL = Tokenizer.train("the hen then met the ten men " * 9, 290)
BYTES = Tokenizer.train("", 256)
HOSTILE = "<script>alert(1)</script> &amp; \"'"


class Elements(HTMLParser):
    """The elements of a page, and whether each is closed."""

    VOID = ("meta", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(str(value))
            elif name in ("href", "src"):
                self.addresses.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


REPORTS = {
    "one": report({"a": SMALL}, {"text": "ten hens"}),
    "two": report({"a": SMALL, "b": BYTES}, {"text": "ten hens", "more": "né 你好\n"}),
    "languages": report({"a": SMALL}, {}, parallel={"en": "ten hens", "de": "", "fr": "né"}),
    "all": report({"a": SMALL, "b": BYTES, "c": SMALL}, {"t": "ten hens"}, parallel={"en": "a"}),
    "empty": report({"a": SMALL}, {"text": ""}),
    "hostile": report({HOSTILE: SMALL, "b": BYTES}, {HOSTILE: HOSTILE}, parallel={HOSTILE: "a"}),
}


@cache
def page_of(name: str) -> str:
    """Return the page of a report."""
    return page(REPORTS[name], "bpetite report")


@pytest.mark.parametrize("name", REPORTS)
def test_page_is_one_whole_file(name: str) -> None:
    elements = Elements(page_of(name))
    assert elements.open == []
    assert len(elements.ids) == len({*elements.ids})
    assert {address for address in elements.addresses if address != "data:,"} <= {
        f"#{id}" for id in elements.ids
    }


@pytest.mark.parametrize("name", REPORTS)
def test_page_asks_no_other_machine(name: str) -> None:
    assert re.findall(r"https?:|//\w|@import|url\(", page_of(name)) == []


def test_names_and_texts_are_escaped() -> None:
    text = page(REPORTS["hostile"], HOSTILE)
    assert "<script>alert" not in text
    assert text.count("<script") == 2
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_sections_follow_the_report() -> None:
    sections = {name: re.findall(r'<section id="(\w+)"', page_of(name)) for name in REPORTS}
    base = ["lengths", "doubtful", "definitions", "again"]
    assert sections["languages"] == ["languages", *base]
    assert sections["one"] == [
        *("compression", "curve", "lengths", "use", "doubtful", "next", "definitions", "again")
    ]
    assert sections["all"][2] == "languages"
    assert sections["all"][-3] == "differences"


def test_figures_match_the_report() -> None:
    text = page_of("two")
    for each in REPORTS["two"].vocabularies:
        assert each.fingerprint in text
        for use in each.uses:
            assert f'<td class="num">{use.tokens:,}</td>' in text
            assert f">{use.bytes_per_token:.2f}</td>" in text


def test_vocabulary_that_changes_the_text_has_no_passage() -> None:
    composed = Tokenizer(vocabulary({}, [], normalizer="NFC"))
    found = report({"a": BYTES, "b": composed}, {"text": "e\u0301"})
    assert 'class="passage"' not in page(found)
    assert 'class="passage"' in page(report({"a": BYTES, "b": SMALL}, {"text": "e\u0301"}))


def test_four_vocabularies_are_too_many() -> None:
    found = report(dict.fromkeys("abcd", BYTES), {"text": "a"})
    with pytest.raises(ValueError, match="a page shows at most 3 vocabularies side by side, got 4"):
        page(found)


def test_missing_jinja_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ModuleNotFoundError, match=r"a page needs Jinja.*: pip install jinja2"):
        page(REPORTS["one"])
