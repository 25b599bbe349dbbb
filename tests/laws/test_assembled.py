"""Random files that use every stage of a tokenizer.json have the ids of tokenizers."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from support.assembled import Checker
from support.examples import few_at_first, randoms

pytestmark = pytest.mark.filterwarnings("ignore::bpetite.SlowEngineWarning")

FOUND = {
    "Strip between special tokens": 3000107,
    "Strip between special tokens, in a stream": 3000394,
    "Strip of what is dropped": 3003981,
    "a literal that only normalizing shows": 4007493,
    "the part of a literal in white space that another took": 180748,
}
"""Files that differed once, by what was wrong."""


@pytest.mark.parametrize("seed", FOUND.values(), ids=FOUND)
def test_files_that_differed_are_equal(seed: int, tmp_path: Path) -> None:
    checker = Checker(tmp_path)
    assert [*checker.faults(Random(seed))] == []
    assert checker.counts["texts"] > 0


@few_at_first
@given(randoms)
def test_assembled_files_have_the_ids_of_tokenizers(rng: Random) -> None:
    with TemporaryDirectory() as folder:
        faults = [*Checker(Path(folder)).faults(rng)]
        assert not faults, faults
