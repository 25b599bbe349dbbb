"""extend_ids: text after ids that stay as they are."""

from __future__ import annotations

import pickle
import time
from array import array
from itertools import accumulate, takewhile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.split_cases import TOKENIZERS, texts
from support.times import best_time
from support.vocabularies import vocabulary

from bpetite import ExtendIdsError, Tokenizer, Trusted
from bpetite._pretokenizer import Pretokenizer

AB = Tokenizer.train("ab ab ab 🙂", 262, special_tokens=["<|a|>"])
SPECIAL = AB.special_tokens["<|a|>"]


@pytest.mark.parametrize(
    ("ids", "text", "rest"),
    [
        ([], "ab<|a|>", [256, SPECIAL]),
        ([256], "", []),
        ([256], " ab", [257]),
        ([97, 98, 257], " ab", [257]),  # earlier ids may be any
        ([97, 98, SPECIAL], "ab", [256]),
        ([0xFF, SPECIAL], "ab", [256]),
        ([*b"<|a"], "|>", [*b"|>"]),  # no literal spans the end of the ids
        ([256], [Trusted("<|a|>"), "<|a|>"], [SPECIAL, *b"<|", 97, *b"|>"]),
    ],
)
def test_the_last_piece_goes_on_with_the_text(ids: list[int], text: Any, rest: list[int]) -> None:
    assert AB.extend_ids(ids, text) == rest


def test_earlier_ids_may_be_any_without_safe_splits() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 258, pattern=r"(?<=[\s\S]|^) ?\w+|\W")
    assert tokenizer.extend_ids([97, 98, 257], " ab") == [257]


@pytest.mark.parametrize(
    ("ids", "text", "position", "reason"),
    [
        ([256, 32], "ab", 1, "would change with the added text"),
        ([257, 97], "b", 1, "would change with the added text"),
        ([257, 97, 98], " x", 1, "would change with the added text"),
        ([256, 257, *"🙂".encode()[:2]], "ab", 2, "has bytes that are not UTF-8"),
    ],
)
def test_ids_that_would_change_are_refused(
    ids: list[int], text: str, position: int, reason: str
) -> None:
    with pytest.raises(ExtendIdsError) as caught:
        AB.extend_ids(ids, text)
    assert (caught.value.position, str(caught.value)) == (
        position,
        f"the id at position {position} {reason}; to keep it, pass apart=True, which encodes the "
        f"added text by itself",
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert AB.extend_ids(ids, text, apart=True) == AB.encode(text)


def test_an_id_of_two_pieces_is_refused() -> None:
    """A vocabulary from elsewhere may have tokens that no text has as its ids."""
    tokenizer = Tokenizer(vocabulary({256: b"ab", 257: b"ab,"}, [(97, 98), (256, 44)]))
    assert tokenizer.encode("ab,") == [256, 44]
    with pytest.raises(ExtendIdsError, match="position 0 spans two pieces") as caught:
        tokenizer.extend_ids([257], ", x")
    assert caught.value.position == 0


# The law


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[int], list[str]]:
    """A vocabulary, ids (some of them split), and segments to add."""
    name = draw(st.sampled_from([*TOKENIZERS]))
    tokenizer = tokenizer_of(name)
    ids = tokenizer.encode(draw(texts))
    for at in draw(st.lists(st.integers(0, 30), max_size=3)):
        if at < len(ids) and ids[at] not in tokenizer.special_tokens.values():
            token = tokenizer.token_bytes(ids[at])
            half = len(token) // 2
            split = (tokenizer.encode_bytes(each) for each in (token[:half], token[half:]))
            ids[at : at + 1] = [id for part in split for id in part]
    return name, ids, draw(st.lists(texts | texts.map(Trusted), max_size=3))


def tokenizer_of(name: str) -> Tokenizer:
    make, *arguments = TOKENIZERS[name]
    tokenizer: Tokenizer = make(*arguments)
    return tokenizer


def by_definition(
    tokenizer: Tokenizer, ids: list[int], segments: list[str]
) -> list[int] | int | None:
    """Return the ids that follow, or the position of the id that would change.

    None stands for ids whose text no definition has.
    """
    special = {*tokenizer.special_tokens.values()}
    start = max((at for at, id in enumerate(ids, 1) if id in special), default=0)
    tail = ids[start:]
    try:
        text = tokenizer.decode(tail)
    except UnicodeDecodeError:
        return None
    joined = tokenizer.encode_parts([text, *segments])[0]
    if not tail:
        return joined
    run = tokenizer.decode([*takewhile(lambda id: id not in special, joined)])
    if not run.startswith(text):
        return None  # normalized
    pieces = Pretokenizer.of(tokenizer._vocabulary).split_exactly(run)
    starts = [0, *accumulate(len(piece.encode()) for piece in pieces)]
    piece = max(each for each in starts if each < len(text.encode()))
    own, canonical = (byte_starts(tokenizer, each) for each in (tail, joined))
    if piece not in own:
        return start + max(at for at, each in enumerate(own) if each < piece)
    first = own.index(piece)
    expected = joined[canonical.index(piece) :]
    for at, id in enumerate(tail[first:]):
        if expected[at : at + 1] != [id]:
            return start + first + at
    return expected[len(tail) - first :]


def byte_starts(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    return [*accumulate((len(tokenizer.token_bytes(id)) for id in ids), initial=0)]


@given(case=cases())
def test_the_result_matches_the_definition(case: tuple[str, list[int], list[str]]) -> None:
    name, ids, segments = case
    tokenizer, given_ids = tokenizer_of(name), [*ids]
    try:
        found: list[int] | int = tokenizer.extend_ids(ids, segments)
    except ExtendIdsError as error:
        found = error.position
    assert ids == given_ids
    expected = by_definition(tokenizer, ids, segments)
    assert expected is None or found == expected
    if isinstance(found, list) and tokenizer.lossless:
        joined = tokenizer.decode_bytes(ids) + "".join(segments).encode()
        assert tokenizer.decode_bytes(ids + found) == joined


# Arguments


def test_ids_of_all_kinds() -> None:
    ids = [256, 257]
    kinds: list[Any] = [
        *(tuple(ids), array("I", ids), memoryview(array("H", ids)), iter(ids)),
        *(np.array(ids), np.array(ids, "uint32")),
    ]
    assert [AB.extend_ids(each, b" ab") for each in kinds] == [[257]] * len(kinds)


def test_values_of_wrong_types_are_refused() -> None:
    with pytest.raises(TypeError, match="ids must be an iterable of int, got str"):
        AB.extend_ids("ab", "ab")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text must be a str or bytes-like, got int"):
        AB.extend_ids([256], 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a part must be a str, got int"):
        AB.extend_ids([256], [1])  # type: ignore[list-item]
    with pytest.raises(KeyError):
        AB.extend_ids([99999], "ab")
    with pytest.raises(UnicodeEncodeError) as caught:
        AB.extend_ids([256], "ab\ud800")
    assert caught.value.start == 2


@pytest.mark.parametrize("make", [list, np.array])
def test_only_the_last_piece_costs_time(make: Any, tokenizer: Tokenizer) -> None:
    def seconds_after(repeats: int) -> float:
        ids = make(tokenizer.encode("it is so" + " it is so" * repeats))

        def seconds() -> float:
            start = time.perf_counter()
            for _ in range(100):
                tokenizer.extend_ids(ids, " it is")
            return time.perf_counter() - start

        return best_time(seconds, 0)

    assert seconds_after(100_000) < 5 * seconds_after(100)
