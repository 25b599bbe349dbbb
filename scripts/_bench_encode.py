"""Text to ids: beside other libraries, by each SIMD path, short texts, long pieces, two threads."""

from __future__ import annotations

import importlib
import pickle
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from _bench_measure import (
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
from _bench_peers import LIBRARIES, TIKTOKEN, Calls, Library, calls_of, open_bpetite, openable
from _bench_table import MB, Line, Target, bare_speed, in_milliseconds, times_faster

import bpetite

WAYS = ("array", "list")
STATES = ("cold", "warm")

SLOW_SAMPLE = MB // 4  # bytes, for those that do a few megabytes a second

TIMES_TIKTOKEN = {
    ("array", "cold"): {"english": 18, "code": 18, "multilingual": 8, "chinese": 9},
    ("array", "warm"): {"english": 30, "code": 28, "multilingual": 13, "chinese": 13},
    ("list", "warm"): {"english": 20, "code": 12, "multilingual": 9, "chinese": 9},
}
"""How many times as fast as tiktoken, with the vocabularies of GPT-2 and cl100k."""

TIMES_FASTEST = {"cold": 1.0, "warm": 1.2}
"""How many times as fast as the fastest of all others."""

OF_CL100K = 0.7
"""What part of the speed with cl100k there should be with o200k."""


def encoding(calls: Calls, way: str) -> Callable[[str], object]:
    """Return what encodes into a list, or into an array."""
    encode: Callable[[str], object] | None = calls.ids if way == "list" else calls.array
    assert encode is not None
    return encode


# Whole texts


@dataclass
class Contest:
    """The seconds that each library took for a text, in turns: by its name, the way, the state."""

    size: int
    seconds: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    is_wrong: set[tuple[str, str]] = field(default_factory=set)
    lists_alone: set[str] = field(default_factory=set)
    """Those that take or make no arrays; what their lists take stands for both, in brackets."""

    def takes_part(self, name: str, way: str) -> bool:
        """Return whether a library has this way itself."""
        return way.endswith("list") or name not in self.lists_alone

    def add(self, name: str, way: str, state: str, seconds: float) -> None:
        """Note what one turn took, for all bytes of the text."""
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
        """Return how many times as fast as another bpetite is."""
        theirs = self.seconds[name, way, state]
        return times_faster(self.seconds["bpetite", way, state], theirs)

    def fastest(self, way: str, state: str) -> str | None:
        """Return the fastest of the others that have the right ids."""
        others = {
            name: self.median(name, way, state)
            for name, its_way, its_state in self.seconds
            if name != "bpetite" and (its_way, its_state) == (way, state)
            if (name, way) not in self.is_wrong
            if self.takes_part(name, way)
        }
        return min(others, key=others.__getitem__, default=None)


def encode_header() -> Line:
    """Return what the columns are."""
    others = [library.name for library in LIBRARIES]
    return ("text, ids in, state", "bpetite", *others, "× tiktoken", "× fastest", "target")


def encode_rows(bench: Bench) -> Iterator[Line]:
    """Compare the encoding of whole texts, each library with the same vocabulary and text."""
    speeds: dict[str, dict[tuple[str, str, str], float]] = {}
    for subject in bench.subjects():
        yield (f"**{subject.name}**, MB/s",)
        speeds[subject.name] = {}
        kept = dict(openable(subject))
        for calls in kept.values():  # some import more with their first call
            for way in WAYS if calls.array is not None else ("list",):
                encoding(calls, way)("warm up")
        for name, text in bench.samples.items():
            contest = contest_of(bench, subject, kept, text)
            for way in WAYS:
                for state in STATES:
                    if ("bpetite", way, state) not in contest.seconds:
                        continue
                    seconds = contest.median("bpetite", way, state)
                    speeds[subject.name][name, way, state] = contest.size / seconds
                    of_cl100k = None
                    if subject.name == "o200k" and "cl100k" in speeds:
                        mine, other = (
                            speeds[vocabulary][name, way, state]
                            for vocabulary in ("o200k", "cl100k")
                        )
                        of_cl100k = mine / other
                    yield encode_row(contest, name, way, state, subject.name, of_cl100k)


def contest_of(bench: Bench, subject: Subject, kept: dict[Library, Calls], text: str) -> Contest:
    """Let all libraries encode a text in turns, each turn with a fresh object, cold and then warm.

    What has no cache, or is too slow for the whole text, is not made anew: it is `kept`.
    """
    contest = Contest(size_of(text))
    expected: list[int] | None = None
    ours = Library("bpetite", "bpetite", open_bpetite)
    for turn in range(bench.repeats):
        if turn == 0:
            expected = ids_in(encoding(kept.get(TIKTOKEN, open_bpetite(subject)), "list")(text))
        for library in (ours, *kept):
            if library.has_no_cache:
                measure_kept(contest, library, kept[library], text, expected)
                continue
            measure_fresh(contest, library.name, library.open(subject), text, expected)
            if subject.name != "o200k":  # which takes long to load
                encode = encoding(library.open(subject), "list")
                contest.add(library.name, "list", "cold", timed(encode, text)())
        expected = None  # once is enough
    return contest


def measure_fresh(
    contest: Contest, name: str, calls: Calls, text: str, expected: list[int] | None
) -> None:
    """Take the time of the first and of the third array, then of the second list.

    If there are `expected` ids, hold those in between against them.
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


def measure_kept(
    contest: Contest, library: Library, calls: Calls, text: str, expected: list[int] | None
) -> None:
    """Take the time of a library that is as fast the first time as ever."""
    sample = first_bytes(text, SLOW_SAMPLE) if library.is_slow else text
    for way in WAYS:
        if way == "array" and calls.array is None:
            contest.lists_alone.add(library.name)
        encode = encoding(calls, "list" if library.name in contest.lists_alone else way)
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


def encode_row(
    contest: Contest, name: str, way: str, state: str, vocabulary: str, of_cl100k: float | None
) -> Line:
    """Return the row of a text, a way to get its ids, cold or warm."""
    verdicts = []
    of_tiktoken = of_fastest = ""
    if (TIKTOKEN.name, way, state) in contest.seconds:
        times = contest.times(TIKTOKEN.name, way, state)
        of_tiktoken = f"{times:.1f}"
        low = TIMES_TIKTOKEN.get((way, state), {}).get(name)
        if low is not None and vocabulary != "o200k":
            verdicts.append(Target(low=low, unit=" × tiktoken").verdict(times))
    fastest = contest.fastest(way, state)
    if fastest is not None:
        times = contest.times(fastest, way, state)
        of_fastest = f"{times:.2f} ({fastest})"
        if name in TIMES_TIKTOKEN["array", "cold"]:
            target = Target(low=TIMES_FASTEST[state], unit=" × fastest")
            verdicts.append(target.verdict(times))
    if of_cl100k is not None:
        verdicts.append(Target(low=OF_CL100K, unit=" of cl100k's").verdict(of_cl100k))
    speeds = [
        contest.speed(each, way, state)
        for each in ("bpetite", *(library.name for library in LIBRARIES))
    ]
    return (f"{name}, {way}, {state}", *speeds, of_tiktoken, of_fastest, "; ".join(verdicts))


# SIMD paths

PATHS = ("avx512", "avx2", "neon", "scalar")

LIMITS_OF_BEST = {"avx2": 0.5}
SCALAR_TIMES_TIKTOKEN = 8


def simd_rows(bench: Bench) -> Iterator[Line]:
    """Compare what each SIMD path reaches, each in a process of its own, in turns."""
    names = ("GPT-2", "cl100k")
    subjects = bench.subjects(*names)
    with ExitStack() as stack:
        executors: dict[str, ProcessPoolExecutor] = {}
        for path in PATHS:
            executor = stack.enter_context(new_process({"BPETITE_SIMD": path}))
            if executor.submit(simd_in_use).result() == path:
                executors[path] = executor
        for subject in subjects:
            yield (f"**{subject.name}**",)
            reference = dict(openable(subject)).get(TIKTOKEN)
            for name, text in bench.samples.items():
                for executor in executors.values():
                    executor.submit(receive, subject.pickled, text).result()
                yield from simd_rows_of(bench, name, text, executors, reference)


def simd_rows_of(
    bench: Bench,
    name: str,
    text: str,
    executors: dict[str, ProcessPoolExecutor],
    reference: Calls | None,
) -> Iterator[Line]:
    contest = Contest(size_of(text))
    for _ in range(bench.repeats):
        for path, executor in executors.items():
            for way in WAYS:
                for state, seconds in executor.submit(cold_and_warm, way).result().items():
                    contest.add(path, way, state, seconds)
        if reference is not None and reference.ids is not None:
            sample = first_bytes(text, 2 * MB)
            seconds = timed(reference.ids, sample)() * contest.size / size_of(sample)
            contest.add(TIKTOKEN.name, "list", "warm", seconds)
    best = next(iter(executors))
    for way in WAYS:
        for state in STATES:
            cells = []
            verdicts = []
            for path in PATHS:
                if path not in executors:
                    cells.append("")
                    continue
                cell = f"{contest.speed(path, way, state)} MB/s"
                seconds = contest.median(path, way, state)
                if path != best:
                    part = contest.median(best, way, state) / seconds
                    cell += f", {part:.2f} of {best}"
                    if path in LIMITS_OF_BEST and best == "avx512":
                        target = Target(low=LIMITS_OF_BEST[path], unit=f" of {best}")
                        verdicts.append(f"{path} {target.verdict(part)}")
                if reference is not None:
                    times = contest.median(TIKTOKEN.name, "list", "warm") / seconds
                    cell += f", {times:.1f} × tiktoken"
                    if path == "scalar" and name == "english":
                        target = Target(low=SCALAR_TIMES_TIKTOKEN, unit=" × tiktoken")
                        verdicts.append(f"scalar {target.verdict(times)}")
                cells.append(cell)
            yield (f"{name}, {way}, {state}", *cells, "; ".join(verdicts))


def simd_header() -> Line:
    """Return what the columns are."""
    return ("text, ids in, state", *PATHS, "target")


def simd_in_use() -> str:
    """Return the SIMD path of this process; "" if there is no native core."""
    # No public name tells it, and it cannot be seen in any result.
    if bpetite.engine != "native":
        return ""
    name: str = importlib.import_module("bpetite._native").simd()
    return name


received: list[tuple[bytes, str]] = []
"""In a process of its own: a pickled tokenizer, and what it is to encode."""


def receive(pickled: bytes, text: str) -> None:
    """Keep what `cold_and_warm` is to encode."""
    received[:] = [(pickled, text)]


def cold_and_warm(way: str) -> dict[str, float]:
    """Encode what was received with a fresh tokenizer; return the seconds of first and third."""
    [(pickled, text)] = received
    clock = timed(encoding(calls_of(pickle.loads(pickled)), way), text)
    cold = clock()
    clock()
    return {"cold": cold, "warm": clock()}


# Short texts

SHORT = {11: Target(high=300, unit=" ns"), 100: None, 2000: Target(high=4000, unit=" ns")}
"""Characters, and how long their list of ids may take."""


def short_header() -> Line:
    """Return what the columns are."""
    others = [library.name for library in LIBRARIES]
    return ("vocabulary, text, ids in", "bpetite", *others, "target")


def short_rows(bench: Bench) -> Iterator[Line]:
    """Compare the time of a call, encoding the same few characters again and again."""
    for subject in bench.subjects("GPT-2", "cl100k"):
        kept = {"bpetite": open_bpetite(subject)}
        kept |= {library.name: calls for library, calls in openable(subject)}
        for length, target in SHORT.items():
            text = "hello world" if length == 11 else words(bench.texts["english"], length)
            for way in ("list", "array"):
                what = f"{subject.name}, {length:,} characters, {way}"
                limit = target if way == "list" else None
                yield short_row(bench, what, text, kept, way, limit)


def words(text: str, length: int) -> str:
    """Return so many characters of ASCII from the middle of a text."""
    return text[len(text) // 2 :].encode("ascii", "ignore").decode("ascii")[:length]


def short_row(
    bench: Bench,
    what: str,
    text: str,
    kept: dict[str, Calls],
    way: str,
    target: Target | None,
) -> Line:
    clocks = {}
    for name, calls in kept.items():
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
    cells = [
        f"{medians[name]:,.0f} ns" if name in medians else ""
        for name in ("bpetite", *(library.name for library in LIBRARIES))
    ]
    return (what, *cells, target.verdict(medians["bpetite"]) if target else "")


# Long pieces

PIECE_LIMIT = Target(high=100, unit=" ms")
PROBE = 20_000  # characters that show whether a library is quadratic
TOO_SLOW = 0.1  # seconds that a library may take for those


def pieces_header() -> Line:
    """Return what the columns are."""
    others = [library.name for library in LIBRARIES]
    return ("vocabulary, piece of 1 MB", "bpetite, array", "bpetite, list", *others, "target")


def pieces_rows(bench: Bench) -> Iterator[Line]:
    """Compare the encoding of a million bytes that the pattern does not cut; others once each.

    Each turn has a character less, so that no library has seen the piece before.
    """
    for subject in bench.subjects("GPT-2", "cl100k"):
        kept = {library.name: calls for library, calls in openable(subject) if not library.is_slow}
        ours = open_bpetite(subject)
        for name, piece in long_pieces().items():
            cells = []
            slowest = 0.0
            for number, way in enumerate(WAYS):
                encode = encoding(ours, way)
                turns = [
                    timed(encode, piece[2 * turn + number :])() for turn in range(bench.repeats)
                ]
                cells.append(in_milliseconds(statistics.median(turns)))
                slowest = max(slowest, statistics.median(turns))
            cells += [time_of_piece(kept.get(library.name), piece) for library in LIBRARIES]
            verdict = PIECE_LIMIT.verdict(round(slowest * 1e3, 1))
            yield (f"{subject.name}, {name}", *cells, verdict)


def time_of_piece(calls: Calls | None, piece: str) -> str:
    """Return what another library takes for a long piece; or why it is not measured."""
    if calls is None:
        return ""
    encode = encoding(calls, "list")
    encode("warm up")
    start = time.perf_counter()
    try:
        encode(piece[:PROBE])
        if time.perf_counter() - start > TOO_SLOW:
            return "much longer"
        return in_milliseconds(timed(encode, piece)())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust is no Exception
        return f"fails: {type(error).__name__}"


def long_pieces() -> dict[str, str]:
    """Return pieces of a million bytes of each kind that is hard for some encoder."""
    choose = random.Random(0).choices
    return {
        "`a`": "a" * MB,
        "`ab`": "ab" * (MB // 2),
        "spaces": " " * MB,
        "line ends": "\n" * MB,
        "`=`": "=" * MB,
        "digits": "".join(choose("0123456789", k=MB)),
        "random letters": "".join(choose("abcdefghijklmnopqrstuvwxyz", k=MB)),
        "DNA letters": "".join(choose("ACGT", k=MB)),
        "random signs": "".join(choose("!#$%&()*+,-./:;<=>?@[]^_`{|}~", k=MB)),
        "random CJK": "".join(map(chr, choose(range(0x4E00, 0xA000), k=MB // 3))),
        "emoji": "".join(map(chr, choose(range(0x1F600, 0x1F650), k=MB // 4))),
    }


# Threads

TWO_THREADS = Target(low=1.6)


def threads_header() -> Line:
    """Return what the columns are."""
    return ("what", "one thread", "two threads", "ratio", "target")


def threads_rows(bench: Bench) -> Iterator[Line]:
    """Compare two threads with one, by the clock on the wall, in a process with all processors."""
    if len(ALL_CPUS) == 1:
        yield ("there is one processor",)
        return
    with new_process(one_cpu=False) as executor:
        for subject in bench.subjects("cl100k"):
            for name, text in bench.samples.items():
                future = executor.submit(threads_turns, subject.pickled, text, bench.repeats)
                for what, turns in future.result().items():
                    yield threads_row(f"{name}, {what}", size_of(text), turns)


def threads_row(what: str, size: int, turns: Sequence[tuple[float, float]]) -> Line:
    one, two = (statistics.median(turn[side] for turn in turns) for side in (0, 1))
    ratio = statistics.median(one / two for one, two in turns)
    show = bare_speed(size)
    return (
        what,
        f"{show(one)} MB/s",
        f"{show(two)} MB/s",
        f"{ratio:.2f}",
        TWO_THREADS.verdict(ratio),
    )


def threads_turns(pickled: bytes, text: str, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds of one and of two threads for one text and for many, warm."""
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
        on_the_wall(work, 2)  # so that each thread knows the text
        turns[what] = [(on_the_wall(work, 1), on_the_wall(work, 2)) for _ in range(repeats)]
    return turns


def on_the_wall(work: Callable[[int], object], threads: int) -> float:
    """Return the seconds that pass while so many threads do some work."""
    with without_collector():
        start = time.perf_counter()
        result = work(threads)
        seconds = time.perf_counter() - start
    del result
    return seconds


def documents_of(text: str, length: int = 4000) -> list[str]:
    """Return a text in documents of so many characters."""
    return [text[start : start + length] for start in range(0, len(text), length)]
