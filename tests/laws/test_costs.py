"""Claims about costs: these tests count calls, since times vary."""

from __future__ import annotations

from types import BuiltinMethodType
from typing import Any

import pytest
from support.calls import calls_in

from bpetite import Tokenizer, _trainer


@pytest.mark.parametrize(
    "options", [{}, {"stop": "END"}, {"tags": "<b>"}, {"errors": "strict"}, {"stop_ids": 300}]
)
def test_a_step_with_whole_text_is_one_call(tokenizer: Tokenizer, options: Any) -> None:
    step = tokenizer.decode_stream(**options).step
    step([97, 97])  # a new transition is computed once
    is_native = isinstance(step, BuiltinMethodType)
    calls = calls_in(lambda: step(97), "call")
    assert calls == 2 - is_native  # the lambda, and step itself unless it is native


@pytest.mark.parametrize("options", [{}, {"stop": "END"}, {"errors": "strict"}])
def test_a_step_of_several_ids_has_a_constant_number_of_calls(
    tokenizer: Tokenizer, options: Any
) -> None:
    step = tokenizer.decode_stream(**options).step
    step([0xC3, 0xA9, 97] * 2)  # leave the initial state

    def calls(times: int) -> int:
        return calls_in(lambda: step([0xC3, 0xA9, 97] * times), "call")

    assert calls(100) == calls(1)


def test_pruning_takes_linearly_many_calls(tokenizer: Tokenizer) -> None:
    calls = calls_in(lambda: tokenizer.without_rare({}, 256), "call", "c_call")
    assert calls < 20 * len(tokenizer.ids)


def test_counting_makes_no_list_of_ids(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("ids were listed")

    monkeypatch.setattr("bpetite._engine.python._concatenated", refuse)
    assert tokenizer.count("to be, or not to be") > 0


class CountedHeap:
    """The standard heap, which counts the entries given to `heapify`."""

    def __init__(self) -> None:
        from heapq import heapify, heappop, heappush

        self.heapified = 0
        self._heapify, self.heappop, self.heappush = heapify, heappop, heappush

    def heapify(self, entries: list[Any]) -> None:
        self.heapified += len(entries)
        self._heapify(entries)


def test_finding_the_best_pair_never_looks_at_all_pairs_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heap = CountedHeap()
    monkeypatch.setattr(_trainer, "heapq", heap)
    pieces = {f"{left}{right}": 1 for left in "abcdefghij" for right in "klmnopqrst"}
    _trainer.learn_merges(pieces, 50)
    assert heap.heapified == 100  # the initial pairs, once


def test_a_merge_touches_only_the_pieces_that_have_its_pair() -> None:
    def calls_in_first_merge(others: int) -> int:
        counts = {"ab": 10**6} | {f"x{i:05}": 1 for i in range(others)}
        corpus = _trainer._Corpus(counts, str.encode)
        return calls_in(lambda: corpus.merge((97, 98), 256), "call", "c_call")

    assert calls_in_first_merge(10) == calls_in_first_merge(2000)
