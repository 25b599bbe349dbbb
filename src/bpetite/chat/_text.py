"""Text that knows where each of its characters comes from.

An origin is the number of a message, or one of the negative numbers below. A text has runs of
characters of one origin. All operations with which a template divides or joins texts keep the runs.
Any other operation makes a plain `str`, which is untracked everywhere.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, SupportsIndex, TypeVar

from jinja2.runtime import Undefined
from markupsafe import Markup

GENERATED = 1
"""The lowest bit of an origin: the character is inside `{% generation %}`."""

TEMPLATE = -1 << 1
ARGUMENT = -2 << 1
"""Tools, documents and other arguments of a rendering."""

UNTRACKED = -3 << 1
"""Text from an operation that hides where it comes from; minus the line, if it is known."""

_new = str.__new__
_cut = str.__getitem__
_AnyText = TypeVar("_AnyText", bound="Text")


def of_message(number: int) -> int:
    return number << 1


def number_of(origin: int) -> int:
    """Return the number of the message that an origin stands for, or a negative number."""
    return origin >> 1


def line_of(origin: int) -> int | None:
    """Return the line of the template where a text became untracked, 0 if it is not known.

    None for a text that is tracked.
    """
    line = (UNTRACKED >> 1) - (origin >> 1)
    return line if line >= 0 else None


class Text(str):
    """A `str` with the ends of its runs and their origins.

    A new one is untracked, so that an operation of Python cannot make a trusted text.
    """

    __slots__ = ("_ends", "_origins")
    _ends: tuple[int, ...]
    _origins: tuple[int, ...]

    def __new__(cls: type[_AnyText], text: str = "") -> _AnyText:
        return whole_of(cls, text, UNTRACKED)

    def __str__(self) -> str:
        """Return the text itself, so that `str(text)` keeps the origins."""
        return self

    def _other(self, value: Any) -> Any:
        """Return the other operand of an operation as a text."""
        return value

    def _slice(self: _AnyText, start: int, stop: int) -> _AnyText:
        if start >= stop:
            return _made(type(self), "", (), ())
        plain = _cut(self, slice(start, stop))
        if len(self._origins) == 1:
            return _made(type(self), plain, (stop - start,), self._origins)
        first = bisect_right(self._ends, start)
        last = bisect_left(self._ends, stop)
        ends = [end - start for end in self._ends[first:last]]
        return _made(type(self), plain, (*ends, stop - start), self._origins[first : last + 1])

    def __getitem__(self: _AnyText, key: SupportsIndex | slice) -> _AnyText:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._slice(start, stop)
            if len(self._origins) == 1:
                return whole_of(type(self), _cut(self, key), self._origins[0])
            return joined_of(type(self), [self._slice(i, i + 1) for i in range(start, stop, step)])
        plain = _cut(self, key)
        index = operator.index(key)
        index += len(self) if index < 0 else 0
        return whole_of(type(self), plain, self._origins[bisect_right(self._ends, index)])

    def __iter__(self: _AnyText) -> Iterator[_AnyText]:
        return (self[index] for index in range(len(self)))

    def __add__(self: _AnyText, other: str) -> _AnyText:
        if isinstance(other, Undefined):
            return NotImplemented
        if not isinstance(other, str):
            str.__add__(self, other)  # raises the usual TypeError
        other = self._other(other)
        # The usual case of `joined`, at half its cost.
        if type(other) is Text and len(other._origins) == 1 and self:
            size = len(self)
            ends, origins = self._ends, self._origins
            if origins[-1] == other._origins[0]:
                ends, origins = ends[:-1], origins[:-1]
            stop = (size + len(other),)
            return _made(
                type(self), str.__add__(self, other), ends + stop, origins + other._origins
            )
        return joined_of(type(self), (self, other))

    def __radd__(self: _AnyText, other: str) -> _AnyText:
        if not isinstance(other, str):
            return NotImplemented
        return joined_of(type(self), (self._other(other), self))

    def __mul__(self: _AnyText, count: SupportsIndex) -> _AnyText:
        if isinstance(count, Undefined):
            return NotImplemented
        if not hasattr(count, "__index__"):
            raise TypeError(f"can't multiply sequence by non-int of type {type(count).__name__!r}")
        count = operator.index(count)
        if len(self._origins) == 1:
            return whole_of(type(self), str.__mul__(self, count), self._origins[0])
        return joined_of(type(self), [self] * count)

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> Text:
        return percent(self, values)

    def __rmod__(self, text: Any) -> Any:
        return Text(text) % self if isinstance(text, str) else NotImplemented

    def lstrip(self: _AnyText, chars: str | None = None) -> _AnyText:
        return self._slice(len(self) - len(str.lstrip(self, chars)), len(self))

    def rstrip(self: _AnyText, chars: str | None = None) -> _AnyText:
        return self._slice(0, len(str.rstrip(self, chars)))

    def strip(self: _AnyText, chars: str | None = None) -> _AnyText:
        left = len(self) - len(str.lstrip(self, chars))
        return self._slice(left, left + len(str.strip(self, chars)))

    def removeprefix(self: _AnyText, prefix: str) -> _AnyText:
        return self._slice(len(self) - len(str.removeprefix(self, prefix)), len(self))

    def removesuffix(self: _AnyText, suffix: str) -> _AnyText:
        return self._slice(0, len(str.removesuffix(self, suffix)))

    def _pieces(self: _AnyText, plain: Iterable[str], gap: int) -> list[_AnyText]:
        """Return slices that are equal to parts in their order; after each, skip `gap`."""
        pieces = []
        position = 0
        for part in plain:
            position = str.index(self, part, position)
            pieces.append(self._slice(position, position + len(part)))
            position += len(part) + gap
        return pieces

    # A part begins at the first place that it can: after white space, or right after `sep`.
    def split(  # type: ignore[override]
        self: _AnyText, sep: str | None = None, maxsplit: SupportsIndex = -1
    ) -> list[_AnyText]:
        return self._pieces(str.split(self, sep, maxsplit), len(sep or ""))

    def rsplit(  # type: ignore[override]
        self: _AnyText, sep: str | None = None, maxsplit: SupportsIndex = -1
    ) -> list[_AnyText]:
        return self._pieces(str.rsplit(self, sep, maxsplit), len(sep or ""))

    def splitlines(  # type: ignore[override]
        self: _AnyText, keepends: bool = False
    ) -> list[_AnyText]:
        whole_lines = self._pieces(str.splitlines(self, True), 0)
        if keepends:
            return whole_lines
        ends = map(len, str.splitlines(self))
        return [line._slice(0, end) for line, end in zip(whole_lines, ends, strict=True)]

    def partition(self: _AnyText, sep: str) -> tuple[_AnyText, _AnyText, _AnyText]:
        left, middle, right = self._pieces(str.partition(self, sep), 0)
        return left, middle, right

    def rpartition(self: _AnyText, sep: str) -> tuple[_AnyText, _AnyText, _AnyText]:
        left, middle, right = self._pieces(str.rpartition(self, sep), 0)
        return left, middle, right

    def replace(self: _AnyText, old: str, new: str, count: SupportsIndex = -1) -> _AnyText:
        if not isinstance(new, str):
            str.replace(self, old, new)  # raises the usual TypeError
        found = str.count(self, old)
        limit = operator.index(count)
        found = found if limit < 0 else min(found, limit)
        if not found:
            return self._slice(0, len(self))
        new = self._other(new)
        if len(self._origins) == 1 and isinstance(new, Text) and self._origins == new._origins:
            return whole_of(type(self), str.replace(self, old, new, found), self._origins[0])
        pieces: list[str] = []
        position = 0
        for _ in range(found):
            # With an empty `old`, the next place is after the next character.
            start = str.index(self, old, position + (not old and bool(pieces)))
            pieces += (self._slice(position, start), new)
            position = start + len(old)
        return joined_of(type(self), [*pieces, self._slice(position, len(self))])

    def join(self: _AnyText, parts: Iterable[str]) -> _AnyText:
        parts = [*parts]
        if not all(isinstance(part, str) for part in parts):
            str.join(self, parts)  # raises the usual TypeError
        parts = [self._other(part) for part in parts]
        if self and parts:
            between: list[str] = [self] * (2 * len(parts) - 1)
            between[::2] = parts
            parts = between
        return joined_of(type(self), parts)

    def _padded(self: _AnyText, plain: Callable[..., str], width: Any, fill: Any) -> _AnyText:
        """Return the text with filling on both sides, which has one origin with the text."""
        padded = plain(self, width, self._other(fill))
        if len(self._origins) != 1:
            return whole_of(type(self), padded, UNTRACKED)
        return whole_of(type(self), padded, blend(self, fill))

    def center(self: _AnyText, width: SupportsIndex, fillchar: str = " ") -> _AnyText:
        return self._padded(str.center, width, fillchar)

    def ljust(self: _AnyText, width: SupportsIndex, fillchar: str = " ") -> _AnyText:
        return self._padded(str.ljust, width, fillchar)

    def rjust(self: _AnyText, width: SupportsIndex, fillchar: str = " ") -> _AnyText:
        return self._padded(str.rjust, width, fillchar)

    def zfill(self: _AnyText, width: SupportsIndex) -> _AnyText:
        return whole_of(type(self), str.zfill(self, width), UNTRACKED)

    def like(self: _AnyText, plain: str) -> _AnyText:
        """Return a text whose characters come from those at the same places here."""
        if len(plain) == len(self):
            return _made(type(self), plain, self._ends, self._origins)
        return whole_of(type(self), plain, UNTRACKED)

    def _mapped(self: _AnyText, change: Callable[[str], str]) -> _AnyText:
        """Return the text with each letter changed; some letters become two or three."""
        plain = change(self)
        if len(plain) != len(self):
            parts = [whole(change(run), origin) for run, origin in self.runs()]
            if str.join("", parts) == plain:
                return joined_of(type(self), parts)
        return self.like(plain)

    def lower(self: _AnyText) -> _AnyText:
        return self._mapped(str.lower)

    def upper(self: _AnyText) -> _AnyText:
        return self._mapped(str.upper)

    def casefold(self: _AnyText) -> _AnyText:
        return self._mapped(str.casefold)

    def swapcase(self: _AnyText) -> _AnyText:
        return self._mapped(str.swapcase)

    def title(self: _AnyText) -> _AnyText:
        return self.like(str.title(self))

    def capitalize(self: _AnyText) -> _AnyText:
        return self.like(str.capitalize(self))

    def runs(self) -> Iterator[tuple[str, int]]:
        """Yield the text of each run, and its origin."""
        start = 0
        for end, origin in zip(self._ends, self._origins, strict=True):
            yield _cut(self, slice(start, end)), origin
            start = end

    def has(self, origin: int) -> bool:
        return origin in self._origins

    def changed(self, change: Callable[[int], int]) -> Text:
        """Return the text with each origin changed."""
        return joined([whole(run, change(origin)) for run, origin in self.runs()])


class Safe(Text):
    """The result of Jinja's filter `safe`: operations on it escape other strings for HTML."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return the text without the mark."""
        return _made(Text, str.__str__(self), self._ends, self._origins)

    def __repr__(self) -> str:
        return f"Markup({str.__repr__(self)})"

    def __iter__(self) -> Iterator[Any]:
        return iter(str(self))  # Jinja leaves the mark out

    def __radd__(self, other: str) -> Safe:
        # Python asks the right operand first only if it has a method of its own.
        return Text.__radd__(self, other)

    def __html__(self) -> Safe:
        """Return the text, which is HTML already."""
        return self

    def _other(self, value: Any) -> Any:
        return escaped(value)


def whole(plain: str, origin: int) -> Text:
    """Return a text of one origin."""
    return whole_of(Text, plain, origin)


def whole_of(cls: type[_AnyText], plain: str, origin: int) -> _AnyText:
    """Return a text of one origin, of a class."""
    return _made(cls, plain, (len(plain),), (origin,)) if plain else _made(cls, "", (), ())


def _made(
    cls: type[_AnyText], plain: str, ends: tuple[int, ...], origins: tuple[int, ...]
) -> _AnyText:
    text = _new(cls, plain)
    text._ends = ends
    text._origins = origins
    return text


def joined(parts: Iterable[str]) -> Text:
    """Return parts put together; a plain `str` among them is untracked."""
    return joined_of(Text, parts)


def joined_of(cls: type[_AnyText], parts: Iterable[str]) -> _AnyText:
    """Return parts put together, as a text of a class."""
    parts = [*parts]
    ends: list[int] = []
    origins: list[int] = []
    end = 0
    last: int | None = None
    for part in parts:
        if not part:
            continue
        if isinstance(part, Text):
            found: tuple[int, ...] = part._origins
            stops = part._ends
        else:
            found = (UNTRACKED,)
            stops = (len(part),)
        if found[0] == last:
            ends.pop()
            origins.pop()
        origins += found
        ends += stops if not end else [end + stop for stop in stops]
        last = found[-1]
        end += len(part)
    return _made(cls, str.join("", parts), tuple(ends), tuple(origins))


def blend(*parts: str) -> int:
    """Return the origin that all strings share, or untracked. A plain blank has any origin."""
    found = {
        origin
        for part in parts
        if part != " " or isinstance(part, Text)
        for origin in (part._origins if isinstance(part, Text) else (UNTRACKED,))
    }
    return found.pop() if len(found) == 1 else UNTRACKED


_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&#39;", '"': "&#34;"}


def escaped(value: Any) -> Safe:
    """Return a text with entities for the characters of HTML, as Jinja's filter `escape`."""
    if isinstance(value, Safe):
        return value
    text = as_text(value)
    pieces: list[str] = []
    position = 0
    for found in re.finditer("[&<>'\"]", text):
        pieces.append(text._slice(position, found.start()))
        pieces.append(whole(_ENTITIES[found.group()], next(text[found.start()].runs())[1]))
        position = found.end()
    return joined_of(Safe, [*pieces, text._slice(position, len(text))])


def as_text(value: Any) -> Text:
    """Return a value as `str` prints it, in a text."""
    if isinstance(value, Text):
        plain: Any = str(value)
        return plain  # type: ignore[no-any-return]
    if isinstance(value, (list, tuple, dict)):
        return printed(value)
    return Text(value if isinstance(value, str) else str(value))


# Formats


_CONVERSION = re.compile(
    r"%(?:\((?P<key>[^()]*)\))?(?P<shape>[-#0 +]*[\d.]*)[hlL]?(?P<kind>.)", re.S
)


def percent(text: Text, values: Any) -> Text:
    """Return `text % values`: the values of a plain %s keep their origins, others are untracked."""
    items = values if isinstance(values, tuple) else (values,)
    cls = type(text)
    is_safe = isinstance(text, Safe)
    form: type[str] = Markup if is_safe else str  # Markup escapes the values
    plain = str.__str__(form.__mod__(form(str.__str__(text)), values))
    pieces: list[str] = []
    position = used = 0
    for found in _CONVERSION.finditer(text):
        pieces.append(text._slice(position, found.start()))
        position = found.end()
        shape, kind, key = found["shape"], found["kind"], found["key"]
        if kind in "*(":  # a width among the values, or a key with parentheses
            return whole_of(cls, plain, UNTRACKED)
        if kind == "%":
            pieces.append(text._slice(position - 1, position))
        else:
            if key is None and used >= len(items):
                break
            value = items[used] if key is None else values[key]
            used += key is None
            if kind == "s" and not shape:
                pieces.append(escaped(value) if is_safe else as_text(value))
            else:
                pieces.append(str.__str__(form(f"%{shape}{kind}") % (value,)))
    result = joined_of(cls, [*pieces, text._slice(position, len(text))])
    return result if result == plain else whole_of(cls, plain, UNTRACKED)


# Containers


class Dict(dict[Any, Any]):
    """A dictionary of a message or an argument, with its origin."""

    __slots__ = ("origin_",)


class List(list[Any]):
    """A list, like `Dict`."""

    __slots__ = ("origin_",)


class Tuple(tuple[Any, ...]):
    """A tuple, like `Dict`."""

    origin_: int


for _base, _kind in ((dict, Dict), (list, List), (tuple, Tuple), (str, Text)):
    # An error of a template names the types of values, so it has the words of transformers.
    _kind.__name__ = _kind.__qualname__ = _base.__name__
    _kind.__module__ = _base.__module__
Safe.__name__ = Safe.__qualname__ = "Markup"
Safe.__module__ = "markupsafe"


def packed(value: Any, origin: int) -> Any:
    """Return a container with an origin."""
    kind = Dict if isinstance(value, dict) else List if isinstance(value, list) else Tuple
    made: Any = kind(value)
    made.origin_ = origin
    return made


def printed(value: Any) -> Text:
    """Return a container as `str` prints it."""
    return _traced(str(value), value, _repr)


def traced_json(plain: str, value: Any, encode: Callable[[str], str], sort_keys: bool) -> Text:
    """Return the JSON of a value as a text in which each string keeps its origins."""
    return _traced(plain, value, encode, sort_keys)


def _repr(text: str) -> str:
    return str.__repr__(text)


_QUOTE = re.compile("['\"]")


def _traced(plain: str, value: Any, encode: Callable[[str], str], sort_keys: bool = False) -> Text:
    """Return the print of a value with the origins of the strings inside.

    Text between strings has the origin of the container around it, if that is known. Since numbers
    and brackets have no quotes, the next quote begins the next string. If it is not the expected
    string, all text is untracked.
    """
    strings: list[tuple[str, int]] = []
    try:
        _collect(value, UNTRACKED, sort_keys, strings)
    except TypeError:  # a key that is no string, or a value of an unknown type
        return Text(plain)
    pieces: list[str] = []
    position = 0
    root = last = getattr(value, "origin_", UNTRACKED)
    for string, owner in strings:
        written = encode(string)
        quote = _QUOTE.search(plain, position)
        if quote is None or not plain.startswith(written, quote.start()):
            return Text(plain)
        gap = plain[position : quote.start()]
        pieces.append(whole(gap, owner if owner == last else UNTRACKED))
        pieces.append(_encoded(string, written, owner, encode))
        position = quote.start() + len(written)
        last = owner
    pieces.append(whole(plain[position:], root if root == last else UNTRACKED))
    return joined(pieces)


def _collect(value: Any, owner: int, sort_keys: bool, found: list[tuple[str, int]]) -> None:
    """Add the strings of a value in the order of print, each with the origin of its container."""
    if isinstance(value, str):
        found.append((value, owner))
    elif isinstance(value, dict):
        owner = getattr(value, "origin_", UNTRACKED)
        for key, item in sorted(value.items()) if sort_keys else value.items():
            if not isinstance(key, str):
                raise TypeError
            found.append((key, owner))
            _collect(item, owner, sort_keys, found)
    elif isinstance(value, (list, tuple)):
        owner = getattr(value, "origin_", UNTRACKED)
        for item in value:
            _collect(item, owner, sort_keys, found)
    elif not isinstance(value, (int, float, type(None))):
        raise TypeError  # it may print quotes


def _encoded(string: str, written: str, owner: int, encode: Callable[[str], str]) -> Text:
    """Return a string between quotes, escaped, with its origins."""
    if not string:
        return whole(written, owner)
    if not isinstance(string, Text):
        return Text(written)
    if len(string._origins) == 1:
        return whole(written, string._origins[0])
    inner = [whole(encode(run)[1:-1], origin) for run, origin in string.runs()]
    first, last = string._origins[0], string._origins[-1]
    result = joined([whole(written[0], first), *inner, whole(written[-1], last)])
    return result if result == written else Text(written)
