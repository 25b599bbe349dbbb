"""How many tokens a text would have with fewer merges: both engines find it from ids alone."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import native_only
from support.vocabularies import vocabulary

from bpetite import Tokenizer
from bpetite._vocabulary import Vocabulary
from bpetite.analysis._merge_trees import MergeTrees, last_merges, make_merge_trees

TEXTS = st.lists(st.sampled_from(["ab", "abab", "né", "你好", "\n", " ", "🙂"]), max_size=40).map(
    "".join
)

AB_AND_ABC = {256: b"ab", 257: b"abc"}

OTHERS = [
    vocabulary(AB_AND_ABC, [(256, 99), (97, 98)]),  # a part is of higher rank
    vocabulary(AB_AND_ABC, [(97, 98)]),  # no merge makes a token
    vocabulary(AB_AND_ABC, [(97, 98), (256, 99)], ignore_merges=True),
    vocabulary({**AB_AND_ABC, 258: b"bc"}, [(97, 98), (256, 99), (98, 99), (97, 258)]),
]


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


@given(st.one_of(st.sampled_from(OTHERS), trained()), TEXTS)
def test_engines_find_the_same_numbers(subject: Vocabulary, text: str) -> None:
    ids = Tokenizer(subject).encode_ordinary(text)
    counts = {id: ids.count(id) for id in ids}
    trees, expected = make_merge_trees(subject), MergeTrees(subject)
    assert trees.tokens_by_size(counts) == expected.tokens_by_size(counts)
    assert (trees.merge_count, trees.unmade()) == (expected.merge_count, expected.unmade())


@given(TEXTS, TEXTS)
def test_each_number_is_that_of_a_smaller_vocabulary(corpus: str, text: str) -> None:
    tokenizer = Tokenizer.train(corpus, 270)
    ids = tokenizer.encode_ordinary(text)
    found = make_merge_trees(tokenizer._vocabulary).tokens_by_size(
        {id: ids.count(id) for id in ids}
    )
    sizes = range(256, 257 + len(tokenizer.merges))
    assert found == [len(tokenizer.with_vocab_size(size).encode_ordinary(text)) for size in sizes]


@pytest.mark.parametrize("subject", [OTHERS[0], Vocabulary(((97, 98),), {}, "...")])
def test_an_unknown_id_is_an_error(subject: Vocabulary) -> None:
    with pytest.raises(KeyError, match=r"^999$"):
        make_merge_trees(subject).tokens_by_size({999: 1})


@native_only
def test_more_bytes_than_64_bits_count_are_an_error() -> None:
    trees = make_merge_trees(Vocabulary(((97, 98),), {}, "..."))
    assert trees.tokens_by_size({256: 2**63 - 1}) == [2**64 - 2, 2**63 - 1]
    for count in (2**63, 2**64):
        with pytest.raises(OverflowError):
            trees.tokens_by_size({256: count})


def test_last_merges_are_the_end_of_all(tmp_path: Path) -> None:
    trained = Tokenizer.train("the hen then met the ten men", 262)
    trained.save(tmp_path / "model.json")
    loaded = Tokenizer.load(tmp_path / "model.json")  # the native engine holds its merges
    for subject, count in product((trained, loaded), range(7)):
        assert last_merges(subject._vocabulary, count) == trained.merges[6 - count :]
