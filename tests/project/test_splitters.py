"""The programs of docs/moving.md in which other libraries divide text by our counts."""

from __future__ import annotations

import re
from pathlib import Path
from pydoc_data.topics import topics
from types import SimpleNamespace
from typing import Any

import pytest
from support import ROOT
from support.engines import once
from tools.public import saved_encoding

from bpetite import Tokenizer

pytestmark = once

SECTION = (
    (ROOT / "docs" / "moving.md")
    .read_text("utf-8")
    .partition("\n## Splitters of other libraries\n")[2]
    .partition("\n## ")[0]
)

PROGRAMS = dict(re.findall(r"```python\n# needs: pip install (\S+)\n(.*?)```", SECTION, re.DOTALL))

MODULES = {
    "langchain-text-splitters": "langchain_text_splitters",
    "llama-index-core": "llama_index.core.node_parser",
    "semchunk": "semchunk",
}

TEXT = "\n\n".join(topics.values())[:60_000]


def chunks_of(package: str, tokenizer: object) -> list[str]:
    """Return the chunks that the program of a package makes with a tokenizer."""
    names: dict[str, Any] = {"tokenizer": tokenizer, "text": TEXT}
    exec(PROGRAMS[package], names)
    chunks = names["chunks"]
    assert isinstance(chunks, list)
    return chunks


def test_the_page_has_a_program_for_each_library() -> None:
    assert [*PROGRAMS] == [*MODULES]


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize("package", MODULES)
def test_chunks_match_the_counts_of_tiktoken(package: str, tmp_path: Path) -> None:
    pytest.importorskip(MODULES[package], exc_type=ImportError)
    tokenizer = Tokenizer.train(TEXT, 2000, pattern="cl100k", special_tokens=())
    encode = saved_encoding(tokenizer, tmp_path).encode
    chunks = chunks_of(package, tokenizer)
    assert chunks == chunks_of(
        package, SimpleNamespace(encode=encode, count=lambda text: len(encode(text)))
    )
    counts = [*map(tokenizer.count, chunks)]
    assert 100 < sum(counts) / len(counts) <= 200
