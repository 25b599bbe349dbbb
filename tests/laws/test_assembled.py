"""Random files that use every stage of a tokenizer.json have the ids of tokenizers."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzzing.assembled import Checker

FILES = 40
"""The number of files for each seed."""


@pytest.mark.filterwarnings("ignore::bpetite.SlowEngineWarning")
@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))]
)
def test_assembled_files_have_the_ids_of_tokenizers(seed: int, tmp_path: Path) -> None:
    checker = Checker(tmp_path)
    first = seed * FILES
    faults = {number: [*checker.faults(number)] for number in range(first, first + FILES)}
    assert {number: found for number, found in faults.items() if found} == {}
    assert checker.texts > FILES
