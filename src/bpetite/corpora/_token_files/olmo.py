"""OLMo and dolma: `.npy` has raw ids, without NumPy's header; `.csv.gz` has a row a document.

A row: first id, end, name of the document, path of its source, line in the source from 1.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from bpetite.corpora._new_files import FileObject, NewFiles
from bpetite.corpora._token_files.raw import documents, mapped_ids
from bpetite.corpora._token_files.token_format import (
    Mapped,
    Shard,
    ShardWriter,
    TokenBlock,
    TokenFormat,
    Tokens,
)

_BLOCK_DOCUMENTS = 1 << 14


class Writer(ShardWriter):
    """Writes ids and compressed rows at once."""

    def __init__(self, shard: Shard, files: NewFiles) -> None:
        self._tokens = files.create(f"{shard.name}.npy")
        self._table = files.create(f"{shard.name}.csv.gz")
        # Without a time and a name in its header, equal rows give equal files.
        self._gzip = gzip.GzipFile("", "wb", 6, FileObject(self._table), mtime=0)
        self._text = io.TextIOWrapper(self._gzip, "utf-8", "surrogateescape", newline="")
        self._rows = csv.writer(self._text)
        self._count = 0

    def write(self, tokens: Tokens) -> None:
        self._tokens.write(tokens.ids)
        bounds = pairwise(tokens.offsets)
        self._rows.writerows(
            (self._count + start, self._count + end, f"{source}:{row + 1}", source, row + 1)
            for (start, end), row, source in zip(bounds, tokens.rows, tokens.sources, strict=True)
        )
        self._count += len(tokens.ids)

    def close(self) -> None:
        self._text.close()
        self._table.close()
        self._tokens.close()


class Olmo(TokenFormat):
    """OLMo's trainer finds where a document ends by the end-of-text token."""

    name = "olmo"
    extension = ".npy"
    stores_boundaries = False
    keeps_empty = False
    max_shard_ids = 1 << 30

    def writer(self, shard: Shard, files: NewFiles) -> ShardWriter:
        return Writer(shard, files)

    def read(self, folder: Path, shard: Shard) -> Iterator[TokenBlock]:
        path = folder / f"{shard.name}.csv.gz"
        ids = mapped_ids(folder / f"{shard.name}.npy", shard.dtype)
        return documents(ids, path, _offsets(path))

    def mapped(self, folder: Path, shard: Shard) -> Mapped:
        return Mapped(mapped_ids(folder / f"{shard.name}.npy", shard.dtype), None)


def _offsets(path: Path) -> Iterator[Sequence[int]]:
    offsets = [0]
    try:
        with gzip.open(path, "rt", encoding="utf-8", errors="surrogateescape", newline="") as file:
            for start, end, *_ in csv.reader(file):
                if int(start) != offsets[-1]:
                    raise ValueError(f"a document begins at {start}, not at {offsets[-1]}")
                offsets.append(int(end))
                if len(offsets) > _BLOCK_DOCUMENTS:
                    yield offsets
                    offsets = offsets[-1:]
    except (OSError, EOFError, ValueError, csv.Error) as error:
        raise ValueError(f"{path}: {error}") from None
    yield offsets
