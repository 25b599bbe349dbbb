"""The documents of a corpus of texts, files or batches: each in chunks of text or of bytes."""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
import warnings
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from mmap import mmap
from operator import gt
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeGuard, runtime_checkable

from bpetite._arguments import check_order, kind_of
from bpetite._pretokenizer import BLOCK_CHARACTERS, chunks_of
from bpetite._unicode import bytes_without_nfc, nfc, nfc_chunks

_READ_BYTES = 1 << 16
_ENCODE_CHARACTERS = 1 << 16
BEGINNING_BYTES = 1 << 16
"""The bytes of a file that tell what it is."""

_MAX_PATH_CHARACTERS = 4096


class CorpusWarning(UserWarning):
    """A corpus is probably a mistake.

    Its documents are names of files, its text is JSON Lines, CSV or TSV, or it has too few pairs
    for the vocabulary.
    """


class Batch(NamedTuple):
    """Some documents of a corpus, in order.

    Document i is `data[offsets[i] : offsets[i + 1]]`. The first offset need not be 0.
    """

    data: memoryview
    """The UTF-8 of the documents, joined; format "B"."""
    offsets: memoryview
    """One offset more than documents; format "Q"."""
    rows: Sequence[int]
    """Where each document stands in its file: its row, or its line, from 0."""


@runtime_checkable
class Batches(Protocol):
    """A corpus that comes in batches, such as `bpetite.corpora.Corpus`.

    It may have a method `segments` too, which yields pairs: a batch, and whether its last document
    ends there. If not, the next batch continues the document, so it may be larger than memory.
    """

    def batches(self) -> Iterable[Batch]:
        """Return the documents in batches of some megabytes."""


File = os.PathLike[str] | BinaryIO
"""A file of UTF-8: its path, or an open binary file."""


Document = str | bytes | bytearray | memoryview | File
"""A `str`, its UTF-8 in bytes, or a file that has it."""


def _is_file(value: object) -> TypeGuard[File]:
    # The bytes of a mapped file are a document from its beginning, wherever its position is.
    is_open = callable(getattr(value, "read", None)) and not isinstance(value, mmap)
    return is_open or isinstance(value, os.PathLike)


class TextCorpus:
    """Documents that are texts, or files that are read in chunks: one, or an iterable, read once.

    >>> from io import BytesIO
    >>> ["".join(chunks) for chunks in TextCorpus(["ab", b"c", BytesIO(b"d")])]
    ['ab', 'c', 'd']
    """

    def __init__(
        self, corpus: str | File | Iterable[Document], as_text: Callable[[Any], str] | None = None
    ) -> None:
        """`as_text`, if given, returns the text of a `str` or bytes, and repairs it."""
        documents: Any = (corpus,) if isinstance(corpus, str) or _is_file(corpus) else corpus
        check_order(documents, "corpus", "documents")
        if isinstance(documents, (bytes, bytearray)) or not isinstance(documents, Iterable):
            raise TypeError(
                f"corpus must be a str, a path, an open file or an iterable of documents, got "
                f"{type(corpus).__name__}"
            )
        self._as_text = as_text
        self._documents: Iterable[Any] = documents
        self.bytes_read = 0

    def total_bytes(self) -> int | None:
        """The size of the whole corpus in UTF-8, None if only reading it would tell."""
        if not isinstance(self._documents, (list, tuple)):
            return None
        if len(self._documents) == 1 and isinstance(text := self._documents[0], str):
            return sum(len(chunk.encode("utf-8", "replace")) for chunk in chunks_of(text))
        total = 0
        for document in self._documents:
            if not isinstance(document, os.PathLike) or not os.path.isfile(document):
                return None
            total += os.stat(document).st_size
        return total

    def __iter__(self) -> Iterator[Iterator[str]]:
        for name, document in self._named_documents():
            if isinstance(document, str):
                yield (chunk for chunk, _ in self._chunks(name, document))
            else:
                yield _decoded(name, self._read(name, document))

    def encoded(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield the name of each document and its bytes in chunks. Bytes of files are unchecked."""
        for name, document in self._named_documents():
            if isinstance(document, str):
                chunks = self._chunks(name, document, _ENCODE_CHARACTERS)
                yield name, (data for _, data in chunks)
            else:
                yield name, self._read(name, document)

    def _named_documents(self) -> Iterator[tuple[str, str | File]]:
        for number, document in enumerate(self._documents):
            name = _name_of(number)
            if _is_file(document):
                yield _name_of_file(document, name), document
                continue
            text = self._text_of(name, document)
            if number == 0:
                if not isinstance(document, str):
                    check_document(name, text[:BEGINNING_BYTES].encode())
                _warn_of_path(name, text)
                warn_of_fields(name, text[:BEGINNING_BYTES].encode("utf-8", "replace"))
            yield name, text

    def _text_of(self, name: str, document: Document) -> str:
        if isinstance(document, str) and self._as_text is None:
            return document
        try:
            if self._as_text is not None:
                return self._as_text(document)
            return str(memoryview(document), "utf-8")  # type: ignore[arg-type]
        except TypeError:
            kind = kind_of(document)
            raise TypeError(
                f"{name} must be a str, bytes, a path or an open file, got {kind}"
            ) from None
        except UnicodeDecodeError as error:
            error.add_note(f"in {name}")
            raise

    def _chunks(
        self, name: str, document: str, size: int = BLOCK_CHARACTERS
    ) -> Iterator[tuple[str, bytes]]:
        """Yield a document in chunks, each with its UTF-8."""
        for chunk in chunks_of(document, size):
            try:
                data = chunk.encode("utf-8")
            except UnicodeEncodeError:
                _raise_encode_error(name, document)
            self.bytes_read += len(data)
            yield chunk, data

    def _read(self, name: str, file: File) -> Iterator[bytes]:
        chunks = self._read_unchecked(name, file)
        if self._as_text is None:
            return chunks
        return map(str.encode, codecs.iterdecode(chunks, "utf-8", "replace"))

    def _read_unchecked(self, name: str, file: File) -> Iterator[bytes]:
        is_first = True
        with _opened(file) as opened:
            while data := opened.read(_READ_BYTES):
                if not isinstance(data, bytes):
                    raise TypeError(
                        f"{name} must be open in binary mode, but it reads {type(data).__name__}"
                    )
                if is_first:
                    check_document(name, data)
                    warn_of_fields(name, data)
                    is_first = False
                self.bytes_read += len(data)
                yield data


def _raise_encode_error(name: str, document: str) -> None:
    """Raise the UnicodeEncodeError of a document, with its position in the whole document."""
    try:
        document.encode("utf-8")
    except UnicodeEncodeError as error:
        error.add_note(f"in {name}")
        raise error from None


class BatchCorpus:
    r"""Documents that come in batches, read once.

    >>> from array import array
    >>> class Two:
    ...     def batches(self):
    ...         offsets = memoryview(array("Q", (0, 2, 3)))
    ...         return [Batch(memoryview(b"abc"), offsets, range(2))]
    >>> [list(document) for document in BatchCorpus(Two())]
    [['ab', ''], ['c', '']]
    """

    def __init__(self, corpus: Batches) -> None:
        self._corpus = corpus
        self.bytes_read = 0

    def total_bytes(self) -> int | None:
        """The size of the whole corpus in UTF-8, None if only reading it would tell."""
        total = getattr(self._corpus, "total_bytes", None)
        size: int | None = None if total is None else total()
        return size

    def __iter__(self) -> Iterator[Iterator[str]]:
        for name, chunks in self.encoded():
            yield _decoded(name, chunks)

    def encoded(
        self, take: Callable[[memoryview, memoryview], bool] | None = None
    ) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield the name of each document and its bytes in chunks, unchecked.

        `take`, if given, is called with the data and the offsets of several documents. They are not
        yielded if it returns true.
        """
        number = 0
        runs = document_runs(self._corpus)
        for data, offsets, is_end in runs:
            if offsets is None:
                yield _name_of(number), self._parts(data, is_end, runs)
                number += 1
            elif take is not None and take(data, offsets):
                self.bytes_read += offsets[-1] - offsets[0]
                number += len(offsets) - 1
            else:
                for start, end in pairwise(offsets):
                    yield _name_of(number), self._chunks(data[start:end])
                    number += 1

    def _parts(
        self, data: memoryview, is_end: bool, runs: Iterator[DocumentRun]
    ) -> Iterator[bytes]:
        """Yield the bytes of a document that begins with a part, and take its other parts."""
        yield from self._chunks(data)
        while not is_end:
            data, _, is_end = next(runs)
            yield from self._chunks(data)

    def _chunks(self, data: memoryview) -> Iterator[bytes]:
        for start in range(0, len(data), _READ_BYTES):
            chunk = bytes(data[start : start + _READ_BYTES])
            self.bytes_read += len(chunk)
            yield chunk


def _name_of(number: int) -> str:
    return f"document {number} of the corpus"


def segments_of(corpus: Batches) -> Iterable[tuple[Batch, bool]]:
    """Return the batches of a corpus, each with whether its last document ends there."""
    segments = getattr(corpus, "segments", None)
    if segments is not None:
        found: Iterable[tuple[Batch, bool]] = segments()
        return found
    return ((batch, True) for batch in corpus.batches())


class DocumentRun(NamedTuple):
    """Some whole documents of a batch, or a part of one document."""

    data: memoryview
    offsets: memoryview | None
    """The offsets of whole documents; None for a part."""
    is_end: bool = True
    """Whether the document ends with this part."""


def document_runs(corpus: Batches) -> Iterator[DocumentRun]:
    """Yield the documents of a corpus in runs, and long documents in parts."""
    is_open = False
    for (data, offsets, _), is_complete in segments_of(corpus):
        count = len(offsets) - 1
        first = 0
        if is_open and count:
            is_open = count == 1 and not is_complete
            yield DocumentRun(data[offsets[0] : offsets[1]], None, not is_open)
            first = 1
        last = count if is_complete else count - 1
        if last > first:
            yield DocumentRun(data, offsets[first : last + 1])
        if not is_complete and count > first:
            is_open = True
            yield DocumentRun(data[offsets[last] : offsets[count]], None, False)
    if is_open:
        yield DocumentRun(memoryview(b""), None)


class NormalizedCorpus:
    r"""The documents of another corpus, in normal form C.

    Text without a character that may begin a block of `form_changes` is kept whole.

    >>> corpus = NormalizedCorpus(TextCorpus("e\u0301"))
    >>> ["".join(document) for document in corpus] == ["é"]
    True
    """

    def __init__(self, corpus: TextCorpus | BatchCorpus) -> None:
        self._corpus = corpus

    @property
    def bytes_read(self) -> int:
        """The number of bytes before they were normalized."""
        return self._corpus.bytes_read

    def total_bytes(self) -> int | None:
        """The size of the whole corpus in UTF-8, None if only reading it would tell."""
        return self._corpus.total_bytes()

    def __iter__(self) -> Iterator[Iterator[str]]:
        return map(nfc_chunks, self._corpus)

    def encoded(
        self, take: Callable[[memoryview, memoryview], bool]
    ) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield the name of each document and its UTF-8 in chunks; `take` as in `BatchCorpus`."""

        def take_normal(data: memoryview, offsets: memoryview) -> bool:
            run = normal_run(data, offsets, nfc)
            return run is not None and take(*run)

        corpus = self._corpus
        if isinstance(corpus, BatchCorpus):
            documents = corpus.encoded(take_normal)
        else:
            documents = corpus.encoded()
        for name, chunks in documents:
            yield name, map(str.encode, nfc_chunks(_decoded(name, chunks)))


Run = tuple[memoryview, memoryview]
"""Documents: document i is `data[offsets[i] : offsets[i + 1]]`."""


def normal_run(data: memoryview, offsets: memoryview, normal: Callable[[str], Any]) -> Run | None:
    r"""Return documents, with `normal` applied to the ones that are not in normal form C.

    `normal` returns a `str`, or its UTF-8. If it returns None, so does this function. Wrong
    documents are returned unchanged.

    >>> offsets = memoryview(array("Q", [0, 1, 4, 5]))
    >>> data, offsets = normal_run(memoryview("ae\u0301b".encode()), offsets, nfc)
    >>> str(data, "utf-8"), offsets.tolist()
    ('aéb', [0, 1, 3, 4])
    """
    start, end = offsets[0], offsets[-1]
    try:
        spans = [*bytes_without_nfc(data[max(start, 0) : end])]
    except UnicodeDecodeError:
        return data, offsets
    if not spans or start < 0 or end > len(data) or any(map(gt, offsets, offsets[1:])):
        return data, offsets
    parts: list[memoryview | bytes] = []
    moved = array("Q")
    shift = -start  # of the offsets after the last copied part
    copied = start
    for number in _numbers_in(spans, offsets):
        first, last = offsets[number], offsets[number + 1]
        try:
            form = normal(str(data[first:last], "utf-8"))
        except UnicodeDecodeError:
            return data, offsets
        if form is None:
            return None
        form = form.encode("utf-8") if isinstance(form, str) else form
        parts += data[copied:first], form
        moved.extend(offset + shift for offset in offsets[len(moved) : number + 1])
        shift += len(form) - (last - first)
        copied = last
    parts.append(data[copied:end])
    moved.extend(offset + shift for offset in offsets[len(moved) :])
    return memoryview(b"".join(parts)), memoryview(moved)


def _numbers_in(spans: Iterable[tuple[int, int]], offsets: memoryview) -> Iterator[int]:
    """Yield the numbers of the documents in spans, which count from the first document."""
    number = 0
    for start, end in spans:
        number = max(number, bisect_right(offsets, offsets[0] + start) - 1)
        while number < len(offsets) - 1 and offsets[number] < offsets[0] + end:
            yield number
            number += 1


DocumentCorpus = TextCorpus | BatchCorpus | NormalizedCorpus
"""Documents for training: of each kind."""


def corpus_of(
    corpus: str | File | Iterable[Document] | Batches, as_text: Callable[[Any], str] | None = None
) -> TextCorpus | BatchCorpus:
    """Return the documents of a corpus."""
    if not isinstance(corpus, Batches):
        return TextCorpus(corpus, as_text)
    if as_text is not None:
        raise ValueError(
            'errors="replace" is for documents that are str or bytes, not for a corpus in batches'
        )
    return BatchCorpus(corpus)


def _warn_of_path(name: str, text: str) -> None:
    """Warn if a document is the name of a file, which other libraries would read."""
    if len(text) > _MAX_PATH_CHARACTERS or "\n" in text or "\0" in text:
        return
    try:
        is_file = os.path.isfile(text)
    except ValueError:  # a lone surrogate
        return
    if is_file:
        warn(
            f"{name} is {text!r}, which is the name of a file; to train on its content, pass "
            f"pathlib.Path({text!r}), or use bpetite.corpora.Corpus"
        )


def warn_of_fields(name: str, beginning: bytes) -> None:
    """Warn if a text has fields: training would learn the syntax of JSON, or names of columns."""
    if is_json_line(beginning):
        warn(
            f"{name} looks like JSON Lines, but is read as text; to read a field of each line, "
            f'use bpetite.corpora.Corpus(..., format="jsonl"), or --input-format jsonl'
        )
    elif kind := _table_of(name, beginning):
        warn(
            f"{name} looks like {kind}, but is read as text; to read a column, write it as JSON "
            "Lines or Parquet, or pass its texts"
        )


def _table_of(name: str, beginning: bytes) -> str:
    r"""Return "CSV" or "TSV" if the file's name says so, or its lines; else nothing.

    >>> _table_of("a.csv.gz", b""), _table_of("-", b"id\ttext\n1\tthe hen\n")
    ('CSV', 'TSV')
    >>> _table_of("-", b"Apples, pears\nplums, figs\n")
    ''

    The lines say so if the first names columns, and all others have as many fields.
    """
    if suffix := re.search(r"\.(csv|tsv)(\.\w+)?$", name, re.IGNORECASE):
        return suffix[1].upper()
    text = beginning.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
    names = re.match(_COLUMN_NAMES, text)
    if names is None:
        return ""
    delimiter = names["delimiter"]
    import csv  # slow to import, and rarely needed

    rows = [*csv.reader(text.splitlines(keepends=True), delimiter=delimiter)]
    if len(beginning) >= BEGINNING_BYTES:
        rows.pop()  # it may be cut
    if len(rows) < 2 or {*map(len, filter(None, rows))} != {len(rows[0])}:
        return ""
    return "CSV" if delimiter == "," else "TSV"


_COLUMN_NAME = r'"?[^\W\d][\w .-]{0,60}"?'
_COLUMN_NAMES = (
    rf"{_COLUMN_NAME}(?P<delimiter>[,\t]){_COLUMN_NAME}((?P=delimiter){_COLUMN_NAME})*\r?\n"
)
"""The first line of a table. After a comma, prose has a space."""


def is_json_line(beginning: bytes) -> bool:
    r"""Return whether the first line of a file is a JSON object.

    >>> is_json_line(b'\n{"text": "a"}\n{"te'), is_json_line(b'{\n"text": "a"}')
    (True, False)

    If the line is longer than `beginning`, only its first field is checked.
    """
    text = beginning.removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n")
    if not text.startswith(b"{"):
        return False
    line, newline, _ = text.partition(b"\n")
    try:
        return len(json.loads(line)) > 0
    except (ValueError, RecursionError):
        return not newline and bool(re.match(rb'\{[ \t]*"(?:[^"\\]|\\.)*"[ \t]*:', line))


def warn(message: str) -> None:
    """Warn at the line of the program that called bpetite."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("bpetite."):
        frame = frame.f_back
        level += 1
    warnings.warn(message, CorpusWarning, stacklevel=level)


# Containers

_UNPACK = "unpack it"
_DECOMPRESS = "decompress it, or compress it with zstd"
_TAKE_TEXT = "give its texts, for example as JSON Lines"
_NAME_FORMAT = "read it with bpetite.corpora.Corpus, with its format or its usual name"

_CONTAINERS = (
    (rb"\x1f\x8b", "gzip-compressed", "decompress it"),
    (rb"\x28\xb5\x2f\xfd", "zstd-compressed", "decompress it"),
    (rb"BZh[1-9](1AY|\x17rE)", "bzip2-compressed", _DECOMPRESS),
    (rb"\xfd7zXZ\0", "xz-compressed", _DECOMPRESS),
    (rb"\x5d\0\0.{2}\xff{8}", "lzma-compressed", _DECOMPRESS),
    (rb"LZIP\x01", "lzip-compressed", _DECOMPRESS),
    (rb"\x04\x22\x4d\x18", "lz4-compressed", _DECOMPRESS),
    (rb"\xff\x06\0\0sNaPpY", "snappy-compressed", _DECOMPRESS),
    (rb"PK(\x03\x04|\x05\x06|\x07\x08)", "zip-compressed", _DECOMPRESS),
    (rb"7z\xbc\xaf\x27\x1c", "7z-compressed", _DECOMPRESS),
    (rb"Rar!\x1a\x07", "a rar archive", _UNPACK),
    (rb"MSCF\0{4}", "a cabinet archive", _UNPACK),
    (rb"!<arch>\n", "an ar archive", _UNPACK),
    (rb"07070[127][0-9A-Fa-f]{104}", "a cpio archive", _UNPACK),
    (rb"WARC/\d+\.\d+\r?\n[\w-]+:", "a WARC archive", _TAKE_TEXT),
    (rb"...[\0-\x05]\0{4}\{", "a file of safetensors", _TAKE_TEXT),
    (rb"\x93NUMPY", "an array of numpy", _TAKE_TEXT),
    (rb"\x80[\x02-\x05]", "a pickle", _TAKE_TEXT),
    (rb"\([ldt]p0\n|[]}]q\0|c[\w.]+\n\w+\n(p0\n|q\0)", "a pickle", _TAKE_TEXT),
    (rb"SQLite format 3\0", "an SQLite database", _TAKE_TEXT),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file", _TAKE_TEXT),
    (rb"Obj\x01", "an Avro file", _TAKE_TEXT),
    (rb"GGUF[\x01-\xff]\0{3}", "a GGUF file", _TAKE_TEXT),
    (rb"%PDF-\d\.\d\s*[\r\n]", "a PDF", _TAKE_TEXT),
    (rb"PAR1\x15", "a Parquet file", _NAME_FORMAT),
    (rb"ARROW1\0\0|\xff{4}.{3}\0", "an Arrow file", _NAME_FORMAT),
    (rb"\0{16,}\Z", "only NUL bytes", "restore it from its source"),
)
"""How each kind begins, as a regular expression, its name, and what to do."""


def container_of(beginning: bytes) -> tuple[str, str] | None:
    r"""Return what a file is that is no text, by its beginning, and what to do; else None.

    >>> container_of(b"BZh91AY&SY"), container_of(b"BZh is a prefix\0")
    (('bzip2-compressed', 'decompress it, or compress it with zstd'), None)
    """
    for pattern, kind, remedy in _CONTAINERS:
        if re.match(pattern, beginning, re.DOTALL):
            return kind, remedy
    header = beginning[:512]
    return ("a tar archive", _UNPACK) if b"\0" in header and _is_tar(header) else None


def _is_tar(header: bytes) -> bool:
    """Return whether a block has the checksum of a header of tar, which no text has by chance."""
    import tarfile  # takes milliseconds

    try:
        tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def check_document(name: str, beginning: bytes) -> None:
    """Raise ValueError if a file or a buffer with this beginning is a container, not a text."""
    if container := container_of(beginning[:BEGINNING_BYTES]):
        kind, remedy = container
        raise ValueError(f"{name} is {kind}; {remedy}")


# Decoding


def _decoded(name: str, chunks: Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0  # in the document, of the next bytes to decode
    for data in chunks:
        yield _decode(decoder, data, offset, name)
        offset += len(data)
    yield _decode(decoder, b"", offset, name, final=True)


def check_utf8(name: str, offset: int, data: bytes) -> None:
    """Raise ValueError if `data`, the bytes at `offset` of the file `name`, is not UTF-8."""
    _decode(codecs.getincrementaldecoder("utf-8")(), data, offset, name, final=True)


def _decode(
    decoder: codecs.IncrementalDecoder, data: bytes, offset: int, name: str, final: bool = False
) -> str:
    """Decode the bytes of a file from `offset` on; `final` says that no bytes follow."""
    pending, _ = decoder.getstate()  # the first bytes of a character that the last chunk split
    try:
        return decoder.decode(data, final=final)
    except UnicodeDecodeError as error:
        start = offset - len(pending)
        raise ValueError(
            f"{name} is not UTF-8 at byte {start + error.start} ({utf8_fault(error, start)})"
        ) from None


def utf8_fault(error: UnicodeDecodeError, offset: int = 0) -> str:
    r"""Return the byte that is not UTF-8, the reason, and what to do with another encoding.

    `offset` is the position of the error's bytes in the file: only a file can begin with a mark.
    """
    hint = encoding_hint(error.object) if offset == 0 else ""
    return f"0x{error.object[error.start]:02x}: {error.reason}{hint and '; '}{hint}"


def encoding_hint(beginning: bytes) -> str:
    r"""Return what to do with a file in UTF-16 or UTF-32, as its mark says; else nothing.

    >>> encoding_hint(b"\xff\xfea\0")
    'it looks like UTF-16, so convert it: iconv -f UTF-16 -t UTF-8'
    """
    for encoding, marks in _MARKS:
        if beginning.startswith(marks):
            return f"it looks like {encoding}, so convert it: iconv -f {encoding} -t UTF-8"
    return ""


_MARKS = (
    ("UTF-32", (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),  # one begins like one of UTF-16
    ("UTF-16", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
)

MARK_BYTES = 4
"""The longest mark of an encoding."""


def _opened(file: File) -> AbstractContextManager[BinaryIO]:
    if isinstance(file, os.PathLike):
        return open(file, "rb")
    return nullcontext(file)  # whoever opened the file closes it


def _name_of_file(file: File, default: str) -> str:
    if isinstance(file, os.PathLike):
        return os.fsdecode(file)
    name = getattr(file, "name", default)
    return "standard input" if name == "<stdin>" else str(name)
