"""Files to token files, compared with the same work in memory and with other libraries.

A measurement is the time of a whole process without its start: the same command is also measured on
a file of one document, and this time is subtracted.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from string import ascii_lowercase
from typing import NamedTuple

from benchmarks import others
from benchmarks.measure import ALL_CPUS, Bench, Subject, new_process, timed
from benchmarks.others import OTHERS, Other
from benchmarks.table import MB, Row, Target, bare_speed
from bpetite import PieceCounts, Tokenizer
from bpetite.corpora import Corpus

TOKENIZE = {
    "jsonl": Target(low=0.55, unit=" × encoding alone"),
    "jsonl.zst": Target(low=0.4, unit=" × encoding alone"),
    "parquet": Target(low=0.4, unit=" × encoding alone"),
}
COUNT = Target(low=0.4, unit=" × counting alone")
PEAK = {kind: Target(high=150 if kind == "parquet" else 100, unit=" MB") for kind in TOKENIZE}
RIVALS = Target(low=15, unit=" ×")

CORPUS_BYTES = 100 * MB
LIBRARY_BYTES = 8 * MB
"""The size for slow libraries. In such a file, bpetite's start takes more time than its work."""

END = "<|endoftext|>"

# Files


@dataclass(frozen=True)
class Case:
    """A file of many documents, a file of one document, and a folder with the vocabulary."""

    subject: Subject
    folder: Path
    kind: str
    text_bytes: int

    @property
    def files(self) -> tuple[Path, Path]:
        """Return the paths of both files."""
        return self.folder / f"corpus.{self.kind}", self.folder / f"one.{self.kind}"


@contextmanager
def case_of(subject: Subject, text: str, size: int, kind: str) -> Iterator[Case]:
    """Yield new files, and remove them."""
    with tempfile.TemporaryDirectory() as name:
        subject.tokenizer.save(Path(name, "model.json"))
        Path(name, "tokenizer.json").write_bytes(subject.json)
        texts = [*documents(text, size)]
        case = Case(subject, Path(name), kind, sum(len(each.encode()) for each in texts))
        for path, some in zip(case.files, (texts, texts[:1]), strict=True):
            path.write_bytes(content(some, kind))
        yield case


def documents(text: str, size: int) -> Iterator[str]:
    """Yield documents of `size` bytes or a little more, with a mean length of 2,500 characters.

    They repeat the text, with other ends in each round. The last word of each document is random,
    so that every document has a new word.
    """
    rng = random.Random(7)
    start = done = 0
    while done < size:
        end = start + min(max(int(rng.lognormvariate(7.42, 0.9)), 200), 20_000)
        space = text.find(" ", end, end + 100)
        end = end if space < 0 else space
        # Since dolma strips documents, they have no spaces around them: its ids must be the same.
        document = f"{text[start:end].strip()} {''.join(rng.choices(ascii_lowercase, k=9))}"
        start = end if end < len(text) else 0
        done += len(document.encode("utf-8"))
        yield document


def content(texts: Iterable[str], kind: str) -> bytes:
    """Return the content of a file of documents, with fields like FineWeb's."""
    rng = random.Random(7)
    rows = (
        {
            "text": text,
            "id": f"<urn:uuid:{rng.getrandbits(128):032x}>",
            "dump": "CC-MAIN-2013-20",
            "url": f"https://www.example{rng.randrange(9999)}.com/2013/05/words-of-a-title.html",
            "date": "2013-05-18T05:48:59Z",
            "file_path": f"s3://commoncrawl/crawl-data/CC-MAIN-2013-20/{number:05}.warc.gz",
            "language": "en",
            "language_score": round(rng.random(), 12),
            "token_count": rng.randrange(9999),
        }
        for number, text in enumerate(texts)
    )
    lines = b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
    if kind == "jsonl.zst":
        compressed: bytes = import_module("zstandard").ZstdCompressor().compress(lines)
        return compressed
    if kind == "parquet":
        file = BytesIO()
        table = import_module("pyarrow.json").read_json(BytesIO(lines))
        parquet = import_module("pyarrow.parquet")
        parquet.write_table(table, file, compression="zstd", row_group_size=10_000)
        return file.getvalue()
    return lines


# Processes

# A small parent starts the command, because a new process begins with its parent's peak memory.
_LAUNCHER = """
import json, os, subprocess, sys
cpus, command = json.loads(sys.argv[1])
if cpus:
    os.sched_setaffinity(0, cpus)
process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
unit = 1 if sys.platform == "darwin" else 1024
print(json.dumps([usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit]))
sys.exit(status != 0)
"""


class Usage(NamedTuple):
    """The resources of a process and of the processes that it waited for."""

    cpu: float
    """Seconds."""
    peak: int
    """The memory of its largest process, in bytes."""


class CommandError(Exception):
    """A command failed; the last line of its standard error says why."""


def run(command: Iterable[str | Path]) -> Usage:
    """Run a command on one processor. Raises CommandError if it fails."""
    variables = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "RAYON_NUM_THREADS": "1"}
    arguments = json.dumps([ALL_CPUS[-1:], [str(part) for part in command]])
    with tempfile.TemporaryFile() as errors:
        result = subprocess.run(
            [sys.executable, "-S", "-E", "-c", _LAUNCHER, arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **variables},
        )
        errors.seek(0)
        lines = errors.read().decode("utf-8", "replace").split("\n")
    if result.returncode:
        raise CommandError(next((line for line in reversed(lines) if line.strip()), "no message"))
    return Usage(*json.loads(result.stdout))


def net(run_on: Callable[[Path], Usage], case: Case) -> Usage:
    """Return the resources of a run without its start."""
    whole, start = map(run_on, case.files)
    return Usage(whole.cpu - start.cpu, whole.peak)


def bpetite(*arguments: str | Path) -> Usage:
    """Run the command line."""
    return run([sys.executable, "-m", "bpetite", *arguments])


def tokenize(case: Case, format: str, source: Path, ids: list[int] | None = None) -> Usage:
    """Run `bpetite tokenize`; append the number of ids to `ids`."""
    output = case.folder / "tokens"
    options = ("--model", case.folder / "model.json", "--format", format, "--end", END)
    usage = bpetite("tokenize", source, *options, "--output", output, "--quiet")
    if ids is not None:
        ids.append(json.loads((output / "manifest.json").read_bytes())["totals"]["ids"])
    shutil.rmtree(output)
    return usage


# bpetite


CORPORA_HEADER = (
    *("MB/s: text, file", "tokenize", "encoding alone", "ratio"),
    *("count-pieces", "counting alone", "ratio", "peak memory"),
)


def corpora_rows(bench: Bench) -> Iterator[Row]:
    """Compare commands on one core with the same work on documents that are in memory."""
    size = bench.sample_size or CORPUS_BYTES
    for name in ("english", "multilingual"):
        for kind in TOKENIZE if name in bench.texts else ():
            with case_of(bench.subject(), bench.texts[name], size, kind) as case:
                yield corpora_row(bench, f"{name}, .{kind}", case)


def corpora_row(bench: Bench, what: str, case: Case) -> Row:
    """Measure both commands on a file, and both kinds of work, in turns."""
    turns, peaks = [], []
    options = ("--output", case.folder / "counts", "--force", "--quiet")
    for _ in range(bench.repeats):
        tokenizing = net(partial(tokenize, case, "megatron"), case)
        counting = net(lambda path: bpetite("count-pieces", path, *options), case)
        with new_process() as executor:
            alone = executor.submit(seconds_alone, case.files[0], case.folder).result()
        turns.append((tokenizing.cpu, alone[0], counting.cpu, alone[1]))
        peaks.append(max(tokenizing.peak, counting.peak))
    show = bare_speed(case.text_bytes)
    cells, checks = [what], []
    for side, target in ((0, TOKENIZE[case.kind]), (2, COUNT)):
        ratio = statistics.median(turn[side + 1] / turn[side] for turn in turns)
        ours, limit = (statistics.median(turn[each] for turn in turns) for each in (side, side + 1))
        cells += [show(ours), show(limit), f"{ratio:.2f}"]
        checks.append(target.check(what, ratio))
    peak = max(peaks) / MB
    return Row([*cells, f"{peak:.0f} MB"], [*checks, PEAK[case.kind].check(what, peak)])


def seconds_alone(path: Path, folder: Path) -> tuple[float, float]:
    """Return the seconds to encode documents, and to count their pieces."""
    tokenizer, texts = Tokenizer.load(folder / "model.json"), [*Corpus(path)]
    return (
        timed(lambda: tokenizer.encode_batch(texts, threads=1, dtype="uint32"))(),
        timed(lambda: PieceCounts.from_corpus(texts, threads=1))(),
    )


# Other libraries


LIBRARY_HEADER = (
    *("MB/s: text, file, library", "library", "bpetite", "× library"),
    *("peak memory: bpetite", "library"),
)


def library_rows(bench: Bench) -> Iterator[Row]:
    """Compare with other libraries, which write the same documents to the same kind of files."""
    subject, text = bench.subject("GPT-2"), bench.texts["english"]
    size = bench.sample_size or CORPUS_BYTES
    with (
        case_of(subject, text, size, "jsonl") as large,
        case_of(subject, text, min(LIBRARY_BYTES, size), "jsonl") as small,
    ):
        for other in OTHERS:
            what = f"english, .jsonl, {other.name}"
            try:
                yield library_row(bench, what, other, large if other.is_fast else small, large)
            except (others.NotInstalledError, CommandError) as error:
                yield Row((what, f"failed: {error}"))


def library_row(bench: Bench, what: str, other: Other, case: Case, large: Case) -> Row:
    """Measure a library on a file, and bpetite on a large file of the same text, in turns."""
    python = others.python_of(other, bench.environments)
    version = others.version_of(other, python)
    what = what.replace(other.name, other.name.replace(",", f" {version},", 1))
    expected: list[int] = []
    tokenize(case, other.format, case.files[0], expected)
    counts: list[int] = []
    turns = [
        (
            net(partial(tokenize_by, other, python, case, counts), case),
            net(partial(tokenize, large, other.format), large),
        )
        for _ in range(bench.repeats)
    ]
    is_wrong = {*counts[::2]} - {*expected}
    theirs, ours = (
        statistics.median(turn[side].cpu for turn in turns) / of.text_bytes
        for side, of in ((0, case), (1, large))
    )
    peaks = [f"{max(turn[side].peak for turn in turns) / MB:.0f} MB" for side in (1, 0)]
    show = bare_speed(1)
    cells = (what, show(theirs) + (" (other ids)" if is_wrong else ""), show(ours))
    checks = [] if other.is_fast else [RIVALS.check(what, theirs / ours)]
    return Row((*cells, f"{theirs / ours:.1f}", *peaks), checks)


def tokenize_by(other: Other, python: Path, case: Case, counts: list[int], source: Path) -> Usage:
    """Run a library on a file; append the number of ids in its files to `counts`."""
    output, tokenizer = case.folder / "others", case.folder / "tokenizer.json"
    end_id = case.subject.tokenizer.special_tokens[END]
    try:
        usage = run([python, "-c", other.code, source, tokenizer, output, END, str(end_id)])
        if other.ids:
            counts.append(sum(path.stat().st_size for path in output.rglob(other.ids)) // 2)
        return usage
    finally:
        shutil.rmtree(output, ignore_errors=True)
