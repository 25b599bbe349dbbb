r"""Megatron and NeMo: `.bin` has the ids, `.idx` the length and the position of each document.

The index: magic, version and dtype, two counts, then three arrays in a row.

    "MMIDIDX\0\0"  1: u64  dtype code: u8  documents: u64  documents + 1: u64
    i32 x documents: ids of each      i64 x documents: byte offset of each
    i64 x (documents + 1): 0, 1, 2, ... since each sequence is a document of its own
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import sub
from pathlib import Path

from bpetite.corpora._new_files import NewFiles, in_file_order
from bpetite.corpora._token_files.raw import documents, mapped, mapped_ids
from bpetite.corpora._token_files.token_format import (
    ITEM_SIZES,
    Mapped,
    Shard,
    ShardWriter,
    TokenBlock,
    TokenFormat,
    Tokens,
)

_HEADER = struct.Struct("<9sQBQQ")
_MAGIC = b"MMIDIDX\0\0"
_DTYPE_CODES = {"int32": 4, "uint16": 8}
_BLOCK = 1 << 16  # documents

MIN_INT32_VOCAB_SIZE = 65_500
"""From this size on, Megatron's own tools write int32, though uint16 would hold all ids."""


class Writer(ShardWriter):
    """Writes ids at once; the lengths wait in a file until their number is known."""

    def __init__(self, shard: Shard, files: NewFiles) -> None:
        self._shard = shard
        self._bin = files.create(f"{shard.name}.bin")
        self._idx = files.create(f"{shard.name}.idx")
        self._lengths = files.scratch()
        self._documents = 0

    def write(self, tokens: Tokens) -> None:
        self._bin.write(tokens.ids)
        self._lengths.write(array("i", map(sub, tokens.offsets[1:], tokens.offsets)))
        self._documents += len(tokens.offsets) - 1

    def close(self) -> None:
        count = self._documents
        code = _DTYPE_CODES[self._shard.dtype]
        self._idx.write(_HEADER.pack(_MAGIC, 1, code, count, count + 1))
        for block in self._blocks():
            self._idx.write(block)
        offset = 0
        bytes_of = ITEM_SIZES[self._shard.dtype].__mul__
        for block in self._blocks():
            *starts, offset = accumulate(map(bytes_of, block), initial=offset)
            self._idx.write(array("q", starts))
        for start in range(0, count + 1, _BLOCK):
            numbers = array("q", range(start, min(start + _BLOCK, count + 1)))
            self._idx.write(numbers)
        for file in (self._bin, self._idx, self._lengths):
            file.close()

    def _blocks(self) -> Iterator[array[int]]:
        self._lengths.seek(0)
        while block := self._lengths.read(4 * _BLOCK):
            yield array("i", block)


class Megatron(TokenFormat):
    """Its readers accept a document without ids."""

    name = "megatron"
    extension = ".bin"
    stores_boundaries = True
    keeps_empty = True

    def dtype(self, vocab_size: int) -> str:
        return "uint16" if vocab_size < MIN_INT32_VOCAB_SIZE else "int32"

    def writer(self, shard: Shard, files: NewFiles) -> ShardWriter:
        return Writer(shard, files)

    def read(self, folder: Path, shard: Shard) -> Iterator[TokenBlock]:
        path = folder / f"{shard.name}.idx"
        ids = mapped_ids(folder / f"{shard.name}.bin", shard.dtype)
        return documents(ids, path, _offsets(path, shard))

    def mapped(self, folder: Path, shard: Shard) -> Mapped:
        ids = mapped_ids(folder / f"{shard.name}.bin", shard.dtype)
        _, positions, _ = _index(folder / f"{shard.name}.idx", shard)
        return Mapped(ids, positions.cast("q")[1:], ITEM_SIZES[shard.dtype])


def _index(path: Path, shard: Shard) -> tuple[memoryview, memoryview, memoryview]:
    data = mapped(path)
    if len(data) < _HEADER.size:
        raise ValueError(f"{path}: cut short within its header")
    magic, version, code, count, boundaries = _HEADER.unpack(data[: _HEADER.size])
    if (magic, version, code, boundaries) != (_MAGIC, 1, _DTYPE_CODES[shard.dtype], count + 1):
        raise ValueError(f"{path}: not the header of an index of {shard.dtype} ids")
    if len(data) != _HEADER.size + 4 * count + 8 * count + 8 * (count + 1):
        raise ValueError(f"{path}: its size does not fit {count} documents")
    lengths, rest = data[_HEADER.size :][: 4 * count], data[_HEADER.size + 4 * count :]
    return lengths, rest[: 8 * count], rest[8 * count :]


def _offsets(path: Path, shard: Shard) -> Iterator[Sequence[int]]:
    all_lengths, all_pointers, all_numbers = _index(path, shard)
    count = len(all_lengths) // 4
    end = 0
    for first in range(0, count, _BLOCK):
        lengths = in_file_order(all_lengths[4 * first : 4 * (first + _BLOCK)].cast("i"))
        offsets = [*accumulate(lengths, initial=end)]
        end = offsets[-1]
        pointers = in_file_order(all_pointers[8 * first : 8 * (first + _BLOCK)].cast("q"))
        numbers = in_file_order(all_numbers[8 * first :][: 8 * (len(lengths) + 1)].cast("q"))
        if pointers.tolist() != [offset * ITEM_SIZES[shard.dtype] for offset in offsets[:-1]]:
            raise ValueError(f"{path}: its positions do not follow from its lengths")
        if numbers.tolist() != [*range(first, first + len(lengths) + 1)]:
            raise ValueError(f"{path}: its sequences are not one for each document")
        yield offsets
