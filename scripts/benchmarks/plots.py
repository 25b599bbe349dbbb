"""Plots of encoding speed, training time, and the cost of a stream's step."""

from __future__ import annotations

import io
import statistics
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import (
    Bench,
    cycled,
    first_bytes,
    now,
    say,
    size_of,
    timed,
    without_collector,
)
from benchmarks.peers import TRAINERS, Calls, is_installed, open_bpetite, openable
from benchmarks.streamers import OURS, STREAMERS, StreamCase, Streamer
from benchmarks.table import MB
from benchmarks.train import VOCAB_SIZE, train_in_new_process

Points = Sequence[tuple[float, float]]

COLOURS = ("#d1495b", "#e08e2b", "#3b7dd8", "#2e9e6b", "#8a63d2", "#7d8590", "#b0803c")
"""Colours that stay distinct for colour-blind readers, on white and on black."""

INK = "#7a828c"
"""A grey for text and axes that is readable on white and on black."""


@dataclass(frozen=True)
class Series:
    """A line of a plot."""

    name: str
    points: Points
    is_main: bool = False
    is_dashed: bool = False
    colour: int | None = None
    """An index of COLOURS; by default, the position among the lines."""


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis: its title, and the values with a label."""

    title: str
    labels: Mapping[float, str]


def write_plots(bench: Bench, folder: Path, sections: Collection[str]) -> None:
    """Measure some sections, and write their plots into a folder."""
    for section, (name, plot) in PLOTS.items():
        if section in sections:
            (folder / name).write_bytes(plot(bench))


def svg(title: str, across: Axis, up: Axis, lines: Sequence[Series]) -> bytes:
    """Return a plot as SVG; equal data gives equal bytes."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    style: Any = {
        "svg.fonttype": "none",  # text stays text: small files, and the reader's fonts
        "svg.hashsalt": "bpetite",
        "font.family": "sans-serif",
        "font.size": 10,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), INK),
        **dict.fromkeys(("xtick.color", "ytick.color", "grid.color"), INK),
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(7.6, 4.4), layout="constrained")
        axes = figure.add_subplot(xscale="log", yscale="log")
        axes.set_title(title, loc="left")
        for number, line in enumerate(lines):
            axes.plot(
                *zip(*line.points, strict=True),
                color=COLOURS[(number if line.colour is None else line.colour) % len(COLOURS)],
                linestyle="--" if line.is_dashed else "-",
                linewidth=3 if line.is_main else 1.8,
                label=line.name,
            )
        for axis, data in ((axes.xaxis, across), (axes.yaxis, up)):
            low, high = sorted(axis.get_view_interval())
            labels = {value: label for value, label in data.labels.items() if low <= value <= high}
            axis.set_ticks(list(labels), list(labels.values()))
            axis.set_minor_locator(NullLocator())
            axis.set_label_text(data.title)
        axes.grid(alpha=0.35)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right upper", frameon=False)
        file = io.BytesIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return file.getvalue()


def powers_of_ten(labels: Iterable[str], first: float) -> dict[float, str]:
    """Return labels of `first` and the following powers of ten."""
    return {first * 10**power: label for power, label in enumerate(labels)}


def tell(what: str, points: Mapping[str, Points]) -> None:
    """Print the last point of each line as progress."""
    say(f"{what}: " + ", ".join(f"{name} {line[-1][1]:.3g}" for name, line in points.items()))


# Encoding

LENGTHS = [*(digit * 10**power for power in range(1, 7) for digit in (1, 2, 5)), 10_000_000]
"""Bytes of each text."""

ENCODED_BYTES = 200_000
"""Minimal size of all texts of one length that are encoded in one measurement."""

MAX_TEXTS = 5_000

Works = dict[str, Callable[[str], object]]


def works_of(loaded: dict[str, Calls]) -> Works:
    """Return the function of each line: arrays if a library has them, else lists."""
    works: Works = {}
    for name, calls in loaded.items():
        if calls.array is not None:
            works[f"{name}, array"] = calls.array
        if calls.ids is not None and (name == "bpetite" or calls.array is None):
            works[f"{name}, list"] = calls.ids
    return works


def encode_plot(bench: Bench) -> bytes:
    """Return the plot of the speed by the length of a text, for texts seen before."""
    [subject] = bench.subjects("cl100k")
    loaded = {"bpetite": open_bpetite(subject)}
    loaded |= {
        library.name: calls
        for library, calls in openable(subject)
        if not library.is_slow and library.name != "quicktok"
    }
    works = works_of(loaded)
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    whole = bench.samples["english"].encode("utf-8")
    for length in LENGTHS:
        if length > len(whole):
            break
        count = max(1, min(ENCODED_BYTES // length, MAX_TEXTS, len(whole) // length))
        step = len(whole) // count
        texts = [
            whole[start : start + length].decode("utf-8", "ignore")
            for start in range(0, step * count, step)
        ]
        size = sum(map(size_of, texts))
        seconds: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(bench.repeats):
            for name, work in works.items():
                encode_all(work, texts)  # other libraries have filled the processor's caches
                seconds[name].append(timed(encode_all, work, texts)())
        for name, turns in seconds.items():
            points[name].append((length, size / MB / statistics.median(turns)))
        tell(f"{length:,} bytes", points)
    return draw_encode(subject.name, points)


def draw_encode(vocabulary: str, points: Mapping[str, Points]) -> bytes:
    """Draw the speed by the length of a text."""
    sizes = ("10 B", "100 B", "1 kB", "10 kB", "100 kB", "1 MB", "10 MB")
    return svg(
        f"Encoding English with {vocabulary}, one thread, texts seen before",
        Axis("length of the text", powers_of_ten(sizes, 10)),
        Axis("MB/s", powers_of_ten(("1", "10", "100", "1,000"), 1)),
        series_of(points),
    )


def encode_all(encode: Callable[[str], object], texts: Sequence[str]) -> None:
    """Encode all texts."""
    for text in texts:
        encode(text)


def series_of(points: Mapping[str, Points]) -> list[Series]:
    """Return the lines, with bpetite first and thicker."""
    names = sorted(points, key=lambda name: not name.startswith("bpetite"))
    return [
        Series(name, points[name], name.startswith("bpetite"), name.startswith("tiktoken"))
        for name in names
    ]


# Training

CORPUS_MEGABYTES = [1, 2, 4, 8, 16, 30]


def train_plot(bench: Bench) -> bytes:
    """Return the plot of the training time by the size of the corpus: English, then code."""
    corpus = bench.samples["english"] + "\n" + bench.samples["code"]
    trainers = ["bpetite", *(name for name, package in TRAINERS.items() if is_installed(package))]
    points: dict[str, list[tuple[float, float]]] = {name: [] for name in trainers}
    whole = size_of(corpus)
    sizes = [size * MB for size in CORPUS_MEGABYTES if size * MB < whole] or [whole // 2]
    if len(sizes) < len(CORPUS_MEGABYTES):
        sizes.append(whole)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.txt")
        for size in sizes:
            path.write_bytes(first_bytes(corpus, size).encode("utf-8"))
            for name in trainers:
                turns = [
                    train_in_new_process(name, path, VOCAB_SIZE).seconds
                    for _ in range(min(3, bench.repeats))
                ]
                points[name].append((size, statistics.median(turns)))
            tell(f"{size:,} bytes", points)
    return draw_train(points)


def draw_train(points: Mapping[str, Points]) -> bytes:
    """Draw the training time by the size of the corpus."""
    sizes = [size for size, _ in points["bpetite"]]
    return svg(
        f"Learning {VOCAB_SIZE:,} ids, one thread",
        Axis("size of the corpus", {size: f"{size / MB:.3g} MB" for size in sizes}),
        Axis("time", powers_of_ten(("10 ms", "0.1 s", "1 s", "10 s", "100 s"), 0.01)),
        series_of(points),
    )


# Streams

STEP_COUNTS = [*(digit * 10**power for power in range(2, 6) for digit in (1, 2, 5)), 1_000_000]
"""Numbers of steps after which the mean cost since the previous number is measured."""

MAX_SECONDS = 2.0
"""A stream that takes longer ends there."""


def stream_plot(bench: Bench) -> bytes:
    """Return the plot of the cost of a step by the number of steps before it."""
    tokenizer = bench.tokenizer
    english = tokenizer.encode_ordinary(first_bytes(bench.samples["english"], 4 * MB))
    texts = {
        "": StreamCase("English", tokenizer, cycled(english, STEP_COUNTS[-1])),
        ", 0x80": StreamCase("0x80", tokenizer, [0x80] * STEP_COUNTS[-1]),
    }
    points: dict[str, Points] = {}
    for streamer in (OURS, *STREAMERS):
        if streamer.is_installed:
            for what, case in texts.items():
                points[streamer.name + what] = stream_points(bench, streamer, case)
    tell("the last step", points)
    return draw_stream(points)


def draw_stream(points: Mapping[str, Points]) -> bytes:
    """Draw the cost of a step by the number of steps before it."""
    libraries = list(dict.fromkeys(name.partition(",")[0] for name in points))
    lines = []
    for name, line in points.items():
        library, is_0x80, _ = name.partition(",")
        colour = libraries.index(library)
        lines.append(Series(name, line, library == OURS.name, bool(is_0x80), colour))
    costs = ("10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms")
    return svg(
        "The next token of a stream of English, or of the byte 0x80",
        Axis(
            "tokens so far", powers_of_ten(("100", "1,000", "10,000", "100,000", "1,000,000"), 100)
        ),
        Axis("time of a token", powers_of_ten(costs, 10)),
        lines,
    )


def stream_points(bench: Bench, streamer: Streamer, case: StreamCase) -> Points:
    """Return the number of tokens so far, and the nanoseconds a token since the last point."""
    make = streamer.open(case)
    turns: list[list[float]] = []
    for _ in range(min(3, bench.repeats)):
        steps = make().steps
        costs, done, elapsed = [], 0, 0.0
        with without_collector():
            for count in STEP_COUNTS:
                some = case.ids[done:count]
                start = now()
                steps(some)
                seconds = now() - start
                costs.append(seconds / (count - done) * 1e9)
                done, elapsed = count, elapsed + seconds
                if elapsed > MAX_SECONDS:
                    break
        turns.append(costs)
    triples = zip(STEP_COUNTS, *turns, strict=False)
    return [(count, statistics.median(costs)) for count, *costs in triples]


PLOTS = {
    "encode": ("encode-speed.svg", encode_plot),
    "train": ("train-time.svg", train_plot),
    "stream": ("stream-cost.svg", stream_plot),
}
"""The file name and the measurement of each section that has a plot."""
