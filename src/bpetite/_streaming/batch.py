"""Turn the ids of many streams into text, one step of all at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Unpack, cast

from bpetite._streaming.events import StreamEvent
from bpetite._streaming.options import Ids, StreamOptions, takes_options
from bpetite._streaming.stream import DecodeStream, MakesStreams

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # With a default, `DecodeStreamBatch(tokenizer)` needs no annotation.
    K = TypeVar("K", bound=Hashable, default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K", bound=Hashable)


class DecodeStreamBatchError(ExceptionGroup[Exception]):
    """The errors of some streams in a step of a batch. The other streams made their step.

    `errors` has the error of each stream that raised, by its key. `results` has what the step of
    each other stream returned.
    """

    errors: dict[Any, Exception]
    results: dict[Any, Any]


class DecodeStreamBatch(Generic[K]):
    """Many streams by their keys, with one step for all: `add` makes one, and `finish` ends it.

    The options are as in `Tokenizer.decode_stream`, for all streams. `add` can change them.

    >>> from bpetite import Tokenizer
    >>> streams = DecodeStreamBatch(Tokenizer.train("", 256), stop="!")
    >>> a, b = streams.add("a"), streams.add("b")
    >>> streams.step({"a": 104, "b": [0xC3, 0xA9, 33]})
    {'a': 'h', 'b': 'é'}
    >>> b.stop_reason, streams.finish("a"), list(streams)
    ('!', '', ['b'])
    """

    __slots__ = ("_options", "_streams", "_tokenizer")

    @takes_options
    def __init__(self, tokenizer: MakesStreams, **options: Unpack[StreamOptions]) -> None:
        # Each stream reads its options, so an iterator must become a tuple.
        lists = {name: [*each] for name, each in options.items() if isinstance(each, Iterator)}
        self._options = cast(StreamOptions, options | lists)
        tokenizer.decode_stream(**self._options)  # wrong options raise here, not at the first step
        self._tokenizer = tokenizer
        self._streams: dict[K, DecodeStream] = {}

    def step(self, ids: Mapping[K, Ids]) -> dict[K, str]:
        """Return the text of `DecodeStream.step` for each key.

        Raises KeyError, before any stream makes its step, if a key has no stream. Raises
        DecodeStreamBatchError, which has the results of the other streams, if some streams raise.
        """
        return self._each("step", ids)

    def step_event(self, ids: Mapping[K, Ids]) -> dict[K, StreamEvent]:
        """Return the event of `DecodeStream.step_event` for each key.

        Raises as `step` does.
        """
        return self._each("step_event", ids)

    def _each(self, method: str, ids: Mapping[K, Ids]) -> dict[K, Any]:
        streams = self._streams
        if not ids.keys() <= streams.keys():
            key = next(key for key in ids if key not in streams)
            raise KeyError(
                f"the key {key!r} has no stream, so no stream made this step; make it with add, "
                "or leave out a key that finish has ended"
            )
        results: dict[K, Any] = {}
        errors: dict[K, Exception] = {}
        for key, some in ids.items():
            try:
                if type(some) is list and len(some) == 1:  # a step of a plain id is cheaper
                    (some,) = some
                    if type(some) is not int:
                        some = [some]
                results[key] = getattr(streams[key], method)(some)
            except Exception as error:
                errors[key] = error
        if errors:
            group = DecodeStreamBatchError(
                "some streams could not make their step", [*errors.values()]
            )
            group.errors, group.results = errors, results
            raise group
        return results

    @takes_options
    def add(
        self, key: K, prompt_ids: Sequence[int] = (), **options: Unpack[StreamOptions]
    ) -> DecodeStream:
        """Make the stream of a key. Its prompt and options add to the options of the batch.

        Raises ValueError if the key has a stream, and as `Tokenizer.decode_stream` does.
        """
        if key in self._streams:
            raise ValueError(f"the key {key!r} has a stream already")
        stream = self._tokenizer.decode_stream(prompt_ids, **(self._options | options))
        return self._streams.setdefault(key, stream)

    def finish(self, key: K) -> str:
        """Remove the stream of a key, and return the text of its `flush`; "" for an unknown key.

        Raises as `DecodeStream.flush` does. The stream is removed even so.
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
        return f"<DecodeStreamBatch: {len(self)}>"
