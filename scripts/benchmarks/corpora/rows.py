"""Files to token files, beside encoding alone and beside other libraries.

Each measurement is that of a whole process without its start: the same command is measured on a
file of one document too, and its time is subtracted.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.corpora import files, others, processes
from benchmarks.corpora.files import KINDS, Input
from benchmarks.corpora.others import OTHERS, Other
from benchmarks.corpora.processes import Usage, without_start
from benchmarks.measure import Bench, Subject, new_process, timed
from benchmarks.table import MB, Line, Row, Target, bare_speed
from bpetite import PieceCounts, Tokenizer
from bpetite.corpora import Corpus

TOKENIZE = {
    "jsonl": Target(low=0.55, unit=" × encoding alone"),
    "jsonl.zst": Target(low=0.4, unit=" × encoding alone"),
    "parquet": Target(low=0.4, unit=" × encoding alone"),
}
COUNT = Target(low=0.4, unit=" × counting alone")
PEAK = {kind: Target(high=150 if kind == "parquet" else 100, unit=" MB") for kind in KINDS}
RIVALS = Target(low=15, unit=" ×")

CORPUS_BYTES = 100 * MB
LIBRARY_BYTES = 8 * MB
"""What slow libraries get. In such a file, the start of bpetite takes more time than its work."""

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


# bpetite


def corpora_header() -> Line:
    """Return the column titles."""
    commands = [("tokenize", "encoding alone"), ("count-pieces", "counting alone")]
    columns = [title for each in commands for title in (*each, "ratio")]
    return ("MB/s: text, file", *columns, "peak memory")


def corpora_rows(bench: Bench) -> Iterator[Row]:
    """Compare commands on one core with the same work on documents that are in memory."""
    size = bench.sample_size or CORPUS_BYTES
    for name in ("english", "multilingual"):
        for kind in KINDS if name in bench.texts else ():
            with case_of(bench.subject(), bench.texts[name], size, kind) as case:
                yield corpora_row(bench, f"{name}, .{kind}", case, kind)


def corpora_row(bench: Bench, what: str, case: Case, kind: str) -> Row:
    """Measure both commands on a file, and both kinds of work, in turns."""
    counts = case.folder / "counts"
    turns, peaks = [], []
    for _ in range(bench.repeats):
        tokenizing = net_of_tokenize(case, "megatron")
        counting, start = (
            bpetite("count-pieces", path, "--output", counts, "--force", "--quiet")
            for path in (case.input.path, case.input.one_document)
        )
        with new_process() as executor:
            alone = executor.submit(seconds_alone, case.input.path, case.model).result()
        turns.append((tokenizing.cpu, alone[0], without_start(counting, start).cpu, alone[1]))
        peaks.append(max(tokenizing.peak, counting.peak))
    show = bare_speed(case.input.text_bytes)
    cells, checks = [what], []
    for ours, target in ((0, TOKENIZE[kind]), (2, COUNT)):
        ratio = statistics.median(turn[ours + 1] / turn[ours] for turn in turns)
        cells += [
            show(statistics.median(turn[side] for turn in turns)) for side in (ours, ours + 1)
        ]
        cells.append(f"{ratio:.2f}")
        checks.append(target.check(what, ratio))
    peak = max(peaks) / MB
    return Row([*cells, f"{peak:.0f} MB"], [*checks, PEAK[kind].check(what, peak)])


def seconds_alone(path: Path, model: Path) -> tuple[float, float]:
    """Return the seconds to encode documents, and to count their pieces."""
    tokenizer, documents = Tokenizer.load(model), [*Corpus(path)]
    return (
        timed(lambda: tokenizer.encode_batch_arrays(documents, threads=1))(),
        timed(lambda: PieceCounts.from_corpus(documents, threads=1))(),
    )


def net_of_tokenize(case: Case, format: str) -> Usage:
    """Return what `bpetite tokenize` takes without its start."""
    whole, _ = tokenize(case, format, case.input.path)
    start, _ = tokenize(case, format, case.input.one_document)
    return without_start(whole, start)


def tokenize(case: Case, format: str, source: Path) -> tuple[Usage, int]:
    """Run `bpetite tokenize`; return what it took and the number of ids."""
    output = case.folder / "tokens"
    options = ("--model", case.model, "--format", format, "--end", END, "--output", output)
    usage = bpetite("tokenize", source, *options, "--quiet")
    ids: int = json.loads((output / "manifest.json").read_bytes())["totals"]["ids"]
    shutil.rmtree(output)
    return usage, ids


def bpetite(*arguments: str | Path) -> Usage:
    """Run the command line on one core."""
    return processes.run([sys.executable, "-m", "bpetite", *arguments])


# Other libraries


def library_header() -> Line:
    """Return the column titles."""
    peaks = ("peak memory: bpetite", "library")
    return ("MB/s: text, file, library", "library", "bpetite", "× library", *peaks)


def library_rows(bench: Bench) -> Iterator[Row]:
    """Compare with other libraries: the same documents to the same kind of files, on one core."""
    subject, text = bench.subject("GPT-2"), bench.texts["english"]
    size = bench.sample_size or CORPUS_BYTES
    with (
        case_of(subject, text, size, "jsonl") as large,
        case_of(subject, text, min(LIBRARY_BYTES, size), "jsonl") as small,
    ):
        for other in OTHERS:
            case = large if other.is_fast else small
            yield library_row(bench, "english, .jsonl", other, case, large)


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
        turns.append((without_start(whole, start), net_of_tokenize(large, other.format)))
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
