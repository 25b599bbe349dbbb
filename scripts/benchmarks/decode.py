"""Ids to text and bytes, from lists and buffers, beside other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import bpetite
from benchmarks.encode import NAMES, SLOW_SAMPLE_BYTES, Contest
from benchmarks.measure import Bench, first_bytes, size_of, timed
from benchmarks.peers import TIKTOKEN, Calls, open_bpetite, openable
from benchmarks.table import MB, Line, Row, Target

WAYS = ("bytes from a buffer", "bytes from a list", "text from a buffer", "text from a list")

SLOW_SECONDS = SLOW_SAMPLE_BYTES / MB / 40
"""A library that needs longer for the slow sample decodes less than 40 MB/s."""


def decode_header() -> Line:
    """Return the column titles."""
    return ("MB/s: vocabulary, text, way", *NAMES, "× tiktoken", "× fastest")


def decode_rows(bench: Bench) -> Iterator[Row]:
    """Compare the decoding of the ids of whole texts; tiktoken takes only lists."""
    for subject in bench.subjects("GPT-2", "cl100k"):
        loaded = {library.name: calls for library, calls in openable(subject)}
        loaded["bpetite"] = open_bpetite(subject)
        for name, sample in bench.samples.items():
            text = first_bytes(sample, 4 * MB)
            ids = subject.tokenizer.encode_ordinary(text)
            short = first_bytes(text, SLOW_SAMPLE_BYTES)
            short_ids = subject.tokenizer.encode_ordinary(short)
            works = {
                each: (short_ids, short) if is_slow(calls, short_ids) else (ids, text)
                for each, calls in loaded.items()
            }
            for way in WAYS:
                contest = contest_of(bench, way, loaded, works)
                what = f"{subject.name}, {name}, {way}"
                yield contest.row(what, way, "warm", *targets(name, way), digits=2)


def targets(text: str, way: str) -> tuple[Target, Target | None]:
    """Return the minimal ratios to the speed of tiktoken, and of the fastest other library."""
    low = {"bytes from a buffer": 10.0, "bytes from a list": 4.0}.get(way, 2.0)
    if text == "english" and way.startswith("text"):
        low = 2.5
    is_native = bpetite.engine == "native"
    fastest = Target(low=1, unit=" × fastest") if is_native and way.startswith("text") else None
    return Target(low=low if is_native else 0.3, unit=" × tiktoken"), fastest


def is_slow(calls: Calls, ids: Sequence[int]) -> bool:
    """Return whether a library is so slow that it gets a smaller sample."""
    decode = decoder(calls, "text from a list")
    if decode is None:
        return False
    decode(ids[:1])  # the first call of some libraries builds tables
    return timed(decode, ids)() > SLOW_SECONDS


def decoder(calls: Calls, way: str) -> Callable[[Sequence[int]], object] | None:
    """Return the function that decodes in this way, if the library has one."""
    return {
        "bytes from a buffer": calls.array_to_bytes,
        "bytes from a list": calls.to_bytes,
        "text from a buffer": calls.array_to_text,
        "text from a list": calls.to_text,
    }[way]


def contest_of(
    bench: Bench, way: str, loaded: dict[str, Calls], works: dict[str, tuple[list[int], str]]
) -> Contest:
    """Let all libraries decode in turns, each the second of two calls."""
    contest = Contest(size_of(works["bpetite"][1]))
    for turn in range(bench.repeats):
        for name, (ids, text) in works.items():
            calls = loaded[name]
            decode = decoder(calls, way)
            if decode is None and name == TIKTOKEN.name:
                contest.only_lists.add(name)
                decode = decoder(calls, way.replace("a buffer", "a list"))
            elif decode is not None and way.endswith("buffer"):
                ids = calls.buffer(ids)
            if decode is None:
                continue
            if turn == 0 and decode(ids) != (text.encode("utf-8") if "bytes" in way else text):
                contest.is_wrong.add((name, way))
            decode(ids)  # other libraries have filled the processor's caches since the last turn
            seconds = timed(decode, ids)() * contest.size / size_of(text)
            contest.add(name, way, "warm", seconds)
    return contest
