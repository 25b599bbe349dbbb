"""Turn the ids of many streams, a step of all at a time, into text."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, Unpack

from bpetite._stream import DecodeStream, MakesStreams
from bpetite._stream_options import Ids, StreamOptions

K = TypeVar("K", bound=Hashable)


class DecodeStreamsError(ExceptionGroup[Exception]):
    """Errors of some streams in a step of many; the others made theirs.

    `errors` has the error of each stream that has one, by its key, and `texts` what the step
    returns for the others.
    """

    errors: dict[Any, Exception]
    texts: dict[Any, str]


class DecodeStreams(Generic[K]):
    """Many streams by their keys, each made when its key first comes.

    The options are those of `Tokenizer.decode_stream`, for all that are not made by `add`.

    >>> from bpetite import Tokenizer
    >>> streams = DecodeStreams(Tokenizer.train("", 256), stop="!")
    >>> streams.step({"a": 104, "b": [0xC3, 0xA9, 33]})
    {'a': 'h', 'b': 'é'}
    >>> streams["b"].stopped, streams.finish("a"), list(streams)
    ('!', '', ['b'])
    """

    __slots__ = ("_options", "_streams", "_tokenizer")

    def __init__(self, tokenizer: MakesStreams, **options: Unpack[StreamOptions]) -> None:
        tokenizer.decode_stream(**options)  # wrong options are told here, not at the first step
        self._tokenizer = tokenizer
        self._options = options
        self._streams: dict[K, DecodeStream] = {}

    def step(self, ids: Mapping[K, Ids]) -> dict[K, str]:
        """Return the text that is complete now for each key, as `DecodeStream.step` does.

        Raises DecodeStreamsError if there are errors; it has the texts of the other streams.
        """
        stream_of = self._streams.get
        texts: dict[K, str] = {}
        errors: dict[K, Exception] = {}
        for key, some in ids.items():
            try:
                if type(some) is list and len(some) == 1:  # a step of one id is cheaper
                    (some,) = some
                    if type(some) is not int:
                        some = [some]
                texts[key] = (stream_of(key) or self.add(key)).step(some)
            except Exception as error:
                errors[key] = error
        if errors:
            group = DecodeStreamsError("some streams could not make their step", [*errors.values()])
            group.errors, group.texts = errors, texts
            raise group
        return texts

    def add(
        self, key: K, prompt_ids: Sequence[int] = (), **options: Unpack[StreamOptions]
    ) -> DecodeStream:
        """Make the stream of a key: behind a prompt, or with other options, added to the common.

        Raises ValueError if there is one with that key, and as `Tokenizer.decode_stream` does.
        """
        if key in self._streams:
            raise ValueError(f"there is a stream with the key {key!r}")
        stream = self._tokenizer.decode_stream(prompt_ids, **{**self._options, **options})
        return self._streams.setdefault(key, stream)

    def finish(self, key: K) -> str:
        """Return what the stream of a key holds, and forget the stream; "" if there is none.

        Raises as `DecodeStream.flush` does; the stream is forgotten even so.
        """
        stream = self._streams.pop(key, None)
        return "" if stream is None else stream.flush()

    def __getitem__(self, key: K) -> DecodeStream:
        return self._streams[key]

    def __contains__(self, key: object) -> bool:
        return key in self._streams

    def __iter__(self) -> Iterator[K]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    def __repr__(self) -> str:
        return f"<DecodeStreams: {len(self)}>"
