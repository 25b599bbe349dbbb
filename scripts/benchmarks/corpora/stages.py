"""The stages of a corpus, each alone and on the whole file: the limits of all of them together.

Each calls the library or the engine as the package does, and does nothing else: it makes no objects
for documents, checks no manifest, and computes no hashes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bpetite import PieceCounts, Tokenizer
from bpetite._corpus import Batch
from bpetite._engine import ENGINE  # no public name has the stages alone
from bpetite.corpora import Corpus

BLOCK_BYTES = 1 << 19
PARQUET_BUFFER_BYTES = 1 << 16
_COMPRESSED_BYTES = 1 << 18
_GZIP_WINDOW_BITS = 31


class Seconds(NamedTuple):
    """What a stage took."""

    cpu: float
    wall: float

    def __add__(self, other: object) -> Seconds:
        assert isinstance(other, Seconds)
        return Seconds(self.cpu + other.cpu, self.wall + other.wall)


def since(start: Seconds) -> Seconds:
    """Return the seconds since a moment."""
    return Seconds(time.process_time() - start.cpu, time.perf_counter() - start.wall)


def now() -> Seconds:
    """Return this moment."""
    return since(Seconds(0, 0))


class Retained:
    """A corpus whose batches are in memory."""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches

    def batches(self) -> list[Batch]:
        """Return all documents."""
        return self._batches


def reading(path: Path) -> tuple[dict[str, Seconds], Retained]:
    """Measure the stages before encoding; return their seconds, and the documents."""
    found: dict[str, Seconds] = {}
    if path.suffix == ".parquet":
        return {"decompress": _decode_parquet(path)}, Retained([*Corpus(path).batches()])
    found["read"] = _read(path)
    lines = data = path.read_bytes()
    if path.suffix != ".jsonl":
        start = now()
        for _ in _decompressed(path.suffix, data):
            pass
        found["decompress"] = since(start)
        lines = b"".join(map(bytes, _decompressed(path.suffix, data)))
    del data
    start = now()
    for _ in _scanned(lines):
        pass
    found["scan"] = since(start)
    return found, Retained([*_scanned(lines)])


def tokenizing(path: Path, model: Path, end: str, output: Path) -> dict[str, Seconds]:
    """Measure each stage of `bpetite tokenize` once."""
    found, corpus = reading(path)
    tokenizer = Tokenizer.load(model)
    dtype: Literal["uint16", "uint32"] = "uint16" if max(tokenizer.ids) < 1 << 16 else "uint32"
    encoding = writing = Seconds(0, 0)
    with output.open("wb", buffering=0) as file:
        for data, offsets, _ in corpus.batches():
            start = now()
            ids, _ = tokenizer.encode_offsets(data, offsets, dtype=dtype, end=end)
            encoding += since(start)
            start = now()
            file.write(ids)
            writing += since(start)
        start = now()
        os.fsync(file.fileno())
        writing += since(start)
    output.unlink()
    return found | {"encode": encoding, "write": writing}


def counting(path: Path, output: Path) -> dict[str, Seconds]:
    """Measure each stage of `bpetite count-pieces` once."""
    return _learning(path, output, "count", partial(PieceCounts.from_corpus, threads=1))


def training(path: Path, vocab_size: int, output: Path) -> dict[str, Seconds]:
    """Measure each stage of `bpetite train` once."""
    train = partial(Tokenizer.train, vocab_size=vocab_size, threads=1)
    return _learning(path, output, "train", train)


def count_text(path: Path, model: Path) -> dict[str, Seconds]:
    """Measure `Tokenizer.count` of a text."""
    text = path.read_bytes().decode("utf-8")
    tokenizer = Tokenizer.load(model)
    start = now()
    tokenizer.count(text)
    return {"count": since(start)}


def _learning(
    path: Path, output: Path, stage: str, learn: Callable[[Retained], PieceCounts | Tokenizer]
) -> dict[str, Seconds]:
    found, corpus = reading(path)
    start = now()
    learnt = learn(corpus)
    found[stage] = since(start)
    start = now()
    learnt.save(output, overwrite=True)
    found["write"] = since(start)
    output.unlink()
    return found


def _read(path: Path) -> Seconds:
    buffer = bytearray(BLOCK_BYTES)
    with path.open("rb", buffering=0) as file:
        start = now()
        while file.readinto(buffer):
            pass
        return since(start)


def _decompressed(suffix: str, data: bytes) -> Iterator[bytes | memoryview]:
    """Yield decompressed blocks, each valid until the next, by the package's libraries."""
    if suffix == ".gz":
        yield from _gunzipped(data)
        return
    stream = (
        import_module("zstandard")
        .ZstdDecompressor()
        .stream_reader(BytesIO(data), read_size=_COMPRESSED_BYTES, read_across_frames=True)
    )
    view = memoryview(bytearray(BLOCK_BYTES))
    while count := stream.readinto(view):
        yield view[:count]


def _gunzipped(data: bytes) -> Iterator[bytes]:
    member = import_module("isal.isal_zlib").decompressobj(wbits=_GZIP_WINDOW_BITS)
    view = memoryview(data)
    for start in range(0, len(data), _COMPRESSED_BYTES):
        compressed: Any = view[start : start + _COMPRESSED_BYTES]
        while compressed:
            yield member.decompress(compressed, BLOCK_BYTES)
            compressed = member.unconsumed_tail


def _scanned(lines: bytes) -> Iterator[Batch]:
    scanner = ENGINE.make_field_scanner("text")
    view = memoryview(lines)
    for start in range(0, len(lines), BLOCK_BYTES):
        is_last = start + BLOCK_BYTES >= len(lines)
        data, offsets, rows, _ = scanner.feed(view[start : start + BLOCK_BYTES], is_last)
        yield Batch(data, offsets, rows)


def _decode_parquet(path: Path) -> Seconds:
    """Measure pyarrow alone, with the package's buffer and the row counts of its batches."""
    parquet = import_module("pyarrow.parquet")
    with parquet.ParquetFile(path, pre_buffer=False, buffer_size=PARQUET_BUFFER_BYTES) as file:
        column = file.schema_arrow.get_field_index("text")
        start = now()
        for group in range(file.num_row_groups):
            metadata = file.metadata.row_group(group)
            size = metadata.column(column).total_uncompressed_size
            rows = BLOCK_BYTES * metadata.num_rows // size
            for _ in file.iter_batches(rows, [group], columns=["text"], use_threads=False):
                pass
        return since(start)
