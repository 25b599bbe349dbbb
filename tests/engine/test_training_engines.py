"""Both engines learn the same merges, from more text than the slow textbook allows."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import native_only
from support.examples import slow_except

from bpetite import PATTERNS
from bpetite._corpus import TextCorpus
from bpetite._engine import python as _python_engine
from bpetite._progress import Reporter
from bpetite._vocabulary import Pair

pytest.importorskip("bpetite._engine._native")
from bpetite._engine import _native
from bpetite._engine import native as _native_engine

pytestmark = native_only  # each test runs both engines

MANY = 10**9
"""More merges than any corpus has."""


def silent() -> Reporter:
    return Reporter(None, "counting", None)


def learnt_natively(corpus: TextCorpus, pattern: str, limit: int, threads: int) -> list[Pair]:
    counts = _native_engine.count_pieces(corpus, pattern, silent(), threads)
    return _native_engine.learn_merges(counts, limit)


def learnt_in_python(documents: Iterable[str], pattern: str, limit: int) -> list[Pair]:
    counts = _python_engine.count_pieces(TextCorpus(documents), pattern, silent(), 1)
    return _python_engine.learn_merges(counts, limit)


patterns = st.sampled_from([*PATTERNS.values(), r"\w+|\W", r"[^|]+"])

any_corpus = st.lists(
    st.one_of(
        st.text(st.sampled_from("ab \n'sé你🙂1"), max_size=200),
        st.text(max_size=50),
        st.builds(
            lambda letter, count: letter * count, st.sampled_from("a é你 "), st.integers(0, 99)
        ),
        st.sampled_from(["<|endoftext|>", "<|endoftext|><|endoftext|> a", "word " * 200]),
    ),
    max_size=8,
)


@given(any_corpus, patterns, st.integers(0, 300), st.sampled_from([1, 2, 7]))
def test_merges_of_any_corpus_are_equal(
    documents: list[str], pattern: str, limit: int, threads: int
) -> None:
    native = learnt_natively(TextCorpus(documents), pattern, limit, threads)
    assert native == learnt_in_python(documents, pattern, limit)


@given(any_corpus, patterns, st.integers(2, 9))
def test_merges_of_heavy_counts_are_equal(documents: list[str], pattern: str, step: int) -> None:
    """Some counts are above 32 bits, others are not."""
    counts = _python_engine.count_pieces(TextCorpus(documents), pattern, silent(), 1)
    for piece in [*counts][::step]:
        counts[piece] += 2**33
    native = _native_engine.learn_merges(_native.PieceCounts(counts), 60)
    assert native == _python_engine.learn_merges(counts, 60)


def words(count: int, letters: str, length: int, seed: int) -> str:
    """Return random words, with spaces between them."""
    rng = random.Random(seed)
    return " ".join("".join(rng.choices(letters, k=length)) for _ in range(count))


def large_corpora(size: int) -> dict[str, tuple[str, int]]:
    """Return the text of each kind of corpus, and how many merges to learn from it."""
    return {
        "all ties": (words(20 * size, "abcdefghijklmnopqrstuvwxyz", 6, 1), MANY),
        "many repeats": (words(150 * size, "ab", 9, 2), MANY),
        "long words": (words(10 * size, "aé你🙂", 60, 3), 15 * size),
        "one long piece": ("".join(random.Random(4).choices("abcdefgh", k=200 * size)), 15 * size),
        "runs": (" ".join("a" * length for length in range(1, 200 + 5 * size // 2)), MANY),
        "one word repeated": ("ab" * 500 * size, MANY),
    }


@pytest.mark.parametrize("size", [40, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", large_corpora(1))
def test_merges_of_large_corpora_are_equal(name: str, size: int) -> None:
    text, limit = large_corpora(size)[name]
    expected = learnt_in_python([text], PATTERNS["gpt2"], limit)
    for threads in (1, 2):
        assert learnt_natively(TextCorpus(text), PATTERNS["gpt2"], limit, threads) == expected


@pytest.mark.parametrize("limit", [500, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("pattern", slow_except(PATTERNS, "gpt2", "o200k"))
def test_merges_of_real_text_are_equal(real_texts: list[str], pattern: str, limit: int) -> None:
    native = learnt_natively(TextCorpus(real_texts), PATTERNS[pattern], limit, 2)
    assert native == learnt_in_python(real_texts, PATTERNS[pattern], limit)
