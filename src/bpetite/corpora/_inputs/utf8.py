"""Where bytes are not UTF-8."""

from __future__ import annotations

import codecs
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from bpetite._corpus import utf8_fault
from bpetite._engine.chosen import NATIVE

if TYPE_CHECKING:
    from bpetite._engine.contract import Block


def are_utf8_in_python(data: Block, offsets: memoryview) -> bool:
    """Return whether each document `data[offsets[i] : offsets[i + 1]]` is UTF-8.

    The offsets have the format "Q". They ascend and are in the data.
    """
    view = memoryview(data)[offsets[0] : offsets[-1]]
    try:
        str(view, "utf-8")
    except UnicodeDecodeError:
        return False
    # The whole is UTF-8, so its documents are, unless one ends inside a character.
    first, size = offsets[0], len(view)
    return all(at - first == size or view[at - first] & 0xC0 != 0x80 for at in offsets)


are_utf8: Callable[[Block, memoryview], bool] = (
    are_utf8_in_python if NATIVE is None else NATIVE.are_utf8
)


def utf8_error(data: memoryview | bytes, offset: int = 0) -> tuple[int, str] | None:
    r"""Return the offset and a description of the first byte that is not UTF-8; None if all is.

    `offset` is the position of `data` in its file.

    >>> utf8_error(b"ab\xff")
    (2, '0xff: invalid start byte')
    """
    if are_utf8(data, memoryview(array("Q", (0, len(data))))):
        return None
    try:
        codecs.utf_8_decode(data, "strict", True)
    except UnicodeDecodeError as error:
        return error.start, utf8_fault(error, offset)
    return None


def unfinished_bytes(data: bytes) -> int:
    r"""Return the number of bytes at the end that may begin a character which goes on.

    >>> unfinished_bytes("aé".encode()[:2]), unfinished_bytes("aé".encode())
    (1, 0)
    """
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            needed = 2 + (byte >= 0xE0) + (byte >= 0xF0)
            return length if length < needed else 0
        if byte < 0x80:
            return 0
    return 0
