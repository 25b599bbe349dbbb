"""Text to pieces: block by block the same as all at once, and special literals cut out."""

from __future__ import annotations

import sys
from itertools import chain, pairwise

import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from bpetite import Tokenizer, _pretokenizer
from bpetite._pretokenizer import GPT2_PATTERN, Pretokenizer, SpecialSplitter, slices

PRETOKENIZER = Pretokenizer(GPT2_PATTERN)

BLOCK = _pretokenizer._BLOCK
"""How many characters of a text are cut at a time."""


def pieces(text: str) -> list[str]:
    """Return the pieces of a text, cut block by block if it is long."""
    return list(chain.from_iterable(PRETOKENIZER.pieces(text)))


# The pattern


def test_the_pattern_is_gpt2s() -> None:
    assert Tokenizer.train("", 256).pattern == GPT2_PATTERN == reference.PATTERN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Hello world", ["Hello", " world"]),
        ("it's we'll I'd", ["it", "'s", " we", "'ll", " I", "'d"]),
        ("IT'S", ["IT", "'", "S"]),
        ("'sand 'llama", ["'s", "and", " '", "llama"]),
        ("a1b22", ["a", "1", "b", "22"]),
        ("a, b!? c", ["a", ",", " b", "!?", " c"]),
        ("a  b", ["a", " ", " b"]),
        ("a   ", ["a", "   "]),
        ("a\n\nb", ["a", "\n", "\n", "b"]),
        ("a\r\n b", ["a", "\r\n", " b"]),
        ("a \tb", ["a", " ", "\t", "b"]),
        ("a\u2003\u2003b", ["a", "\u2003", "\u2003", "b"]),
        ("a\x85b", ["a", "\x85", "b"]),
        ("e\u0301t\u00e9", ["e", "\u0301", "té"]),
        ("你好 世界", ["你好", " 世界"]),
        ("½ Ⅳ ٣", ["½", " Ⅳ", " ٣"]),
        ("🙂🙂 🙂", ["🙂🙂", " 🙂"]),
        ("a_b", ["a", "_", "b"]),
        ("\ufeffa", ["\ufeff", "a"]),
    ],
)
def test_pieces_by_hand(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


def test_the_information_separators_are_no_white_space() -> None:
    """`str.isspace` and the `re` module say that they are; Unicode's White_Space does not."""
    assert pieces("a\x1c\x1f b") == ["a", "\x1c\x1f", " b"]


def test_every_character_is_in_a_piece() -> None:
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]))
    assert "".join(pieces(text)) == text


def test_the_pieces_of_every_kind_of_text_are_those_of_the_whole(text_case: str) -> None:
    assert pieces(text_case) == reference.cut(text_case)


# Blocks

EDGES = [
    " ", "  ", "   ", " a", "   a", "a ", "\n", "\n\n", "\r\n", "\r\r\n\n", " \n", "\n ", " \n a",
    "\t", "\t\t ", "\x0b\x0c", "\x85", "\x85 ", "\xa0", " \xa0a", "\u1680", "\u2003", " \u2003",
    "\u2003 x", "\u2028\u2029", "\u3000\u3000", "\u202f", "\x1c", " \x1c ", "\x1d\x1e\x1f",
    "'", "'s", " 's", "'ll", "x'll ", "'l l", "don't", "'re've", "1 2", "12", "!? ", " !?",
    "é", " é", "e\u0301", "你", " 你好", "🙂", "👩\u200d👩", "\u200b ", "\ufeff", "\x00", " \x00",
]  # fmt: skip
"""What may stand where one block ends and the next begins."""

FILLERS = {"words": "ab cd, ", "letters": "ab", "spaces": "  ", "signs": "-=", "lines": "a\r\n"}


@pytest.mark.parametrize("filler", FILLERS.values(), ids=FILLERS.keys())
@pytest.mark.parametrize("edge", EDGES, ids=ascii)
def test_blocks_change_no_piece_wherever_they_end(edge: str, filler: str) -> None:
    fill = filler * BLOCK
    for start in range(BLOCK - len(edge) - 1, BLOCK + 2):
        text = fill[:start] + edge + fill[:30]
        assert pieces(text) == reference.cut(text)


@pytest.mark.parametrize("space", [" ", "\n", "\r\n", "\u2003", "\x1c", "\x85", "x", "你", "' "])
@pytest.mark.parametrize(
    ("before", "behind"), [("", ""), ("a", "b"), (" a ", " b "), ("'", "s"), ("\n", "\n")]
)
def test_a_run_longer_than_two_blocks_has_the_pieces_of_the_whole(
    space: str, before: str, behind: str
) -> None:
    text = before + space * (2 * BLOCK + 5) + behind
    assert pieces(text) == reference.cut(text)


texts = st.one_of(
    st.text(" \n\r\t\x85\u2003\x1cab'slre1!é你🙂\u0301", max_size=60),
    st.text(st.characters(codec="utf-8"), max_size=40),
)


@settings(max_examples=300, deadline=None)
@given(texts, st.lists(st.integers(0, 60), max_size=12))
def test_the_pieces_do_not_depend_on_the_chunks(text: str, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    chunks = [text[start:end] for start, end in pairwise(bounds)]
    blocks = list(PRETOKENIZER.blocks(chunks))
    assert "".join(blocks) == text
    assert list(chain.from_iterable(map(PRETOKENIZER.cut, blocks))) == reference.cut(text)


@settings(max_examples=50, deadline=None)
@given(texts)
def test_a_text_may_come_character_by_character(text: str) -> None:
    blocks = PRETOKENIZER.blocks(iter(text))
    assert list(chain.from_iterable(map(PRETOKENIZER.cut, blocks))) == reference.cut(text)


def test_a_block_is_given_before_the_next_chunk_but_one_is_taken() -> None:
    """What is held is about a chunk, so a text may be longer than memory."""
    taken = []

    def chunks() -> chain[str]:
        return chain.from_iterable(map(take, range(100)))

    def take(number: int) -> list[str]:
        taken.append(number)
        return ["some words "]

    behind = [len(taken) for _ in PRETOKENIZER.blocks(chunks())]
    assert behind == [*range(1, 101), 100]


def test_slices_joined_are_the_text(text_case: str) -> None:
    assert "".join(slices(text_case)) == text_case
    assert max(map(len, slices(text_case)), default=0) <= BLOCK


# Special literals


@pytest.mark.parametrize(
    ("literals", "text", "expected"),
    [
        ([], "a<|b|>", [("a<|b|>", None)]),
        (["<|b|>"], "", [("", None)]),
        (["<|b|>"], "a<|b|>c", [("a", "<|b|>"), ("c", None)]),
        (["<|b|>"], "<|b|><|b|>", [("", "<|b|>"), ("", "<|b|>"), ("", None)]),
        (["<|b|>"], "<|b <|b| |b|> <<|b|>>", [("<|b <|b| |b|> <", "<|b|>"), (">", None)]),
        (["ab", "abc"], "abcab", [("", "abc"), ("", "ab"), ("", None)]),
        (["abc", "ab"], "xabxabc", [("x", "ab"), ("x", "abc"), ("", None)]),
        (["a", "aa", "aaa"], "aaaaa", [("", "aaa"), ("", "aa"), ("", None)]),
        (["ab", "bc"], "abc", [("", "ab"), ("c", None)]),
        (["ab", "bcd"], "abcd", [("", "ab"), ("cd", None)]),
        (["bc", "abcd"], "abc", [("a", "bc"), ("", None)]),
        ([".", "a.c"], "abc.", [("abc", "."), ("", None)]),
        (["[a]", "(b)", "c*", "\\d", "^", "$"], "a[a]b", [("a", "[a]"), ("b", None)]),
        (["\\d", "d+"], "1d\\d", [("1d", "\\d"), ("", None)]),
        (["a|b"], "a a|b", [("a ", "a|b"), ("", None)]),
        ([" ", "\n"], "a \n", [("a", " "), ("", "\n"), ("", None)]),
        (["é", "🙂"], "e\u0301é🙂", [("e\u0301", "é"), ("", "🙂"), ("", None)]),
        (["END"], "end", [("end", None)]),
        (["# x"], "# x", [("", "# x"), ("", None)]),
    ],
)
def test_literals_are_cut_out(
    literals: list[str], text: str, expected: list[tuple[str, str | None]]
) -> None:
    assert list(SpecialSplitter(literals).split(text)) == expected


@pytest.mark.parametrize(
    ("literals", "text", "expected"),
    [
        (["ab"], "", None),
        (["ab"], "a b", None),
        ([], "a b", None),
        (["ab"], "xxabab", ("ab", 2)),
        (["b", "ab"], "xab", ("ab", 1)),
        (["ab", "abc"], "abc", ("abc", 0)),
        (["ab"], "你🙂ab", ("ab", 2)),
    ],
)
def test_the_first_literal_is_found_with_its_position_in_characters(
    literals: list[str], text: str, expected: tuple[str, int] | None
) -> None:
    assert SpecialSplitter(literals).first(text) == expected


@settings(max_examples=300, deadline=None)
@given(st.sets(st.text("ab.|", min_size=1, max_size=4), max_size=5), st.text("ab.| ", max_size=30))
def test_any_literals_are_cut_out_as_in_the_textbook(literals: set[str], text: str) -> None:
    ids = {literal: 256 + number for number, literal in enumerate(sorted(literals))}
    found = [
        id
        for ordinary, literal in SpecialSplitter(literals).split(text)
        for id in [*ordinary.encode(), *([ids[literal]] if literal else [])]
    ]
    assert found == reference.encode(text, [], ids)
