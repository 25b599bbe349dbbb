"""A run takes little memory: no tables of the vocabulary, and no buffers that are free."""

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
