"""Ids are counted as `encode` gives them, and characters and words as `str` has them."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import native_only
from support.examples import few_examples
from support.vocabularies import vocabulary

import bpetite
from bpetite import PATTERNS, Tokenizer
from bpetite._corpus import Batch
from bpetite._engine import ENGINE, python
from bpetite._engine.choice import INSTRUCTION_SETS
from bpetite._vocabulary import Vocabulary
from conftest import TEXTS

WORDS = [
    *("a", " the", "'s", "中文", "你好世界", "123", "  ", "\n", "\r\n", "\t", "\v", "\f", "\u3000"),
    *("é", "🙂", "<|endoftext|>", "", "word " * 12, "中" * 40, "x" * 70, "x " * 300),
]
DOCUMENTS = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=20).map("".join), min_size=1, max_size=9
)

LONG = 600_000 if bpetite.engine == "native" else 6_000
"""Bytes of a text that the native engine splits for several threads."""


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    """A tokenizer for each pattern, for a pattern of the user's own, and for a normal form."""
    corpus = [*TEXTS.values()] * 3
    patterns = {**PATTERNS, "own": r"\p{L}+| ?\d|\s+(?!\S)|\s+"}
    found = {name: Tokenizer.train(corpus, 420, pattern=each) for name, each in patterns.items()}
    gpt2 = found["gpt2"]
    found["normal form"] = Tokenizer(
        Vocabulary(gpt2.merges, gpt2.special_tokens, gpt2.pattern, normalizer="NFC")
    )
    return found


NAMES = [*PATTERNS, "own", "normal form"]


def batch_of(texts: list[str]) -> Batch:
    """Return documents as a batch that begins behind another byte."""
    data = [text.encode() for text in texts]
    offsets = array("Q", accumulate(map(len, data), initial=1))
    return Batch(memoryview(b"x" + b"".join(data) + b"x"), memoryview(offsets), range(len(data)))


class Parts:
    """Documents in parts: whole ones, and the first and the second half of some."""

    def __init__(self, documents: list[str], halved: int) -> None:
        self.documents = documents
        self.halved = halved

    def batches(self) -> Iterator[Batch]:
        """Yield one batch."""
        yield batch_of(self.documents)

    def segments(self) -> Iterator[tuple[Batch, bool]]:
        """Yield each document, one in `halved` of them in two segments."""
        for number, text in enumerate(self.documents):
            if number % self.halved:
                yield batch_of([text]), True
            else:
                yield batch_of([text[: len(text) // 2]]), False
                yield batch_of([text[len(text) // 2 :]]), True


def counted(tokenizer: Tokenizer, documents: list[str]) -> dict[int, int]:
    """Return the counts of the ids of each document, counted one by one."""
    counts: Counter[int] = Counter()
    for text in documents:
        counts.update(tokenizer.encode_ordinary(text))
    return dict(sorted(counts.items()))


# Ids


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
    found = tokenizer._count_ids(Parts(documents, halved), threads)
    assert [*found.items()] == [*counted(tokenizer, documents).items()]


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("name", NAMES)
def test_threads_count_the_same_ids(
    tokenizers: dict[str, Tokenizer], name: str, threads: int
) -> None:
    tokenizer = tokenizers[name]
    text = "The 你 hen's\r\n <|endoftext|> 12345  --- é🙂 "
    long = text * (LONG // len(text.encode()) // (1 if name in PATTERNS else 10))
    documents = [long, "", text, long[:70_000]]
    batch = batch_of(documents)
    runs = [(batch.data, batch.offsets)] * 2
    encoder = tokenizer._encoder.with_special_tokens({})
    expected = {id: 2 * count for id, count in counted(tokenizer, documents).items()}
    assert encoder.count_ids(runs, threads) == expected


def test_special_tokens_of_an_encoder_are_counted(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["cl100k"]
    text = "a<|endoftext|>the<|endoftext|>"
    batch = batch_of([text, text])
    counts = tokenizer._encoder.count_ids([(batch.data, batch.offsets)], 1)
    assert counts == Counter(tokenizer.encode(text) * 2)
    assert counts[tokenizer.special_tokens["<|endoftext|>"]] == 4


@pytest.mark.parametrize("threads", [1, 3])
def test_high_ids_are_counted(threads: int) -> None:
    high = [2**20 - 1, 2**20, 2**32 - 1]
    tokens = dict(zip(high, (b"ab", b"abc", b"abcd"), strict=True))
    merges = [(97, 98), (high[0], 99), (high[1], 100)]
    tokenizer = Tokenizer(vocabulary(tokens, merges))
    documents = ["ab abc abcd abcd" * 3, "abcd " * 70_000]
    found = tokenizer._count_ids(Parts(documents, 2), threads)
    assert [*found.items()] == [*counted(tokenizer, documents).items()]
    assert {*high} <= {*found}


def test_no_text_has_no_counts(tokenizers: dict[str, Tokenizer]) -> None:
    for name in NAMES:
        assert tokenizers[name]._encoder.count_ids([], 1) == {}
        assert tokenizers[name]._count_ids(Parts([""], 1), 2) == {}


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_those_of_encode_offsets(tokenizers: dict[str, Tokenizer], name: str) -> None:
    encoder = tokenizers[name]._encoder
    wrong = [
        (b"ab\xff", array("Q", [0, 1, 3])),
        ("é".encode(), array("Q", [0, 1, 2])),
        (b"ab", array("q", [0, 2, 1])),
        (b"ab", array("q", [0, 3])),
        (b"ab", array("q", [-1, 1])),
    ]
    for data, offsets in wrong:
        run = memoryview(data), memoryview(offsets)
        with pytest.raises((ValueError, UnicodeDecodeError)) as expected:
            encoder.encode_offsets(*run, ((), ()), 4, 1)
        with pytest.raises(type(expected.value)) as caught:
            encoder.count_ids([(memoryview(b"a"), memoryview(array("Q", [0, 1]))), run], 1)
        assert str(caught.value) == str(expected.value)


def test_errors_of_the_runs_are_raised(tokenizers: dict[str, Tokenizer]) -> None:
    def runs() -> Iterator[tuple[memoryview, memoryview]]:
        yield memoryview(b"a"), memoryview(array("Q", [0, 1]))
        raise OSError("no disk")

    for name in NAMES:
        with pytest.raises(OSError, match="no disk"):
            tokenizers[name]._encoder.count_ids(runs(), 1)


PROGRAM = """
import pickle, sys
from bpetite import Tokenizer
from bpetite._engine import _native
tokenizer, runs = pickle.load(sys.stdin.buffer)
runs = [(memoryview(data), memoryview(offsets)) for data, offsets in runs]
found = [tokenizer._encoder.count_ids(runs, threads) for threads in (1, 3)]
pickle.dump((_native.instruction_set(), found), sys.stdout.buffer)
"""


@native_only
@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_all_instruction_sets_count_alike(tokenizers: dict[str, Tokenizer], name: str) -> None:
    tokenizer = tokenizers["cl100k"]
    batch = batch_of([*TEXTS.values(), *WORDS, "".join(TEXTS.values()) * 9])
    runs = [(bytes(batch.data), array("Q", batch.offsets))]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "BPETITE_ENGINE": "native", "BPETITE_SIMD": name},
        input=pickle.dumps((tokenizer, runs)),
        capture_output=True,
        check=True,
        timeout=100,
    )
    used, found = pickle.loads(done.stdout)
    if used != name:
        pytest.skip("the processor lacks this instruction set")
    ids, _ = tokenizer.encode_offsets(*runs[0], allowed_special="all")
    assert found == [Counter(ids.tolist())] * 2


# Characters and words


@given(DOCUMENTS)
def test_characters_and_words_are_those_of_each_document(documents: list[str]) -> None:
    expected = (
        sum(map(len, documents)),
        sum(len(re.findall(r"[^ \t\n\v\f\r]+", text)) for text in documents),
    )
    batch = batch_of(documents)
    for engine in (ENGINE, python):
        found = engine.characters_and_words(batch.data, batch.offsets)
        assert found == expected


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), min_size=1, max_size=6))
def test_engines_measure_all_bytes_alike(data: bytes, ends: list[int]) -> None:
    offsets = memoryview(array("Q", sorted(min(end, len(data)) for end in ends)))
    expected = python.characters_and_words(data, offsets)
    assert ENGINE.characters_and_words(data, offsets) == expected


def test_writable_bytes_are_measured() -> None:
    data = bytearray(b"ab c\n" * 10_000)
    offsets = memoryview(array("Q", [0, len(data)]))
    assert ENGINE.characters_and_words(data, offsets) == (50_000, 20_000)
