"""Whoever counts a text that was cut to a budget gets at most the budget, and no more would fit."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import time
import tracemalloc
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import DATA, reference, split_cases
from support.engines import quick_once
from support.examples import few_examples, slow_except
from support.split_cases import CHARACTERS, LITERALS
from support.times import best_time

import bpetite
from bpetite import PATTERNS, Chunk, Tokenizer
from bpetite._vocabulary import Stages
from conftest import TEXTS

pytestmark = quick_once

texts = st.lists(st.sampled_from(CHARACTERS), max_size=24).map("".join)
budgets = st.integers(0, 12)


def tokenizer_of(pattern: str, with_literals: bool = False, normalizer: Any = None) -> Tokenizer:
    return split_cases.tokenizer_of(pattern, LITERALS if with_literals else (), normalizer)


@cache
def public_tokenizer() -> Tokenizer:
    """Return the tokenizer of cl100k_base, whose runs of symbols are long tokens."""
    path = DATA / "cl100k_base.tiktoken"
    return Tokenizer.load(path) if path.is_file() else pytest.skip(f"needs {path.name}")


tokenizers = st.sampled_from(
    [
        *(tokenizer_of(name, with_literals=True) for name in ("gpt2", "cl100k", "o200k")),
        tokenizer_of("gpt2"),
        tokenizer_of(r"\w+|\W"),
        tokenizer_of("(?s:.+)"),
        tokenizer_of("gpt2", with_literals=True, normalizer="NFC"),
    ]
)


def longest_prefix(tokenizer: Tokenizer, text: str, budget: int) -> str:
    """Return the longest prefix that fits: all of them are tried."""
    prefixes = [text[:end] for end in range(len(text) + 1)]
    return [prefix for prefix in prefixes if len(tokenizer.encode(prefix)) <= budget][-1]


def longest_suffix(tokenizer: Tokenizer, text: str, budget: int) -> str:
    suffixes = [text[start:] for start in range(len(text) + 1)]
    return next(suffix for suffix in suffixes if len(tokenizer.encode(suffix)) <= budget)


def check_budget(tokenizer: Tokenizer, text: str, budget: int) -> None:
    """Check `fits`, and both ends that `truncate` keeps."""
    assert tokenizer.fits(text, budget) == (tokenizer.count(text) <= budget)
    assert tokenizer.truncate(text, budget) == longest_prefix(tokenizer, text, budget)
    expected = longest_suffix(tokenizer, text, budget)
    assert tokenizer.truncate(text, budget, keep="end") == expected


@settings(max_examples=2 * settings().max_examples)
@given(tokenizers, texts, budgets)
def test_truncate_keeps_the_longest_start_or_end(
    tokenizer: Tokenizer, text: str, budget: int
) -> None:
    check_budget(tokenizer, text, budget)


@few_examples
@given(
    texts.filter(bool), st.sampled_from(["e\u0301", "\u0301", " a\u0323\u0301", "\u212a"]), budgets
)
def test_a_normal_form_beyond_the_budget_changes_nothing(
    unit: str, other: str, budget: int
) -> None:
    tokenizer = tokenizer_of("gpt2", with_literals=True, normalizer="NFC")
    unit = unicodedata.normalize("NFC", unit)
    text = unit * (250 // len(unit))
    check_budget(tokenizer, text + other, budget)
    check_budget(tokenizer, other + text, budget)


@few_examples
@given(
    st.integers(0, 60),
    st.lists(st.sampled_from("ab \u0958é\u212a"), max_size=90),
    st.integers(0, 4),
)
@example(60, [*"a b c d " * 8], 2)
def test_budgets_of_text_that_becomes_longer(marks: int, parts: list[str], budget: int) -> None:
    trained = Tokenizer.train("ab", 257, special_tokens=())
    tokenizer = Tokenizer(replace(trained._vocabulary, normalizer="NFC"))
    check_budget(tokenizer, "\u0958" * marks + "".join(parts), budget)


@few_examples
@given(
    tokenizers,
    st.lists(st.sampled_from(["a", "aa", "abcd", "你", "aS"]), min_size=90, max_size=150),
    st.integers(0, 150),
)
def test_a_long_stretch_is_cut_as_a_short_one(
    tokenizer: Tokenizer, parts: list[str], budget: int
) -> None:
    text = "".join(parts)
    with (
        mock.patch("bpetite._budget._MAX_TRIED_CUTS", 48),
        mock.patch("bpetite._budget._ANCHOR_DISTANCE", 16),
    ):
        check_budget(tokenizer, text, budget)


@pytest.mark.parametrize(
    ("character", "budget", "length"), [("=", 4, 272), (" ", 4, 512), ("*", 5, 336), ("-", 5, 352)]
)
def test_a_run_of_symbols_is_cut_as_long_as_fits(character: str, budget: int, length: int) -> None:
    cl100k = public_tokenizer()
    ends = [*range(length, length + 16), *range(length + 16, 600, 16)]
    assert [end for end in ends if cl100k.count(character * end) <= budget] == [length]
    assert cl100k.truncate(character * 2000, budget) == character * length
    assert cl100k.truncate(character * 2000, budget, keep="end") == character * length


# Chunks


def checked(
    tokenizer: Tokenizer, text: str, budget: int, overlap: int = 0, **options: Any
) -> list[Chunk]:
    """Return the chunks of a text, which obey the laws of chunks."""
    chunks = list(tokenizer.chunks(text, budget, overlap=overlap, **options))
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end] != ""
        assert chunk.ids == tokenizer.encode(chunk.text)
        assert len(chunk.ids) <= budget
    for one, other in itertools.pairwise(chunks):
        assert one.start < other.start <= one.end < other.end
        assert tokenizer.count(text[other.start : one.end]) <= overlap
    assert [chunk.start for chunk in chunks[:1]] == [0] * bool(text)
    assert [chunk.end for chunk in chunks[-1:]] == [len(text)] * bool(text)
    return chunks


@given(tokenizers, texts, st.integers(12, 20), st.integers(0, 11))
def test_chunks_cover_the_text(tokenizer: Tokenizer, text: str, budget: int, overlap: int) -> None:
    chunks = checked(tokenizer, text, budget)
    assert "".join(chunk.text for chunk in chunks) == text
    checked(tokenizer, text, budget, overlap)


@pytest.mark.parametrize("budget", slow_except([12, 50, 400], 12, 400))
@pytest.mark.parametrize("text_case", TEXTS)
def test_chunks_of_every_kind_of_text(text_case: str, budget: int) -> None:
    text = TEXTS[text_case][:20_000]
    for tokenizer in (tokenizer_of("gpt2", with_literals=True), tokenizer_of("o200k")):
        for overlap in (0, budget // 4):
            checked(tokenizer, text, budget, overlap)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_chunks_end_where_a_piece_surely_ends(pattern: str) -> None:
    text = "It is sunny. The 2 dogs bark,\nand bark.\n\n你好，世界。" * 40
    tokenizer = Tokenizer.train(text, 300, pattern=pattern)
    ids = tokenizer.encode(text)
    chunks = checked(tokenizer, text, 20)
    assert [id for chunk in chunks for id in chunk.ids] == ids
    # The next word would have exceeded the budget.
    for one, other in itertools.pairwise(chunks):
        word = tokenizer.truncate(other.text, 8)
        assert tokenizer.count(one.text + word) > 20 - 8


def test_a_word_that_fits_alone_is_one_chunk() -> None:
    parts = ["x" * 2**exponent for exponent in range(1, 8)]
    tokenizer = Tokenizer.train(" ".join(["x" * 128] * 9), 256 + len(parts), special_tokens=())
    assert tokenizer.count("x" * 128) == 1
    for length, end in itertools.product((128, 256, 384), (", b", "")):
        text = f"a{'x' * 16}, {'x' * length}{end}"
        texts = [chunk.text for chunk in checked(tokenizer, text, 4)]
        assert any("x" * length in each for each in texts)


def test_chunks_are_the_same_for_any_window(monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXTS["english"] * 30
    tokenizer = tokenizer_of("gpt2")
    expected = list(tokenizer.chunks(text, 30, overlap=7))
    for size in (1, 100, 1000):
        monkeypatch.setattr("bpetite._budget._WINDOW_CHARACTERS", size)
        assert list(tokenizer.chunks(text, 30, overlap=7)) == expected


def test_a_text_without_splits_is_cut_at_characters() -> None:
    tokenizer = tokenizer_of("gpt2")
    for text in ("a" * 5000, "é" * 5000, "🙂" * 3000):
        chunks = checked(tokenizer, text, 16)
        assert len(chunks) <= 1 + tokenizer.count(text) // 8


def test_a_character_larger_than_the_budget_is_named() -> None:
    tokenizer = Tokenizer.train("ab", 257)
    with pytest.raises(ValueError, match=r"the character '🙂' at position 3 has 4 ids, more than"):
        list(tokenizer.chunks("ab 🙂", 3))
    assert tokenizer.truncate("ab 🙂", 3) == "ab "


def test_special_tokens_count_as_they_are_encoded() -> None:
    tokenizer = tokenizer_of("gpt2", with_literals=True)
    assert tokenizer.truncate("<|a b|>" * 9, 4) == "<|a b|>" * 4
    chunks = checked(tokenizer, "<|a b|>" * 9, 4)
    assert [chunk.text for chunk in chunks] == ["<|a b|>" * 4, "<|a b|>" * 4, "<|a b|>"]
    ordinary = tokenizer.truncate("<|a b|>" * 9, 4, allowed_special=())
    assert tokenizer.count(ordinary, allowed_special=()) <= 4
    assert not tokenizer.fits("<|a b|>", 1, allowed_special=())
    assert tokenizer.fits("<|a b|>", 1)


def test_a_chunk_is_json() -> None:
    tokenizer = tokenizer_of("gpt2")
    for chunk in tokenizer.chunks("ab é", 3):
        values = {name: getattr(chunk, name) for name in ("text", "start", "end", "ids")}
        assert json.loads(json.dumps(dataclasses.asdict(chunk))) == values
        assert dataclasses.replace(chunk) == copy.deepcopy(chunk) == chunk != Chunk("x", 0, 1, [])
        encoders = pytest.importorskip("fastapi.encoders")
        assert encoders.jsonable_encoder(chunk) == values


# Chunks of lines

KINDS = {"line": ("line",), "paragraph": ("paragraph", "line")}

lines = st.lists(
    st.sampled_from([*CHARACTERS, "\n", "\n\n", "\n \n", "\r\n\r\n", "a\n", "    b\n"]),
    max_size=24,
).map("".join)


def check_ends(tokenizer: Tokenizer, text: str, budget: int, overlap: int, at: Any) -> None:
    """Check that each chunk begins and ends as in the textbook, where that says anything."""
    last_end = 0
    for chunk in checked(tokenizer, text, budget, overlap, at=at):
        places = (
            (start, reference.preferred_end(text, start, last_end, budget, tokenizer.count, kind))
            for kind in KINDS[at]
            for start in (chunk.start, last_end)
        )
        expected = next((place for place in places if place[1]), None)
        assert expected in (None, (chunk.start, chunk.end))
        last_end = chunk.end


@given(tokenizers, lines, st.integers(12, 20), st.integers(0, 11), st.sampled_from([*KINDS]))
def test_chunks_end_at_the_last_line_within_the_budget(
    tokenizer: Tokenizer, text: str, budget: int, overlap: int, at: str
) -> None:
    check_ends(tokenizer, text, budget, 0, at)
    check_ends(tokenizer, text, budget, overlap, at)


def test_chunks_prefer_paragraphs_to_lines_and_lines_to_words() -> None:
    tokenizer = Tokenizer.train("", 256, special_tokens=())
    text = "one\n\ntwo\nsix b c d\n \r\n\nten"
    expected = {
        "line": ["one\n\ntwo\n", "six b c d\n", " \r\n\nten"],
        "paragraph": ["one\n\n", "two\n", "six b c d\n", " \r\n\nten"],
    }
    for at, texts in expected.items():
        assert [chunk.text for chunk in checked(tokenizer, text, 10, at=at)] == texts


def test_an_overlap_gives_way_to_a_whole_line() -> None:
    tokenizer = Tokenizer.train("", 256, special_tokens=())
    text = "a b\nc d\n1 2 3 4\n"
    chunks = checked(tokenizer, text, 8, 4, at="line")
    assert [chunk.text for chunk in chunks] == ["a b\nc d\n", "1 2 3 4\n"]
    chunks = checked(tokenizer, text, 7, 2, at="line")
    assert [chunk.text for chunk in chunks] == ["a b\n", "\nc d\n", "\n1 2 3", " 3 4\n"]


# Ids around a text


@cache
def framed(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer with two ids before a text and one after it."""
    return Tokenizer(replace(tokenizer._vocabulary, prefix_ids=(97, 97), suffix_ids=(98,)))


FRAMED: Any = {"add_special_tokens": True}


@given(tokenizers, texts, budgets)
def test_ids_around_a_text_count_in_its_budget(
    tokenizer: Tokenizer, text: str, budget: int
) -> None:
    around = framed(tokenizer)
    assert around.fits(text, budget, **FRAMED) == (around.count(text, **FRAMED) <= budget)
    assert around.fits(text, budget) == tokenizer.fits(text, budget)
    for keep in ("start", "end"):
        kept: Any = {"keep": keep}
        assert around.truncate(text, budget, **kept) == tokenizer.truncate(text, budget, **kept)
        if budget < 3:
            with pytest.raises(ValueError, match="max_tokens must be at least 3, since add_spe"):
                around.truncate(text, budget, **kept, **FRAMED)
        else:
            part = around.truncate(text, budget, **kept, **FRAMED)
            assert part == tokenizer.truncate(text, budget - 3, **kept)
            assert around.count(part, **FRAMED) <= budget


@given(tokenizers, texts, st.integers(15, 20), st.integers(0, 11))
def test_ids_around_each_chunk_count_in_its_budget(
    tokenizer: Tokenizer, text: str, budget: int, overlap: int
) -> None:
    around = framed(tokenizer)
    chunks = list(around.chunks(text, budget, overlap=overlap, **FRAMED))
    for chunk in chunks:
        assert chunk.ids == around.encode(chunk.text, **FRAMED)
        assert len(chunk) == len(chunk.ids) <= budget
    places = [(chunk.text, chunk.start, chunk.end) for chunk in chunks]
    others = tokenizer.chunks(text, budget - 3, overlap=overlap)
    assert places == [(chunk.text, chunk.start, chunk.end) for chunk in others]
    assert [*around.chunks(text, budget)] == [*tokenizer.chunks(text, budget)]


def test_chunks_need_room_next_to_the_ids_around_them() -> None:
    around = framed(tokenizer_of("gpt2"))
    with pytest.raises(ValueError, match="max_tokens must be at least 4, since add_special_tokens"):
        around.chunks("a", 3, **FRAMED)
    with pytest.raises(ValueError, match="overlap must be from 0 to 1, below max_tokens, got 2"):
        around.chunks("a", 5, overlap=2, **FRAMED)
    with pytest.raises(ValueError, match="has 4 ids, more than the 3 that max_tokens leaves"):
        list(framed(Tokenizer.train("ab", 257)).chunks("🙂", 6, **FRAMED))


# Wrong arguments


def test_a_wrong_budget_is_refused() -> None:
    tokenizer = tokenizer_of("gpt2")
    for call in (tokenizer.fits, tokenizer.truncate, tokenizer.chunks):
        with pytest.raises(TypeError, match="max_tokens must be an integer, got str"):
            call("a", "2")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="text must be a str or bytes-like, got int"):
            call(1, 2)  # type: ignore[arg-type]
    for call in (tokenizer.fits, tokenizer.truncate):
        with pytest.raises(ValueError, match="max_tokens must be at least 0, got -1"):
            call("a", -1)
    with pytest.raises(ValueError, match="max_tokens must be at least 1, got 0"):
        tokenizer.chunks("a", 0)
    with pytest.raises(ValueError, match="overlap must be from 0 to 2, below max_tokens, got 3"):
        tokenizer.chunks("a", 3, overlap=3)
    with pytest.raises(ValueError, match='keep must be "start" or "end", got \'middle\''):
        tokenizer.truncate("a", 3, keep="middle")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='at must be "line", "paragraph" or None, got \'word\''):
        tokenizer.chunks("a", 3, at="word")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="which is not a special token of this vocabulary"):
        tokenizer.fits("a", 3, allowed_special={"<|no|>"})


def test_a_lone_surrogate_is_at_its_offset_in_the_text() -> None:
    tokenizer = tokenizer_of("gpt2")
    text = "ab " * 50_000 + "\ud800"
    calls = (
        lambda: tokenizer.fits(text, 10**6),
        lambda: tokenizer.truncate(text, 4, keep="end"),
        lambda: list(tokenizer.chunks(text, 1000)),
    )
    for call in calls:
        with pytest.raises(UnicodeEncodeError) as error:
            call()
        assert (error.value.start, error.value.object) == (150_000, text)
    assert tokenizer.truncate(text, 4) == tokenizer.truncate("ab " * 10, 4)


def test_bytes_are_cut_as_their_text() -> None:
    tokenizer = tokenizer_of("gpt2")
    data = "é é é é".encode()
    assert tokenizer.truncate(data, 3) == tokenizer.truncate("é é é é", 3)
    assert list(tokenizer.chunks(data, 3)) == list(tokenizer.chunks("é é é é", 3))
    with pytest.raises(UnicodeDecodeError):
        tokenizer.fits(b"\xff", 1)


# Time


NORMALIZERS = {
    "none": Stages(),
    "NFC": Stages((("NFC",),)),
    "NFKC and lower case": Stages((("NFKC",), ("Lowercase",))),
    "a split of bytes": Stages(steps=("bytes", "isolated")),
}


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize(
    "unit",
    slow_except(["It is sunny. ", "a", "你", "the hen e\u0301 ", "e\u0301"], "a", "e\u0301"),
)
def test_chunks_take_linear_time(unit: str, normalizer: str) -> None:
    plain = tokenizer_of("gpt2")._vocabulary
    tokenizer = Tokenizer(replace(plain, stages=NORMALIZERS[normalizer]))

    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        start = time.process_time()
        assert [*tokenizer.chunks(text, 100)][-1].end == len(text)
        return time.process_time() - start

    size = 10_000 if bpetite.engine == "native" else 1_500
    seconds(size // 2)
    limit = 24 * seconds(size)
    assert best_time(lambda: seconds(8 * size), limit) < limit


def characters_read(
    tokenizer: Tokenizer, text: str, budget: int, overlap: int, at: Any = None
) -> int:
    """Return how many characters are encoded, counted or searched for the chunks of a text."""
    cutter = tokenizer._encoders.cutter("all", tokenizer._joiner.characters)
    encode, count, splitter = cutter.encode, cutter.count, cutter._splitter
    read = 0

    def reading(function: Any) -> Any:
        def call(text: str) -> Any:
            nonlocal read
            read += len(text)
            return function(text)

        return call

    def splits(text: str, start: int, end: int) -> Iterator[int]:
        nonlocal read
        for at in splitter.splits(text, start, end):
            read, start = read + at - start, at
            yield at

    def last(text: str, start: int, end: int) -> int:
        nonlocal read
        at = splitter.last(text, start, end)
        read += end - at
        return at

    cutter.encode, cutter.count = reading(encode), reading(count)
    cutter._splitter = mock.Mock(
        wraps=splitter, splits=splits, last=last, has_splits=splitter.has_splits
    )
    chunks = [*cutter.chunks(text, budget, overlap, at)]
    assert chunks == [*tokenizer.chunks(text, budget, overlap=overlap, at=at)]
    return read


def with_a_long_token(normalizer: Any = None) -> Tokenizer:
    """Return a tokenizer with a token of 64 bytes: more text could be within a budget."""
    trained = Tokenizer.train(" ".join(["x" * 64] * 9), 262)
    return Tokenizer(replace(trained._vocabulary, normalizer=normalizer))


@pytest.mark.parametrize("overlap", [0, 3])
@pytest.mark.parametrize("unit", ["e\u0301", "か\u3099"])
def test_chunks_of_text_that_nfc_changes_read_linearly(unit: str, overlap: int) -> None:
    tokenizer = with_a_long_token("NFC")
    half, whole = (
        characters_read(tokenizer, "x " + unit * (size // len(unit)), 10, overlap)
        for size in (600, 1_200)
    )
    assert whole < 2.5 * half


WITHOUT_SPLITS = {
    "emoji": "🙂",
    "Chinese": "".join(map(chr, range(0x4E00, 0x9F00, 7))),
    "marks": "e\u0301",
    "spaces": " ",
    "symbols": "=",
    "a word": "acgtgcatta",
    "digits": "1234567890",
    "rare splits": "🙂" * 150 + " ",
}


@pytest.mark.parametrize("overlap", [0, 20])
@pytest.mark.parametrize("kind", WITHOUT_SPLITS)
def test_chunks_without_splits_read_as_little_as_others(kind: str, overlap: int) -> None:
    unit, size = WITHOUT_SPLITS[kind], 3_000 if bpetite.engine == "python" else 30_000
    text = (unit * size)[:size]
    for tokenizer in (tokenizer_of("gpt2"), with_a_long_token()):
        assert characters_read(tokenizer, text, 100, overlap) < 6 * len(text)


@pytest.mark.parametrize("unit", ["\n", "\n \n", "  x\n", "x", "x " * 99 + "\n"], ids=ascii)
def test_chunks_of_lines_read_linearly(unit: str) -> None:
    tokenizer = tokenizer_of("gpt2")
    half, whole = (
        characters_read(tokenizer, (unit * size)[:size], 20, 4, "paragraph") for size in (400, 800)
    )
    assert whole < 2.7 * half < 540 * 400


def test_bytes_of_a_run_show_that_it_exceeds_a_budget() -> None:
    text = "🙂" * 300
    read = characters_read(with_a_long_token(), text, 10, 0)
    assert read < 100 * len(text)


def test_a_small_budget_reads_little_of_a_long_text() -> None:
    tokenizer = tokenizer_of("gpt2")
    short, long = "It is sunny. " * 100, "It is sunny. " * 1_000_000

    def seconds(text: str) -> float:
        start = time.process_time()
        assert not tokenizer.fits(text, 50)
        assert tokenizer.count(tokenizer.truncate(text, 50)) == 50
        assert tokenizer.count(tokenizer.truncate(text, 50, keep="end")) == 50
        return time.process_time() - start

    seconds(short)
    limit = 5 * seconds(short) + 0.001
    assert best_time(lambda: seconds(long), limit) < limit


@pytest.mark.parametrize("start", slow_except(["", "a b"], "a b"))
@pytest.mark.parametrize("unit", ["a", "你"])
def test_a_small_budget_reads_little_of_a_long_word(start: str, unit: str) -> None:
    tokenizer = tokenizer_of("gpt2")

    def seconds(size: int) -> float:
        text = start + unit * size
        backwards = text[::-1]
        started = time.process_time()
        assert not tokenizer.fits(text, 5)
        assert tokenizer.count(tokenizer.truncate(text, 5)) <= 5
        assert tokenizer.count(tokenizer.truncate(backwards, 5, keep="end")) <= 5
        assert len(next(tokenizer.chunks(text, 5)).ids) <= 5
        return time.process_time() - started

    seconds(70_000)
    limit = 4 * seconds(70_000)
    assert best_time(lambda: seconds(1_000_000), limit) < limit


def test_a_small_budget_keeps_no_list_of_a_long_text() -> None:
    tokenizer = tokenizer_of("gpt2", normalizer="NFC")
    text = "It is sunny. " * 20_000 + "e\u0301 sunny. "
    tokenizer.truncate(text, 5, keep="end")
    tracemalloc.start()
    try:
        assert tokenizer.truncate(text, 5, keep="end").endswith("nny. ")
        assert tracemalloc.get_traced_memory()[1] < len(text)
    finally:
        tracemalloc.stop()
