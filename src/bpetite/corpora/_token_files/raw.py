"""Files of ids: a writer and a format without a header, and readers that can skip one."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bpetite.corpora._new_files import NewFile, NewFiles, in_file_order
from bpetite.corpora._token_files.token_format import (
    ITEM_SIZES,
    Mapped,
    Shard,
    ShardWriter,
    TokenBlock,
    TokenFormat,
    Tokens,
)

_BLOCK_IDS = 1 << 20

KEEPS_HANDLES = sys.version_info < (3, 13) and os.name != "nt"
"""Whether a mapped file counts as an open one, of which the system allows some hundreds."""

_NO_HANDLE: dict[str, Any] = {} if KEEPS_HANDLES or os.name == "nt" else {"trackfd": False}


class RawWriter(ShardWriter):
    def __init__(self, file: NewFile) -> None:
        self.file = file

    def write(self, tokens: Tokens) -> None:
        self.file.write(tokens.ids)

    def close(self) -> None:
        self.file.close()


class RawFormat(TokenFormat):
    """Ids in a file without stored boundaries."""

    stores_boundaries = False
    keeps_empty = False

    def writer(self, shard: Shard, files: NewFiles) -> ShardWriter:
        return RawWriter(files.create(shard.name + self.extension))

    def read(self, folder: Path, shard: Shard) -> Iterator[TokenBlock]:
        return blocks(mapped_ids(folder / (shard.name + self.extension), shard.dtype))

    def mapped(self, folder: Path, shard: Shard) -> Mapped:
        return Mapped(mapped_ids(folder / (shard.name + self.extension), shard.dtype), None)


def blocks(ids: memoryview) -> Iterator[TokenBlock]:
    """Yield ids of a file without boundaries, a bounded number at a time."""
    for start in range(0, len(ids), _BLOCK_IDS):
        yield TokenBlock(in_file_order(ids[start : start + _BLOCK_IDS]), None)


def documents(
    ids: memoryview, path: Path, batches: Iterable[Sequence[int]]
) -> Iterator[TokenBlock]:
    """Yield the ids of documents by their offsets in all ids of a file, which come in batches."""
    end = 0
    for offsets in batches:
        start, end = offsets[0], offsets[-1]
        if end > len(ids) or any(first > last for first, last in pairwise(offsets)):
            raise ValueError(f"{path}: its offsets do not fit the {len(ids)} ids of the shard")
        yield TokenBlock(in_file_order(ids[start:end]), [offset - start for offset in offsets])
    if end != len(ids):
        raise ValueError(f"{path}: its documents end at id {end}, not at {len(ids)}")


def mapped_ids(path: Path, dtype: str, header_bytes: int = 0) -> memoryview:
    """Map the ids that follow the header of a file, in the file's byte order."""
    data = mapped(path)[header_bytes:]
    if len(data) % ITEM_SIZES[dtype]:
        raise ValueError(f"{path}: its size does not fit {dtype} ids")
    return data.cast("H" if dtype == "uint16" else "I")


def mapped(path: Path) -> memoryview:
    if os.path.getsize(path) == 0:
        return memoryview(b"")
    with open(path, "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, **_NO_HANDLE))
