"""What a step of a stream costs, at its start and after a million tokens."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import cycle, islice, product
from math import inf
from time import perf_counter
from typing import Any

from benchmarks import data
from benchmarks.calls import call_each
from benchmarks.cases import MB, NATIVE, PYTHON, Case, Job, Target
from benchmarks.measure import seconds_of
from benchmarks.peers import columns, module
from bpetite import Tokenizer

OURS = (NATIVE, PYTHON)
TOKENS, BLOCK_STEPS = 1_000_000, 100
"""The steps of a stream, and steps that are timed together, by wall time.

A single step would be too short: reading the wall clock takes as long, and reading the CPU time
takes as long as six steps.
"""

OTHERS_MAX_TOKENS, OTHERS_MAX_SECONDS = 200_000, 0.4
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

drawn = random.Random(0).choices
TEXTS: dict[str, Callable[[], str | Iterable[int]]] = {
    "English": lambda: data.sample("english", MB),
    "many languages": lambda: data.sample("multilingual", MB),
    "Korean": lambda: " ".join(drawn(KOREAN.split(), k=40_000)),
    "emoji": lambda: "".join(drawn(EMOJI.split(), k=100_000)),
    "random bytes": lambda: drawn(range(256), k=TOKENS // 10),
    "the byte 0x80": lambda: [0x80],
    "skipped special tokens": lambda: data.tokenizer(data.LEARNT).special_tokens.values(),
}
"""Texts or ids. All but the first two have about one byte for each id."""


def step_cases() -> Iterator[Case]:
    """Yield texts and numbers of stop strings, with limits for half of the steps."""
    texts = [name for name in TEXTS if name != "many languages" or "multilingual" in data.texts()]
    limits = {**{(name, 0): 150 for name in texts}, ("English", 1): inf, ("English", 20): 400}
    always = [Target(high=1.4, state=2), Target(6, than="tokenizers"), Target(1, than="splintr")]
    for (name, stops), limit in limits.items():
        targets = product(OURS, [*always, Target(high=limit)])
        ours = [each._replace(column=column) for column, each in targets]
        work, names = partial(steps, name, stops), columns(*(OURS if stops else STEPS))
        yield Case(f"{name}, {stops}", work, names, ["ns", "ns", "×"], ours)


def steps(name: str, stops: int, column: str, turn: int) -> Job:
    """Return the time of a step in half and in 99 of 100 blocks, and at the end by the start's."""
    is_ours, ids = column in OURS, ids_of(name)
    step = STEPS[column](data.tokenizer(data.LEARNT), name.startswith("skipped"), STOPS[:stops])
    if not turn:
        return Job([])
    some, limit = (ids, inf) if is_ours else (ids[:OTHERS_MAX_TOKENS], OTHERS_MAX_SECONDS)
    times = blocks(step, some, limit)
    tenth, ranked = len(times) // 10, sorted(times)
    last = statistics.median(times[-tenth:]) / statistics.median(times[:tenth])
    shown = [ranked[(len(ranked) - 1) * hundredths // 100] / BLOCK_STEPS for hundredths in (50, 99)]
    return Job([*shown, last] if is_ours else shown)


@cache
def ids_of(name: str) -> list[int]:
    """Return a million ids, whose last tenth equals the first tenth."""
    found = TEXTS[name]()
    encode = data.tokenizer(data.LEARNT).encode_ordinary
    ids = encode(found) if isinstance(found, str) else found
    return [*islice(cycle(ids), TOKENS // 10)] * 10


def blocks(step: Callable[[int], object], ids: Sequence[int], limit: float) -> list[float]:
    """Return the seconds of each block of steps, until all together exceed a limit."""
    seconds: list[float] = []
    for begin in range(0, len(ids), BLOCK_STEPS):
        work = partial(call_each, step, ids[begin : begin + BLOCK_STEPS])
        seconds.append(seconds_of(work, perf_counter))
        limit -= seconds[-1]
        if limit < 0:
            break
    return seconds


# How each library makes a step: whether special tokens are skipped, and the stop strings.

Step = Callable[[int], object]


def bpetite(tokenizer: Tokenizer, skips: bool, stops: Sequence[str]) -> Step:
    return tokenizer.decode_stream(skip_special_tokens=skips, stop=stops).step


@cache
def twin(tokenizer: Tokenizer) -> Any:
    return module("tokenizers").Tokenizer.from_buffer(data.written(tokenizer))


def tokenizers(tokenizer: Tokenizer, skips: bool, _: Sequence[str]) -> Step:
    stream = module("tokenizers.decoders").DecodeStream(skip_special_tokens=skips)
    return partial(stream.step, twin(tokenizer))


def splintr(tokenizer: Tokenizer, skips: bool, _: Sequence[str]) -> Step:
    own = module("splintr").from_json_bytes(data.written(tokenizer))
    stream = own.streaming_decoder() if skips else own.streaming_decoder_with_special()
    add_token: Step = stream.add_token
    return add_token


def transformers(tokenizer: Tokenizer, skips: bool, _: Sequence[str]) -> Step:
    """Make steps of a TextIteratorStreamer, without its queue."""
    own = module("transformers").PreTrainedTokenizerFast(tokenizer_object=twin(tokenizer))
    kind = module("transformers.generation.streamers").TextIteratorStreamer
    stream = kind(own, skip_special_tokens=skips, clean_up_tokenization_spaces=False)
    stream.on_finalized_text = lambda *_, **__: None
    put, rows = stream.put, module("numpy").arange(tokenizer.n_vocab).reshape(-1, 1)
    return lambda id: put(rows[id])


STEPS: dict[str, Callable[[Tokenizer, bool, Sequence[str]], Step]] = {
    **{NATIVE: bpetite, PYTHON: bpetite},
    **{"tokenizers": tokenizers, "splintr": splintr, "transformers": transformers},
}
