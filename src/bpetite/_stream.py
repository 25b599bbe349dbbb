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

_NOTHING: dict[int, str] = {}

# Steps inside a character that are remembered, some 4 MB; then they are found out anew.
_KNOWN_STEPS = 1 << 14


def unfinished(data: bytes) -> bytes:
    r"""Return the bytes at the end of `data` that may still become a character: 0 to 3 bytes.

    >>> unfinished("a🙂".encode()[:-1]), unfinished(b"\xed\xa0")
    (b'\xf0\x9f\x99', b'')
    """
    match = _UNFINISHED.search(data, max(0, len(data) - 3))
    return match.group() if match else b""


def check_errors(errors: object) -> None:
    """Raise ValueError unless `errors` is one of ERRORS."""
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

    __slots__ = ("_errors", "_failed", "_held", "_ready", "_table")

    def __init__(
        self, table: TokenTable, prompt_ids: Sequence[int] = (), *, errors: str = "replace"
    ) -> None:
        check_errors(errors)
        self._table = table
        self._errors = errors
        self._failed = False
        self._hold(_held_after(prompt_ids, table))

    def step(self, id: int) -> str:
        """Return the text that is complete now and was not before; "" if there is none.

        Raises KeyError for an id that the vocabulary lacks and TypeError for one that is not an
        integer: the stream is then as it was. With errors="strict", raises UnicodeDecodeError at
        the first byte that cannot be part of a character, its position counted from `pending`;
        the stream then raises ValueError until `reset()`.
        """
        if type(id) is not int:
            id = as_id(id)
        # Most tokens are whole text and find nothing held: one look-up, and no bytes touched.
        text = self._ready.get(id)
        return self._step_bytes(id) if text is None else text

    def _step_bytes(self, id: int) -> str:
        if self._failed:
            self._refuse()
        known_steps = self._table.known_steps
        key = (self._held, id, self._errors)
        step = known_steps.get(key)
        if step is None:
            data = self._held + self._table.bytes_of[id]
            held = unfinished(data)
            step = self._decode(data, len(data) - len(held)), held
            if len(known_steps) >= _KNOWN_STEPS:
                known_steps.clear()
            known_steps[key] = step
        text, held = step
        self._hold(held)
        return text

    def flush(self) -> str:
        """Return what is held, decoded by `errors`; "" if nothing is. The stream is then fresh.

        Raises UnicodeDecodeError if something is held and errors="strict", as `step` does.
        """
        if self._failed:
            self._refuse()
        text = self._decode(self._held, len(self._held))
        self._hold(b"")
        return text

    def reset(self) -> None:
        """Forget what is held, and a failure: the stream is as new, without a prompt."""
        self._failed = False
        self._hold(b"")

    def copy(self) -> DecodeStream:
        """Return a stream that goes on from here by itself; its cost does not depend on history."""
        other = DecodeStream(self._table, errors=self._errors)
        other._failed = self._failed
        other._hold(self._held)
        return other

    __copy__ = copy

    @property
    def pending(self) -> bytes:
        """The bytes that are held: the beginning of a character, 0 to 3 bytes."""
        return self._held

    def __repr__(self) -> str:
        state = "failed" if self._failed else f"pending={self._held!r}"
        return f"<DecodeStream errors={self._errors!r} {state}>"

    def _hold(self, held: bytes) -> None:
        self._held = held
        # While bytes are held, or after a failure, no token is text by itself.
        self._ready = _NOTHING if held or self._failed else self._table.text_of

    def _decode(self, data: bytes, end: int) -> str:
        try:
            return data[:end].decode("utf-8", self._errors)
        except UnicodeDecodeError:
            self._failed = True
            self._hold(self._held)
        # All of the data has the same first error, and the reason may lie behind `end`.
        return data.decode("utf-8")

    def _refuse(self) -> NoReturn:
        raise ValueError(
            "this stream met bytes that are not UTF-8 at an earlier step; "
            "reset() makes it usable again"
        )


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
