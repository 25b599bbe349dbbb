"""Streams of another library's tokenizer, which is read once for all of them."""

from __future__ import annotations

from collections.abc import Iterable

from bpetite._streaming.foreign import ForeignVocabulary, source_of
from bpetite._streaming.stream import MakesStreams


class StreamVocabulary(MakesStreams):
    r"""The tokens of another library's tokenizer, read once for any number of streams.

    `vocabulary` is a mapping of ids to bytes, with the ids of its special tokens in `special_ids`;
    or a `tiktoken.Encoding`, a `tokenizers.Tokenizer` or a fast tokenizer of transformers, which
    know their own. Later changes to a tokenizer are not seen.

    A stream's steps and `flush()`, joined, are the result of the library's `decode` for the same
    ids, if the vocabulary has them all, and for the same `skip_special_tokens`, if the library has
    that. If a decoder strips a space at the beginning, the stream strips it too, but not after a
    prompt that has text.

    Vocabularies with byte fallback write rare characters as byte tokens (`<0xE4>`). tokenizers
    decodes a run of byte tokens as a whole: if any byte is not UTF-8, each becomes one U+FFFD. So a
    stream buffers a run until another token comes. With `buffer_byte_runs` false, it returns each
    character when it is complete, and treats other bytes as `bytes.decode` does. The same holds if
    `errors` is not "replace".

    >>> vocabulary = StreamVocabulary({0: b"n\xc3", 1: b"\xa9", 2: b"</s>"}, special_ids=[2])
    >>> stream = vocabulary.decode_stream(skip_special_tokens=True)
    >>> [stream.step(id) for id in (0, 2, 1)]
    ['n', '', 'é']

    Raises ValueError, with the reason, for a tokenizer whose text is not the concatenation of its
    tokens' texts (WordPiece, spaces that are cleaned up), for `special_ids` with a library's
    tokenizer, and for a mapping that is empty, has an id below 0 or above 2**32 - 1, or lacks a
    special id. Raises TypeError for any other object.
    """

    __slots__ = ("_token_source",)

    def __init__(
        self,
        vocabulary: ForeignVocabulary,
        special_ids: Iterable[int] = (),
        *,
        buffer_byte_runs: bool = True,
    ) -> None:
        self._token_source = source_of(vocabulary, special_ids, buffer_byte_runs=buffer_byte_runs)

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that `skip_special_tokens` skips."""
        return frozenset(self._token_source.vocabulary.skipped_ids)

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes of one id, as a token that is not the first.

        Raises KeyError for an id that the vocabulary lacks.
        """
        return self._token_source.vocabulary.tokens.bytes_of[id]

    def __len__(self) -> int:
        """The number of ids."""
        return len(self._token_source.vocabulary.tokens.bytes_of)

    def __repr__(self) -> str:
        return f"<StreamVocabulary: {len(self)} ids, {len(self.special_ids)} special>"
