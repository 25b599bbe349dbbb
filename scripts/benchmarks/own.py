"""Work of bpetite compared with simpler work of bpetite: threads, documents and chunks."""

from __future__ import annotations

import pickle
import statistics
import time
from array import array
from collections.abc import Callable, Iterator

from benchmarks.measure import ALL_CPUS, Bench, Clock, first_bytes, new_process, size_of, timed
from benchmarks.table import MB, Row, Target, bare_speed
from bpetite import Tokenizer

TWO_THREADS = {
    "array": Target(low=1.5, unit=" × one thread"),
    "list": Target(low=1.3, unit=" × one thread"),
}
HALF_OF_COUNT = Target(low=0.5, unit=" × count")
DOCUMENTS = {
    100: Target(low=0.75, unit=" × one text"),
    500: Target(low=0.85, unit=" × one text"),
    2_500: Target(low=0.95, unit=" × one text"),
}
"""Bytes of a document, and limits for its speed."""

BUDGET = 512
"""Tokens of a chunk."""


HEADER = ("MB/s: what", "simpler work", "its speed", "bpetite", "ratio")


def row(what: str, simple: str, size: int, turns: list[tuple[float, float]], target: Target) -> Row:
    """Return the row for turns, each of which has the simpler work and the work."""
    one, other = (statistics.median(turn[side] for turn in turns) for side in (0, 1))
    ratio = statistics.median(theirs / ours for theirs, ours in turns)
    show = bare_speed(size)
    cells = (what, simple, show(one), show(other), f"{ratio:.2f}")
    return Row(cells, [target.check(what, ratio)])


def turns_of(bench: Bench, simple: Clock, ours: Clock) -> list[tuple[float, float]]:
    """Measure both in turns, warm."""
    simple(), ours()
    return [(simple(), ours()) for _ in range(bench.repeats)]


def thread_rows(bench: Bench) -> Iterator[Row]:
    """Compare two threads with one by wall time, in a process with all processors."""
    if len(ALL_CPUS) == 1:
        yield Row(("this machine has one processor",))
        return
    subject = bench.subject()
    with new_process(one_cpu=False) as executor:
        for name, text in bench.samples.items():
            future = executor.submit(thread_turns, subject.pickled, text, bench.repeats)
            for what, turns in future.result().items():
                target = TWO_THREADS[what.rpartition(" ")[2]]
                what = f"{name}, {what}, two threads"
                yield row(what, "one thread", size_of(text), turns, target)


def thread_turns(pickled: bytes, text: str, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds of one and two threads, for one text and for a batch, warm."""
    tokenizer: Tokenizer = pickle.loads(pickled)
    documents = [text[start : start + 4000] for start in range(0, len(text), 4000)]
    works: dict[str, Callable[[int], object]] = {
        "one text, array": lambda threads: tokenizer.encode(text, threads=threads, dtype="uint32"),
        "one text, list": lambda threads: tokenizer.encode(text, threads=threads),
        "batch, array": lambda threads: tokenizer.encode_batch(
            documents, threads=threads, dtype="uint32"
        ),
        "batch, list": lambda threads: tokenizer.encode_batch(documents, threads=threads),
    }
    turns = {}
    for what, work in works.items():
        wall_time(work, 2)  # fills the cache of each thread
        turns[what] = [(wall_time(work, 1), wall_time(work, 2)) for _ in range(repeats)]
    return turns


def wall_time(work: Callable[[int], object], threads: int) -> float:
    """Return the wall time of some work on a number of threads."""
    start = time.perf_counter()
    result = work(threads)
    seconds = time.perf_counter() - start
    del result
    return seconds


def document_rows(bench: Bench) -> Iterator[Row]:
    """Compare `encode_buffer` of many documents with `encode_buffer` of one text."""
    encode = bench.subject().tokenizer.encode_buffer
    for name in ("english", "code"):
        data = first_bytes(bench.samples[name], MB).encode()
        one_text = timed(encode, data, array("q", [0, len(data)]))
        for size, target in DOCUMENTS.items():
            turns = turns_of(bench, one_text, timed(encode, data, offsets_of(data, size)))
            yield row(f"{name}, documents of {size:,} bytes", "one text", len(data), turns, target)


def offsets_of(data: bytes, size: int) -> array[int]:
    """Return the offsets of documents that end at the first space from `size` bytes on.

    >>> offsets_of(b"abc d ef", 2).tolist()
    [0, 3, 5, 8]
    """
    offsets = array("q", [0])
    while offsets[-1] < len(data):
        space = data.find(b" ", offsets[-1] + size)
        offsets.append(len(data) if space < 0 else space)
    return offsets


def chunk_rows(bench: Bench) -> Iterator[Row]:
    """Compare cutting a text into chunks within a budget with counting its tokens."""
    tokenizer = bench.subject().tokenizer
    for name, text in bench.samples.items():
        count = timed(lambda text=text: tokenizer.count(text, allowed_special=()))
        chunks = timed(lambda text=text: [*tokenizer.chunks(text, BUDGET, allowed_special=())])
        turns = turns_of(bench, count, chunks)
        what = f"{name}, chunks of {BUDGET} tokens"
        yield row(what, "count", size_of(text), turns, HALF_OF_COUNT)
