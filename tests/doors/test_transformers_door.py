"""`bpetite.transformers` returns what transformers' own tokenizers return, for any argument."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.engines import quick_once
from support.examples import slow_except

transformers = pytest.importorskip("transformers")

from tokenizers import (  # noqa: E402
    AddedToken,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
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
from bpetite.transformers._tokenizer import Accelerated  # noqa: E402
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


ODD_VALUES: dict[str, list[Any]] = {
    "pad_to_multiple_of": [0, -1, False, 2.5, "8", 2**70],
    "padding_side": ["up", 0, b"left", []],
    "max_length": [-1, True, 2.5, "4", 2**70],
    "stride": [None, -1, True, 1.0, "1", 2**70],
    "add_special_tokens": [None, 0, 1, "no"],
    "split_special_tokens": [0, 1, "no"],
    "is_split_into_words": [None, 0],
    "skip_special_tokens": [None, 0, 1, "no"],
}


@pytest.mark.parametrize("name", ODD_VALUES)
def test_options_of_odd_values_return_the_same(name: str, pair: tuple[Any, Any]) -> None:
    for value in ODD_VALUES[name]:
        options = {"padding": True, "truncation": True, "max_length": 4, name: value}
        calls: list[Callable[[Any], Any]] = [
            lambda each: each(TEXT, **options),  # noqa: B023
            lambda each: each(["the men", "a"], **options),  # noqa: B023
        ]
        if name == "skip_special_tokens":
            calls = [
                lambda each: each.decode([70, 1], skip_special_tokens=value),  # noqa: B023
                lambda each: "".join(each.batch_decode([[70, 1]], skip_special_tokens=value)),  # noqa: B023
            ]
        for call in calls:
            theirs, ours = (plain(result(partial(call, each))) for each in pair)
            assert ours == theirs


def test_transformers_4_is_refused_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers, "__version__", "4.57.6")
    for name in [*sys.modules]:
        if name.startswith("bpetite.transformers"):
            monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError) as caught:
        import_module("bpetite.transformers")
    assert str(caught.value) == (
        "bpetite.transformers needs transformers 5, got 4.57.6; run: pip install 'transformers>=5'"
    )


def test_accelerate_returns_the_same_object_of_the_same_class(folders: dict[str, Path]) -> None:
    class Own(PreTrainedTokenizerFast):  # type: ignore[misc]
        def _encode_plus(self, text: Any, *arguments: Any, **options: Any) -> Any:
            return super()._encode_plus(text[::-1], *arguments, **options)

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


class Words:
    """A stage that is written in Python."""

    def pre_tokenize(self, text: Any) -> None:
        text.split(lambda _, part: part.split(" ", "removed"))


STAGES: dict[str, Callable[[Library], Any]] = {
    "normalizer": lambda _: normalizers.BertNormalizer(),
    "normalizer read": lambda _: normalizers.NFKC(),
    "pre_tokenizer": lambda _: pre_tokenizers.Whitespace(),
    "pre_tokenizer custom": lambda _: pre_tokenizers.PreTokenizer.custom(Words()),
    "post_processor": lambda _: processors.ByteLevel(),
    "decoder": lambda _: decoders.WordPiece(),
    "model words": lambda _: models.WordLevel({"ab": 7}, unk_token="ab"),
    "model merges": lambda library: models.BPE(library.get_vocab(), []),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("raises", [False, True], ids=["set back", "raising"])
def test_calls_that_change_a_stage_return_the_same(
    stage: str, raises: bool, folders: dict[str, Path]
) -> None:
    name, make = stage.split()[0], STAGES[stage]

    class Own(PreTrainedTokenizerFast):  # type: ignore[misc]
        def changed(self, call: Callable[[], Any]) -> Any:
            before = getattr(self._tokenizer, name)
            setattr(self._tokenizer, name, make(self._tokenizer))
            if raises:
                raise RuntimeError("in the middle of a call")
            result = call()
            setattr(self._tokenizer, name, before)
            return result

        def _encode_plus(self, text: Any, *arguments: Any, **options: Any) -> Any:
            call = partial(super()._encode_plus, text, *arguments, **options)
            return self.changed(call) if "<F>" in text else call()

        def _decode(self, token_ids: Any, *arguments: Any, **options: Any) -> Any:
            call = partial(super()._decode, token_ids, *arguments, **options)
            return self.changed(call) if token_ids[0] == 1 else call()

    theirs, ours = (Own.from_pretrained(folders["framed"]) for _ in range(2))
    ours = accelerate(ours)
    for text in ("ﬁ the men", "ab<F>", "the men", "É <F>", "ab<F>", "<F>", "the men", "ab"):
        for call in (
            lambda each: each(text),  # noqa: B023
            lambda each: each([text, "É"]),  # noqa: B023
            lambda each: each.decode([1 if "<F>" in text else 2, 70, 71, 300]),  # noqa: B023
        ):
            expected, found = (plain(result(partial(call, each))) for each in (theirs, ours))
            assert found == expected


@pytest.mark.parametrize("maker", ["Tokenizer", "accelerate"])
def test_change_that_stays_and_cannot_be_read_returns_the_same(
    maker: str, folders: dict[str, Path]
) -> None:
    theirs, ours = (AutoTokenizer.from_pretrained(folders["plain"]) for _ in range(2))
    ours = Tokenizer.from_pretrained(folders["plain"]) if maker == "Tokenizer" else accelerate(ours)
    engine = ours._engine()
    for stage in (pre_tokenizers.Whitespace(), theirs.backend_tokenizer.pre_tokenizer):
        for each in (theirs, ours):
            each.backend_tokenizer.pre_tokenizer = stage
        for _ in range(4):
            assert plain(ours(["the men", "ab"])) == plain(theirs(["the men", "ab"]))
            assert ours.decode([70, 71]) == theirs.decode([70, 71])
    assert ours._engine() is engine


def test_change_that_stays_is_read_at_the_second_call(pair: tuple[Any, Any]) -> None:
    ours = pair[1]
    ours.backend_tokenizer.normalizer = normalizers.NFKC()
    engines = [ours("a") and ours._engine() for _ in range(3)]
    assert engines == [None, engines[1], engines[1]] != [None] * 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_replaced_methods_of_the_backend_count(when: str, folders: dict[str, Path]) -> None:
    theirs, ours = (AutoTokenizer.from_pretrained(folders["plain"]) for _ in range(2))
    ours = accelerate(ours) if when == "after" else ours
    for each in (theirs, ours):
        backend = each.backend_tokenizer
        decode, encode = backend.decode, backend.encode_batch
        backend.decode = lambda *a, _decode=decode, **k: _decode(*a, **k).upper()
        backend.encode_batch = lambda texts, *a, _encode=encode, **k: _encode(texts[::-1], *a, **k)
    ours = accelerate(ours) if when == "before" else ours
    assert ours.decode([102]) == theirs.decode([102])
    assert ours.batch_decode([[102]]) == theirs.batch_decode([[102]])
    assert plain(ours(["the men", "a"])) == plain(theirs(["the men", "a"]))


@pytest.mark.parametrize("name", ["decode", "_decode"])
def test_replaced_methods_of_a_tokenizer_count(name: str, folders: dict[str, Path]) -> None:
    theirs, ours = (AutoTokenizer.from_pretrained(folders["plain"]) for _ in range(2))
    for each in (theirs, accelerate(ours)):
        setattr(each, name, lambda *_, **__: "own")
    assert ours.decode([70]) == theirs.decode([70])
    assert ours.batch_decode([[70, 71]]) == theirs.batch_decode([[70, 71]])


def test_class_whose_texts_differ_is_refused(folders: dict[str, Path]) -> None:
    class Own(PreTrainedTokenizerFast):  # type: ignore[misc]
        def _decode(self, *arguments: Any, **options: Any) -> str:
            text = str(super()._decode(*arguments, **options))
            return text if isinstance(self, Accelerated) else text.upper()

    tokenizer = Own.from_pretrained(folders["plain"])
    with pytest.raises(ValueError, match="the texts of a probe differ"):
        accelerate(tokenizer)
    assert type(tokenizer) is Own
    assert "_engines" not in vars(tokenizer)


def test_class_that_takes_words_and_boxes_is_refused_in_words(folders: dict[str, Path]) -> None:
    layout = transformers.LayoutLMv3TokenizerFast.from_pretrained(folders["plain"])
    with pytest.raises(ValueError, match=r"Tokenizer.* takes words and boxes, not a text alone"):
        accelerate(layout)


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
