"""Turn what people train on, text or files, into documents: each an iterator of text chunks."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, NoReturn

from bpetite._pretokenizer import slices

_READ_SIZE = 1 << 16  # bytes that are read from a file at a time
_ENCODE_SIZE = 1 << 16  # characters of a text that are made bytes at a time

Source = str | os.PathLike[str] | BinaryIO
"""A file to train on: its path, or an open binary file."""


class TextCorpus:
    """Documents that are `str`: one, or an iterable of them, read once.

    >>> [list(document) for document in TextCorpus(["ab", "c"])]
    [['ab'], ['c']]
    """

    def __init__(self, corpus: str | Iterable[str]) -> None:
        if isinstance(corpus, (bytes, bytearray)) or not isinstance(corpus, Iterable):
            raise TypeError(
                f"corpus must be a str or an iterable of str, got {type(corpus).__name__}"
            )
        self._text = corpus if isinstance(corpus, str) else None
        self._documents = (corpus,) if isinstance(corpus, str) else corpus
        self.bytes_read = 0

    def total_bytes(self) -> int | None:
        """The size of the whole corpus in UTF-8, None if only reading it would tell."""
        if self._text is None:
            return None
        return sum(len(chunk.encode("utf-8", "replace")) for chunk in slices(self._text))

    def __iter__(self) -> Iterator[Iterator[str]]:
        for number, document in enumerate(self._checked_documents()):
            yield self._chunks(document, number)

    def _checked_documents(self) -> Iterator[str]:
        for number, document in enumerate(self._documents):
            if not isinstance(document, str):
                raise TypeError(
                    f"document {number} of the corpus must be a str, got {type(document).__name__}"
                )
            yield document

    def _chunks(self, document: str, number: int) -> Iterator[str]:
        for chunk in slices(document):
            try:
                self.bytes_read += len(chunk.encode("utf-8"))
            except UnicodeEncodeError:
                _raise_encode_error(document, number)
            yield chunk

    def encoded(self) -> Iterator[Iterator[bytes]]:
        """Yield each document as chunks of UTF-8, as iterating does as chunks of text."""
        for number, document in enumerate(self._checked_documents()):
            yield self._encoded_chunks(document, number)

    def _encoded_chunks(self, document: str, number: int) -> Iterator[bytes]:
        for start in range(0, len(document), _ENCODE_SIZE):
            try:
                data = document[start : start + _ENCODE_SIZE].encode("utf-8")
            except UnicodeEncodeError:
                _raise_encode_error(document, number)
            self.bytes_read += len(data)
            yield data

    def raise_decode_error(self, offset: int, data: bytes) -> NoReturn:
        """Never called: what `encoded` yields is UTF-8."""
        raise AssertionError(f"a text has bytes that are not UTF-8 at {offset}: {data!r}")


def _raise_encode_error(document: str, number: int) -> None:
    """Raise the UnicodeEncodeError of a document, whose position is that in the document."""
    try:
        document.encode("utf-8")
    except UnicodeEncodeError as error:
        error.add_note(f"in document {number} of the corpus")
        raise error from None


class FileCorpus:
    """Documents that are files in UTF-8, read in chunks: none is ever held whole."""

    def __init__(self, sources: Iterable[Source]) -> None:
        if isinstance(sources, (str, bytes, bytearray, os.PathLike)):
            raise TypeError(
                f"paths must be an iterable of paths, got {type(sources).__name__}: "
                f"for one file, pass [{sources!r}]"
            )
        if not isinstance(sources, Iterable):
            raise TypeError(f"paths must be an iterable of paths, got {type(sources).__name__}")
        self._sources = list(sources)
        for source in self._sources:
            if not isinstance(source, (str, os.PathLike)) and not hasattr(source, "read"):
                raise TypeError(
                    f"a path must be a str, a path or a binary file, got {type(source).__name__}"
                )
        self._source: Source = ""
        self.bytes_read = 0

    def total_bytes(self) -> int | None:
        """The size of all files, None if one of them is not a regular file (a pipe, say)."""
        total = 0
        for source in self._sources:
            if not isinstance(source, (str, os.PathLike)) or not Path(source).is_file():
                return None
            total += Path(source).stat().st_size
        return total

    def __iter__(self) -> Iterator[Iterator[str]]:
        return map(self._chunks, self._sources)

    def _chunks(self, source: Source) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")()
        offset = 0  # in the file, of the next bytes to decode
        for data in self._read(source):
            yield _decode(decoder, data, offset, source)
            offset += len(data)
        yield _decode(decoder, b"", offset, source, final=True)

    def encoded(self) -> Iterator[Iterator[bytes]]:
        """Yield each document as chunks of bytes, which may not be UTF-8."""
        for source in self._sources:
            self._source = source
            yield self._read(source)

    def raise_decode_error(self, offset: int, data: bytes) -> NoReturn:
        """Raise the ValueError of the document that `encoded` yielded last.

        `data` is what it has at `offset`, up to four bytes; it is not UTF-8.
        """
        _decode(codecs.getincrementaldecoder("utf-8")(), data, offset, self._source, final=True)
        raise AssertionError(f"bytes that are UTF-8 after all: {data!r}")

    def _read(self, source: Source) -> Iterator[bytes]:
        with _opened(source) as file:
            while data := file.read(_READ_SIZE):
                if not isinstance(data, bytes):
                    raise TypeError(
                        f"{_name(source)} must be open in binary mode: it reads "
                        f"{type(data).__name__}"
                    )
                self.bytes_read += len(data)
                yield data


def _opened(source: Source) -> AbstractContextManager[BinaryIO]:
    if isinstance(source, (str, os.PathLike)):
        return open(source, "rb")
    return nullcontext(source)  # who opened it closes it


def _decode(
    decoder: codecs.IncrementalDecoder,
    data: bytes,
    offset: int,
    source: Source,
    final: bool = False,
) -> str:
    """Decode the bytes of a file from `offset` on, at its end too if they are `final`."""
    held, _ = decoder.getstate()  # the beginning of a character that the last chunk cut in two
    try:
        return decoder.decode(data, final=final)
    except UnicodeDecodeError as error:
        place = offset - len(held) + error.start
        byte = error.object[error.start]
        raise ValueError(
            f"{_name(source)} is not UTF-8 at byte {place} (0x{byte:02x}: {error.reason})"
        ) from None


def _name(source: Source) -> str:
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    name = getattr(source, "name", source)
    return "standard input" if name == "<stdin>" else str(name)
