"""Turn ids that come one by one into the text that is complete so far."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any, Literal, Protocol, Unpack

from bpetite._arguments import ids_of
from bpetite._streaming import iterate
from bpetite._streaming.events import StreamEvent, event_of_known, flush_event, step_event
from bpetite._streaming.mode import Mode
from bpetite._streaming.options import Ids, Options, StreamOptions, takes_options
from bpetite._streaming.plain import Plain
from bpetite._streaming.state import Position, check_vocabulary, options_in, position_in, to_state
from bpetite._streaming.tables import TokenSource
from bpetite._streaming.watching import Watching, join_texts


class Step(Protocol):
    """The type of `DecodeStream.step`."""

    def __call__(self, ids: Ids) -> str:
        """Return the text that is complete now and was not before, or "".

        `ids` is an id or several. Several ids are as many steps, whose texts are joined.

        Raises KeyError for an id that the vocabulary lacks, if unknown="raise", and TypeError for a
        value that is no integer. The stream is then as it was, before all of several ids. With
        errors="strict", raises DecodeStreamError, a UnicodeDecodeError, at the first byte that
        cannot be part of a character. The stream then raises ValueError until `reset()`. When the
        stream has ended, every step returns "" and changes nothing.
        """


class DecodeStream:
    """Text from ids as they come: each step returns the text that became complete with it.

    `Tokenizer.decode_stream` makes a stream and documents the options. For another library's
    tokenizer, `StreamVocabulary.decode_stream` does. All steps and `flush()`, joined, are the
    result of `decode` for the same ids and arguments, up to the first stop. A stream keeps back
    only a proper prefix of a valid character (at most 3 bytes), and the longest end of the text
    that is a proper prefix of a stop string or a tag. Returned text never changes. A stream belongs
    to one thread at a time, but streams of one vocabulary share its tables.

    >>> from bpetite import Tokenizer
    >>> stream = Tokenizer.train("", 256).decode_stream()
    >>> [stream.step(id) for id in "é!".encode()]
    ['', 'é', '!']
    >>> stream.step([*"à la".encode()])  # several ids
    'à la'
    """

    # `step` is the mode's own method, so that a step is one call.
    __slots__ = {"_mode": None, "_source": None, "step": Step.__call__.__doc__}

    _mode: Mode
    _source: TokenSource
    step: Step

    def __init__(
        self, source: TokenSource, prompt_ids: Sequence[int] = (), **options: Unpack[StreamOptions]
    ) -> None:
        if not isinstance(source, TokenSource):
            raise TypeError("a DecodeStream is made by Tokenizer.decode_stream")
        checked = Options.checked(source, options)
        if isinstance(prompt_ids, (str, bytes, bytearray)):
            raise TypeError(
                f"prompt_ids must be a sequence of ids, got {type(prompt_ids).__name__}"
            )
        if not isinstance(prompt_ids, (Sequence, Iterator)):
            prompt_ids = ids_of(prompt_ids, "prompt_ids")
        self._source = source
        make = Plain if checked.are_plain else Watching
        self._enter(make(source.table(checked.skip_special_tokens), checked, prompt_ids))

    def _enter(self, mode: Mode) -> None:
        self._mode = mode
        self.step = mode.step

    # Steps

    def step_event(self, ids: Ids) -> StreamEvent:
        """Make the step, and return all that it did: tags, each token's place, and the end.

        Text is in pieces, in which each tag is a `Tag` of its own, never split. Offsets are in
        characters from the beginning of the stream, without the prompt's text. Each token begins
        where the one before ends, and `text[start:end]` is what the id returned. So a character
        belongs to the token that completes it. Withheld text belongs to the token that ruled the
        stop string out. Returned offsets never change.

        The event of the step that ends the stream has a `finish_reason`, and the text of `flush`.
        If the model ends first, call `flush_event`.

        >>> from bpetite import Tokenizer
        >>> stream = Tokenizer.train("", 256).decode_stream(tags="<b>", max_tokens=6)
        >>> event = stream.step_event(list("é <b".encode()))
        >>> event.text, [(token.start, token.end) for token in event.tokens]
        ('é ', [(0, 0), (0, 1), (1, 2), (2, 2), (2, 2)])
        >>> event = stream.step_event(list(b">!"))
        >>> event.pieces, event.ids_read, event.finish_reason
        ((Tag('<b>'),), 6, 'length')

        Raises as `step` does, and ValueError if earlier steps were not counted. A stream without
        options counts only if its first call is `step_event`; `step_event([])` is enough.
        """
        event = event_of_known(self._mode, ids)
        return step_event(self._counting(), ids) if event is None else event

    def flush_event(self) -> StreamEvent:
        """Return the last event, for ids that end before the stream does: the text of `flush`.

        Its `finish_reason` is "length". If the stream has ended already, the event repeats its
        `finish_reason`, without text.
        """
        return flush_event(self._counting())

    def _counting(self) -> Watching:
        mode = self._mode
        if not isinstance(mode, Watching):
            assert isinstance(mode, Plain)
            mode = self._leave(mode, mode.counting())
        return mode

    def _leave(self, mode: Plain, successor: Watching) -> Watching:
        step, retired = successor.step, mode._automaton.retired
        # The retired state knows no text, so the old mode passes its steps on to its successor.
        # Both are set without a call in between, since an interrupt could come at a call.
        mode._state, mode._successor = retired, successor
        self._mode, self.step = successor, step
        return successor

    def flush(self) -> str:
        """Return the text of pending bytes, decoded by `errors`, and withheld text.

        The stream then begins a new text, unless it has ended. After a stop id and after
        `max_tokens` ids, `flush` returns pending and withheld text; after a stop string, "".

        Raises DecodeStreamError if bytes are pending and errors="strict", as `step` does.
        """
        return "".join(self._mode.flush_pieces())

    def texts(self, ids: Iterable[Ids]) -> Generator[str, None, None]:
        """Yield the text of each step that has some, and of `flush` at the end.

        `ids` yields an id, or several, at a time. It is read only up to the stream's end. If it has
        a method `close`, as a generator has, it is closed at the end, at an error and when this
        iterator is closed. Each tag is yielded by itself, as a `Tag`.

        >>> from bpetite import Tokenizer
        >>> stream = Tokenizer.train("", 256).decode_stream(stop="!")
        >>> list(stream.texts("né! no".encode())), stream.stop_reason
        (['n', 'é'], '!')

        Raises as `step` and `flush` do, and what `ids` raises.
        """
        return iterate.results(self._text_steps(), ids)

    def atexts(self, ids: AsyncIterable[Ids]) -> AsyncGenerator[str, None]:
        """Yield as `texts` does, from an asynchronous source, which is closed by its `aclose`.

        The source is closed on cancellation too. If your loop may end early, use
        `contextlib.aclosing`, as with any asynchronous generator.
        """
        return iterate.aresults(self._text_steps(), ids)

    def _text_steps(self) -> iterate.Steps[str]:
        mode = self._mode
        has_tags = bool(mode.options.tags)
        step = (lambda ids: join_texts(mode.pieces(ids))) if has_tags else self.step
        can_end = not isinstance(mode, Plain)
        return iterate.Steps(mode, step, lambda _: self._mode.flush_pieces(), has_tags, can_end)

    def events(self, ids: Iterable[Ids]) -> Generator[StreamEvent, None, None]:
        """Yield the `step_event` of each item of `ids`, and a `flush_event` if they end first.

        Only the last event has a `finish_reason`. The events have the same text as `texts` yields,
        and `ids` is read and closed in the same way.

        >>> from bpetite import Tokenizer
        >>> stream = Tokenizer.train("", 256).decode_stream(stop="!")
        >>> [(event.text, event.finish_reason) for event in stream.events("né! no".encode())]
        [('n', None), ('', None), ('é', None), ('', 'stop')]

        Raises as `texts` does, and ValueError if earlier steps were not counted, as `step_event`
        does.
        """
        return iterate.results(self._event_steps(), ids)

    def aevents(self, ids: AsyncIterable[Ids]) -> AsyncGenerator[StreamEvent, None]:
        """Yield as `events` does, from an asynchronous source, which is closed as by `atexts`."""
        return iterate.aresults(self._event_steps(), ids)

    def _event_steps(self) -> iterate.Steps[StreamEvent]:
        mode = self._counting()
        step = partial(step_event, mode)
        return iterate.Steps(mode, step, lambda ended: () if ended else (flush_event(mode),))

    # Stops

    @property
    def finish_reason(self) -> Literal["stop", "length"] | None:
        """Why the stream ended: "stop" or, after `max_tokens` ids, "length"; None before.

        A stream that has ended reads no more ids.
        """
        return self._mode.finish_reason

    @property
    def stop_reason(self) -> str | int | None:
        """The stop string or stop id that ended the stream, or None."""
        return self._mode.stop_reason

    @property
    def text_after_stop(self) -> str:
        """The complete text after the stop string, in the token that ended it; "" before a stop."""
        return self._mode.text_after_stop

    def pause_stops(self) -> None:
        """Ignore stop strings, and withhold no text for them, until `resume_stops()` or `reset()`.

        Text that is withheld for one comes with the next step. Stop ids and tags are not affected.
        """
        self._mode.set_stops_paused(True)

    def resume_stops(self) -> None:
        """Look for stop strings again, from the first character that was not returned."""
        self._mode.set_stops_paused(False)

    @property
    def stops_paused(self) -> bool:
        """Whether stop strings are paused; False if there are none."""
        return self._mode.stops_paused

    # Position

    @property
    def pending(self) -> bytes:
        """The bytes that wait for the rest of their character: 0 to 3 bytes.

        (For a vocabulary with byte fallback, the bytes of the whole run: see `StreamVocabulary`.)
        """
        return self._mode.pending

    @property
    def withheld(self) -> str:
        """The complete text that is withheld: the beginning of a stop string or of a tag."""
        return self._mode.withheld

    def reset(self) -> None:
        """Make this a new stream without a prompt, with the same options."""
        self._mode.reset()

    def copy(self) -> DecodeStream:
        """Return a stream that continues from here on its own. It costs as much as a step.

        To take back tokens later, make a copy before them, and continue with it.
        """
        other = DecodeStream.__new__(DecodeStream)
        other._source = self._source
        other._enter(self._mode.copy())
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> DecodeStream:
        return self.copy()

    def _go_to(self, position: Position) -> None:
        mode = self._mode
        if position.stop_reason not in (None, *mode.options.stop, *mode.options.stop_ids):
            stop = position.stop_reason
            raise ValueError(
                f"state['stop_reason'] is {stop!r}, which this stream does not stop at"
            )
        if isinstance(mode, Plain) and (position.tokens or position.failed):
            watching = Watching(mode.table, mode.options)
            watching.go_to(position)
            self._leave(mode, watching)
        else:
            mode.go_to(position)

    def to_state(self) -> dict[str, Any]:
        """Return the options and the position, for `from_state`: a small JSON value.

        As JSON it has at most 300 bytes, plus `withheld` or `text_after_stop` and the given stop
        strings, stop ids and tags. It has a short hash of the vocabulary.

        >>> from bpetite import Tokenizer
        >>> stream = Tokenizer.train("", 256).decode_stream(stop="END")
        >>> stream.step([*b"The EN"])
        'The '
        >>> state = stream.to_state()
        >>> del state["vocabulary"]
        >>> state
        {'version': 1, 'stop': ['END'], 'withheld': 'EN', 'tokens': 6, 'characters': 4}
        """
        mode = self._mode
        return to_state(mode.options, mode.position(), mode.table.fingerprint)

    @classmethod
    def from_state(cls, tokenizer: MakesStreams, state: Mapping[str, Any]) -> DecodeStream:
        """Return a stream that continues where another was at `to_state`, here or elsewhere.

        Raises ValueError for the state of another vocabulary, and ValueError, TypeError or KeyError
        for a value that `to_state` does not return.
        """
        stream = tokenizer.decode_stream(**options_in(state))
        check_vocabulary(state, stream._mode.table)
        stream._go_to(position_in(state))
        return stream

    def __reduce__(self) -> tuple[object, ...]:
        # The vocabulary is pickled too, but once for all streams that are pickled together.
        return _unpickled, (self._source, to_state(self._mode.options, self._mode.position()))

    def __repr__(self) -> str:
        shown = f"pending={self.pending!r}"
        if self._mode.failed:
            shown = "failed"
        elif self.stop_reason is not None:
            shown = f"stop_reason={self.stop_reason!r}"
        elif self.finish_reason is not None:
            shown = f"finish_reason={self.finish_reason!r}"
        elif self.withheld:
            shown += f" withheld={self.withheld!r}"
        return f"<DecodeStream errors={self._mode.options.errors!r} {shown}>"


class MakesStreams:
    """A Tokenizer or a StreamVocabulary: its streams, and iterators over their texts."""

    __slots__ = ()

    _token_source: TokenSource

    @takes_options
    def decode_stream(
        self, prompt_ids: Sequence[int] = (), **options: Unpack[StreamOptions]
    ) -> DecodeStream:
        """Return a `DecodeStream`, which turns ids that come one by one into text.

        The text of `prompt_ids` is never returned, except for a character that begins in the prompt
        and ends after it. The length of the prompt costs nothing.

        >>> from bpetite import Tokenizer
        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> stream = tokenizer.decode_stream(stop="END")
        >>> [stream.step(id) for id in b"an END, or not"][:6], stream.stop_reason
        (['a', 'n', ' ', '', '', ''], 'END')

        Options:

        Raises KeyError and TypeError for the last ids of the prompt, as `decode` does. Raises
        ValueError for a wrong option, TypeError for one of a wrong type.
        """
        return DecodeStream(self._token_source, prompt_ids, **options)

    @takes_options
    def stream(
        self, ids: Iterable[Ids], prompt_ids: Sequence[int] = (), **options: Unpack[StreamOptions]
    ) -> Generator[str, None, None]:
        """Yield the text of ids as they come: `DecodeStream.texts` of a new stream.

        The options are as in `decode_stream`. `ids` is read only up to a stop. If it is a
        generator, it is closed at a stop, at an error, and when this iterator is closed. For more
        than text, such as `stop_reason` at the end, make the stream and call its `events`.

        >>> from bpetite import Tokenizer
        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> list(tokenizer.stream([256, 195, 169, 33, 256], stop="!"))
        ['ab', 'é']
        """
        return self.decode_stream(prompt_ids, **options).texts(ids)

    @takes_options
    def astream(
        self,
        ids: AsyncIterable[Ids],
        prompt_ids: Sequence[int] = (),
        **options: Unpack[StreamOptions],
    ) -> AsyncGenerator[str, None]:
        """Yield the text of ids as they come from an asynchronous source, as `stream` does.

        The source is closed on cancellation too. If your loop may end early,
        `contextlib.aclosing` closes both at once. For more than text, call `DecodeStream.aevents`.
        """
        return self.decode_stream(prompt_ids, **options).atexts(ids)


def _unpickled(source: TokenSource, state: dict[str, Any]) -> DecodeStream:
    stream = DecodeStream(source, **options_in(state))
    stream._go_to(position_in(state))
    return stream
