"""How the bytes of tokens become text: what each token completes, and what is held for the next."""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from bpetite._vocabulary import TokenTable, as_id

Held = Hashable
"""What a reader holds. b"" is nothing, once the text has begun; nothing else is false, or None."""

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

# ED A0 to ED BF begin no character, but `utf_8_decode` waits for a third byte.
_HELD_TOO_LONG = b"\xed\xa0"

_REPLACEMENT = "\ufffd"

# The bytes of a run that are in one piece. Longer ones are linked, so that a step costs the same
# however long the run is.
_PIECE = 64

# A run of one character is common, so the steps in it are remembered; a longer one hardly recurs.
_SHORT = 4


def unfinished(data: bytes) -> bytes:
    r"""Return the bytes at the end of `data` that may still become a character: 0 to 3 bytes.

    >>> unfinished("a🙂".encode()[:-1]), unfinished(b"\xed\xa0")
    (b'\xf0\x9f\x99', b'')
    """
    match = _UNFINISHED.search(data, max(0, len(data) - 3))
    return match.group() if match else b""


class Reader(Protocol):
    """Makes text of tokens; all it needs to know of those before is what it held after them."""

    start: Held  # before any token

    def after(self, prompt_ids: Sequence[int]) -> Held:
        """Return what is held after a prompt."""

    def read(self, held: Any, id: int, token: bytes) -> tuple[str, Held]:
        """Return the text that a token completes, and what is held then.

        Raises UnicodeDecodeError for bytes that are not UTF-8, if they are refused.
        """

    def end(self, held: Any) -> str:
        """Return the text of what is held at the end; raises as `read` does."""

    def is_common(self, held: Any) -> bool:
        """Return whether many streams will hold this, so that it is worth to be remembered."""

    def pending(self, held: Any) -> bytes:
        """Return the bytes that are held."""

    def mark(self, held: Any) -> str:
        """Return what more there is to what is held, in a few words; mostly none."""

    def held(self, pending: bytes, mark: str) -> Held:
        """Return what is held by its bytes and its mark; ValueError if nothing is held so."""


class Utf8:
    """Tokens are bytes, wherever they are cut; `errors` is for those that are not UTF-8.

    What is held is the beginning of a character: 0 to 3 bytes.
    """

    start: Held = b""

    def __init__(self, table: TokenTable, errors: str) -> None:
        self._bytes_of = table.bytes_of
        self._errors = errors

    def after(self, prompt_ids: Sequence[int]) -> bytes:
        end = b""  # only a prompt's last bytes matter, so only they are read
        for id in reversed(prompt_ids):
            end = self._bytes_of[as_id(id)] + end
            if len(end) >= 3:
                break
        return unfinished(end)

    def read(self, held: bytes, id: int, token: bytes) -> tuple[str, bytes]:  # noqa: ARG002
        data = held + token
        # It leaves what `unfinished` does, in a third of the time, but for one kind of bytes:
        text, end = utf_8_decode(data, self._errors)
        held = data[end:]
        if _HELD_TOO_LONG <= held < b"\xee":
            return data.decode("utf-8", self._errors), b""
        return text, held

    def end(self, held: bytes) -> str:
        return held.decode("utf-8", self._errors)

    def is_common(self, held: bytes) -> bool:  # noqa: ARG002
        return True

    def pending(self, held: bytes) -> bytes:
        return held

    def mark(self, held: bytes) -> str:  # noqa: ARG002
        return ""

    def held(self, pending: bytes, mark: str) -> bytes:
        if mark or unfinished(pending) != pending:
            raise _no_such(pending, mark)
        return pending


class Run:
    """The byte tokens of a run so far, which may still be UTF-8.

    That is pieces of whole characters, linked, and the last bytes.
    """

    __slots__ = ("before", "data", "size")

    def __init__(self, before: tuple[Any, str] | None, data: bytes, size: int) -> None:
        self.before = before  # the last piece, with those before it in the same way
        self.data = data
        self.size = size  # of all, in bytes

    def __eq__(self, other: object) -> bool:
        if self.before is not None or not isinstance(other, Run):
            return self is other
        return other.before is None and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data) if self.before is None else id(self)

    def joined(self) -> bytes:
        """Return all bytes."""
        pieces = [self.data]
        before = self.before
        while before is not None:
            before, piece = before
            pieces.append(piece.encode("utf-8"))
        return b"".join(reversed(pieces))


_BROKEN = "broken"  # a run that is not UTF-8: each further byte of it is one U+FFFD


class ByteRuns:
    """Byte tokens in a row are one text, or else as many U+FFFD; so one waits for the last of them.

    That is how `tokenizers` decodes with byte fallback, where all other tokens are text.
    """

    start: Held = b""

    def __init__(self, plain: Utf8, byte_ids: Collection[int], skipped: Collection[int]) -> None:
        self._plain = plain
        self._byte_ids = byte_ids
        self._skipped = skipped

    def after(self, prompt_ids: Sequence[int]) -> Held:
        """Return what is held after a prompt: the characters that were whole in it were shown."""
        return self.held(self._plain.after(prompt_ids), "")

    def read(self, held: Held, id: int, token: bytes) -> tuple[str, Held]:
        if id in self._skipped:
            return "", held
        if id not in self._byte_ids:
            return self.end(held) + token.decode("utf-8"), b""
        if held == _BROKEN:
            return _REPLACEMENT, held
        run = _longer(held if isinstance(held, Run) else Run(None, b"", 0), token)
        return ("", run) if isinstance(run, Run) else (_REPLACEMENT * run, _BROKEN)

    def end(self, held: Held) -> str:
        if not isinstance(held, Run):
            return ""
        return _REPLACEMENT * held.size if unfinished(held.data) else held.joined().decode("utf-8")

    def is_common(self, held: Held) -> bool:
        return not isinstance(held, Run) or held.size <= _SHORT

    def pending(self, held: Held) -> bytes:
        return held.joined() if isinstance(held, Run) else b""

    def mark(self, held: Held) -> str:
        return _BROKEN if held == _BROKEN else ""

    def held(self, pending: bytes, mark: str) -> Held:
        if mark == _BROKEN and not pending:
            return _BROKEN
        run: Run | int = Run(None, b"", 0)
        for byte in pending:
            run = _longer(run, bytes([byte])) if isinstance(run, Run) else run
        if mark or not isinstance(run, Run):
            raise _no_such(pending, mark)
        return run if pending else b""


def _longer(run: Run, token: bytes) -> Run | int:
    """Return a run and one more byte; or, if it cannot become UTF-8, the number of bytes."""
    data, size = run.data + token, run.size + len(token)
    end = len(data) - len(unfinished(data))
    try:
        text = data[:end].decode("utf-8")
    except UnicodeDecodeError:
        return size
    if end < _PIECE:
        return Run(run.before, data, size)
    return Run((run.before, text), data[end:], size)


class _Beginning(NamedTuple):
    """Text has not begun: what is held by the reader of the rest, and what the first text lacks."""

    held: Held
    is_first: bool  # whether the next token is the first
    strips: int  # how many characters may be stripped


class Beginning:
    """The first token has other bytes than later ones, or the first characters are left out.

    `first_of` has the bytes of a token as the first of all, if they are others; up to `strips`
    characters `character` are stripped where text begins. A prompt is the beginning of what
    follows it, unless it has no text.
    """

    def __init__(
        self,
        rest: Reader,
        table: TokenTable,
        skipped: Collection[int],
        first_of: Mapping[int, bytes],
        character: str,
        strips: int,
    ) -> None:
        self._rest = rest
        self._bytes_of = table.bytes_of
        self._skipped = skipped
        self._first_of = first_of
        self._character = character
        self._strips = strips
        self._start = _Beginning(rest.start, bool(first_of), strips)
        self.start: Held = self._start

    def after(self, prompt_ids: Sequence[int]) -> Held:
        held = self._rest.after(prompt_ids)
        # Read from the end, where most prompts have text, to the beginning only if they have none.
        enough = self._strips * len(self._character.encode("utf-8")) + 3
        tokens: list[bytes] = []
        size = 0
        first = None
        for id in map(as_id, reversed(prompt_ids)):
            if id in self._skipped:
                continue
            if first is not None and (size > enough or not self._strips):
                return held
            first = id
            tokens.append(self._bytes_of[id])
            size += len(tokens[-1])
        if first is not None:
            tokens[-1] = self._first_of.get(first, tokens[-1])
        data = b"".join(reversed(tokens))
        shown = data[: len(data) - len(self._rest.pending(held))].decode("utf-8", "replace")
        left, strips = self._strip(shown, self._strips)
        is_first = bool(self._first_of) and first is None
        return _Beginning(held, is_first, strips) if not left and (is_first or strips) else held

    def read(self, held: Held, id: int, token: bytes) -> tuple[str, Held]:
        if not isinstance(held, _Beginning):
            return self._rest.read(held, id, token)
        if id in self._skipped:
            return "", held
        if held.is_first:
            token = self._first_of.get(id, token)
        try:
            text, inner = self._rest.read(held.held, id, token)
        except UnicodeDecodeError as error:
            raise self._stripped(error, held.strips) from None
        text, strips = self._strip(text, held.strips)
        return text, _Beginning(inner, False, strips) if strips else inner

    def _strip(self, text: str, strips: int) -> tuple[str, int]:
        """Return the text that is left, and how many more characters may be stripped."""
        while strips and text.startswith(self._character):
            text, strips = text[1:], strips - 1
        return text, 0 if text else strips

    def _stripped(self, error: UnicodeDecodeError, strips: int) -> UnicodeDecodeError:
        """Return an error whose valid text is what is left of it."""
        data, start, end = error.object, error.start, error.end
        good, _ = self._strip(data[:start].decode("utf-8"), strips)
        cut = start - len(good.encode("utf-8"))
        return UnicodeDecodeError("utf-8", data[cut:], start - cut, end - cut, error.reason)

    def end(self, held: Held) -> str:
        if not isinstance(held, _Beginning):
            return self._rest.end(held)
        return self._strip(self._rest.end(held.held), held.strips)[0]

    def is_common(self, held: Held) -> bool:
        return self._rest.is_common(held.held if isinstance(held, _Beginning) else held)

    def pending(self, held: Held) -> bytes:
        return self._rest.pending(held.held if isinstance(held, _Beginning) else held)

    def mark(self, held: Held) -> str:
        if not isinstance(held, _Beginning):
            return self._rest.mark(held)
        words = ["first"] if held.is_first else []
        words += [f"strip{held.strips}"] if held.strips else []
        return " ".join([*words, self._rest.mark(held.held)]).strip()

    def held(self, pending: bytes, mark: str) -> Held:
        match = re.fullmatch(r"(?:(first)(?: |$))?(?:strip([1-9][0-9]{0,8})(?: |$))?(\w*)", mark)
        if not match:
            raise _no_such(pending, mark)
        first, strips, rest = match.groups()
        held = self._rest.held(pending, rest)
        if not first and not strips:
            return held
        beginning = _Beginning(held, bool(first), int(strips or 0))
        if (first and not self._first_of) or beginning.strips > self._strips:
            raise _no_such(pending, mark)
        return beginning


def reader_of(table: TokenTable, errors: str) -> Reader:
    """Return how the tokens of a table are read, if bytes that are not UTF-8 are treated so."""
    if table.reader_of is None:
        return Utf8(table, errors)
    reader: Reader = table.reader_of(table, errors)
    return reader


def _no_such(pending: bytes, mark: str) -> ValueError:
    more = f", and the mark {mark!r}" if mark else ""
    return ValueError(
        f"a stream of this vocabulary cannot have the pending bytes {pending.hex()!r}{more}"
    )
