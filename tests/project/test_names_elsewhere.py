"""The table of other libraries' names in docs/moving.md: both sides of each row are equal."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
import tiktoken
import tokenizers
from support import ROOT

from bpetite import Tokenizer

SECTION = (
    (ROOT / "docs" / "moving.md")
    .read_text("utf-8")
    .partition("\n## Names in other libraries\n")[2]
    .partition("\n## ")[0]
)

ROWS = [
    (theirs.replace(r"\|", "|"), ours.replace(r"\|", "|"))
    for theirs, ours in re.findall(r"^\| `(.*)` \| `(.*)` \|$", SECTION, re.MULTILINE)
]

END = "<|endoftext|>"
TEXT = "the men, é 🙂 then"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Return what the expressions of the table name."""
    trained = Tokenizer.train("the hen then met the ten men", 260)
    folder = tmp_path_factory.mktemp("model")
    trained.save(folder, format="huggingface")
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "eos_token": END}))
    ordinary = trained.tokens[: trained.special_tokens[END]]
    encoding = tiktoken.Encoding(
        "trained",
        pat_str=trained.patterns[0],
        mergeable_ranks={token: id for id, token in enumerate(ordinary)},
        special_tokens=dict(trained.special_tokens),
    )
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.encode(TEXT) == Tokenizer.from_tiktoken(encoding).encode(TEXT)
    return {
        "numpy": numpy,
        "encoding": encoding,
        "fast": tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")),
        "auto": auto(folder),
        "tokenizer": tokenizer,
        "text": TEXT,
        "chat": f"{TEXT}{END}é",
        "texts": [TEXT, "", "é"],
        "ids": trained.encode(f"{TEXT}{END}é"),
        "batch": [trained.encode(TEXT), [], [0xC3, 97]],
    }


def auto(folder: Path) -> Any:
    transformers = pytest.importorskip("transformers")
    return transformers.AutoTokenizer.from_pretrained(str(folder))


def plain(value: Any) -> Any:
    """Return a list for an array; any other value as it is."""
    return value.tolist() if isinstance(value, numpy.ndarray) else value


@pytest.mark.parametrize(("theirs", "ours"), ROWS, ids=[theirs for theirs, _ in ROWS])
def test_both_sides_of_a_row_are_equal(theirs: str, ours: str, names: Mapping[str, Any]) -> None:
    expected, found = (plain(eval(side, dict(names))) for side in (theirs, ours))
    assert found == expected
    assert type(found) is type(expected)


def test_every_row_is_read() -> None:
    lines = [line for line in SECTION.splitlines() if line.startswith("| `")]
    assert len(lines) == len(ROWS) > 30


def test_keys_of_a_vocabulary_are_bytes(names: Mapping[str, Any]) -> None:
    """The expression below the table has the ids of `get_vocab`."""
    expression = re.findall(r"`(\{token: id .*\})`", SECTION)[0]
    found: dict[bytes, int] = eval(expression, dict(names))
    assert sorted(found.values()) == sorted(names["auto"].get_vocab().values())
    assert found[END.encode()] == names["auto"].get_vocab()[END]
