"""Turn ids that come one by one into the text that is complete so far."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from bpetite._vocabulary import TokenTable, as_id

ERRORS = ("strict", "replace", "ignore", "backslashreplace")
"""What may be done with bytes that are not UTF-8; the names and results of `bytes.decode`."""

# The proper prefixes of a valid character, at the end of some bytes (The Unicode Standard,
# table 3-7, "Well-Formed UTF-8 Byte Sequences"). E0 80 or ED A0 begin no character, so they are
# no such prefix: what cannot be completed is not waited for.
_UNFINISHED = re.compile(
    rb"""(?: [\xC2-\xDF]
           | \xE0                  [\xA0-\xBF]?
           | [\xE1-\xEC\xEE\xEF]   [\x80-\xBF]?
           | \xED                  [\x80-\x9F]?
           | \xF0                  (?: [\x90-\xBF] [\x80-\xBF]? )?
           | [\xF1-\xF3]           [\x80-\xBF]{0,2}
           | \xF4                  (?: [\x80-\x8F] [\x80-\xBF]? )?
         ) \Z""",
    re.VERBOSE,
)

# Steps inside characters that are remembered, some 4 MB; then they are found out anew.
_MOVES = 1 << 14


def unfinished(data: bytes) -> bytes:
    r"""Return the bytes at the end of `data` that may still become a character: 0 to 3 bytes.

    >>> unfinished("a🙂".encode()[:-1]), unfinished(b"\xed\xa0")
    (b'\xf0\x9f\x99', b'')
    """
    match = _UNFINISHED.search(data, max(0, len(data) - 3))
    return match.group() if match else b""


def check_errors(errors: object) -> None:
    """Raise TypeError or ValueError unless `errors` is one of ERRORS."""
    if not isinstance(errors, str):
        raise TypeError(f"errors must be a str, got {type(errors).__name__}")
    if errors not in ERRORS:
        raise ValueError(f"errors must be one of {', '.join(ERRORS)}, got {errors!r}")


class DecodeStream:
    """Text from ids as they come: each step returns what became complete with it.

    Made by `Tokenizer.decode_stream`. All steps joined, and `flush()`, are what `decode` returns
    for the same ids with the same arguments; nothing is held back but a proper prefix of a valid
    character (at most 3 bytes), and nothing that was returned ever changes. A stream belongs to
    one thread at a time; the tables behind it are shared by all.

    >>> from bpetite import Tokenizer
    >>> stream = Tokenizer.train("", 256).decode_stream()
    >>> [stream.step(id) for id in "é!".encode()]
    ['', 'é', '!']
    """

    __slots__ = ("_state", "_states")

    _state: _State
    _states: _States

    def __init__(
        self, table: TokenTable, prompt_ids: Sequence[int] = (), *, errors: str = "replace"
    ) -> None:
        if not isinstance(table, TokenTable):
            raise TypeError("a DecodeStream is made by Tokenizer.decode_stream")
        check_errors(errors)
        states = table.stream_states.get(errors)
        if states is None:
            states = table.stream_states.setdefault(errors, _States(table, errors))
        self._states = states
        self._state = self._states.holding(_held_after(prompt_ids, table))

    def step(self, id: int) -> str:
        """Return the text that is complete now and was not before; "" if there is none.

        Raises KeyError for an id that the vocabulary lacks and TypeError for one that is not an
        integer: the stream is then as it was. With errors="strict", raises UnicodeDecodeError at
        the first byte that cannot be part of a character, counted from the first byte that was
        held; the stream then raises ValueError until `reset()`.
        """
        # Most tokens are whole text and find nothing held: one look-up, and no bytes touched.
        try:
            if type(id) is int and id >= 0:
                state = self._state
                text = state.ready[id]
                if text is not None:
                    return text
                text, self._state = state.moves[id]
                return text
        except LookupError:
            pass  # an id beyond the list, or a move that is not known yet
        text, self._state = self._find_move(as_id(id))
        return text

    def _find_move(self, id: int) -> tuple[str, _State]:
        self._refuse_if_failed()
        held, states = self._state.held, self._states
        data = held + states.bytes_of[id]
        now_held = unfinished(data)
        move = self._decode(data, len(data) - len(now_held)), states.holding(now_held)
        states.remember(held, id, move)
        return move

    def flush(self) -> str:
        """Return what is held, decoded by `errors`; "" if nothing is. The stream is then fresh.

        Raises UnicodeDecodeError if something is held and errors="strict", as `step` does.
        """
        self._refuse_if_failed()
        text = self._decode(self._state.held, len(self._state.held))
        self.reset()
        return text

    def reset(self) -> None:
        """Forget what is held, and a failure: the stream is as new, without a prompt."""
        self._state = self._states.holding(b"")

    def copy(self) -> DecodeStream:
        """Return a stream that goes on from here by itself; its cost does not depend on history."""
        other = DecodeStream.__new__(DecodeStream)
        other._states, other._state = self._states, self._state
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> DecodeStream:
        return self.copy()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a DecodeStream is not pickled, since its vocabulary would be too; make one over "
            "there, with the ids so far as its prompt_ids"
        )

    @property
    def pending(self) -> bytes:
        """The bytes that are held: the beginning of a character, 0 to 3 bytes."""
        return self._state.held

    def __repr__(self) -> str:
        state = "failed" if self._state.failed else f"pending={self.pending!r}"
        return f"<DecodeStream errors={self._states.errors!r} {state}>"

    def _decode(self, data: bytes, end: int) -> str:
        try:
            return data[:end].decode("utf-8", self._states.errors)
        except UnicodeDecodeError:
            self._state = _State(self._state.held, failed=True)
        # All of the data has the same first error, and the reason may lie behind `end`.
        return data.decode("utf-8")

    def _refuse_if_failed(self) -> None:
        if self._state.failed:
            raise ValueError(
                "this stream met bytes that are not UTF-8 at an earlier step; "
                "reset() makes it usable again"
            )


class _State:
    """What a stream can be in: the bytes that it holds, and where each id leads from there.

    `ready` has the texts of the ids that lead nowhere else, which there are if nothing is held;
    `moves` those of the other ids, with the state after them, as far as streams found them out.
    """

    __slots__ = ("failed", "held", "moves", "ready")

    def __init__(
        self, held: bytes, ready: Sequence[str | None] = (), *, failed: bool = False
    ) -> None:
        self.held = held
        self.ready = ready
        self.moves: dict[int, tuple[str, _State]] = {}
        self.failed = failed


class _States:
    """The states of all streams over one table with the same `errors`, made as they are met."""

    def __init__(self, table: TokenTable, errors: str) -> None:
        self.bytes_of = table.bytes_of
        self.errors = errors
        self._state_of = {b"": _State(b"", table.text_of)}
        self._nothing_ready = [None] * len(table.text_of)  # while something is held
        self._move_count = 0

    def holding(self, held: bytes) -> _State:
        """Return the state of a stream that holds these bytes."""
        state = self._state_of.get(held)
        return state or self._state_of.setdefault(held, _State(held, self._nothing_ready))

    def remember(self, held: bytes, id: int, move: tuple[str, _State]) -> None:
        """Keep where an id leads from these bytes; forget all such when they are too many."""
        if self._move_count >= _MOVES:
            self._move_count = 0
            for state in list(self._state_of.values()):
                state.moves.clear()
        self._move_count += 1
        self.holding(held).moves[id] = move


def _held_after(prompt_ids: Sequence[int], table: TokenTable) -> bytes:
    """Return what is held after a prompt: only its last bytes matter, so only they are read."""
    if isinstance(prompt_ids, (str, bytes, bytearray)):
        raise TypeError(f"prompt_ids must be a sequence of ids, got {type(prompt_ids).__name__}")
    end = b""
    for id in reversed(prompt_ids):
        end = table.bytes_of[as_id(id)] + end
        if len(end) >= 3:
            break
    return unfinished(end)
