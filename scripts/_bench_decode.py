"""Ids to text: whole lists and buffers beside other libraries, and one id at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from _bench_encode import Contest
from _bench_measure import (
    Bench,
    Clock,
    Subject,
    cycled,
    first_bytes,
    if_installed,
    size_of,
    timed,
)
from _bench_peers import LIBRARIES, TIKTOKEN, Calls, huggingface_of, open_bpetite, openable
from _bench_table import MB, Comparison, Line, Target, nanoseconds, row

import bpetite
from bpetite import Tokenizer

STEPS = 200_000  # that a stream takes while the clock runs

KOREAN = (
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다 "
    "인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다"
)

# Whole lists and buffers

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


# Streaming


def stream_rows(bench: Bench) -> Iterator[Line]:
    """Compare the cost of a step, and show that nothing but its own id matters to it."""
    for what, tokenizer, ids in stream_cases(bench):
        show = nanoseconds(len(ids))
        ours = stepping(tokenizer, ids)
        took = bench.measure(ours)
        limit = Target(high=120, unit=" ns")
        yield row(what, show(took), target=limit.verdict(took / len(ids) * 1e9))
        json = Subject("learnt", tokenizer, None).json
        yield from if_installed(what, huggingface_step_rows(bench, what, ours, json, ids))
        yield from if_installed(what, splintr_step_rows(bench, what, ours, json, ids))
    yield from flatness_rows(bench)
    yield creation_row(bench)


def stream_cases(bench: Bench) -> Iterator[tuple[str, Tokenizer, list[int]]]:
    """Yield texts that the vocabulary knows, and such that come nearly byte by byte."""
    texts = {name: first_bytes(text, MB) for name, text in bench.samples.items()}
    texts["korean"] = korean_text()
    for name in ("english", "multilingual", "korean"):
        if name not in texts:
            continue
        yield name, bench.tokenizer, cycled(bench.tokenizer.encode(texts[name]), STEPS)
        if name != "english":
            own = Tokenizer.train(texts[name], 8_000)
            yield f"{name}, vocabulary of its own", own, cycled(own.encode(texts[name]), STEPS)


def korean_text() -> str:
    """Return some hundred thousand characters of Korean words."""
    return " ".join(random.Random(0).choices(KOREAN.split(), k=40_000))


def stepping(tokenizer: Tokenizer, ids: Sequence[int]) -> Clock:
    """Return a clock of one step for each id, by a new stream each time."""
    return lambda: timed(step_all, tokenizer.decode_stream().step, ids)()


def step_all(step: Callable[[int], object], ids: Sequence[int]) -> None:
    for id in ids:
        step(id)


def huggingface_step_rows(
    bench: Bench, what: str, ours: Clock, json: bytes, ids: Sequence[int]
) -> Iterator[Line]:
    from tokenizers.decoders import DecodeStream

    twin = huggingface_of(json)

    def step_all() -> None:
        step = DecodeStream(skip_special_tokens=False).step
        for id in ids:
            step(twin, id)

    yield bench.compare(ours, timed(step_all)).row(
        what, nanoseconds(len(ids)), "tokenizers", "speed", Target(low=6)
    )


def splintr_step_rows(
    bench: Bench, what: str, ours: Clock, json: bytes, ids: Sequence[int]
) -> Iterator[Line]:
    import splintr

    twin = splintr.from_json_bytes(json)
    yield bench.compare(
        ours, lambda: timed(step_all, twin.streaming_decoder_with_special().add_token, ids)()
    ).row(what, nanoseconds(len(ids)), "splintr", "speed", Target(low=1))


def flatness_rows(bench: Bench) -> Iterator[Line]:
    """Compare the last tenth of a million steps with the first; each tenth has the same ids."""
    tokenizer = bench.tokenizer
    english = bench.samples["english"].encode("ascii", "ignore").decode("ascii")
    cases = {
        "ASCII": tokenizer.encode_ordinary(first_bytes(english, MB)),
        "Korean": tokenizer.encode_ordinary(korean_text()),
        "the byte 0x80": [0x80],
        "skipped special tokens": list(tokenizer.special_tokens.values()),
    }
    for name, ids in cases.items():
        tenth = cycled(ids, 100_000)
        turns = []
        for _ in range(bench.repeats):
            step = tokenizer.decode_stream(skip_special_tokens=True).step
            tenths = [timed(step_all, step, tenth)() for _ in range(10)]
            turns.append((tenths[-1], tenths[0]))
        yield Comparison(turns).row(
            f"{name}, last of ten times 100,000 steps",
            nanoseconds(len(tenth)),
            "the first",
            "time",
            Target(low=0.7, high=1.4),
        )


def creation_row(bench: Bench) -> Line:
    """Compare making a stream after a long prompt and after a short one."""
    tokenizer = bench.tokenizer
    prompt = cycled(tokenizer.encode_ordinary(first_bytes(bench.samples["english"], MB)), 1_000_000)
    count = 10_000

    def create(prompt_ids: Sequence[int]) -> None:
        for _ in range(count):
            tokenizer.decode_stream(prompt_ids)

    create(prompt[:10])
    return bench.compare(timed(create, prompt), timed(create, prompt[:10])).row(
        "creation, prompt of 1,000,000 ids",
        nanoseconds(count),
        "of 10 ids",
        "time",
        Target(high=1.5),
    )
