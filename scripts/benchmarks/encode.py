"""Text to ids: whole texts, batches, and instruction sets, beside other libraries."""

from __future__ import annotations

import itertools
import pickle
import statistics
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any

from tools.engines import INSTRUCTION_SETS, instruction_set

from benchmarks.measure import Bench, Subject, first_bytes, new_process, size_of, timed
from benchmarks.peers import LIBRARIES, TIKTOKEN, Calls, Library, calls_of, open_bpetite, openable
from benchmarks.table import MB, Line, Row, Target, bare_speed, times_faster

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


def encoding(calls: Calls, way: str) -> Callable[[str], object]:
    """Return the function that encodes into a list or into an array."""
    encode: Callable[[str], object] | None = calls.ids if way == "list" else calls.array
    assert encode is not None
    return encode


@dataclass
class Contest:
    """Seconds of each library for the same work, in turns, by library, way and state."""

    size: int
    """Bytes of text."""
    seconds: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    is_wrong: set[tuple[str, str]] = field(default_factory=set)
    only_lists: set[str] = field(default_factory=set)
    """Libraries without arrays. Their lists stand for both, in brackets."""

    def takes_part(self, name: str, way: str) -> bool:
        """Return whether a library has this way itself."""
        return way.endswith("list") or name not in self.only_lists

    def add(self, name: str, way: str, state: str, seconds: float) -> None:
        """Record the seconds of one turn, for all bytes of the text."""
        self.seconds.setdefault((name, way, state), []).append(seconds)

    def median(self, name: str, way: str, state: str) -> float:
        """Return the median of the turns."""
        return statistics.median(self.seconds[name, way, state])

    def speed(self, name: str, way: str, state: str) -> str:
        """Return megabytes a second, or that the ids are wrong."""
        if (name, way) in self.is_wrong:
            return "other ids"
        if (name, way, state) not in self.seconds:
            return ""
        shown = bare_speed(self.size)(self.median(name, way, state))
        return shown if self.takes_part(name, way) else f"({shown})"

    def times(self, name: str, way: str, state: str) -> float:
        """Return bpetite's speed divided by another library's."""
        theirs = self.seconds[name, way, state]
        return times_faster(self.seconds["bpetite", way, state], theirs)

    def fastest(self, way: str, state: str) -> str | None:
        """Return the fastest other library among those with the right ids."""
        others = {
            name: self.median(name, way, state)
            for name, its_way, its_state in self.seconds
            if name != "bpetite" and (its_way, its_state) == (way, state)
            if (name, way) not in self.is_wrong
            if self.takes_part(name, way)
        }
        return min(others, key=others.__getitem__, default=None)

    def row(
        self,
        what: str,
        way: str,
        state: str,
        times_tiktoken: float | None = None,
        times_fastest: float | None = None,
    ) -> Row:
        """Return the speeds of all libraries, with bpetite's ratios and their minima."""
        checks = []
        shown = ["", ""]
        for column, (name, low) in enumerate(
            [(TIKTOKEN.name, times_tiktoken), (self.fastest(way, state), times_fastest)]
        ):
            if name is None or (name, way, state) not in self.seconds:
                continue
            times = self.times(name, way, state)
            shown[column] = f"{times:.2f} ({name})" if column else f"{times:.1f}"
            if low is not None:
                checks.append(Target(low=low, unit=f" × {name}").check(what, times))
        speeds = [self.speed(name, way, state) for name in NAMES]
        return Row((what, *speeds, *shown), checks)


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


def encode_header() -> Line:
    """Return the column titles."""
    return ("MB/s: vocabulary, text, ids in, state", *NAMES, "× tiktoken", "× fastest")


def encode_rows(bench: Bench) -> Iterator[Row]:
    """Compare whole texts with cl100k, and English with GPT-2's vocabulary."""
    works = [(bench.subject(), name) for name in bench.samples]
    if "GPT-2" in bench.public:
        works.append((bench.subject("GPT-2"), "english"))
    for subject, name in works:
        contest = contest_of(bench, subject, bench.samples[name])
        for way, state in product(WAYS, STATES):
            what = f"{subject.name}, {name}, {way}, {state}"
            low = TIMES_TIKTOKEN.get((way, state), {}).get(name)
            fastest = TIMES_FASTEST[state] if low and subject.name != "GPT-2" else None
            yield contest.row(what, way, state, low, fastest)


def contest_of(bench: Bench, subject: Subject, text: str) -> Contest:
    """Let all libraries encode a text in turns, each turn with a fresh object, cold then warm.

    Libraries without a cache, and slow ones, use one object in all turns.
    """
    contest = Contest(size_of(text))
    loaded = dict(openable(subject))
    for calls in loaded.values():  # the first call of some libraries imports more modules
        for way in WAYS if calls.array is not None else ("list",):
            encoding(calls, way)("warm up")
    expected: list[int] | None = ids_in(loaded.get(TIKTOKEN, open_bpetite(subject)).ids(text))
    for _ in range(bench.repeats):
        for library in (BPETITE, *loaded):
            if library.has_no_cache:
                measure_loaded(contest, library, loaded[library], text, expected)
                continue
            measure_fresh(contest, library.name, library.open(subject), text, expected)
            encode = library.open(subject).ids
            contest.add(library.name, "list", "cold", timed(encode, text)())
        expected = None  # one comparison is enough
    return contest


def measure_fresh(
    contest: Contest, name: str, calls: Calls, text: str, expected: list[int] | None
) -> None:
    """Time the first and third array, then the second list.

    The calls in between are compared with the `expected` ids.
    """
    for way in WAYS:
        encode = encoding(calls, way)
        clock = timed(encode, text)
        if way == "array":
            contest.add(name, way, "cold", clock())
        if expected is not None and ids_in(encode(text)) != expected:
            contest.is_wrong.add((name, way))
        elif expected is None:
            clock()
        contest.add(name, way, "warm", clock())


def measure_loaded(
    contest: Contest, library: Library, calls: Calls, text: str, expected: list[int] | None
) -> None:
    """Time a library that is equally fast in each call."""
    sample = first_bytes(text, SLOW_SAMPLE_BYTES) if library.is_slow else text
    for way in WAYS:
        if way == "array" and calls.array is None:
            contest.only_lists.add(library.name)
        encode = encoding(calls, "list" if library.name in contest.only_lists else way)
        if expected is not None and sample is text and ids_in(encode(text)) != expected:
            contest.is_wrong.add((library.name, way))
        seconds = timed(encode, sample)() * contest.size / size_of(sample)
        for state in STATES:
            contest.add(library.name, way, state, seconds)


# Batches

SHAPES = ((512, 140), (512, 4096), (1, 2 * MB))
"""The number of texts in a batch, and the bytes of each."""

TURN_BYTES = MB
"""Batches that are timed together; a call for one small batch would find cold processor caches."""


def batches_header() -> Line:
    """Return the column titles."""
    return ("MB/s: vocabulary, batch, ids in", *NAMES, "× tiktoken", "× fastest")


def batches_rows(bench: Bench) -> Iterator[Row]:
    """Compare batches of English on one thread. Each turn has other texts, as a service has."""
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
                    contest.add(name, way, "", timed(encode_all, encode, work)() / share)
                elif ids_in(encode(work[0])) != ids_in([*map(subject.tokenizer.encode, work[0])]):
                    contest.is_wrong.add((name, way))
        texts_are = f"{count:,} texts" if count > 1 else "1 text"
        yield contest.row(f"{subject.name}, {texts_are} of {size:,} bytes, {way}", way, "")


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


def isa_header() -> Line:
    """Return the column titles."""
    return ("MB/s: vocabulary, text, ids in, state", *INSTRUCTION_SETS, "tiktoken, list")


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
            contest = Contest(size_of(text))
            for _ in range(bench.repeats):
                for (isa, executor), way in product(executors.items(), WAYS):
                    future = executor.submit(cold_and_warm, subject.pickled, text, way)
                    for state, seconds in future.result().items():
                        contest.add(isa, way, state, seconds)
                if tiktoken is not None:
                    sample = first_bytes(text, 2 * MB)
                    seconds = timed(tiktoken.ids, sample)() * contest.size / size_of(sample)
                    contest.add(TIKTOKEN.name, "list", "", seconds)
            for way, state in product(WAYS, STATES):
                yield isa_row(contest, f"{subject.name}, {name}, {way}, {state}", way, state)


def cold_and_warm(pickled: bytes, text: str, way: str) -> dict[str, float]:
    """Encode a text with a fresh tokenizer; return the seconds of calls 1 and 3."""
    clock = timed(encoding(calls_of(pickle.loads(pickled)), way), text)
    cold, _, warm = clock(), clock(), clock()
    return {"cold": cold, "warm": warm}


def isa_row(contest: Contest, what: str, way: str, state: str) -> Row:
    """Return the speeds of all instruction sets."""
    checks = []
    tiktoken = (TIKTOKEN.name, "list", "")
    for isa, other, target in (
        ("avx2", ("avx512", way, state), AVX2_TARGET),
        ("scalar", tiktoken, SCALAR_TARGET if ", english, " in what else None),
    ):
        if target and other in contest.seconds and (isa, way, state) in contest.seconds:
            times = contest.median(*other) / contest.median(isa, way, state)
            checks.append(target.check(f"{what}, {isa}", times))
    speeds = [contest.speed(isa, way, state) for isa in INSTRUCTION_SETS]
    return Row((what, *speeds, contest.speed(*tiktoken)), checks)
