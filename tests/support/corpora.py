"""Files of every input format, with the documents that they hold."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

pa = pytest.importorskip("pyarrow")
zstandard = pytest.importorskip("zstandard")
pq = pytest.importorskip("pyarrow.parquet")
ipc = pytest.importorskip("pyarrow.ipc")

TEXTS = ["ab", "é\r\n", "", " x ", "🙂" * 300, "l\nm", "<|endoftext|>", "你好" * 40]


def jsonl(texts: Sequence[str], field: str = "text") -> bytes:
    """Return JSON Lines; every other line has characters outside ASCII as escapes."""
    lines = (
        json.dumps({"id": number, field: text, "n": {"text": "no"}}, ensure_ascii=number % 2 == 0)
        for number, text in enumerate(texts)
    )
    return "".join(line + "\n" for line in lines).encode()


def table(texts: Sequence[str | None], kind: object = None) -> object:
    """Return an Arrow table with a text column."""
    column = pa.array(texts, pa.string() if kind is None else kind)
    return pa.table({"id": range(len(texts)), "text": column})


def parquet(texts: Sequence[str | None], row_group: int = 3, kind: object = None) -> bytes:
    """Return a Parquet file."""
    file = io.BytesIO()
    pq.write_table(table(texts, kind), file, row_group_size=row_group, compression="zstd")
    return file.getvalue()


def arrow(
    texts: Sequence[str | None], batch: int = 3, is_file: bool = True, kind: object = None
) -> bytes:
    """Return an Arrow file or stream."""
    file = io.BytesIO()
    of_texts = table(texts, kind)
    new = ipc.new_file if is_file else ipc.new_stream
    with new(file, of_texts.schema) as writer:  # type: ignore[attr-defined]
        writer.write_table(of_texts, batch)
    return file.getvalue()


def zstd(data: bytes) -> bytes:
    """Return two Zstandard frames with checksums and a skippable frame between them."""
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    skippable = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    half = len(data) // 2
    return bytes(compressor.compress(data[:half]) + skippable + compressor.compress(data[half:]))


def gz(data: bytes) -> bytes:
    """Return two gzip members."""
    half = len(data) // 2
    return gzip.compress(data[:half], 1) + gzip.compress(data[half:], 1)


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gz, ".zst": zstd}


def documents(data: memoryview, offsets: memoryview) -> list[str]:
    """Return the documents of a batch."""
    return [str(data[start:end], "utf-8") for start, end in pairwise(offsets)]
