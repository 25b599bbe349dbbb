"""The public vocabularies: their names, their files, and tiktoken's Encodings of them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

if TYPE_CHECKING:
    import tiktoken

    from bpetite import Tokenizer

PUBLIC = {
    "GPT-2": ("gpt2", "gpt2_vocab.json"),  # and gpt2_merges.txt
    "cl100k": ("cl100k_base", "cl100k_base.tiktoken"),
    "o200k": ("o200k_base", "o200k_base.tiktoken"),
}
"""The public vocabularies: tiktoken's name and the file of each."""


def public_file(file: str, data: Path) -> bytes:
    """Make the content of a file that tiktoken would download from the files in a folder."""
    if file == "vocab.bpe":
        content = (data / "gpt2_merges.txt").read_bytes()
        # tiktoken drops the first line.
        return content if content.startswith(b"#version") else b"#version: 0.2\n" + content
    return (data / file.replace("encoder.json", "gpt2_vocab.json")).read_bytes()


def public_encoding(name: str, data: Path) -> tiktoken.Encoding:
    """Return tiktoken's own Encoding of a public vocabulary, made from the files in a folder.

    Raises ValueError if a file differs from the download of tiktoken.
    """
    import tiktoken.load

    def read(address: str, expected_hash: str) -> bytes:
        file = address.rpartition("/")[2]
        content = public_file(file, data)
        if not tiktoken.load.check_hash(content, expected_hash):
            raise ValueError(f"{data}: {file} is not the public file")
        return content

    with mock.patch("tiktoken.load.read_file_cached", read):
        return tiktoken.get_encoding(name)


def saved_encoding(tokenizer: Tokenizer, folder: Path) -> tiktoken.Encoding:
    """Return a tiktoken Encoding of the .tiktoken file that bpetite writes.

    Raises ValueError if tiktoken cannot represent the vocabulary.
    """
    import tiktoken

    path = folder / "saved.tiktoken"
    tokenizer.save(path, overwrite=True)
    lines = map(bytes.split, path.read_bytes().splitlines())
    return tiktoken.Encoding(
        "saved",
        pat_str=tokenizer.patterns[0],
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
        special_tokens=dict(tokenizer.special_tokens),
    )
