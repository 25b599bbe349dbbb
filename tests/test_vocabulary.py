"""Vocabularies of any tokens: how they are made, and when two are the same."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import few_examples

from bpetite import Tokenizer
from bpetite._encoder import merge_ids
from bpetite._vocabulary import IMPOSSIBLE_BYTES, MAX_ID, Pair, Stages, Vocabulary
from bpetite.analysis import explain

PATTERN = r"\S+|\s+"
BYTES_OF = {byte: bytes([byte]) for byte in range(256)}
WITHOUT_FF = {id: token for id, token in BYTES_OF.items() if token != b"\xff"}
TOKENS = {**BYTES_OF, 300: b"ab", 310: b"bc", 320: b"abc"}


def vocabulary_of(
    tokens: dict[int, bytes], merges: list[Pair], special_tokens: dict[str, int] | None = None
) -> Vocabulary:
    return Vocabulary.from_tokens(tokens, merges, special_tokens or {}, PATTERN)


NO_NEWLINE = {id: token for id, token in BYTES_OF.items() if id != 10}
TWICE = [(97, 98), (98, 99), (97, 98)]


@pytest.mark.parametrize(
    ("tokens", "merges", "message"),
    [
        (NO_NEWLINE, [], "no id stands for the single byte 0x0a"),
        ({}, [], "no id stands for the single byte 0x00"),
        ({**BYTES_OF, 300: b"a"}, [], "ids 97 and 300 have the same bytes"),
        ({**TOKENS, 400: b"abc"}, [], "ids 320 and 400 have the same bytes"),
        (TOKENS, [(97, 301)], "the merge of rank 0 has the part 301, which is not an id"),
        (TOKENS, [(97, 98), (-1, 98)], "the merge of rank 1 has the part -1, which is not an id"),
        (TOKENS, [(97, 98), (98, 97)], "the merge of rank 1 makes b'ba', which is not a token"),
        ({**WITHOUT_FF, 2**32 - 1: b"xyz"}, [], "ids above 4294967039 need tokens for all bytes"),
        ({**TOKENS, -1: b"xyz"}, [], "the id -1 is not from 0 to 4294967295"),
        ({**TOKENS, 2**32: b"xyz"}, [], "the id 4294967296 is not from 0 to 4294967295"),
        (TOKENS, TWICE, "the merge of rank 2 is given before, with a lower rank"),
    ],
)
def test_tokens_that_make_no_vocabulary_are_refused(
    tokens: dict[int, bytes], merges: list[Pair], message: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        vocabulary_of(tokens, merges)
    assert caught.value.args == (message,)


@pytest.mark.parametrize(
    ("special_tokens", "message"),
    [
        ({"": 400}, "the special token '' is empty, or not Unicode"),
        ({"\ud800": 400}, "the special token '\\ud800' is empty, or not Unicode"),
        ({"<|a|>": 400, "<|b|>": 400}, "'<|b|>' and '<|a|>' have the id 400"),
        ({"<|a|>": 300}, "the id 300 of '<|a|>' is also the id of b'ab'"),
        ({"a": 98}, "the id 98 of 'a' is also the id of b'b'"),
        ({"ab": 300, "<|a|>": 2**32}, "the id 4294967296 is not from 0 to 4294967295"),
        ({"<|a|>": -1}, "the id -1 is not from 0 to 4294967295"),
    ],
)
def test_special_tokens_that_make_no_vocabulary_are_refused(
    special_tokens: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        vocabulary_of(TOKENS, [(97, 98)], special_tokens)
    assert caught.value.args == (message,)


def test_the_greatest_id_is_taken() -> None:
    tokens = {**TOKENS, MAX_ID: b"xyz"}
    assert vocabulary_of(tokens, []).tokens.bytes_of[MAX_ID] == b"xyz"
    assert vocabulary_of(tokens, [], {"xyz": MAX_ID}).n_vocab == 2**32
    assert vocabulary_of(TOKENS, [], {"<|a|>": MAX_ID}).n_vocab == 2**32


def test_trained_tokens_make_the_trained_vocabulary() -> None:
    trained = Vocabulary(((97, 98), (256, 99)), {"<|a|>": 258}, PATTERN)
    tokens = {**BYTES_OF, 256: b"ab", 257: b"abc"}
    assert vocabulary_of(tokens, [(97, 98), (256, 99)], {"<|a|>": 258}) == trained


def test_tokens_that_no_merge_makes_in_time_are_other_tokens() -> None:
    vocabulary = vocabulary_of(TOKENS, [(300, 99), (97, 98), (97, 310)])
    assert dict(vocabulary.other_tokens) == {300: b"ab", 310: b"bc"}
    assert vocabulary.merge_ids == (320, 300, 320)


@given(st.integers(0, 2**32), st.permutations([(97, 98), (98, 99), (300, 99), (97, 310)]))
@few_examples
def test_tokens_are_those_given_whatever_the_order_of_merges(seed: int, merges: list[Pair]) -> None:
    shuffled = list(TOKENS.items())
    random.Random(seed).shuffle(shuffled)
    vocabulary = vocabulary_of(dict(shuffled), merges)
    assert list(vocabulary.ordinary_tokens.items()) == sorted(TOKENS.items())
    assert vocabulary == vocabulary_of(TOKENS, merges)
    assert hash(vocabulary) == hash(vocabulary_of(TOKENS, merges))


def test_only_bytes_of_no_text_may_lack_a_token() -> None:
    characters = map(chr, [*range(0xD800), *range(0xE000, 0x110000)])
    assert {*IMPOSSIBLE_BYTES} == {*range(256)} - {*"".join(characters).encode()}
    tokenizer = Tokenizer(vocabulary_of(WITHOUT_FF, []))
    assert (tokenizer.n_vocab, len(tokenizer.ids)) == (255, 255)
    assert tokenizer.encode_bytes(b"\xfe") == [254]
    with pytest.raises(ValueError, match="no token for the byte 0xff"):
        tokenizer.encode_bytes(b"a\xff")
    with pytest.raises(ValueError, match="no id stands for the single byte 0x61"):
        vocabulary_of({id: token for id, token in BYTES_OF.items() if id != 97}, [])


def test_a_vocabulary_without_some_bytes_counts_those_it_has() -> None:
    tokenizer = Tokenizer(
        vocabulary_of({**WITHOUT_FF, 300: b"ab", 310: b"abc"}, [(97, 98), (300, 99)])
    )
    assert repr(tokenizer) == "<Tokenizer: 257 ids = 255 bytes + 2 merges + 0 special tokens>"
    assert tokenizer.with_vocab_size(256).merges == ((97, 98),)
    assert [piece.ids for piece in explain(tokenizer, "abcd")] == [(310, 100)]


def test_bytes_that_are_parts_of_characters_merge_as_they_are() -> None:
    """Also if the engine looks for words and characters in usual pieces."""
    words = "".join(f"{left}{right} " for left in "你好世界中文" for right in "你好世界中文日本")
    tokenizer = Tokenizer.train(words, 290)
    rank_of = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    made = range(256, 256 + len(rank_of))
    some = random.Random(3)
    data = words.encode()
    for _ in range(3000):
        start = some.randrange(len(data))
        parts = (data[start : start + some.randrange(20)], bytes(some.choices(data, k=5)))
        piece = b"".join(some.sample(parts, 2))
        assert tokenizer.encode_bytes(piece) == merge_ids([*piece], rank_of, made)


def test_tokens_of_no_bytes_add_nothing() -> None:
    tokenizer = Tokenizer(vocabulary_of({**TOKENS, 400: b"", 900: b""}, [(97, 98)]))
    assert (tokenizer.n_vocab, len(tokenizer.ids)) == (901, len(TOKENS) + 2)
    assert tokenizer.token_bytes(900) == b""
    assert tokenizer.decode([400, 300, 900]) == "ab"
    stream = tokenizer.decode_stream(stop=["bc"])
    assert [stream.step(id) for id in (400, 97, 900, 98, 400, 97)] == ["", "a", "", "", "", "ba"]


BASE = vocabulary_of(TOKENS, [(97, 98)], {"<|a|>": 400})
SWAPPED = {**TOKENS, 0: b"\x01", 1: b"\x00"}
FULL = replace(
    BASE,
    unused_tokens={500: b""},
    ignore_merges=True,
    more_patterns=("a|.", "b|."),
    stages=Stages(normalizers=(("Lowercase",),), flags=(("<|a|>", ("lstrip",)),)),
    kept_special_tokens=frozenset(["<|a|>"]),
    prefix_ids=(400, 97),
    suffix_ids=(400,),
    settings={"bos_token": "<|a|>", "chat_template": "{{ x }}"},
)
DIFFERENT: dict[str, Any] = {
    "_merges": ((98, 99),),
    "special_tokens": {"<|a|>": 401},
    "pattern": ".",
    "byte_ids": vocabulary_of(SWAPPED, []).byte_ids,
    "_merge_ids": (320,),
    "other_tokens": {310: b"bc", 320: b"abd"},
    "unused_tokens": {500: b""},
    "absent_bytes": b"\xff",
    "ignore_merges": True,
    "more_patterns": (".",),
    "normalizer": "NFC",
    "stages": Stages(normalizers=(("NFKC",),)),
    "kept_special_tokens": frozenset(["<|a|>"]),
    "added_tokens": frozenset(["<|a|>"]),
    "prefix_ids": (400,),
    "suffix_ids": (97,),
    "settings": {"bos_token": "<|a|>"},
}


def test_there_is_a_difference_in_every_field() -> None:
    assert [*DIFFERENT, "native"] == [field.name for field in fields(Vocabulary)]


@pytest.mark.parametrize("field", DIFFERENT)
def test_vocabularies_that_differ_in_anything_are_unequal(field: str) -> None:
    other = replace(BASE, **{field: DIFFERENT[field]})
    assert other != BASE
    assert len({other, BASE, replace(BASE)}) == 2
    assert Tokenizer(other) != Tokenizer(BASE)


@pytest.mark.parametrize("vocabulary", [BASE, FULL], ids=["few fields", "all fields"])
def test_equal_vocabularies_hash_alike_for_any_order(
    vocabulary: Vocabulary,
) -> None:
    other = replace(
        vocabulary,
        special_tokens=dict(reversed([*vocabulary.special_tokens.items()])),
        other_tokens=dict(reversed([*vocabulary.other_tokens.items()])),
        settings=dict(reversed([*vocabulary.settings.items()])),
    )
    assert (other, hash(other)) == (vocabulary, hash(vocabulary))


@pytest.mark.parametrize("field", DIFFERENT)
def test_a_vocabulary_cannot_be_changed(field: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(FULL, field, DIFFERENT[field])


@pytest.mark.parametrize("name", ["special_tokens", "other_tokens", "settings"])
def test_a_vocabulary_copies_its_mappings(
    name: str,
) -> None:
    given: dict[str, Any] = {name: dict(getattr(FULL, name))}
    vocabulary = replace(FULL, **given)
    given[name].clear()
    assert vocabulary == FULL
    with pytest.raises(TypeError):
        getattr(vocabulary, name)[0] = 0


@pytest.mark.parametrize(
    "again",
    [lambda vocabulary: pickle.loads(pickle.dumps(vocabulary)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
@pytest.mark.parametrize(
    "vocabulary",
    [
        BASE,
        FULL,
        Vocabulary(((97, 98),), {"<|a|>": 257}, PATTERN),
        vocabulary_of(TOKENS, []),
        vocabulary_of(SWAPPED, [(300, 99), (97, 98)], {"ab": 300}),
        *(replace(BASE, **{field: value}) for field, value in DIFFERENT.items()),
    ],
    ids=["gaps", "all fields", "plain", "no merges", "swapped bytes", *DIFFERENT],
)
def test_a_pickle_and_a_copy_are_equal_in_everything(
    vocabulary: Vocabulary, again: Callable[[Vocabulary], Vocabulary]
) -> None:
    other = again(vocabulary)
    for field in fields(Vocabulary):
        assert getattr(other, field.name) == getattr(vocabulary, field.name)
    assert other == vocabulary
    assert other.tokens.bytes_of == vocabulary.tokens.bytes_of
    assert list(other.special_tokens.items()) == list(vocabulary.special_tokens.items())


def test_pickle_of_a_plain_vocabulary_is_small() -> None:
    """It holds the merges alone: no ids of bytes, and nothing that was derived."""
    merges = tuple((256 + n, 97) for n in range(-159, 841))
    vocabulary = Vocabulary(merges, {"<|a|>": 1256}, PATTERN)
    derived = (vocabulary.tokens, vocabulary.id_of, vocabulary.n_vocab)
    assert len(derived) == 3
    assert len(pickle.dumps(vocabulary)) < len(pickle.dumps(merges)) + 200


def test_length_counts_the_ids_in_use_and_n_vocab_the_gaps_too() -> None:
    vocabulary = vocabulary_of(TOKENS, [(97, 98)], {"<|a|>": 1000, "ab": 300})
    assert (len(vocabulary), vocabulary.n_vocab) == (256 + 3 + 1, 1001)
    assert (len(BASE), BASE.n_vocab) == (256 + 3 + 1, 401)


def test_sizes_of_a_tokenizer_tell_the_gaps_apart() -> None:
    tokenizer = Tokenizer(vocabulary_of(TOKENS, [(97, 98)], {"<|a|>": 1000, "ab": 300}))
    assert (tokenizer.vocab_size, len(tokenizer.ids), tokenizer.n_vocab) == (259, 260, 1001)
    with pytest.raises(KeyError, match=r"id 999 is not .* from 0 to 1000, with gaps\)"):
        tokenizer.token_bytes(999)


# Special tokens that are kept where others are skipped


TWO_KINDS = Vocabulary.from_tokens(
    TOKENS,
    [(97, 98)],
    {"<s>": 400, "<think>": 401, "ab": 300},
    PATTERN,
    kept_special_tokens=frozenset(["<think>", "ab"]),
)


def test_only_skipped_special_tokens_lose_their_bytes() -> None:
    bytes_of = TWO_KINDS.tokens_without_special.bytes_of
    assert bytes_of == {**TOKENS, 400: b"", 401: b"<think>"}
    assert TWO_KINDS.tokens.bytes_of == {**TOKENS, 400: b"<s>", 401: b"<think>"}


def test_decoding_keeps_a_special_token_that_is_kept() -> None:
    tokenizer = Tokenizer(TWO_KINDS)
    ids = [400, 97, 401, 300, 400, 98, 401]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "a<think>abb<think>"
    assert tokenizer.decode_batch([ids], skip_special_tokens=True) == ["a<think>abb<think>"]
    assert tokenizer.decode(ids) == "<s>a<think>ab<s>b<think>"
    assert tokenizer.decode_bytes(ids) == b"<s>a<think>ab<s>b<think>"


@given(st.lists(st.sampled_from([97, 0xC3, 0xA9, 300, 400, 401]), max_size=12), st.booleans())
def test_a_stream_and_decoding_keep_the_same(ids: list[int], skip: bool) -> None:
    tokenizer = Tokenizer(TWO_KINDS)
    stream = tokenizer.decode_stream(skip_special_tokens=skip)
    text = "".join(map(stream.step, ids)) + stream.flush()
    assert text == tokenizer.decode(ids, errors="replace", skip_special_tokens=skip)


def test_special_token_may_share_the_id_of_its_bytes() -> None:
    tokenizer = Tokenizer(vocabulary_of(TOKENS, [(97, 98)], {"abc": 320}))
    assert tokenizer.encode("abc") == [320]
    assert tokenizer.encode_ordinary("abc") == [300, 99]
    assert tokenizer.decode([300, 320]) == "ababc"
    assert tokenizer.decode([300, 320], skip_special_tokens=True) == "ab"


@pytest.mark.parametrize("special_id", [290, 350])
def test_id_of_bytes_that_two_ids_have_is_the_lower(special_id: int) -> None:
    vocabulary = vocabulary_of(TOKENS, [(97, 98)], {"ab": special_id})
    assert vocabulary.id_of[b"ab"] == min(300, special_id)
    assert Tokenizer(vocabulary).token_id(b"ab") == min(300, special_id)


@given(st.integers(0, 2**32))
@few_examples
def test_id_of_is_the_lowest_whatever_the_order_of_ids(seed: int) -> None:
    ids = random.Random(seed).sample(range(1000), 258)
    vocabulary = Vocabulary.from_tokens(
        {id: bytes([byte]) for byte, id in enumerate(ids[:256])}, [], {"a": ids[256]}, PATTERN
    )
    expected = dict(zip(map(bytes, ([byte] for byte in range(256))), ids, strict=False))
    assert vocabulary.id_of == {**expected, b"a": min(ids[97], ids[256])}


# Small things


# What a native core has


class SmallCore:
    """A core whose merges make "ab" and "bc", the latter after it was a part; it counts calls."""

    ignore_merges = True

    def __init__(self) -> None:
        self.asked: list[str] = []

    def byte_ids(self) -> tuple[int, ...]:
        return tuple(range(256))

    def merges(self) -> tuple[Pair, ...]:
        self.asked.append("merges")
        return ((97, 98), (97, 300), (98, 99))

    def merge_ids(self) -> tuple[int, ...]:
        self.asked.append("merge_ids")
        return (256, 257, 300)

    def other_tokens(self) -> dict[int, bytes]:
        return {300: b"bc"}

    def tokens(self) -> dict[int, bytes]:
        self.asked.append("tokens")
        return {byte: bytes([byte]) for byte in range(256)} | {256: b"ab", 257: b"abc", 300: b"bc"}

    def token(self, id: int) -> bytes | None:
        return self.tokens().get(id)

    def span(self) -> tuple[int, int]:
        return 300, 259

    def extended(self, *_: object) -> None:
        return None

    def json_items(self) -> None:
        return None


def test_native_fields_are_copied_once_and_when_first_read() -> None:
    core = SmallCore()
    vocabulary = Vocabulary((), {"<a>": 999}, "...", native=core, prefix_ids=(999,))
    assert (vocabulary.prefix_ids, vocabulary.ignore_merges, core.asked) == ((999,), True, [])
    assert [vocabulary.merges, vocabulary.merges] == [((97, 98), (97, 300), (98, 99))] * 2
    assert (vocabulary.n_vocab, vocabulary.tokens.bytes_of[257]) == (1000, b"abc")
    assert vocabulary.merge_ids == vocabulary.merge_ids
    # `n_vocab` keeps no copy of the merges' ids.
    assert core.asked == ["merges", "merge_ids", "tokens", "merge_ids"]
