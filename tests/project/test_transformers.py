"""The recipe of docs/transformers.md for transformers: equal ids and decoded text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support import DATA, ROOT
from support.engines import quick_once

from bpetite import Tokenizer
from conftest import TEXTS

transformers = pytest.importorskip("transformers", exc_type=ImportError)

pytestmark = quick_once

SECTION = (
    (ROOT / "docs" / "transformers.md")
    .read_text("utf-8")
    .partition("\n## Your own vocabulary in transformers\n")[2]
    .partition("\n## ")[0]
)

END = "<|endoftext|>"

DOCUMENT_CHARACTERS = 10_000


def made_by_the_recipe(tokenizer: Tokenizer) -> Any:
    """Return what the recipe names `fast`, for a tokenizer in model.json."""
    tokenizer.save("model.json")
    [program] = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)
    return names["fast"]


def check_equal(tokenizer: Tokenizer, fast: Any, texts: list[str]) -> None:
    batch = tokenizer.encode_batch(texts)
    assert fast(texts)["input_ids"] == batch
    assert fast.batch_decode(batch) == tokenizer.decode_batch(batch) == texts


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "o200k"])
def test_the_recipe_gives_equal_ids_and_text(pattern: str, real_texts: list[str]) -> None:
    texts = [*TEXTS.values(), *(text[:3000] for text in real_texts), f"a {END}{END} , b 'll"]
    tokenizer = Tokenizer.train(texts, 600, pattern=pattern)
    fast = made_by_the_recipe(tokenizer)
    check_equal(tokenizer, fast, texts)
    assert len(fast) == len(tokenizer.ids)
    assert fast.eos_token_id == fast.pad_token_id == tokenizer.special_tokens[END]


def test_the_folder_of_the_recipe_is_read_again() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 258)
    fast = made_by_the_recipe(tokenizer)
    again = transformers.AutoTokenizer.from_pretrained("model-folder")
    assert again("ab ab" + END)["input_ids"] == tokenizer.encode("ab ab" + END)
    assert Tokenizer.load("model-folder").fingerprint == tokenizer.fingerprint
    fast(["ab", ""], padding=True)
    fast.save_pretrained("padded")
    with pytest.warns(UserWarning, match="texts stay whole"):
        padded = Tokenizer.load("padded")
    assert padded.fingerprint == tokenizer.fingerprint


def test_transformers_adds_an_id_for_an_unknown_name() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 258)
    made_by_the_recipe(tokenizer)
    other = transformers.PreTrainedTokenizerFast(tokenizer_file="tokenizer.json", pad_token="<pad>")
    assert other.pad_token_id == tokenizer.n_vocab


@pytest.mark.slow
def test_ten_megabytes_have_equal_ids_and_text() -> None:
    files = [DATA / f"{name}.txt" for name in ("english", "code", "multilingual", "chinese")]
    if not all(file.is_file() for file in files):
        pytest.skip("needs large texts, in a folder next to the repository")
    text = "".join(file.read_bytes()[:2_500_000].decode("utf-8", "ignore") for file in files)
    tokenizer = Tokenizer.train(text, 8000, pattern="cl100k")
    starts = range(0, len(text), DOCUMENT_CHARACTERS)
    documents = [text[start : start + DOCUMENT_CHARACTERS] for start in starts]
    check_equal(tokenizer, made_by_the_recipe(tokenizer), documents)
