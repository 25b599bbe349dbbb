"""The ids of documents in segments are those of the whole documents."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from support.examples import slow_except
from support.split_cases import CHARACTERS, LITERALS, tokenizer_of

from bpetite import PATTERNS, Tokenizer
from bpetite.corpora import Corpus


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


@pytest.mark.parametrize("name", [*PATTERNS, "own"])
@pytest.mark.parametrize("batch_bytes", slow_except([1, 3, 64, 1000, 1 << 20], 3, 1000))
def test_segments_have_the_ids_of_whole_documents(
    name: str, batch_bytes: int, tmp_path: Path
) -> None:
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
        found = tokenizer.encode_segments(corpus, allowed_special=allowed)
        assert documents_of(found) == [expected]
        assert tokenizer.count_documents(corpus, allowed_special=allowed) == len(expected)
    framed = tokenizer.encode_segments(corpus, begin=LITERALS[0], end=7, dtype="uint16", threads=2)
    first = tokenizer.special_tokens[LITERALS[0]]
    assert documents_of(framed) == [[first, *tokenizer.encode_ordinary(text), 7]]


def test_segments_of_short_documents_are_their_batches(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")
    (tmp_path / "b.jsonl").write_bytes(b'{"text": "it is"}\n{"text": ""}\n{"text": "1"}\n')
    (tmp_path / "c.txt").write_bytes(b"2")
    tokenizer = tokenizer_of("gpt2", LITERALS)
    found = documents_of(tokenizer.encode_segments(Corpus(tmp_path), end=0))
    assert found == [[*tokenizer.encode(text), 0] for text in ("", "it is", "", "1", "2")]


def test_arguments_of_segments_are_checked_at_the_call(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")
    tokenizer = tokenizer_of("gpt2")
    with pytest.raises(TypeError, match="corpus must have a method batches, got list"):
        tokenizer.encode_segments(["text"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dtype must be"):
        tokenizer.encode_segments(Corpus(tmp_path), dtype="int8")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="end is '<x>'"):
        tokenizer.encode_segments(Corpus(tmp_path), end="<x>")
