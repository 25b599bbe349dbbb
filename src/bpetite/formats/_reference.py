"""The reference library of a format: the library that owns it, whose ids ours must equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import AnyStr

PROBE = (
    "Hello world, it's 2026! I'll, WE'VE, they'd; naïve café, Ĳsselmeer, ǅ, ſ's\n"
    "    def f(x):\r\n\treturn x[0:10] // 3.14159e-10  # done... \n\n\n  \t \n"
    "Привет, мир! Γειά σου Κόσμε. שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก "
    "안녕하세요 세계 こんにちは世界 你好，世界。 Բարեւ გამარჯობა ሰላም 👋🏽👨\u200d👩\u200d👧🇩🇪\n"
    "1 12 123 1234 12345 1234567 ١٢٣٤ ४५६७ Ⅷ ½ ² 𝟘𝟙 e\u0301 a\u0308\u0323\u200b\u00a0\u3000\ufeff"
    "\u0378\U0001fae9\U000e01ef\x00\x7f\x85\u2028aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "----------------________////////\n\n\n\n                                 ababababab   "
)
"""A text of many scripts, digits, spaces and repeats, with rare and unassigned characters."""

Encode = Callable[[str], list[int]]


class IncomparableError(ImportError):
    """An installed library has no ids to compare with: it refuses the file, or fails."""


class Reference:
    """A library that owns a format. It is imported when the first text is encoded."""

    def __init__(
        self,
        name: str,
        make_encode: Callable[[], Encode],
        recorded_digest: str | None = None,
        make_encode_like: Callable[[Sequence[int]], Encode] | None = None,
    ) -> None:
        self.name = name
        self._make_encode = make_encode
        self._recorded_digest = recorded_digest
        self._make_encode_like = make_encode_like
        self._encode: Encode | None = None

    def for_ids(self, ids: Sequence[int]) -> Reference:
        """Return a quicker reference, which may know only the tokens that a text of `ids` contains.

        It gives `ids` if and only if the library does. Other ids may differ from the library's.
        """
        make_encode_like = self._make_encode_like
        if make_encode_like is None:
            return self
        return Reference(self.name, lambda: make_encode_like(ids))

    def has_recorded_ids(self, text: str, ids: Iterable[int]) -> bool:
        """Return whether the library's ids of this text are on record, and are `ids`."""
        return self._recorded_digest is not None and self._recorded_digest == ids_digest(text, ids)

    def encode(self, text: str) -> list[int]:
        """Return the library's ids of a text.

        Raises ImportError if the library is not installed; its subclass IncomparableError if the
        library refuses the file or fails on the text.
        """
        try:
            if self._encode is None:
                self._encode = self._make_encode()
            return self._encode(text)
        except (ImportError, MemoryError):
            raise
        except Exception as error:
            lines = str(error).splitlines() or [type(error).__name__]
            raise IncomparableError(
                f"{self.name} cannot be compared with: {lines[0][:160]}"
            ) from None
        except BaseException as error:
            # A panic in Rust; no module exports its type.
            if type(error).__name__ != "PanicException":
                raise
            raise IncomparableError(f"{self.name} cannot be compared with: it panics") from None


_START = 4


def finder(text: AnyStr) -> Callable[[AnyStr], bool]:
    """Return the function that tells whether a token of two items or more is in `text`.

    It looks up the first items of the token, since a vocabulary has few tokens of any text.

    >>> [*filter(finder("abcdef"), ("ab", "ba", "bcdef"))]
    ['ab', 'bcdef']
    """
    starts = {text[at : at + size] for at in range(len(text)) for size in range(2, _START + 1)}
    return lambda token: token[:_START] in starts and token in text


def ids_digest(text: str, ids: Iterable[int]) -> str:
    """Return a SHA-256 of a text and its ids.

    >>> ids_digest("ab", [256])[:8]
    'd44066fc'
    """
    import hashlib  # slow to import, and rarely needed

    return hashlib.sha256(f"{[*ids]} {text}".encode()).hexdigest()


def first_difference(
    text: str,
    left: tuple[str, list[int], Callable[[int], bytes]],
    right: tuple[str, list[int], Callable[[int], bytes]],
) -> str | None:
    """Return where, and how, two lists of ids of one text part; None if they are equal.

    Each side is a name, its ids, and a function from an id to its bytes that may raise KeyError.

    >>> bytes_of = {97: b"a", 98: b"b", 256: b"ab"}.__getitem__
    >>> first_difference("ab", ("here", [97, 98], bytes_of), ("there", [256], bytes_of))
    "character 0 (line 1, column 1): here has 97 'a', there has 256 'ab'"
    """
    if left[1] == right[1]:
        return None
    start = 0
    for here, there in zip_longest(left[1], right[1]):
        if here != there:
            before = text.encode("utf-8")[:start].decode("utf-8", "ignore")
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            return (
                f"character {len(before)} (line {line}, column {column}): "
                f"{left[0]} has {_shown(here, left[2])}, {right[0]} has {_shown(there, right[2])}"
            )
        start += len(left[2](here))
    return None


def _shown(id: int | None, bytes_of: Callable[[int], bytes]) -> str:
    if id is None:
        return "no more"
    try:
        return f"{id} {bytes_of(id).decode('utf-8', 'backslashreplace')!r}"
    except KeyError:  # an id that only the other library has
        return str(id)
