"""Plots of encoding speed, training time, and the cost of a stream's step."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.encode import encode_all
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
from benchmarks.peers import TRAINERS, is_installed, open_bpetite, openable
from benchmarks.streamers import OURS, STREAMERS, StreamCase
from benchmarks.table import MB
from benchmarks.train import VOCAB_SIZE, train_in_new_process

Lines = dict[str, list[tuple[float, float]]]
"""The points of each line, by its name, which begins with a library's."""

COLOURS = ("#d1495b", "#e08e2b", "#3b7dd8", "#2e9e6b", "#8a63d2", "#7d8590", "#b0803c")
"""Colours that stay distinct for colour-blind readers, on white and on black."""

INK = "#7a828c"
"""A grey for text and axes that is readable on white and on black."""

SIZES = {10: "10 B", 100: "100 B", 1e3: "1 kB", 1e4: "10 kB", 1e5: "100 kB", 1e6: "1 MB"}
COUNTS = {10**power: f"{10**power:,}" for power in range(7)}
NANOSECONDS = {10: "10 ns", 100: "100 ns", 1e3: "1 µs", 1e4: "10 µs", 1e5: "100 µs", 1e6: "1 ms"}
SECONDS = {0.01: "10 ms", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 100: "100 s"}


def write_plots(bench: Bench, folder: Path, sections: Collection[str]) -> None:
    """Measure some sections, and write their plots into a folder."""
    for section, plot in {"encode": encode, "train": train, "stream": stream}.items():
        if section in sections:
            plot(bench, folder)


def styled(ink: str) -> AbstractContextManager[None]:
    """Draw with text and axes of a colour in the body."""
    import matplotlib

    style: Any = {
        "svg.fonttype": "none",  # text stays text: small files, and the reader's fonts
        "svg.hashsalt": "bpetite",  # equal data gives equal bytes
        "font.family": "sans-serif",
        "font.size": 10,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), ink),
        **dict.fromkeys(("xtick.color", "ytick.color", "grid.color"), ink),
    }
    return matplotlib.rc_context(style)


def draw(
    path: Path,
    title: str,
    across: tuple[str, Mapping[float, str]],
    up: tuple[str, Mapping[float, str]],
    lines: Lines,
) -> None:
    """Write a plot as SVG; each axis has a title, and labels of values."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    libraries = list(dict.fromkeys(name.partition(",")[0] for name in lines))
    with styled(INK):
        figure = Figure(figsize=(7.6, 4.4), layout="constrained")
        axes = figure.add_subplot(xscale="log", yscale="log")
        axes.set_title(title, loc="left")
        for name, points in lines.items():
            library, has_second, _ = name.partition(", ")
            is_ours = library == "bpetite"
            axes.plot(
                *zip(*points, strict=True),
                color=COLOURS[libraries.index(library) % len(COLOURS)],
                linestyle="--" if has_second else "-",
                linewidth=3 if is_ours else 1.8,
                label=name,
            )
        for axis, (label, values) in ((axes.xaxis, across), (axes.yaxis, up)):
            low, high = sorted(axis.get_view_interval())
            shown = {value: text for value, text in values.items() if low <= value <= high}
            axis.set_ticks(list(shown), list(shown.values()))
            axis.set_minor_locator(NullLocator())
            axis.set_label_text(label)
        axes.grid(alpha=0.35)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right upper", frameon=False)
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
    say(f"{path}: " + ", ".join(f"{name} {points[-1][1]:.3g}" for name, points in lines.items()))


BARS = "cl100k, english, list, cold"
"""The row of the page's table of encoding that README shows."""

BAR_LIBRARIES = ("bpetite", "fastokens", "gigatoken", "toktok", "tiktoken", "tokenizers")

BAR_COLOURS = {
    "light": ("#1f2328", "#c2334b", "#b4bcc6"),
    "dark": ("#e6edf3", "#f0637a", "#56606c"),
}
"""For each kind of page: text, our bar, the other bars."""


def write_bars(page: Path) -> None:
    """Draw the speeds of the row `BARS` of a page, for light pages and for dark ones."""
    from matplotlib.figure import Figure

    rows = [line.strip("| \n").split(" | ") for line in page.read_text("utf-8").splitlines()]
    row = next(row for row in rows if row[0] == BARS)
    heads = next(row for row in reversed(rows[: rows.index(row)]) if "bpetite" in row)
    speeds = {name: float(row[heads.index(name)]) for name in BAR_LIBRARIES}
    for kind, (ink, ours, others) in BAR_COLOURS.items():
        with styled(ink):
            figure = Figure(figsize=(7.6, 2.5), layout="constrained")
            axes = figure.add_subplot()
            axes.set_title("Encoding unseen English with cl100k on one thread, MB/s", loc="left")
            colours = [ours if name == "bpetite" else others for name in speeds]
            bars = axes.barh([*speeds], [*speeds.values()], color=colours)
            axes.bar_label(bars, [row[heads.index(name)] for name in speeds], padding=4)
            axes.invert_yaxis()
            axes.xaxis.set_visible(False)
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
            path = page.with_name(f"speed-{kind}.svg")
            figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})


def encode(bench: Bench, folder: Path) -> None:
    """Plot the speed by the length of a text seen before, with arrays or else with lists."""
    subject = bench.subject()
    loaded = [("bpetite", open_bpetite(subject))]
    loaded += [(other.name, calls) for other, calls in openable(subject) if not other.is_slow]
    works = {name: calls.array or calls.ids for name, calls in loaded}
    works["bpetite, list"] = loaded[0][1].ids
    lines: Lines = {name: [] for name in works}
    whole = bench.samples["english"].encode("utf-8")
    for length in [digit * 10**power for power in range(1, 7) for digit in (1, 2, 5)]:
        count = max(1, min(MB // 5 // length, len(whole) // length, 5_000))
        starts = range(0, len(whole) // count * count, len(whole) // count)
        texts = [whole[start : start + length].decode("utf-8", "ignore") for start in starts]
        turns: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(bench.repeats):
            for name, work in works.items():
                encode_all(work, texts)  # other libraries have filled the processor's caches
                turns[name].append(timed(encode_all, work, texts)())
        for name, seconds in turns.items():
            speed = sum(map(size_of, texts)) / MB / statistics.median(seconds)
            lines[name].append((length, speed))
    title = f"Encoding English with {subject.name}, one thread, texts seen before"
    across = ("length of the text", SIZES)
    draw(folder / "encode-speed.svg", title, across, ("MB/s", COUNTS), lines)


def train(bench: Bench, folder: Path) -> None:
    """Plot the training time by the size of the corpus: English, then code."""
    corpus = bench.samples["english"] + "\n" + bench.samples["code"]
    trainers = ["bpetite", *filter(is_installed, TRAINERS)]
    lines: Lines = {name: [] for name in trainers}
    sizes: dict[float, str] = {MB << power: f"{1 << power} MB" for power in range(5)}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "corpus.txt")
        for size in sizes:
            path.write_bytes(first_bytes(corpus, int(size)).encode("utf-8"))
            for trainer in trainers:
                turns = [
                    train_in_new_process(trainer, path, VOCAB_SIZE).seconds
                    for _ in range(min(3, bench.repeats))
                ]
                lines[trainer].append((path.stat().st_size, statistics.median(turns)))
    title = f"Learning {VOCAB_SIZE:,} ids, one thread"
    across = ("size of the corpus", sizes)
    draw(folder / "train-time.svg", title, across, ("time", SECONDS), lines)


STEP_COUNTS = [*(digit * 10**power for power in range(2, 6) for digit in (1, 2, 5)), 1_000_000]
"""Numbers of steps after which the mean cost since the previous number is measured."""

MAX_SECONDS = 2.0
"""A stream that takes longer ends there."""


def stream(bench: Bench, folder: Path) -> None:
    """Plot the cost of a step by the number of steps before it."""
    text = first_bytes(bench.samples["english"], 4 * MB)
    english = cycled(bench.tokenizer.encode_ordinary(text), STEP_COUNTS[-1])
    lines: Lines = {}
    for streamer in (OURS, *STREAMERS):
        for what, ids in {"": english, ", 0x80": [0x80] * STEP_COUNTS[-1]}.items():
            if streamer.is_installed:
                steps = streamer.open(StreamCase(what, bench.tokenizer, ids))().steps
                points: list[tuple[float, float]] = []
                done, elapsed = 0, 0.0
                with without_collector():
                    while done < STEP_COUNTS[-1] and elapsed < MAX_SECONDS:
                        count = STEP_COUNTS[len(points)]
                        start = now()
                        steps(ids[done:count])
                        seconds = now() - start
                        points.append((float(count), seconds / (count - done) * 1e9))
                        done, elapsed = count, elapsed + seconds
                lines[streamer.name + what] = points
    title = "The next token of a stream of English, or of the byte 0x80"
    across = ("tokens so far", COUNTS)
    draw(folder / "stream-cost.svg", title, across, ("time of a token", NANOSECONDS), lines)
