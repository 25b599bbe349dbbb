"""How many tokens a text would have with fewer merges: ids alone tell it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import quick_once
from support.vocabularies import vocabulary

from bpetite import Tokenizer
from bpetite._vocabulary import Vocabulary
from bpetite.analysis._merge_trees import MergeTrees

pytestmark = quick_once


TEXTS = st.lists(st.sampled_from(["ab", "abab", "né", "你好", "\n", " ", "🙂"]), max_size=40).map(
    "".join
)

AB_AND_ABC = {256: b"ab", 257: b"abc"}

OTHERS: list[tuple[Vocabulary, set[int], list[int]]] = [
    # a part is of higher rank
    (vocabulary(AB_AND_ABC, [(256, 99), (97, 98)]), set(), [9]),
    # no merge makes a token
    (vocabulary(AB_AND_ABC, [(97, 98)]), {257}, [9, 7]),
    (vocabulary(AB_AND_ABC, [(97, 98), (256, 99)], ignore_merges=True), set(), [9, 7, 6]),
    # no text uses the last merge
    (
        vocabulary({**AB_AND_ABC, 258: b"bc"}, [(97, 98), (256, 99), (98, 99), (97, 258)]),
        set(),
        [9, 7, 6, 5],
    ),
]
"""Vocabularies, their tokens that no merge makes, and the numbers for "abc ab bc"."""


@st.composite
def trained(draw: st.DrawFn) -> Vocabulary:
    """Return a vocabulary, its ids in another order, and some with gaps."""
    made = Tokenizer.train(draw(TEXTS), 280)._vocabulary
    step = draw(st.sampled_from([1, 3, 10]))
    ids = draw(st.permutations(range(0, step * (256 + len(made.merges)), step)))
    return Vocabulary.from_tokens(
        {ids[id]: token for id, token in made.ordinary_tokens.items()},
        [(ids[left], ids[right]) for left, right in made.merges],
        {},
        made.patterns[0],
    )


@given(trained(), TEXTS)
def test_each_number_matches_a_smaller_vocabulary(subject: Vocabulary, text: str) -> None:
    tokenizer = Tokenizer(subject)
    ids = tokenizer.encode_ordinary(text)
    found = MergeTrees(subject).tokens_by_size({id: ids.count(id) for id in ids})
    sizes = range(256, 257 + len(tokenizer.merges))
    assert found == [len(tokenizer.with_vocab_size(size).encode_ordinary(text)) for size in sizes]


@pytest.mark.parametrize(("subject", "unmade", "numbers"), OTHERS)
def test_merges_of_other_libraries(
    subject: Vocabulary, unmade: set[int], numbers: list[int]
) -> None:
    ids = Tokenizer(subject).encode_ordinary("abc ab bc")
    trees = MergeTrees(subject)
    assert trees.tokens_by_size({id: ids.count(id) for id in ids}) == numbers
    assert trees.unmade() == unmade


@pytest.mark.parametrize("subject", [OTHERS[0][0], Vocabulary(((97, 98),), {}, "...")])
def test_an_unknown_id_is_an_error(subject: Vocabulary) -> None:
    with pytest.raises(KeyError, match=r"^999$"):
        MergeTrees(subject).tokens_by_size({999: 1})
