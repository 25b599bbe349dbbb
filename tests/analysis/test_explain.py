"""`explain`: pieces, merges in order, and the pairs that lost, for vocabularies of every kind."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import reference
from support.byte_fallback import (
    REPLACE,
    SETTINGS,
    document_of,
    random_document,
    random_text,
    write,
)
from support.engines import quick_once
from support.vocabularies import vocabulary

from bpetite import PATTERNS, Tokenizer
from bpetite.analysis import ExplainedPiece, MergeStep, explain, merge_ids
from bpetite.analysis._explain import MAX_PIECE_BYTES

pytestmark = quick_once


TEXT = "the hen then met the ten men, aaaa aaaaaaaaaa naïve 你好你好 🙂🙂 "
TOKENIZER = Tokenizer.train(TEXT * 2, 300)


def shuffled() -> Tokenizer:
    """Return a tokenizer with ids, gaps and an order of merges that training never makes."""
    random = Random(1)
    plain = Tokenizer.train(TEXT, 290)
    new = dict(zip(range(290), random.sample(range(1000), 290), strict=True))
    merges = [(new[left], new[right]) for left, right in plain.merges]
    random.shuffle(merges)
    tokens = {new[id]: plain.token_bytes(id) for id in range(290)}
    return Tokenizer(
        vocabulary({}, []).from_tokens(tokens, merges, {"<|end|>": 1500}, PATTERNS["cl100k"])
    )


def checked(tokenizer: Tokenizer, text: str) -> list[ExplainedPiece]:
    """Return the pieces, after a comparison of every step with the textbook's way to merge."""
    found = list(explain(tokenizer, text))
    assert [id for piece in found for id in piece.ids] == tokenizer.encode(text)
    joined = b"".join(map(tokenizer.token_bytes, tokenizer.encode(text)))
    assert "".join(piece.text for piece in found).encode() == joined
    made = [id_of(tokenizer, rank) for rank in range(len(tokenizer.merges))]
    assert merge_ids(tokenizer) == made
    for piece in found:
        if piece.kind != "merged":
            continue
        states = list(piece.states())
        assert states[-1] == piece.ids
        for before, after, step in zip(states[:-1], states[1:], piece.steps, strict=True):
            present = {*pairwise(before)} & {*tokenizer.merges}
            ranks = sorted(map(tokenizer.merges.index, present))
            at = list(pairwise(before)).index(step.pair)
            lost_rank = ranks[1] if len(ranks) > 1 else None
            lost = None if lost_rank is None else tokenizer.merges[lost_rank]
            assert (step.rank, step.pair) == (ranks[0], tokenizer.merges[ranks[0]])
            assert (step.lost, step.lost_rank) == (lost, lost_rank)
            assert after == (*before[:at], made[step.rank], *before[at + 2 :])
            assert step.token == tokenizer.token_bytes(step.id)
        assert tuple(reference.merged(states[0], tokenizer.merges, made)) == piece.ids
        roots = (node_bytes(tokenizer, piece, root) for root in piece.roots)
        assert b"".join(roots) == piece.text.encode()
    return found


def id_of(tokenizer: Tokenizer, rank: int) -> int:
    """Return the id of a merge, for a vocabulary without two tokens of the same bytes."""
    left, right = tokenizer.merges[rank]
    return tokenizer.token_id(tokenizer.token_bytes(left) + tokenizer.token_bytes(right))


def node_bytes(tokenizer: Tokenizer, piece: ExplainedPiece, node: int) -> bytes:
    """Return the bytes below a node of a merge tree."""
    firsts = len(piece.byte_ids)
    if node < firsts:
        return tokenizer.token_bytes(piece.byte_ids[node])
    step = piece.steps[node - firsts]
    left, right = step.parts
    both = node_bytes(tokenizer, piece, left) + node_bytes(tokenizer, piece, right)
    assert step.token == both
    return step.token


@given(st.text(alphabet="themn a,é你", max_size=40))
def test_steps_of_any_text_are_the_textbooks(text: str) -> None:
    checked(TOKENIZER, text)
    checked(shuffled(), text)


@st.composite
def foreign(draw: st.DrawFn) -> Tokenizer:
    """Return a vocabulary in which several merges may make a token, in any order of ranks."""
    id_of = {bytes([byte]): byte for byte in b"abc"}
    merges: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(0, 12))):
        left, right = draw(st.sampled_from(list(id_of))), draw(st.sampled_from(list(id_of)))
        id_of.setdefault(left + right, 1000 - 3 * len(merges))
        merges.append((id_of[left], id_of[right]))
    merges = draw(st.permutations(sorted({*merges})))
    tokens = {id: token for token, id in id_of.items()}
    ignore_merges = draw(st.booleans())
    return Tokenizer(vocabulary(tokens, merges, ignore_merges=ignore_merges))


@given(foreign(), st.text(alphabet="abc ", max_size=30))
def test_steps_of_any_vocabulary_are_the_textbooks(tokenizer: Tokenizer, text: str) -> None:
    checked(tokenizer, text)


@pytest.mark.parametrize("name", SETTINGS)
def test_steps_with_byte_fallback_are_the_textbooks(name: str, tmp_path: Path) -> None:
    random = Random(name)
    document = random_document(random, **SETTINGS[name])
    tokenizer = Tokenizer.load(write(document, tmp_path))
    for _ in range(30):
        found = checked(tokenizer, random_text(random, document))
        assert {piece.kind for piece in found} <= {"merged", "special"}


def test_characters_come_before_merges_with_byte_fallback(tmp_path: Path) -> None:
    document = document_of("▁the", [("h", "e"), ("▁", "t"), ("▁t", "he")], normalizer=REPLACE)
    tokenizer = Tokenizer.load(write(document, tmp_path))
    the, other = explain(tokenizer, " the中")
    assert [tokenizer.token_bytes(id) for id in the.byte_ids] == [b" ", b"t", b"h", b"e"]
    assert [step.token for step in the.steps] == [b"he", b" t", b" the"]
    assert [tokenizer.token_bytes(id) for id in other.byte_ids] == [b"\xe4", b"\xb8", b"\xad"]
    assert (other.text, other.ids, other.steps) == ("中", other.byte_ids, ())


def test_pieces_are_the_textbooks(text_case: str) -> None:
    found = explain(TOKENIZER, text_case, allowed_special=())
    pieces = [(piece.text, list(piece.ids)) for piece in found]
    split = reference.split(text_case)
    assert [text for text, _ in pieces] == split
    assert [ids for _, ids in pieces] == [
        reference.encode_piece(piece, TOKENIZER.merges) for piece in split
    ]


def test_step_has_pair_rank_id_bytes_and_loser() -> None:
    tokenizer = Tokenizer.train("the hen then met the ten men", 262)
    (piece,) = explain(tokenizer, "then")
    assert piece == ExplainedPiece(
        text="then",
        kind="merged",
        ids=(116, 260),
        byte_ids=(116, 104, 101, 110),
        steps=(
            MergeStep((101, 110), 0, 256, b"en", (2, 3), (104, 101), 3),
            MergeStep((104, 256), 4, 260, b"hen", (1, 4), None, None),
        ),
        roots=(0, 5),
    )


def test_two_merges_of_the_same_bytes_keep_their_ids() -> None:
    tokenizer = Tokenizer.train(["ab ab abc abc", "bc bc bc"], 262)
    checked_ids = [id for piece in explain(tokenizer, "abc ab bc") for id in piece.ids]
    assert checked_ids == tokenizer.encode("abc ab bc")


def test_whole_pieces_need_no_merge() -> None:
    tokens = {300: b"ab", 400: b"abc"}
    tokenizer = Tokenizer(vocabulary(tokens, [(97, 98)], ignore_merges=True, pattern=r"\S+|\s+"))
    kinds = [(piece.text, piece.kind, piece.ids) for piece in explain(tokenizer, "abc ab abca")]
    assert kinds == [
        ("abc", "whole", (400,)),
        (" ", "merged", (32,)),
        ("ab", "merged", (300,)),
        (" ", "merged", (32,)),
        ("abca", "merged", (300, 99, 97)),
    ]
    checked(tokenizer, "abc ab abca")


def test_special_literals_are_pieces_unless_refused() -> None:
    found = [(piece.text, piece.kind) for piece in explain(TOKENIZER, "a<|endoftext|>b")]
    assert found == [("a", "merged"), ("<|endoftext|>", "special"), ("b", "merged")]
    ordinary = explain(TOKENIZER, "<|endoftext|>", allowed_special=())
    assert [piece.kind for piece in ordinary] == ["merged"] * 3


def test_special_token_may_share_bytes_with_a_token() -> None:
    tokenizer = Tokenizer(vocabulary({300: b"ab"}, [(97, 98)], special_tokens={"ab": 200_000}))
    assert [piece.ids for piece in explain(tokenizer, "ab", allowed_special=())] == [(300,)]
    assert [piece.ids for piece in explain(tokenizer, "ab")] == [(200_000,)]


def test_normalized_text_is_explained() -> None:
    tokenizer = Tokenizer(vocabulary({300: "é".encode()}, [(195, 169)], normalizer="NFC"))
    (piece,) = explain(tokenizer, "e\u0301")
    assert (piece.text, piece.ids) == ("é", (300,))


@pytest.mark.parametrize("size", [MAX_PIECE_BYTES, MAX_PIECE_BYTES + 1])
def test_long_piece_has_ids_and_no_steps(size: int) -> None:
    (piece,) = explain(TOKENIZER, "a" * size)
    assert list(piece.ids) == TOKENIZER.encode("a" * size)
    assert (piece.kind, bool(piece.steps)) == (
        ("merged", True) if size == MAX_PIECE_BYTES else ("long", False)
    )


def test_errors_match_encode() -> None:
    with pytest.raises(TypeError, match="text must be a str, got bytes"):
        explain(TOKENIZER, b"a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tokenizer must be a Tokenizer, got str"):
        explain("a", "b")  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError, match="position 2"):
        explain(TOKENIZER, "ab\ud800")
    with pytest.raises(ValueError, match="nothing"):
        explain(TOKENIZER, "a", allowed_special=["nothing"])
