"""Streams of another library's tokenizer, which is read once for all of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Sequence
from typing import Unpack

from bpetite._stream import DecodeStream
from bpetite._stream_libraries import Source, tokens_of
from bpetite._stream_options import Ids, OptionsBesideTokens, StreamOptions


class StreamVocabulary:
    r"""What streams need to know of a tokenizer that is not of this package: made once, for all.

    `vocabulary` is a mapping of ids to bytes, with the ids of its special tokens in `special_ids`;
    a `tiktoken.Encoding`, a `tokenizers.Tokenizer` or a fast tokenizer of transformers, which know
    their own. Of these it is a picture: what is changed in them later is not seen.

    A stream's steps joined, and `flush()`, are then what the library's `decode` returns for the
    same ids (in tokenizers and transformers, with the same `skip_special_tokens`), all of which
    are in the vocabulary: a space that a decoder strips at the beginning is stripped there, but not
    behind a prompt that has text.

    Where characters that a vocabulary lacks are byte tokens (`<0xE4>`), tokenizers decodes a run of
    them as a whole: if any of its bytes is not UTF-8, each is one U+FFFD. So a stream waits with a
    run until another token comes. With `whole_runs` false it returns each character when it is
    complete, which is as right for all that is UTF-8; the rest is then replaced as `bytes.decode`
    does it. It is so too with `errors` other than "replace".

    >>> vocabulary = StreamVocabulary({0: b"n\xc3", 1: b"\xa9", 2: b"</s>"}, special_ids=[2])
    >>> stream = vocabulary.decode_stream(skip_special_tokens=True)
    >>> [stream.step(id) for id in (0, 2, 1)]
    ['n', '', 'é']

    Raises ValueError, saying why, for a tokenizer whose text is not its tokens' one after the other
    (WordPiece, spaces that are cleaned up), for `special_ids` given with a library's tokenizer, and
    for a mapping that is empty, has an id below 0 or above 2**32 - 1, or lacks a special id;
    TypeError for another object.
    """

    __slots__ = ("_tokens",)

    def __init__(
        self, vocabulary: Source, special_ids: Iterable[int] = (), *, whole_runs: bool = True
    ) -> None:
        self._tokens = tokens_of(vocabulary, special_ids, whole_runs=whole_runs)

    def decode_stream(
        self,
        prompt_ids: Sequence[int] = (),
        *,
        skip_special_tokens: bool = False,
        **options: Unpack[OptionsBesideTokens],
    ) -> DecodeStream:
        """Return a new stream; the arguments are those of `Tokenizer.decode_stream`.

        >>> StreamVocabulary({7: b"a"}).decode_stream(stop="!").step([7, 7])
        'aa'
        """
        return DecodeStream(self._tokens.table(skip_special_tokens), prompt_ids, **options)

    def stream(
        self,
        ids: Iterable[Ids],
        prompt_ids: Sequence[int] = (),
        **options: Unpack[StreamOptions],
    ) -> Generator[str, None, None]:
        """Yield the text of ids as they come, as `Tokenizer.stream` does.

        >>> list(StreamVocabulary({7: b"a"}).stream([7, 7]))
        ['a', 'a']
        """
        return self.decode_stream(prompt_ids, **options).texts(ids)

    def astream(
        self,
        ids: AsyncIterable[Ids],
        prompt_ids: Sequence[int] = (),
        **options: Unpack[StreamOptions],
    ) -> AsyncGenerator[str, None]:
        """Yield the text of ids as they come from an asynchronous source, as `stream` does."""
        return self.decode_stream(prompt_ids, **options).atexts(ids)

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that `skip_special_tokens` skips."""
        return self._tokens.special_ids

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes of one id, where it is not the first.

        Raises KeyError for an id that the vocabulary lacks.
        """
        return self._tokens.tokens.bytes_of[id]

    def __len__(self) -> int:
        """The number of ids."""
        return len(self._tokens.bytes_of)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (self._tokens,)

    def __repr__(self) -> str:
        return f"<StreamVocabulary: {len(self)} ids, {len(self.special_ids)} special>"


def _unpickled(tokens: object) -> StreamVocabulary:
    vocabulary = StreamVocabulary.__new__(StreamVocabulary)
    vocabulary._tokens = tokens  # type: ignore[assignment]
    return vocabulary
