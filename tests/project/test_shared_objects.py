"""Threads may share every public object; `scripts/fuzz threads` runs more rounds."""

from __future__ import annotations

import inspect
import random
from collections import Counter
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pytest
from support import threads
from support.engines import quick_once

import bpetite
from bpetite import analysis, arrow, corpora, tiktoken

pytestmark = quick_once

OWNED_BY_ONE_THREAD = ("DecodeStream", "DecodeStreamBatch", "EncodeStream", "Prompt")

DATA = (
    *("Chunk", "StreamEvent", "Tag", "TokenText"),
    *("TrainingProgress", "Trusted", "CorpusFile"),
)
"""Classes whose objects only hold values. The uses of others make, return or take them."""


test_threads_share_every_public_object = threads.threads_share_every_public_object


def test_a_result_that_differs_in_a_thread_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()
    monkeypatch.setattr(
        threads, "SHARED", {"Tokenizer": {"count": lambda _: next(numbers), "ids": lambda _: 1 / 0}}
    )
    with pytest.raises(ZeroDivisionError):
        threads.do_round(1, tmp_path, 2, Counter())
    del threads.SHARED["Tokenizer"]["ids"]
    fault = "Tokenizer.count: another result than in one thread"
    assert threads.do_round(1, tmp_path, 2, Counter()) == [fault, fault]


def test_a_stream_that_differs_from_a_new_one_is_a_fault(tmp_path: Path) -> None:
    objects = threads.Objects(tmp_path)
    streams = [*threads.owned(objects)]
    assert [*threads.faults_after(objects, streams)] == []
    name, _, calls_of = streams[0]
    streams[0] = (name, objects.tokenizer.decode_stream(stop="hen"), calls_of)
    fault = "DecodeStream: another text after a reset"
    assert [*threads.faults_after(objects, streams)] == [fault]


def test_threads_find_ids_with_a_prefix(tmp_path: Path) -> None:
    assert threads.TOKENIZER["ids_with_prefix"](threads.Objects(tmp_path)) != []


def public(names: Iterable[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize(
    "name", ["Tokenizer", "PieceCounts", "StreamVocabulary", "Corpus", "TokenFolder", "Encoding"]
)
def test_threads_use_every_method_of_a_shared_object(name: str) -> None:
    [kind] = (getattr(each, name) for each in (bpetite, corpora, tiktoken) if name in each.__all__)
    members = public(dir(kind))
    assert members <= threads.SHARED[name].keys()


def test_threads_use_every_function() -> None:
    functions = {
        name
        for module in (bpetite, analysis, corpora)
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
    }
    assert functions == threads.SHARED["functions"].keys()
    assert {*arrow.__all__} == threads.SHARED["arrow"].keys()


def test_threads_use_every_method_of_a_stream(tmp_path: Path) -> None:
    streams = {
        name: (type(stream), calls_of(random.Random(1)))
        for name, stream, calls_of in threads.owned(threads.Objects(tmp_path))
    }
    for name in OWNED_BY_ONE_THREAD:
        kind, calls = streams[name]
        assert kind.__name__ == name
        assert public(dir(kind)) <= calls.keys()


def test_every_public_class_is_shared_owned_or_plain_data() -> None:
    classes = {
        name
        for module in (bpetite, corpora, tiktoken)
        for name in module.__all__
        if inspect.isclass(kind := getattr(module, name))
        and not issubclass(kind, Exception | tuple)
        and "Report" not in name
    }
    known = {*threads.SHARED, *OWNED_BY_ONE_THREAD, *DATA}
    assert classes <= known
