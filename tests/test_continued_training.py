"""Training on top of another vocabulary, and rules for merges."""

from __future__ import annotations

import random
import re
import time
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st
from support import reference
from support.batches import Batched, Segmented
from support.examples import few_examples
from support.vocabularies import vocabulary

from bpetite import PATTERNS, PieceCounts, Tokenizer, TrainingProgress
from bpetite._encoder import merge_ids
from bpetite._merge_rules import with_required
from bpetite._vocabulary import Stages, Vocabulary

WORDS = PATTERNS["words"]

words_of = partial(regex.findall, WORDS)

TEXT = "the cat sat on the mat, the cat sat on the hat; and that is that. Là-bas, 猫猫猫 12 345"

texts = st.lists(st.text("ab é\U0001f642", max_size=40), min_size=1, max_size=3)
more_texts = st.lists(st.text(alphabet="aab. ", max_size=60), min_size=1, max_size=3)


def plain(corpus: Any, vocab_size: int, **options: Any) -> Tokenizer:
    """Train without special tokens."""
    return Tokenizer.train(corpus, vocab_size, special_tokens=(), **options)


def saved(tokenizer: Tokenizer, folder: Path) -> bytes:
    tokenizer.save(folder / "saved.json", overwrite=True)
    return (folder / "saved.json").read_bytes()


# In steps


@given(more_texts, st.lists(st.integers(256, 300), min_size=1, max_size=4))
def test_steps_and_one_go_learn_the_same(documents: list[str], sizes: list[int]) -> None:
    base = None
    for size in sorted(sizes):
        base = plain(documents, size, base=base)
        size = 256 + len(base.merges)
    assert base == plain(documents, max(sizes))


@few_examples
@given(texts, more_texts, st.integers(0, 20), st.integers(0, 30), st.integers(1, 4))
def test_a_base_is_continued_as_the_textbook_says(
    first: list[str], second: list[str], base_size: int, more: int, min_count: int
) -> None:
    base = plain(first, 256 + base_size)
    size = 256 + len(base.merges) + more
    expected = reference.train(second, size, base.merges, min_count=min_count)
    assert plain(second, size, base=base, min_pair_count=min_count).merges == expected


def test_ids_of_the_base_stay_and_new_ids_follow() -> None:
    base = Tokenizer.train(TEXT, 270, special_tokens=["<|a|>", "<|b|>"])
    larger = Tokenizer.train(TEXT, 280, base=base, special_tokens=["<|b|>", "<|c|>"])
    assert [larger.tokens[id] for id in range(base.n_vocab)] == [*base.tokens]
    assert larger.special_tokens == {"<|a|>": 270, "<|b|>": 271, "<|c|>": 282}
    assert larger.decode(larger.encode(TEXT + "<|a|>")) == TEXT + "<|a|>"
    assert larger.count(TEXT) < base.count(TEXT)


def shuffled_base() -> Tokenizer:
    """Return a vocabulary whose ids are in no order, with gaps, and a literal in between."""
    id_of = [*range(256)]
    random.Random(7).shuffle(id_of)
    tokens = {id: bytes([byte]) for byte, id in enumerate(id_of)}
    a, t, h, e = (id_of[byte] for byte in b"athe")
    return Tokenizer(
        Vocabulary.from_tokens(
            tokens | {900: b"at", 500: b"th", 700: b"the"},
            [(a, t), (t, h), (500, e)],
            {"<|x|>": 800},
            PATTERNS["gpt2"],
        )
    )


def test_a_base_may_have_any_ids() -> None:
    base = shuffled_base()
    larger = plain([TEXT] * 3, 275, base=base)
    assert larger.n_vocab == 901 + 275 - 259
    assert [larger.tokens[id] for id in range(901)] == [*base.tokens]
    assert larger.special_tokens == {"<|x|>": 800}
    # With ids of bytes in order, the textbook learns the same tokens if no two pairs tie.
    text = "the cat " * 5 + "the mat " * 3 + "that " * 2
    larger = plain(text, 262, base=base)
    in_order = plain(text, 262, base=plain(["at"] * 3 + ["the"] * 2, 259))
    assert [*larger.tokens][901:] == [*in_order.tokens][259:]


def test_no_new_token_has_the_bytes_of_another() -> None:
    # No merge of the base leads to its token "abc".
    base = Tokenizer(vocabulary({256: b"bc", 257: b"abc"}, [(98, 99)]))
    larger = plain("abc abc abc", 262, base=base)
    assert larger.merges == ((98, 99), (32, 97), (258, 256))
    assert len({*larger.tokens}) == len(larger.tokens) == 260


def test_ignored_merges_stay_ignored() -> None:
    base = Tokenizer(
        vocabulary({256: b"ab", 257: b"abab"}, [(97, 98), (256, 256)], ignore_merges=True)
    )
    larger = plain("ababab ababab", 260, base=base)
    assert larger.encode("abab") == [257]
    assert len(larger.encode("ababab")) == 1
    assert larger.decode(larger.encode("ababab ab")) == "ababab ab"


BASES = {
    "trained": Tokenizer.train(TEXT, 265, special_tokens=["<|a|>"]),
    "shuffled": shuffled_base(),
    "token without merge": Tokenizer(vocabulary({256: b"at", 300: b"cat"}, [(97, 116)])),
    "ignored merges": Tokenizer(
        vocabulary({256: b"at", 257: b"cat"}, [(97, 116)], ignore_merges=True)
    ),
    "normalizing": Tokenizer(vocabulary({256: b"at"}, [(97, 116)], normalizer="NFC")),
}


@pytest.mark.parametrize("name", BASES)
def test_a_base_from_a_file_is_continued_alike(name: str, tmp_path: Path) -> None:
    base = BASES[name]
    base.save(tmp_path / "base.json")
    loaded = Tokenizer.load(tmp_path / "base.json")
    for more in (0, 1, 12):
        size = len(base._vocabulary.ordinary_tokens) + more
        expected, larger = (plain([TEXT] * 3, size, base=each) for each in (base, loaded))
        assert larger.encode(TEXT + "<|a|>") == expected.encode(TEXT + "<|a|>")
        assert larger == expected
        assert [*larger.tokens] == [*expected.tokens]
        assert larger.fingerprint == expected.fingerprint
        assert saved(larger, tmp_path) == saved(expected, tmp_path)
        again = (plain([TEXT] * 2 + ["Là"] * 9, size + 5, base=each) for each in (larger, expected))
        assert len({saved(each, tmp_path) for each in again}) == 1


# Another pattern


def test_a_wider_pattern_learns_tokens_of_several_words() -> None:
    base = plain(TEXT, 290)
    wider = plain([TEXT] * 2, 330, base=base, pattern=WORDS, forbid=())
    assert wider.merges[: len(base.merges)] == base.merges
    assert max(len(token.split()) for token in wider.tokens) >= 5
    assert wider.merges == reference.train([TEXT] * 2, 330, base.merges, split_text=words_of)
    assert wider.decode(wider.encode(TEXT)) == TEXT


WORDS_OF_TEXTS = [" of", " the", "the", " a", " off", "  ", "\n", ".", " 12", " 猫猫", "猫犬", "\0"]

rows_of_words = st.lists(st.sampled_from(WORDS_OF_TEXTS), max_size=40).map("".join)


@few_examples
@given(rows_of_words, rows_of_words, st.integers(0, 20), st.integers(0, 60))
def test_tokens_of_several_words_are_the_textbook_s(
    first: str, second: str, base_size: int, more: int
) -> None:
    base = plain(first, 256 + base_size)
    wider = plain([first] * 2, 256 + len(base.merges) + more, base=base, pattern=WORDS)
    for text in (first, second, (first + second) * 9):
        pieces = words_of(text)
        expected = [id for piece in pieces for id in reference.encode_piece(piece, wider.merges)]
        assert wider.encode(text) == expected


def has_five_words(token: bytes) -> bool:
    return len([word for word in token.split(b" ") if word]) > 4


@pytest.mark.parametrize("has_base", [True, False])
def test_tokens_have_at_most_four_words(has_base: bool) -> None:
    base = plain(TEXT, 290) if has_base else None
    wider = plain([TEXT] * 2, 330, base=base, pattern="words")
    assert max(len(token.split()) for token in wider.tokens) == 4
    assert wider.merges == reference.train(
        [TEXT] * 2,
        330,
        base.merges if base else (),
        split_text=words_of,
        allows=lambda token: not has_five_words(token),
    )
    counts = PieceCounts.from_corpus([TEXT] * 2, pattern="words")
    assert plain(counts, 330, base=base, pattern=WORDS) == wider
    if base:
        half = plain([TEXT] * 2, 310, base=base, pattern="words")
        assert plain([TEXT] * 2, 330, base=half) == wider
    short = plain([TEXT] * 2, 330, base=base, pattern="words", forbid=re.compile(rb"[^ ] [^ ]"))
    assert max(len(token.split()) for token in short.tokens) == 1


def test_pieces_may_be_counted_before() -> None:
    base = plain(TEXT, 290)
    counts = PieceCounts.from_corpus([TEXT] * 2, pattern=WORDS)
    wider = plain(counts, 330, base=base, pattern=WORDS)
    assert wider == plain([TEXT] * 2, 330, base=base, pattern=WORDS)
    with pytest.raises(ValueError, match="with the pattern of the pieces, give it as pattern"):
        plain(counts, 330, base=base)


# Rules

PARTS = {
    character.encode()[start:end]
    for character in "àé猫\U0001f642"
    for start in range(4)
    for end in range(start + 1, 5)
}

RULES: dict[str, tuple[dict[str, Any], Callable[[bytes], object]]] = {
    "length": ({"max_token_bytes": 3}, lambda token: len(token) <= 3),
    "list": ({"forbid": ["th", b" c"]}, lambda token: token not in (b"th", b" c")),
    "expression": (
        {"forbid": re.compile(rb"t.|[aeiou]{2}")},
        lambda token: not re.search(rb"t.|[aeiou]{2}", token),
    ),
    "function": (
        {"forbid": lambda token: token.endswith(b"t")},
        lambda token: not token.endswith(b"t"),
    ),
    "whole characters": (
        {"whole_characters": True},
        lambda token: token in PARTS or "\ufffd" not in token.decode("utf-8", "replace"),
    ),
}


@pytest.mark.parametrize("name", RULES)
@few_examples
@given(st.lists(st.text("theca é\U0001f642", max_size=60), min_size=1, max_size=3))
@example([TEXT])
def test_a_rule_holds_for_any_text(name: str, documents: list[str]) -> None:
    options, allows = RULES[name]
    expected = reference.train(documents, 300, allows=allows)
    assert plain(documents, 300, **options).merges == expected


def test_ids_end_at_the_highest_that_exists() -> None:
    highest = 2**32 - 1
    base = Tokenizer(vocabulary({}, [], special_tokens={"<|a|>": highest - 2}))
    assert len(plain("ab ab cd cd", 300, base=base).merges) == 2
    assert Tokenizer.train("ab ab cd", 300, base=base).n_vocab == highest + 1
    full = Tokenizer(vocabulary({}, [], special_tokens={"<|a|>": highest}))
    assert plain("ab ab", 300, base=full) == full
    assert plain("ab ab", 300, min_pair_count=2**70).merges == ()


def test_an_error_of_a_rule_reaches_the_caller() -> None:
    def forbid(token: bytes) -> bool:
        raise RuntimeError(f"asked for {token!r}")

    with pytest.raises(RuntimeError, match="asked for b'ab'"):
        plain("ab", 257, forbid=forbid)


# Required tokens


def test_required_tokens_are_made_first() -> None:
    tokenizer = plain("xyz xyz xyz", 265, require=["abc", "abcd", "bcd", " xyz"])
    for token in ("abc", "abcd", "bcd", " xyz"):
        assert len(tokenizer.encode(token)) == 1
    assert [*tokenizer.tokens][256:] == [
        b"ab", b"abc", b"abcd", b"bc", b"bcd", b" x", b" xy", b" xyz", b"xy"
    ]  # fmt: skip


@given(st.lists(st.text("abc", min_size=1, max_size=6), max_size=5), st.booleans())
def test_every_required_token_is_one_id(required: list[str], ignore_merges: bool) -> None:
    base = Tokenizer(
        vocabulary(
            {256: b"bc", 257: b"abc", 258: b"ca"},
            [(98, 99), (97, 256), (99, 97)],
            ignore_merges=ignore_merges,
        )
    )
    tokenizer = plain("", 600, base=base, require=required)
    assert [len(tokenizer.encode(token)) for token in required] == [1] * len(required)
    assert [*tokenizer.tokens][:259] == [*base.tokens]


def test_a_long_required_token_takes_little_time() -> None:
    token = "".join(map(chr, random.Random(1).choices(range(97, 123), k=6_000)))
    begin = time.process_time()
    tokenizer = plain("", 256 + len(token), require=[token])
    seconds = time.process_time() - begin
    assert tokenizer.encode(token) == [tokenizer.token_id(token.encode())]
    assert seconds < 3


@given(st.lists(st.text("abc", min_size=1), min_size=1, max_size=4), st.booleans())
def test_required_tokens_are_merged_as_from_the_beginning(words: list[str], has_base: bool) -> None:
    merges = ((98, 99), (97, 98), (256, 97)) if has_base else ()
    base = Vocabulary(merges, {}, "...")
    tokens = [word.encode() for word in words]
    rank_of, made = {pair: rank for rank, pair in enumerate(merges)}, [*base.merge_ids]
    bytes_of = {**base.ordinary_tokens}
    for token in tokens:
        while len(ids := merge_ids([*token], rank_of, made)) > 1:
            joined = bytes_of[ids[0]] + bytes_of[ids[1]]
            known = [id for id, each in bytes_of.items() if each == joined]
            rank_of[ids[0], ids[1]] = len(made)
            made.append(known[0] if known else len(bytes_of))
            bytes_of[made[-1]] = joined
    found = with_required(base, tokens)
    assert (found.merges, found.merge_ids) == (tuple(rank_of), tuple(made))


def test_a_required_token_that_is_split_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'a b' can never be used: the pattern splits it into"):
        plain("", 300, require=["a b"])


@pytest.mark.parametrize("pattern", [None, "cl100k"])
@pytest.mark.parametrize(
    "stages",
    [Stages((("Lowercase",),)), Stages(steps=("space", "isolated"))],
    ids=["normalizer", "step"],
)
def test_a_base_that_changes_pieces_is_refused(stages: Stages, pattern: str | None) -> None:
    base = Tokenizer(replace(vocabulary({}, []), stages=stages))
    with pytest.raises(ValueError, match="stages that training does not know"):
        plain("AB ab", 300, base=base, pattern=pattern)


# Exports


# Several languages

LANGUAGES = {
    "en": ("the cat sat on the mat and that was that, the cat sat " * 2, "the cat was on the mat"),
    "fr": ("le chat est assis sur le tapis, là où est le chat ", "le chat était sur le tapis là"),
    "zh": ("猫坐在垫子上，猫坐在那里，猫在垫子上坐着", "猫在垫子上，在垫子上"),
    "xx": ("zz", "猫" * 90),
}


def balanced(
    languages: dict[str, tuple[str, str]], vocab_size: int, **options: Any
) -> tuple[tuple[int, int], ...]:
    texts = {name: text for name, (text, _) in languages.items()}
    developments = {name: development for name, (_, development) in languages.items()}
    return plain(texts, vocab_size, balance=developments, **options).merges


@pytest.mark.parametrize("size", [256, 257, 270, 300, 400])
def test_languages_are_balanced_as_in_the_textbook(size: int) -> None:
    expected = reference.train_balanced([*LANGUAGES.values()], size)
    assert balanced(LANGUAGES, size) == expected
    base = plain("the chat 猫", 262)
    expected = reference.train_balanced([*LANGUAGES.values()], max(size, 262), base.merges)
    assert balanced(LANGUAGES, max(size, 262), base=base) == expected


@few_examples
@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.tuples(st.text("ab é", max_size=60), st.text("ab é", min_size=1, max_size=30)),
        min_size=1,
    ),
    st.integers(256, 290),
)
def test_any_languages_are_balanced(languages: dict[str, tuple[str, str]], size: int) -> None:
    assert balanced(languages, size) == reference.train_balanced([*languages.values()], size)


def test_rules_hold_for_every_language() -> None:
    merges = balanced(LANGUAGES, 400, max_token_bytes=2, min_pair_count=2)
    token_of = reference.tokens(merges)
    assert max(map(len, token_of.values())) == 2
    assert (122, 122) not in merges  # "zz", once


def test_piece_counts_are_balanced_too() -> None:
    texts = {name: PieceCounts.from_corpus(text) for name, (text, _) in LANGUAGES.items()}
    developments = {name: PieceCounts.from_corpus(text) for name, (_, text) in LANGUAGES.items()}
    merges = plain(texts, 300, balance=developments).merges
    assert merges == balanced(LANGUAGES, 300)


def test_progress_of_languages_adds_up() -> None:
    seen: list[TrainingProgress] = []
    balanced(LANGUAGES, 270, progress=seen.append)
    size = sum(len(text.encode()) for pair in LANGUAGES.values() for text in pair)
    counting = [each for each in seen if each.stage == "counting"]
    assert counting[-1] == TrainingProgress("counting", size, size)
    assert [each.done for each in counting] == sorted(each.done for each in counting)


@pytest.mark.parametrize(
    ("corpus", "balance", "error"),
    [
        ({"a": "x", "b": "y"}, {"a": "x"}, "must have the same names, at least one: 'b'"),
        ({}, {}, "must have the same names"),
        ({"a": "x"}, None, "a mapping of texts needs balance"),
        ("text", {"a": "x"}, "must be mappings from names to texts"),
        ({"a": "x", "b": "y"}, {"b": "", "a": "x"}, "the development text of 'b' is empty"),
        ({"a": "x"}, {"a": ["", ""]}, "the development text of 'a' is empty"),
        ({"a": "x"}, ["x"], "must be mappings from names to texts"),
    ],
)
def test_languages_without_texts_are_refused(corpus: Any, balance: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        plain(corpus, 300, balance=balance)


# On top of a vocabulary that normalizes text


NORMAL_BASE = plain("the cat, e\u0301te\u0301 l'été", 262)
NORMALIZING_BASE = Tokenizer(replace(NORMAL_BASE._vocabulary, normalizer="NFC"))


@pytest.mark.parametrize(
    "form",
    [list, Batched, Segmented, iter],
)
@few_examples
@given(
    st.lists(st.text("ae\u0301\u0323é 각\u1100\u1161\u11a8\u212a", max_size=20), max_size=4),
    st.sampled_from([1, 2_000]),
)
def test_a_base_normalizes_the_corpus(form: Any, documents: list[str], times: int) -> None:
    documents = [document * times for document in documents]
    normal = [unicodedata.normalize("NFC", document) for document in documents]
    expected = plain(normal, 300, base=NORMAL_BASE)
    corpus = documents if form is list else form([document.encode() for document in documents])
    found = plain(corpus, 300, base=NORMALIZING_BASE)
    assert found == Tokenizer(replace(expected._vocabulary, normalizer="NFC"))


def test_development_texts_are_normalized() -> None:
    texts, developments = {"fr": "e\u0301te\u0301"}, {"fr": "e\u0301"}
    found = plain(texts, 264, base=NORMALIZING_BASE, balance=developments)
    expected = plain({"fr": "été"}, 264, base=NORMAL_BASE, balance={"fr": "é"})
    assert found.merges == expected.merges


def test_pieces_for_a_base_that_normalizes_are_of_normal_text() -> None:
    pieces = PieceCounts.from_corpus("l'été, le thé")
    expected = plain(pieces, 270, base=NORMAL_BASE)
    assert plain(pieces, 270, base=NORMALIZING_BASE).merges == expected.merges
    other = PieceCounts.from_corpus("Kelvin: 5 \u212a")
    with pytest.raises(ValueError, match="the piece ' \u212a' is of other text; count the pieces"):
        plain(other, 270, base=NORMALIZING_BASE)


def test_a_required_token_is_in_normal_form() -> None:
    assert plain("", 264, base=NORMALIZING_BASE, require=["thé"]).encode("the\u0301") == [263]
    with pytest.raises(ValueError, match="can never be used: the base normalizes it to 'K'"):
        plain("", 270, base=NORMALIZING_BASE, require=["\u212a"])


# Wrong arguments


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"base": "gpt2"}, "base must be a Tokenizer, got str"),
        ({"min_pair_count": 0}, "min_pair_count must be at least 1, got 0"),
        ({"min_pair_count": 1.5}, "min_pair_count must be an integer, got float"),
        ({"max_token_bytes": 0}, "max_token_bytes must be at least 1, got 0"),
        ({"require": "the"}, "require"),
        ({"require": [b"the"]}, "a required token must be a str, got bytes"),
        ({"require": [""]}, "a required token must not be empty"),
        ({"forbid": "the"}, "forbid must be a function of bytes"),
        ({"forbid": re.compile("the")}, "forbid must be a function of bytes"),
        ({"forbid": [1]}, "a forbidden token must be a str or bytes, got int"),
        ({"require": ["the"], "vocab_size": 257}, "vocab_size must be at least 258"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], error: str) -> None:
    options = {"vocab_size": 300, **options}
    with pytest.raises((TypeError, ValueError), match=re.escape(error)):
        plain("the cat", **options)


def test_a_base_is_no_larger_than_the_result() -> None:
    base = plain(TEXT, 290)
    with pytest.raises(ValueError, match="vocab_size must be at least 290"):
        plain(TEXT, 280, base=base)


def test_a_base_of_several_patterns_needs_one() -> None:
    base = Tokenizer(vocabulary({}, [], pattern=r"\p{N}|\P{N}+", more_patterns=(PATTERNS["gpt2"],)))
    with pytest.raises(ValueError, match="the base splits text by several patterns"):
        plain(TEXT, 280, base=base)
    assert plain(TEXT, 280, base=base, pattern="gpt2") == plain(TEXT, 280)
