"""Files that no format here reads: the content tells what they are, and the error what to do."""

from __future__ import annotations

import re
from typing import NoReturn

from bpetite.formats._files import SourceFile, shown

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
        "bpetite cannot encode by it, since its longest token wins and it applies no merges",
    ),
    (
        rb".{0,20000}?\[UNK\]\r?\n\[CLS\]\r?\n\[SEP\]\r?\n",
        "a vocabulary of WordPiece",
        "bpetite cannot encode by it, since its algorithm is not BPE",
    ),
    (rb"#version", "the merges of GPT-2's two files", "load the vocab.json next to it"),
    (rb'\{"format": "bpetite piece counts"', "piece counts", "train on PieceCounts.load of it"),
    (rb"version https://git-lfs", "Git LFS's note of a file", "fetch the file by git lfs pull"),
)

# What a JSON object with one of these keys is.
_KINDS = {
    "model_type": "the configuration of a model",
    **dict.fromkeys(
        ("tokenizer_class", "added_tokens_decoder", "eos_token"), "the settings of a model folder"
    ),
}


def check_beginning(file: SourceFile) -> None:
    """Raise ValueError for a file that begins like another kind of file."""
    for beginning, what, advice in _BEGINNINGS:
        if re.match(beginning, file.data, re.DOTALL):
            raise ValueError(f"{file.path}: this is {what}: {advice}")


def refuse_object(file: SourceFile) -> NoReturn:
    """Raise the ValueError for a JSON object that has none of our formats."""
    keys = file.document.keys()
    for key, what in _KINDS.items():
        if key in keys:
            raise ValueError(
                f"{file.path}: this is {what}: load its folder, which has the vocabulary too"
            )
    raise ValueError(
        f"{file.path}: no vocabulary: expected a tokenizer.json, tekken.json, vocab.json, "
        f"tokenizer.model, .tiktoken file or file of bpetite, got JSON with the keys "
        f"{shown([*keys])}"
    )
