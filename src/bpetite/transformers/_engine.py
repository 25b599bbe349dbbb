"""Engine: what a `tokenizers.Tokenizer` returns, with the ids, offsets and texts of this package."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any

import tokenizers

from bpetite import Tokenizer
from bpetite._pretokenizer import Pretokenizer
from bpetite._tokenizer import vocabulary_of
from bpetite.formats._files import SourceFile
from bpetite.formats._huggingface_read import read


class Engine:
    """The methods of a library's tokenizer that depend on texts; the library does all others."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        """Read the library's tokenizer as it is now.

        Raises ValueError, with the field, if it cannot be honoured.
        """
        plain = deepcopy(library)
        plain.no_truncation()
        plain.no_padding()
        self._library = library
        self.tokenizer = Tokenizer(read(SourceFile("the tokenizer", plain.to_str().encode())))
        vocabulary = vocabulary_of(self.tokenizer)
        self.frame = [*vocabulary.prefix_ids], [*vocabulary.suffix_ids]
        self._kept = vocabulary.kept_special_tokens
        self._literal_ids = {*vocabulary.special_tokens.values()}
        self._kept_ids = {vocabulary.special_tokens[literal] for literal in self._kept}
        self._moves_text = vocabulary.stages.moves_text
        self._split = Pretokenizer.of(vocabulary).split_exactly

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_library":  # this object is being copied
            raise AttributeError(name)
        return getattr(self._library, name)

    @property
    def encode_special_tokens(self) -> bool:
        """Whether special tokens are ordinary text."""
        return bool(self._library.encode_special_tokens)

    @encode_special_tokens.setter
    def encode_special_tokens(self, value: bool) -> None:
        self._library.encode_special_tokens = value

    # Ids and texts

    def ids(self, texts: Sequence[str], splits_special: bool) -> list[list[int]]:
        """Return the ids of each text, without those that go around it.

        With `splits_special`, special tokens are ordinary text.
        """
        return self.tokenizer.encode_batch(texts, allowed_special=self._allowed(splits_special))

    def _allowed(self, splits_special: bool) -> Any:
        return self._kept if splits_special else "all"

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of ids. The library decides about ids that are unknown or no ids."""
        try:
            return self.tokenizer.decode(
                ids, errors="replace", skip_special_tokens=skip_special_tokens
            )
        except (KeyError, TypeError):
            return str(self._library.decode(ids, skip_special_tokens=skip_special_tokens))

    # Encodings

    def encode_batch(
        self, inputs: Sequence[Any], add_special_tokens: bool = True, is_pretokenized: bool = False
    ) -> list[tokenizers.Encoding]:
        """Return encodings of texts, of pairs, of texts in words, or of pairs of these.

        The library truncates and pads them, and puts special tokens around them.
        """
        try:
            parts = [_parts(each, is_pretokenized) for each in inputs]
            unfinished = [[self._encoding(*each) for each in enumerate(part)] for part in parts]
        except (TypeError, UnicodeEncodeError):
            options = {"add_special_tokens": add_special_tokens, "is_pretokenized": is_pretokenized}
            return list(self._library.encode_batch(inputs, **options))  # which raises its own error
        encodings = [
            self._library.post_process(*each, add_special_tokens=add_special_tokens)
            for each in unfinished
        ]
        padding = self._library.padding
        if padding and padding["length"] is None and encodings:
            longest = max(map(len, encodings))
            names = ("direction", "pad_id", "pad_type_id", "pad_token")
            for each in encodings:
                each.pad(longest, **{name: padding[name] for name in names})
        return encodings

    def _encoding(self, place: int, words: list[str] | str) -> tokenizers.Encoding:
        """Return the encoding of a text, or of words, without what the library adds."""
        rows: list[_Row] = []
        if isinstance(words, str):
            rows += self._rows(words)
        else:
            for number, word in enumerate(words):
                rows += ((id, number, start, end) for id, _, start, end in self._rows(word))
        state: dict[str, Any] = {
            "ids": [id for id, *_ in rows],
            "type_ids": [place] * len(rows),
            "tokens": [self._library.id_to_token(id) for id, *_ in rows],
            "words": [word for _, word, *_ in rows],
            "offsets": [(start, end) for *_, start, end in rows],
            "special_tokens_mask": [0] * len(rows),
            "attention_mask": [1] * len(rows),
            "overflowing": [],
            "sequence_ranges": {},
        }
        encoding = tokenizers.Encoding()
        encoding.__setstate__(json.dumps(state).encode())
        return encoding

    def _rows(self, text: str) -> Iterator[_Row]:
        """Yield each id of a text, the number of its piece, and where it begins and ends."""
        allowed = self._allowed(self.encode_special_tokens)
        ids, starts = self.tokenizer.encode_with_offsets(text, allowed_special=allowed)
        if self._moves_text or self.tokenizer.decode(ids, errors="replace") != text:
            found = self._aligner.encode(text, add_special_tokens=False)
            if found.ids != ids:
                raise ValueError(f"tokenizers has other ids than bpetite for {text[:200]!r}")
            return ((id, word, *at) for id, word, at in zip(ids, found.word_ids, found.offsets))
        begins_inside = self._begins_inside
        ends = [
            start + (id in begins_inside) for id, start in zip(ids[1:], starts[1:], strict=True)
        ]
        bounds = self._bounds(text, ids, starts)
        pieces = (bisect_right(bounds, start) - 1 for start in starts)
        return zip(ids, pieces, starts, [*ends, len(text)], strict=False)

    def _bounds(self, text: str, ids: list[int], starts: list[int]) -> list[int]:
        """Return where the pieces of a text begin; a literal is a piece of its own."""
        literal_ids = self._kept_ids if self.encode_special_tokens else self._literal_ids
        bounds: list[int] = []
        at = 0
        for id, start, end in zip(ids, starts, [*starts[1:], len(text)], strict=True):
            if id in literal_ids:
                bounds += [*self._piece_starts(text, at, start), start]
                at = end
        return [*bounds, *self._piece_starts(text, at, len(text))]

    def _piece_starts(self, text: str, start: int, end: int) -> Iterator[int]:
        for piece in self._split(text[start:end]):
            yield start
            start += len(piece)

    @cached_property
    def _begins_inside(self) -> set[int]:
        """The ids of tokens that begin inside a character."""
        tokens = enumerate(self.tokenizer.tokens)
        return {id for id, token in tokens if token and token[0] & 0xC0 == 0x80}

    @cached_property
    def _aligner(self) -> tokenizers.Tokenizer:
        """The library's tokenizer, without truncation, padding and template."""
        library = deepcopy(self._library)
        library.no_truncation()
        library.no_padding()
        library.post_processor = None
        return library


_Row = tuple[int, int | None, int, int]


def _parts(value: Any, is_pretokenized: bool) -> list[Any]:
    """Return the one or two texts of an input, each a string or a list of words.

    Raises TypeError for a value that is neither.
    """
    kinds = (list, tuple)
    if isinstance(value, kinds if is_pretokenized else str):
        if not is_pretokenized:
            return [value]
        if all(isinstance(word, str) for word in value):
            return [[*value]]
    if isinstance(value, kinds) and len(value) == 2:
        return [part for each in value for part in _parts(each, is_pretokenized)]
    raise TypeError
