"""The formats of corpora: a module for each, and one list of them."""

from __future__ import annotations

from typing import get_args

from bpetite.corpora._inputs import arrow, json_values, jsonl, parquet, text
from bpetite.corpora._inputs.settings import Format, Read, Spans

FORMATS: tuple[Format, ...] = get_args(Format)

READERS: dict[Format, Read] = {
    "text": text.read,
    "lines": text.read,
    "jsonl": jsonl.read,
    "json": json_values.read,
    "parquet": parquet.read,
    "arrow": arrow.read,
}

SPANS: dict[Format, Spans] = {
    "text": text.spans,
    "lines": text.spans,
    "jsonl": jsonl.spans,
    "parquet": parquet.spans,
    "arrow": arrow.spans,
}
"""How a file is divided, for the formats whose files can be."""

LINE_FORMATS: tuple[Format, ...] = ("text", "lines", "jsonl")
"""The formats whose spans are bytes. Their readers count lines from the beginning of a span."""

FORMATS_BY_SUFFIX: dict[str, Format] = {
    ".txt": "text",
    ".text": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
