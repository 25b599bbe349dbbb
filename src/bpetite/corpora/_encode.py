"""The ids of any number of documents, in blocks, so that memory does not grow with them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from bpetite import Tokenizer, _arguments
from bpetite._arguments import Dtype, Specials, Text, TextErrors
from bpetite._corpus import Batches, DocumentRun, corpus_of, document_runs
from bpetite._tokenizer import encode_rest, splitter_of

# The size of a block of texts, and the room that a document takes in memory without its text, so
# that a block of empty documents has an end too.
_BLOCK_BYTES = 1 << 20
_DOCUMENT_BYTES = 64

_NO_DOCUMENTS = array("Q", [0])


class Block(NamedTuple):
    """The ids of neighboring documents: document i has `ids[offsets[i] : offsets[i + 1]]`."""

    ids: memoryview
    """Four bytes each, or two. In a block of a folder, a view of its file if one file has them."""
    offsets: memoryview
    """One more than documents; the first is 0. They have eight bytes each, and four in a block of a
    folder, as attention kernels take them: `cu_seqlens`."""
    is_complete: bool = True
    """Whether the last document ends here. If not, the next block of `encode` continues it. A block
    of a folder does not say: its first and its last document may be cut."""


def encode(
    tokenizer: Tokenizer,
    documents: Iterable[Text] | Batches,
    *,
    dtype: Dtype = "uint32",
    begin: str | int | None = None,
    end: str | int | None = None,
    allowed_special: Specials = (),
    errors: TextErrors = "strict",
    threads: int | None = 1,
) -> Iterator[Block]:
    """Yield the ids of documents in blocks of up to about 1 MB of text, in bounded memory.

    `documents` is a `Corpus`, another object with a method `batches`, or an iterable of texts. A
    long document of a corpus comes in parts, so a text file of one document may be larger than
    memory. It stays whole if only `regex` can follow the pattern, or if the vocabulary normalizes
    text otherwise than to form C, unless it has byte fallback.

    `begin` and `end` go before and after each document. Each is a special literal or an id.
    Special literals in the documents are ordinary text, unless `allowed_special` has them. `dtype`,
    `errors` and `threads` are as in `Tokenizer.encode`; a corpus has an `errors` of its own.

    >>> tokenizer = Tokenizer.train("ab ab ab", 258)
    >>> for block in encode(tokenizer, ["ab ab", b"ab"], end="<|endoftext|>"):
    ...     print(block.ids.tolist(), block.offsets.tolist(), block.is_complete)
    [256, 257, 258, 256, 258] [0, 3, 5] True

    Raises the errors of `Tokenizer.encode_buffer`, of the corpus, and UnicodeError for a bad text,
    with a note that has its number. Raises TypeError for other documents.
    """
    options: dict[str, Any] = {
        "dtype": dtype, "allowed_special": allowed_special, "threads": threads
    }  # fmt: skip
    # A generator would check the arguments at its first step only.
    tokenizer.encode_buffer(b"", _NO_DOCUMENTS, begin=begin, end=end, **options)
    return _blocks(tokenizer, _runs(tokenizer, documents, errors), begin, end, options)


def count(
    tokenizer: Tokenizer,
    documents: Iterable[Text] | Batches,
    *,
    allowed_special: Specials = (),
    errors: TextErrors = "strict",
) -> int:
    r"""Return the number of ids of all documents, in bounded memory.

    The arguments are as in `encode`, and the result is the length of all its ids.

    >>> count(Tokenizer.train("ab ab ab", 258), ["ab ab", "ab"])
    3

    Raises the errors of `encode`.
    """
    blocks = encode(tokenizer, documents, allowed_special=allowed_special, errors=errors)
    return sum(len(block.ids) for block in blocks)


def _blocks(
    tokenizer: Tokenizer,
    runs: Iterator[DocumentRun],
    begin: str | int | None,
    end: str | int | None,
    options: dict[str, Any],
) -> Iterator[Block]:
    is_open = False  # whether a part of a document came before
    for data, offsets, is_end in runs:
        data = data.toreadonly()  # work on a buffer that may change keeps the GIL
        last = end if is_end else None
        if offsets is None and is_open:
            block = encode_rest(tokenizer, data, last, **options)
        else:
            offsets = memoryview(array("Q", (0, len(data)))) if offsets is None else offsets
            block = tokenizer.encode_buffer(data, offsets, begin=begin, end=last, **options)
        is_open = not is_end
        yield Block(*block, is_end)


def _runs(
    tokenizer: Tokenizer, documents: Iterable[Text] | Batches, errors: TextErrors
) -> Iterator[DocumentRun]:
    """Return documents in runs. A document may come in parts, whose ids are its ids."""
    replaces = _arguments.check_text_errors(errors)
    if isinstance(documents, Batches):
        corpus_of(documents, _arguments.replaced if replaces else None)  # refuses `errors`
        return _split_again(document_runs(documents), splitter_of(tokenizer).last_split)
    _arguments.check_iterable(documents, "documents", "texts")
    return _runs_of_texts(documents, replaces)


def _split_again(
    runs: Iterator[DocumentRun], last_split: Callable[[bytearray, int], int]
) -> Iterator[DocumentRun]:
    """Yield the runs of documents, with other parts: each ends where its text may be split."""
    unfinished = bytearray()
    for run in runs:
        if run.offsets is not None:
            yield run
            continue
        searched = len(unfinished)
        unfinished += run.data
        end = len(unfinished) if run.is_end else last_split(unfinished, searched)
        if end or run.is_end:
            with memoryview(unfinished) as view:
                data = bytes(view[:end])
            del unfinished[:end]
            yield DocumentRun(memoryview(data), None, run.is_end)


def _runs_of_texts(texts: Iterable[Text], replaces: bool) -> Iterator[DocumentRun]:
    waiting: list[bytes] = []
    offsets = array("Q", [0])
    for number, text in enumerate(texts):
        try:
            data = _utf8(_arguments.replaced(text) if replaces else text)
        except (TypeError, UnicodeError) as error:
            error.add_note(f"in document {number}")
            raise
        waiting.append(data)
        offsets.append(offsets[-1] + len(data))
        if offsets[-1] + _DOCUMENT_BYTES * len(waiting) >= _BLOCK_BYTES:
            yield DocumentRun(memoryview(b"".join(waiting)), memoryview(offsets))
            waiting, offsets = [], array("Q", [0])
    if waiting:
        yield DocumentRun(memoryview(b"".join(waiting)), memoryview(offsets))


def _utf8(text: Text) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8")
    data = _arguments.as_bytes(text)
    str(data, "utf-8")
    return data
