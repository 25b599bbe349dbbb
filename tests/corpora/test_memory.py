"""A run takes little memory: no tables of the vocabulary, and no garbage that waits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.engines import quick_once

import bpetite
from bpetite import Tokenizer
from bpetite.corpora import Corpus, tokenize

pytestmark = quick_once


@pytest.mark.skipif(bpetite.engine != "native", reason="the Python engine needs the tables")
def test_a_run_keeps_no_tables_of_the_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"text": "ab"}\n')
    Tokenizer.train("ab ab ab", 258, pattern="cl100k").save(tmp_path / "model.json")
    tokenizer = Tokenizer.load(tmp_path / "model.json")
    tokenize(Corpus(tmp_path / "one.jsonl"), tokenizer, tmp_path / "tokens", "megatron")
    assert not {"merges", "ordinary_tokens", "tokens"} & {*vars(tokenizer._vocabulary)}


AFTER_A_COMMAND = """
import sys
from bpetite._cli import main
assert main(["count", sys.argv[1], "--model", sys.argv[2]]) == 0
import pyarrow
assert [*pyarrow.array([1, 2]).to_numpy()] == [1, 2]
"""


def test_arrays_are_converted_after_a_command_has_read_parquet(tmp_path: Path) -> None:
    table = pytest.importorskip("pyarrow").table({"text": ["ab ab"]})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "a.parquet")
    Tokenizer.train("ab ab", 257).save(tmp_path / "model.json")
    paths = [str(tmp_path / name) for name in ("a.parquet", "model.json")]
    command = [sys.executable, "-c", AFTER_A_COMMAND, *paths]
    assert subprocess.run(command, check=False, stdout=subprocess.PIPE).returncode == 0


LEFT_BEHIND = """
import gc, sys
from bpetite import Tokenizer
from bpetite.corpora import Corpus, plan, tokenize_part
corpus, tokenizer = Corpus(sys.argv[1]), Tokenizer.train("ab ab", 257)
parts = plan(corpus, tokenizer, sys.argv[2], "megatron", part_bytes=40)
assert len(parts) > 3
tokenize_part(parts[0])
gc.collect()
gc.set_debug(gc.DEBUG_SAVEALL)
tokenize_part(parts[1])
gc.collect()
modules = {type(garbage).__module__ for garbage in gc.garbage}
print({name for name in modules if name.startswith(("bpetite", "pyarrow", "_io"))})
"""


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_part_leaves_nothing_to_the_garbage_collector(kind: str, tmp_path: Path) -> None:
    """Its metadata and buffers would stay until much more is allocated."""
    path = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        path.write_text('{"text": "ab ab"}\n' * 20)
    else:
        table = pytest.importorskip("pyarrow").table({"text": ["ab ab"] * 20})
        pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=5)
    command = [sys.executable, "-c", LEFT_BEHIND, str(path), str(tmp_path / "tokens")]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout == b"set()\n"
