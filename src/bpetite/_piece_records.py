r"""Piece counts as bytes: one record for each distinct piece, in the order of the pieces' bytes.

A record is the length of the piece in bytes, the piece in UTF-8, and its count. Length and count
are numbers in LEB128: seven bits in a byte, the lowest first, and a set upper bit if more follow.
Each number has one spelling, so equal counts are equal bytes.

>>> write_records({"b": 200, "ab": 3})
b'\x02ab\x03\x01b\xc8\x01'
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import add
from typing import NamedTuple

MAX_COUNT = 2**64 - 1
"""A count has 64 bits. So has the number of bytes of all counted text."""

MAX_PIECE_BYTES = 2**31 - 1


class RecordError(ValueError):
    """An invalid record, at an offset in its run."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


class Totals(NamedTuple):
    """Sums over records."""

    distinct_pieces: int
    pieces: int
    text_bytes: int
    dropped_pieces: int
    """The occurrences of pieces that were too rare."""


NO_TOTALS = Totals(0, 0, 0, 0)


def sum_totals(totals: Totals, more: Totals) -> Totals:
    return Totals(*map(add, totals, more))


def write_records(counts: Mapping[str, int]) -> bytes:
    records = bytearray()
    for piece in sorted(counts):  # the order of code points is the order of bytes in UTF-8
        data = piece.encode("utf-8")
        records += number_bytes(len(data)) + data + number_bytes(counts[piece])
    return bytes(records)


def read_records(records: bytes) -> Iterator[tuple[str, int]]:
    """Yield the pieces and counts of records that are valid."""
    start = 0
    while start < len(records):
        piece, count, start = _record(records, start)
        yield piece.decode("utf-8"), count


def counts_of(records: bytes) -> Counter[str]:
    return Counter(dict(read_records(records)))


def merge_records(runs: Sequence[tuple[bytes, int]], min_count: int) -> tuple[bytes, Totals]:
    r"""Add up the counts of equal pieces of several runs of sorted records, each with a weight.

    A piece with a sum below `min_count` is dropped.

    >>> merge_records([(b"\x01a\x01", 2), (b"\x01a\x03\x01b\x01", 1)], min_count=2)[0]
    b'\x01a\x05'

    Raises RecordError for records that are not valid or not sorted. Raises OverflowError, with
    the piece, for a count or a number of bytes above 64 bits.
    """
    records = bytearray()
    distinct = pieces = text_bytes = dropped = 0
    # The next record of each run: its piece, the number of the run, its count and its end.
    waiting: list[tuple[bytes, int, int, int]] = []
    used = [(number, 0) for number in range(len(runs))]
    piece = b""
    while True:
        for number, start in used:
            if start < len(runs[number][0]):
                new, count, end = _checked_record(runs[number][0], start, piece)
                heapq.heappush(waiting, (new, number, count, end))
        if not waiting:
            break
        piece, total, used = waiting[0][0], 0, []
        while waiting and waiting[0][0] == piece:
            _, number, count, end = heapq.heappop(waiting)
            total += count * runs[number][1]
            used.append((number, end))
        if total > MAX_COUNT:
            raise OverflowError(f"the count of the piece {shown(piece)} exceeds 64 bits")
        if total < min_count:
            dropped += total
            continue
        records += number_bytes(len(piece)) + piece + number_bytes(total)
        distinct += 1
        pieces += total
        text_bytes += total * len(piece)
        if text_bytes > MAX_COUNT:
            raise OverflowError(
                f"the number of bytes of all pieces exceeds 64 bits at the piece {shown(piece)}"
            )
    return bytes(records), Totals(distinct, pieces, text_bytes, dropped)


def partition_records(records: bytes, count: int) -> list[tuple[bytes, Totals]]:
    r"""Divide valid records by a hash of their pieces; return each part with its totals.

    >>> [part for part, _ in partition_records(b"\x01a\x03\x02to\x01", 2)]
    [b'\x01a\x03', b'\x02to\x01']
    """
    parts = [bytearray() for _ in range(count)]
    totals = [NO_TOTALS] * count
    start = 0
    while start < len(records):
        piece, number, end = _record(records, start)
        index = _piece_hash(piece) % count
        parts[index] += records[start:end]
        totals[index] = sum_totals(totals[index], Totals(1, number, number * len(piece), 0))
        start = end
    return [(bytes(part), total) for part, total in zip(parts, totals, strict=True)]


def _piece_hash(piece: bytes) -> int:
    """Return FNV-1a, folded to 32 bits. It is the same on every machine."""
    value = 0xCBF29CE484222325
    for byte in piece:
        value = (value ^ byte) * 0x100000001B3 & MAX_COUNT
    return (value >> 32 ^ value) & 0xFFFFFFFF


def _checked_record(data: bytes, start: int, last_piece: bytes) -> tuple[bytes, int, int]:
    """Return what `_record` returns. Raises RecordError unless the piece follows `last_piece`."""
    try:
        record = _record(data, start)
    except IndexError:
        raise RecordError(start, "the record is cut off") from None
    except UnicodeDecodeError:
        raise RecordError(start, "the piece is not UTF-8") from None
    except ValueError as error:
        raise RecordError(start, str(error)) from None
    if record[0] <= last_piece:
        raise RecordError(start, "the pieces are not sorted")
    return record


def _record(data: bytes, start: int) -> tuple[bytes, int, int]:
    """Return the piece and the count of a record, and where it ends.

    Raises IndexError if the data end before, ValueError if the record is not valid.
    """
    length, start = _number(data, start)
    if not 0 < length <= MAX_PIECE_BYTES:
        raise ValueError(f"a piece has {length} bytes")
    end = start + length
    count, next_start = _number(data, end)
    if count == 0:
        raise ValueError("the count is 0")
    piece = data[start:end]
    piece.decode("utf-8")
    return piece, count, next_start


def _number(data: bytes, start: int) -> tuple[int, int]:
    """Return a number and where it ends. Raises what `_record` raises."""
    value = shift = 0
    while (byte := data[start]) >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        start += 1
        if shift > 63:
            raise ValueError("a number exceeds 64 bits")
    value |= byte << shift
    if value > MAX_COUNT:
        raise ValueError("a number exceeds 64 bits")
    if shift and byte == 0:
        raise ValueError("a number has more bytes than it needs")
    return value, start + 1


def number_bytes(value: int) -> bytes:
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def shown(piece: bytes) -> str:
    """Return a piece for a message, cut if it is long."""
    text = piece.decode("utf-8")
    return repr(text if len(text) <= 40 else text[:40] + "…")
