"""The cost of a stream's step and of a new stream, compared with other libraries' streams."""

from __future__ import annotations

import random
import statistics
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from benchmarks.measure import Bench, cycled, first_bytes, without_collector
from benchmarks.streamers import STREAMERS, Stream, StreamCase, looping
from benchmarks.table import MB, Row, Target
from bpetite import Tokenizer

TOKENS = 1_000_000
BLOCK_STEPS = 100
"""Steps that are timed together, by wall time.

A single step would be too short: reading the wall clock takes as long, and reading the CPU time
takes as long as six steps.
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


# Streamed texts


def stream_cases(bench: Bench) -> Iterator[StreamCase]:
    """Yield texts like the training text, and texts with about one byte for each token."""
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


def tenths(ids: Iterable[int]) -> list[int]:
    """Return a million ids whose last tenth equals the first tenth."""
    return cycled(cycled(ids, TOKENS // 10), TOKENS)


def korean_text() -> str:
    """Return about a hundred thousand characters of Korean words."""
    return " ".join(random.Random(0).choices(KOREAN.split(), k=40_000))


def emoji_text() -> str:
    """Return about a hundred thousand characters of emoji, some of them several characters long."""
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
        """Return a percentile over the blocks of all turns, in nanoseconds for each token."""
        blocks = sorted(seconds for turn in self.turns for seconds in turn)
        return blocks[(len(blocks) - 1) * hundredths // 100] / BLOCK_STEPS * 1e9

    def shown(self) -> str:
        """Return the median and the 99th percentile."""
        return f"{self.percentile(50):,.0f} / {self.percentile(99):,.0f}"

    def last_tenth(self) -> float:
        """Return the time of the last tenth of the steps divided by the time of the first tenth."""
        tenth = len(self.turns[0]) // 10
        return statistics.median(
            statistics.median(turn[-tenth:]) / statistics.median(turn[:tenth])
            for turn in self.turns
        )


HEADER = (
    *("p50 / p99 in ns: ids, stop strings", "bpetite"),
    *(streamer.name for streamer in STREAMERS),
    "last tenth",
)


def step_rows(bench: Bench) -> Iterator[Row]:
    """Compare the cost of a step between libraries, and between the start and end of a stream."""
    for case in stream_cases(bench):
        others = {each.name: each.open(case) for each in STREAMERS if each.is_installed}
        for stops in (0, 1, len(STOPS)) if case.name == "English" else (0,):
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
        if stream.finish_reason:
            raise RuntimeError(f"the ids of {case.name} contain a stop string")
        for name, make in others.items():
            steps = make().steps
            some = case.ids[:OTHERS_MAX_TOKENS]
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
