"""The public vocabularies: their names, their files, and tiktoken's own reading of those files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

if TYPE_CHECKING:
    import tiktoken

PUBLIC = {
    "GPT-2": ("gpt2", "gpt2_vocab.json"),  # and gpt2_merges.txt
    "cl100k": ("cl100k_base", "cl100k_base.tiktoken"),
    "o200k": ("o200k_base", "o200k_base.tiktoken"),
}
"""The public vocabularies: the name that tiktoken has for each, and the file."""


def public_encoding(name: str, data: Path) -> tiktoken.Encoding:
    """Return tiktoken's own Encoding of a public vocabulary, of the files in a folder.

    Pattern and special tokens are tiktoken's too. Raises ValueError for a file that is not the one
    which it would fetch.
    """
    import tiktoken.load

    def read(address: str, expected_hash: str) -> bytes:
        file = address.rpartition("/")[2]
        if file == "vocab.bpe":
            content = (data / "gpt2_merges.txt").read_bytes()
            if not content.startswith(b"#version"):  # it drops the first line, whatever it says
                content = b"#version: 0.2\n" + content
        else:
            content = (data / file.replace("encoder.json", "gpt2_vocab.json")).read_bytes()
        if not tiktoken.load.check_hash(content, expected_hash):
            raise ValueError(f"{data}: what tiktoken calls {file} is not the public file")
        return content

    with mock.patch("tiktoken.load.read_file_cached", read):
        return tiktoken.get_encoding(name)
