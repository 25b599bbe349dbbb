"""llm.c and modded-nanogpt: a header of 256 integers, then ids; documents go on across files.

The header begins with a magic number, a version and the number of ids:

    uint16   20240520, 1   llm.c, modded-nanogpt
    uint32   20240801, 7   llm.c's Python reader for Llama 3
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from bpetite.corpora._new_files import NewFile, NewFiles
from bpetite.corpora._token_files.raw import blocks, mapped, mapped_ids
from bpetite.corpora._token_files.token_format import (
    Mapped,
    Shard,
    ShardWriter,
    TokenBlock,
    TokenFormat,
    Tokens,
)

HEADER_BYTES = 1024
MAX_FILE_BYTES = (1 << 31) - 1
"""llm.c seeks by a signed integer of 32 bits."""

_MAGIC_AND_VERSION = {"uint16": (20240520, 1), "uint32": (20240801, 7)}


def header(dtype: str, count: int) -> bytes:
    return struct.pack("<3i", *_MAGIC_AND_VERSION[dtype], count).ljust(HEADER_BYTES, b"\0")


class Writer(ShardWriter):
    """Writes the header at the end, when the number of ids is known."""

    def __init__(self, shard: Shard, file: NewFile) -> None:
        self._dtype = shard.dtype
        self._file = file
        self._count = 0
        file.write(bytes(HEADER_BYTES))

    def write(self, tokens: Tokens) -> None:
        self._count += len(tokens.ids)
        self._file.write(tokens.ids)

    def close(self) -> None:
        self._file.replace_start(header(self._dtype, self._count))
        self._file.close()


class Llmc(TokenFormat):
    """Each document begins with the end-of-text token, which modded-nanogpt aligns rows by."""

    name = "llmc"
    extension = ".bin"
    stores_boundaries = False
    keeps_empty = False
    begins_documents = True
    cuts_documents = True
    max_shard_ids = (MAX_FILE_BYTES - HEADER_BYTES) // 4

    def writer(self, shard: Shard, files: NewFiles) -> ShardWriter:
        return Writer(shard, files.create(shard.name + self.extension))

    def read(self, folder: Path, shard: Shard) -> Iterator[TokenBlock]:
        return blocks(self.mapped(folder, shard).ids)

    def mapped(self, folder: Path, shard: Shard) -> Mapped:
        path = folder / (shard.name + self.extension)
        ids = mapped_ids(path, shard.dtype, HEADER_BYTES)
        if mapped(path)[:HEADER_BYTES] != header(shard.dtype, len(ids)):
            raise ValueError(f"{path}: not the header of {len(ids)} ids of {shard.dtype}")
        return Mapped(ids, None)
