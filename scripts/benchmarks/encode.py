"""Text to ids: whole texts, batches, and instruction sets, compared with other libraries."""

from __future__ import annotations

import itertools
import pickle
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any

from tools.engines import INSTRUCTION_SETS, instruction_set

from benchmarks.measure import Bench, Subject, first_bytes, new_process, size_of, timed
from benchmarks.peers import LIBRARIES, TIKTOKEN, Calls, Library, calls_of, open_bpetite, openable
from benchmarks.table import MB, Row, Target, bare_speed, times_faster

WAYS = ("array", "list")
STATES = ("cold", "warm")
NAMES = ("bpetite", *(library.name for library in LIBRARIES))
BPETITE = Library("bpetite", "bpetite", open_bpetite)

SLOW_SAMPLE_BYTES = MB // 4
"""Sample size for libraries that encode a few megabytes a second."""

TIMES_TIKTOKEN = {
    ("array", "cold"): {"english": 18, "code": 18, "multilingual": 8, "chinese": 9},
    ("array", "warm"): {"english": 30, "code": 28, "multilingual": 13, "chinese": 13},
    ("list", "warm"): {"english": 20, "code": 12, "multilingual": 9, "chinese": 9},
}
"""Minimal ratio to tiktoken's speed."""

TIMES_FASTEST = {"cold": 1.0, "warm": 1.2}
"""Minimal ratio to the speed of the fastest other library with cl100k."""


@dataclass
class Contest:
    """Seconds that each library takes for the same work, in turns."""

    size: int
    """Bytes of text."""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    is_wrong: set[str] = field(default_factory=set)
    in_brackets: set[str] = field(default_factory=set)
    """Libraries without arrays, whose lists are measured instead."""

    def add(self, name: str, seconds: float) -> None:
        """Record the seconds of one turn, for all bytes of the text."""
        self.seconds.setdefault(name, []).append(seconds)

    def speed(self, name: str) -> str:
        """Return megabytes a second, "other ids" for wrong ids, or "" without a measurement."""
        if name in self.is_wrong or name not in self.seconds:
            return "other ids" if name in self.is_wrong else ""
        shown = bare_speed(self.size)(statistics.median(self.seconds[name]))
        return f"({shown})" if name in self.in_brackets else shown

    def times(self, ours: str, name: str | None) -> float | None:
        """Return the speed of `ours` divided by another, if both were measured."""
        if name not in self.seconds or ours not in self.seconds:
            return None
        return times_faster(self.seconds[ours], self.seconds[name])

    def row(
        self, what: str, times_tiktoken: float | None = None, times_fastest: float | None = None
    ) -> Row:
        """Return the speeds of all libraries, with bpetite's ratios and their minima."""
        others = self.seconds.keys() - self.is_wrong - self.in_brackets - {"bpetite"}
        median = statistics.median
        fastest = min(others, key=lambda name: median(self.seconds[name]), default=None)
        cells, checks = [what, *map(self.speed, NAMES)], []
        for name, low in ((TIKTOKEN.name, times_tiktoken), (fastest, times_fastest)):
            times = self.times("bpetite", name)
            if times is None:
                cells.append("")
                continue
            cells.append(f"{times:.2f} ({name})" if len(cells) > len(NAMES) + 1 else f"{times:.1f}")
            checks += [Target(low=low, unit=f" × {name}").check(what, times)] if low else []
        return Row(cells, checks)


def ids_in(result: Any) -> list[int]:
    """Return the ids of a list, of a buffer, or of a batch of them."""
    if isinstance(result, tuple):
        result = result[0]
    if hasattr(result, "to_list"):
        result = result.to_list()
    if not isinstance(result, list):
        return memoryview(result).cast("B").cast("I").tolist()
    return [*chain(*result)] if result and not isinstance(result[0], int) else result


# Whole texts

ENCODE_HEADER = ("MB/s: vocabulary, text, ids in, state", *NAMES, "× tiktoken", "× fastest")

Contests = dict[tuple[str, str], Contest]
"""The contest of each way and state."""


def encode_rows(bench: Bench) -> Iterator[Row]:
    """Compare whole texts with cl100k, and English with GPT-2's vocabulary."""
    works = [(bench.subject(), name) for name in bench.samples]
    if "GPT-2" in bench.public:
        works.append((bench.subject("GPT-2"), "english"))
    for subject, name in works:
        for (way, state), contest in contests_of(bench, subject, bench.samples[name]).items():
            low = TIMES_TIKTOKEN.get((way, state), {}).get(name)
            fastest = TIMES_FASTEST[state] if low and subject.name != "GPT-2" else None
            yield contest.row(f"{subject.name}, {name}, {way}, {state}", low, fastest)


def contests_of(
    bench: Bench, subject: Subject, text: str, loaded: Mapping[Library, Calls] | None = None
) -> Contests:
    """Let all libraries encode a text in turns, each turn with a fresh object, cold then warm.

    Libraries without a cache use one object in all turns. `loaded` has the libraries; by default
    they are all that can open the vocabulary.
    """
    contests = {key: Contest(size_of(text)) for key in product(WAYS, STATES)}
    loaded = dict(openable(subject)) if loaded is None else loaded
    for calls in loaded.values():  # because the first call of some libraries imports more modules
        for encode in (calls.ids, calls.array or calls.ids):
            encode("warm up")
    expected: list[int] | None = ids_in(loaded.get(TIKTOKEN, open_bpetite(subject)).ids(text))
    for _ in range(bench.repeats):
        for library in (BPETITE, *loaded):
            if library.has_no_cache:
                measure_loaded(contests, library, loaded[library], text, expected)
                continue
            measure_fresh(contests, library.name, library.open(subject), text, expected)
            cold = timed(library.open(subject).ids, text)()
            contests["list", "cold"].add(library.name, cold)
        expected = None  # one comparison is enough
    return contests


def measure_fresh(
    contests: Contests, name: str, calls: Calls, text: str, expected: list[int] | None
) -> None:
    """Time the first and third array, then the second list.

    The results of the calls in between are compared with the `expected` ids.
    """
    for way in WAYS:
        encode = calls.encoder(way)
        clock = timed(encode, text)
        if way == "array":
            contests[way, "cold"].add(name, clock())
        if expected is not None and ids_in(encode(text)) != expected:
            for state in STATES:
                contests[way, state].is_wrong.add(name)
        elif expected is None:
            clock()
        contests[way, "warm"].add(name, clock())


def measure_loaded(
    contests: Contests, library: Library, calls: Calls, text: str, expected: list[int] | None
) -> None:
    """Time a library that is equally fast in each call."""
    sample = first_bytes(text, SLOW_SAMPLE_BYTES) if library.is_slow else text
    for way in WAYS:
        encode = calls.encoder(way)
        is_wrong = expected is not None and sample is text and ids_in(encode(text)) != expected
        seconds = timed(encode, sample)() * size_of(text) / size_of(sample)
        for contest in (contests[way, state] for state in STATES):
            contest.add(library.name, seconds)
            contest.is_wrong |= {library.name} if is_wrong else set()
            contest.in_brackets |= {library.name} if way == "array" and not calls.array else set()


# Batches

SHAPES = ((512, 140), (512, 4096), (1, 2 * MB))
"""The number of texts in a batch, and the bytes of each."""

TURN_BYTES = MB
"""Bytes that are timed together. A single small batch would find the processor's caches cold."""


BATCHES_HEADER = ("MB/s: vocabulary, batch, ids in", *NAMES, "× tiktoken", "× fastest")


def batches_rows(bench: Bench) -> Iterator[Row]:
    """Compare batches of English on one thread, with other texts in each turn, as in a service."""
    subject, data = bench.subject(), bench.samples["english"].encode()
    loaded = {"bpetite": open_bpetite(subject)}
    loaded |= {library.name: calls for library, calls in openable(subject)}
    starts = itertools.count(step=TURN_BYTES)
    for (count, size), way in product(SHAPES, WAYS):
        batches = max(1, TURN_BYTES // count // size)
        contest = Contest(batches * count * size)
        for turn in range(bench.repeats + 1):
            texts = texts_of(data, size, next(starts))
            work = [[next(texts) for _ in range(count)] for _ in range(batches)]
            share = sum(map(size_of, chain(*work))) / contest.size  # less where the text ends
            for name, calls in loaded.items():
                encode = calls.ids_of_batch if way == "list" else calls.array_of_batch
                if encode is None:
                    continue
                if turn:
                    contest.add(name, timed(encode_all, encode, work)() / share)
                elif ids_in(encode(work[0])) != ids_in([*map(subject.tokenizer.encode, work[0])]):
                    contest.is_wrong.add(name)
        texts_are = f"{count:,} texts" if count > 1 else "1 text"
        yield contest.row(f"{subject.name}, {texts_are} of {size:,} bytes, {way}")


def encode_all(encode: Callable[[Any], object], work: Iterable[Any]) -> None:
    """Encode each text or batch."""
    for each in work:
        encode(each)


def texts_of(data: bytes, size: int, begin: int) -> Iterator[str]:
    """Yield texts of `size` bytes, from the beginning again after the end."""
    for start in itertools.count(begin, size):
        yield data[start % len(data) :][:size].decode("utf-8", "ignore")


# Instruction sets

AVX2_TARGET = Target(low=0.5, unit=" × avx512")
SCALAR_TARGET = Target(low=8, unit=" × tiktoken")


ISA_HEADER = ("MB/s: vocabulary, text, ids in, state", *INSTRUCTION_SETS, "tiktoken, list")


def isa_rows(bench: Bench) -> Iterator[Row]:
    """Compare the instruction sets of this processor, each in its own process, in turns."""
    subject = bench.subject()
    tiktoken = dict(openable(subject)).get(TIKTOKEN)
    with ExitStack() as stack:
        executors: dict[str, ProcessPoolExecutor] = {}
        for isa in INSTRUCTION_SETS:
            executor = stack.enter_context(new_process({"BPETITE_SIMD": isa}))
            if executor.submit(instruction_set).result() == isa:
                executors[isa] = executor
        for name in ("english", "multilingual"):
            if name not in bench.samples:
                continue
            text = bench.samples[name]
            contests = {key: Contest(size_of(text)) for key in product(WAYS, STATES)}
            for _ in range(bench.repeats):
                for (isa, executor), way in product(executors.items(), WAYS):
                    future = executor.submit(cold_and_warm, subject.pickled, text, way)
                    for state, seconds in zip(STATES, future.result(), strict=True):
                        contests[way, state].add(isa, seconds)
                if tiktoken is not None:
                    sample = first_bytes(text, 2 * MB)
                    seconds = timed(tiktoken.ids, sample)() * size_of(text) / size_of(sample)
                    for contest in contests.values():
                        contest.add(TIKTOKEN.name, seconds)
            for (way, state), contest in contests.items():
                yield isa_row(contest, f"{subject.name}, {name}, {way}, {state}")


def cold_and_warm(pickled: bytes, text: str, way: str) -> tuple[float, float]:
    """Encode a text with a fresh tokenizer; return the seconds of calls 1 and 3."""
    clock = timed(calls_of(pickle.loads(pickled)).encoder(way), text)
    cold, _, warm = clock(), clock(), clock()
    return cold, warm


def isa_row(contest: Contest, what: str) -> Row:
    """Return the speeds of all instruction sets."""
    checks = []
    for isa, other, target in (
        ("avx2", "avx512", AVX2_TARGET),
        ("scalar", TIKTOKEN.name, SCALAR_TARGET if ", english, " in what else None),
    ):
        times = contest.times(isa, other)
        checks += [target.check(f"{what}, {isa}", times)] if target and times else []
    return Row((what, *map(contest.speed, (*INSTRUCTION_SETS, TIKTOKEN.name))), checks)
