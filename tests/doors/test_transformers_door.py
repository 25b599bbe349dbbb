"""`bpetite.transformers` returns what transformers' own tokenizers return, for any argument."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.engines import quick_once
from support.examples import slow_except

transformers = pytest.importorskip("transformers")

from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors  # noqa: E402
from tokenizers import Tokenizer as Library  # noqa: E402
from tools.check_transformers import (  # noqa: E402
    TEMPLATE,
    difference,
    groups_of_texts,
    grow,
    plain,
    result,
)
from transformers import (  # noqa: E402
    AutoTokenizer,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
)

import bpetite  # noqa: E402
from bpetite.transformers import Tokenizer, accelerate  # noqa: E402
from conftest import TEXTS  # noqa: E402

pytestmark = quick_once

TEXT = "\n".join(TEXTS.values())
SPECIAL = ("<|endoftext|>", "<s>", "</s>", "<mask>")

Change = Callable[[Library], None]


def framed(library: Library) -> None:
    """Put special tokens around texts, and around pairs in another order."""
    ids = [(literal, library.token_to_id(literal)) for literal in SPECIAL[1:3]]
    library.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing("<s> $A </s>", "<s> $A </s>:1 $B:1 <s>:2", ids),
        ]
    )


def roberta(library: Library) -> None:
    """Put a space before texts, trim offsets, and swallow white space before a literal."""
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    ends = [(literal, library.token_to_id(literal) or 0) for literal in SPECIAL[2:0:-1]]
    end, start = ends
    library.post_processor = processors.RobertaProcessing(end, start, trim_offsets=True)
    library.add_special_tokens([AddedToken("<mask>", lstrip=True)])


def normalized(library: Library) -> None:
    """Normalize texts, and find a token that is not special in what comes of it."""
    library.normalizer = normalizers.NFC()
    library.add_tokens([AddedToken("é日", normalized=True)])


CHANGES: dict[str, Change] = {
    "plain": lambda _library: None,
    "framed": framed,
    "roberta": roberta,
    "normalized": normalized,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folders of some vocabularies."""
    trained = bpetite.Tokenizer.train(TEXTS.values(), 400, special_tokens=SPECIAL)
    found = {}
    for name, change in CHANGES.items():
        folder = tmp_path_factory.mktemp(name)
        trained.save(folder)
        path = folder / "tokenizer.json"
        library = Library.from_file(str(path))
        change(library)
        library.save(str(path))
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_input_names": ["input_ids", "attention_mask"],
            "pad_token": SPECIAL[0],
            "eos_token": SPECIAL[0],
            "chat_template": TEMPLATE,
            "add_prefix_space": name == "roberta",
        }
        folder.joinpath("tokenizer_config.json").write_text(json.dumps(config))
        found[name] = folder
    return found


@pytest.fixture
def pair(folders: dict[str, Path]) -> tuple[Any, Any]:
    """Return transformers' tokenizer and ours."""
    folder = folders["framed"]
    return AutoTokenizer.from_pretrained(folder), Tokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    "case",
    slow_except(
        map(" ".join, product(CHANGES, ("Tokenizer", "accelerate"))),
        *("plain accelerate", "framed Tokenizer", "roberta accelerate", "normalized Tokenizer"),
    ),
)
def test_calls_with_any_arguments_return_the_same(case: str, folders: dict[str, Path]) -> None:
    name, maker = case.split()
    theirs, ours = (AutoTokenizer.from_pretrained(folders[name]) for _ in range(2))
    ours = Tokenizer.from_pretrained(folders[name]) if maker == "Tokenizer" else accelerate(ours)
    for number, texts in enumerate(groups_of_texts(theirs, TEXT)):
        if number == 3:
            grow(theirs)
            grow(ours)
        assert difference(theirs, ours, texts, step=97 + number)[1] == ""


@pytest.mark.parametrize(
    "arguments",
    [(), (None,), (5,), ([5],), ([None],), ("\ud800",), (["a", "\ud800"],), ([],), ([["a"], "b"],)],
    ids=repr,
)
def test_wrong_inputs_raise_the_same_errors(
    arguments: tuple[Any, ...], pair: tuple[Any, Any]
) -> None:
    theirs, ours = (plain(result(partial(each, *arguments))) for each in pair)
    assert ours == theirs


@pytest.mark.parametrize("ids", [[], [5, 100_000], [-1], [2**40], ["a"], 5, [[5], [100_000]]])
def test_ids_that_are_unknown_decode_to_the_same(ids: Any, pair: tuple[Any, Any]) -> None:
    theirs, ours = (
        [result(lambda: each.decode(ids)), result(lambda: each.batch_decode([ids]))]  # noqa: B023
        for each in pair
    )
    assert ours == theirs


def test_accelerate_returns_the_same_object_of_the_same_class(folders: dict[str, Path]) -> None:
    class Own(PreTrainedTokenizerFast):  # type: ignore[misc]
        def _encode_plus(self, text: Any, *arguments: Any, **options: Any) -> Any:
            return super()._encode_plus(text[::-1], *arguments, **options)

        def _batch_encode_plus(self, batch_text_or_text_pairs: Any, **options: Any) -> Any:
            batch = [each * 2 for each in batch_text_or_text_pairs]
            return super()._batch_encode_plus(batch, **options)  # of version 4

        def _decode(self, *arguments: Any, **options: Any) -> str:
            return f"<{super()._decode(*arguments, **options)}>"

    def of(tokenizer: Any) -> list[Any]:
        ids = [tokenizer(text).input_ids for text in ("ab", ["ab", "cd"])]
        return [repr(tokenizer), ids, tokenizer.batch_decode([[70, 71]]), tokenizer.decode(70)]

    loaded = Own.from_pretrained(folders["framed"])
    expected = of(loaded)
    assert accelerate(loaded) is loaded
    assert isinstance(loaded, Own)
    assert of(loaded) == expected
    assert type(accelerate(loaded)).__name__ == "Own"


@pytest.mark.parametrize("makes_own", [True, False], ids=["Tokenizer", "accelerate"])
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_return_the_same(
    makes_own: bool, copied: Callable[[Any], Any], folders: dict[str, Path]
) -> None:
    cls = Tokenizer if makes_own else PreTrainedTokenizerFast
    tokenizer = accelerate(cls.from_pretrained(folders["framed"]))
    encoding = tokenizer(["the men", "a"], padding=True)
    other = copied(tokenizer)
    assert type(other) is type(tokenizer)
    assert plain(other(["the men", "a"], padding=True)) == plain(copied(encoding))
    other = copy.deepcopy(tokenizer)
    other.add_tokens("the men")
    assert tokenizer("the men").input_ids == encoding.input_ids[0]
    assert len(other("the men").input_ids) == 3


def test_saved_folder_is_one_of_transformers(pair: tuple[Any, Any], tmp_path: Path) -> None:
    theirs, ours = pair
    for name, tokenizer in zip(("theirs", "ours"), pair, strict=True):
        grow(tokenizer)
        tokenizer.save_pretrained(tmp_path / name)
    saved, expected = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("ours", "theirs")
    )
    assert saved == expected
    again = AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert again(TEXT).input_ids == ours(TEXT).input_ids == theirs(TEXT).input_ids


def test_changed_parts_count_from_the_next_call_on(pair: tuple[Any, Any]) -> None:
    for change in (
        lambda library: setattr(library, "normalizer", normalizers.NFKC()),
        lambda library: library.add_tokens(["ﬁne"]),
        lambda library: setattr(library, "post_processor", processors.ByteLevel()),
    ):
        before = [tokenizer("ﬁne ﬁ").input_ids for tokenizer in pair]
        for tokenizer in pair:
            change(tokenizer.backend_tokenizer)
        theirs, ours = (tokenizer("ﬁne ﬁ").input_ids for tokenizer in pair)
        assert ours == theirs != before[0]


def test_words_of_a_call_before_a_change_are_refused(pair: tuple[Any, Any]) -> None:
    encoding = pair[1]("the men")
    assert encoding.is_fast
    pair[1].add_tokens("the men")
    with pytest.raises(RuntimeError, match="has changed since this call"):
        encoding.word_ids()


def test_change_that_cannot_be_honoured_is_refused_by_name(pair: tuple[Any, Any]) -> None:
    pair[1].backend_tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(ValueError, match=r"the tokenizer: pre_tokenizer: expected a ByteLevel"):
        pair[1]("a")


def test_tokenizers_that_cannot_be_honoured_stay_as_they_were() -> None:
    library = Library(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    words = PreTrainedTokenizerFast(tokenizer_object=library)
    with pytest.raises(ValueError, match=r"the tokenizer: model.type: .* got .WordLevel."):
        accelerate(words)
    assert type(words) is PreTrainedTokenizerFast
    with pytest.raises(TypeError, match="expected a fast tokenizer, got str"):
        accelerate("gpt2")


def test_threads_with_other_arguments_do_not_disturb_each_other(pair: tuple[Any, Any]) -> None:
    texts = ["the men", "a", TEXT]
    calls: list[dict[str, Any]] = [
        *({"padding": True, "truncation": True, "max_length": 5 + size} for size in range(9)),
        {},
    ]
    expected = [pair[0](texts, **options).input_ids for options in calls]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            found = pool.map(lambda options: pair[1](texts, **options).input_ids, calls)
            assert [*found] == expected


def test_collator_pads_the_result_of_a_call(pair: tuple[Any, Any]) -> None:
    theirs, ours = (
        DataCollatorWithPadding(each, return_tensors="np", pad_to_multiple_of=8)(
            [each(text) for text in TEXTS.values() if text]
        )
        for each in pair
    )
    assert plain_columns(ours) == plain_columns(theirs)


def plain_columns(encoding: Any) -> dict[str, list[list[int]]]:
    return {name: rows.tolist() for name, rows in encoding.items()}
