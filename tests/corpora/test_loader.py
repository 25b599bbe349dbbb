"""The recipe of docs/corpora.md for torch's DataLoader gives every id once, also after a stop."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import ROOT
from support.engines import once

from bpetite import Tokenizer, corpora
from bpetite.corpora import Corpus, tokenize

pytestmark = once

RANKS, BATCH = 2, 8

DRIVER = """\
import json
import sys
from loader import batches

if __name__ == "__main__":
    import torch

    torch.multiprocessing.set_start_method("spawn")
    done, rank = map(int, sys.argv[1:])
    found = [[part.tolist() for part in batch] for batch in batches("tokens", 7, done, rank, 2)]
    print(json.dumps(found))
"""


def test_recipe_gives_every_id_once_after_a_resumption(tmp_path: Path) -> None:
    """Two ranks with two workers each; each opens the folder in processes of its own."""
    pytest.importorskip("torch")
    page = (ROOT / "docs" / "corpora.md").read_text("utf-8")
    found = re.search(r"```python\n(# loader\.py\n.*?)```", page, re.DOTALL)
    assert found is not None
    (tmp_path / "loader.py").write_text(found[1], "utf-8")
    (tmp_path / "driver.py").write_text(DRIVER, "utf-8")
    texts = [f"the hen met {number} men " * (number % 40) for number in range(1_500)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tokenizer = Tokenizer.train("the hen met the ten men", 262)
    tokenize(Corpus(tmp_path / "a.jsonl"), tokenizer, tmp_path / "tokens", "megatron", shuffle=1)
    blocks = corpora.open(tmp_path / "tokens").blocks(2048, seed=7)
    assert len(blocks) > 4 * RANKS * BATCH

    def batches(done: int) -> list[list[list[list[int]]]]:
        """Return the batches of each rank."""
        programs = [
            subprocess.Popen(
                [sys.executable, "driver.py", str(done), str(rank)],
                cwd=tmp_path,
                stdout=subprocess.PIPE,
            )
            for rank in range(RANKS)
        ]
        return [json.loads(program.communicate(timeout=250)[0]) for program in programs]

    expected = []
    for rank in range(RANKS):
        mine = blocks[rank::RANKS]
        groups = [mine[at : at + BATCH] for at in range(0, len(mine), BATCH)]
        expected.append([packed(group) for group in groups])
    assert batches(0) == expected
    ids = sorted(id for rank in expected for batch in rank for id in batch[0])
    assert ids == sorted(id for document in corpora.open(tmp_path / "tokens") for id in document)
    steps = 2
    assert batches(steps * RANKS * BATCH) == [rank[steps:] for rank in expected]


def packed(blocks: Sequence[corpora.Block]) -> list[list[int]]:
    """Return the ids of some blocks in a row, and where their documents begin."""
    ids: list[int] = []
    offsets = [0]
    for block in blocks:
        offsets += [len(ids) + offset for offset in block.offsets.tolist()[1:]]
        ids += block.ids.tolist()
    return [ids, offsets]
