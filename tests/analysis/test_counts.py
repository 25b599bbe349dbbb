"""Ids are counted as `encode` gives them, and characters and words as `str` has them."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.batches import batch_of_texts
from support.examples import few_examples
from support.vocabularies import vocabulary

import bpetite
from bpetite import PATTERNS, Tokenizer, corpora
from bpetite.analysis._counts import characters_and_words, count_ids, count_ids_in_python
from bpetite.corpora import Batch

WORDS = [
    *("a", " the", "'s", "中文", "你好世界", "123", "  ", "\n", "\r\n", "\t", "\v", "\f", "\u3000"),
    *("é", "🙂", "<|endoftext|>", "", "word " * 12, "中" * 40, "x" * 70, "x " * 300),
]
DOCUMENTS = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=20).map("".join), min_size=1, max_size=9
)

LONG = 600_000 if bpetite.engine == "native" else 6_000
"""Bytes of a text that the native engine splits for several threads."""


NAMES = [*PATTERNS, "own", "normal form"]


class Parts:
    """Documents in parts: whole ones, and the first and the second half of some."""

    def __init__(self, documents: list[str], halved: int) -> None:
        self.documents = documents
        self.halved = halved

    def batches(self) -> Iterator[Batch]:
        """Yield one batch."""
        yield batch_of_texts(self.documents)

    def segments(self) -> Iterator[tuple[Batch, bool]]:
        """Yield each document, one in `halved` of them in two segments."""
        for number, text in enumerate(self.documents):
            if number % self.halved:
                yield batch_of_texts([text]), True
            else:
                yield batch_of_texts([text[: len(text) // 2]]), False
                yield batch_of_texts([text[len(text) // 2 :]]), True


def counted(tokenizer: Tokenizer, documents: list[str]) -> dict[int, int]:
    """Return the counts of the ids of each document, counted one by one."""
    counts: Counter[int] = Counter()
    for text in documents:
        counts.update(tokenizer.encode_ordinary(text))
    return dict(sorted(counts.items()))


# Ids


def count(tokenizer: Tokenizer, corpus: Parts, threads: int | None) -> list[tuple[int, int]]:
    """Return the counts of the ids of a corpus, in their order."""
    found = corpora.encode(tokenizer, corpus, threads=threads)
    return [*count_ids(block.ids for block in found).items()]


@pytest.mark.parametrize("name", NAMES)
@few_examples
@given(DOCUMENTS, st.integers(1, 3), st.sampled_from([1, 3, None]))
def test_ids_of_documents_in_segments_are_counted(
    tokenizers: dict[str, Tokenizer],
    name: str,
    documents: list[str],
    halved: int,
    threads: int | None,
) -> None:
    tokenizer = tokenizers[name]
    expected = [*counted(tokenizer, documents).items()]
    assert count(tokenizer, Parts(documents, halved), threads) == expected


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("name", NAMES)
def test_threads_count_the_same_ids(
    tokenizers: dict[str, Tokenizer], name: str, threads: int
) -> None:
    tokenizer = tokenizers[name]
    text = "The 你 hen's\r\n <|endoftext|> 12345  --- é🙂 "
    long = text * (LONG // len(text.encode()) // (1 if name in PATTERNS else 10))
    documents = [long, "", text, long[:70_000]]
    expected = [*counted(tokenizer, documents).items()]
    assert count(tokenizer, Parts(documents, 2), threads) == expected


def test_high_ids_are_counted() -> None:
    high = [2**20 - 1, 2**20, 2**32 - 1]
    tokens = dict(zip(high, (b"ab", b"abc", b"abcd"), strict=True))
    merges = [(97, 98), (high[0], 99), (high[1], 100)]
    tokenizer = Tokenizer(vocabulary(tokens, merges))
    documents = ["ab abc abcd abcd" * 3, "abcd " * 70_000]
    found = count(tokenizer, Parts(documents, 2), None)
    assert found == [*counted(tokenizer, documents).items()]
    assert {*high} <= {*dict(found)}


BUFFERS = st.lists(st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 9), max_size=9), max_size=4)


@given(BUFFERS)
def test_engines_count_the_same_ids(numbers: list[list[int]]) -> None:
    buffers = [memoryview(array("I", each)) for each in numbers]
    assert [*count_ids(buffers).items()] == [*count_ids_in_python(buffers).items()]


def test_errors_of_the_reader_are_raised() -> None:
    def buffers() -> Iterator[memoryview]:
        yield memoryview(array("I", [97]))
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        count_ids(buffers())


# Characters and words


@given(DOCUMENTS)
def test_characters_and_words_match_each_document(documents: list[str]) -> None:
    expected = (
        sum(map(len, documents)),
        sum(len(re.findall(r"[^ \t\n\v\f\r]+", text)) for text in documents),
    )
    batch = batch_of_texts(documents)
    assert characters_and_words(batch.data, batch.offsets) == expected
