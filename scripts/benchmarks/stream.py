"""The cost of a stream's step and of a new stream, beside other libraries' streams."""

from __future__ import annotations

import random
import statistics
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from benchmarks.measure import Bench, Clock, cycled, first_bytes, timed, without_collector
from benchmarks.peers import huggingface_of, mergeable_tokens, tiktoken_of
from benchmarks.streamers import STREAMERS, Stream, StreamCase, Streamer, looping
from benchmarks.table import MB, Line, Row, Target, plain_row
from bpetite import DecodeStreamBatch, StreamVocabulary, Tokenizer

TOKENS = 1_000_000
BLOCK_STEPS = 100
"""Steps that are timed together, by wall time.

A step takes no longer than a call of the wall clock, and reading the CPU time takes six steps.
"""

OTHERS_MAX_TOKENS = 200_000
OTHERS_MAX_SECONDS = 0.4
"""Limits of each turn of another library's stream."""

STOPS = (
    "\n\nUser:", "\n\nHuman:", "\n\nQuestion:", "<|end_of_text|>", "<|im_end|>", "<|im_start|>",
    "<|eot_id|>", "</answer>", "</tool_call>", "[/INST]", "### Instruction:", "### Response:",
    "Observation: ", "END OF ANSWER", "```\n\nYour turn", "\n\nSystem:", "Final Answer:",
    "assistant:", "I am done.", "🛑🛑🛑",
)  # fmt: skip
"""Typical stop strings. The texts contain none of them."""

STOP_COUNTS = (0, 1, len(STOPS))

KOREAN = (
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다 "
    "인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다"
)

EMOJI = "🙂 😂 😍 🙏 🎉 🔥 ❤️ 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇫🇷 🇰🇷 🤷🏻‍♀️ 🚀 ✅ 1️⃣ 🥲 🫠 🧑‍💻 🐙"

STEP_TARGET, TWENTY_STOPS_TARGET = Target(high=150, unit=" ns"), Target(high=400, unit=" ns")
LAST_TENTH_TARGET = Target(high=1.4, unit=" × the first tenth")
TIMES_TARGETS = {
    "tokenizers": Target(low=6, unit=" × tokenizers"),
    "splintr": Target(low=1, unit=" × splintr"),
}
LONG_PROMPT_TARGET = Target(high=1.5, unit=" × a prompt of 10 ids")
BATCH_TARGET = Target(high=200, unit=" ns")
BUILD_TARGET = Target(high=0.5, unit=" s")


# Streamed texts


def stream_cases(bench: Bench) -> Iterator[StreamCase]:
    """Yield texts like the training text, texts of about one byte a token, and long prompts."""
    tokenizer = bench.tokenizer
    encode = tokenizer.encode_ordinary
    english = tenths(encode(first_bytes(bench.samples["english"], MB)))
    yield StreamCase("English", tokenizer, english)
    if "multilingual" in bench.samples:
        many = encode(first_bytes(bench.samples["multilingual"], MB))
        yield StreamCase("many languages", tokenizer, tenths(many))
    korean = korean_text()
    yield StreamCase("Korean", tokenizer, tenths(encode(korean)))
    own = Tokenizer.train(korean, 8_000)
    yield StreamCase("Korean, vocabulary of its own", own, tenths(own.encode_ordinary(korean)))
    yield StreamCase("emoji", tokenizer, tenths(encode(emoji_text())))
    yield StreamCase("random bytes", tokenizer, random_bytes(TOKENS))
    yield StreamCase("the byte 0x80", tokenizer, tenths([0x80]))
    special = tenths(tokenizer.special_tokens.values())
    yield StreamCase("skipped special tokens", tokenizer, special, skips=True)
    for length in (10, TOKENS):
        name = f"English, prompt of {length:,} ids"
        yield StreamCase(name, tokenizer, english, prompt=cycled(english, length))


def tenths(ids: Iterable[int]) -> list[int]:
    """Return a million ids whose last tenth equals the first tenth."""
    return cycled(cycled(ids, TOKENS // 10), TOKENS)


def korean_text() -> str:
    """Return about a hundred thousand characters of Korean words."""
    return " ".join(random.Random(0).choices(KOREAN.split(), k=40_000))


def emoji_text() -> str:
    """Return about a hundred thousand characters of emoji, often several for one emoji."""
    return "".join(random.Random(0).choices(EMOJI.split(), k=100_000))


def random_bytes(count: int) -> list[int]:
    """Return `count` ids of random bytes."""
    return random.Random(0).choices(range(256), k=count)


# Steps


@dataclass
class Times:
    """Seconds of each block of steps, turn by turn."""

    turns: list[array[float]] = field(default_factory=list)

    def percentile(self, hundredths: int) -> float:
        """Return nanoseconds a token, over the blocks of all turns."""
        blocks = sorted(seconds for turn in self.turns for seconds in turn)
        return blocks[(len(blocks) - 1) * hundredths // 100] / BLOCK_STEPS * 1e9

    def shown(self) -> str:
        """Return the median and the 99th percentile."""
        return f"{self.percentile(50):,.0f} / {self.percentile(99):,.0f}"

    def last_tenth(self) -> float:
        """Return the time of the last tenth of the steps divided by that of the first."""
        tenth = len(self.turns[0]) // 10
        return statistics.median(
            statistics.median(turn[-tenth:]) / statistics.median(turn[:tenth])
            for turn in self.turns
        )


def step_header() -> Line:
    """Return the column titles."""
    others = [streamer.name for streamer in STREAMERS]
    return ("p50 / p99 in ns: ids, stop strings", "bpetite", *others, "last tenth")


def step_rows(bench: Bench) -> Iterator[Row]:
    """Compare the cost of a step with other libraries, and over the length of a stream."""
    for case in stream_cases(bench):
        others = {each.name: each.open(case) for each in STREAMERS if each.is_installed}
        for stops in STOP_COUNTS:
            yield step_row(bench, case, stops, {} if stops else others)


def step_row(
    bench: Bench, case: StreamCase, stops: int, others: Mapping[str, Callable[[], Stream]]
) -> Row:
    """Compare the steps of new streams, in turns."""
    what = f"{case.name}, {stops}"
    ours, theirs = Times(), {name: Times() for name in others}
    for _ in range(bench.repeats):
        stream = case.stream(stop=STOPS[:stops])
        ours.turns.append(blocks(looping(stream.step), case.ids))
        if stream.stopped:
            raise RuntimeError(f"the ids of {case.name} contain a stop string")
        for name, make in others.items():
            steps = make().steps
            steps(case.ids[:1])  # some decode the prompt now; the costs of new streams include it
            some = case.ids[1 : OTHERS_MAX_TOKENS + 1]
            theirs[name].turns.append(blocks(steps, some, OTHERS_MAX_SECONDS))
    checks = [LAST_TENTH_TARGET.check(what, ours.last_tenth())]
    if stops != 1:
        target = TWENTY_STOPS_TARGET if stops else STEP_TARGET
        checks.append(target.check(what, ours.percentile(50)))
    for name, target in TIMES_TARGETS.items():
        if name in theirs:
            times = statistics.median(
                statistics.median(their) / statistics.median(our)
                for our, their in zip(ours.turns, theirs[name].turns, strict=True)
            )
            checks.append(target.check(what, times))
    shown = [theirs[each.name].shown() if each.name in theirs else "" for each in STREAMERS]
    return Row((what, ours.shown(), *shown, f"{ours.last_tenth():.2f}"), checks)


def blocks(
    steps: Callable[[Sequence[int]], object], ids: Sequence[int], max_seconds: float = float("inf")
) -> array[float]:
    """Return the seconds of each block of steps, until all together exceed `max_seconds`."""
    seconds = array("d")
    with without_collector():
        for begin in range(0, len(ids), BLOCK_STEPS):
            block = ids[begin : begin + BLOCK_STEPS]
            start = perf_counter()
            steps(block)
            seconds.append(perf_counter() - start)
            max_seconds -= seconds[-1]
            if max_seconds < 0:
                break
    return seconds


# Other costs


def cost_header() -> Line:
    """Return the column titles."""
    return ("what", "bpetite", *(streamer.name for streamer in STREAMERS))


def cost_rows(bench: Bench) -> Iterator[Row]:
    """Measure first texts, new streams, batches of streams, and reading a vocabulary."""
    yield from first_rows(bench)
    yield from creation_rows(bench)
    yield from batch_rows(bench)
    yield from build_rows(bench)


def first_rows(bench: Bench) -> Iterator[Row]:
    """Time the first steps with a vocabulary, whose transitions no stream has computed yet."""
    count = 200_000
    tokenizer = bench.tokenizer
    works = {
        "Korean": cycled(tokenizer.encode_ordinary(korean_text()), count),
        "emoji": cycled(tokenizer.encode_ordinary(emoji_text()), count),
        "random bytes": random_bytes(count),
    }
    tokens = dict(enumerate(mergeable_tokens(tokenizer)))
    for name, ids in works.items():
        for stops in (0, len(STOPS)):

            def clock(ids: list[int] = ids, stops: int = stops) -> float:
                stream = StreamVocabulary(tokens).decode_stream(stop=STOPS[:stops])
                return timed(looping(stream.step), ids)()

            nanoseconds = bench.measure(clock) / count * 1e9
            target = TWENTY_STOPS_TARGET if stops else STEP_TARGET
            what = f"ns a token, first text, {name}, stops: {stops}"
            yield plain_row(what, f"{nanoseconds:,.0f}", target, nanoseconds)


def creation_rows(bench: Bench) -> Iterator[Row]:
    """Time a new stream and its first step, after a short and a long prompt."""
    tokenizer = bench.tokenizer
    ids = cycled(tokenizer.encode_ordinary(first_bytes(bench.samples["english"], MB)), TOKENS)
    cases = [StreamCase("learnt", tokenizer, ids[:1], prompt=ids[:size]) for size in (10, TOKENS)]
    theirs = [[first_step_of(bench, each, case) for each in STREAMERS] for case in cases]
    count = 1000
    for stops in STOP_COUNTS:
        clocks = [first_steps(case, STOPS[:stops], count) for case in cases]
        turns = [[clock() / count for clock in clocks] for _ in range(bench.repeats)]
        ratio = statistics.median(long / short for short, long in turns)
        for number, case in enumerate(cases):
            what = f"µs, new stream, prompt of {len(case.prompt):,} ids, stops: {stops}"
            seconds = statistics.median(turn[number] for turn in turns)
            others = [] if stops else theirs[number]
            checks = [LONG_PROMPT_TARGET.check(what, ratio)] if number else ()
            yield Row((what, microseconds(seconds), *others), checks)


def first_steps(case: StreamCase, stops: Sequence[str], count: int) -> Clock:
    """Return a clock of `count` new streams and their first steps."""
    [id] = case.ids

    def begin() -> None:
        for _ in range(count):
            case.stream(stop=stops).step(id)

    return timed(begin)


def first_step_of(bench: Bench, streamer: Streamer, case: StreamCase) -> str:
    """Return the time of another library's new stream and its first step."""
    if not streamer.is_installed:
        return ""
    make = streamer.open(case)
    [id] = case.ids
    return microseconds(bench.measure(timed(lambda: make().step(id))))


def microseconds(seconds: float) -> str:
    """Show seconds as microseconds, without the unit."""
    return f"{seconds * 1e6:,.3g}" if seconds < 1e-4 else f"{seconds * 1e6:,.0f}"


def batch_rows(bench: Bench) -> Iterator[Row]:
    """Time a thousand streams at different positions of a text, one call a step."""
    count, calls = 1000, 100
    tokenizer = bench.tokenizer
    works = {
        "English": tokenizer.encode_ordinary(first_bytes(bench.samples["english"], MB)),
        "Korean": tokenizer.encode_ordinary(korean_text()),
    }
    for name, text in works.items():
        ids = cycled(text, count * calls)
        batches = [{key: ids[key * calls + call] for key in range(count)} for call in range(calls)]
        streams: DecodeStreamBatch[int] = DecodeStreamBatch(tokenizer)
        streams.step(batches[0])
        nanoseconds = bench.measure(timed(step_each, streams, batches)) / count / calls * 1e9
        what = f"ns a token, 1,000 streams in a call, {name}"
        yield plain_row(what, f"{nanoseconds:,.0f}", BATCH_TARGET, nanoseconds)


def step_each(streams: DecodeStreamBatch[int], batches: Sequence[Mapping[int, int]]) -> None:
    """Make all steps of a batch."""
    for batch in batches:
        streams.step(batch)


def build_rows(bench: Bench) -> Iterator[Row]:
    """Time the reading of a large vocabulary, from bytes or from another library's tokenizer."""
    subject = (bench.subjects("o200k") or bench.subjects())[-1]
    tokenizer, json = subject.tokenizer, subject.json
    tokens = dict(enumerate(mergeable_tokens(tokenizer)))
    sources: dict[str, Callable[[], object]] = {
        "a dict of bytes": lambda: tokens,
        "tiktoken.Encoding": lambda: tiktoken_of(tokenizer),
        "tokenizers.Tokenizer": lambda: huggingface_of(json),
    }
    for name, source in sources.items():
        turns = []
        for _ in range(bench.repeats):
            new = source()  # the library caches what it has read of an object
            turns.append(timed(lambda new=new: StreamVocabulary(new).decode_stream())())
        seconds = statistics.median(turns)
        target = BUILD_TARGET if len(tokens) > 190_000 else None
        what = f"s, reading {len(tokens):,} ids of {name}"
        yield plain_row(what, f"{seconds:.3g}", target, seconds)
