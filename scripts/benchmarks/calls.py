"""Calls that users pay, compared with a simpler one or with tiktoken's; prompts that grow."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path

from benchmarks import data
from benchmarks.cases import MB, NATIVE, PYTHON, Case, Job, Target
from benchmarks.measure import bpetite, memory
from benchmarks.peers import columns, loaded, tiktoken_of
from bpetite import DecodeStreamBatch, Prompt, Tokenizer

# Ways to stream

STEP = "bare step"  # the column of `DecodeStream.step` alone
STREAMS = 64


def call_each(call: Callable[[int], object], ids: Iterable[int]) -> None:
    for id in ids:
        call(id)


def exhaust(results: Iterator[object]) -> None:
    for _ in results:
        pass


def step_batch(tokenizer: Tokenizer, ids: list[int]) -> None:
    streams = DecodeStreamBatch[int](tokenizer)
    for key in range(STREAMS):
        streams.add(key)
    for start in range(0, len(ids), STREAMS):
        streams.step(dict(enumerate(ids[start : start + STREAMS])))


WAYS: dict[str, tuple[list[float], Callable[[Tokenizer, list[int]], None]]] = {
    "`for text in tokenizer.stream(ids)`": ([1.5], lambda own, ids: exhaust(own.stream(ids))),
    "`step_event`": ([8], lambda own, ids: call_each(own.decode_stream().step_event, ids)),
    "`events`": ([10], lambda own, ids: exhaust(own.decode_stream().events(ids))),
    f"`DecodeStreamBatch.step` of {STREAMS} streams": ([], step_batch),
}
"""Ways to stream, and limits for the time of a token in relation to a bare step."""


def stream(way: str, column: str, _turn: int) -> Job:
    tokenizer = data.own()
    ids = tokenizer.encode_ordinary(data.sample("english", MB))
    bare = partial(call_each, tokenizer.decode_stream().step, ids)
    return Job([bare if column == STEP else partial(WAYS[way][1], tokenizer, ids)], len(ids))


# First calls, each in a new process


def first_stream(*_: object) -> Job:
    tokenizer = Tokenizer.load(data.path_of(data.main()))
    return Job([lambda: tokenizer.decode_stream().step(0)])


def import_package(column: str, _turn: int) -> Job:
    clock = "time.process_time()"
    program = f"import time; start = {clock}; import {column}; print({clock} - start)"
    return Job([float(subprocess.check_output([sys.executable, "-c", program]))])


def count(file: Path, *_: object) -> Job:
    return Job([bpetite("count", "--model", data.path_of(data.main()), file).cpu])


def unstable(column: str, _turn: int) -> Job:
    package = "bpetite.tiktoken" if column == NATIVE else column
    encoding = tiktoken_of(data.own(), package)
    encoding.encode("warm up")
    return Job([partial(encoding.encode_with_unstable, "a prompt that ends within a wor")])


def load(path: Path, *_: object) -> Job:
    return Job([partial(Tokenizer.load, path)])


def added(*_: object) -> Job:
    texts = [data.sample(name, 4 * MB) for name in data.texts()]
    gc.collect()
    before = memory()
    tokenizer = Tokenizer.load(data.path_of(data.main()))
    gc.collect()
    loaded = memory()
    for start, text in product(range(0, 4 * MB, 10_000), texts):
        tokenizer.count(text[start : start + 10_000])
    gc.collect()
    return Job([loaded - before, memory() - before])


def call_cases() -> Iterator[Case]:
    """Yield ways to stream, first calls, loads and memory."""
    for name, (limits, _) in WAYS.items():
        targets = [Target(high=limit, than=STEP) for limit in limits]
        yield Case(name, partial(stream, name), {NATIVE: NATIVE, STEP: NATIVE}, ["ns"], targets)
    fresh, ours, both = partial(Case, is_fresh=True), columns(NATIVE), columns(NATIVE, "tiktoken")
    vocabulary, scratch = data.main(), data.settings().scratch
    as_fast = Target(high=1, than="tiktoken")
    yield fresh("first stream after a load", first_stream, ours, ["ms"], [Target(high=5)])
    yield fresh("`import`", import_package, both, ["ms"], [as_fast, Target(high=100)])
    (small := scratch / "small.txt").write_text("some words of a small text\n", "utf-8")
    work = partial(count, small)
    yield fresh("`bpetite count` of a small file", work, ours, ["ms"], [Target(high=150)])
    yield fresh("first `encode_with_unstable`", unstable, both, ["ms"], [as_fast])
    saved = {scratch / "bpetite.json": [0.06, 0.3], scratch / "tokenizer.json": []}
    for path in saved:
        data.tokenizer(vocabulary).save(path)
    for path, limits in {data.path_of(vocabulary): [1.5, 1.5], **saved}.items():
        engines, work = columns(NATIVE, PYTHON), partial(load, path)
        pairs = zip(engines, limits, strict=False)
        targets = [Target(high=limit, column=name) for name, limit in pairs]
        yield fresh(f"`load` of {path.name}", work, engines, ["s"], targets)
    what = "MB that a vocabulary adds / after 4 MB of each text"
    targets = [Target(high=64, state=1)]
    yield fresh(what, added, ours, ["MB", "MB"], targets)


# Prompts

TOKENS, NEW_TOKENS, COPIES = 200_000, 500, 20
"""Of a prompt, of what is appended, and prompts that are changed in a turn, each once."""


def changed(text: str) -> str:
    """Return a text with words in the middle."""
    middle = len(text) // 2
    return f"{text[:middle]} it is so {text[middle:]}"


CHANGES: dict[str, tuple[list[float], Callable[[Prompt, str, str], object]]] = {
    "500 tokens appended": ([100], lambda prompt, _, added: prompt.append(added)),
    "the same by `set`": ([500], lambda prompt, base, added: prompt.set(base + added)),
    "changed in the middle": ([800], lambda prompt, base, _: prompt.set(changed(base))),
    "changed at the start": ([], lambda prompt, base, _: prompt.set(f"it is so {base}")),
    "the same text again": ([], lambda prompt, base, _: prompt.set(base)),
}
"""Changes, and limits in microseconds. In the middle, the text around is encoded again."""


def prompt_cases() -> Iterator[Case]:
    """Yield changes, whose columns are the texts, then one encode of the whole text."""
    texts = dict.fromkeys(data.texts(), NATIVE)
    for name, (limits, _) in CHANGES.items():
        targets = [Target(high=limit, column=text) for text in texts for limit in limits]
        yield Case(name, partial(change, name), texts, ["µs"], targets)
    yield Case("first `set`", partial(encode, ""), texts, ["µs"])
    for library in columns(NATIVE, "tiktoken", "tokenizers"):
        others = dict.fromkeys(texts, library)
        yield Case(f"one encode by {library}", partial(encode, library), others, ["µs"])


@cache
def parts_of(name: str) -> tuple[str, str, Prompt]:
    """Return a text of TOKENS tokens, NEW_TOKENS tokens that follow, and a prompt of the first."""
    tokenizer = data.own()
    ids = tokenizer.encode_ordinary(data.text(name)[: 10 * TOKENS])
    ids = (ids * (TOKENS // len(ids) + 2))[: TOKENS + NEW_TOKENS]
    base, added = (tokenizer.decode(each, errors="ignore") for each in (ids[:TOKENS], ids[TOKENS:]))
    prompt = tokenizer.prompt()
    prompt.set(base)
    return base, added, prompt


def change(name: str, column: str, _turn: int) -> Job:
    base, added, prompt = parts_of(column)
    copies, make = [prompt.copy() for _ in range(COPIES)], CHANGES[name][1]
    return Job([lambda: [make(each, base, added) for each in copies]], COPIES)


def encode(library: str, column: str, _turn: int) -> Job:
    base, added, _ = parts_of(column)
    if library:
        return Job([partial(loaded(library).ids, base + added)])
    return Job([partial(data.own().prompt().set, base)])
