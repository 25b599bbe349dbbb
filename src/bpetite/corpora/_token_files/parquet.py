"""Parquet, for `datasets` and everything that reads Arrow: a column `input_ids` of lists of ids."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from bpetite.corpora._extra import import_extra
from bpetite.corpora._new_files import FileObject, NewFiles
from bpetite.corpora._token_files.datatrove import Datatrove
from bpetite.corpora._token_files.token_format import (
    Mapped,
    Shard,
    ShardWriter,
    TokenBlock,
    TokenFormat,
    Tokens,
)

COPIES = ".bpetite/opened"
"""Where copies of Parquet files lie that can be mapped."""

ROW_GROUP_BYTES = 32 << 20
"""The bytes of ids in a row group: readers of single rows load a whole group."""


class Writer(ShardWriter):
    """Collects ids for a row group, and writes it."""

    def __init__(self, shard: Shard, files: NewFiles) -> None:
        arrow, parquet = _modules()
        self._arrow = arrow
        self._type = arrow.list_(arrow.field("item", arrow.type_for_alias(shard.dtype)))
        self._schema = arrow.schema([arrow.field("input_ids", self._type, nullable=False)])
        self._file = files.create(f"{shard.name}.parquet")
        self._writer = parquet.ParquetWriter(
            FileObject(self._file),
            self._schema,
            compression="zstd",
            use_dictionary=False,
            write_statistics=False,
        )
        self._batches: list[Any] = []
        self._bytes = 0

    def write(self, tokens: Tokens) -> None:
        arrow = self._arrow
        offsets = arrow.py_buffer(array("i", tokens.offsets))
        ids = arrow.py_buffer(tokens.ids)
        count = len(tokens.offsets) - 1
        values = arrow.Array.from_buffers(self._type.value_type, len(tokens.ids), [None, ids])
        lists = arrow.Array.from_buffers(self._type, count, [None, offsets], children=[values])
        self._batches.append(arrow.record_batch([lists], schema=self._schema))
        self._bytes += tokens.ids.nbytes
        if self._bytes >= ROW_GROUP_BYTES:
            self._write_row_group()

    def close(self) -> None:
        if self._batches:
            self._write_row_group()
        self._writer.close()
        self._file.close()

    def _write_row_group(self) -> None:
        table = self._arrow.Table.from_batches(self._batches)
        self._writer.write_table(table, row_group_size=len(table))
        self._batches, self._bytes = [], 0


class Parquet(TokenFormat):
    """Each row is a document."""

    name = "parquet"
    extension = ".parquet"
    stores_boundaries = True
    keeps_empty = True

    def writer(self, shard: Shard, files: NewFiles) -> ShardWriter:
        return Writer(shard, files)

    def read(self, folder: Path, shard: Shard) -> Iterator[TokenBlock]:
        arrow, parquet = _modules()
        path = folder / f"{shard.name}.parquet"
        try:
            with (
                arrow.OSFile(os.fsencode(path)) as stored,  # a path need not be UTF-8
                parquet.ParquetFile(stored, pre_buffer=False) as file,  # in little memory
            ):
                kind = file.schema_arrow.field("input_ids").type
                is_list = arrow.types.is_list(kind) or arrow.types.is_large_list(kind)
                if not is_list or str(kind.value_type) != shard.dtype:
                    raise ValueError(f"{path}: input_ids is {kind}, not a list of {shard.dtype}")
                for batch in file.iter_batches(columns=["input_ids"]):
                    column = batch.column(0)
                    offsets = column.offsets.to_pylist()
                    ids = column.values.slice(offsets[0], offsets[-1] - offsets[0])
                    if column.null_count or ids.null_count:
                        raise ValueError(f"{path}: a document or an id is null")
                    yield TokenBlock(_integers(ids), [offset - offsets[0] for offset in offsets])
        except MemoryError:  # pyarrow's is an ArrowException too
            raise
        except (OSError, arrow.ArrowException, KeyError) as error:
            raise ValueError(f"{path}: {error}") from None

    def mapped(self, folder: Path, shard: Shard) -> Mapped:
        """Map a copy of the shard as datatrove has it, which the first call makes.

        The name of a copy has the size and the time of its file, so a new file has a new copy.
        """
        status = (folder / f"{shard.name}.parquet").stat()
        copy = shard._replace(name=f"{COPIES}/{shard.name}-{status.st_size}-{status.st_mtime_ns}")
        if not (folder / f"{copy.name}.ds.index").exists():
            files = NewFiles(folder)
            try:
                writer = Datatrove().writer(copy, files)
                for ids, offsets in self.read(folder, shard):
                    writer.write(Tokens(ids, offsets or (), (), ()))
                writer.close()
                files.put_in_place()
            finally:
                files.discard()
        return Datatrove().mapped(folder, copy)


def _modules() -> tuple[Any, Any]:
    arrow = import_extra("pyarrow", "a Parquet file")
    return arrow, import_extra("pyarrow.parquet", "a Parquet file")


def _integers(ids: Any) -> memoryview:
    """Return the items of an Arrow array without numpy, which may not be there."""
    _, data = ids.buffers()
    typecode: Literal["H", "I"] = "H" if ids.type.bit_width == 16 else "I"
    if data is None:  # there are no items
        return memoryview(array(typecode))
    items = memoryview(data).cast("B").cast(typecode)
    return items[ids.offset : ids.offset + len(ids)]
