"""Give generated input to both engines, and to tiktoken, until time is up or something differs.

What `scripts/fuzz` runs. Each engine works in a process of its own, the native one in a process
for each kind of SIMD instructions that the processor has. They encode texts and bytes, decode ids,
learn merges and load files that were spoilt; each must have the same results, the same errors, and
none but those that are documented. A process that ends, or gives no answer, is a difference too.

A difference is told with the smallest input that was found to have it, and the exit code is 1. The
same seed makes the same input, round by round.
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

from _fuzz_input import (
    Subject,
    files_to_spoil,
    some_bytes,
    some_corpus,
    some_file,
    some_ids,
    some_text,
    subjects,
)
from _fuzz_worker import Corpus, Error, File, Result, work

SIMD = ("avx512", "avx2", "neon", "scalar")
"""What BPETITE_SIMD may name."""

DOCUMENTED = {"KeyError", "ValueError", "UnicodeDecodeError", "UnicodeEncodeError"}
"""The errors that input may lead to."""

PATIENCE = 120
"""Seconds after which a process that does not answer is given up."""

Value = TypeVar("Value")


# The processes, from outside


class StoppedError(Exception):
    """A worker has ended, or gives no answer."""


class Worker:
    """A process in which one engine does what it is asked to."""

    def __init__(self, name: str, variables: Mapping[str, str]) -> None:
        self.name = name
        self._variables = variables
        self._opened: dict[str, Mapping[str, object]] = {}
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            env={**os.environ, **self._variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def open(self, name: str, options: Mapping[str, object]) -> str:
        """Load the vocabulary `name`, and return the name of the engine."""
        self._opened[name] = options
        return str(self._ask("open", name, options)[0])

    def ask(self, kind: str, name: str, inputs: Sequence[object]) -> list[Result]:
        """Return the result for each input; one that ends the process has an Error as its own."""
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
        """Begin to ask: `answer` has the rest."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            pickle.dump((kind, name, inputs), self._process.stdin)
            self._process.stdin.flush()

    def answer(self) -> list[Result]:
        """Return what was asked for last."""
        assert self._process.stdout is not None
        timer = threading.Timer(PATIENCE, self._process.kill)
        timer.start()
        try:
            results: list[Result] = pickle.load(self._process.stdout)
        except EOFError:
            code = self._process.wait()
            in_time = timer.is_alive()
            reason = f"it ended with {code}" if in_time else f"no answer in {PATIENCE} s"
            raise StoppedError(reason) from None
        except Exception as error:
            raise StoppedError(f"its answer cannot be read: {error}") from error
        finally:
            timer.cancel()
        return results

    def _ask(self, kind: str, name: str, inputs: object) -> list[Result]:
        self.send(kind, name, inputs)
        return self.answer()

    def restart(self) -> None:
        """Begin anew, with the same vocabularies."""
        self.stop()
        self._start()
        for name, options in self._opened.items():
            self._ask("open", name, options)

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def workers() -> Iterator[Worker]:
    """Yield a worker for Python, then one for each way of the native engine that there is here."""
    yield Worker("python", {"BPETITE_ENGINE": "python"})
    for simd in SIMD:
        yield Worker(f"native {simd}", {"BPETITE_ENGINE": "native", "BPETITE_SIMD": simd})


# Rounds


class Fuzzer:
    """Asks all workers the same, and compares the answers."""

    def __init__(self, seed: int, folder: Path, data: Path | None) -> None:
        self.counts: Counter[str] = Counter()
        self._seed = seed
        self._data = data
        self._subjects = list(subjects(folder, data))
        self._files = files_to_spoil(folder)
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
                worker.stop()  # the processor has other instructions

    def stop(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.stop()

    def round(self, number: int) -> None:
        """Compare some input of one kind. The seed and the number tell which."""
        lot = random.Random(f"{self._seed} {number}")
        subject = self._subjects[number % len(self._subjects)]
        kind = lot.choices(["text", "bytes", "ids", "corpus", "file"], [12, 1, 2, 3, 4])[0]
        if kind == "text":
            texts = [some_text(lot, subject, self._real) for _ in range(150)]
            self._compare("text", subject, texts, number)
        elif kind == "bytes":
            inputs = [some_bytes(lot, subject, self._real) for _ in range(100)]
            self._compare(kind, subject, inputs, number)
        elif kind == "ids":
            self._compare(kind, subject, [some_ids(lot, subject) for _ in range(80)], number)
        elif kind == "corpus":
            corpora = [some_corpus(lot, subject, self._real) for _ in range(4)]
            self._compare(kind, subject, corpora, number)
        else:
            files = [some_file(lot, self._files) for _ in range(40)]
            self._compare(kind, subject, files, number)

    def _compare(self, kind: str, subject: Subject, inputs: Sequence[Value], number: int) -> None:
        answers = self._answers(kind, subject, inputs)
        for one, *results in zip(inputs, *answers, strict=True):
            if complaint := self._complaint(kind, subject, one, results):
                self._tell(kind, subject, one, complaint, number)
        self.counts[kind] += len(inputs)
        self.counts[f"{kind}, answers"] += len(inputs) * len(self.workers)
        if kind == "text":
            self.counts["characters"] += sum(len(str(text)) for text in inputs)
            self.counts["tiktoken"] += len(inputs) if subject.home else 0
        if kind == "file":
            refused = [isinstance(result, Error) for result in answers[0]]
            self.counts["file, refused"] += sum(refused)

    def _answers(self, kind: str, subject: Subject, inputs: Sequence[object]) -> list[list[Result]]:
        for worker in self.workers:  # all at once
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

    def _complaint(
        self, kind: str, subject: Subject, one: object, results: Sequence[Result]
    ) -> str | None:
        """Return what is wrong with the results for one input, if anything is."""
        expected = results[0]
        for worker, result in zip(self.workers, results, strict=True):
            for error in errors_in(result):
                if error.kind not in DOCUMENTED:
                    return f"{worker.name}: {error.kind}: {error.message}"
            if result != expected:
                return difference(worker.name, result, self.workers[0].name, expected)
        if kind == "text":
            return complaint_about_text(subject, str(one), expected)
        return None

    def _tell(
        self, kind: str, subject: Subject, one: object, complaint: str, number: int
    ) -> NoReturn:
        """Make the input as small as it can be, tell it, and exit."""

        def complaint_of(smaller: object) -> str | None:
            answers = self._answers(kind, subject, [smaller])
            return self._complaint(kind, subject, smaller, [answer[0] for answer in answers])

        print(
            f"round {number}: {kind}, vocabulary {subject.name!r}: the engines differ", flush=True
        )
        least = smallest(one, lambda smaller: complaint_of(smaller) is not None)
        print(f"input: {shown(least)}")
        print(f"which is: {complaint_of(least) or complaint}")
        data = f" --data {shlex.quote(str(self._data))}" if self._data else ""
        print(f"again: scripts/fuzz{data} --seed {self._seed} --round {number}", flush=True)
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
    """Say in what two results differ."""
    if isinstance(result, dict) and isinstance(expected, dict):
        for key, value in expected.items():
            if result[key] != value:
                return difference(f"{name}, {key}", result[key], other, value)
    if isinstance(result, (list, tuple)) and isinstance(expected, (list, tuple)):
        for place, (value, wanted) in enumerate(zip(result, expected, strict=False)):
            if value != wanted and not isinstance(value, int):
                return difference(f"{name}, part {place}", value, other, wanted)
    return f"{name}: {shown(result)}; {other}: {shown(expected)}"


def complaint_about_text(subject: Subject, text: str, result: Result) -> str | None:
    """Return what is wrong with a text's ids, which all workers agree on."""
    alone, in_batch = result
    if isinstance(alone["encode"], Error):
        return None
    if alone["decode"] != text:
        return f"decode(encode(text)): {shown(alone['decode'])}"
    if alone["count"] != len(alone["encode"]):
        return f"count: {alone['count']}; encode: {shown(alone['encode'])}"
    for way in ("encode_array", "by threads"):
        if alone[way] != alone["encode"]:
            return difference(way, alone[way], "encode", alone["encode"])
    for ids in in_batch:
        if ids != alone["encode"]:
            return difference("in a batch", ids, "encode", alone["encode"])
    if subject.home is not None:
        theirs = subject.home.encode(text, allowed_special="all")
        if theirs != alone["encode"]:
            return difference("tiktoken", theirs, "all of ours", alone["encode"])
        theirs = subject.home.encode_ordinary(text)
        if theirs != alone["encode_ordinary"]:
            return difference("tiktoken, ordinary", theirs, "all of ours", alone["encode_ordinary"])
    return None


def smallest(one: Any, is_wrong: Callable[[Any], bool]) -> Any:
    """Return the smallest input that is still wrong, as far as leaving out parts of it finds it."""
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
    size = len(one) // 2
    while size:
        start = 0
        while start < len(one):
            less = one[:start] + one[start + size :]
            if is_wrong(less):
                one = less
            else:
                start += size
        size //= 2
    return one


def shown(value: object) -> str:
    """Return a value as Python would write it, in ASCII; a long one in part."""
    text = ascii(value)
    return text if len(text) <= 6000 else f"{text[:6000]}… ({len(text)} characters)"


def summary(counts: Mapping[str, int]) -> Iterable[str]:
    """Yield lines that say what was compared."""
    yield (
        f"{counts['text']:,} texts of {counts['characters']:,} characters, "
        f"{counts['tiktoken']:,} of them with tiktoken too"
    )
    yield f"{counts['bytes']:,} inputs of bytes, {counts['ids']:,} lists of ids"
    yield f"{counts['corpus']:,} corpora, whose merges were compared"
    yield f"{counts['file']:,} spoilt files, {counts['file, refused']:,} of them refused"
    answers = sum(count for name, count in counts.items() if name.endswith("answers"))
    yield f"{answers:,} answers in all"


def tiktoken_version() -> str:
    """Return which tiktoken is compared with."""
    try:
        return f"tiktoken {importlib.metadata.version('tiktoken')}"
    except importlib.metadata.PackageNotFoundError:
        return "no tiktoken"


def parse_arguments() -> argparse.Namespace:
    """Return the arguments: seconds, seed, round, data, worker."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, help="what the input is made of (default: by chance)")
    parser.add_argument("--round", type=int, help="do this round alone")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="public vocabularies and texts, those that it has of what scripts/compare-ids needs",
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
            sys.exit(f"a process stopped {stopped} times, and did not when it was asked again")


if __name__ == "__main__":
    main()
