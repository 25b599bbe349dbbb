"""Where bytes are not UTF-8."""

from __future__ import annotations

import codecs
from array import array

from bpetite._corpus import utf8_fault
from bpetite._engine import ENGINE


def utf8_error(data: memoryview | bytes, offset: int = 0) -> tuple[int, str] | None:
    r"""Return the offset and a description of the first byte that is not UTF-8; None if all is.

    `offset` is the position of `data` in its file.

    >>> utf8_error(b"ab\xff")
    (2, '0xff: invalid start byte')
    """
    if ENGINE.are_utf8(data, memoryview(array("Q", (0, len(data))))):
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
