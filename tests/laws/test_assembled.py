"""Random files that use every stage of a tokenizer.json have the ids of tokenizers."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzzing.assembled import Checker

FILES = 10
"""The number of files for each seed."""


FOUND = {
    "Strip between special tokens": 3000107,
    "Strip between special tokens, in a stream": 3000394,
    "Strip of what is dropped": 3003981,
    "a literal that only normalizing shows": 4007493,
}
"""Files that differed once, by what was wrong."""


@pytest.mark.filterwarnings("ignore::bpetite.SlowEngineWarning")
@pytest.mark.parametrize("seed", FOUND.values(), ids=FOUND)
def test_files_that_differed_are_equal(seed: int, tmp_path: Path) -> None:
    assert [*Checker(tmp_path).faults(seed)] == []


@pytest.mark.filterwarnings("ignore::bpetite.SlowEngineWarning")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 240))]
)
def test_assembled_files_have_the_ids_of_tokenizers(seed: int, tmp_path: Path) -> None:
    checker = Checker(tmp_path)
    first = seed * FILES
    faults = {number: [*checker.faults(number)] for number in range(first, first + FILES)}
    assert {number: found for number, found in faults.items() if found} == {}
    assert checker.counts["texts"] > FILES
