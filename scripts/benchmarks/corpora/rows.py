"""Rows of `scripts/bench corpora`.

Each measurement is that of a whole process without its start: the same command is measured on a
file of one document too, and its time is subtracted.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.corpora import files, others, processes, stages
from benchmarks.corpora.files import KINDS, Input
from benchmarks.corpora.others import OTHERS, Other
from benchmarks.corpora.processes import ONE_CPU, Usage, without_start
from benchmarks.corpora.stages import Seconds
from benchmarks.measure import ALL_CPUS, Bench, Subject, new_process
from benchmarks.table import MB, Line, Row, Target, bare_speed
from benchmarks.train import VOCAB_SIZE

ONE_CORE = Target(low=0.9, unit=" × the limit of all stages")
TWO_CORES = Target(low=0.75, unit=" × encoding and writing")
RIVALS = Target(low=15, unit=" ×")
COUNTING = Target(low=0.9, unit=" × the limit of all stages")
COUNT = Target(low=0.7, unit=" × Tokenizer.count")
PEAK = {kind: Target(high=150 if kind == "parquet" else 100, unit=" MB") for kind in KINDS}

TEXTS = ("english", "multilingual")
CORPUS_BYTES = 100 * MB
LIBRARY_BYTES = 8 * MB
"""What slow libraries get. In such a file, the start of bpetite takes more time than its work."""

MEMORY_BYTES = (100 * MB, 1000 * MB, 4000 * MB)
STAGES = ("read", "decompress", "scan", "encode", "write")

END = "<|endoftext|>"


class Case(NamedTuple):
    """A file, the saved vocabulary, and a folder for output."""

    input: Input
    subject: Subject
    folder: Path

    @property
    def model(self) -> Path:
        """The vocabulary in bpetite's format."""
        return self.folder / "model.json"


@contextmanager
def case_of(subject: Subject, text: str, size: int, kind: str) -> Iterator[Case]:
    """Yield a new file and a folder, and remove them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subject.tokenizer.save(folder / "model.json")
        (folder / "tokenizer.json").write_bytes(subject.json)
        yield Case(files.write(folder, text, size, kind), subject, folder)


def texts_of(bench: Bench) -> Iterator[tuple[str, str]]:
    """Yield the names and the texts to measure with."""
    return ((name, bench.texts[name]) for name in TEXTS if name in bench.texts)


# bpetite tokenize


def corpora_header() -> Line:
    """Return the column titles."""
    of_two = ("two cores", "× encode and write")
    return ("MB/s: text, file", "bpetite", "× limit", *STAGES, *of_two, "start", "peak memory")


def corpora_rows(bench: Bench) -> Iterator[Row]:
    """Compare `bpetite tokenize` with the limits of its stages, on one core and on two."""
    [subject] = bench.subjects("cl100k")
    for name, text in texts_of(bench):
        for kind in KINDS:
            with case_of(subject, text, bench.sample_size or CORPUS_BYTES, kind) as case:
                yield tokenize_row(bench, f"{name}, .{kind}", case, PEAK[kind])


def tokenize_row(bench: Bench, what: str, case: Case, peak: Target) -> Row:
    """Measure a file in turns: on one core, on two, and its stages."""
    turns = []
    for _ in range(bench.repeats):
        one, start = net(partial(tokenize, case, "megatron"), case)
        two, _ = net(partial(tokenize, case, "megatron", cpus=ALL_CPUS), case)
        output = case.folder / "ids"
        limits = in_process(stages.tokenizing, case.input.path, case.model, END, output)
        turns.append((one, two, limits, start))
    total = statistics.median(one.cpu for one, *_ in turns)
    of_limit = statistics.median(cpu_of(limits) / one.cpu for one, _, limits, _ in turns)
    of_two = statistics.median(
        (limits["encode"].wall + limits["write"].wall) / two.wall for _, two, limits, _ in turns
    )
    memory = max(two.peak for _, two, *_ in turns)
    show = bare_speed(case.input.text_bytes)
    each = [
        show(statistics.median(limits[stage].cpu for _, _, limits, _ in turns))
        if stage in turns[0][2]
        else ""
        for stage in STAGES
    ]
    cells = (
        *(what, show(total), f"{of_limit:.2f}", *each),
        *(show(statistics.median(two.wall for _, two, *_ in turns)), f"{of_two:.2f}"),
        f"{statistics.median(start.wall for *_, start in turns):.2f} s",
        f"{memory / MB:.0f} MB",
    )
    checks = [ONE_CORE.check(what, of_limit), peak.check(what, memory / MB)]
    if len(ALL_CPUS) > 1:
        checks.insert(1, TWO_CORES.check(what, of_two))
    return Row(cells, checks)


def tokenize(
    case: Case, format: str, source: Path, cpus: tuple[int, ...] = ONE_CPU
) -> tuple[Usage, int]:
    """Run `bpetite tokenize`; return what it took and the number of ids."""
    output = case.folder / "tokens"
    options = ("--model", case.model, "--format", format, "--end", END, "--output", output)
    usage = bpetite("tokenize", source, *options, "--quiet", cpus=cpus)
    ids: int = json.loads((output / "manifest.json").read_bytes())["totals"]["ids"]
    shutil.rmtree(output)
    return usage, ids


def bpetite(*arguments: str | Path, cpus: tuple[int, ...] = ONE_CPU) -> Usage:
    """Run the command line."""
    return processes.run([sys.executable, "-m", "bpetite", *arguments], cpus)


def net(run: Callable[[Path], tuple[Usage, int]], case: Case) -> tuple[Usage, Usage]:
    """Return what a run takes without its start, and its start."""
    whole, _ = run(case.input.path)
    start, _ = run(case.input.one_document)
    return without_start(whole, start), start


def in_process(
    measure: Callable[..., Mapping[str, Seconds]], *arguments: object
) -> Mapping[str, Seconds]:
    """Return the seconds of stages, measured on one core by a new process."""
    with new_process() as executor:
        return executor.submit(measure, *arguments).result()


def cpu_of(limits: Mapping[str, Seconds]) -> float:
    """Return the CPU time of all stages together."""
    return sum(seconds.cpu for seconds in limits.values())


# Other libraries


def library_header() -> Line:
    """Return the column titles."""
    peaks = ("peak memory: bpetite", "library")
    return ("MB/s: text, file, library", "library", "bpetite", "× library", *peaks)


def library_rows(bench: Bench) -> Iterator[Row]:
    """Compare with other libraries: the same documents to the same kind of files, on one core."""
    [subject] = bench.subjects("GPT-2")
    size = bench.sample_size or CORPUS_BYTES
    for name, text in texts_of(bench):
        for kind in KINDS:
            with (
                case_of(subject, text, size, kind) as large,
                case_of(subject, text, min(LIBRARY_BYTES, size), kind) as small,
            ):
                for other in OTHERS:
                    if kind in other.kinds:
                        case = large if other.is_fast else small
                        yield library_row(bench, f"{name}, .{kind}", other, case, large)


def library_row(bench: Bench, what: str, other: Other, case: Case, large: Case) -> Row:
    """Measure a library on a file, and bpetite on a large file of the same text, in turns."""
    try:
        python = others.python_of(other, bench.environments)
    except others.NotInstalledError as error:
        return Row((f"{what}, {other.name}", f"not installed: {error}"))
    title = other.name.replace(",", f" {others.version_of(other, python)},", 1)
    what = f"{what}, {title}"
    expected = tokenize(case, other.format, case.input.path)[1]
    has_same_ids = True
    turns = []
    for _ in range(bench.repeats):
        try:
            whole, ids = tokenize_by(other, python, case, case.input.path)
            start, _ = tokenize_by(other, python, case, case.input.one_document)
        except processes.CommandError as error:
            return Row((what, f"failed: {error}"))
        has_same_ids = has_same_ids and ids in (expected, None)
        ours, _ = net(partial(tokenize, large, other.format), large)
        turns.append((without_start(whole, start), ours))
    theirs, our = (
        statistics.median(turn[side].cpu for turn in turns) / of.input.text_bytes
        for side, of in ((0, case), (1, large))
    )
    peaks = [max(turn[side].peak for turn in turns) / MB for side in (1, 0)]
    show = bare_speed(1)
    cells = (
        *(what, show(theirs) + ("" if has_same_ids else " (other ids)"), show(our)),
        *(f"{theirs / our:.1f}", *(f"{peak:.0f} MB" for peak in peaks)),
    )
    return Row(cells, [] if other.is_fast else [RIVALS.check(what, theirs / our)])


def tokenize_by(other: Other, python: Path, case: Case, source: Path) -> tuple[Usage, int | None]:
    """Run a library on a file; return what it took and the number of ids, if its files tell."""
    output = case.folder / "others"
    end = (END, case.subject.tokenizer.special_tokens[END])
    tokenizer = case.folder / "tokenizer.json"
    variables = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    command = others.command(other, python, source, tokenizer, output, end)
    try:
        usage = processes.run(command, variables=variables)
        return usage, others.ids_in(output, other.ids) if other.ids else None
    finally:
        shutil.rmtree(output, ignore_errors=True)


# Memory


def memory_header() -> Line:
    """Return the column titles."""
    return ("peak memory: file", *(f"{size / MB:,.0f} MB of text" for size in MEMORY_BYTES))


def memory_rows(bench: Bench) -> Iterator[Row]:
    """Measure the peak memory by the size of the file."""
    [subject] = bench.subjects("cl100k")
    sizes = MEMORY_BYTES if bench.is_full else MEMORY_BYTES[:1]
    for kind in KINDS:
        peaks = []
        for size in sizes:
            with case_of(subject, bench.texts["english"], size, kind) as case:
                usage, _ = tokenize(case, "megatron", case.input.path, ALL_CPUS)
                peaks.append(usage.peak / MB)
        what = f"english, .{kind}"
        checks = [
            PEAK[kind].check(f"{what}, {size / MB:,.0f} MB", peak)
            for size, peak in zip(sizes, peaks, strict=True)
        ]
        yield Row((what, *(f"{peak:.0f} MB" for peak in peaks)), checks)


# Counting


def counting_header() -> Line:
    """Return the column titles."""
    return ("MB/s: text, command", "bpetite", "limit", "ratio", "peak memory")


def counting_rows(bench: Bench) -> Iterator[Row]:
    """Compare `count-pieces`, `train` and `count` with the limits of their stages, on one core."""
    [subject] = bench.subjects("cl100k")
    size = bench.sample_size or CORPUS_BYTES
    for name, text in texts_of(bench):
        with case_of(subject, text, size, "jsonl.zst") as case:
            path, output = case.input.path, case.folder / "output"
            options: list[str | Path] = ["--output", output, "--force", "--quiet"]
            limits = partial(in_process, stages.counting, path, output)
            what = f"{name}, count-pieces, .jsonl.zst"
            yield counting_row(bench, what, case, ("count-pieces", *options), limits, COUNTING)
            options += ["--vocab-size", str(VOCAB_SIZE)]
            limits = partial(in_process, stages.training, path, VOCAB_SIZE, output)
            what = f"{name}, train, {VOCAB_SIZE:,} ids, .jsonl.zst"
            yield counting_row(bench, what, case, ("train", *options), limits, COUNTING)
        with case_of(subject, text, size, "txt") as case:
            limits = partial(in_process, stages.count_text, case.input.path, case.model)
            options = ["--model", case.model]
            yield counting_row(
                bench, f"{name}, count, .txt", case, ("count", *options), limits, COUNT
            )


def counting_row(
    bench: Bench,
    what: str,
    case: Case,
    command: Sequence[str | Path],
    limits: Callable[[], Mapping[str, Seconds]],
    target: Target,
) -> Row:
    """Measure a command and the limit of its stages in turns."""
    turns: list[tuple[Usage, float]] = []
    for _ in range(bench.repeats):
        whole = bpetite(*command, case.input.path)
        start = bpetite(*command, case.input.one_document)
        turns.append((without_start(whole, start), cpu_of(limits())))
    show = bare_speed(case.input.text_bytes)
    ratio = statistics.median(limit / ours.cpu for ours, limit in turns)
    peak = max(ours.peak for ours, _ in turns)
    cells = (
        *(what, show(statistics.median(ours.cpu for ours, _ in turns))),
        *(show(statistics.median(limit for _, limit in turns)), f"{ratio:.2f}"),
        f"{peak / MB:.0f} MB",
    )
    return Row(cells, [target.check(what, ratio)])
