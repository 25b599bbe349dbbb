"""Text to pieces: blocks change no piece, and special literals are split off."""

from __future__ import annotations

from itertools import chain
from time import process_time

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from support import reference
from support.engines import once
from support.times import best_time
from tokenizers import pre_tokenizers

from bpetite import Tokenizer, _pretokenizer
from bpetite._pretokenizer import GPT2_PATTERN, PATTERNS, Pretokenizer, SpecialSplitter, chunks_of
from bpetite._vocabulary import Vocabulary

pytestmark = once

PRETOKENIZER = Pretokenizer(GPT2_PATTERN)

BLOCK = _pretokenizer.BLOCK_CHARACTERS
"""The characters of a block, which is split at a time."""


def pieces(text: str, size: int = BLOCK) -> list[str]:
    """Return the pieces of a text, split block by block if it is long."""
    blocks = PRETOKENIZER.blocks_of_chunks(chunks_of(text, size))
    return list(chain.from_iterable(map(PRETOKENIZER.split, blocks)))


# The pattern


def test_the_pattern_is_gpt2s() -> None:
    assert Tokenizer.train("", 256).patterns[0] == GPT2_PATTERN == reference.PATTERN


def test_the_pieces_of_every_kind_of_text_match_the_whole(text_case: str) -> None:
    assert pieces(text_case) == reference.split(text_case)


# Blocks

EDGES = [
    " ", "  ", "   ", " a", "   a", "a ", "\n", "\n\n", "\r\n", "\r\r\n\n", " \n", "\n ", " \n a",
    "\t", "\t\t ", "\x0b\x0c", "\x85", "\x85 ", "\xa0", " \xa0a", "\u1680", "\u2003", " \u2003",
    "\u2003 x", "\u2028\u2029", "\u3000\u3000", "\u202f", "\x1c", " \x1c ", "\x1d\x1e\x1f",
    "'", "'s", " 's", "'ll", "x'll ", "'l l", "don't", "'re've", "1 2", "12", "!? ", " !?",
    "é", " é", "e\u0301", "你", " 你好", "🙂", "👩\u200d👩", "\u200b ", "\ufeff", "\x00", " \x00",
]  # fmt: skip
"""Texts at the end of a block and the beginning of the next."""

FILLERS = {"words": "ab cd, ", "letters": "ab", "spaces": "  ", "symbols": "-=", "lines": "a\r\n"}


@pytest.mark.parametrize("kind", FILLERS)
def test_blocks_change_no_piece_wherever_they_end(kind: str) -> None:
    fill = FILLERS[kind] * 40
    for edge in EDGES:
        for start in range(40 - len(edge) - 1, 40 + 2):
            text = fill[:start] + edge + fill[:30]
            assert pieces(text, 40) == reference.split(text)


@pytest.mark.parametrize("space", [" ", "\n", "\r\n", "\u2003", "\x1c", "\x85", "x", "你", "' "])
@pytest.mark.parametrize(
    ("before", "behind"), [("", ""), ("a", "b"), (" a ", " b "), ("'", "s"), ("\n", "\n")]
)
def test_a_run_of_two_blocks_has_the_pieces_of_the_whole(
    space: str, before: str, behind: str
) -> None:
    text = before + space * (2 * BLOCK + 5) + behind
    assert pieces(text) == reference.split(text)


texts = st.one_of(
    st.text(" \n\r\t\x85\u2003\x1cab'slre1!é你🙂\u0301", max_size=60),
    st.text(st.characters(codec="utf-8"), max_size=40),
)


def test_at_most_two_chunks_are_in_memory() -> None:
    """Only about a chunk is in memory, so a text may be longer than memory."""
    taken = []

    def chunks() -> chain[str]:
        return chain.from_iterable(map(take, range(100)))

    def take(number: int) -> list[str]:
        taken.append(number)
        return ["some words "]

    behind = [len(taken) for _ in PRETOKENIZER.blocks_of_chunks(chunks())]
    assert behind == [*range(1, 101), 100]


def test_chunks_joined_are_the_text(text_case: str) -> None:
    assert "".join(chunks_of(text_case)) == text_case
    assert max(map(len, chunks_of(text_case)), default=0) <= BLOCK


# One pattern after another


LINKS = [
    GPT2_PATTERN,
    PATTERNS["o200k"],
    r"\p{N}{1,3}",
    r"\s+(?!\S)|\s+",
    "[a-l]+",
    "a(?=b)|b(?!c)",
    r"(?<=a)b|\S(?=\s)",
    r"[\r\n]",
]

chains = st.lists(st.sampled_from(LINKS), min_size=2, max_size=4)


@given(chains, texts)
def test_the_pieces_of_a_chain_match_tokenizers(patterns: list[str], text: str) -> None:
    theirs = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(tokenizers.Regex(each), "isolated") for each in patterns]
    )
    pieces = Pretokenizer(*patterns).split_exactly(text)
    assert pieces == [piece for piece, _ in theirs.pre_tokenize_str(text)]


# A text in Unicode's normal form


def with_normalizer(vocabulary: Vocabulary) -> Tokenizer:
    return Tokenizer(
        Vocabulary(
            vocabulary.merges, vocabulary.special_tokens, vocabulary.pattern, normalizer="NFC"
        )
    )


def test_only_a_vocabulary_with_a_normalizer_is_lossy() -> None:
    vocabulary = Vocabulary((), {}, GPT2_PATTERN)
    assert (Tokenizer(vocabulary).lossless, with_normalizer(vocabulary).lossless) == (True, False)
    assert Tokenizer(vocabulary).decode(Tokenizer(vocabulary).encode("e\u0301")) == "e\u0301"


# Whether a pattern matches every character


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_with_a_name_matches_every_character(name: str) -> None:
    assert Pretokenizer(PATTERNS[name]).matches_all()


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        (r"[^a]+|a", True),
        pytest.param(r"\S|\s", True, marks=pytest.mark.slow),
        pytest.param(r"(?s).", True, marks=pytest.mark.slow),
        pytest.param(r"(?s)a?.", True, marks=pytest.mark.slow),
        (".", False),  # no line end
        (r"\S+", False),
        (r"\p{L}+|\p{N}+|\s+", False),
        ("[^\U0010ffff]", False),
        pytest.param("[^\x00]", False, marks=pytest.mark.slow),
        pytest.param("[^\ud7ff]|x", False, marks=pytest.mark.slow),
        pytest.param("[^\ue000]|x", False, marks=pytest.mark.slow),
        ("(?s)..", False),
    ],
)
def test_a_pattern_of_ones_own_may_leave_characters_out(pattern: str, matches: bool) -> None:
    assert Pretokenizer(pattern).matches_all() is matches


@pytest.mark.slow
def test_gaps_are_looked_for_in_short_texts() -> None:
    """A look-ahead without a bound would read all characters after each."""
    begin = process_time()
    assert Pretokenizer(r"(?=(?:\S\S)*(?!\S))a{1,2}|\d|[^\d]+").matches_all()
    assert process_time() - begin < 60  # in one text, hours


# Special literals


SHARED_PREFIXES = [f"<|sp{number:05}|>" for number in range(4000)]


@pytest.mark.parametrize(
    ("literals", "text"),
    [
        (SHARED_PREFIXES, "<|sp0" * 20_000),
        (SHARED_PREFIXES, "<|sp00009" * 20_000),
        (["a" * length for length in range(2, 2000)], ("a" * 1000 + "b") * 200),
        (["a" * length for length in range(1, 2000)], "ac" * 100_000),
        (["a" * 4096, "b"], ("a" * 4095 + "c") * 50),
        (["a", "a" * 1000 + "c"], "a" * 200_000),
    ],
    ids=["prefix", "all but the end", "nested", "nested and short", "long", "restarts"],
)
def test_hostile_text_is_searched_in_linear_time(literals: list[str], text: str) -> None:
    splitter = SpecialSplitter(literals)

    def seconds() -> float:
        start = process_time()
        parts = [part for ordinary, literal in splitter.split(text) for part in (ordinary, literal)]
        taken = process_time() - start
        assert "".join(filter(None, parts)) == text
        return taken

    assert best_time(seconds, enough=2.5) < 2.5  # an alternation of `re` took up to 6 s


def test_many_special_tokens_are_set_up_quickly() -> None:
    def seconds() -> float:
        start = process_time()
        splitter = SpecialSplitter([f"<|special_{number}|>" for number in range(100_000)])
        assert splitter.first("a <|special_99999|>") == ("<|special_99999|>", 2)
        return process_time() - start

    assert best_time(seconds, enough=1) < 1


@given(
    st.sets(st.text("ab.|[](*\\d^$é", min_size=1, max_size=4), max_size=5),
    st.text("ab.|[](*\\d^$é ", max_size=30),
)
def test_any_literals_are_split_off_as_in_the_textbook(literals: set[str], text: str) -> None:
    ids = {literal: 256 + number for number, literal in enumerate(sorted(literals))}
    found = [
        id
        for ordinary, literal in SpecialSplitter(literals).split(text)
        for id in [*ordinary.encode(), *([ids[literal]] if literal else [])]
    ]
    assert found == reference.encode(text, [], ids)
