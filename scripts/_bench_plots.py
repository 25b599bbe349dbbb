"""Plots: speed of encoding by the length of a text, time of training by the size of a corpus, and
the cost of a stream's step by the number of those before it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from _bench_measure import Bench, cycled, first_bytes, now, say, size_of, timed, without_collector
from _bench_peers import TRAINERS, Calls, is_installed, open_bpetite, openable
from _bench_streamers import OURS, STREAMERS, StreamCase, Streamer
from _bench_table import MB
from _bench_train import VOCAB_SIZE, train_in_new_process
from _plot import Axis, Series, svg, ticks

LENGTHS = [
    digit * 10**power for power in range(1, 7) for digit in (1, 2, 5)
] + [10_000_000]  # fmt: skip
"""Bytes of the texts; the longest that there is ends the line."""

ENCODED = 200_000
"""Bytes, at least, of the texts of one length that are encoded while the clock runs."""

MOST_TEXTS = 5_000

CORPUS_SIZES = [1, 2, 4, 8, 16, 30]
"""Megabytes."""


def write_plots(bench: Bench, folder: Path, sections: Collection[str]) -> None:
    """Measure, and write the plots of some sections into a folder."""
    for section, (name, plot) in PLOTS.items():
        if section in sections:
            (folder / name).write_bytes(plot(bench).encode("utf-8"))


# Encoding

Works = dict[str, Callable[[str], object]]


def works_of(kept: dict[str, Calls]) -> Works:
    """Return the lines of the plot: lists of some, arrays of others."""
    works: Works = {}
    for name, calls in kept.items():
        if calls.array is not None:
            works[f"{name}, array"] = calls.array
        if calls.ids is not None and (name == "bpetite" or calls.array is None):
            works[f"{name}, list"] = calls.ids
    return works


def encode_plot(bench: Bench) -> str:
    """Return the plot of the speed by the length of a text, all texts having been seen before."""
    [subject] = bench.subjects("cl100k")
    kept = {"bpetite": open_bpetite(subject)}
    others = dict(openable(subject)).items()
    kept |= {
        library.name: calls
        for library, calls in others
        if not library.is_slow and library.name != "quicktok"
    }
    works = works_of(kept)
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    whole = bench.texts["english"].encode("utf-8")
    for length in LENGTHS:
        if length > len(whole):
            break
        count = max(1, min(ENCODED // length, MOST_TEXTS, len(whole) // length))
        step = len(whole) // count
        texts = [
            whole[start : start + length].decode("utf-8", "ignore")
            for start in range(0, step * count, step)
        ]
        size = sum(map(size_of, texts))
        seconds: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(bench.repeats):
            for name, work in works.items():
                encode_all(work, texts)  # the others have filled the processor's caches
                seconds[name].append(timed(encode_all, work, texts)())
        for name, turns in seconds.items():
            speed = size / MB / statistics.median(turns)
            points[name].append((length, speed))
        say(f"{length:,} bytes: " + ", ".join(f"{n} {p[-1][1]:.3g}" for n, p in points.items()))
    speeds = [speed for line in points.values() for _, speed in line]
    low, high = 10 ** int_floor(min(speeds)), max(speeds) * 1.25
    labels = {10.0: "10 B", 100.0: "100 B", 1e3: "1 kB", 1e4: "10 kB", 1e5: "100 kB"}
    labels |= {1e6: "1 MB", 1e7: "10 MB"}
    longest = max(length for line in points.values() for length, _ in line)
    across = Axis("length of the text", 10, longest, ticks(10, longest, labels))
    up = Axis("MB/s", low, high, ticks(low, high, {10.0**n: f"{10**n:,}" for n in range(5)}))
    return svg(
        f"Encoding English with {subject.name}, one thread, texts seen before",
        across,
        up,
        ordered(points),
    )


def encode_all(encode: Callable[[str], object], texts: Sequence[str]) -> None:
    for text in texts:
        encode(text)


def int_floor(value: float) -> int:
    """Return the power of ten at or below a value; 0 at least."""
    power = 0
    while 10 ** (power + 1) <= value:
        power += 1
    return power


def ordered(points: dict[str, list[tuple[float, float]]]) -> list[Series]:
    """Return the lines, ours first and stronger."""
    names = sorted(points, key=lambda name: not name.startswith("bpetite"))
    return [
        Series(name, points[name], name.startswith("bpetite"), name.startswith("tiktoken"))
        for name in names
    ]


# Training


def train_plot(bench: Bench) -> str:
    """Return the plot of the time of training by the size of the corpus: English, then code."""
    corpus = bench.texts["english"] + "\n" + bench.texts["code"]
    trainers = ["bpetite", *(name for name, package in TRAINERS.items() if is_installed(package))]
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in trainers}
    whole = size_of(corpus)
    sizes = [size * MB for size in CORPUS_SIZES if size * MB < whole] or [whole // 2]
    if len(sizes) < len(CORPUS_SIZES):
        sizes.append(whole)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.txt")
        for size in sizes:
            path.write_bytes(first_bytes(corpus, size).encode("utf-8"))
            for name in trainers:
                seconds = [
                    train_in_new_process(name, path, VOCAB_SIZE).seconds
                    for _ in range(min(3, bench.repeats))
                ]
                points[name].append((size, statistics.median(seconds)))
            say(f"{size:,} bytes: " + ", ".join(f"{n} {p[-1][1]:.3g}" for n, p in points.items()))
    all_seconds = [took for line in points.values() for _, took in line]
    low, high = min(all_seconds) / 1.3, max(all_seconds) * 1.3
    labels = {float(size): f"{size / MB:.3g} MB" for size in sizes}
    across = Axis("size of the corpus", sizes[0], sizes[-1], sorted(labels.items()))
    marks = {0.01: "10 ms", 0.1: "0.1 s", 1.0: "1 s", 10.0: "10 s", 100.0: "100 s"}
    up = Axis("time", low, high, ticks(low, high, marks))
    title = f"Learning {VOCAB_SIZE:,} tokens, one thread"
    return svg(title, across, up, ordered(points))


# Streams

COUNTS = [digit * 10**power for power in range(2, 6) for digit in (1, 2, 5)] + [1_000_000]
"""Of steps before which, and since the one before, the cost of a step is taken."""

LONGEST_WAIT = 2.0
"""Seconds after which a stream that gets slower and slower is left."""


def stream_plot(bench: Bench) -> str:
    """Return the plot of the cost of a step by the number of steps so far."""
    tokenizer = bench.tokenizer
    english = tokenizer.encode_ordinary(first_bytes(bench.samples["english"], 4 * MB))
    texts = {
        "": StreamCase("English", tokenizer, cycled(english, COUNTS[-1])),
        ", 0x80": StreamCase("0x80", tokenizer, [0x80] * COUNTS[-1]),
    }
    lines = []
    for colour, streamer in enumerate((OURS, *STREAMERS)):
        if streamer.is_installed:
            for what, case in texts.items():
                name = streamer.name + what
                points = stream_points(bench, streamer, case)
                lines.append(Series(name, points, streamer is OURS, bool(what), colour))
                say(f"{name}: " + ", ".join(f"{count:,} {cost:,.0f}" for count, cost in points))
    costs = [cost for line in lines for _, cost in line.points]
    low, high = min(costs) / 2.5, max(costs) * 1.5
    across_labels = {10.0**power: f"{10**power:,}" for power in range(2, 7)}
    marks = {10.0: "10 ns", 100.0: "100 ns", 1e3: "1 µs", 1e4: "10 µs", 1e5: "100 µs"}
    marks |= {1e6: "1 ms", 1e7: "10 ms"}
    across = Axis("tokens so far", 100, 1e6, ticks(100, 1e6, across_labels))
    up = Axis("a token", low, high, ticks(low, high, marks))
    return svg("A stream's next token: English, and the byte 0x80 over and over", across, up, lines)


def stream_points(bench: Bench, streamer: Streamer, case: StreamCase) -> list[tuple[float, float]]:
    """Return the number of tokens so far, and the nanoseconds of each of the last of them."""
    make = streamer.open(case)
    turns: list[list[float]] = []
    for _ in range(min(3, bench.repeats)):
        steps = make().steps
        costs, done, waited = [], 0, 0.0
        with without_collector():
            for count in COUNTS:
                some = case.ids[done:count]
                start = now()
                steps(some)
                took = now() - start
                costs.append(took / (count - done) * 1e9)
                done, waited = count, waited + took
                if waited > LONGEST_WAIT:
                    break
        turns.append(costs)
    return [(count, statistics.median(cost)) for count, *cost in zip(COUNTS, *turns, strict=False)]


PLOTS = {
    "encode": ("encode-speed.svg", encode_plot),
    "train": ("train-time.svg", train_plot),
    "stream": ("stream-cost.svg", stream_plot),
}
"""The file and the measurement of each section that has a plot."""
