"""Give random input to both engines and to tiktoken, until time is up or results differ.

`scripts/fuzz` runs this. Each engine and each instruction set works in a process of its own, where
it encodes texts and bytes, decodes ids, learns merges and loads corrupted files.
All must have equal results, or equal errors of documented types. A process that ends or hangs
counts as a difference too.

A difference is printed with a small input that shows it, and the exit code is 1. The same seed
gives the same input in each round.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import pickle
import random
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NoReturn, TypeVar

from tools.engines import INSTRUCTION_SETS
from tools.shrink import shrunk

from fuzzing.inputs import (
    Subject,
    any_bytes,
    any_corpus,
    any_file,
    any_ids,
    any_text,
    files_to_corrupt,
    subjects,
)
from fuzzing.worker import Corpus, Error, File, Result, work

DOCUMENTED = {"KeyError", "ValueError", "UnicodeDecodeError", "UnicodeEncodeError"}
"""Errors that input may cause."""

WEIGHTS = {"text": 12, "bytes": 1, "ids": 2, "corpus": 3, "file": 4}
"""Kinds of input, and how often each is chosen."""

ANSWER_MAX_SECONDS = 120
"""A process that needs longer for an answer is killed."""

Value = TypeVar("Value")


# The workers, as the parent process sees them


class StoppedError(Exception):
    """A worker has ended, or does not answer."""


class Worker:
    """A process in which one engine answers requests."""

    def __init__(self, name: str, variables: Mapping[str, str]) -> None:
        self.name = name
        self._variables = variables
        self._opened: dict[str, Mapping[str, object]] = {}
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzzing", "--worker"],
            env={**os.environ, **self._variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def open(self, name: str, options: Mapping[str, object]) -> str:
        """Load the vocabulary `name`, and return the name of the engine."""
        self._opened[name] = options
        return str(self._ask("open", name, options)[0])

    def ask(self, kind: str, name: str, inputs: Sequence[object]) -> list[Result]:
        """Return the result for each input, or an Error for an input that stops the process."""
        try:
            return self._ask(kind, name, inputs)
        except StoppedError as reason:
            self.restart()
            if len(inputs) == 1:
                return [Error("Stopped", str(reason))]
            middle = len(inputs) // 2
            halves = (inputs[:middle], inputs[middle:])
            return [result for half in halves for result in self.ask(kind, name, half)]

    def send(self, kind: str, name: str, inputs: object) -> None:
        """Send a request; `answer` returns the results."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            pickle.dump((kind, name, inputs), self._process.stdin)
            self._process.stdin.flush()

    def answer(self) -> list[Result]:
        """Return the results of the last request."""
        assert self._process.stdout is not None
        timer = threading.Timer(ANSWER_MAX_SECONDS, self._process.kill)
        timer.start()
        try:
            results: list[Result] = pickle.load(self._process.stdout)
        except EOFError:
            code = self._process.wait()
            in_time = timer.is_alive()
            reason = f"it ended with {code}" if in_time else f"no answer in {ANSWER_MAX_SECONDS} s"
            raise StoppedError(reason) from None
        except Exception as error:
            raise StoppedError(f"cannot read its answer: {error}") from error
        finally:
            timer.cancel()
        return results

    def _ask(self, kind: str, name: str, inputs: object) -> list[Result]:
        self.send(kind, name, inputs)
        return self.answer()

    def restart(self) -> None:
        """Start a new process with the same vocabularies."""
        self.stop()
        self._start()
        for name, options in self._opened.items():
            self._ask("open", name, options)

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def workers() -> Iterator[Worker]:
    """Yield a worker for the Python engine, then one for each instruction set."""
    yield Worker("python", {"BPETITE_ENGINE": "python"})
    for name in INSTRUCTION_SETS:
        yield Worker(f"native {name}", {"BPETITE_ENGINE": "native", "BPETITE_SIMD": name})


# Rounds


class Fuzzer:
    """Sends the same requests to all workers, and compares the answers."""

    def __init__(self, seed: int, folder: Path, data: Path | None) -> None:
        self.counts: Counter[str] = Counter()
        self._seed = seed
        self._data = data
        self._subjects = list(subjects(folder, data))
        self._files = files_to_corrupt(folder)
        self._real = [*topics.values()]
        for path in sorted(data.glob("*.txt")) if data else []:
            with open(path, encoding="utf-8", newline="") as text:
                self._real += [text.read(2_000_000)] * 40
        self.workers = []
        for worker in workers():
            names = {worker.open(subject.name, subject.options) for subject in self._subjects}
            if names == {worker.name}:
                self.workers.append(worker)
            else:
                worker.stop()  # the processor lacks this instruction set

    def stop(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.stop()

    def round(self, number: int) -> None:
        """Compare some input of one kind, which follows from the seed and the number."""
        rng = random.Random(f"{self._seed} {number}")
        subject = self._subjects[number % len(self._subjects)]
        kind = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        makers: dict[str, tuple[int, Callable[[], object]]] = {
            "text": (150, lambda: any_text(rng, subject, self._real)),
            "bytes": (100, lambda: any_bytes(rng, subject, self._real)),
            "ids": (80, lambda: any_ids(rng, subject)),
            "corpus": (4, lambda: any_corpus(rng, subject, self._real)),
            "file": (40, lambda: any_file(rng, self._files)),
        }
        count, make = makers[kind]
        self._compare(kind, subject, [make() for _ in range(count)], number)

    def _compare(self, kind: str, subject: Subject, inputs: Sequence[Value], number: int) -> None:
        answers = self._answers(kind, subject, inputs)
        for one, *results in zip(inputs, *answers, strict=True):
            if found := self._difference(kind, subject, one, results):
                self._report(kind, subject, one, found, number)
        self.counts[kind] += len(inputs)
        self.counts[f"{kind}, answers"] += len(inputs) * len(self.workers)
        if kind == "text":
            self.counts["characters"] += sum(len(str(text)) for text in inputs)
            self.counts["tiktoken"] += len(inputs) if subject.encoding else 0
        if kind == "file":
            refused = [isinstance(result, Error) for result in answers[0]]
            self.counts["file, refused"] += sum(refused)

    def _answers(self, kind: str, subject: Subject, inputs: Sequence[object]) -> list[list[Result]]:
        for worker in self.workers:  # they work at the same time
            worker.send(kind, subject.name, inputs)
        answers = []
        for worker in self.workers:
            try:
                answers.append(worker.answer())
            except StoppedError as reason:
                print(f"{worker.name}, on {kind}: {reason}", flush=True)
                self.counts["stopped"] += 1
                worker.restart()
                answers.append(worker.ask(kind, subject.name, inputs))
        return answers

    def _difference(
        self, kind: str, subject: Subject, one: object, results: Sequence[Result]
    ) -> str | None:
        """Return a description of a difference in the results for one input."""
        expected = results[0]
        for worker, result in zip(self.workers, results, strict=True):
            for error in errors_in(result):
                if error.kind not in DOCUMENTED:
                    return f"{worker.name}: {error.kind}: {error.message}"
            if result != expected:
                return difference(worker.name, result, self.workers[0].name, expected)
        if kind == "text":
            return error_in_text(subject, str(one), expected)
        return None

    def _report(
        self, kind: str, subject: Subject, one: object, found: str, number: int
    ) -> NoReturn:
        """Shrink the input, print it, and exit."""

        def difference_of(smaller: object) -> str | None:
            answers = self._answers(kind, subject, [smaller])
            return self._difference(kind, subject, smaller, [answer[0] for answer in answers])

        print(
            f"round {number}: {kind}, vocabulary {subject.name!r}: the engines differ", flush=True
        )
        least = smallest(one, lambda smaller: difference_of(smaller) is not None)
        print(f"input: {shown(least)}")
        print(f"difference: {difference_of(least) or found}")
        data = f" --data {shlex.quote(str(self._data))}" if self._data else ""
        print(f"to repeat: scripts/fuzz{data} --seed {self._seed} --round {number}", flush=True)
        self.stop()
        sys.exit(1)


def errors_in(result: Result) -> Iterator[Error]:
    """Yield the errors in a result."""
    if isinstance(result, Error):
        yield result
    elif isinstance(result, dict):
        for value in result.values():
            yield from errors_in(value)
    elif isinstance(result, (list, tuple)) and not (result and isinstance(result[0], int)):
        for value in result:
            yield from errors_in(value)


def difference(name: str, result: Result, other: str, expected: Result) -> str:
    """Describe the first difference of two results."""
    if isinstance(result, dict) and isinstance(expected, dict):
        for key, value in expected.items():
            if result[key] != value:
                return difference(f"{name}, {key}", result[key], other, value)
    if isinstance(result, (list, tuple)) and isinstance(expected, (list, tuple)):
        for index, (value, wanted) in enumerate(zip(result, expected, strict=False)):
            if value != wanted and not isinstance(value, int):
                return difference(f"{name}, part {index}", value, other, wanted)
    return f"{name}: {shown(result)}; {other}: {shown(expected)}"


def error_in_text(subject: Subject, text: str, result: Result) -> str | None:
    """Return an error in results that all workers agree on."""
    alone, in_batch = result
    if isinstance(alone["encode"], Error):
        return None
    if subject.tokenizer.lossless and alone["decode"] != text:
        return f"decode(encode(text)): {shown(alone['decode'])}"
    if alone["count"] != len(alone["encode"]):
        return f"count: {alone['count']}; encode: {shown(alone['encode'])}"
    for way in ("array", "by threads"):
        if alone[way] != alone["encode"]:
            return difference(way, alone[way], "encode", alone["encode"])
    for ids in in_batch:
        if ids != alone["encode"]:
            return difference("in a batch", ids, "encode", alone["encode"])
    if alone["in parts, ordinary"] != alone["encode_ordinary"]:
        ours = alone["encode_ordinary"]
        return difference("in parts, ordinary", alone["in parts, ordinary"], "ordinary", ours)
    if subject.encoding is not None:
        theirs = subject.encoding.encode(text, allowed_special="all")
        if theirs != alone["encode"]:
            return difference("tiktoken", theirs, "all of ours", alone["encode"])
        theirs = subject.encoding.encode_ordinary(text)
        if theirs != alone["encode_ordinary"]:
            return difference("tiktoken, ordinary", theirs, "all of ours", alone["encode_ordinary"])
    return None


def smallest(one: Any, is_wrong: Callable[[Any], bool]) -> Any:
    """Remove parts of an input while it stays wrong."""
    if isinstance(one, Corpus):
        documents = smallest(
            one.documents, lambda less: is_wrong(Corpus(less, one.vocab_size, one.pattern))
        )
        for number in range(len(documents)):
            start, end = documents[:number], documents[number + 1 :]
            documents[number] = smallest(
                documents[number],
                lambda less, start=start, end=end: is_wrong(  # type: ignore[misc]
                    Corpus([*start, less, *end], one.vocab_size, one.pattern)
                ),
            )
        return Corpus(documents, one.vocab_size, one.pattern)
    if isinstance(one, File):
        content = smallest(one.content, lambda less: is_wrong(File(one.name, less)))
        return File(one.name, content)
    return shrunk(one, is_wrong)


def shown(value: object) -> str:
    """Return the ASCII representation of a value, shortened to 6,000 characters."""
    text = ascii(value)
    return text if len(text) <= 6000 else f"{text[:6000]}… ({len(text)} characters)"


def summary(counts: Mapping[str, int]) -> Iterable[str]:
    """Yield lines that count the compared inputs."""
    yield (
        f"{counts['text']:,} texts of {counts['characters']:,} characters, "
        f"{counts['tiktoken']:,} of them also with tiktoken"
    )
    yield f"{counts['bytes']:,} inputs of bytes, {counts['ids']:,} lists of ids"
    yield f"{counts['corpus']:,} corpora"
    yield f"{counts['file']:,} corrupted files, {counts['file, refused']:,} of them refused"
    answers = sum(count for name, count in counts.items() if name.endswith("answers"))
    yield f"{answers:,} answers in all"


def tiktoken_version() -> str:
    """Return the version of tiktoken."""
    try:
        return f"tiktoken {importlib.metadata.version('tiktoken')}"
    except importlib.metadata.PackageNotFoundError:
        return "no tiktoken"


def parse_arguments() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="duration (default: 60)")
    parser.add_argument("--seed", type=int, help="seed of the input (default: random)")
    parser.add_argument("--round", type=int, help="run only this round")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="a folder with some of the files that `scripts/bench ids` needs",
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Fuzz until time is up."""
    arguments = parse_arguments()
    if arguments.worker:
        work()
        return
    seed = arguments.seed
    if seed is None:
        seed = int.from_bytes(os.urandom(4), "big")
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(seed, Path(folder), arguments.data)
        names = ", ".join(worker.name for worker in fuzzer.workers)
        print(f"seed {seed}; {names}; {tiktoken_version()}", flush=True)
        end = time.monotonic() + arguments.seconds
        number = 0
        if arguments.round is not None:
            fuzzer.round(arguments.round)
        else:
            while time.monotonic() < end:
                fuzzer.round(number)
                number += 1
        print(*summary(fuzzer.counts), f"no difference in {number or 1} rounds", sep="\n")
        fuzzer.stop()
        if stopped := fuzzer.counts["stopped"]:
            sys.exit(f"{stopped} processes stopped, but answered the same request after a restart")


if __name__ == "__main__":
    main()
