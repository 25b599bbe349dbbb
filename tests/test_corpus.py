"""Texts and files to documents: read in chunks, and checked."""

import io
from collections.abc import Iterable, Iterator

import pytest
from support.batches import Batched, Segmented, batch_of

from bpetite import Tokenizer, TrainingProgress
from bpetite._corpus import Batch


def test_progress_that_cannot_be_called_is_refused_at_once() -> None:
    def never() -> Iterable[str]:
        yield "read"
        raise AssertionError("the corpus was read")

    with pytest.raises(TypeError, match="progress must be callable, got int"):
        Tokenizer.train(never(), 256, progress=5)  # type: ignore[arg-type]


class Watched(io.BytesIO):
    """A file that records the sizes of its reads."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.asked: list[int | None] = []

    def read(self, size: int | None = -1, /) -> bytes:
        self.asked.append(size)
        return super().read(size)


def test_a_file_is_read_in_chunks() -> None:
    file = Watched(b"ab cd " * 100_000)
    Tokenizer.train([file], 256)
    assert len(file.asked) > 9
    assert all(size is not None and 0 < size <= 1 << 20 for size in file.asked)


def test_a_file_that_is_open_as_text_is_refused() -> None:
    with pytest.raises(TypeError, match="binary mode"):
        Tokenizer.train([io.StringIO("ab")], 256)  # type: ignore[list-item]


TEXTS = ["ab ab", "", "é" * 4_000 + " ab", "🙂", "ab"]


@pytest.mark.parametrize("kind", [Batched, Segmented])
@pytest.mark.parametrize("pattern", ["gpt2", r"\S+|\s+"])
def test_batches_are_documents(kind: type[Batched], pattern: str) -> None:
    seen: list[TrainingProgress] = []
    corpus = kind([text.encode() for text in TEXTS])
    tokenizer = Tokenizer.train(corpus, 280, pattern=pattern, progress=seen.append)
    assert tokenizer == Tokenizer.train(TEXTS, 280, pattern=pattern)
    size = sum(len(text.encode()) for text in TEXTS)
    counting = [progress for progress in seen if progress.stage == "counting"]
    assert counting[-1] == TrainingProgress("counting", size, None)


@pytest.mark.parametrize("kind", [Batched, Segmented])
def test_invalid_utf8_in_a_batch_names_the_document(kind: type[Batched]) -> None:
    corpus = kind([b"ab", b"", b"abcd\xff"])
    with pytest.raises(ValueError, match=r"document 2 of the corpus is not UTF-8 at byte 4 "):
        Tokenizer.train(corpus, 280)


def test_an_unfinished_last_document_counts() -> None:
    class Unfinished(Batched):
        def segments(self) -> Iterator[tuple[Batch, bool]]:
            yield batch_of(self.documents), False

    assert Tokenizer.train(Unfinished([b"ab", b"ab"]), 280).merges == ((97, 98),)
