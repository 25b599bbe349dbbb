"""The files that corpora are measured with: documents of a text, in several formats."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import count, islice
from pathlib import Path
from string import ascii_lowercase
from typing import Any

KINDS = ("jsonl", "jsonl.zst", "parquet")

_MIN_CHARACTERS, _MAX_CHARACTERS = 200, 20_000
_MAX_WORD_CHARACTERS = 100
_ROW_GROUP = 10_000
_BLOCK_ROWS = 1_000


@dataclass(frozen=True)
class Input:
    """A file of documents, one of a single document, and the bytes of text in the first one."""

    path: Path
    one_document: Path
    text_bytes: int


def documents(text: str, size: int) -> Iterator[str]:
    """Yield documents of `size` bytes or a little more, with a mean length of 2,500 characters.

    They are the text, again and again, with other ends in each round. The last word of a document
    is random, so words come that no earlier document has.

    >>> [document[:9] for document in documents("some words " * 500, 4_000)]
    ['some word', 'words som']
    """
    rng = random.Random(7)
    start = done = 0
    while done < size:
        length = int(rng.lognormvariate(7.42, 0.9))
        end = start + min(max(length, _MIN_CHARACTERS), _MAX_CHARACTERS)
        space = text.find(" ", end, end + _MAX_WORD_CHARACTERS)
        end = end if space < 0 else space
        # dolma strips documents; without spaces around them, its ids are those of the others.
        document = f"{text[start:end].strip()} {''.join(rng.choices(ascii_lowercase, k=9))}"
        start = end if end < len(text) else 0
        done += len(document.encode("utf-8"))
        yield document


def write(folder: Path, text: str, size: int, kind: str) -> Input:
    """Write a file of documents, and a file of the first one alone."""
    done = 0

    def counted() -> Iterator[str]:
        nonlocal done
        for document in documents(text, size):
            done += len(document.encode("utf-8"))
            yield document

    path, one = folder / f"corpus.{kind}", folder / f"one.{kind}"
    write_file(one, [next(documents(text, 1))])
    write_file(path, counted())
    return Input(path, one, done)


def write_file(path: Path, texts: Iterable[str]) -> None:
    """Write documents in the format that the name of a file says."""
    rng = random.Random(7)
    rows = (row_of(rng, number, text) for number, text in zip(count(), texts, strict=False))
    if path.suffix == ".parquet":
        _write_parquet(path, rows)
        return
    is_compressed = path.suffix == ".zst"
    opened: Any = import_module("zstandard").open if is_compressed else open
    with opened(path, "wb") as lines_file:
        while block := [*islice(rows, _BLOCK_ROWS)]:
            lines = (json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in block)
            lines_file.write(b"".join(lines))


def row_of(rng: random.Random, number: int, text: str) -> dict[str, str | float | int]:
    """Return a document with fields like FineWeb's."""
    return {
        "text": text,
        "id": f"<urn:uuid:{rng.getrandbits(128):032x}>",
        "dump": "CC-MAIN-2013-20",
        "url": f"https://www.example{rng.randrange(9999)}.com/2013/05/words-of-a-title.html",
        "date": "2013-05-18T05:48:59Z",
        "file_path": f"s3://commoncrawl/crawl-data/CC-MAIN-2013-20/{number:05}.warc.gz",
        "language": "en",
        "language_score": round(rng.random(), 12),
        "token_count": rng.randrange(9999),
    }


def _write_parquet(path: Path, rows: Iterator[dict[str, str | float | int]]) -> None:
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    table = arrow.Table.from_pylist([*islice(rows, _ROW_GROUP)])
    with parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
        while len(table):
            writer.write_table(table)
            table = arrow.Table.from_pylist([*islice(rows, _ROW_GROUP)], table.schema)
