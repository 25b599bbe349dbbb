"""`load_tiktoken_bpe`, which other programs import from tiktoken."""

from __future__ import annotations

import hashlib
from pathlib import Path

from bpetite.formats._files import SourceFile, file_in_folder
from bpetite.formats._tiktoken import ranks_of_lines
from bpetite.formats._tiktoken_names import cache_folder


def load_tiktoken_bpe(tiktoken_bpe_file: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """Return the rank of each token in a file: a path, or an address that tiktoken has in cache.

    Raises FileNotFoundError for an address that is not in the cache, since nothing is downloaded.
    Raises ValueError if `expected_hash` is not the SHA-256 of the content, and for a line that is
    not a token in base64 and its rank.
    """
    path = Path(tiktoken_bpe_file)
    file = SourceFile(path)
    if "://" in tiktoken_bpe_file:
        path = cache_folder() / hashlib.sha1(tiktoken_bpe_file.encode()).hexdigest()
        if not path.exists():
            raise FileNotFoundError(f"{path}: {tiktoken_bpe_file} is not in the cache")
        file = file_in_folder(path)
    if expected_hash and hashlib.sha256(file.data).hexdigest() != expected_hash:
        raise ValueError(f"{path}: the SHA-256 is not {expected_hash}; remove the file")
    return ranks_of_lines(file)
