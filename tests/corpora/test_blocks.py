"""The ids of documents in blocks, and of a long document in parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy
import pytest
from support.byte_fallback import SETTINGS, random_document, random_text, write
from support.engines import quick_once
from support.split_cases import CHARACTERS, LITERALS, tokenizer_of

from bpetite import PATTERNS, Tokenizer
from bpetite._corpus import Batch
from bpetite.corpora import Corpus, count, encode
from conftest import TEXTS

pytestmark = quick_once

A, END = "<|a|>", "<|endoftext|>"


class Segments:
    """A corpus of one file in small segments."""

    def __init__(self, path: Path, batch_bytes: int) -> None:
        self.corpus, self.batch_bytes = Corpus(path), batch_bytes

    def batches(self) -> Any:
        """Fail: segments are preferred."""
        raise AssertionError

    def segments(self) -> Any:
        """Yield the segments."""
        return self.corpus.segments(batch_bytes=self.batch_bytes)


def documents_of(segments: Any) -> list[list[int]]:
    """Return the ids of each document."""
    documents: list[list[int]] = []
    is_open = False
    for ids, offsets, is_complete in segments:
        for start, end in itertools.pairwise(offsets):
            if not is_open:
                documents.append([])
            documents[-1] += ids[start:end].tolist()
            is_open = False
        is_open = not is_complete
    assert not is_open
    return documents


QUICK = [(name, 1000) for name in [*PATTERNS, "own"]] + [("o200k", 3), ("own", 3)]


@pytest.mark.parametrize(
    ("name", "batch_bytes"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
        for case in itertools.product([*PATTERNS, "own"], [1, 3, 64, 1000, 1 << 20])
    ],
)
def test_parts_have_the_ids_of_whole_documents(name: str, batch_bytes: int, tmp_path: Path) -> None:
    text = "".join(map("".join, itertools.product(CHARACTERS[::2], CHARACTERS[1::3])))
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    tokenizer = (
        Tokenizer.train(text, 300, pattern=r"\w+|\W", special_tokens=LITERALS)
        if name == "own"
        else tokenizer_of(name, LITERALS)
    )
    corpus = Segments(path, batch_bytes)
    for allowed in ("all", (), LITERALS[:1]):
        expected = tokenizer.encode(text, allowed_special=allowed)
        found = encode(tokenizer, corpus, allowed_special=allowed)
        assert documents_of(found) == [expected]
        assert count(tokenizer, corpus, allowed_special=allowed) == len(expected)
    framed = encode(tokenizer, corpus, begin=LITERALS[0], end=7, dtype="uint16", threads=2)
    first = tokenizer.special_tokens[LITERALS[0]]
    assert documents_of(framed) == [[first, *tokenizer.encode_ordinary(text), 7]]


@pytest.mark.parametrize("name", SETTINGS)
def test_only_the_first_part_of_a_document_gets_a_space(name: str, tmp_path: Path) -> None:
    rng = Random(name)
    document = random_document(rng, **SETTINGS[name])
    tokenizer = Tokenizer.load(write(document, tmp_path))
    text = random_text(rng, document, count=200)
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    corpus = Segments(path, 7)
    for allowed in ("all", ()):
        expected = tokenizer.encode(text, allowed_special=allowed)
        assert documents_of(encode(tokenizer, corpus, allowed_special=allowed)) == [expected]
        assert count(tokenizer, corpus, allowed_special=allowed) == len(expected)


def test_blocks_of_short_documents_are_their_batches(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")
    (tmp_path / "b.jsonl").write_bytes(b'{"text": "it is"}\n{"text": ""}\n{"text": "1"}\n')
    (tmp_path / "c.txt").write_bytes(b"2")
    tokenizer = tokenizer_of("gpt2", LITERALS)
    found = documents_of(encode(tokenizer, Corpus(tmp_path), end=0))
    assert found == [[*tokenizer.encode(text), 0] for text in ("", "it is", "", "1", "2")]


def test_arguments_are_checked_at_the_call(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")
    tokenizer = tokenizer_of("gpt2")
    with pytest.raises(ValueError, match="dtype must be"):
        encode(tokenizer, Corpus(tmp_path), dtype="int8")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='errors="replace" is for documents that are str or bytes'):
        encode(tokenizer, Corpus(tmp_path), errors="replace")
    with pytest.raises(ValueError, match="end is '<x>'"):
        encode(tokenizer, Corpus(tmp_path), end="<x>")


# Blocks of documents

SMALL = Tokenizer.train(TEXTS.values(), 300, pattern="cl100k", special_tokens=[A, END])


def batch(texts: list[str], dtype: str = "uint64") -> Batch:
    """Return documents as a corpus yields them."""
    data = [text.encode() for text in texts]
    offsets: Any = numpy.array([*itertools.accumulate(map(len, data), initial=0)], dtype)
    return Batch(memoryview(b"".join(data)), memoryview(offsets), range(len(texts)))


def parts(ids: memoryview, offsets: memoryview, _is_complete: bool) -> list[list[int]]:
    """Return the ids of each document."""
    return [ids[start:end].tolist() for start, end in itertools.pairwise(offsets)]


class Batches:
    """A source of documents in batches."""

    def __init__(self, *batches: Batch) -> None:
        self._batches = batches

    def batches(self) -> Iterator[Batch]:
        """Yield the batches."""
        yield from self._batches


def blocks(tokenizer: Tokenizer, documents: Any, **options: Any) -> list[list[int]]:
    """Return the ids of each document, from all blocks."""
    return [ids for block in encode(tokenizer, documents, **options) for ids in parts(*block)]


@pytest.mark.parametrize("make", [list, tuple, iter])
def test_blocks_have_the_ids_of_all_documents(make: Any) -> None:
    texts = [*TEXTS.values()]
    mixed = [text.encode() if i % 2 else text for i, text in enumerate(texts)]
    assert blocks(SMALL, make(mixed)) == [*map(SMALL.encode_ordinary, texts)]


def test_blocks_of_no_documents_are_none() -> None:
    assert [*encode(SMALL, [])] == []
    assert [*encode(SMALL, Batches())] == []


def test_a_block_has_about_a_megabyte() -> None:
    read = 0

    def documents() -> Iterator[str]:
        nonlocal read
        for read in range(1, 400):  # noqa: B007 - read is used below
            yield "the hen " * 1250

    counts, ahead = [], []
    for _, offsets, _ in encode(SMALL, documents(), end=END):
        counts.append(len(offsets) - 1)
        ahead.append(read)
    assert sum(counts) == 399
    assert set(counts[:-1]) == {105}
    assert ahead[:2] == [105, 210]


def test_blocks_of_empty_documents_end_too() -> None:
    counts = [len(offsets) - 1 for _, offsets, _ in encode(SMALL, [""] * 40_000)]
    assert (max(counts), sum(counts)) == (1 << 14, 40_000)


def test_blocks_of_batches_are_the_batches() -> None:
    texts = ["ab", "", f"é{A}"]
    source = Batches(batch(texts), batch([]), batch(texts[2:], "int32"))
    for allowed in ((), "all"):
        found = encode(SMALL, source, begin=A, allowed_special=allowed, threads=2)
        expected = [
            [SMALL.special_tokens[A], *SMALL.encode(text, allowed_special=allowed)]
            for text in texts
        ]
        assert [parts(*block) for block in found] == [expected, expected[2:]]


@pytest.mark.parametrize("documents", ["ab", b"ab", bytearray(b"ab"), 7, None], ids=repr)
def test_blocks_of_other_values_are_refused(documents: Any) -> None:
    with pytest.raises(TypeError, match=r"^documents must be an iterable of texts, got "):
        encode(SMALL, documents)


@pytest.mark.parametrize(
    ("bad", "error"),
    [(b"a\xff", UnicodeDecodeError), ("a\ud800", UnicodeEncodeError), (7, TypeError)],
)
@pytest.mark.parametrize("number", [0, 3, 150])
def test_a_bad_document_of_blocks_has_a_number(
    bad: Any, error: type[Exception], number: int
) -> None:
    documents = ["the hen " * 1250] * number + [bad, "ab"]
    with pytest.raises(error) as caught:
        blocks(SMALL, documents)
    assert caught.value.__notes__ == [f"in document {number}"]
    if isinstance(caught.value, UnicodeError):
        assert caught.value.start == 1  # type: ignore[attr-defined]


def test_invalid_unicode_is_replaced() -> None:
    texts: list[Any] = ["a\ud800b", b"a\xff\xe4\xbd", "\ud83d\ude42"]
    expected = [SMALL.encode(text) for text in ("a\ufffdb", "a\ufffd\ufffd", "🙂")]
    assert blocks(SMALL, texts, errors="replace") == expected
    assert count(SMALL, texts, errors="replace") == sum(map(len, expected))
