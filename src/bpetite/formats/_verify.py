"""Hold a tokenizer against the library that is home to the file it came from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bpetite.formats._home import IncomparableError, first_difference
from bpetite.formats._registry import AnyPath, read

if TYPE_CHECKING:
    from bpetite._tokenizer import Tokenizer


class Verifier:
    """Compares the ids of a tokenizer with those that another library gives for the same file.

    `path` is the file (or folder) in any of FORMATS. `home_library` is its name, None
    for our own format, which has no other.
    """

    def __init__(self, tokenizer: Tokenizer, path: AnyPath, format: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._path = os.fsdecode(path)
        source = read(path, format, tokenizer.pattern, tokenizer.special_tokens, given=False)
        self._home = source.home
        self.home_library = None if source.home is None else source.home.name

    def difference(self, text: str) -> str | None:
        """Return where the ids of `text` first differ, and how; None if they are equal.

        Raises ImportError if the library is not installed, ValueError if it does not read the
        file or fails on the text.
        """
        if self._home is None:
            return None
        try:
            theirs = self._home.encode(text)
        except IncomparableError as error:
            raise ValueError(f"{self._path}: {error}") from None
        ours = self._tokenizer.encode(text)
        return first_difference(
            text,
            ("bpetite", ours, self._tokenizer.token_bytes),
            (self._home.name, theirs, self._tokenizer.token_bytes),
        )
