"""Compare `bpetite.transformers` with `AutoTokenizer` on public vocabularies.

The folders of models are made as `tools.check_models` makes their files. For each folder, the
tokenizer of `bpetite.transformers.Tokenizer.from_pretrained` and an accelerated tokenizer are
called with every argument, on real text, on random text and on the vocabulary's own literals. Both
must return the same results as `AutoTokenizer`.

PYTHONPATH=src:scripts python -m tools.check_transformers [--cache FOLDER] [--only NAME ...]
    [--step N]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, product
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from transformers import AutoTokenizer

from bpetite.formats._reference import PROBE
from bpetite.transformers import Tokenizer, accelerate
from tools.check_models import FAMILIES, Packages
from tools.venv import ROOT

USUAL = (
    "GPT-NeoX", "DeepSeek V4", "Llama 3", "Qwen 2", "Qwen 3.5", "Whisper", "RoBERTa", "Phi-4",
    "Tekken, September 2024",
)  # fmt: skip
"""The families that are compared by default."""

TEMPLATE = (
    "{% for each in messages %}<|{{ each.role }}|>{% generation %}{{ each.content }}"
    "{% endgeneration %}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def folder_of(name: str, cache: Path) -> Path:
    """Make the folder of a family, and return it."""
    folder = cache / "folders" / name.replace(" ", "-").replace(",", "")
    folder.mkdir(parents=True, exist_ok=True)
    loaded = FAMILIES[name](Packages(cache), folder)
    path = folder / "tokenizer.json"
    if not path.exists():
        loaded.tokenizer.save(folder)
    document = json.loads(path.read_text("utf-8"))
    if name == "Llama 3":  # llama.cpp keeps the template elsewhere
        document["post_processor"] = framed("<|begin_of_text|>", document)
    if name.startswith("Tekken"):
        document["post_processor"] = framed("<s>", document)
    path.write_text(json.dumps(document), "utf-8")
    (end, *_) = [each["content"] for each in document["added_tokens"] if each["special"]] or [""]
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "pad_token": end,
        "eos_token": end,
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return folder


def framed(literal: str, document: dict[str, Any]) -> dict[str, Any]:
    """Return the post-processor that puts a special token before each text."""
    ids = {each["content"]: each["id"] for each in document["added_tokens"]}
    token = {"SpecialToken": {"id": literal, "type_id": 0}}
    a, b = ({"Sequence": {"id": each, "type_id": place}} for place, each in enumerate("AB"))
    second = {"SpecialToken": {"id": literal, "type_id": 1}}
    return {
        "type": "Sequence",
        "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False},
            {
                "type": "TemplateProcessing",
                "single": [token, a],
                "pair": [token, a, second, b],
                "special_tokens": {
                    literal: {"id": literal, "ids": [ids[literal]], "tokens": [literal]}
                },
            },
        ],
    }


def calls() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the kind of input and the arguments of each call."""
    for kind in ("text", "texts", "pair", "pairs", "words", "word lists", "word pairs"):
        split = {"is_split_into_words": True} if kind.startswith("word") else {}
        cuts: list[dict[str, Any]] = [{}]
        for limit, side in product((9, 17), ("right", "left")):
            cuts += [
                {"truncation": True, "max_length": limit, "side": side},
                {"truncation": "only_first", "max_length": limit, "side": side},
                {
                    **{"truncation": True, "max_length": limit, "side": side, "stride": limit // 8},
                    "return_overflowing_tokens": True,
                },
            ]
            if kind.endswith(("pair", "pairs")):
                cuts.append({"truncation": "only_second", "max_length": limit, "side": side})
        pads: list[dict[str, Any]] = [{}]
        if kind in ("texts", "pairs", "word lists"):
            pads += [
                {"padding": True},
                {"padding": True, "padding_side": "left", "return_tensors": "np"},
                {"padding": True, "pad_to_multiple_of": 8, "return_tensors": "np"},
                {"padding": "max_length", "max_length": 17},
            ]
        every = {
            f"return_{name}": True
            for name in ("token_type_ids", "special_tokens_mask", "offsets_mapping", "length")
        }
        wants: list[dict[str, Any]] = [
            {},
            {"add_special_tokens": False},
            {"split_special_tokens": True},
            {"return_offsets_mapping": True, "return_special_tokens_mask": True},
            {"return_token_type_ids": True, "return_attention_mask": False},
            every,
        ]
        for cut, pad, want in product(cuts, pads, wants):
            yield kind, {**split, **pad, **cut, **want}


def inputs(kind: str, texts: list[str]) -> tuple[Any, ...]:
    """Return the first arguments of a call."""
    words = [text.split(" ") for text in texts]
    return {
        "text": (texts[0],),
        "texts": (texts,),
        "pair": (texts[0], texts[1]),
        "pairs": (texts, texts[::-1]),
        "words": (words[0],),
        "word lists": (words,),
        "word pairs": (words[0], words[1]),
    }[kind]


def result(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the class of its error."""
    try:
        return call()
    except BaseException as error:  # because a panic of Rust is not an Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return type(error).__name__


def plain(encoding: Any) -> Any:
    """Return the whole content of a BatchEncoding as plain values."""
    if isinstance(encoding, str):
        return encoding
    columns = {
        name: rows.tolist() if hasattr(rows, "tolist") else rows for name, rows in encoding.items()
    }
    rows = [
        (e.ids, e.tokens, e.offsets, e.word_ids, e.sequence_ids, e.attention_mask, e.type_ids)
        for e in encoding.encodings
    ]
    return columns, rows


def difference(theirs: Any, ours: Any, texts: list[str], step: int = 1) -> tuple[int, str]:
    """Return the number of calls, and the first that differs, "" for none.

    Of the calls with other arguments, only one in `step` is made.
    """
    count = 0
    for kind, options in islice(calls(), 0, None, step):
        arguments = inputs(kind, texts)
        options = {**options}
        theirs.truncation_side = ours.truncation_side = options.pop("side", "right")
        expected, found = (
            plain(result(partial(each, *arguments, **options))) for each in (theirs, ours)
        )
        count += 1
        if expected != found:
            return (
                count,
                f"{kind}, {options}, of {texts!r:.300}:\n{expected!r:.700}\n{found!r:.700}",
            )
    theirs.truncation_side = ours.truncation_side = "right"
    rows = theirs(texts).input_ids
    for skips, cleans, (name, value) in product(
        (False, True),
        (None, True),
        (("batch_decode", rows), ("decode", rows[0]), ("batch_decode", [[], [5]])),
    ):
        count += 1
        decoding = {"skip_special_tokens": skips, "clean_up_tokenization_spaces": cleans}
        if getattr(theirs, name)(value, **decoding) != getattr(ours, name)(value, **decoding):
            return count, f"{name} of {value}, {decoding}"
    one, two = theirs(texts[0]), ours(texts[0])
    for at in range(len(texts[0])):
        count += 1
        for name in ("char_to_token", "char_to_word"):
            if getattr(one, name)(at) != getattr(two, name)(at):
                return count, f"{name}({at}) of {texts[0]!r}"
    for index in range(len(one.input_ids)):
        count += 1
        for name in ("token_to_chars", "token_to_word", "token_to_sequence"):
            if result(partial(getattr(one, name), index)) != result(
                partial(getattr(two, name), index)
            ):
                return count, f"{name}({index}) of {texts[0]!r}"
    for name in ("tokenize", "encode", "prepare_for_tokenization"):
        if hasattr(theirs, name) and getattr(theirs, name)(texts[0]) != getattr(ours, name)(
            texts[0]
        ):
            return count, f"{name} of {texts[0]!r}"
        count += 1
    messages = [{"role": "user", "content": texts[0]}, {"role": "assistant", "content": texts[1]}]
    for options in (
        {"add_generation_prompt": True},
        {"return_dict": True, "return_assistant_tokens_mask": True},
        {"tokenize": False},
    ):
        count += 1
        expected, found = (
            result(partial(each.apply_chat_template, messages, **options))
            for each in (theirs, ours)
        )
        if expected != found:
            return count, f"apply_chat_template, {options}: {expected} {found}"
    return count, ""


def groups_of_texts(tokenizer: Any, text: str) -> Iterator[list[str]]:
    """Yield short texts: real, of all scripts, random, and with literals."""
    rng = random.Random(5)
    literals = [str(token) for token in tokenizer.added_tokens_decoder.values()]
    some = [rng.choice(literals) for _ in range(6)] if literals else ["<s>"]
    yield [text[at : at + 60] for at in rng.choices(range(len(text) - 60), k=4)]
    yield [PROBE[at : at + 20] for at in rng.choices(range(len(PROBE)), k=4)]
    yield ["".join(rng.choices("ab \n\té\u0301ﬁ日👋🏽1<|>\u00a0\u3000", k=20)) for _ in range(4)]
    yield [f"a {some[0]} b{some[1]}", f" {some[2]}{some[3]}\n{some[4]} x", "é  ", some[5]]
    yield ["", "a", " ", "\n\n"]


def grow(tokenizer: Any) -> None:
    """Add tokens, as trainers do."""
    tokenizer.add_tokens(["newtoken", "日本"])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|new|>", "<|other|>"]})


def compare(folder: Path, step: int) -> tuple[int, str]:
    """Return the number of calls on a folder, and the first that differs, "" for none."""
    count = 0
    for makes_own in (True, False):
        theirs, ours = (AutoTokenizer.from_pretrained(folder) for _ in range(2))
        ours = Tokenizer.from_pretrained(folder) if makes_own else accelerate(ours)
        for grows in (False, True):
            if grows:
                grow(theirs)
                grow(ours)
            for texts in groups_of_texts(theirs, "\n\n".join(topics.values())):
                calls, fault = difference(theirs, ours, texts, step)
                count += calls
                if fault:
                    return count, fault
    return count, ""


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cache", type=Path, default=ROOT / ".venv" / "models")
    parser.add_argument("--only", nargs="*", default=USUAL, help="families of docs/models.md")
    parser.add_argument("--step", type=int, default=1, help="make one call in so many")
    options = parser.parse_args()
    faults = 0
    for name in options.only:
        start = time.perf_counter()
        count, fault = compare(folder_of(name, options.cache), options.step)
        faults += bool(fault)
        seconds = time.perf_counter() - start
        print(f"{name}: {count:,} calls, {fault or 'equal'} ({seconds:.1f} s)", flush=True)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
