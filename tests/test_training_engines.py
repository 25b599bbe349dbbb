"""Both engines learn the same merges, from more text than the textbook could be asked about."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpetite import PATTERNS, _python_engine
from bpetite._corpus import FileCorpus, TextCorpus
from bpetite._progress import Reporter
from bpetite._vocabulary import Pair

pytest.importorskip("bpetite._native")
from bpetite import _native_engine

MANY = 10**9
"""More merges than there are."""


def silent() -> Reporter:
    return Reporter(None, "counting", None)


def learnt_natively(
    corpus: TextCorpus | FileCorpus, pattern: str, limit: int, threads: int
) -> list[Pair]:
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


@settings(max_examples=200, deadline=None)
@given(any_corpus, patterns, st.integers(0, 300), st.sampled_from([1, 2, 7]))
def test_merges_of_any_corpus_are_equal(
    documents: list[str], pattern: str, limit: int, threads: int
) -> None:
    native = learnt_natively(TextCorpus(documents), pattern, limit, threads)
    assert native == learnt_in_python(documents, pattern, limit)


@settings(max_examples=50, deadline=None)
@given(any_corpus, patterns, st.integers(1, 9))
def test_merges_of_files_that_are_read_bit_by_bit_are_equal(
    documents: list[str], pattern: str, size: int
) -> None:
    class Trickle(io.BytesIO):
        def read(self, asked: int | None = -1, /) -> bytes:
            return super().read(min(size, asked or 0))

    files = [Trickle(document.encode("utf-8", "replace")) for document in documents]
    expected = [document.encode("utf-8", "replace").decode() for document in documents]
    native = learnt_natively(FileCorpus(files), pattern, 100, 1)
    assert native == learnt_in_python(expected, pattern, 100)


def words(count: int, letters: str, length: int, seed: int) -> str:
    """Return random words, with spaces between them."""
    rng = random.Random(seed)
    return " ".join("".join(rng.choices(letters, k=length)) for _ in range(count))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (words(4_000, "abcdefghijklmnopqrstuvwxyz", 6, 1), MANY),
        (words(30_000, "ab", 9, 2), MANY),
        (words(2_000, "aé你🙂", 60, 3), 3_000),
        ("".join(random.Random(4).choices("abcdefgh", k=40_000)), 3_000),
        (" ".join("a" * length for length in range(1, 700)), MANY),
        ("ab" * 100_000, MANY),
    ],
    ids=["all ties", "many repeats", "long words", "one long piece", "runs", "one word repeated"],
)
def test_merges_of_large_corpora_are_equal(text: str, limit: int, threads: int) -> None:
    pattern = PATTERNS["gpt2"]
    native = learnt_natively(TextCorpus(text), pattern, limit, threads)
    assert native == learnt_in_python([text], pattern, limit)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_merges_of_real_text_are_equal(real_texts: list[str], pattern: str) -> None:
    native = learnt_natively(TextCorpus(real_texts), PATTERNS[pattern], MANY, 2)
    assert native == learnt_in_python(real_texts, PATTERNS[pattern], MANY)
