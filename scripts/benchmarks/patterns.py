"""Patterns without a name, compared with named patterns."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.encode import SLOW_SAMPLE_BYTES, STATES, cold_and_warm
from benchmarks.measure import (
    Bench,
    Subject,
    first_bytes,
    many_times,
    new_process,
    now,
    size_of,
    timed,
)
from benchmarks.pieces import words
from benchmarks.table import MB, Check, Row, Show, Target, bare_speed, in_milliseconds
from benchmarks.train import VOCAB_SIZE
from bpetite import Tokenizer
from bpetite._pretokenizer import Pretokenizer  # not public
from bpetite._tokenizer import vocabulary_of

FILE = "patterns.json"
"""A list of objects, each with a name and the patterns of a vocabulary, one after the other."""

OWN = "tekken"
"""The pattern to train with."""

FLOOR = Target(low=0.7, unit=" × the yardstick")
ADDED = Target(high=40, unit=" ms")
SHORT_BYTES = (40, 100, 200, 500)

OTHER_PIECES = 0.3
"""The share by which a mean piece may differ from cl100k's. Beyond it, merging is other work."""

HEADER = ("pattern, work", "piece", "yardstick", "its figure", "bpetite", "ratio", "target")

Turns = Sequence[tuple[float, float]]
"""The seconds of the yardstick and of bpetite in each turn."""


def pattern_rows(bench: Bench) -> Iterator[Row]:
    """Compare the patterns that the folder has with named ones, with the same tokens."""
    patterns = patterns_of(bench)
    if not patterns:
        yield Row((f"the folder of --data has no {FILE}",))
        return
    with tempfile.TemporaryDirectory() as folder:
        ranks = Path(folder, "ranks.tiktoken")
        bench.subject().tokenizer.save(ranks)
        unnamed: dict[str, Subject] = {}
        yield from encode_rows(bench, ranks, patterns, unnamed)
        if OWN in patterns:
            yield from train_rows(bench, Path(folder), patterns[OWN])
        for name in unnamed:
            yield load_row(bench, f"{name}, loading", ranks, patterns[name])
        named = load(ranks, "cl100k")
        for ours in unnamed.values():
            yield from short_rows(bench, named, ours)


def all_patterns_of(bench: Bench) -> dict[str, list[str]]:
    """Return the patterns of each vocabulary by its name."""
    path = bench.data / FILE if bench.data else None
    entries = json.loads(path.read_bytes()) if path and path.is_file() else []
    return {each["name"]: each["patterns"] for each in entries}


def patterns_of(bench: Bench) -> dict[str, str]:
    """Return the patterns, by name, of vocabularies that have only one."""
    found = all_patterns_of(bench).items()
    return {name: patterns[0] for name, patterns in found if len(patterns) == 1}


def load(ranks: Path, pattern: str, name: str = "") -> Subject:
    """Return the vocabulary of a file of ranks with a pattern, or with a named one."""
    return Subject(name or pattern, Tokenizer.load(ranks, pattern=pattern), None)


def row(cells: Sequence[str], check: Check | None) -> Row:
    """Return a row with its target and whether it is met."""
    if check is None:
        return Row(cells)
    low, high, _ = check.target
    limit = f"at least {low:g}" if low > 0 else f"at most {high:g}"
    return Row((*cells, f"{limit}: {'ok' if check.is_met else 'MISSED'}"), [check])


def ratio_row(
    what: str, piece: str, yardstick: str, show: Show, turns: Turns, target: Target | None
) -> Row:
    """Return the row of a ratio, which is above 1 if bpetite is faster than the yardstick."""
    theirs, ours = (statistics.median(turn[side] for turn in turns) for side in (0, 1))
    ratio = statistics.median(them / us for them, us in turns)
    cells = (what, piece, yardstick, show(theirs), show(ours), f"{ratio:.2f}")
    return row(cells, target.check(what, ratio) if target else None)


def in_megabytes(size: int) -> Show:
    """Show seconds as megabytes a second."""
    return lambda seconds: f"{bare_speed(size)(seconds)} MB/s"


# Whole texts


def encode_rows(
    bench: Bench, ranks: Path, patterns: Mapping[str, str], unnamed: dict[str, Subject]
) -> Iterator[Row]:
    """Compare whole texts, cold and warm. Collect the vocabularies whose pattern has no name."""
    named = load(ranks, "cl100k")
    for name, pattern in patterns.items():
        start, step = now(), "load"
        try:
            ours = load(ranks, pattern, name)
            start, step = now(), "automaton"
            way = splitter_of(ours)
        except ValueError as error:
            reason = f"refused after {in_milliseconds(now() - start)}: {error}"
            cells = (f"{name}, {step}", "", "", "", reason.replace("|", r"\|"), "")
            yield row(cells, FLOOR.check(cells[0], 0))
            if step == "load":
                continue
            way = "regex"
        if way != "scanner":
            unnamed[name] = ours
        for text_name, text in bench.samples.items():
            sample = first_bytes(text, SLOW_SAMPLE_BYTES) if way == "regex" else text
            what = f"{name} ({way}), {text_name}"
            yield from whole_rows(bench, what, named, ours, sample, way == "scanner")


def splitter_of(subject: Subject) -> str:
    """Return the kind of the splitter. Raises ValueError with the reason if `regex` must split."""
    native: Any = import_module("bpetite._engine.native")  # not public
    splitters, reason = native.splitters_of(vocabulary_of(subject.tokenizer))
    if reason:
        raise ValueError(reason)
    return "scanner" if splitters[0].windows else "automaton"


def whole_rows(
    bench: Bench, what: str, named: Subject, ours: Subject, text: str, is_named: bool
) -> Iterator[Row]:
    """Compare the speeds for a text; without a floor if its pieces differ much from cl100k's."""
    mean, usual = mean_piece(ours, text), mean_piece(named, text)
    turns = [
        [*zip(*(cold_and_warm(each.pickled, text, "array") for each in (named, ours)), strict=True)]
        for _ in range(bench.repeats)
    ]
    is_like = abs(mean / usual - 1) <= OTHER_PIECES
    target, show = FLOOR if is_like and not is_named else None, in_megabytes(size_of(text))
    for state, of_state in zip(STATES, zip(*turns, strict=True), strict=True):
        yield ratio_row(f"{what}, {state}", f"{mean:.3g} bytes", named.name, show, of_state, target)


def mean_piece(subject: Subject, text: str) -> float:
    """Return the mean size in bytes of the pieces that `regex` makes of the first megabyte."""
    sample = first_bytes(text, MB)
    return size_of(sample) / len(Pretokenizer(*subject.tokenizer.patterns).split_exactly(sample))


# Training, loading, and short texts


def train_rows(bench: Bench, folder: Path, pattern: str) -> Iterator[Row]:
    """Compare whole trainings on one thread with trainings with GPT-2's pattern."""
    for name in ("english", "multilingual"):
        if name in bench.texts:
            path = folder / f"{name}.txt"
            path.write_bytes(bench.texts[name].encode("utf-8"))
            turns = turns_of(bench, partial(train, path, "gpt2"), partial(train, path, pattern))
            show = in_megabytes(path.stat().st_size)
            yield ratio_row(f"{OWN}, training on {name}", "", "gpt2", show, turns, FLOOR)


def train(path: Path, pattern: str) -> None:
    """Learn a vocabulary from a file."""
    Tokenizer.train([path], VOCAB_SIZE, pattern=pattern, special_tokens=(), threads=1)


def load_row(bench: Bench, what: str, ranks: Path, pattern: str) -> Row:
    """Return the time that a pattern adds to loading.

    The yardstick is qwen2: the ids of public ranks are on record for their own pattern. With any
    other, load compares them with the ids of tiktoken, if it is installed.
    """
    turns = turns_of(bench, partial(load, ranks, "qwen2"), partial(load, ranks, pattern))
    theirs, ours = (statistics.median(turn[side] for turn in turns) for side in (0, 1))
    added = statistics.median(us - them for them, us in turns) * 1e3
    shown = (*map(in_milliseconds, (theirs, ours)), f"{added:+,.0f} ms")
    return row((what, "", "qwen2", *shown), ADDED.check(what, added))


def turns_of(bench: Bench, theirs: Callable[[], object], ours: Callable[[], object]) -> Turns:
    """Measure both in turns, each time in a process that has done nothing else."""

    def seconds(work: Callable[[], object]) -> float:
        with new_process() as executor:
            return executor.submit(seconds_of, work).result()

    return [(seconds(theirs), seconds(ours)) for _ in range(bench.repeats)]


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds of some work."""
    return timed(work)()


def short_rows(bench: Bench, named: Subject, ours: Subject) -> Iterator[Row]:
    """Compare the time of a call, repeated with the same few characters."""
    for size in SHORT_BYTES:
        text = words(bench.texts["english"], size)
        encoders = (partial(each.tokenizer.encode, text, dtype="uint32") for each in (named, ours))
        yardstick, clock = (many_times(200_000 // size, encode) for encode in encoders)
        turns = [(yardstick(), clock()) for _ in range(2 * bench.repeats + 1)]
        yield ratio_row(f"{ours.name}, {size} bytes", "", "cl100k", in_nanoseconds, turns, None)


def in_nanoseconds(seconds: float) -> str:
    """Show seconds as nanoseconds."""
    return f"{seconds * 1e9:,.0f} ns"
