"""Files that no format here reads: what they are, by their content, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NoReturn

from bpetite.formats._files import SourceFile, shown

_TOKENIZER_JSON = "load the tokenizer.json of the same model instead"
_STREAM = (
    "StreamVocabulary decodes by the tokenizer.json of the same model, and nothing here encodes"
)
_SENTENCEPIECE = rb"\n[\x05-\x7f]\n.[^\n]+?\x15.{4}"
_FOLDER = "load its folder, which has the vocabulary too"

# How a file begins, what it is, and what to do.
_BEGINNINGS = (
    (rb"\x1f\x8b", "compressed by gzip", "decompress it first"),
    (rb"\x28\xb5\x2f\xfd", "compressed by zstd", "decompress it first"),
    (rb"PK\x03\x04", "a ZIP archive", "take the vocabulary out of it first"),
    (
        rb"GGUF[\x01-\x0f]\0\0\0",
        "a GGUF file",
        "load the tokenizer.json of the model that it was made from",
    ),
    (
        rb"\d{1,9} b?(?:'[^\n]*'|\"[^\n]*\") \d{1,9}\r?\n",
        "the trie of RWKV",
        "nothing here encodes by it, since the longest token wins and no merges are applied",
    ),
    (
        rb".{0,20000}?\[UNK\]\r?\n\[CLS\]\r?\n\[SEP\]\r?\n",
        "a vocabulary of WordPiece",
        "nothing here encodes by it, since it is another algorithm than BPE",
    ),
    (rb"#version", "the merges of GPT-2's two files", "load the vocab.json beside it"),
    (rb'\{"format": "bpetite piece counts"', "piece counts", "train on PieceCounts.load of it"),
    (rb"version https://git-lfs", "Git LFS's note of a file", "fetch the file by git lfs pull"),
)

# Some keys of a JSON object, what it is, and what to do.
_KEYS = (
    ({"model_type"}, "the configuration of a model", _FOLDER),
    ({"tokenizer_class"}, "the settings of a model folder", _FOLDER),
    ({"added_tokens_decoder"}, "the settings of a model folder", _FOLDER),
    ({"eos_token"}, "the settings of a model folder", _FOLDER),
)


def check_beginning(file: SourceFile) -> None:
    """Raise ValueError for a file that begins as one of another kind does."""
    if re.match(_SENTENCEPIECE, file.data, re.DOTALL):
        kind = _SENTENCEPIECE_TYPES.get(_sentencepiece_type(file.data), "")
        raise ValueError(f"{file.path}: this is a SentencePiece model{kind}: {_STREAM}")
    for beginning, what, advice in _BEGINNINGS:
        if re.match(beginning, file.data, re.DOTALL):
            raise ValueError(f"{file.path}: this is {what}: {advice}")


_SENTENCEPIECE_TYPES = {
    1: " of type unigram",
    2: " of type BPE",
    3: " of words",
    4: " of characters",
}
_TRAINER_SPEC, _MODEL_TYPE = 2, 3


def _sentencepiece_type(data: bytes) -> int:
    """Return the number of a SentencePiece model's algorithm, 0 if the file does not say."""
    with suppress(IndexError):
        for field, value in _fields(data):
            if field == _TRAINER_SPEC and isinstance(value, bytes):
                # Without the field, it is the first type.
                found = (each for number, each in _fields(value) if number == _MODEL_TYPE)
                kind = next(found, 1)
                return kind if isinstance(kind, int) else 0
    return 0


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the numbers and values of the fields in a message of Protocol Buffers.

    >>> [*_fields(bytes([0x08, 0x96, 0x01, 0x12, 1, 97]))]
    [(1, 150), (2, b'a')]

    Raises IndexError if the message ends too early.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: int | bytes
        if tag & 7 == 0:
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if tag & 7 == 2 else ({1: 8, 5: 4}.get(tag & 7, 0), at)
            value = data[at : at + size]
            at += size
        yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of at most ten bytes, and where it ends."""
    value = 0
    for place in range(10):
        value |= (data[at + place] & 0x7F) << (7 * place)
        if data[at + place] < 0x80:
            return value, at + place + 1
    raise IndexError


def refuse_object(file: SourceFile) -> NoReturn:
    """Raise the ValueError for a JSON object that is a file of no format."""
    keys = file.document.keys()
    for known, what, advice in _KEYS:
        if known <= keys:
            raise ValueError(f"{file.path}: this is {what}: {advice}")
    raise ValueError(
        f"{file.path}: no vocabulary: expected a tokenizer.json, a vocab.json, a .tiktoken file or "
        f"a file of bpetite, got JSON with the keys {shown([*keys])}"
    )
