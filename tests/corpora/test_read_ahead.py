"""A thread reads ahead; errors, stops and Ctrl-C reach both sides."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
from support.engines import once
from support.programs import posix_only, variables

from bpetite.corpora import Corpus, _reading
from bpetite.corpora._reading import read_ahead

pytestmark = once

LINES = b'{"text": "ab"}\n' * 10_000


@pytest.fixture(autouse=True)
def _two_processors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_reading, "_usable_processors", lambda: 2)
    yield
    end = monotonic() + 10
    while any("corpus reader" in thread.name for thread in threading.enumerate()):
        assert monotonic() < end, "a reading thread goes on"
        sleep(0.01)


def test_items_keep_their_order() -> None:
    assert list(read_ahead(lambda: iter(range(1000)))) == [*range(1000)]


def test_the_thread_is_at_most_some_items_ahead() -> None:
    made: list[int] = []

    def make() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    items = read_ahead(make)
    for number in items:
        sleep(0.001)
        assert len(made) <= number + 5
        if number == 20:
            break
    items.close()
    assert len(made) < 30


def test_an_error_arrives_after_the_items_before_it() -> None:
    def make() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("broken")

    items = read_ahead(make)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(KeyError, match="broken"):
        next(items)


def test_the_source_is_closed_if_the_consumer_stops() -> None:
    closed = []

    def make() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.append(True)

    items = read_ahead(make)
    assert next(items) == 0
    items.close()
    assert closed == [True]


def test_an_abandoned_corpus_ends_its_thread(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    for corpus in (Corpus(tmp_path), Corpus(tmp_path)):
        batches = corpus.batches(batch_bytes=100)
        next(batches)
        del batches


def test_an_error_of_the_consumer_ends_the_thread(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    with pytest.raises(ZeroDivisionError):
        [1 / 0 for _ in Corpus(tmp_path).batches(batch_bytes=100)]


def test_one_processor_needs_no_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_reading, "_usable_processors", lambda: 1)
    (tmp_path / "a.jsonl").write_bytes(LINES)
    before = threading.active_count()
    for _ in Corpus(tmp_path).batches(batch_bytes=1000):
        assert threading.active_count() == before


@posix_only
def test_ctrl_c_ends_a_program_that_reads_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    program = """
import os, signal, sys, threading
from bpetite.corpora import Corpus, _reading
_reading._usable_processors = lambda: 2
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
try:
    for number, batch in enumerate(Corpus(sys.argv[1]).batches(batch_bytes=1000)):
        if number == 5:
            os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted", threading.active_count())
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, env=variables())
    assert (done.stdout.split()[:1], done.stderr) == ([b"interrupted"], b"")
