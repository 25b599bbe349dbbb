"""`scripts/fuzz soak` runs rounds like these for an hour."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest
from fuzzing import soak
from support.engines import once

pytest.importorskip("pyarrow")
pytest.importorskip("zstandard")


@once
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="kills processes by POSIX signals")
@pytest.mark.parametrize("seed", range(4))
def test_killed_runs_write_the_files_of_others(seed: int, tmp_path: Path) -> None:
    assert soak.do_round(random.Random(seed), tmp_path, Counter()) is None


def test_a_changed_file_is_a_difference(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_bytes(b"1")
    assert soak.content(tmp_path) == {str(Path("sub", "a")): b"1"}
