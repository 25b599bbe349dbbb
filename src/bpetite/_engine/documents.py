"""Documents that share one buffer, by the offsets of their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

_SIGNED, _UNSIGNED = "ilqn", "LQN"


def view_of_data(data: object) -> memoryview:
    """Return a view of contiguous bytes.

    >>> view_of_data(bytearray(b"ab")).tolist()
    [97, 98]

    Raises TypeError for any other value.
    """
    view = _view(data, "data", "bytes-like", "encode a str as UTF-8")
    if view.itemsize == 1 and view.format != "B":
        view = view.cast("B") if len(view) else memoryview(b"")
    if view.itemsize != 1:
        raise TypeError(
            f"data must be bytes, got {type(data).__name__} with items of {view.itemsize} bytes; "
            f'to read them as bytes, pass memoryview(data).cast("B")'
        )
    return view


def view_of_offsets(offsets: object) -> memoryview:
    """Return a view of integers of 32 or 64 bits; unsigned ones have 64.

    >>> from array import array
    >>> view_of_offsets(array("q", [0, 2])).tolist()
    [0, 2]

    Raises TypeError for any other value, and ValueError if there are no offsets.
    """
    required = "a buffer of int32, int64 or uint64"
    view = _view(offsets, "offsets", required, 'for a list, pass array.array("q", offsets)')
    sizes = (4, 8) if view.format in tuple(_SIGNED) else (8,)
    if view.format not in tuple(_SIGNED + _UNSIGNED) or view.itemsize not in sizes:
        advice = "convert them to int64"
        if view.itemsize == 1:
            advice = 'to read these bytes as int32, pass memoryview(offsets).cast("i")'
        raise TypeError(
            f"offsets must be {required}, got {type(offsets).__name__} of the format "
            f"{view.format!r}; {advice}"
        )
    if not len(view):
        raise ValueError(
            "offsets must have one item more than there are documents, got none; for no "
            "documents, pass one offset"
        )
    return view


def _view(value: object, name: str, required: str, advice: str) -> memoryview:
    """Return a view of a buffer that has one dimension and no gaps."""
    try:
        view = memoryview(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"{name} must be {required}, got {type(value).__name__}; {advice}"
        ) from None
    if view.ndim != 1 or not view.c_contiguous:
        fault = f"{view.ndim} dimensions" if view.ndim != 1 else "gaps"
        raise TypeError(
            f"{name} must be {required}, got {type(value).__name__} with {fault}; pass a "
            f"contiguous copy of one dimension"
        )
    return view


def documents_in(data: memoryview, offsets: memoryview) -> Iterator[str]:
    r"""Return the documents: number i is `data[offsets[i] : offsets[i + 1]]`.

    >>> from array import array
    >>> list(documents_in(memoryview(b"-ab\xc3\xa9-"), memoryview(array("q", [1, 3, 3, 5]))))
    ['ab', '', 'é']

    Raises ValueError, before the first document, for offsets that decrease or are out of range.
    Raises UnicodeDecodeError, with its position in the document, for one that is not UTF-8.
    """
    size = len(data)
    if offsets[0] < 0:
        raise ValueError(
            f"offsets[0] is {offsets[0]}: document 0 begins before the first byte; offsets are "
            f"positions in data, from 0 to {size}"
        )
    start = 0
    for number, end in enumerate(offsets):
        if end > size:
            raise ValueError(
                f"offsets[{number}] is {end}, but data has {size} bytes: document "
                f"{max(number - 1, 0)} exceeds it; pass offsets in bytes of this data"
            )
        if end < start:
            raise ValueError(
                f"offsets[{number}] is {end}, below offsets[{number - 1}], which is {start}: "
                f"document {number - 1} ends before it begins; pass offsets that never decrease"
            )
        start = end
    return _decoded(data, offsets)


def _decoded(data: memoryview, offsets: memoryview) -> Iterator[str]:
    for number, (start, end) in enumerate(pairwise(offsets)):
        try:
            text = str(data[start:end], "utf-8")
        except UnicodeDecodeError as error:
            error.add_note(f"in document {number}, which begins at byte {start} of data")
            raise
        yield text
