"""Measure bpetite beside its yardsticks; print one Markdown table with its conditions.

What `scripts/bench` runs, in an environment with the `bench` extra. The rows of a yardstick that
is not installed say so. Standard output is the table, standard error says what goes on.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import itertools
import math
import os
import pickle
import platform
import pydoc_data.topics
import random
import re
import shlex
import statistics
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import regex

import bpetite
from bpetite import Tokenizer, TrainingProgress

# A yardstick is imported where it is used: any may be missing, and a process that measures the
# memory of training must have none of them.
if TYPE_CHECKING:
    import tiktoken
    import tokenizers

MB = 1_000_000

PUBLIC = {
    "GPT-2": "gpt2_vocab.json",  # and gpt2_merges.txt
    "cl100k": "cl100k_base.tiktoken",
    "o200k": "o200k_base.tiktoken",
}
"""Vocabularies that a folder of data may have."""

STEPS = 200_000  # that a stream takes while the clock runs

KOREAN = (
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다 "
    "인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다"
)

Clock = Callable[[], float]
"""Does some work and returns how many seconds it took."""

Show = Callable[[float], str]
"""Says seconds in the words of a row: megabytes a second, say."""


def main() -> None:
    """Print the conditions and the table of the sections that the arguments ask for."""
    arguments = parse_arguments()
    bench = Bench(arguments.data, arguments.bytes, arguments.repeats)
    rows = []
    for section in arguments.only:
        for number, row in enumerate(SECTIONS[section](bench)):
            if number == 0:  # without public vocabularies, some sections have nothing to say
                rows.append(Row(f"**{section}**"))
            say(f"{section}: {row}")
            rows.append(row)
    for condition in conditions(bench):
        print(f"- {condition}")
    print()
    print(Row("what", "bpetite", "yardstick", "ratio", "target"))
    print("|---|---|---|---|---|")
    print(*rows, sep="\n")


def parse_arguments() -> argparse.Namespace:
    """Return the checked arguments: data, repeats, bytes, only."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="has english.txt, code.txt and any other *.txt, in UTF-8, and perhaps "
        f"{', '.join(PUBLIC.values())}; by default, text that Python itself carries",
    )
    parser.add_argument(
        "--repeats",
        type=positive,
        default=5,
        metavar="N",
        help="pairs of measurements, of which the median counts (default: %(default)s)",
    )
    parser.add_argument(
        "--bytes",
        type=positive,
        default=4 * MB,
        metavar="N",
        help="of each text are encoded, decoded and counted (default: %(default)s)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=SECTIONS,
        default=list(SECTIONS),
        metavar="SECTION",
        help=f"which of {', '.join(SECTIONS)} (default: all)",
    )
    arguments = parser.parse_args()
    for name in ("english.txt", "code.txt") if arguments.data else ():
        if not (arguments.data / name).is_file():
            parser.error(f"--data: {arguments.data} has no {name}")
    return arguments


def positive(argument: str) -> int:
    """Return the argument as an int of at least 1."""
    number = int(argument)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def say(words: str) -> None:
    """Say on standard error what happens."""
    print(words, file=sys.stderr, flush=True)


def conditions(bench: Bench) -> Iterator[str]:
    """Yield what a reader must know to judge the table, and to measure it again."""
    yield f"Command: `{shlex.join(['scripts/bench', *sys.argv[1:]])}`"
    packages = ("regex", "tiktoken", "tokenizers", "splintr-rs")
    versions = ", ".join(f"{package} {version_of(package)}" for package in packages)
    yield f"bpetite {bpetite.__version__}, {bpetite.engine} engine; {versions}"
    yield f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}"
    yield f"{processor()}, {os.cpu_count()} CPUs"
    sizes = ", ".join(f"{name} {size_of(text):,}" for name, text in bench.texts.items())
    yield f"Texts, bytes of UTF-8: {sizes}; 1 MB = 1,000,000 bytes"
    learnt = f"Vocabulary: {bench.vocab_size:,} bytes and merges, learnt from english"
    yield f"{learnt}; but what a row names" if bench.public else learnt
    yield (
        f"The two sides of a row ran in turns in one process, {bench.repeats} times: medians, and "
        "the median of the ratios of each turn [least to greatest]; but files were loaded (and "
        "held against tiktoken or tokenizers, as always where they are installed), and our "
        "trainings ran, in processes of their own; the trainings of tokenizers got the same text "
        "as one document"
    )
    yield (
        "Wall time; for both sides alike a full garbage collection before the clock starts, the "
        "collector on while it runs, and results freed after it stops"
    )


def version_of(package: str) -> str:
    """Return the version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """Return the name of the processor, as far as the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return found[1] if found else platform.processor() or platform.machine()


# The table


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    bpetite: str = ""
    yardstick: str = ""
    ratio: str = ""
    target: str = ""

    def __str__(self) -> str:
        return f"| {self.what} | {self.bpetite} | {self.yardstick} | {self.ratio} | {self.target} |"


@dataclass(frozen=True)
class Target:
    """The range that a value should be in."""

    low: float = -math.inf
    high: float = math.inf
    unit: str = ""

    def verdict(self, value: float) -> str:
        """Say what is wanted, and whether `value` is that."""
        if self.low == -math.inf:
            wanted = f"at most {self.high:,}"
        elif self.high == math.inf:
            wanted = f"at least {self.low:,}"
        else:
            wanted = f"{self.low:,} to {self.high:,}"
        return f"{wanted}{self.unit}: {'ok' if self.low <= value <= self.high else 'MISSED'}"


@dataclass(frozen=True)
class Comparison:
    """Seconds that both sides took, in turns: (bpetite, yardstick)."""

    turns: Sequence[tuple[float, float]]

    def row(
        self,
        what: str,
        show: Show,
        yardstick: str,
        of: Literal["time", "speed"],
        target: Target | None = None,
    ) -> Row:
        """Return a row whose ratio is bpetite's time, or speed, as a part of the yardstick's."""
        ours = statistics.median(ours for ours, _ in self.turns)
        theirs = statistics.median(theirs for _, theirs in self.turns)
        ratios = [us / them if of == "time" else them / us for us, them in self.turns]
        ratio = statistics.median(ratios)
        shown = f"{ratio:.2f} [{min(ratios):.2f} to {max(ratios):.2f}] of its {of}"
        verdict = target.verdict(ratio) if target else ""
        return Row(what, show(ours), f"{yardstick}: {show(theirs)}", shown, verdict)


def speed(size: int) -> Show:
    """Show seconds as the speed of work on so many bytes."""
    return lambda seconds: f"{size / MB / seconds:.3g} MB/s"


def nanoseconds(count: int) -> Show:
    """Show seconds as the time of each of so many steps."""
    return lambda seconds: f"{seconds / count * 1e9:,.0f} ns"


def in_seconds(seconds: float) -> str:
    """Show seconds."""
    return f"{seconds:.3g} s"


# What is measured, and on what


class Bench:
    """The texts and the vocabulary that the sections share, and how often they repeat."""

    def __init__(self, folder: Path | None, sample_size: int, repeats: int) -> None:
        self.texts = texts_of(folder)
        self.samples = {name: first_bytes(text, sample_size) for name, text in self.texts.items()}
        self.public = {} if folder is None else public_vocabularies(folder)
        self.repeats = repeats
        self.vocab_size = 32_000 if size_of(self.texts["english"]) >= 8 * MB else 8_000

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary of most sections."""
        say(f"learning {self.vocab_size:,} bytes and merges from english")
        return Tokenizer.train(self.texts["english"], self.vocab_size)

    def compare(self, ours: Clock, theirs: Clock) -> Comparison:
        """Measure both in turns."""
        return Comparison([(ours(), theirs()) for _ in range(self.repeats)])

    def measure(self, clock: Clock) -> float:
        """Return the median of the repeats."""
        return statistics.median(clock() for _ in range(self.repeats))


def texts_of(folder: Path | None) -> dict[str, str]:
    """Return each text by its name, english and code first."""
    if folder is None:
        library = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
        return {
            "english": "\n".join(pydoc_data.topics.topics.values()),
            "code": "".join(path.read_bytes().decode("utf-8") for path in library),
        }
    others = {path.stem for path in folder.glob("*.txt")} - {"english", "code"}
    return {
        name: (folder / f"{name}.txt").read_bytes().decode("utf-8")
        for name in ("english", "code", *sorted(others))
    }


def public_vocabularies(folder: Path) -> dict[str, Path]:
    """Return the public vocabularies that are in a folder, by their names."""
    return {name: folder / file for name, file in PUBLIC.items() if (folder / file).is_file()}


def size_of(text: str) -> int:
    """Return the number of bytes in UTF-8."""
    return len(text.encode("utf-8"))


def megabytes(text: str) -> str:
    """Return the size of a text, for people."""
    return f"{size_of(text) / MB:.3g} MB"


def first_bytes(text: str, size: int) -> str:
    """Return the beginning of `text`, at most `size` bytes of whole characters."""
    return text[:size].encode("utf-8")[:size].decode("utf-8", "ignore")


def timed(work: Callable[..., object], *arguments: object) -> Clock:
    """Return a clock of `work(*arguments)`."""

    def clock() -> float:
        gc.collect()
        start = time.perf_counter()
        result = work(*arguments)
        stop = time.perf_counter()
        del result
        return stop - start

    return clock


def cycled(ids: Iterable[int], count: int) -> list[int]:
    """Return `count` ids: those given, again and again."""
    return list(itertools.islice(itertools.cycle(ids), count))


def if_installed(what: str, rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows, or one that says which yardstick they lack."""
    try:
        yield from rows
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        yield Row(what, yardstick=f"{package} is not installed")


# The yardsticks, with the vocabulary of a tokenizer


def mergeable_tokens(tokenizer: Tokenizer) -> list[bytes]:
    """Return the bytes of each id but the special ones."""
    return [tokenizer.token_bytes(id) for id in range(256 + len(tokenizer.merges))]


def tiktoken_of(tokenizer: Tokenizer) -> tiktoken.Encoding:
    """Return the same vocabulary as a tiktoken encoding."""
    import tiktoken

    return tiktoken.Encoding(
        "bpetite",
        pat_str=tokenizer.pattern,
        mergeable_ranks={token: id for id, token in enumerate(mergeable_tokens(tokenizer))},
        special_tokens=dict(tokenizer.special_tokens),
    )


def huggingface_of(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """Return the same vocabulary as a Hugging Face tokenizer."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers

    tokens = [spelled(token) for token in mergeable_tokens(tokenizer)]
    model = models.BPE(
        vocab={token: id for id, token in enumerate(tokens)},
        merges=[(tokens[left], tokens[right]) for left, right in tokenizer.merges],
    )
    twin = tokenizers.Tokenizer(model)
    twin.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    twin.decoder = decoders.ByteLevel()
    twin.add_special_tokens(list(tokenizer.special_tokens))
    return twin


def spelled(token: bytes) -> str:
    """Return a token as byte-level vocabularies spell it: a printable character for each byte."""
    return "".join(map(SPELLING.__getitem__, token))


PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
SPELLING = {byte: chr(byte) for byte in PRINTABLE}
SPELLING |= {byte: chr(character) for character, byte in enumerate(OTHERS, 256)}


# Encoding


def encode_rows(bench: Bench) -> Iterator[Row]:
    """Compare encoding with cutting the text alone, and with others' encoding."""
    for name, sample in bench.samples.items():
        has_target = name in ("english", "code")
        yield from findall_rows(bench, name, sample, bench.tokenizer, has_target)
        yield from if_installed(
            f"{name}, warm",
            tiktoken_encode_rows(bench, name, sample, Target(low=0.5) if has_target else None),
        )
        yield from if_installed(f"{name}, warm", huggingface_encode_rows(bench, name, sample))


def findall_rows(
    bench: Bench, what: str, sample: str, tokenizer: Tokenizer, has_target: bool
) -> Iterator[Row]:
    """Compare encoding with cutting the text alone, by the tokenizer's own pattern."""
    findall = regex.compile(tokenizer.pattern).findall
    pickled = pickle.dumps(tokenizer)
    show = speed(size_of(sample))
    tokenizer.encode_ordinary(sample)
    yield bench.compare(timed(tokenizer.encode_ordinary, sample), timed(findall, sample)).row(
        f"{what}, warm", show, "findall", "time", Target(high=1.6) if has_target else None
    )
    yield bench.compare(cold_encoding(pickled, sample), timed(findall, sample)).row(
        f"{what}, cold", show, "findall", "time", Target(high=4) if has_target else None
    )


def cold_encoding(pickled: bytes, text: str) -> Clock:
    """Return a clock of the first encoding by a tokenizer that is made anew each time."""
    return lambda: timed(pickle.loads(pickled).encode_ordinary, text)()


def tiktoken_encode_rows(
    bench: Bench, name: str, sample: str, target: Target | None
) -> Iterator[Row]:
    tokenizer, encoding = bench.tokenizer, tiktoken_of(bench.tokenizer)
    ours, theirs = tokenizer.encode_ordinary(sample), encoding.encode_ordinary(sample)
    lines = [] if ours == theirs else sample.splitlines(keepends=True)
    differing = sum(
        tokenizer.encode_ordinary(line) != encoding.encode_ordinary(line) for line in lines
    )
    yield Row(
        f"{name}, ids",
        f"{len(ours):,}",
        f"tiktoken: {len(theirs):,}",
        "equal" if ours == theirs else f"different in {differing:,} lines",
        f"equal: {'ok' if ours == theirs else 'MISSED'}" if target else "",
    )
    yield bench.compare(
        timed(tokenizer.encode_ordinary, sample), timed(encoding.encode_ordinary, sample)
    ).row(f"{name}, warm", speed(size_of(sample)), "tiktoken", "speed", target)


def huggingface_encode_rows(bench: Bench, name: str, sample: str) -> Iterator[Row]:
    twin = huggingface_of(bench.tokenizer)
    text = first_bytes(sample, MB)
    yield bench.compare(
        timed(bench.tokenizer.encode_ordinary, text),
        timed(lambda: twin.encode(text, add_special_tokens=False).ids),
    ).row(f"{name}, warm, {megabytes(text)}", speed(size_of(text)), "tokenizers", "speed")


# Public vocabularies


def public_rows(bench: Bench) -> Iterator[Row]:
    """Compare encoding with cutting alone, each vocabulary by its pattern; targets as GPT-2's."""
    for vocabulary, path in bench.public.items():
        tokenizer = Tokenizer.load(path)
        for name, sample in bench.samples.items():
            has_target = name in ("english", "code")
            yield from findall_rows(bench, f"{vocabulary}, {name}", sample, tokenizer, has_target)


LOAD_LIMITS = {("cl100k", "its own"): 1.5, ("cl100k", "ours"): 0.3, ("o200k", "ours"): 0.5}
"""In seconds, for a vocabulary in a kind of file."""


def load_rows(bench: Bench) -> Iterator[Row]:
    """Measure loading from each kind of file, in new processes, and the size of ours."""
    for vocabulary, path in bench.public.items():
        tokenizer = Tokenizer.load(path)
        with tempfile.TemporaryDirectory() as folder:
            paths = {"its own": path}
            for kind, name in (("ours", "ours.json"), ("tokenizer.json", "tokenizer.json")):
                paths[kind] = Path(folder, name)
                tokenizer.save(paths[kind])
            for kind, path in paths.items():
                took = bench.measure(partial(load_in_new_process, path))
                limit = LOAD_LIMITS.get((vocabulary, kind))
                what = f"{vocabulary}, {path.name if kind == 'its own' else kind}"
                verdict = Target(high=limit, unit=" s").verdict(took) if limit else ""
                yield Row(what, in_seconds(took), target=verdict)
            size = paths["ours"].stat().st_size / MB
            verdict = Target(high=6, unit=" MB").verdict(size) if vocabulary == "o200k" else ""
            yield Row(f"{vocabulary}, ours, size", f"{size:.3g} MB", target=verdict)


def load_in_new_process(path: Path) -> float:
    """Return how long it takes to load a file where nothing is loaded yet."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        return executor.submit(load, path).result()


def load(path: Path) -> float:
    """Return how long it takes to load a file, with what is held against it if installed."""
    return timed(Tokenizer.load, path)()


# Training


def count_rows(bench: Bench) -> Iterator[Row]:
    """Compare counting pieces, which is training without a merge, with a plain Counter."""
    findall = regex.compile(Tokenizer.train("", 256).pattern).findall
    for name, sample in bench.samples.items():
        yield bench.compare(
            timed(Tokenizer.train, sample, 256), timed(lambda text: Counter(findall(text)), sample)
        ).row(name, speed(size_of(sample)), "Counter(findall)", "time", Target(high=1.35))


@dataclass(frozen=True)
class Training:
    """What one training took, in seconds and bytes of memory, and how many ids it learnt."""

    seconds: float
    counting: float
    learnt: int
    peak: int | None


def train_rows(bench: Bench) -> Iterator[Row]:
    """Measure whole trainings, each in a process of its own, from a file."""
    english = bench.texts["english"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "english.txt")
        text = first_bytes(english, MB)
        path.write_bytes(text.encode("utf-8"))
        limit = 2 if size_of(text) > 0.9 * MB else None
        yield from training_rows(bench, f"512 ids, {megabytes(text)}", path, 512, limit)
        path.write_bytes(english.encode("utf-8"))
        limit = 90 if size_of(english) > 15 * MB else None
        yield from training_rows(bench, f"32,000 ids, {megabytes(english)}", path, 32_000, limit)


def training_rows(
    bench: Bench, what: str, path: Path, vocab_size: int, limit: float | None
) -> Iterator[Row]:
    """Measure one training; the limit in seconds, and that of memory, are for texts of a size."""
    trainings: list[Training] = []

    def clock() -> float:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
            trainings.append(executor.submit(train_from, path, vocab_size).result())
        return trainings[-1].seconds

    yield from if_installed(what, huggingface_training_rows(bench, what, clock, path, vocab_size))
    if not trainings:
        bench.measure(clock)
    median = statistics.median(training.seconds for training in trainings)
    counting = statistics.median(training.counting / training.seconds for training in trainings)
    yield Row(
        what,
        f"{in_seconds(median)}: {counting:.0%} counting, {1 - counting:.0%} merging; "
        f"{trainings[0].learnt:,} ids learnt",
        target=Target(high=limit, unit=" s").verdict(median) if limit else "",
    )
    peaks = [training.peak for training in trainings if training.peak is not None]
    yield Row(
        f"{what}, peak memory",
        f"{max(peaks) / MB:,.0f} MB" if peaks else "not told by this system",
        target=Target(high=1000, unit=" MB").verdict(max(peaks) / MB) if peaks and limit else "",
    )


def train_from(path: Path, vocab_size: int) -> Training:
    """Learn a vocabulary from a file, in a process that does nothing else."""
    counted = start = time.perf_counter()

    def note(progress: TrainingProgress) -> None:
        nonlocal counted
        if progress.stage == "counting":
            counted = time.perf_counter()

    tokenizer = Tokenizer.train_from_files([path], vocab_size, progress=note)
    seconds = time.perf_counter() - start
    return Training(seconds, counted - start, 256 + len(tokenizer.merges), peak_memory())


def peak_memory() -> int | None:
    """Return the most memory that this process has held, in bytes; None where nothing tells."""
    # On Linux, getrusage remembers the memory of the process that started this one.
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text()) if status.exists() else None
    if found:
        return int(found[1]) * 1024
    if sys.platform == "win32":
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def huggingface_training_rows(
    bench: Bench, what: str, ours: Clock, path: Path, vocab_size: int
) -> Iterator[Row]:
    import tokenizers
    from tokenizers import models, pre_tokenizers, trainers

    text = path.read_bytes().decode("utf-8")

    def train() -> None:
        tokenizer = tokenizers.Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False
        )
        tokenizer.train_from_iterator([text], trainer)

    yield bench.compare(ours, timed(train)).row(what, in_seconds, "tokenizers", "time")


# Decoding


def decode_rows(bench: Bench) -> Iterator[Row]:
    """Compare decoding whole lists of ids."""
    for name, sample in bench.samples.items():
        yield from if_installed(name, tiktoken_decode_rows(bench, name, sample))
        yield from if_installed(name, huggingface_decode_rows(bench, name, sample))


def tiktoken_decode_rows(bench: Bench, name: str, sample: str) -> Iterator[Row]:
    tokenizer, encoding = bench.tokenizer, tiktoken_of(bench.tokenizer)
    ids = tokenizer.encode_ordinary(sample)
    yield bench.compare(timed(tokenizer.decode, ids), timed(encoding.decode, ids)).row(
        name, speed(size_of(sample)), "tiktoken", "speed", Target(low=0.3)
    )


def huggingface_decode_rows(bench: Bench, name: str, sample: str) -> Iterator[Row]:
    tokenizer, twin = bench.tokenizer, huggingface_of(bench.tokenizer)
    text = first_bytes(sample, MB)
    ids = tokenizer.encode_ordinary(text)
    yield bench.compare(
        timed(tokenizer.decode, ids), timed(lambda: twin.decode(ids, skip_special_tokens=False))
    ).row(f"{name}, {megabytes(text)}", speed(size_of(text)), "tokenizers", "speed")


# Streaming


def stream_rows(bench: Bench) -> Iterator[Row]:
    """Compare the cost of a step, and show that nothing but its own id matters to it."""
    for what, tokenizer, ids in stream_cases(bench):
        show = nanoseconds(len(ids))
        ours = stepping(tokenizer, ids)
        took = bench.measure(ours)
        limit = Target(high=120, unit=" ns")
        yield Row(what, show(took), target=limit.verdict(took / len(ids) * 1e9))
        yield from if_installed(what, huggingface_step_rows(bench, what, ours, tokenizer, ids))
        yield from if_installed(what, splintr_step_rows(bench, what, ours, tokenizer, ids))
    yield from flatness_rows(bench)
    yield creation_row(bench)


def stream_cases(bench: Bench) -> Iterator[tuple[str, Tokenizer, list[int]]]:
    """Yield texts that the vocabulary knows, and such that come nearly byte by byte."""
    texts = {name: first_bytes(text, MB) for name, text in bench.samples.items()}
    texts["korean"] = korean_text()
    for name in ("english", "multilingual", "korean"):
        if name not in texts:
            continue
        yield name, bench.tokenizer, cycled(bench.tokenizer.encode(texts[name]), STEPS)
        if name != "english":
            own = Tokenizer.train(texts[name], 8_000)
            yield f"{name}, vocabulary of its own", own, cycled(own.encode(texts[name]), STEPS)


def korean_text() -> str:
    """Return some hundred thousand characters of Korean words."""
    return " ".join(random.Random(0).choices(KOREAN.split(), k=40_000))


def stepping(tokenizer: Tokenizer, ids: Sequence[int]) -> Clock:
    """Return a clock of one step for each id, by a new stream each time."""
    return lambda: timed(step_all, tokenizer.decode_stream().step, ids)()


def step_all(step: Callable[[int], object], ids: Sequence[int]) -> None:
    for id in ids:
        step(id)


def huggingface_step_rows(
    bench: Bench, what: str, ours: Clock, tokenizer: Tokenizer, ids: Sequence[int]
) -> Iterator[Row]:
    from tokenizers.decoders import DecodeStream

    twin = huggingface_of(tokenizer)

    def step_all() -> None:
        step = DecodeStream(skip_special_tokens=False).step
        for id in ids:
            step(twin, id)

    yield bench.compare(ours, timed(step_all)).row(
        what, nanoseconds(len(ids)), "tokenizers", "speed", Target(low=6)
    )


def splintr_step_rows(
    bench: Bench, what: str, ours: Clock, tokenizer: Tokenizer, ids: Sequence[int]
) -> Iterator[Row]:
    import splintr

    twin = splintr.from_json_bytes(huggingface_of(tokenizer).to_str().encode("utf-8"))
    yield bench.compare(
        ours, lambda: timed(step_all, twin.streaming_decoder_with_special().add_token, ids)()
    ).row(what, nanoseconds(len(ids)), "splintr", "speed", Target(low=0.9))


def flatness_rows(bench: Bench) -> Iterator[Row]:
    """Compare the last tenth of a million steps with the first; each tenth has the same ids."""
    tokenizer = bench.tokenizer
    english = bench.samples["english"].encode("ascii", "ignore").decode("ascii")
    cases = {
        "ASCII": tokenizer.encode_ordinary(first_bytes(english, MB)),
        "Korean": tokenizer.encode_ordinary(korean_text()),
        "the byte 0x80": [0x80],
        "skipped special tokens": list(tokenizer.special_tokens.values()),
    }
    for name, ids in cases.items():
        tenth = cycled(ids, 100_000)
        turns = []
        for _ in range(bench.repeats):
            step = tokenizer.decode_stream(skip_special_tokens=True).step
            tenths = [timed(step_all, step, tenth)() for _ in range(10)]
            turns.append((tenths[-1], tenths[0]))
        yield Comparison(turns).row(
            f"{name}, last of ten times 100,000 steps",
            nanoseconds(len(tenth)),
            "the first",
            "time",
            Target(low=0.7, high=1.4),
        )


def creation_row(bench: Bench) -> Row:
    """Compare making a stream after a long prompt and after a short one."""
    tokenizer = bench.tokenizer
    prompt = cycled(tokenizer.encode_ordinary(first_bytes(bench.samples["english"], MB)), 1_000_000)
    count = 10_000

    def create(prompt_ids: Sequence[int]) -> None:
        for _ in range(count):
            tokenizer.decode_stream(prompt_ids)

    create(prompt[:10])
    return bench.compare(timed(create, prompt), timed(create, prompt[:10])).row(
        "creation, prompt of 1,000,000 ids",
        nanoseconds(count),
        "of 10 ids",
        "time",
        Target(high=1.5),
    )


# Long pieces


def long_rows(bench: Bench) -> Iterator[Row]:
    """Compare encoding a single piece with encoding one of half its size."""
    choose = random.Random(0).choices
    pieces = {
        "one letter": "a" * MB,
        "spaces": " " * MB,
        "random letters": "".join(choose("abcdefghijklmnopqrstuvwxyz", k=MB)),
        "DNA letters": "".join(choose("ACGT", k=MB)),
        "CJK": "".join(map(chr, choose(range(0x4E00, 0xA000), k=MB // 3))),
    }
    for name, piece in pieces.items():
        tokenizer = Tokenizer.train(piece[:100_000], 2000)  # so there is something to merge
        yield bench.compare(
            timed(tokenizer.encode_ordinary, piece),
            timed(tokenizer.encode_ordinary, piece[: len(piece) // 2]),
        ).row(f"{name}, 1,000,000 bytes", in_seconds, "500,000 bytes", "time", Target(high=2.5))


SECTIONS = {
    "encode": encode_rows,
    "public": public_rows,
    "load": load_rows,
    "count": count_rows,
    "train": train_rows,
    "decode": decode_rows,
    "stream": stream_rows,
    "long": long_rows,
}

if __name__ == "__main__":
    main()
