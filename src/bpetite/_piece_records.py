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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import add
from typing import NamedTuple

MAX_COUNT = 2**64 - 1
"""A count has 64 bits. So has the number of bytes of all counted text."""

MAX_PIECE_BYTES = 2**31 - 1


class RecordError(ValueError):
    """A record that is wrong.

    `block` is the index of its block, `offset` the offset of the record in the block.
    """

    def __init__(self, block: int, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.block = block
        self.offset = offset


class RecordBlock(NamedTuple):
    """Records of one run, which is a sequence of sorted records in several blocks."""

    data: bytes
    start: int
    """Where the first record begins that is not merged yet."""
    is_last: bool
    """Whether the run ends with this block. If not, its last record may be cut."""
    weight: int
    """The factor of each count."""


class Totals(NamedTuple):
    """Sums over records."""

    distinct_pieces: int
    pieces: int
    text_bytes: int
    dropped_pieces: int
    """The occurrences of pieces that were too rare."""


NO_TOTALS = Totals(0, 0, 0, 0)


def sum_totals(totals: Totals, more: Totals) -> Totals:
    """Return the totals of two sets of records."""
    return Totals(*map(add, totals, more))


class Merged(NamedTuple):
    """The result of a step of merging."""

    records: bytes
    starts: list[int]
    """Of each block: where the first record begins that is not merged yet."""
    hungry: int | None
    """The index of the block without a whole record; None after the last step."""
    last_piece: bytes
    totals: Totals


def write_records(counts: Mapping[str, int]) -> bytes:
    """Return the records of piece counts."""
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
    """Return the counts of records that are valid."""
    return Counter(dict(read_records(records)))


def merge_records(
    blocks: Sequence[RecordBlock], min_count: int, last_piece: bytes, text_bytes: int
) -> Merged:
    r"""Add up the counts of equal pieces of several runs, as far as every run has records.

    `last_piece` and `text_bytes` are those of the steps before: b"" and 0 at first. A piece with a
    sum below `min_count` is dropped. The totals are of this step alone.

    >>> one = RecordBlock(b"\x01a\x01", 0, True, 2)
    >>> other = RecordBlock(b"\x01a\x03\x01b\x01", 0, True, 1)
    >>> merge_records([one, other], min_count=2, last_piece=b"", text_bytes=0).records
    b'\x01a\x05'

    Raises RecordError for records that are not valid or not sorted. Raises OverflowError, with
    the piece, for a count or a number of bytes above 64 bits.
    """
    records = bytearray()
    distinct = pieces = dropped = 0
    first_bytes = text_bytes
    starts = [block.start for block in blocks]
    waiting: list[tuple[bytes, int, int, int]] = []  # piece, block, count, end of the record
    hungry = _wait(range(len(blocks)), blocks, starts, last_piece, waiting)
    while waiting and hungry is None:
        piece = waiting[0][0]
        count = 0
        used = []
        while waiting and waiting[0][0] == piece:
            _, number, part, starts[number] = heapq.heappop(waiting)
            count += part * blocks[number].weight
            used.append(number)
        last_piece = piece
        if count > MAX_COUNT:
            raise OverflowError(f"the count of the piece {shown(piece)} exceeds 64 bits")
        if count < min_count:
            dropped += count
        else:
            records += number_bytes(len(piece)) + piece + number_bytes(count)
            distinct += 1
            pieces += count
            text_bytes += count * len(piece)
        if text_bytes > MAX_COUNT:
            raise OverflowError(
                f"the number of bytes of all pieces exceeds 64 bits at the piece {shown(piece)}"
            )
        hungry = _wait(used, blocks, starts, last_piece, waiting)
    totals = Totals(distinct, pieces, text_bytes - first_bytes, dropped)
    return Merged(bytes(records), starts, hungry, last_piece, totals)


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


def _wait(
    numbers: Iterable[int],
    blocks: Sequence[RecordBlock],
    starts: list[int],
    last_piece: bytes,
    waiting: list[tuple[bytes, int, int, int]],
) -> int | None:
    """Let the next record of some blocks wait; return the first block without a whole one."""
    hungry = None
    for number in numbers:
        data, _, is_last, _ = blocks[number]
        start = starts[number]
        if start == len(data) and is_last:
            continue
        try:
            piece, count, end = _record(data, start)
        except IndexError:
            if is_last:
                raise RecordError(number, start, "the record is cut off") from None
            hungry = number if hungry is None else hungry
            continue
        except UnicodeDecodeError:
            raise RecordError(number, start, "the piece is not UTF-8") from None
        except ValueError as error:
            raise RecordError(number, start, str(error)) from None
        if piece <= last_piece:
            raise RecordError(number, start, "the pieces are not sorted")
        heapq.heappush(waiting, (piece, number, count, end))
    return hungry


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
    """Return a number in LEB128."""
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
