"""Work of bpetite compared with simpler work of bpetite, which no page shows but targets guard."""

from __future__ import annotations

import pickle
import re
import time
from array import array
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from math import nan
from pathlib import Path

from benchmarks import data
from benchmarks.cases import MB, NATIVE, Case, Job, Target
from benchmarks.encode import PIECES, drawn
from benchmarks.measure import TWO_CPUS, seconds_of
from benchmarks.train import VOCAB_SIZE, file_of
from bpetite import PieceCounts, Tokenizer

YARDSTICK = "yardstick"


def pair(name: str, work: partial[Job], *lows: float, process: str = NATIVE) -> Case:
    """Return a case with minimal ratios to the yardstick's speed, one or nan for each figure."""
    targets = [Target(low, than=YARDSTICK, state=n) for n, low in enumerate(lows) if low > 0]
    return Case(name, work, {NATIVE: process, YARDSTICK: process}, ["MB/s"] * len(lows), targets)


def thread_cases() -> Iterator[Case]:
    """Yield one text and a batch on two threads, compared with one thread by wall time."""
    lows = {"uint32": 1.5, None: 1.3}.items()
    for name, size, (dtype, low) in product(data.texts(), (0, 4000), lows):
        what = f"{name}, {f'texts of {size:,}' if size else 'one text'}, {dtype or 'list'}"
        yield pair(what, partial(on_threads, name, size, dtype), low, process=TWO_CPUS)


def on_threads(name: str, size: int, dtype: str | None, column: str, _turn: int) -> Job:
    text, threads = data.sample(name), 2 if column == NATIVE else 1
    texts = [text[start : start + size] for start in range(0, len(text), size)] if size else []
    encode: Callable[..., object] = data.own().encode_batch if size else data.own().encode
    work = partial(encode, texts or text, threads=threads, dtype=dtype)
    return Job([work], data.megabytes(text), clock=time.perf_counter)


def document_cases() -> Iterator[Case]:
    """Yield `encode_buffer` of many documents, compared with one text."""
    lows = {100: 0.75, 500: 0.85, 2_500: 0.95}.items()
    for name, (size, low) in product(("english", "code"), lows):
        yield pair(f"{name}, documents of {size:,} bytes", partial(documents, name, size), low)


def documents(name: str, size: int, column: str, _turn: int) -> Job:
    content = data.sample(name, MB).encode()
    spaces = re.finditer(rb"(?s).{%d}[^ ]*(?= )" % size, content) if column == NATIVE else ()
    offsets = array("q", [0, *(match.end() for match in spaces), len(content)])
    return Job([partial(data.own().encode_buffer, content, offsets)], len(content) / MB)


def chunk_cases() -> Iterator[Case]:
    """Yield chunks of 512 tokens, compared with counting the tokens."""
    for name in data.texts():
        yield pair(f"{name}, chunks of 512 tokens", partial(chunks, name), 0.5)


def chunks(name: str, column: str, _turn: int) -> Job:
    text, count = data.sample(name), partial(data.own().count, allowed_special=())
    cut = partial(data.own().chunks, max_tokens=512, allowed_special=())
    work = (lambda: [*cut(text)]) if column == NATIVE else partial(count, text)
    return Job([work], data.megabytes(text))


# Patterns without a name, and byte fallback

TRAINED = "tekken"  # the pattern to train with
OTHER_PIECES = 0.3  # by which a mean piece may differ from cl100k's; beyond, merging is other work

HARD: dict[str, Callable[[], str]] = {
    **PIECES,
    "ab": lambda: "ab" * (MB // 2),
    "U+2581": lambda: "\u2581" * (MB // 3),
    "random ASCII": partial(drawn, range(0x20, 0x7F), 1),
    "random digits": partial(drawn, b"0123456789", 1),
}


def pattern_cases() -> Iterator[Case]:
    """Yield texts, loading and training by patterns of the folder, compared with named ones.

    Only texts whose pieces are about as long as cl100k's have a target.
    """
    for (name, pattern), text in product(data.patterns().items(), data.texts()):
        is_like = abs(mean_piece(pattern, text) / mean_piece("cl100k", text) - 1) < OTHER_PIECES
        work = partial(encode, data.main(), pattern, text)
        yield pair(f"{name}, {text}", work, *[0.7 if is_like else nan] * 2)
    for name, pattern in data.patterns().items():
        work, targets = partial(added_to_load, pattern), [Target(high=40)]
        yield Case(f"{name}, added to loading", work, {NATIVE: NATIVE}, ["ms"], targets)
    for text in data.texts() if TRAINED in data.patterns() else ():
        if text in ("english", "multilingual"):
            yield pair(f"{TRAINED}, training on {text}", partial(train, file_of(text)), 0.7)


def fallback_cases() -> Iterator[Case]:
    """Yield real texts, and hard ones, by Phi-3's vocabulary, compared with cl100k."""
    lows = {"english": 0.8, "code": 0.7, **dict.fromkeys(HARD, 0.8)}
    for name in [*data.texts(), *HARD] if data.main("Phi-3") == "Phi-3" else ():
        work = partial(encode, "Phi-3", None, name)
        yield pair(f"Phi-3, {name}", work, nan, lows.get(name, nan))


@cache
def mean_piece(pattern: str, name: str) -> float:
    """Return the mean size in megabytes of the pieces of the first megabyte."""
    counts = PieceCounts.from_corpus([data.sample(name, MB)], pattern=pattern)
    return data.megabytes(data.sample(name, MB)) / sum(count for _, count in counts.items())


def encode(vocabulary: str, pattern: str | None, name: str, column: str, _turn: int) -> Job:
    ours, theirs = (vocabulary, pattern), (data.main(), "cl100k")
    tokenizer: Tokenizer = pickle.loads(data.pickled(*(ours if column == NATIVE else theirs)))
    text = HARD[name]() if name in HARD else data.sample(name)
    work = partial(tokenizer.encode, text, dtype="uint32")
    return Job([work, (work,), work], data.megabytes(text))


def added_to_load(pattern: str, _column: str, _turn: int) -> Job:
    """Return the time that a pattern adds to loading, compared with qwen2's.

    The ids of public ranks are on record for their own pattern. With any other, load compares them
    with the ids of tiktoken, if it is installed.
    """
    both = (partial(Tokenizer.load, data.ranks(), pattern=each) for each in ("qwen2", pattern))
    theirs, ours = map(seconds_of, both)
    return Job([ours - theirs])


def train(path: str, column: str, _turn: int) -> Job:
    pattern = data.patterns()[TRAINED] if column == NATIVE else "gpt2"
    work = partial(Tokenizer.train, [Path(path)], VOCAB_SIZE, pattern=pattern, threads=1)
    return Job([work], Path(path).stat().st_size / MB)
