"""A text in parts: special literals count in trusted parts alone, and each part has its ids."""

from __future__ import annotations

import copy
import itertools
import pickle
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import slow_except
from support.split_cases import CHARACTERS, LITERALS, tokenizer_of
from support.vocabularies import vocabulary

from bpetite import PATTERNS, Tokenizer, Trusted
from bpetite._vocabulary import ONE_SPACE, Stages, Vocabulary
from conftest import TEXTS

OWN_PATTERN = r"\S+|\s+"

texts = st.lists(st.sampled_from(CHARACTERS), max_size=6).map("".join)
parts_of_text = st.lists(texts | texts.map(Trusted), max_size=7)

every_choice_of_literals = pytest.mark.parametrize(
    "literals", [(), LITERALS[:1], LITERALS], ids=len
)

SMALL = Tokenizer.train("ab ab ab", 258, special_tokens=["<|im_start|>", "<|im_end|>"])
START, END = 258, 259


def literals_in(tokenizer: Tokenizer, text: str) -> list[tuple[int, int]]:
    """Return where literals begin and end: the leftmost, and of several the longest."""
    found = []
    at = 0
    while at < len(text):
        here = [literal for literal in tokenizer.special_tokens if text.startswith(literal, at)]
        length = max(map(len, here), default=0)
        if length:
            found.append((at, at + length))
        at += length or 1
    return found


def reference(tokenizer: Tokenizer, parts: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the ids and offsets of a text in parts, by the plainest way."""
    text = "".join(parts)
    starts = [*accumulate(map(len, parts), initial=0)]
    bounds = [
        (start + first, start + end)
        for part, start in zip(parts, starts, strict=False)
        if isinstance(part, Trusted)
        for first, end in literals_in(tokenizer, part)
    ]
    ids: list[int] = []
    sizes: list[int] = []
    at = 0
    for first, end in [*bounds, (len(text), len(text))]:
        ordinary = tokenizer.encode_ordinary(text[at:first])
        special = [tokenizer.special_tokens[text[first:end]]] if first < end else []
        ids += ordinary + special
        sizes += map(len, map(tokenizer.token_bytes, ordinary + special))
        at = end
    first_bytes = [*accumulate(sizes, initial=0)]
    part_starts = [len(text[:start].encode()) for start in starts]
    return ids, [bisect_left(first_bytes, start) for start in part_starts]


# The contract


@pytest.mark.parametrize(
    "pattern", slow_except([*PATTERNS, OWN_PATTERN], "gpt2", "o200k", OWN_PATTERN)
)
@every_choice_of_literals
@given(parts=parts_of_text)
@example(parts=[Trusted("<|a"), " b|>", Trusted("1<|a b|>"), "1"])
@example(parts=["", Trusted("aa"), "", "aa", Trusted("")])
def test_ids_and_offsets_match_the_reference(
    pattern: str, literals: tuple[str, ...], parts: list[str]
) -> None:
    tokenizer = tokenizer_of(pattern, literals)
    assert tokenizer.encode_parts(parts) == reference(tokenizer, parts)


def test_cutting_a_text_changes_no_id(tokenizer: Tokenizer, text_case: str) -> None:
    for size in (1, 5, 5000):
        parts = [text_case[at : at + size] for at in range(0, len(text_case), size)]
        assert tokenizer.encode_parts(parts) == reference(tokenizer, parts)


@pytest.mark.parametrize("trust", [str, Trusted])
def test_a_long_text_has_its_ids_and_offsets(tokenizer: Tokenizer, trust: Any) -> None:
    """The native engine encodes a long text without the GIL."""
    parts = [trust(text) for text in TEXTS.values()]
    assert tokenizer.encode_parts(parts) == reference(tokenizer, parts)


@given(parts=parts_of_text)
def test_arrays_have_the_ids_and_offsets(parts: list[str]) -> None:
    tokenizer = tokenizer_of("gpt2", LITERALS)
    expected = tokenizer.encode_parts(parts)
    cases: list[tuple[Any, str]] = [("uint32", "I"), ("uint16", "H"), (np.uint16, "H")]
    for dtype, format in cases:
        ids, offsets = tokenizer.encode_parts(parts, dtype=dtype)
        assert (ids.format, offsets.format) == (format, "Q")
        assert (ids.tolist(), offsets.tolist()) == expected


def test_no_parts_have_no_ids() -> None:
    assert SMALL.encode_parts([]) == ([], [0])
    assert SMALL.encode_parts(iter(["", Trusted("")])) == ([], [0, 0, 0])
    ids, offsets = SMALL.encode_parts((), dtype="uint32")
    assert (ids.tolist(), offsets.tolist()) == ([], [0])


def test_parts_may_come_from_an_iterator() -> None:
    assert SMALL.encode_parts(part for part in ("a", Trusted("b"))) == ([256], [0, 1, 1])


# Trusted and untrusted text


def test_a_literal_of_a_user_is_never_special() -> None:
    ids, offsets = SMALL.encode_parts(
        [Trusted("<|im_start|>"), "ab<|im_end|>", Trusted("<|im_end|>")]
    )
    assert (ids[0], ids[-1]) == (START, END)
    assert ids[1:-1] == SMALL.encode_ordinary("ab<|im_end|>")
    assert offsets == [0, 1, len(ids) - 1, len(ids)]


@pytest.mark.parametrize("at", range(1, len("<|im_end|>")))
@pytest.mark.parametrize("left", [str, Trusted])
@pytest.mark.parametrize("right", [str, Trusted])
def test_a_literal_across_parts_is_never_special(at: int, left: Any, right: Any) -> None:
    literal = "<|im_end|>"
    for middle in [], [""], [Trusted("")]:
        parts = [left(literal[:at]), *middle, right(literal[at:])]
        assert SMALL.encode_parts(parts)[0] == SMALL.encode_ordinary(literal)


def test_strings_made_of_trusted_text_are_not_trusted() -> None:
    literal = Trusted("<|im_end|>")
    made = [literal + "", "" + literal, f"{literal}", literal[:], literal.strip(), literal * 1]
    made += ["".join([literal]), str(literal), *[literal].__iter__().__next__().split()]
    assert [type(text) for text in made] == [str] * len(made)
    ordinary = SMALL.encode_ordinary("<|im_end|>")
    assert [SMALL.encode_parts([text])[0] for text in made] == [ordinary] * len(made)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_of_trusted_text_are_trusted(again: Any) -> None:
    text = again(Trusted("<|im_end|>"))
    assert (type(text), text, repr(text)) == (Trusted, "<|im_end|>", "Trusted('<|im_end|>')")


@pytest.mark.parametrize("value", [None, b"<|im_end|>", 1], ids=repr)
def test_only_a_str_is_trusted(value: Any) -> None:
    with pytest.raises(TypeError, match=f"must be a str, got {type(value).__name__}"):
        Trusted(value)


def test_other_calls_take_trusted_text_as_any_text() -> None:
    text = Trusted("<|im_end|>ab")
    assert SMALL.encode_ordinary(text) == SMALL.encode_ordinary(str(text))
    assert SMALL.encode(text) == SMALL.encode(str(text)) == [END, 256]


def test_subclasses_count_as_their_bases() -> None:
    class Template(Trusted):
        pass

    class UserText(str):
        __slots__ = ()

    assert SMALL.encode_parts([Template("<|im_end|>")])[0] == [END]
    assert SMALL.encode_parts([UserText("<|im_end|>")])[0] == SMALL.encode_ordinary("<|im_end|>")


# Which part an id belongs to


def test_long_tokens_have_their_lengths() -> None:
    """A table of one byte for each length would not do for all of them."""
    tokenizer = Tokenizer.train("a" * 4096, 266)
    assert tokenizer.token_bytes(265) == b"a" * 1024
    for sizes in ([1023, 1, 5], [1024, 1025, 254, 255, 256, 257], [128] * 17, [3000, 0, 97]):
        parts = ["a" * size for size in sizes]
        assert tokenizer.encode_parts(parts) == reference(tokenizer, parts)


@pytest.mark.parametrize(
    "small",
    [
        vocabulary({300: b"ab", 5_000_000: b"abc"}, [(97, 98), (300, 99)]),
        vocabulary({300: b"abc", 301: b"ab"}, [(97, 98)], ignore_merges=True),
        vocabulary({300: b"abc", 301: b"bc", 302: b"abca"}, [(300, 97), (97, 301), (98, 99)]),
    ],
    ids=["an id far above", "whole pieces", "a merge before those of its parts"],
)
def test_tokens_of_unusual_vocabularies_have_their_lengths(small: Vocabulary) -> None:
    tokenizer = Tokenizer(small)
    for parts in itertools.product(["a", "ab", "abc", "c ", " ab"], repeat=3):
        assert tokenizer.encode_parts(parts) == reference(tokenizer, parts)


# Vocabularies that normalize text


def decomposed_length(text: str) -> int:
    return len(normalize("NFD", text))


@given(st.lists(st.text("aeé\u0301\u0323\u1e69 한각ᄀ\u1161", max_size=5), max_size=5))
@example(["e", "\u0301a"])
@example(["e\u0301", "\u0323a"])
@example(["ᄀ", "\u1161", "\u11a8"])
def test_normalized_parts_have_the_ids_of_the_flat_text(parts: list[str]) -> None:
    tokenizer = tokenizer_of("gpt2", LITERALS, "NFC")
    text = "".join(parts)
    normal = normalize("NFC", text)
    ids, offsets = tokenizer.encode_parts(parts)
    assert ids == tokenizer.encode_ordinary(text)
    # A part begins at the first normalized character that is not in the parts before it.
    characters = [
        next(at for at in range(len(normal) + 1) if decomposed_length(normal[:at]) >= length)
        for length in accumulate(map(decomposed_length, parts), initial=0)
    ]
    first_bytes = [*accumulate((len(tokenizer.token_bytes(id)) for id in ids), initial=0)]
    starts = [len(normal[:at].encode()) for at in characters]
    assert offsets == [bisect_left(first_bytes, start) for start in starts]


STAGES = {
    "lower case": Stages((("Lowercase",),)),
    "other characters": Stages((("Replace", "b+", "é"), ("NFKD",), ("Strip", "left", "right"))),
    "a space": Stages(steps=("space", "isolated")),
    "pieces that go": Stages(steps=("removed",)),
    "a prefix, and white space of literals": Stages(
        (("Prepend", "_"),), flags=(("<|im_end|>", ("lstrip", "rstrip")),)
    ),
}


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)
@given(parts=st.lists(st.sampled_from([" ", "AB", "b", "é", "ﬁ", "İ", "", "x <|im_end|> "])))
def test_parts_of_changed_text_begin_where_its_ids_do(stages: Stages, parts: list[str]) -> None:
    tokenizer = Tokenizer(replace(SMALL._vocabulary, stages=stages))
    ids, offsets = tokenizer.encode_parts(parts)
    expected, begins = tokenizer.encode_with_offsets("".join(parts), allowed_special=())
    starts = [*accumulate(map(len, parts), initial=0)][:-1]
    assert ids == expected
    assert offsets == [*(bisect_left(begins, start) if start else 0 for start in starts), len(ids)]


def test_a_literal_takes_white_space_of_its_own_part() -> None:
    stages = Stages(flags=(("<|im_end|>", ("lstrip", "single_word")),))
    tokenizer = Tokenizer(replace(SMALL._vocabulary, stages=stages))
    end = tokenizer.special_tokens["<|im_end|>"]
    parts = ["a ", Trusted(" <|im_end|>"), "b"]
    assert tokenizer.encode_parts(parts) == ([97, 32, end, 98], [0, 2, 3, 4])


@pytest.mark.parametrize(
    ("normalizers", "has_characters"),
    [((("Lowercase",),), False), ((("Prepend", " "), ONE_SPACE), True)],
    ids=["other characters", "a space after the other literals"],
)
def test_literals_of_normalized_text_are_refused(
    normalizers: tuple[tuple[str, ...], ...], has_characters: bool
) -> None:
    flags = (("<|im_end|>", ("normalized",)),)
    stages = Stages(normalizers, flags=flags, byte_fallback=has_characters)
    tokenizer = Tokenizer(replace(SMALL._vocabulary, stages=stages))
    with pytest.raises(ValueError, match="it finds special tokens in normalized text; encode the"):
        tokenizer.encode_parts(["a"])


def test_normalization_makes_no_literal() -> None:
    """A literal is found in the text as it is given."""
    tokenizer = Tokenizer(Vocabulary((), {"é": 256}, PATTERNS["gpt2"], normalizer="NFC"))
    assert tokenizer.encode_parts([Trusted("e\u0301é"), "é"]) == (
        [0xC3, 0xA9, 256, 0xC3, 0xA9],
        [0, 3, 5],
    )


# Ids around a text, and replaced surrogates


@given(parts=parts_of_text)
def test_ids_around_a_text_belong_to_no_part(parts: list[str]) -> None:
    small = tokenizer_of("gpt2", LITERALS)
    framed = Tokenizer(replace(small._vocabulary, prefix_ids=(97, 98), suffix_ids=(99,)))
    ids, offsets = framed.encode_parts(parts, add_special_tokens=True)
    inner, bounds = small.encode_parts(parts)
    assert ids == [97, 98, *inner, 99]
    assert offsets == [bound + 2 for bound in bounds]
    packed, starts = framed.encode_parts(parts, add_special_tokens=True, dtype="uint32")
    assert (packed.tolist(), starts.tolist()) == (ids, offsets)
    assert framed.encode_parts(parts) == (inner, bounds)


bad_texts = st.lists(
    st.sampled_from(["<|a b|>", "<|a", " b|>", "你", "🙂", "\ud83d", "\ude42"]), max_size=4
).map("".join)


@given(parts=st.lists(bad_texts | bad_texts.map(Trusted), max_size=5))
@example(parts=[Trusted("你\ud83d"), "\ude42"])
def test_each_part_is_replaced_by_itself(parts: list[str]) -> None:
    tokenizer = tokenizer_of("gpt2", LITERALS)
    expected = []
    for part in parts:
        text = part.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        expected.append(Trusted(text) if isinstance(part, Trusted) else text)
    found = tokenizer.encode_parts(iter(parts), errors="replace")
    assert found == tokenizer.encode_parts(expected)
    packed, starts = tokenizer.encode_parts(parts, errors="replace", dtype="uint32")
    assert (packed.tolist(), starts.tolist()) == found


FUNCTIONS = (SMALL.encode_parts, partial(SMALL.encode_parts, dtype="uint32"))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_wrong_errors_and_parts_to_replace_are_refused(function: Any) -> None:
    with pytest.raises(ValueError, match=r"^errors must be strict or replace, got 'ignore'$"):
        function(["a"], errors="ignore")
    with pytest.raises(TypeError, match=r"^a part must be a str, got bytes\nin part 1$"):
        function(["\ud800", b"b"], errors="replace")


# Wrong arguments

BAD_PARTS: dict[str, tuple[Iterable[Any], type[Exception], str]] = {
    "bytes": (["a", b"b"], TypeError, "a part must be a str, got bytes"),
    "None behind trusted text": (
        [Trusted("<|im_end|>"), None],
        TypeError,
        "a part must be a str, got NoneType",
    ),
    "a number": (["", 7], TypeError, "a part must be a str, got int"),
    "a lone surrogate": (
        ["🙂", "ab\ud800"],
        UnicodeEncodeError,
        "'utf-8' codec can't encode character '\\ud800' in position 2: surrogates not allowed",
    ),
    "a surrogate in trusted text": (
        ["a", Trusted("<|im_end|>\udc00")],
        UnicodeEncodeError,
        "'utf-8' codec can't encode character '\\udc00' in position 10: surrogates not allowed",
    ),
    "the first of two": (
        ["a", "\ud800", b"b"],
        UnicodeEncodeError,
        "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed",
    ),
}


@pytest.mark.parametrize("case", BAD_PARTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_error_of_a_bad_part_names_it(function: Any, case: str) -> None:
    parts, error, message = BAD_PARTS[case]
    with pytest.raises(error) as caught:
        function(parts)
    assert (str(caught.value), caught.value.__notes__) == (message, ["in part 1"])


@pytest.mark.parametrize("normalizer", [None, "NFC"])
def test_two_halves_of_a_character_are_refused(normalizer: Any) -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        tokenizer_of("gpt2", (), normalizer).encode_parts(["e\u0301\ud83d", "\ude42"])
    assert (caught.value.start, caught.value.__notes__) == (2, ["in part 0"])


@pytest.mark.parametrize("parts", ["ab", Trusted("ab"), b"ab", 7, None])
def test_a_single_text_is_no_list_of_parts(parts: Any) -> None:
    message = f"parts must be an iterable of str, got {type(parts).__name__}"
    for function in FUNCTIONS:
        with pytest.raises(TypeError, match=f"^{message}$"):
            function(parts)


def test_ids_must_fit_the_array() -> None:
    tokenizer = Tokenizer(vocabulary({70_000: b"ab"}, [(97, 98)]))
    with pytest.raises(ValueError, match=r"^dtype uint16 holds ids up to 65535, "):
        tokenizer.encode_parts(["ab"], dtype="uint16")


def test_calls_for_untrusted_text_admit_no_literal() -> None:
    """Each call that makes literals ordinary text."""
    text = "men<|im_end|>"
    ordinary = SMALL.encode_ordinary(text)
    nothing: tuple[str, ...] = ()
    assert SMALL.encode(text, allowed_special=nothing, dtype="uint32").tolist() == ordinary
    assert SMALL.encode_batch([text], allowed_special=nothing) == [ordinary]
    assert (
        SMALL.encode_batch([text], allowed_special=nothing, dtype="uint32")[0].tolist() == ordinary
    )
    assert SMALL.count(text, allowed_special=nothing) == len(ordinary)
    assert SMALL.encode_with_offsets(text, allowed_special=nothing)[0] == ordinary
    ids, _ = SMALL.encode_with_offsets(text, allowed_special=nothing, dtype="uint32")
    assert ids.tolist() == ordinary
    stream = SMALL.encode_stream(allowed_special=nothing)
    chunks = [stream.step(text), stream.flush()]
    assert [id for ids in chunks for id in ids] == ordinary
    size = len(ordinary)
    assert not SMALL.fits(text, size - 1, allowed_special=nothing)
    assert SMALL.truncate(text, size, allowed_special=nothing) == text
    [chunk] = SMALL.chunks(text, size, allowed_special=nothing)
    assert chunk.ids == ordinary
    assert SMALL.encode_parts([text])[0] == ordinary
