"""Ids compared with other libraries and models: each change is found, and its cause is named."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from support.engines import quick_once

from bpetite import Tokenizer
from bpetite.analysis import Verifier
from bpetite.analysis import _verifier as module
from bpetite.formats._reference import Reference

pytestmark = quick_once


SMALL = Tokenizer.train(
    "the hen then met 123 the ten men 2023 été", 290, special_tokens=["<a>", "<b>"]
)

NEW = "\U0001fae9"
"""A face that Unicode 16 has, and no version before."""


def folder_of(folder: Path, tokenizer: Tokenizer = SMALL, **config: object) -> Path:
    """Save a model folder, with other settings."""
    tokenizer.save(folder, format="huggingface", overwrite=True)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **config}))
    return folder


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], object]], None]:
    """Return what makes AutoTokenizer build another tokenizer than the folder says."""
    transformers: Any = pytest.importorskip("transformers", exc_type=ImportError)

    class Overriding(transformers.PreTrainedTokenizerFast):  # type: ignore[misc]
        """A class that puts stages of its own in place of the file's."""

    def put(change: Callable[[Any], object]) -> None:
        def from_pretrained(folder: str, **_: object) -> Any:
            library = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
            change(library)
            return Overriding(tokenizer_object=library)

        monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", from_pretrained)

    return put


# No difference


@pytest.mark.parametrize("library", ["tokenizers", "tiktoken", "transformers", None])
def test_equal_libraries_have_no_difference(library: str | None, tmp_path: Path) -> None:
    if library == "transformers":
        pytest.importorskip("transformers", exc_type=ImportError)
    folder = folder_of(tmp_path)
    verifier = Verifier(Tokenizer.load(folder), folder, against=library)
    assert verifier.check(["the men<a>\n", NEW]) is None
    assert verifier.reference_library == (library or "tokenizers")
    assert verifier.n_texts > 100
    assert verifier.n_ids > 1000


def test_equal_model_has_no_difference() -> None:
    assert Verifier(SMALL, "any", against=SMALL).check() is None


def test_own_format_has_no_library_and_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    SMALL.save(path)
    verifier = Verifier(SMALL, path)
    assert (verifier.reference_library, verifier.check(["a"])) == (None, None)
    assert Verifier(SMALL, path, against="tokenizers").check() is None


# Causes


def test_class_that_replaces_a_stage_is_named(
    made: Callable[[Callable[[Any], object]], None], tmp_path: Path
) -> None:
    def split_digits(library: Any) -> None:
        stages = tokenizers.pre_tokenizers
        digits = stages.Digits(individual_digits=True)
        library.pre_tokenizer = stages.Sequence([digits, stages.ByteLevel(False)])

    made(split_digits)
    found = Verifier(SMALL, folder_of(tmp_path), against="transformers").check()
    assert found is not None
    assert found.startswith("in ' ")
    assert found.endswith(
        "; the class Overriding of transformers replaces the file's pre_tokenizer (ByteLevel) by "
        "its own (Digits, ByteLevel)"
    )


def test_ids_around_a_text_are_named(
    made: Callable[[Callable[[Any], object]], None], tmp_path: Path
) -> None:
    end = SMALL.special_tokens["<b>"]

    def add_end(library: Any) -> None:
        template = tokenizers.processors.TemplateProcessing
        library.post_processor = template(single="$A <b>", special_tokens=[("<b>", end)])

    made(add_end)
    assert Verifier(SMALL, folder_of(tmp_path), against="transformers").check() == (
        f"with special tokens, bpetite puts nothing around a text, transformers puts [..., {end}]; "
        "the class Overriding of transformers replaces the file's post_processor (none) by its "
        "own (TemplateProcessing)"
    )


def test_config_that_asks_for_a_token_around_a_text_is_named(
    made: Callable[[Callable[[Any], object]], None], tmp_path: Path
) -> None:
    made(lambda _: None)
    folder = folder_of(tmp_path, bos_token="<a>", add_bos_token=True)
    found = Verifier(Tokenizer.load(folder), folder, against="transformers").check()
    assert found == (
        f"with special tokens, bpetite puts [{SMALL.special_tokens['<a>']}, ...] around a text, "
        "transformers puts nothing; tokenizer_config.json asks for them, but tokenizer.json does "
        "not"
    )


def test_moved_added_token_is_named() -> None:
    other = Tokenizer.train(
        "the hen then met 123 the ten men 2023 été", 290, special_tokens=["<b>", "<a>"]
    )
    found = Verifier(SMALL, "any", against=other).difference("the <a>")
    a, b = SMALL.special_tokens["<a>"], SMALL.special_tokens["<b>"]
    assert found == (
        f"character 4 (line 1, column 5): bpetite has {a} '<a>', the other model has {b} '<a>'; "
        f"the added token '<a>' has the id {a} in the file, and has the id {b} there"
    )


def test_other_pattern_of_a_model_is_named() -> None:
    other = Tokenizer.train(
        "the hen then met 123 the ten men 2023 été", 290, pattern="qwen2",
        special_tokens=["<a>", "<b>"],
    )  # fmt: skip
    found = Verifier(SMALL, "any", against=other).check()
    assert found is not None
    assert found.endswith("; the other model has another pattern")


@pytest.mark.parametrize(
    ("encode", "cause"),
    [
        (
            lambda text: SMALL.encode(text.replace(NEW, "!")),
            "; tiktoken has another category for U+1FAE9 than Unicode 16.0.0, so it follows "
            "another version of Unicode",
        ),
        (
            lambda text: [7, *SMALL.encode(text)] if text else [],
            "; tiktoken puts [7, ...] around a text by itself",
        ),
        (lambda text: SMALL.encode(text.replace("é", "e")), " has 101 'e'"),
    ],
    ids=["Unicode", "token before", "unknown"],
)
def test_cause_is_found_by_experiment(
    encode: Callable[[str], list[int]], cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = Reference("tiktoken", lambda: encode)
    monkeypatch.setattr(module, "tiktoken_of", lambda _: reference)
    verifier = Verifier(SMALL, folder_of(tmp_path), against="tiktoken")
    found = verifier.check([f"é {NEW}"])
    assert found is not None
    assert found.endswith(cause)


def test_difference_is_shown_in_a_short_text(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Tokenizer.train("", 256, special_tokens=["<a>", "<b>"])
    monkeypatch.setattr(module, "_probe_texts", lambda _: iter(()))
    found = Verifier(SMALL, "any", against=other).check(["." * 5000 + "<b> met." + "-" * 9000])
    assert found is not None
    text = found.removeprefix("in '").partition("', character")[0]
    assert len(text) <= 4


# Refused


def test_unknown_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^against must be one of tokenizers, transformers, "):
        Verifier(SMALL, folder_of(tmp_path), against="sentencepiece")


def test_library_that_reads_no_such_model_is_refused(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "model.json")
    with pytest.raises(ValueError, match=r"transformers needs a folder with a tokenizer\.json"):
        Verifier(SMALL, tmp_path / "model.json", against="transformers")
    with pytest.raises(ValueError, match=r"mistral-common reads no other vocabulary than a tekke"):
        Verifier(SMALL, tmp_path / "model.json", against="mistral-common")
    gaps = Tokenizer.train("ab ab", 257, pattern=r"\p{L}+", special_tokens=[])
    gaps.save(tmp_path / "gaps.json")
    with pytest.raises(ValueError, match="tiktoken drops text that the pattern does not match"):
        Verifier(gaps, tmp_path / "gaps.json", against="tiktoken")


def test_missing_library_is_an_import_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError):
        Verifier(SMALL, folder_of(tmp_path), against="transformers").check()
