"""How the bytes of tokens become text: what each token completes, and what waits for the next."""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from bpetite._vocabulary import TokenTable, as_id

Pending = Hashable
"""What a byte decoder remembers of the tokens so far. b"" stands for nothing, once the text has
begun; all other values are truthy."""

# ED A0 to ED BF begin no character, but `utf_8_decode` waits for a third byte.
_SURROGATE_START = b"\xed\xa0"

_REPLACEMENT = "\ufffd"

# Whole characters of a run are linked in segments of this size. A step then costs the same
# however long the run is.
_SEGMENT_BYTES = 64

# A run of one character is common, so its transitions are cached. A longer run hardly ever recurs.
_MAX_CACHED_RUN_BYTES = 4


def unfinished(data: bytes) -> bytes:
    r"""Return the bytes at the end of `data` that may still become a character: 0 to 3 bytes.

    >>> unfinished("a🙂".encode()[:-1]), unfinished(b"\xed\xa0")
    (b'\xf0\x9f\x99', b'')
    """
    data = data[-3:]
    rest = data[utf_8_decode(data, "ignore")[1] :]
    return b"" if _SURROGATE_START <= rest < b"\xee" else rest


def strip_start(text: str, character: str, limit: int) -> str:
    """Return a text without up to `limit` times a character at its start."""
    return text[min(len(text) - len(text.lstrip(character)), limit) :]


class ByteDecoder(Protocol):
    """Turns tokens into text, one by one. It knows earlier tokens only by a `Pending` value."""

    @property
    def initial(self) -> Pending:
        """What is pending before the first token."""

    def after_prompt(self, prompt_ids: Sequence[int]) -> Pending:
        """Return what is pending after a prompt."""

    def decode(self, pending: Any, id: int, token: bytes) -> tuple[str, Pending]:
        """Return the text that a token completes, and what is pending then.

        Raises UnicodeDecodeError for bytes that are not UTF-8, if they are refused.
        """

    def finish(self, pending: Any) -> str:
        """Return the text of what is pending at the end; raises as `decode` does."""

    def to_parts(self, pending: Any) -> tuple[bytes, str]:
        """Return the pending bytes, and any other decoder state as a short string, usually ""."""

    def from_parts(self, data: bytes, decoder_state: str) -> Pending:
        """Return the value with these parts; ValueError if `to_parts` never returns them."""


class Utf8Decoder:
    """The decoder of tokens that are any bytes; `errors` says what becomes of bytes not UTF-8.

    The beginning of a character is pending: 0 to 3 bytes.
    """

    initial: Pending = b""

    def __init__(self, table: TokenTable, errors: str) -> None:
        self._bytes_of = table.bytes_of
        self._errors = errors

    def after_prompt(self, prompt_ids: Sequence[int]) -> bytes:
        end = b""  # only a prompt's last bytes matter, so only they are read
        for id in reversed(prompt_ids):
            end = self._bytes_of[as_id(id)] + end
            if len(end) >= 3:
                break
        return unfinished(end)

    def decode(self, pending: bytes, id: int, token: bytes) -> tuple[str, bytes]:  # noqa: ARG002
        data = pending + token
        # This leaves the bytes of `unfinished`, with the same exception.
        text, end = utf_8_decode(data, self._errors)
        pending = data[end:]
        if _SURROGATE_START <= pending < b"\xee":
            return data.decode("utf-8", self._errors), b""
        return text, pending

    def finish(self, pending: bytes) -> str:
        return pending.decode("utf-8", self._errors)

    def to_parts(self, pending: bytes) -> tuple[bytes, str]:
        return pending, ""

    def from_parts(self, data: bytes, decoder_state: str) -> bytes:
        if decoder_state or unfinished(data) != data:
            raise _impossible(data, decoder_state)
        return data


@dataclass(eq=False, slots=True)
class Run:
    """The byte tokens of a long run so far, which may still be UTF-8.

    They are linked segments of whole characters, and the last bytes.
    """

    before: tuple[Any, str] | None  # the link to earlier segments, and the last segment
    last: bytes
    size: int  # of the whole run, in bytes

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        segments = [self.last]
        before = self.before
        while before is not None:
            before, segment = before
            segments.append(segment.encode("utf-8"))
        return b"".join(reversed(segments))


_BROKEN = "broken"  # a run that is not UTF-8: each further byte of it is one U+FFFD


@dataclass(eq=False)
class ByteRunDecoder:
    """The decoder of vocabularies with byte fallback, as `tokenizers` decodes them.

    Byte tokens in a row are one text or, if that is not UTF-8, one U+FFFD each. So a run is kept
    until another token follows: as bytes or, if it is long, as a `Run`. Other tokens are text.
    """

    utf8: Utf8Decoder
    byte_ids: Collection[int]
    skipped: Collection[int]
    initial: Pending = b""

    def after_prompt(self, prompt_ids: Sequence[int]) -> Pending:
        # The characters that were whole in the prompt were shown with it.
        return self.utf8.after_prompt(prompt_ids)

    def decode(self, pending: Any, id: int, token: bytes) -> tuple[str, Pending]:
        if id in self.skipped:
            return "", pending
        if id not in self.byte_ids:
            return self.finish(pending) + token.decode("utf-8"), b""
        if pending is _BROKEN:
            return _REPLACEMENT, pending
        before, last = None, pending
        if isinstance(pending, Run):
            before, last = pending.before, pending.last
        last, size = last + token, len(pending) + 1
        try:
            text, unfinished_end = _whole_characters(last)
        except UnicodeDecodeError:
            return _REPLACEMENT * size, _BROKEN
        if size <= _MAX_CACHED_RUN_BYTES:
            return "", last
        if len(last) < _SEGMENT_BYTES:
            return "", Run(before, last, size)
        return "", Run((before, text), unfinished_end, size)

    def finish(self, pending: Any) -> str:
        if pending is _BROKEN:
            return ""
        try:
            return bytes(pending).decode("utf-8")
        except UnicodeDecodeError:
            return _REPLACEMENT * len(pending)

    def to_parts(self, pending: Any) -> tuple[bytes, str]:
        return (b"", _BROKEN) if pending is _BROKEN else (bytes(pending), "")

    def from_parts(self, data: bytes, decoder_state: str) -> Pending:
        if decoder_state == _BROKEN and not data:
            return _BROKEN
        with suppress(UnicodeDecodeError):
            _whole_characters(data)
            if not decoder_state:
                return data if len(data) <= _MAX_CACHED_RUN_BYTES else Run(None, data, len(data))
        raise _impossible(data, decoder_state)


def _whole_characters(data: bytes) -> tuple[str, bytes]:
    """Return the characters in bytes, and the unfinished end; UnicodeDecodeError for others."""
    end = len(data) - len(unfinished(data))
    return data[:end].decode("utf-8"), data[end:]


class _TextStart(NamedTuple):
    """The value that is pending before text begins."""

    inner: Pending  # of the decoder of all later text
    is_first: bool = False  # whether the next token is the first
    strips: int = 0  # how many characters may be stripped


def _start_of(pending: Pending) -> _TextStart:
    return pending if isinstance(pending, _TextStart) else _TextStart(pending)


def is_cacheable(pending: Pending) -> bool:
    """Return whether this is so common that its transitions are cached."""
    return not isinstance(_start_of(pending).inner, Run)


@dataclass(eq=False)
class TextStartDecoder:
    """The decoder of vocabularies that treat the start of a text in a special way.

    `first_bytes_of` has the bytes of a token as the first of all, if they differ. At the start of
    the text, up to `strips` times `character` is stripped. `inner` decodes all later text. If there
    is a prompt, the text starts with it.
    """

    inner: ByteDecoder
    bytes_of: Mapping[int, bytes]
    skipped: Collection[int]
    first_bytes_of: Mapping[int, bytes]
    character: str
    strips: int

    @property
    def initial(self) -> Pending:
        return _TextStart(self.inner.initial, bool(self.first_bytes_of), self.strips)

    def after_prompt(self, prompt_ids: Sequence[int]) -> Pending:
        pending = self.inner.after_prompt(prompt_ids)
        # It is read from its end: most prompts have text there, so the rest need not be read.
        enough = self.strips * len(self.character.encode("utf-8")) + 3
        tokens: list[bytes] = []
        size = 0
        first = None
        for id in map(as_id, reversed(prompt_ids)):
            if id in self.skipped:
                continue
            if first is not None and (size > enough or not self.strips):
                return pending
            first = id
            tokens.append(self.bytes_of[id])
            size += len(tokens[-1])
        if first is not None:
            tokens[-1] = self.first_bytes_of.get(first, tokens[-1])
        data = b"".join(reversed(tokens))
        pending_bytes, _ = self.inner.to_parts(pending)
        shown = data[: len(data) - len(pending_bytes)].decode("utf-8", "replace")
        text, strips = self._strip(shown, self.strips)
        is_first = bool(self.first_bytes_of) and first is None
        at_start = not text and (is_first or strips)
        return _TextStart(pending, is_first, strips) if at_start else pending

    def decode(self, pending: Pending, id: int, token: bytes) -> tuple[str, Pending]:
        if not isinstance(pending, _TextStart):
            return self.inner.decode(pending, id, token)
        if id in self.skipped:
            return "", pending
        if pending.is_first:
            token = self.first_bytes_of.get(id, token)
        try:
            text, inner = self.inner.decode(pending.inner, id, token)
        except UnicodeDecodeError as error:
            raise self._stripped(error, pending.strips) from None
        text, strips = self._strip(text, pending.strips)
        return text, _TextStart(inner, False, strips) if strips else inner

    def _strip(self, text: str, strips: int) -> tuple[str, int]:
        """Return the text that is left, and how many more characters may be stripped."""
        left = strip_start(text, self.character, strips)
        return left, 0 if left else strips - len(text)

    def _stripped(self, error: UnicodeDecodeError, strips: int) -> UnicodeDecodeError:
        data, start, end = error.object, error.start, error.end
        good, _ = self._strip(data[:start].decode("utf-8"), strips)
        cut = start - len(good.encode("utf-8"))
        return UnicodeDecodeError("utf-8", data[cut:], start - cut, end - cut, error.reason)

    def finish(self, pending: Pending) -> str:
        start = _start_of(pending)
        return self._strip(self.inner.finish(start.inner), start.strips)[0]

    def to_parts(self, pending: Pending) -> tuple[bytes, str]:
        inner, is_first, strips = _start_of(pending)
        data, inner_state = self.inner.to_parts(inner)
        words = ["first"] if is_first else []
        words += [f"strip{strips}"] if strips else []
        return data, " ".join([*words, inner_state]).strip()

    def from_parts(self, data: bytes, decoder_state: str) -> Pending:
        form = r"(?:(first)(?: |$))?(?:strip([1-9][0-9]{0,8})(?: |$))?(\w*)"
        match = re.fullmatch(form, decoder_state)
        if not match:
            raise _impossible(data, decoder_state)
        first, strips, inner_state = match.groups()
        inner = self.inner.from_parts(data, inner_state)
        if (first and not self.first_bytes_of) or int(strips or 0) > self.strips:
            raise _impossible(data, decoder_state)
        return _TextStart(inner, bool(first), int(strips or 0)) if first or strips else inner


def _impossible(data: bytes, decoder_state: str) -> ValueError:
    more = f", and the decoder_state {decoder_state!r}" if decoder_state else ""
    return ValueError(
        f"a stream of this vocabulary cannot have the pending bytes {data.hex()!r}{more}"
    )
