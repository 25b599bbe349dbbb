"""Text to ids: other libraries, instruction sets, short texts, long pieces, two threads."""

from __future__ import annotations

import pickle
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from tools.engines import INSTRUCTION_SETS, instruction_set

import bpetite
from benchmarks.measure import (
    ALL_CPUS,
    Bench,
    Subject,
    first_bytes,
    many_times,
    new_process,
    size_of,
    timed,
    without_collector,
)
from benchmarks.peers import LIBRARIES, TIKTOKEN, Calls, Library, calls_of, open_bpetite, openable
from benchmarks.table import MB, Check, Line, Row, Target, bare_speed, in_milliseconds, times_faster
from bpetite import Tokenizer

WAYS = ("array", "list")
STATES = ("cold", "warm")
NAMES = ("bpetite", *(library.name for library in LIBRARIES))

SLOW_SAMPLE_BYTES = MB // 4
"""Sample size for libraries that encode a few megabytes a second."""

TIMES_TIKTOKEN = {
    ("array", "cold"): {"english": 18, "code": 18, "multilingual": 8, "chinese": 9},
    ("array", "warm"): {"english": 30, "code": 28, "multilingual": 13, "chinese": 13},
    ("list", "warm"): {"english": 20, "code": 12, "multilingual": 9, "chinese": 9},
}
"""Minimal ratio to tiktoken's speed, with the vocabularies of GPT-2 and cl100k."""

TIMES_FASTEST = {"cold": 1.0, "warm": 1.2}
"""Minimal ratio to the speed of the fastest other library."""

O200K_TIMES_CL100K = Target(low=0.7, unit=" × cl100k")


def encoding(calls: Calls, way: str) -> Callable[[str], object]:
    """Return the function that encodes into a list or into an array."""
    encode: Callable[[str], object] | None = calls.ids if way == "list" else calls.array
    assert encode is not None
    return encode


# Whole texts


@dataclass
class Contest:
    """Seconds of each library for one text, in turns, by library, way and state."""

    size: int
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
        tiktoken_target: Target | None,
        fastest_target: Target | None,
        digits: int = 1,
    ) -> Row:
        """Return the speeds of all libraries, and bpetite's ratio to tiktoken and the fastest."""
        checks = []
        of_tiktoken = of_fastest = ""
        if (TIKTOKEN.name, way, state) in self.seconds:
            times = self.times(TIKTOKEN.name, way, state)
            of_tiktoken = f"{times:.{digits}f}"
            checks += [tiktoken_target.check(what, times)] if tiktoken_target else []
        if fastest := self.fastest(way, state):
            times = self.times(fastest, way, state)
            of_fastest = f"{times:.2f} ({fastest})"
            checks += [fastest_target.check(what, times)] if fastest_target else []
        speeds = [self.speed(name, way, state) for name in NAMES]
        return Row((what, *speeds, of_tiktoken, of_fastest), checks)


def encode_header() -> Line:
    """Return the column titles."""
    return ("MB/s: vocabulary, text, ids in, state", *NAMES, "× tiktoken", "× fastest")


def encode_rows(bench: Bench) -> Iterator[Row]:
    """Compare the encoding of whole texts, each library with the same vocabulary and text."""
    speeds: dict[tuple[str, str, str, str], float] = {}
    for subject in bench.subjects():
        loaded = dict(openable(subject))
        for calls in loaded.values():  # the first call of some libraries imports more modules
            for way in WAYS if calls.array is not None else ("list",):
                encoding(calls, way)("warm up")
        for name, text in bench.samples.items():
            contest = contest_of(bench, subject, loaded, text)
            for way in WAYS:
                for state in STATES:
                    if ("bpetite", way, state) not in contest.seconds:
                        continue
                    row = encode_row(contest, subject.name, name, way, state)
                    speed = contest.size / contest.median("bpetite", way, state)
                    speeds[subject.name, name, way, state] = speed
                    of_cl100k = speeds.get(("cl100k", name, way, state))
                    if subject.name == "o200k" and of_cl100k:
                        check = O200K_TIMES_CL100K.check(row.cells[0], speed / of_cl100k)
                        row = Row(row.cells, [*row.checks, check])
                    yield row


def contest_of(bench: Bench, subject: Subject, loaded: dict[Library, Calls], text: str) -> Contest:
    """Let all libraries encode a text in turns, each turn with a fresh object, cold then warm.

    Libraries without a cache, and slow ones, use the `loaded` object in all turns.
    """
    contest = Contest(size_of(text))
    expected: list[int] | None = None
    ours = Library("bpetite", "bpetite", open_bpetite)
    for turn in range(bench.repeats):
        if turn == 0:
            expected = ids_in(encoding(loaded.get(TIKTOKEN, open_bpetite(subject)), "list")(text))
        for library in (ours, *loaded):
            if library.has_no_cache:
                measure_loaded(contest, library, loaded[library], text, expected)
                continue
            measure_fresh(contest, library.name, library.open(subject), text, expected)
            if subject.name != "o200k":  # which takes long to load
                encode = encoding(library.open(subject), "list")
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


def ids_in(result: object) -> list[int]:
    """Return the ids of a list or of any buffer of them."""
    if isinstance(result, list):
        return result
    return memoryview(result).cast("B").cast("I").tolist()  # type: ignore[arg-type]


def encode_row(contest: Contest, vocabulary: str, name: str, way: str, state: str) -> Row:
    """Return the row of a vocabulary, a text, a way to get its ids, and a state."""
    low = None if vocabulary == "o200k" else TIMES_TIKTOKEN.get((way, state), {}).get(name)
    is_known = name in TIMES_TIKTOKEN["array", "cold"]
    return contest.row(
        f"{vocabulary}, {name}, {way}, {state}",
        way,
        state,
        Target(low=low, unit=" × tiktoken") if low is not None else None,
        Target(low=TIMES_FASTEST[state], unit=" × fastest") if is_known else None,
    )


# Vocabularies that tiktoken cannot have

STEPS_BEFORE: dict[str, dict[str, Any]] = {
    "NFC": {"pattern": bpetite.PATTERNS["qwen2"], "normalizer": "NFC"},
    "digits": {"pattern": r"\p{N}", "more_patterns": (bpetite.PATTERNS["gpt2"],)},
}
"""What vocabularies do before the pattern splits text, as Qwen's and as StarCoder's."""


def steps_rows(bench: Bench) -> Iterator[Row]:
    """Compare the encoding by vocabularies that do more than split text by one pattern.

    The libraries that read tokenizer.json take part.
    """
    for subject, (step, fields) in product(bench.subjects("GPT-2"), STEPS_BEFORE.items()):
        tokenizer = Tokenizer(replace(subject.tokenizer._vocabulary, **fields))
        other = Subject(f"{subject.name} with {step}", tokenizer, None)
        loaded = dict(openable(other))
        loaded.pop(TIKTOKEN, None)
        for name, text in bench.samples.items():
            contest = contest_of(bench, other, loaded, text)
            for state in STATES:
                yield encode_row(contest, other.name, name, "array", state)


# Instruction sets

AVX2_TARGET = Target(low=0.5, unit=" × avx512")
SCALAR_TARGET = Target(low=8, unit=" × tiktoken")


def isa_header() -> Line:
    """Return the column titles."""
    return ("MB/s: vocabulary, text, ids in, state", *INSTRUCTION_SETS, "tiktoken, list")


def isa_rows(bench: Bench) -> Iterator[Row]:
    """Compare the instruction sets of this processor, each in its own process, in turns."""
    with ExitStack() as stack:
        executors: dict[str, ProcessPoolExecutor] = {}
        for isa in INSTRUCTION_SETS:
            executor = stack.enter_context(new_process({"BPETITE_SIMD": isa}))
            if executor.submit(instruction_set).result() == isa:
                executors[isa] = executor
        for subject in bench.subjects("GPT-2", "cl100k"):
            tiktoken = dict(openable(subject)).get(TIKTOKEN)
            for name, text in bench.samples.items():
                for executor in executors.values():
                    executor.submit(receive, subject.pickled, text).result()
                contest = isa_contest(bench, text, executors, tiktoken)
                for way in WAYS:
                    for state in STATES:
                        what = f"{subject.name}, {name}, {way}, {state}"
                        yield isa_row(contest, what, way, state)


def isa_contest(
    bench: Bench, text: str, executors: dict[str, ProcessPoolExecutor], tiktoken: Calls | None
) -> Contest:
    """Let each instruction set encode the text that its process has received, in turns."""
    contest = Contest(size_of(text))
    for _ in range(bench.repeats):
        for isa, executor in executors.items():
            for way in WAYS:
                for state, seconds in executor.submit(cold_and_warm, way).result().items():
                    contest.add(isa, way, state, seconds)
        if tiktoken is not None and tiktoken.ids is not None:
            sample = first_bytes(text, 2 * MB)
            seconds = timed(tiktoken.ids, sample)() * contest.size / size_of(sample)
            contest.add(TIKTOKEN.name, "list", "warm", seconds)
    return contest


def isa_row(contest: Contest, what: str, way: str, state: str) -> Row:
    """Return the speeds of all instruction sets."""

    def ratio(isa: str, other: tuple[str, str, str]) -> float | None:
        if other not in contest.seconds or (isa, way, state) not in contest.seconds:
            return None
        return contest.median(*other) / contest.median(isa, way, state)

    checks: list[Check] = []
    if of_avx512 := ratio("avx2", ("avx512", way, state)):
        checks.append(AVX2_TARGET.check(f"{what}, avx2", of_avx512))
    of_tiktoken = ratio("scalar", (TIKTOKEN.name, "list", "warm"))
    if of_tiktoken and ", english, " in what:
        checks.append(SCALAR_TARGET.check(f"{what}, scalar", of_tiktoken))
    speeds = [contest.speed(isa, way, state) for isa in INSTRUCTION_SETS]
    return Row((what, *speeds, contest.speed(TIKTOKEN.name, "list", "warm")), checks)


received: list[tuple[bytes, str]] = []
"""In a process of its own: a pickled tokenizer and the text to encode."""


def receive(pickled: bytes, text: str) -> None:
    """Store the work of `cold_and_warm`."""
    received[:] = [(pickled, text)]


def cold_and_warm(way: str) -> dict[str, float]:
    """Encode the received text with a fresh tokenizer; return the seconds of calls 1 and 3."""
    [(pickled, text)] = received
    clock = timed(encoding(calls_of(pickle.loads(pickled)), way), text)
    cold = clock()
    clock()
    return {"cold": cold, "warm": clock()}


# Short texts

SHORT_TEXTS = {11: Target(high=300, unit=" ns"), 100: None, 2000: Target(high=4000, unit=" ns")}
"""Lengths in characters, and limits for a list of ids."""


def short_header() -> Line:
    """Return the column titles."""
    return ("ns: vocabulary, text, ids in", *NAMES)


def short_rows(bench: Bench) -> Iterator[Row]:
    """Compare the time of a call that encodes the same few characters again and again."""
    for subject in bench.subjects("GPT-2", "cl100k"):
        loaded = {"bpetite": open_bpetite(subject)}
        loaded |= {library.name: calls for library, calls in openable(subject)}
        for length, target in SHORT_TEXTS.items():
            text = "hello world" if length == 11 else words(bench.texts["english"], length)
            for way in ("list", "array"):
                what = f"{subject.name}, {length:,} characters, {way}"
                limit = target if way == "list" else None
                yield short_row(bench, what, text, loaded, way, limit)


def words(text: str, length: int) -> str:
    """Return `length` ASCII characters from the middle of a text."""
    return text[len(text) // 2 :].encode("ascii", "ignore").decode("ascii")[:length]


def short_row(
    bench: Bench, what: str, text: str, loaded: dict[str, Calls], way: str, target: Target | None
) -> Row:
    """Return the nanoseconds of a call of each library."""
    clocks = {}
    for name, calls in loaded.items():
        if way == "list" or calls.array is not None:
            encode = encoding(calls, way)
            encode(text)
            count = 20_000 if name == "bpetite" else 2_000
            clocks[name] = many_times(max(20, count * 11 // len(text)), encode, text)
    seconds: dict[str, list[float]] = {name: [] for name in clocks}
    for _ in range(bench.repeats):
        for name, clock in clocks.items():
            seconds[name].append(clock())
    medians = {name: statistics.median(turns) * 1e9 for name, turns in seconds.items()}
    cells = [f"{medians[name]:,.0f}" if name in medians else "" for name in NAMES]
    return Row((what, *cells), [target.check(what, medians["bpetite"])] if target else ())


# Long pieces

PIECE_LIMIT = Target(high=100, unit=" ms")

PROBE_CHARACTERS = 20_000
PROBE_MAX_SECONDS = 0.1
"""A library that needs longer for the probe is called quadratic, and not measured."""


def pieces_header() -> Line:
    """Return the column titles."""
    return ("vocabulary, piece of 1 MB", "bpetite, array", "bpetite, list", *NAMES[1:])


def pieces_rows(bench: Bench) -> Iterator[Row]:
    """Compare the encoding of a million bytes that the pattern does not split.

    Each turn drops one more character, so each piece is new. Other libraries have one turn.
    """
    for subject in bench.subjects("GPT-2", "cl100k"):
        others = {
            library.name: calls for library, calls in openable(subject) if not library.is_slow
        }
        ours = open_bpetite(subject)
        for name, piece in long_pieces().items():
            what = f"{subject.name}, {name}"
            medians = []
            for number, way in enumerate(WAYS):
                encode = encoding(ours, way)
                starts = [2 * turn + number for turn in range(bench.repeats)]
                turns = [timed(encode, piece[start:])() for start in starts]
                medians.append(statistics.median(turns))
            cells = [in_milliseconds(seconds) for seconds in medians]
            cells += [time_of_piece(others.get(library.name), piece) for library in LIBRARIES]
            yield Row((what, *cells), [PIECE_LIMIT.check(what, max(medians) * 1e3)])


def time_of_piece(calls: Calls | None, piece: str) -> str:
    """Return the time of another library for a long piece, or the reason why there is none."""
    if calls is None:
        return ""
    encode = encoding(calls, "list")
    encode("warm up")
    start = time.perf_counter()
    try:
        encode(piece[:PROBE_CHARACTERS])
        if time.perf_counter() - start > PROBE_MAX_SECONDS:
            return "quadratic"
        return in_milliseconds(timed(encode, piece)())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust is not an Exception
        return f"fails: {type(error).__name__}"


def long_pieces() -> dict[str, str]:
    """Return pieces of a million bytes, each of a kind that is hard for some encoder."""
    choose = random.Random(0).choices
    return {
        "`a`": "a" * MB,
        "`ab`": "ab" * (MB // 2),
        "spaces": " " * MB,
        "newlines": "\n" * MB,
        "`=`": "=" * MB,
        "digits": "".join(choose("0123456789", k=MB)),
        "random letters": "".join(choose("abcdefghijklmnopqrstuvwxyz", k=MB)),
        "DNA letters": "".join(choose("ACGT", k=MB)),
        "random symbols": "".join(choose("!#$%&()*+,-./:;<=>?@[]^_`{|}~", k=MB)),
        "random CJK": "".join(map(chr, choose(range(0x4E00, 0xA000), k=MB // 3))),
        "emoji": "".join(map(chr, choose(range(0x1F600, 0x1F650), k=MB // 4))),
    }


# Threads

TWO_THREADS = Target(low=1.6, unit=" × one thread")


def threads_header() -> Line:
    """Return the column titles."""
    return ("MB/s", "one thread", "two threads", "ratio")


def threads_rows(bench: Bench) -> Iterator[Row]:
    """Compare two threads with one by wall time, in a process with all processors."""
    if len(ALL_CPUS) == 1:
        yield Row(("this machine has one processor",))
        return
    with new_process(one_cpu=False) as executor:
        for subject in bench.subjects("cl100k"):
            for name, text in bench.samples.items():
                future = executor.submit(threads_turns, subject.pickled, text, bench.repeats)
                for what, turns in future.result().items():
                    yield threads_row(f"{name}, {what}", size_of(text), turns)


def threads_row(what: str, size: int, turns: Sequence[tuple[float, float]]) -> Row:
    """Return the speeds of one and two threads, and their ratio."""
    one, two = (statistics.median(turn[side] for turn in turns) for side in (0, 1))
    ratio = statistics.median(one / two for one, two in turns)
    show = bare_speed(size)
    return Row((what, show(one), show(two), f"{ratio:.2f}"), [TWO_THREADS.check(what, ratio)])


def threads_turns(pickled: bytes, text: str, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds of one and two threads, for one text and for a batch, warm."""
    tokenizer: bpetite.Tokenizer = pickle.loads(pickled)
    documents = documents_of(text)
    works: dict[str, Callable[[int], object]] = {
        "one text, array": lambda threads: tokenizer.encode_array(text, threads=threads),
        "one text, list": lambda threads: tokenizer.encode(text, threads=threads),
        "batch, array": lambda threads: tokenizer.encode_batch_arrays(documents, threads=threads),
        "batch, lists": lambda threads: tokenizer.encode_batch(documents, threads=threads),
    }
    turns = {}
    for what, work in works.items():
        wall_time(work, 2)  # fills the cache of each thread
        turns[what] = [(wall_time(work, 1), wall_time(work, 2)) for _ in range(repeats)]
    return turns


def wall_time(work: Callable[[int], object], threads: int) -> float:
    """Return the wall time of some work on a number of threads."""
    with without_collector():
        start = time.perf_counter()
        result = work(threads)
        seconds = time.perf_counter() - start
    del result
    return seconds


def documents_of(text: str, length: int = 4000) -> list[str]:
    """Return a text in documents of `length` characters."""
    return [text[start : start + length] for start in range(0, len(text), length)]
