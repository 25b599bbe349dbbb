"""Files that no format here reads: what they are, by their content, and what to do."""

from __future__ import annotations

import re
from typing import NoReturn

from bpetite.formats._files import SourceFile, shown

_TOKENIZER_JSON = "load the tokenizer.json of the same model instead"
_STREAM = (
    "StreamVocabulary decodes by the tokenizer.json of the same model, and nothing here encodes"
)
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
    for beginning, what, advice in _BEGINNINGS:
        if re.match(beginning, file.data, re.DOTALL):
            raise ValueError(f"{file.path}: this is {what}: {advice}")


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
