"""Ids to text: whole lists and buffers beside other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from _bench_encode import Contest
from _bench_measure import (
    Bench,
    first_bytes,
    size_of,
    timed,
)
from _bench_peers import LIBRARIES, TIKTOKEN, Calls, open_bpetite, openable
from _bench_table import MB, Line, Target

import bpetite

WAYS = ("bytes from a buffer", "bytes from a list", "text from a buffer", "text from a list")

TIMES_TIKTOKEN = {
    "bytes from a buffer": 10.0,
    "bytes from a list": 4.0,
    "text from a buffer": 2.0,
    "text from a list": 2.0,
}
TIMES_TIKTOKEN_ENGLISH = TIMES_TIKTOKEN | {"text from a buffer": 2.5, "text from a list": 2.5}
TIMES_TIKTOKEN_IN_PYTHON = 0.3

SLOW_SAMPLE = MB // 4  # bytes


def decode_header() -> Line:
    """Return what the columns are."""
    others = [library.name for library in LIBRARIES]
    return ("text, way", "bpetite", *others, "× tiktoken", "× fastest", "target")


def decode_rows(bench: Bench) -> Iterator[Line]:
    """Compare the decoding of the ids of whole texts; tiktoken takes lists alone."""
    for subject in bench.subjects("GPT-2", "cl100k"):
        yield (f"**{subject.name}**, MB/s",)
        kept = {library.name: calls for library, calls in openable(subject)}
        kept["bpetite"] = open_bpetite(subject)
        for name, sample in bench.samples.items():
            text = first_bytes(sample, 4 * MB)
            ids = subject.tokenizer.encode_ordinary(text)
            short = first_bytes(text, SLOW_SAMPLE)
            short_ids = subject.tokenizer.encode_ordinary(short)
            works = {
                each: (short_ids, short) if is_slow(calls, short_ids) else (ids, text)
                for each, calls in kept.items()
            }
            for way in WAYS:
                yield decode_row(bench, name, way, kept, works)


def is_slow(calls: Calls, ids: Sequence[int]) -> bool:
    """Return whether a library takes so long that less text must do."""
    decode = decoder(calls, "text from a list")
    if decode is None:
        return False
    decode(ids[:1])  # some make their tables with the first call
    return timed(decode, ids)() > SLOW_SAMPLE / MB / 40


def decoder(calls: Calls, way: str) -> Callable[[Sequence[int]], object] | None:
    """Return what decodes that way, if the library does."""
    return {
        "bytes from a buffer": calls.array_to_bytes,
        "bytes from a list": calls.to_bytes,
        "text from a buffer": calls.array_to_text,
        "text from a list": calls.to_text,
    }[way]


def decode_row(
    bench: Bench,
    name: str,
    way: str,
    kept: dict[str, Calls],
    works: dict[str, tuple[list[int], str]],
) -> Line:
    contest = Contest(size_of(works["bpetite"][1]))
    for turn in range(bench.repeats):
        for each, (ids, text) in works.items():
            calls = kept[each]
            decode = decoder(calls, way)
            if decode is None and each == TIKTOKEN.name:
                contest.lists_alone.add(each)
                decode = decoder(calls, way.replace("a buffer", "a list"))
            elif decode is not None and way.endswith("buffer"):
                ids = calls.buffer(ids)
            if decode is None:
                continue
            if turn == 0 and decode(ids) != (text.encode("utf-8") if "bytes" in way else text):
                contest.is_wrong.add((each, way))
            decode(ids)  # what was done since the last turn has filled the processor's caches
            seconds = timed(decode, ids)() * contest.size / size_of(text)
            contest.add(each, way, "warm", seconds)
    low = (TIMES_TIKTOKEN_ENGLISH if name == "english" else TIMES_TIKTOKEN)[way]
    if bpetite.engine == "python":
        low = TIMES_TIKTOKEN_IN_PYTHON
    verdicts = []
    of_tiktoken = of_fastest = ""
    if TIKTOKEN.name in works:
        times = contest.times(TIKTOKEN.name, way, "warm")
        of_tiktoken = f"{times:.2f}"
        verdicts.append(Target(low=low, unit=" × tiktoken").verdict(times))
    fastest = contest.fastest(way, "warm")
    if fastest is not None:
        times = contest.times(fastest, way, "warm")
        of_fastest = f"{times:.2f} ({fastest})"
        if way.startswith("text") and bpetite.engine == "native":
            verdicts.append(Target(low=1, unit=" × fastest").verdict(times))
    names = ("bpetite", *(library.name for library in LIBRARIES))
    speeds = [contest.speed(each, way, "warm") for each in names]
    return (f"{name}, {way}", *speeds, of_tiktoken, of_fastest, "; ".join(verdicts))
