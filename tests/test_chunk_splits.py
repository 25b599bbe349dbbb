"""A text that arrives in chunks is split where no piece and no special literal can span."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from support.engines import once
from support.examples import slow_except
from support.split_cases import ALL_PATTERNS, LITERALS, texts, tokenizer_of

from bpetite import PATTERNS
from bpetite._pretokenizer import ChunkSplitter, Pretokenizer

some_patterns = pytest.mark.parametrize("name", slow_except(ALL_PATTERNS, "gpt2", "o200k", "bloom"))


@cache
def splitter_of(
    pattern: str, literals: tuple[str, ...] = (), normalizer: Any = None
) -> ChunkSplitter:
    return ChunkSplitter(Pretokenizer(pattern, normalizer=normalizer), literals)


@some_patterns
@pytest.mark.parametrize("normalizer", [None, "NFC"])
@pytest.mark.parametrize("literals", [(), LITERALS[:1], LITERALS], ids=len)
@given(text=texts)
def test_ids_of_both_sides_match_the_text(
    name: str, literals: tuple[str, ...], normalizer: Any, text: str
) -> None:
    """Whatever text follows, and wherever the chunk ends: inside a character, too."""
    tokenizer = tokenizer_of(name, literals, normalizer)
    splitter = splitter_of(ALL_PATTERNS[name], literals, normalizer)
    data = text.encode()
    ids = tokenizer.encode(text)
    for end in range(len(data) + 1):
        if split := splitter.last_split(data[:end]):
            found = tokenizer.encode(data[:split]) + tokenizer.encode(data[split:])
            assert found == ids, (data[:split], data[split:end])


@once
@some_patterns
def test_short_texts_of_all_kinds_split_into_their_pieces(name: str) -> None:
    pretokenizer, splitter = Pretokenizer(ALL_PATTERNS[name]), splitter_of(ALL_PATTERNS[name])
    for characters in itertools.product("aSſ你1!'/ \n\xa0\u0301", repeat=4):
        text = "".join(characters)
        at = len(text.encode()[: splitter.last_split(text.encode())].decode())
        parts = pretokenizer.split(text[:at]) + pretokenizer.split(text[at:])
        assert parts == pretokenizer.split(text), (text, at)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt2", "你好|，|世|12|%|3|a|'sb| e|\u0301| x|!|\ny|/|\n z"),
        ("cl100k", "你好|，世|12|%|3|a|'sb| e|\u0301| x|!\n|y|/\n z"),
        ("o200k", "你好|，世|12|%|3|a'sb| e\u0301| x|!\n|y|/\n z"),
        ("qwen2", "你好|，世|1|2|%|3|a|'sb| e|\u0301| x|!\n|y|/\n z"),
        ("words", "你好|，|世|12|%|3|a|'|sb e|\u0301| x|!\n|y|/\n z"),
    ],
)
def test_a_change_of_kind_is_a_split_unless_a_piece_may_go_on(name: str, expected: str) -> None:
    """The native engine finds these too, in rust/src/split/automaton/mod.rs."""
    text = expected.replace("|", "")
    splitter = splitter_of(PATTERNS[name])
    found = {splitter.last_split(text[:end].encode()) for end in range(len(text) + 1)}
    parts = [text.encode()[a:b].decode() for a, b in itertools.pairwise([*sorted(found), None])]
    assert "|".join(parts) == expected


def test_a_begun_literal_may_be_completed() -> None:
    splitter = splitter_of(PATTERNS["gpt2"], ("<|a b|>", "x y z"))
    for data, split in [
        (b"it is <|", 5), (b"it is <|a b|", 5), (b"it is <|a c|", 11), (b"it is x", 5),
        (b"it is x y", 5), (b"it is x y a", 9),
    ]:  # fmt: skip
        assert splitter.last_split(data) == split, data


def test_a_normal_form_keeps_letters_and_marks_together() -> None:
    data = "e\u0301a 1a".encode()
    assert splitter_of(PATTERNS["gpt2"], (), "NFC").last_split(data[:4]) == 0
    assert splitter_of(PATTERNS["gpt2"]).last_split(data[:3]) == 1


@pytest.mark.parametrize("pattern", [r"\w+|\W", r"(?=[ab]b)a|[\s\S]", r"[\s\S]+"])
def test_splits_of_other_patterns_are_unknown(pattern: str) -> None:
    splitter = ChunkSplitter(Pretokenizer(pattern), ())
    assert (splitter.has_splits, splitter.last_split(b"it is 12 a")) == (False, 0)


def test_patterns_in_turn_have_the_splits_of_the_first() -> None:
    splitter = ChunkSplitter(Pretokenizer(PATTERNS["gpt2"], r"\w"), ())
    assert splitter.last_split(b"it is 12 a") == len("it is 12")


@pytest.mark.parametrize("data", [b"\xff" * 9, b"a \xff b\xe4\xbd", b"\x80 a", b"\xe4\xbd"])
def test_bytes_that_are_not_utf8_do_not_matter(data: bytes) -> None:
    split = splitter_of(PATTERNS["gpt2"]).last_split(data)
    assert 0 <= split < len(data)


def test_a_search_goes_on_after_an_earlier_one() -> None:
    """The only split is far before the end, or at the end of the earlier search."""
    splitter = splitter_of(PATTERNS["gpt2"], LITERALS)
    assert splitter.last_split(b"it is" + b"b" * 100_000) == 2
    for begun in (b"b" * 5000, b"b" * 5000 + b"<|a"):
        assert splitter.last_split(begun) in (0, 5000)
        assert splitter.last_split(begun + b" 2", len(begun)) == len(begun)
