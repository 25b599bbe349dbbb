"""A run takes little memory: no tables of the vocabulary, no free buffers, no spare libraries."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from support.engines import glibc_memory_only

import bpetite
from bpetite import Tokenizer
from bpetite.corpora import Corpus, tokenize

PROGRAM = """
import re
from pathlib import Path
from bpetite.corpora._allocators import return_freed_memory
if {is_set}:
    return_freed_memory()
def resident():
    return int(re.search(r"VmRSS:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
del (longest := [bytearray(6_000_000)])[:]
before = resident()
buffers = [bytearray(5_000_000) for _ in range(20)]
del buffers[:-1]  # the last one holds the heap below it
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators differ")
@glibc_memory_only
def test_freed_buffers_are_not_kept() -> None:
    kept = {is_set: memory_kept(is_set) for is_set in (False, True)}
    assert kept[True] < 10_000_000 < kept[False]


def memory_kept(is_set: bool) -> int:
    """Return the bytes that a process has more, after all but one buffer are freed."""
    program = PROGRAM.format(is_set=is_set)
    result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    return int(result.stdout)


@pytest.mark.skipif(bpetite.engine != "native", reason="the Python engine needs the tables")
def test_a_run_keeps_no_tables_of_the_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"text": "ab"}\n')
    Tokenizer.train("ab ab ab", 258, pattern="cl100k").save(tmp_path / "model.json")
    tokenizer = Tokenizer.load(tmp_path / "model.json")
    tokenize(Corpus(tmp_path / "one.jsonl"), tokenizer, tmp_path / "tokens", "megatron")
    assert not {"merges", "ordinary_tokens", "tokens"} & {*vars(tokenizer._vocabulary)}


WITHOUT_NUMPY = """
import sys
from bpetite import Tokenizer
from bpetite.corpora import Corpus, tokenize, verify
from bpetite.corpora._extra import spare_imports
spare_imports()
tokenizer, folder = Tokenizer.train("ab ab", 257, pattern="gpt2"), sys.argv[2]
tokenize(Corpus(sys.argv[1], on_bad="skip"), tokenizer, folder, "parquet")
assert verify(folder, deep=True) == []
assert "pyarrow.parquet" in sys.modules
assert not {"numpy", "pyarrow._s3fs"} & {*sys.modules}
import numpy
print(numpy.arange(3).sum())
"""


def test_a_process_of_its_own_runs_pyarrow_without_numpy(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table({"text": ["ab ab", "", None, "abc"] * 9})
    parquet.write_table(table, tmp_path / "a.parquet")
    paths = [str(tmp_path / name) for name in ("a.parquet", "tokens")]
    command = [sys.executable, "-c", WITHOUT_NUMPY, *paths]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout == b"3\n"


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
