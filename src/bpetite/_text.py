"""What may be a text: a `str`, or its UTF-8 in a buffer of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from mmap import mmap
from typing import NoReturn

Text = str | bytes | bytearray | memoryview | mmap
"""A text; any other object with such a buffer will do too, an array of numpy's "uint8" say."""


def as_str(text: Text) -> str:
    r"""Return a text as a `str`.

    >>> as_str("é") == as_str(memoryview(b"\xc3\xa9"))
    True

    Raises TypeError for what is no text, and UnicodeDecodeError, with the offset in bytes, for a
    buffer that is not UTF-8.
    """
    if isinstance(text, str):
        return text
    try:
        view = memoryview(text)
    except TypeError:
        raise TypeError(f"text must be a str or bytes-like, got {type(text).__name__}") from None
    with view:
        if view.itemsize != 1:
            what = f"with items of {view.itemsize} bytes"
        elif view.ndim != 1:
            what = f"with {view.ndim} dimensions"
        elif not view.c_contiguous:
            what = "with gaps"
        else:
            return str(view, "utf-8")
    raise TypeError(f"text must be bytes one after the other, got {type(text).__name__} {what}")


def refuse(text: Text, error: Exception) -> NoReturn:
    """Raise what is wrong with a text that an engine has refused with an error, or else that."""
    try:
        _check(text)
    except (TypeError, UnicodeError) as reason:
        raise reason from None
    raise error


def refuse_batch(texts: Sequence[Text], error: Exception) -> NoReturn:
    """Raise what is wrong with the first of some texts that is, as `refuse` does."""
    for number, text in enumerate(texts):
        try:
            _check(text)
        except (TypeError, UnicodeError) as reason:
            reason.add_note(f"in text {number} of the batch")
            raise reason from None
    raise error


def _check(text: Text) -> None:
    """Raise what `as_str` does; and UnicodeEncodeError, with its position, for a lone surrogate."""
    as_str(text).encode("utf-8")
