"""Texts out of JSON Lines, beside a library that parses whole lines."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from importlib import import_module
from itertools import count

import bpetite
from benchmarks.measure import Bench, if_installed, timed
from benchmarks.table import MB, Row, Target, speed
from bpetite._engine import ENGINE  # no public name scans without files

SAMPLE_BYTES = 16 * MB
BLOCK_BYTES = 1 << 20

FASTER = Target(low=1.5, unit=" × pysimdjson")


def scanner_rows(bench: Bench) -> Iterator[Row]:
    """Compare the texts of JSON Lines with pysimdjson's; speeds are in bytes of text."""
    for name in ("english", "multilingual"):
        for is_ascii in (False, True):
            what = f"{name}, {'escaped' if is_ascii else 'UTF-8'}"
            yield from if_installed(what, _rows(bench, name, what, is_ascii))


def _rows(bench: Bench, name: str, what: str, is_ascii: bool) -> Iterator[Row]:
    simdjson = import_module("simdjson")
    if name not in bench.samples:
        return
    data = json_lines(bench.samples[name], SAMPLE_BYTES, is_ascii)
    lines = data.splitlines()
    parser = simdjson.Parser()

    def pysimdjson() -> int:
        return sum(len(parser.parse(line)["text"]) for line in lines)

    size = scan(data)
    target = FASTER if bpetite.engine == "native" else None
    comparison = bench.compare(timed(scan, data), timed(pysimdjson))
    yield comparison.row(what, speed(size), "pysimdjson", "speed", target)


def scan(data: bytes) -> int:
    """Return the number of bytes in the texts of JSON Lines."""
    scanner = ENGINE.make_field_scanner("text")
    view, size = memoryview(data), 0
    for start in range(0, len(data), BLOCK_BYTES):
        block = view[start : start + BLOCK_BYTES]
        size += scanner.feed(block, start + BLOCK_BYTES >= len(data))[0].nbytes
    return size


def json_lines(text: str, size: int, is_ascii: bool) -> bytes:
    """Return JSON Lines of about `size` bytes: parts of a text, with fields like FineWeb's."""
    rng = random.Random(7)
    lines: list[bytes] = []
    done = 0
    for number in count():
        start = rng.randrange(len(text))
        length = min(20_000, max(500, int(rng.lognormvariate(7.7, 0.9))))
        row = row_of(rng, number, text[start : start + length])
        lines.append(json.dumps(row, ensure_ascii=is_ascii).encode())
        done += len(lines[-1]) + 1
        if done >= size:
            break
    return b"\n".join(lines)


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
