"""Turn ids that come one by one into the text that is complete so far."""

from __future__ import annotations

import operator
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, Unpack, cast

from bpetite._engine import TextSteps, core_of_tokens
from bpetite._stream_libraries import Source, tokens_of
from bpetite._stream_options import (
    Ids,
    Options,
    OptionsBesideTokens,
    Position,
    are_several,
    options_in,
    position_in,
    to_state,
)
from bpetite._stream_readers import Held
from bpetite._stream_states import (
    Place,
    Places,
    State,
    States,
    Step,
    join_texts,
    memory_of,
)
from bpetite._vocabulary import TokenTable, as_id

R = TypeVar("R")


class DecodeStreamError(UnicodeDecodeError):
    """Bytes that are not UTF-8, met by a stream with errors="strict".

    `id` is that of the token they came with (None if it was `flush` that met them), `index` the
    number of ids before it in the stream, `text` the valid text before them that no step returned:
    all that was returned, and this, is the text of the stream. `object` is the bytes that were
    held and the token's, `object[start:end]` those that are no character.
    """

    id: int | None = None
    index: int = 0
    text: str = ""

    def __str__(self) -> str:
        where = "at the end" if self.id is None else f"with id {self.id}"
        return f"{super().__str__()} ({where}, after {self.index} ids)"


class TokenText(NamedTuple):
    """A token of a stream, and the text that was returned for it.

    `bytes` are the token's, none for what is skipped; `text` is the characters from `start` to
    `end` of the stream's text. It is "", and its place that of the text to come, for a token whose
    characters, or beginnings of a stop string, wait for others to complete them: those have the
    text. It is "", too, for a special token that is skipped, a stop id, and what a stop removes.
    """

    id: int
    bytes: bytes
    start: int
    end: int
    text: str


class Snapshot:
    """Where a stream is: what `DecodeStream.snapshot` returns and `restore` takes."""

    __slots__ = ("_stream",)

    def __init__(self, stream: DecodeStream) -> None:
        self._stream = stream.copy()


class MakesStreams(Protocol):
    """What has the method `decode_stream`: a Tokenizer, a StreamVocabulary."""

    def decode_stream(self, *args: Any, **options: Any) -> DecodeStream:
        """Return a new stream."""


class DecodeStream(TextSteps):
    """Text from ids as they come: each step returns what became complete with it.

    Made by `Tokenizer.decode_stream`, which tells the options, or for another library's tokenizer
    by `StreamVocabulary.decode_stream`. All steps joined, and `flush()`, are what `decode` returns
    for the same ids with the same arguments, up to the first stop. Nothing is held back but a
    proper prefix of a valid character (at most 3 bytes) and the longest end of the text that is a
    proper prefix of a stop string or a tag; nothing that was returned ever changes. A stream
    belongs to one thread at a time; the tables behind it are shared by all.

    >>> from bpetite import Tokenizer
    >>> stream = Tokenizer.train("", 256).decode_stream()
    >>> [stream.step(id) for id in "é!".encode()]
    ['', 'é', '!']
    >>> stream.step([*"à la".encode()])  # several ids
    'à la'
    """

    # All streams have all of these, and a `_state`; one of text alone uses that and two of them.
    __slots__ = (
        "_armed",
        "_characters",
        "_failed",
        "_options",
        "_place",
        "_places",
        "_rest",
        "_states",
        "_stopped",
        "_switch_at",
        "_texts",
        "_tokens",
    )

    _options: Options
    _states: States
    _characters: int  # that were returned, of a stream that counts

    def __init__(
        self,
        table: TokenTable,
        prompt_ids: Sequence[int] = (),
        *,
        errors: str = "replace",
        unknown: str = "raise",
        stop: str | Iterable[str] = (),
        include_stop: bool = False,
        stop_ids: Ids = (),
        min_tokens: int = 0,
        tags: str | Iterable[str] = (),
    ) -> None:
        if not isinstance(table, TokenTable):
            raise TypeError("a DecodeStream is made by Tokenizer.decode_stream")
        self._options = Options.checked(
            table, errors, unknown, stop, include_stop, stop_ids, min_tokens, tags
        )
        if isinstance(prompt_ids, (str, bytes, bytearray)):
            raise TypeError(
                f"prompt_ids must be a sequence of ids, got {type(prompt_ids).__name__}"
            )
        if self._options.are_for_text_alone:
            make = partial(States, table, errors, core_of_tokens)
            self._states = memory_of(table).shared(errors, make)
            self._state = self._states.fresh(self._states.reader.after(prompt_ids))
        else:
            _begin_counting(self, prompt_ids=prompt_ids)

    @classmethod
    def from_vocabulary(
        cls,
        vocabulary: Source,
        prompt_ids: Sequence[int] = (),
        *,
        special_ids: Iterable[int] = (),
        whole_runs: bool = True,
        skip_special_tokens: bool = False,
        **options: Unpack[OptionsBesideTokens],
    ) -> DecodeStream:
        r"""Return a new stream of another library's tokenizer, or of the bytes of each id.

        It is as a `StreamVocabulary` makes it, which tells what the arguments are; the options are
        those of `Tokenizer.decode_stream`. What is read of a library's tokenizer is kept as long as
        that is, for all its streams, and read again when it has changed. What is made of a mapping
        is not kept: for many streams, make a StreamVocabulary.

        >>> stream = DecodeStream.from_vocabulary({0: b"n\xc3", 1: b"\xa9"})
        >>> stream.step(0), stream.step(1)
        ('n', 'é')

        Raises as `StreamVocabulary` and `Tokenizer.decode_stream` do.
        """
        tokens = tokens_of(vocabulary, special_ids, whole_runs=whole_runs)
        return cls(tokens.table(skip_special_tokens), prompt_ids, **options)

    # Steps

    def step_events(self, ids: Ids) -> list[str]:
        """Return the text that is complete now, cut at the tags: each of them is a `Tag`.

        A `Tag` is a str, so the pieces joined are what `step` returns. A tag is never cut in two.

        >>> from bpetite import Tokenizer
        >>> stream = Tokenizer.train("", 256).decode_stream(tags=["<b>"])
        >>> [stream.step_events(list(ids)) for ids in (b"a <", b"b>c")]
        [['a '], [Tag('<b>'), 'c']]

        Raises as `step` does.
        """
        if type(ids) is int:
            return list(self._advance(ids))
        steps = self._step_each(ids, self._advance, "".join)
        return list(join_texts([piece for pieces in steps for piece in pieces]))

    def step_tokens(self, ids: Ids) -> list[TokenText]:
        """Return, for each id, its bytes and the place of its text in the text of the stream.

        The places are in characters from the beginning of the stream, the prompt's text aside;
        each begins where the one before ends, and `text[start:end]` is what the id returned. So a
        character belongs to the token that completes it, and a beginning of a stop string that
        became none to the token that showed so; nothing that was told changes later.

        >>> from bpetite import Tokenizer
        >>> stream = Tokenizer.train("", 256).decode_stream()
        >>> [(token.start, token.end) for token in stream.step_tokens(list("né".encode()))]
        [(0, 1), (1, 1), (1, 2)]

        Raises as `step` does, and ValueError if steps were made before that were not counted: a
        stream of text alone counts if its first call is `step_tokens`, be it with no ids.
        """
        self._count()
        if type(ids) is int:
            return [self._token_text(ids)]
        return self._step_each(ids, self._token_text, operator.attrgetter("text"))

    def flush(self) -> str:
        """Return what is held, bytes decoded by `errors`; "" if nothing is.

        The stream is then fresh; but one that has stopped remains so. (What was held at a stop id
        is returned, as at any other end; behind a stop string there is nothing.)

        Raises DecodeStreamError if bytes are held and errors="strict", as `step` does.
        """
        return "".join(self.flush_events())

    def flush_events(self) -> list[str]:
        """Return what `flush` returns, cut at the tags, as `step_events` does."""
        held, states = self._state.held, self._states
        self._state = states.fresh(states.reader.start)
        text = states.reader.end(held)
        return [text] if text else []

    def texts(self, ids: Iterable[Ids]) -> Generator[str, None, None]:
        """Yield the text of each step that has some, and what is held at the end.

        `ids` yields an id, or several, at a time. It is read no further than to a stop, and closed,
        if it has a method `close` (a generator has), at a stop, an error and when this iterator is
        closed. With tags, the pieces are those of `step_events`.

        >>> from bpetite import Tokenizer
        >>> stream = Tokenizer.train("", 256).decode_stream(stop="!")
        >>> list(stream.texts("né! no".encode())), stream.stopped
        (['n', 'é'], '!')

        Raises as `step` and `flush` do, and what `ids` raises.
        """
        texts = self._texts_of(iter(ids))
        next(texts)  # into its `try`: to close it closes the source, though no text was asked for
        return texts

    def _texts_of(self, source: Iterator[Ids]) -> Generator[str, None, None]:
        pieces: Sequence[str] = ()
        try:
            yield ""
            if self.stopped is None:
                for some in source:
                    pieces = self._pieces(some)
                    if self.stopped is not None:
                        break  # the source is closed before the last pieces are shown
                    yield from pieces
                    pieces = ()
        finally:
            close = getattr(source, "close", None)
            if close is not None:
                close()
        yield from pieces
        yield from self.flush_events()

    def atexts(self, ids: AsyncIterable[Ids]) -> AsyncGenerator[str, None]:
        """Yield as `texts` does, from an asynchronous source, which is closed by its `aclose`.

        It is closed on cancellation too. Whoever may leave the loop early uses
        `contextlib.aclosing`, as with any asynchronous generator.
        """
        source = aiter(ids)
        return _AsyncTexts(self._atexts_of(source), source)

    async def _atexts_of(self, source: AsyncIterator[Ids]) -> AsyncGenerator[str, None]:
        pieces: Sequence[str] = ()
        try:
            if self.stopped is None:
                async for some in source:
                    pieces = self._pieces(some)
                    if self.stopped is not None:
                        break
                    for piece in pieces:
                        yield piece
                    pieces = ()
        finally:
            await _aclose(source)
        for piece in (*pieces, *self.flush_events()):
            yield piece

    def _pieces(self, ids: Ids) -> Sequence[str]:
        if self._options.tags:
            return self.step_events(ids)
        text = self.step(ids)
        return (text,) if text else ()

    # Stops

    @property
    def stopped(self) -> str | int | None:
        """The stop string or stop id that ended the stream; None before."""
        return None

    @property
    def rest(self) -> str:
        """The complete text behind the stop string, in the token that ended it; "" before."""
        return ""

    def arm(self) -> None:
        """Look for stop strings again, from the first character that was not returned."""

    def disarm(self) -> None:
        """Look for no stop strings, and hold back no text for them, until `arm()` or `reset()`.

        What is held for one now comes with the next step. Stop ids and tags are not touched.
        """

    @property
    def armed(self) -> bool:
        """Whether stop strings are looked for; False if there are none."""
        return False

    # State

    @property
    def pending(self) -> bytes:
        """The bytes that are held: the beginning of a character, 0 to 3 bytes.

        (Or, of a vocabulary whose runs of byte tokens are one text, the run: `StreamVocabulary`.)
        """
        return self._states.reader.pending(self._state.held)

    @property
    def held(self) -> str:
        """The complete text that is held: the beginning of a stop string or of a tag."""
        return ""

    def reset(self) -> None:
        """Forget what is held, a stop and a failure: the stream is as new, without a prompt."""
        self._state = self._states.fresh(self._states.reader.start)

    def copy(self) -> DecodeStream:
        """Return a stream that goes on from here by itself; its cost does not depend on history."""
        other = DecodeStream.__new__(DecodeStream)
        other._become(self)
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> DecodeStream:
        return self.copy()

    def snapshot(self) -> Snapshot:
        """Return where the stream is, to `restore` it: for tokens that may be taken back.

        It costs the same at any length, and serves any number of times.
        """
        return Snapshot(self)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back, or on, to where a stream was when it made the snapshot.

        That may be another stream of the same vocabulary, with other options: of a failed strict
        one, a snapshot from before goes on in one that replaces. This stream's options stay.

        Raises TypeError for what is no snapshot, and ValueError for that of a stream that did not
        count its tokens if this one does.
        """
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"snapshot must be a Snapshot, got {type(snapshot).__name__}")
        other = snapshot._stream
        if other._options is self._options:
            self._become(other)
        else:
            self._go_to(other._position())

    def to_state(self) -> dict[str, Any]:
        """Return the options and where the stream is, for `from_state`: a small JSON value.

        At most 300 bytes as JSON, beside the text that is held, or is `rest`, and the stop strings,
        stop ids and tags that were given. It has nothing of the vocabulary.

        >>> from bpetite import Tokenizer
        >>> stream = Tokenizer.train("", 256).decode_stream(stop="END")
        >>> stream.step([*b"The EN"])
        'The '
        >>> stream.to_state()
        {'version': 1, 'stop': ['END'], 'held': 'EN', 'tokens': 6, 'characters': 4}
        """
        return to_state(self._options, self._position())

    @classmethod
    def from_state(cls, tokenizer: MakesStreams, state: Mapping[str, Any]) -> DecodeStream:
        """Return a stream that goes on where another was at `to_state`, here or elsewhere.

        The tokenizer must have the same vocabulary.

        Raises ValueError, TypeError or KeyError for what `to_state` does not return.
        """
        return _from_state(tokenizer.decode_stream, state)

    def __reduce__(self) -> tuple[object, ...]:
        # The vocabulary goes along, but once for all streams that are pickled together.
        return _unpickled, (self._options.table, self.to_state())

    def __repr__(self) -> str:
        return f"<DecodeStream errors={self._options.errors!r} {self._shown()}>"

    def _shown(self) -> str:
        return f"pending={self.pending!r}"

    # Inside: what the other kind of stream does otherwise

    def _step_slowly(self, ids: object) -> str:
        if type(ids) is list:
            text = self._step_known(ids)
            if text is not None:
                return text
        if are_several(ids):
            return "".join(self._step_each(ids, self.step, str))
        return self._step_new(as_id(ids))

    def _step_new(self, id: int) -> str:
        """Make a step that is not known yet."""
        if self._options.skips(id):
            self._state = self._states.holding(self._state.held)
            return ""
        text, self._state = self._state[id]
        return text

    def _advance(self, id: int) -> tuple[str, ...]:
        """Make a step; return its text in pieces."""
        text = self.step(id)
        return (text,) if text else ()

    def _step_each(
        self, ids: object, step: Callable[[int], R], text_of: Callable[[R], str]
    ) -> list[R]:
        """Return what each step returns; if one fails for its id, none was made."""
        several: list[Any] = list(ids) if are_several(ids) else [ids]
        if len(several) == 1:
            return [step(as_id(several[0]))]
        before = self.copy()
        results: list[R] = []
        try:
            results.extend(step(id if type(id) is int else as_id(id)) for id in several)
        except DecodeStreamError as error:
            error.text = "".join(map(text_of, results)) + error.text
            raise
        except BaseException:
            self._become(before)
            raise
        return results

    def _token_text(self, id: int) -> TokenText:
        start = self._characters
        text = self.step(id)
        token = self._options.table.bytes_of.get(id, b"")
        return TokenText(id, token, start, self._characters, text)

    def _count(self) -> None:
        """Count tokens and characters from here on, if here is the beginning."""
        if not self._state.fresh:
            raise ValueError(
                "this stream has made steps that it did not count; let its first call be "
                "step_tokens, or step_tokens([])"
            )
        _begin_counting(self, self._state.held)

    def _become(self, other: DecodeStream) -> None:
        """Go where another stream with the same options is."""
        if isinstance(other, _CountingStream):
            self.__class__ = _CountingStream
            self._become(other)
            return
        self._options, self._states, self._state = other._options, other._states, other._state

    def _position(self) -> Position:
        held, reader = self._state.held, self._states.reader
        tokens = 0 if self._state.fresh else None
        return Position(reader.pending(held), reader.mark(held), tokens=tokens)

    def _go_to(self, position: Position) -> None:
        held = self._states.reader.held(position.pending, position.mark)
        if position.tokens is not None and (position.tokens or position.stopped or position.failed):
            _begin_counting(self, b"")
            self._go_to(position)
            return
        fresh = position.tokens is not None
        self._state = (self._states.fresh if fresh else self._states.holding)(held)


class _CountingStream(DecodeStream):
    """A stream that counts, and looks for stops and tags: what one of text alone does not pay for.

    A step of a whole token, too, is one look-up: in what its place knows of the id.
    """

    __slots__ = ()

    _places: Places
    _place: Place
    _texts: Sequence[str | None]
    _tokens: int  # ids so far
    _switch_at: int  # the number of tokens from which on stops end the stream
    _stopped: str | int | None
    _rest: str
    _failed: bool
    _armed: bool

    def step(self, ids: Ids) -> str:
        try:
            if type(ids) is int and ids >= 0:
                place = self._place
                if place.whole[ids]:
                    text: str = self._texts[ids]  # type: ignore[assignment]
                else:
                    move = place.moves.get(ids)
                    if move is None:
                        return self._step_new(ids)
                    text, self._place, _ = move
                self._characters += len(text)
                self._tokens = tokens = self._tokens + 1
                if tokens == self._switch_at:
                    self._switch(self._tokens)
                return text
        except LookupError:
            pass  # an id beyond the list
        return self._step_slowly(ids)

    def _step_known(self, ids: list[Any]) -> str | None:
        tokens = self._tokens + len(ids)
        if self._tokens <= self._switch_at <= tokens:
            return None
        place, texts_of = self._place, self._texts
        texts = []
        try:
            for id in ids:
                if type(id) is not int or id < 0:
                    return None
                if place.whole[id]:
                    text: str = texts_of[id]  # type: ignore[assignment]
                else:
                    text, place, _ = place.moves[id]
                texts.append(text)
        except LookupError:
            return None
        joined = "".join(texts)
        self._place, self._tokens = place, tokens
        self._characters += len(joined)
        return joined

    def _step_new(self, id: int) -> str:
        move = None if id in self._options.stop_ids else self._places.move(self._place, id)
        if move is None:
            return "".join(self._advance(id))
        text, self._place, _ = move
        self._passed(len(text))
        return text

    def _advance(self, id: int) -> tuple[str, ...]:
        if self._stopped is not None:
            return ()
        self._refuse_if_failed()
        place = self._place
        is_stop = id in self._options.stop_ids
        move = None if is_stop else self._places.move(place, id)
        if move is not None:
            _, self._place, pieces = move
        elif is_stop:
            if self._tokens >= self._options.min_tokens:
                self._place = Place(place.held, place.node, released=place.released)
                self._stopped = id
            pieces = ()
        elif self._options.skips(id):
            pieces = self._settle(self._places.scan(place, "", place.held))
        else:
            token = self._options.table.bytes_of[id]
            try:
                step = self._places.step(place, id, token)
            except UnicodeDecodeError as error:
                step = self._before(error, id)
            pieces = self._settle(step)
        self._passed(sum(map(len, pieces)))
        return pieces

    def _passed(self, characters: int) -> None:
        """Count a token, and the characters that were returned for it."""
        self._characters += characters
        self._tokens += 1
        if self._tokens == self._switch_at and self._stopped is None:
            self._switch(self._tokens)

    def _settle(self, step: Step) -> tuple[str, ...]:
        """Go where a step leads; return its text in pieces."""
        self._place = step.place
        if step.stop is None:
            return step.pieces
        self._stopped, self._rest = step.stop, step.rest
        return join_texts((*step.pieces, step.stop)) if self._options.include_stop else step.pieces

    def _before(self, error: UnicodeDecodeError, id: int | None) -> Step:
        """Return the step to a stop in the valid text before some bytes; raise if there is none."""
        good = error.object[: error.start].decode("utf-8")
        step = self._places.scan(self._place, good)
        if step.stop is not None:
            return step
        failure = DecodeStreamError(*error.args)
        failure.id, failure.index = id, self._tokens
        failure.text = "".join(step.pieces) + step.place.text
        self._place = Place(self._place.held, self._places.matcher.root)
        self._failed = True
        raise failure from None

    def _refuse_if_failed(self) -> None:
        if self._failed:
            raise ValueError(
                "this stream met bytes that are not UTF-8 at an earlier step; "
                "reset() or restore() makes it usable again"
            )

    def flush_events(self) -> list[str]:
        self._refuse_if_failed()
        if isinstance(self._stopped, str):
            return []
        if self._tokens == self._switch_at and self._stopped is None:
            self._switch(self._tokens - 1)  # what is held came with tokens whose stops do not count
        try:
            text = self._places.reader.end(self._place.held)
            step = self._places.scan(self._place, text)
        except UnicodeDecodeError as error:
            step = self._before(error, None)
        pieces = self._settle(step)
        if step.stop is None:
            pieces = join_texts((*pieces, step.place.text))
            if self._stopped is None:
                self.reset()
            else:
                self._place = Place(b"", self._places.matcher.root)
        return list(pieces)

    @property
    def stopped(self) -> str | int | None:
        return self._stopped

    @property
    def rest(self) -> str:
        return self._rest

    def arm(self) -> None:
        self._set_armed(True)

    def disarm(self) -> None:
        self._set_armed(False)

    @property
    def armed(self) -> bool:
        return bool(self._options.stop) and self._armed

    def _set_armed(self, armed: bool) -> None:
        if armed != self._armed:
            self._armed = armed
            if self._options.stop and self._stopped is None and not self._failed:
                self._switch(self._tokens)

    def _switch(self, tokens: int) -> None:
        """Go on with the matcher that is due after so many, from the text that was not returned."""
        self._places = self._options.places(self._armed, tokens)
        self._place = self._places.at(self._place.held, self._place.text)

    @property
    def pending(self) -> bytes:
        return self._places.reader.pending(self._place.held)

    @property
    def held(self) -> str:
        return self._place.text

    def reset(self) -> None:
        _begin_counting(self)

    def copy(self) -> DecodeStream:
        other = DecodeStream.__new__(_CountingStream)
        other._become(self)
        return other

    __copy__ = copy

    def _shown(self) -> str:
        if self._failed:
            return "failed"
        if self._stopped is not None:
            return f"stopped={self._stopped!r}"
        held = f" held={self.held!r}" if self.held else ""
        return f"pending={self.pending!r}{held}"

    def _count(self) -> None:
        pass

    def _become(self, other: DecodeStream) -> None:
        if not isinstance(other, _CountingStream):
            self.__class__ = DecodeStream  # type: ignore[assignment]
            DecodeStream._become(self, other)
            return
        self._options, self._state = other._options, other._state
        self._places, self._place, self._texts = other._places, other._place, other._texts
        self._tokens, self._characters = other._tokens, other._characters
        self._switch_at, self._armed = other._switch_at, other._armed
        self._stopped, self._rest, self._failed = other._stopped, other._rest, other._failed

    def _position(self) -> Position:
        return Position(
            self.pending,
            self._places.reader.mark(self._place.held),
            self.held,
            self._tokens,
            self._characters,
            self._stopped,
            self._rest,
            self._failed,
            self._armed,
        )

    def _go_to(self, position: Position) -> None:
        if position.tokens is None:
            raise ValueError("tokens are not counted in that stream, and are in this one")
        places = self._options.places(position.armed, position.tokens)
        held = places.reader.held(position.pending, position.mark)
        self._tokens, self._characters = position.tokens, position.characters
        self._stopped, self._rest, self._failed = position.stopped, position.rest, position.failed
        self._armed = position.armed
        self._places = places
        self._place = places.at(held, position.held)
        if self._stopped is not None or self._failed:
            self._place = Place(held, self._place.node, released=self._place.released)


class _AsyncTexts(AsyncGenerator[str, None]):
    """Texts whose source is closed with them, though none was asked for.

    A generator that was not begun has nothing to leave, so its `aclose` would not do that.
    """

    __slots__ = ("_begun", "_source", "_texts")

    def __init__(self, texts: AsyncGenerator[str, None], source: AsyncIterator[Ids]) -> None:
        self._texts = texts
        self._source = source
        self._begun = False

    def __anext__(self) -> Awaitable[str]:  # type: ignore[override] # no more is promised
        self._begun = True
        return self._texts.__anext__()

    async def asend(self, value: None) -> str:  # noqa: ARG002
        return await self.__anext__()

    async def athrow(self, *error: Any) -> str:
        return await self._texts.athrow(*error)

    async def aclose(self) -> None:
        await self._texts.aclose()
        if not self._begun:
            self._begun = True
            await _aclose(self._source)


async def _aclose(source: object) -> None:
    aclose = getattr(source, "aclose", None)
    if aclose is not None:
        await aclose()


# A step of a stream of text alone finds nothing here, and asks the stream's own way to step.
_NOTHING_KNOWN = State(b"", [], cast(States, None))


def _begin_counting(
    stream: DecodeStream, held: Held = None, prompt_ids: Sequence[int] = ()
) -> None:
    """Make a stream one that counts, at its beginning: with what is held, or behind a prompt."""
    stream.__class__ = _CountingStream
    assert isinstance(stream, _CountingStream)
    options = stream._options
    stream._state = _NOTHING_KNOWN
    stream._places = options.places(True, 0)
    reader = stream._places.reader
    stream._place = stream._places.at(reader.after(prompt_ids) if held is None else held)
    stream._texts = stream._places.text_of
    stream._tokens = stream._characters = 0
    stream._switch_at = options.min_tokens or -1
    stream._stopped = None
    stream._rest = ""
    stream._failed = False
    stream._armed = True


def _from_state(make: Callable[..., DecodeStream], state: Mapping[str, Any]) -> DecodeStream:
    stream = make(**options_in(state))
    stream._go_to(position_in(state, stream._options))
    return stream


def _unpickled(table: TokenTable, state: dict[str, Any]) -> DecodeStream:
    state.pop("skip_special_tokens", None)  # the table does
    return _from_state(partial(DecodeStream, table), state)
