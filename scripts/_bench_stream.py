"""A stream, id by id: what a step costs, beside other libraries' streams, and that it stays so."""

from __future__ import annotations

import random
import statistics
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from _bench_measure import Bench, Clock, cycled, first_bytes, timed, without_collector
from _bench_peers import huggingface_of, mergeable_tokens, tiktoken_of
from _bench_streamers import STREAMERS, Stream, StreamCase, Streamer, looping
from _bench_table import MB, Line, Target

from bpetite import DecodeStreams, StreamVocabulary, Tokenizer

TOKENS = 1_000_000
BLOCK = 100
"""Steps that are timed together: a single one takes no longer than to ask for the time.

That is by the clock on the wall, since to ask what the process used takes as long as six steps.
"""

MOST_OF_OTHERS = 200_000
PATIENCE = 0.4
"""Of another library's stream so many tokens are taken, or so many seconds in each turn."""

STOPS = (
    "\n\nUser:", "\n\nHuman:", "\n\nQuestion:", "<|endoftext|>", "<|im_end|>", "<|im_start|>",
    "<|eot_id|>", "</answer>", "</tool_call>", "[/INST]", "### Instruction:", "### Response:",
    "Observation: ", "END OF ANSWER", "```\n\nYour turn", "\n\nSystem:", "Final Answer:",
    "assistant:", "I am done.", "🛑🛑🛑",
)  # fmt: skip
"""Of the kind that people give; none is in the texts."""

NUMBERS_OF_STOPS = (0, 1, len(STOPS))

KOREAN = (
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다 "
    "인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다"
)

EMOJI = "🙂 😂 😍 🙏 🎉 🔥 ❤️ 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇫🇷 🇰🇷 🤷🏻‍♀️ 🚀 ✅ 1️⃣ 🥲 🫠 🧑‍💻 🐙"

LIMIT, LIMIT_OF_STOPS = 150, 400
"""Nanoseconds a token that are wanted without stop strings, and with twenty."""


def stream_header() -> Line:
    """Return what the columns are."""
    others = [streamer.name for streamer in STREAMERS]
    return ("ids, stop strings", "bpetite", *others, "last tenth", "× others", "target")


def stream_rows(bench: Bench) -> Iterator[Line]:
    """Compare the cost of a step, and show that nothing but its own id matters to it."""
    yield ("**ns a token**, p50 / p99",)
    for case in stream_cases(bench):
        others = {each.name: each.open(case) for each in STREAMERS if each.is_installed}
        for stops in NUMBERS_OF_STOPS:
            yield step_row(bench, case, stops, {} if stops else others)
    yield ("**ns a token**, the first text of a vocabulary",)
    yield from first_rows(bench)
    yield ("**µs for a new stream**, and its first step",)
    yield from creation_rows(bench)
    yield ("**1,000 streams in a call**, ns a token",)
    yield from batch_rows(bench)
    yield ("**Reading a vocabulary** for streams, s",)
    yield from build_rows(bench)


# What is streamed


def stream_cases(bench: Bench) -> Iterator[StreamCase]:
    """Yield ids whose text the vocabulary knows, and such that come nearly byte by byte."""
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
    """Return a million ids, ten times the same, so that the last tenth is as the first."""
    return cycled(cycled(ids, TOKENS // 10), TOKENS)


def korean_text() -> str:
    """Return some hundred thousand characters of Korean words."""
    return " ".join(random.Random(0).choices(KOREAN.split(), k=40_000))


def emoji_text() -> str:
    """Return some hundred thousand characters of emoji, many of which are several characters."""
    return "".join(random.Random(0).choices(EMOJI.split(), k=100_000))


def random_bytes(count: int) -> list[int]:
    """Return so many ids of bytes, all bytes as often."""
    return random.Random(0).choices(range(256), k=count)


# Steps


@dataclass
class Times:
    """What each block of steps took, turn by turn."""

    turns: list[array[float]] = field(default_factory=list)

    def percentile(self, hundredths: int) -> float:
        """Return nanoseconds a token, of the blocks of all turns."""
        blocks = sorted(took for turn in self.turns for took in turn)
        return blocks[(len(blocks) - 1) * hundredths // 100] / BLOCK * 1e9

    def shown(self) -> str:
        """Return the middle, and what one block in a hundred exceeds."""
        return f"{self.percentile(50):,.0f} / {self.percentile(99):,.0f}"

    def last_tenth(self) -> float:
        """Return how many times the first tenth's time the last one took."""
        tenth = len(self.turns[0]) // 10
        return statistics.median(
            statistics.median(turn[-tenth:]) / statistics.median(turn[:tenth])
            for turn in self.turns
        )


def step_row(
    bench: Bench, case: StreamCase, stops: int, others: Mapping[str, Callable[[], Stream]]
) -> Line:
    """Compare the steps of new streams, in turns."""
    ours, theirs = Times(), {name: Times() for name in others}
    for _ in range(bench.repeats):
        stream = case.stream(stop=STOPS[:stops])
        ours.turns.append(blocks(looping(stream.step), case.ids))
        if stream.stopped is not None:
            raise RuntimeError(f"{case.name} has the stop string {stream.stopped!r}")
        for name, make in others.items():
            steps = make().steps
            steps(case.ids[:1])  # some decode the prompt now; that is in the rows of new streams
            theirs[name].turns.append(blocks(steps, case.ids[1 : MOST_OF_OTHERS + 1], PATIENCE))
    verdicts = []
    if stops != 1:
        high = LIMIT_OF_STOPS if stops else LIMIT
        verdicts.append(Target(high=high, unit=" ns").verdict(ours.percentile(50)))
    times = {}
    for name, low in (("tokenizers", 6), ("splintr", 1)):
        if name in theirs:
            times[name] = statistics.median(
                statistics.median(their) / statistics.median(our)
                for our, their in zip(ours.turns, theirs[name].turns, strict=True)
            )
            verdicts.append(Target(low=low, unit=f" × {name}").verdict(times[name]))
    last = ours.last_tenth()
    verdicts.append(Target(high=1.4, unit=" of the first").verdict(last))
    return (
        f"{case.name}, {stops}",
        ours.shown(),
        *(theirs[each.name].shown() if each.name in theirs else "" for each in STREAMERS),
        f"{last:.2f}",
        ", ".join(f"{ratio:.2f} {name}" for name, ratio in times.items()),
        "; ".join(verdicts),
    )


def blocks(
    steps: Callable[[Sequence[int]], object], ids: Sequence[int], patience: float = float("inf")
) -> array[float]:
    """Return the seconds of each block of steps, while patience lasts."""
    seconds = array("d")
    with without_collector():
        for begin in range(0, len(ids), BLOCK):
            block = ids[begin : begin + BLOCK]
            start = perf_counter()
            steps(block)
            took = perf_counter() - start
            seconds.append(took)
            patience -= took
            if patience < 0:
                break
    return seconds


# Other costs


def cost_row(what: str, show: str, verdict: str = "") -> Line:
    return (what, show, *[""] * (len(STREAMERS) + 2), verdict)


def first_rows(bench: Bench) -> Iterator[Line]:
    """Time the first steps of all over a vocabulary, where each has still to be found out."""
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

            took = bench.measure(clock) / count * 1e9
            limit = Target(high=LIMIT_OF_STOPS if stops else LIMIT, unit=" ns")
            what = f"{name}, 200,000 ids, {stops}"
            yield cost_row(what, f"{took:,.0f}", limit.verdict(took))


def creation_rows(bench: Bench) -> Iterator[Line]:
    """Time a new stream and its first step, behind a short prompt and a long one."""
    tokenizer = bench.tokenizer
    ids = cycled(tokenizer.encode_ordinary(first_bytes(bench.samples["english"], MB)), TOKENS)
    cases = [StreamCase("learnt", tokenizer, ids[:1], prompt=ids[:size]) for size in (10, TOKENS)]
    theirs = [[first_step_of(bench, each, case) for each in STREAMERS] for case in cases]
    count = 1000
    for stops in NUMBERS_OF_STOPS:
        clocks = [first_steps(case, STOPS[:stops], count) for case in cases]
        turns = [[clock() / count for clock in clocks] for _ in range(bench.repeats)]
        ratio = statistics.median(long / short for short, long in turns)
        verdict = Target(high=1.5, unit=" of that of 10 ids").verdict(ratio)
        for number, case in enumerate(cases):
            yield (
                f"prompt of {len(case.prompt):,} ids, {stops}",
                microseconds(statistics.median(turn[number] for turn in turns)),
                *(theirs[number] if not stops else [""] * len(STREAMERS)),
                "",
                "",
                verdict if number else "",
            )


def first_steps(case: StreamCase, stops: Sequence[str], count: int) -> Clock:
    """Return a clock of so many new streams and their first steps."""
    [id] = case.ids

    def begin() -> None:
        for _ in range(count):
            case.stream(stop=stops).step(id)

    return timed(begin)


def first_step_of(bench: Bench, streamer: Streamer, case: StreamCase) -> str:
    """Return what a new stream of another library, and its first step, take."""
    if not streamer.is_installed:
        return ""
    make = streamer.open(case)
    [id] = case.ids
    return microseconds(bench.measure(timed(lambda: make().step(id))))


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.3g}" if seconds < 1e-4 else f"{seconds * 1e6:,.0f}"


def batch_rows(bench: Bench) -> Iterator[Line]:
    """Time the steps of a thousand streams, each at another place of a text, a call a step."""
    count, calls = 1000, 100
    tokenizer = bench.tokenizer
    works = {
        "English": tokenizer.encode_ordinary(first_bytes(bench.samples["english"], MB)),
        "Korean": tokenizer.encode_ordinary(korean_text()),
    }
    for name, text in works.items():
        ids = cycled(text, count * calls)
        batches = [{key: ids[key * calls + call] for key in range(count)} for call in range(calls)]
        streams: DecodeStreams[int] = DecodeStreams(tokenizer)
        streams.step(batches[0])
        took = bench.measure(timed(step_each, streams, batches)) / count / calls * 1e9
        yield cost_row(name, f"{took:,.0f}", Target(high=200, unit=" ns").verdict(took))


def step_each(streams: DecodeStreams[int], batches: Sequence[Mapping[int, int]]) -> None:
    for batch in batches:
        streams.step(batch)


def build_rows(bench: Bench) -> Iterator[Line]:
    """Time reading a large vocabulary: the bytes of its ids, or another library's tokenizer."""
    subjects = bench.subjects("o200k") or bench.subjects()
    tokenizer = subjects[-1].tokenizer
    json = subjects[-1].json
    tokens = dict(enumerate(mergeable_tokens(tokenizer)))
    sources: dict[str, Callable[[], object]] = {
        "the bytes of each": lambda: tokens,
        "tiktoken.Encoding": lambda: tiktoken_of(tokenizer),
        "tokenizers.Tokenizer": lambda: huggingface_of(json),
    }
    for name, source in sources.items():
        seconds = []
        for _ in range(bench.repeats):
            new = source()  # what was read of an object is kept
            seconds.append(timed(lambda new=new: StreamVocabulary(new).decode_stream())())
        took = statistics.median(seconds)
        limit = Target(high=0.5, unit=" s").verdict(took) if len(tokens) > 190_000 else ""
        yield cost_row(f"{len(tokens):,} ids, {name}", f"{took:.3g}", limit)
