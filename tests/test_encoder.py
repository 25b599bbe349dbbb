"""Pieces to ids: the ids of the textbook, at a cost that grows with the length of a piece."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import reference
from support.engines import python_only
from support.reference import Pair
from support.times import best_time
from support.vocabularies import gpt2_characters
from tokenizers import models

from bpetite import Tokenizer, _encoder
from bpetite._encoder import Encoder, merge_ids, merger_of
from bpetite._unicode import differs
from bpetite._vocabulary import Vocabulary

SHORT = _encoder._MAX_IN_PLACE_BYTES
"""The longest piece, in bytes, that is merged in place and not with a heap."""

CACHED_LENGTH = _encoder._MAX_CACHED_CHARACTERS
"""The longest piece, in characters, whose ids are cached."""


def with_merges(merges: Sequence[Pair]) -> Tokenizer:
    """Return a tokenizer of these merges, as from a file."""
    return Tokenizer(Vocabulary(tuple(merges), {}, reference.PATTERN))


@pytest.fixture(scope="module")
def small(tokenizer: Tokenizer) -> Tokenizer:
    """The first merges of the shared tokenizer: few enough for the textbook to be quick."""
    return with_merges(tokenizer.merges[:120])


# Held against the textbook


def test_every_kind_of_text_has_the_ids_of_the_textbook(small: Tokenizer, text_case: str) -> None:
    assert small.encode(text_case) == reference.encode(text_case, small.merges)


@given(
    unit=st.sampled_from(["a", " ", "\n", "-", "0", "你", "🙂", "ab", "a ", "aab"]),
    length=st.integers(1, 300) | st.integers(1, 10_000),
    trained=st.integers(2, 500),
)
def test_runs_of_any_length_have_the_ids_of_the_textbook(
    unit: str, length: int, trained: int
) -> None:
    merges = Tokenizer.train(unit * trained, 264).merges
    text = (unit * length)[:length]
    assert with_merges(merges).encode(text) == reference.encode(text, merges)


def valid_merges(choices: list[tuple[int, int]]) -> list[Pair]:
    """Return merges in a valid order: pairs of letters and of earlier merges, each once."""
    known = [*b"ab", *"é".encode()]
    merges: list[Pair] = []
    for left, right in choices:
        pair = known[left % len(known)], known[right % len(known)]
        if pair not in merges:
            known.append(256 + len(merges))
            merges.append(pair)
    return merges


any_merges = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=16).map(
    valid_merges
)


pieces = st.one_of(
    st.text("abé", max_size=60),
    st.text("ab", min_size=SHORT - 2, max_size=SHORT + 2),  # where a piece becomes a long one
    st.builds(
        lambda unit, length: (unit * length)[:length],
        st.text("abé", min_size=1, max_size=8),
        st.integers(SHORT + 1, 300),
    ),
)


@settings(max_examples=2 * settings().max_examples)
@given(any_merges, pieces)
def test_any_merges_give_the_ids_of_the_textbook(merges: list[Pair], text: str) -> None:
    """No training gives such merges, but a file may: two ids with the same bytes, for example."""
    assert with_merges(merges).encode(text) == reference.encode(text, merges)


# Vocabularies in which any id stands for anything


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """Draw a vocabulary of known tokens: ids in any order, with gaps; merges in any order.

    A merge may make what another makes, and may have a part that only a later one makes, or none.
    """
    words = st.text("ab", min_size=2, max_size=6).map(str.encode) | st.sampled_from(
        ["é".encode(), "aé".encode(), b"ab" * 6, b"a" * 8, b"a" * 16]
    )
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += draw(st.lists(words, unique=True, max_size=14))
    ids = random.Random(draw(st.integers(0, 99))).sample(range(2 * len(tokens)), len(tokens))
    id_of = dict(zip(tokens, ids, strict=True))
    possible = [
        (id_of[token[:cut]], id_of[token[cut:]])
        for token in tokens
        for cut in range(1, len(token))
        if token[:cut] in id_of and token[cut:] in id_of
    ]
    merges = draw(st.permutations(possible))
    merges = merges[: draw(st.integers(0, len(merges)))]
    return Vocabulary.from_tokens(
        {id: token for token, id in id_of.items()},
        merges,
        {},
        reference.PATTERN,
        ignore_merges=draw(st.booleans()),
    )


def slowly_encoded(piece: str, vocabulary: Vocabulary) -> list[int]:
    """Return the ids of one piece by the textbook."""
    data = piece.encode()
    if vocabulary.ignore_merges:
        whole = [id for id, token in vocabulary.ordinary_tokens.items() if token == data]
        if whole:
            return whole
    ids = [vocabulary.byte_ids[byte] for byte in data]
    return reference.merged(ids, vocabulary.merges, vocabulary.merge_ids)


@given(vocabularies(), pieces)
def test_any_vocabulary_gives_the_ids_of_the_textbook(vocabulary: Vocabulary, piece: str) -> None:
    assert Tokenizer(vocabulary).encode(piece) == slowly_encoded(piece, vocabulary)


@given(vocabularies(), st.text("abé", max_size=60))
def test_both_ways_to_merge_make_the_same_of_any_vocabulary(
    vocabulary: Vocabulary, piece: str
) -> None:
    rank_of = {pair: rank for rank, pair in enumerate(vocabulary.merges)}
    ids = [vocabulary.byte_ids[byte] for byte in piece.encode()]
    textbook = reference.merged(ids, vocabulary.merges, vocabulary.merge_ids)
    for merge in (_encoder._merge_in_place, _encoder._merge_with_heap, merge_ids):
        assert merge(list(ids), rank_of, vocabulary.merge_ids) == textbook


@given(vocabularies(), st.text("abé", max_size=300))
def test_any_vocabulary_gives_the_ids_of_tokenizers(vocabulary: Vocabulary, piece: str) -> None:
    characters = gpt2_characters()
    written = {
        id: "".join(characters[byte] for byte in token)
        for id, token in vocabulary.ordinary_tokens.items()
    }
    model = models.BPE(
        vocab={token: id for id, token in written.items()},
        merges=[(written[left], written[right]) for left, right in vocabulary.merges],
        ignore_merges=vocabulary.ignore_merges,
    )
    theirs = [token.id for token in model.tokenize("".join(characters[b] for b in piece.encode()))]
    assert Tokenizer(vocabulary).encode(piece) == theirs


def test_a_whole_piece_may_be_a_token_without_its_merges() -> None:
    tokens = {**{byte: bytes([byte]) for byte in range(256)}, 400: b"abc", 500: b"bc", 300: b"ab"}
    pattern = reference.PATTERN
    merging = Tokenizer(Vocabulary.from_tokens(tokens, [(97, 98)], {}, pattern))
    whole = Tokenizer(Vocabulary.from_tokens(tokens, [(97, 98)], {}, pattern, ignore_merges=True))
    assert merging.encode("abc abc1bc") == [300, 99, 32, 300, 99, 49, 98, 99]
    assert whole.encode("abc abc1bc") == [400, 32, 300, 99, 49, 500]


def test_a_merge_may_use_the_token_of_a_higher_rank() -> None:
    """Rank 0 needs ab, which rank 1 makes. Then rank 0 is next."""
    tokens = {**{byte: bytes([byte]) for byte in range(256)}, 300: b"abc", 256: b"ab"}
    vocabulary = Vocabulary.from_tokens(tokens, [(256, 99), (97, 98)], {}, reference.PATTERN)
    assert Tokenizer(vocabulary).encode("ababcabab") == [256, 300, 256, 256]


@given(vocabularies(), st.lists(st.sampled_from(["a", "ab", "b", "é", "aé"]), max_size=25))
def test_a_token_within_a_piece_is_not_looked_up_whole(
    vocabulary: Vocabulary, parts: list[str]
) -> None:
    """Only a whole piece may be a token without merges; digits separate these pieces."""
    expected = [
        id
        for number, part in enumerate(parts)
        for piece in (str(number), part)
        for id in slowly_encoded(piece, vocabulary)
    ]
    text = "".join(f"{number}{part}" for number, part in enumerate(parts))
    assert Tokenizer(vocabulary).encode(text) == expected
    assert Tokenizer(vocabulary).count(text) == len(expected)


@given(any_merges, st.text("abé", max_size=30))
def test_full_passes_are_the_leftmost_over_and_over(merges: list[Pair], piece: str) -> None:
    """If only later ranks use the id that a merge makes, both textbooks agree."""
    ids = range(256, 256 + len(merges))
    leftmost = reference.merged(list(piece.encode()), merges, ids)
    assert leftmost == reference.encode_piece(piece, merges)


@pytest.mark.parametrize("length", [2, SHORT - 1, SHORT, SHORT + 1, SHORT + 2, 4 * SHORT])
@pytest.mark.parametrize("ignore_merges", [False, True])
def test_a_lower_rank_that_appears_is_next_at_any_length(length: int, ignore_merges: bool) -> None:
    """By rank: abab ab, then ab ab, then a b. Each is merged as soon as its parts exist."""
    tokens = {byte: bytes([byte]) for byte in range(256)}
    tokens |= {300: b"ab", 299: b"abab", 298: b"ababab"}
    vocabulary = Vocabulary.from_tokens(
        tokens,
        [(299, 300), (300, 300), (97, 98)],
        {},
        reference.PATTERN,
        ignore_merges=ignore_merges,
    )
    units, rest = divmod(length, 2)
    whole, left = divmod(units, 3)
    last = {0: [], 1: [300], 2: [299]}[left] + [97] * rest
    assert Tokenizer(vocabulary).encode(("ab" * length)[:length]) == [298] * whole + last


# The cache


def distinct_words(count: int) -> list[str]:
    """Return different words that begin with different letters."""
    return [f"{chr(0x4E00 + number)}ab" for number in range(count)]


def new_encoder() -> Encoder:
    """Return the Python engine's encoder of two merges: ab and " ab"."""
    return Encoder(Vocabulary(((97, 98), (32, 256)), {}, reference.PATTERN), differs)


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces and ids count: eight pieces of four ids each fill this cache."""
    monkeypatch.setattr(_encoder, "_MAX_CACHE_UNITS", 8 * (_encoder._UNITS_PER_PIECE + 4))
    encoder = new_encoder()
    sizes = set()
    for word in distinct_words(100):
        encoder[word]
        sizes.add(len(encoder))
    assert sizes == set(range(1, 9))


def test_ids_do_not_depend_on_the_cache(
    monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer
) -> None:
    text = " ".join(distinct_words(50) * 3)
    expected = with_merges(tokenizer.merges).encode(text)
    assert tokenizer.encode(text) == tokenizer.encode(text) == expected
    monkeypatch.setattr(_encoder, "_MAX_CACHE_UNITS", 80)
    assert with_merges(tokenizer.merges).encode(text) == expected


@python_only
@pytest.mark.parametrize("letter", ["a", "你", "🙂"])
@pytest.mark.parametrize(("length", "kept"), [(CACHED_LENGTH, 1), (CACHED_LENGTH + 1, 0)])
def test_a_long_piece_is_not_cached(letter: str, length: int, kept: int) -> None:
    encoder = new_encoder()
    encoder[letter * length]
    assert len(encoder) == kept


def test_returned_ids_may_be_changed() -> None:
    """The list belongs to the caller: changes to it do not reach the cache."""
    tokenizer = Tokenizer.train("ab ab", 257)
    tokenizer.encode("ab").append(0)
    assert tokenizer.encode("ab") == [256]


def test_a_piece_that_cannot_be_encoded_leaves_nothing_behind() -> None:
    tokenizer = Tokenizer.train("ab ab", 258)
    with pytest.raises(UnicodeEncodeError):
        tokenizer.encode("a\ud800")
    assert tokenizer.encode("ab a") == [256, 32, 97]


# The cost, in steps: the same on every machine


class Counted:
    """The number of look-ups and comparisons of ranks."""

    steps = 0

    @classmethod
    def counting(cls, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that counts its calls."""

        def called(*arguments: Any) -> Any:
            cls.steps += 1
            return function(*arguments)

        return called


COMPARISONS = ("__lt__", "__gt__", "__eq__", "__ne__")
compared = {name: Counted.counting(getattr(int, name)) for name in COMPARISONS}
Rank: Any = type("Rank", (int,), {**compared, "__hash__": int.__hash__})
LOOK_UPS = ("get", "__getitem__", "__contains__")
looked_up = {name: Counted.counting(getattr(dict, name)) for name in LOOK_UPS}
Ranks: Any = type("Ranks", (dict,), looked_up)


def letters(alphabet: Sequence[str]) -> Callable[[int], str]:
    """Return a function that makes a text of random letters of any length, the same each time."""
    return lambda length: "".join(random.Random(11).choices(alphabet, k=length))


PIECES: dict[str, Callable[[int], str]] = {
    "one letter": lambda length: "a" * length,
    "spaces": lambda length: " " * length,
    "two letters in turn": lambda length: "ab" * (length // 2),
    "ever longer runs": lambda length: "".join("a" * n + "b" for n in range(length))[:length],
    "random letters": letters("abcdefghijklmnopqrstuvwxyz"),
    "DNA": letters("ACGT"),
    "CJK": letters([chr(0x4E00 + number) for number in range(300)]),
}


@pytest.mark.parametrize("make", PIECES.values(), ids=PIECES.keys())
def test_the_cost_of_a_long_piece_follows_its_length(make: Callable[[int], str]) -> None:
    merges = Tokenizer.train(make(3000), 256 + 300).merges
    bytes_of = with_merges(merges).token_bytes
    steps = {}
    for length in (3000, 6000):
        piece = make(length).encode()
        rank_of = Ranks({pair: Rank(rank) for rank, pair in enumerate(merges)})
        Counted.steps = 0
        ids = merge_ids(list(piece), rank_of, range(256, 256 + len(merges)))
        assert b"".join(map(bytes_of, ids)) == piece
        steps[length] = Counted.steps
        # A look-up for each pair in the beginning, and for each of the two that a merge makes;
        # when the turn of one of these comes, a look-up and a comparison; and few for the heap.
        assert len(piece) - 1 <= steps[length] <= 10 * len(piece)
    assert steps[6000] <= 2.5 * steps[3000]


# A choice of special tokens


def chosen_tokenizer(literals: list[str]) -> Tokenizer:
    ids = {literal: 300 + number for number, literal in enumerate(literals)}
    return Tokenizer(Vocabulary(((97, 98),), ids, Tokenizer.train("", 256).patterns[0]))


@pytest.mark.parametrize(
    ("literals", "text"),
    [
        ([f"<|sp{number:05}|>" for number in range(4000)], "<|sp00009" * 10_000),
        (["a" * length for length in range(2, 2000)], ("a" * 1000 + "b") * 100),
        (["a", "a" * 1000 + "c"], "a" * 100_000),
    ],
    ids=["prefix", "nested", "restarts"],
)
def test_a_choice_takes_linear_time(literals: list[str], text: str) -> None:
    tokenizer = chosen_tokenizer([*literals, "unused"])

    def seconds() -> float:
        start = process_time()
        ids = tokenizer.encode(text, allowed_special=literals)
        assert tokenizer.count(text, allowed_special=literals) == len(ids)
        with pytest.raises(ValueError, match="disallowed_special refuses"):
            tokenizer.encode(text + literals[0], allowed_special=(), disallowed_special="all")
        taken = process_time() - start
        assert ids == tokenizer.encode(text)
        return taken

    assert best_time(seconds, enough=4) < 4


def test_a_choice_among_many_special_tokens_is_set_up_quickly() -> None:
    tokenizer = chosen_tokenizer([f"<|special_{number}|>" for number in range(100_000)])

    def seconds() -> float:
        start = process_time()
        for _ in range(20):
            assert tokenizer.encode("a", allowed_special=(), disallowed_special="all") == [97]
            assert tokenizer.encode("<|special_7|>", allowed_special=["<|special_7|>"]) == [307]
        return process_time() - start

    assert best_time(seconds, enough=1) < 1


def test_threads_share_a_text_with_a_choice() -> None:
    tokenizer = chosen_tokenizer(["<|a|>", "<|b|>"])
    text = "ab é<|a|> ab<|b|>" * 20_000
    ids = tokenizer.encode(text, allowed_special=["<|b|>"])
    assert tokenizer.encode(text, allowed_special=["<|b|>"], threads=3) == ids
    assert tokenizer.encode_batch([text, "ab"], allowed_special=["<|b|>"]) == [ids, [256]]
    assert (ids.count(300), ids.count(301)) == (0, 20_000)


def test_a_lone_surrogate_comes_before_a_disallowed_token() -> None:
    tokenizer = chosen_tokenizer(["<|a|>"])
    with pytest.raises(UnicodeEncodeError) as error:
        tokenizer.encode("ab<|a|>\ud800", disallowed_special=["<|a|>"])
    assert error.value.start == 7


def test_many_runs_of_chinese_have_the_ids_of_each_alone() -> None:
    """The native engine splits such runs only after many of them."""
    choose = random.Random(5).choices
    words = ["".join(choose("天地玄黄宇宙洪荒日月", k=2)) for _ in range(40)]
    runs = ["".join(choose(words, k=8)) for _ in range(4_000)]
    tokenizer = Tokenizer.train(runs[:200], 500, pattern="gpt2")
    merge = merger_of(tokenizer._vocabulary)
    ids = [id for run in runs for id in (*merge(run.encode()), *merge(b"\n"))]
    assert tokenizer.encode("\n".join([*runs, ""])) == ids
