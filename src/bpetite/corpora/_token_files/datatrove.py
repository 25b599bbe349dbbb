"""datatrove and nanotron: `.ds` has the ids, `.ds.index` where each document ends, in ids."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from math import floor, log10
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

_BLOCK_BYTES = 1 << 19


class Writer(ShardWriter):
    """Writes ids and ends at once, and the metadata at the end."""

    def __init__(self, shard: Shard, files: NewFiles) -> None:
        self._shard = shard
        self._tokens = files.create(f"{shard.name}.ds")
        self._metadata = files.create(f"{shard.name}.ds.metadata")
        self._index = files.create(f"{shard.name}.ds.index")
        self._count = 0

    def write(self, tokens: Tokens) -> None:
        self._tokens.write(tokens.ids)
        self._index.write(array("Q", [self._count + end for end in tokens.offsets[1:]]))
        self._count += len(tokens.ids)

    def close(self) -> None:
        name = f"{self._shard.tokenizer_name}|{ITEM_SIZES[self._shard.dtype]}"
        self._metadata.write(f"{name}\n{self._count}\n{rounded(self._count)}".encode())
        for file in (self._tokens, self._metadata, self._index):
            file.close()


def rounded(count: int) -> str:
    """Return a number of tokens with three digits and a prefix, as datatrove's metadata has it.

    >>> rounded(0), rounded(1500), rounded(2_000_000)
    ('0.00 T', '1.50 kT', '2.00 MT')
    """
    exponent = floor(log10(count)) if count else 0
    prefix = ("", "k", "M", "G", "T", "P", "E")[exponent // 3]
    return f"{count / 10 ** (exponent // 3 * 3):.{2 - exponent % 3}f} {prefix}T"


class Datatrove(TokenFormat):
    """A document of no ids would give its reader wrong positions."""

    name = "datatrove"
    extension = ".ds"
    stores_boundaries = True
    keeps_empty = False

    def writer(self, shard: Shard, files: NewFiles) -> ShardWriter:
        return Writer(shard, files)

    def read(self, folder: Path, shard: Shard) -> Iterator[TokenBlock]:
        path = folder / f"{shard.name}.ds.index"
        ids = mapped_ids(folder / f"{shard.name}.ds", shard.dtype)
        return documents(ids, path, _offsets(path))

    def mapped(self, folder: Path, shard: Shard) -> Mapped:
        ids = mapped_ids(folder / f"{shard.name}.ds", shard.dtype)
        return Mapped(ids, _index(folder / f"{shard.name}.ds.index").cast("Q")[:-1])


def _index(path: Path) -> memoryview:
    data = mapped(path)
    if len(data) % 8:
        raise ValueError(f"{path}: its size is no multiple of 8 bytes")
    return data


def _offsets(path: Path) -> Iterator[Sequence[int]]:
    data = _index(path)
    end = 0
    for start in range(0, len(data), _BLOCK_BYTES):
        offsets = [end, *in_file_order(data[start : start + _BLOCK_BYTES].cast("Q"))]
        end = offsets[-1]
        yield offsets
