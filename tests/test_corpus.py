"""Text and files to train on: how they are read, and how much of them at a time."""

import io
from collections.abc import Iterable
from typing import Any

import pytest

from bpetite import Tokenizer, TrainingProgress


def counting_of(corpus: str | Iterable[str]) -> list[TrainingProgress]:
    seen: list[TrainingProgress] = []
    Tokenizer.train(corpus, 256, progress=seen.append)
    return [progress for progress in seen if progress.stage == "counting"]


@pytest.mark.parametrize("kind", [list, tuple, iter])
@pytest.mark.parametrize("documents", [[], ["ab"], ["ab", "é", "ef"]])
def test_the_total_of_documents_is_not_known(kind: Any, documents: list[str]) -> None:
    size = len("".join(documents).encode())
    assert counting_of(kind(documents))[-1] == TrainingProgress("counting", size, None)


def test_the_total_of_a_text_is_its_bytes() -> None:
    assert counting_of("aé🙂" * 5000)[-1] == TrainingProgress("counting", 35000, 35000)


@pytest.mark.parametrize("documents", [(b"ab",), ("ab", None), [5]])
def test_a_document_of_another_type_is_named_with_progress_too(documents: Any) -> None:
    with pytest.raises(TypeError, match=r"document \d of the corpus must be a str, got"):
        Tokenizer.train(documents, 256, progress=lambda _: None)


def test_progress_that_cannot_be_called_is_refused_at_once() -> None:
    def never() -> Iterable[str]:
        yield "read"
        raise AssertionError("the corpus was read")

    with pytest.raises(TypeError, match="progress must be callable, got int"):
        Tokenizer.train(never(), 256, progress=5)  # type: ignore[arg-type]


class Watched(io.BytesIO):
    """A file that says how much was asked of it at a time."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.asked: list[int | None] = []

    def read(self, size: int | None = -1, /) -> bytes:
        self.asked.append(size)
        return super().read(size)


def test_a_file_is_read_a_piece_at_a_time() -> None:
    file = Watched(b"ab cd " * 100_000)
    Tokenizer.train_from_files([file], 256)
    assert len(file.asked) > 9
    assert all(size is not None and 0 < size <= 1 << 20 for size in file.asked)


def test_a_file_that_is_open_as_text_is_refused() -> None:
    with pytest.raises(TypeError, match="binary mode"):
        Tokenizer.train_from_files([io.StringIO("ab")], 256)  # type: ignore[list-item]


@pytest.mark.parametrize("paths", ["name", b"name", bytearray(b"name"), 5, None])
def test_paths_of_another_type_are_named(paths: Any) -> None:
    with pytest.raises(TypeError, match=f"an iterable of paths, got {type(paths).__name__}"):
        Tokenizer.train_from_files(paths, 256)
