"""Text to ids and back: whole texts, short texts, batches and long pieces."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any

from benchmarks import data
from benchmarks.cases import FASTEST, MB, NATIVE, PYTHON, Case, Job, MissingError, Target
from benchmarks.measure import instruction_sets
from benchmarks.peers import LIBRARIES, RIVALS, columns, fresh, loaded

TEXTS = {
    "cl100k": ("english", "code", "multilingual", "chinese"),
    "GPT-2": ("english", "code"),
    **dict.fromkeys(("o200k", "tekken", "Phi-3"), ("english",)),
    data.LEARNT: ("english", "code"),
}
"""Vocabularies, and texts to encode with each. The learnt one stands in if there is no cl100k."""

TIMES_TIKTOKEN = {
    ("array", 0): {"english": 18, "code": 18, "multilingual": 8, "chinese": 9},
    ("array", 1): {"english": 30, "code": 28, "multilingual": 13, "chinese": 13},
    ("list", 1): {"english": 20, "code": 12, "multilingual": 9, "chinese": 9},
}
"""Minimal ratio to tiktoken's speed, of arrays and lists, cold (0) and warm (1)."""

TIMES_FASTEST = (1.0, 1.2)
"""Minimal ratio to the speed of the fastest other library with cl100k, cold and warm."""


def encode_cases() -> Iterator[Case]:
    """Yield whole texts, for all engines and instruction sets."""
    for vocabulary, way in product(TEXTS, ("array", "list")):
        is_main = vocabulary == data.main()
        if not (is_main or data.main(vocabulary) == vocabulary != data.LEARNT):
            continue
        for text in [text for text in TEXTS[vocabulary] if text in data.texts()]:
            has_python = is_main and way == "list" and text in ("english", "code")
            engines = [*instruction_sets(), *([PYTHON] if has_python else [])]
            name, work = f"{vocabulary}, {text}, {way}", partial(encode, vocabulary, text, way)
            targets = [*targets_of(vocabulary, text, way)]
            yield Case(name, work, columns(*engines, *RIVALS), ["MB/s", "MB/s"], targets)


def targets_of(vocabulary: str, text: str, way: str) -> Iterator[Target]:
    """Yield the targets of a whole text."""
    is_main = vocabulary == data.main()
    for best, state in product(instruction_sets()[:1], (0, 1)):
        low = TIMES_TIKTOKEN.get((way, state), {}).get(text)
        if low and (vocabulary == "cl100k" or (vocabulary, text) == ("GPT-2", "english")):
            yield Target(low, than="tiktoken", state=state, column=best)
        if low and vocabulary == "cl100k":
            yield Target(TIMES_FASTEST[state], than=FASTEST, state=state, column=best)
        if is_main and text in ("english", "multilingual"):
            yield Target(0.5, than="avx512", state=state, column="avx2")
        if is_main and text == "english":
            yield Target(8, than="tiktoken", state=state, column="scalar")
    if is_main and text in ("english", "code") and way == "list":
        yield Target(0.5, than="tiktoken", state=1, column=PYTHON)


def encode(vocabulary: str, name: str, way: str, column: str, _turn: int) -> Job:
    text, calls = data.sample(name, LIBRARIES[column].sample_bytes), fresh(column, vocabulary)
    array = calls.array if way == "array" else None
    work, is_list = partial(array or calls.ids, text), way == "array" and array is None
    right = partial(data.tokenizer(vocabulary).encode_ordinary, text)
    return Job([work, (work,), work], data.megabytes(text), right, in_brackets=is_list)


SHORT_LIMITS_NS = {11: [300], 100: [], 2000: [4000]}  # by length in characters, for lists


def short_cases() -> Iterator[Case]:
    """Yield texts of a few characters, encoded again and again into a list and an array."""
    for length, limits in SHORT_LIMITS_NS.items():
        name, work = f"{data.main()}, {length:,} characters", partial(short, length)
        targets = [Target(high=limit) for limit in limits]
        yield Case(name, work, columns(NATIVE, *RIVALS), ["ns", "ns"], targets)


def short(length: int, column: str, _turn: int) -> Job:
    english, calls = data.text("english"), loaded(column)
    ascii = english[len(english) // 2 :].encode("ascii", "ignore").decode("ascii")
    text = "hello world" if length == 11 else ascii[:length]
    count = max(20, (20_000 if column == NATIVE else 2_000) * 11 // length)
    texts = [text] * count

    def many(work: Callable[[str], object]) -> object:
        for each in texts:
            ids = work(each)
        return ids

    works = [partial(many, work) if work else None for work in (calls.ids, calls.array)]
    return Job(works, count, partial(data.own().encode_ordinary, text))


SHAPES = ((512, 140), (512, 4096), (1, 2 * MB))  # the texts of a batch, and the bytes of each
TURN_BYTES = 2 * MB
"""Bytes that are timed together. A single small batch would find the processor's caches cold."""


def batch_cases() -> Iterator[Case]:
    """Yield batches of English on one thread, with other texts in each turn, as in a service."""
    for (count, size), way in product(SHAPES, ("array", "list")):
        texts = f"{count:,} texts" if count > 1 else "1 text"
        name = f"{data.main()}, {texts} of {size:,} bytes, {way}"
        yield Case(name, partial(batches, count, size, way), columns(NATIVE, *RIVALS), ["MB/s"])


def batches(count: int, size: int, way: str, column: str, turn: int) -> Job:
    calls, own = loaded(column), data.own()
    work = calls.array_of_batch if way == "array" else calls.ids_of_batch
    if work is None:
        raise MissingError
    texts, number = english_texts(size, turn * TURN_BYTES), max(1, TURN_BYTES // count // size)
    found = [[next(texts) for _ in range(count)] for _ in range(number)]
    per = sum(data.megabytes("".join(batch)) for batch in found)
    return Job([lambda: [*map(work, found)]], per, lambda: [*map(own.encode_batch, found)])


def english_texts(size: int, begin: int) -> Iterator[str]:
    """Yield English texts of `size` bytes, from the beginning again after the end."""
    content = data.sample("english").encode()
    while True:
        begin %= len(content)
        yield content[begin : begin + size].decode("utf-8", "ignore")
        begin += size


def drawn(codes: Iterable[int], size: int) -> str:
    """Return a megabyte of random characters, each of `size` bytes."""
    return "".join(random.Random(0).choices([*map(chr, codes)], k=MB // size))


PIECES: dict[str, Callable[[], str]] = {
    "`a`": lambda: "a" * MB,
    "spaces": lambda: " " * MB,
    "`=`": lambda: "=" * MB,
    "random letters": partial(drawn, b"abcdefghijklmnopqrstuvwxyz", 1),
    "random symbols": partial(drawn, b"!#$%&()*+,-./:;<=>?@[]^_`{|}~", 1),
    "random CJK": partial(drawn, range(0x4E00, 0xA000), 3),
    "emoji": partial(drawn, range(0x1F600, 0x1F650), 4),
}
"""Pieces of a million bytes, each of a kind that is hard for some encoder."""


def piece_cases() -> Iterator[Case]:
    """Yield a million bytes that the pattern does not split, into a list and an array."""
    names = columns(NATIVE, *(name for name in RIVALS if name != "tokenizers"))
    targets = [Target(high=100, state=state) for state in (0, 1)]
    for name in PIECES:
        what = f"{data.main()}, {name}"
        yield Case(what, partial(piece, name), names, ["ms", "ms"], targets)


def piece(name: str, column: str, turn: int) -> Job:
    calls, text = loaded(column), PIECES[name]()
    first, second = text[2 * turn :] if turn else text[:20_000], text[2 * turn + 1 :]
    array = partial(calls.array, second) if calls.array else None
    right = partial(data.own().encode_ordinary, first)
    return Job([partial(calls.ids, first), array], right=right)


def decode_cases() -> Iterator[Case]:
    """Yield the ids of texts; tiktoken takes no buffers, and gets lists."""
    pythons = [Target(0.3, than="tiktoken", state=state, column=PYTHON) for state in (0, 1)]
    ours = [Target(10, than="tiktoken"), Target(2, than="tiktoken", state=1)]
    targets = [*ours, Target(1, than=FASTEST, state=1), *pythons]
    for text in data.texts():
        name, work = f"{data.main()}, {text}", partial(decode, text)
        yield Case(name, work, columns(NATIVE, PYTHON, *RIVALS), ["MB/s", "MB/s"], targets)


def decode(name: str, column: str, _turn: int) -> Job:
    calls, text = loaded(column), data.sample(name, 2 * MB)
    ids = data.own().encode_ordinary(text)
    works: list[Any] = []
    for work, source in ((calls.to_bytes, calls.buffer(ids)), (calls.to_text, ids)):
        call = partial(work, source) if work else None
        works += [(call,), call] if call else [None]  # twice, after other libraries
    return Job(works, data.megabytes(text), lambda: text)
