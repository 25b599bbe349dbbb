"""Ids to text and bytes, compared with other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import bpetite
from benchmarks.encode import NAMES, SLOW_SAMPLE_BYTES, Contest
from benchmarks.measure import Bench, Subject, first_bytes, size_of, timed
from benchmarks.peers import TIKTOKEN, Calls, open_bpetite, openable
from benchmarks.table import MB, Row

WAYS = ("bytes from a buffer", "text from a list")

SLOW_SECONDS = SLOW_SAMPLE_BYTES / MB / 40
"""A library that needs longer for the slow sample decodes less than 40 MB/s."""

TIMES_TIKTOKEN = {"bytes from a buffer": 10.0, "text from a list": 2.0}
"""Minimal ratio to tiktoken's speed; the Python engine has to reach 0.3."""


HEADER = ("MB/s: vocabulary, text, way", *NAMES, "× tiktoken", "× fastest")


def decode_rows(bench: Bench) -> Iterator[Row]:
    """Compare the decoding of the ids of whole texts; tiktoken takes only lists."""
    subject = bench.subject()
    loaded = {library.name: calls for library, calls in openable(subject)}
    loaded["bpetite"] = open_bpetite(subject)
    is_native = bpetite.engine == "native"
    for (name, sample), way in product(bench.samples.items(), WAYS):
        is_text = way.startswith("text")
        contest = contest_of(bench, subject, loaded, first_bytes(sample, 4 * MB), is_text)
        low = TIMES_TIKTOKEN[way] if is_native else 0.3
        fastest = 1 if is_native and is_text else None
        yield contest.row(f"{subject.name}, {name}, {way}", low, fastest)


def contest_of(
    bench: Bench, subject: Subject, loaded: dict[str, Calls], text: str, is_text: bool
) -> Contest:
    """Let all libraries decode in turns; in each turn, the second of two calls counts."""
    contest = Contest(size_of(text), in_brackets=set() if is_text else {TIKTOKEN.name})
    short = first_bytes(text, SLOW_SAMPLE_BYTES)
    ids, short_ids = map(subject.tokenizer.encode_ordinary, (text, short))
    works: dict[str, tuple[Callable[[Any], object], Any, int]] = {}
    for name, calls in loaded.items():
        decode: Callable[[Any], object] | None = calls.to_text if is_text else calls.to_bytes
        if decode is None:
            continue
        buffer = calls.buffer if calls.buffer and not is_text else list
        decode(buffer(ids[:1]))  # because the first call of some libraries builds tables
        is_slow = timed(decode, buffer(short_ids))() > SLOW_SECONDS
        work, right = (buffer(short_ids), short) if is_slow else (buffer(ids), text)
        if decode(work) != (right if is_text else right.encode("utf-8")):
            contest.is_wrong.add(name)
        works[name] = decode, work, size_of(right)
    for _ in range(bench.repeats):
        for name, (decode, work, size) in works.items():
            decode(work)  # because other libraries have filled the processor's caches
            contest.add(name, timed(decode, work)() * contest.size / size)
    return contest
