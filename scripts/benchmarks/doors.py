"""The tokenizer of transformers with our engine, with its own, and with other libraries' doors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from typing import Any

from benchmarks import data
from benchmarks.cases import NATIVE, Case, Job, Target
from benchmarks.encode import english_texts
from benchmarks.peers import columns, module

AUTO, DOORS = "AutoTokenizer", ("fastokens", "gigatoken")
N_TEXTS, TEXT_BYTES = 1000, 500
NUMPY = {"padding": True, "return_tensors": "np"}
PARTS = {"truncation": True, "max_length": 64, "stride": 8, "return_overflowing_tokens": True}
CALLS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "1,000 texts of 500 bytes": (lambda door, texts: door(texts), 20),
    "the same, padded, numpy": (lambda door, texts: door(texts, **NUMPY), 4),
    "`pad` of their ids": (lambda door, ids: door.pad({"input_ids": ids}, padding=True), 0),
    "the same, in parts of 64 ids": (lambda door, texts: door(texts, **PARTS), 1),
    "a prompt of 122,000 bytes": (lambda door, texts: door("".join(texts[:244])), 50),
    "`batch_decode` of the ids": (lambda door, ids: door.batch_decode(ids), 8),
}
"""Calls, and how many times as fast as AutoTokenizer they must be; 0 if no engine takes part."""


def door_cases() -> Iterator[Case]:
    """Yield calls, which get other texts in each turn, as in a service."""
    # Each has a process of its own, since some libraries change transformers.
    processes = {name: f"{name}, door" for name in (NATIVE, AUTO, *columns(*DOORS))}
    for what, (_, low) in CALLS.items() if columns("transformers") else ():
        targets = [Target(low, than=AUTO)] if low else []
        yield Case(what, partial(call, what), processes, ["ms"], targets)


def call(what: str, column: str, turn: int) -> Job:
    work = partial(CALLS[what][0], opened(column), argument(what, turn))
    return Job([work], right=partial(expected, what))


def argument(what: str, turn: int) -> Any:
    texts = [*islice(english_texts(TEXT_BYTES, turn * N_TEXTS * TEXT_BYTES), N_TEXTS)]
    takes_ids, own = what.startswith("`"), data.tokenizer(data.main("GPT-2"))
    return own.encode_batch(texts) if takes_ids else texts


@cache
def expected(what: str) -> Any:
    return CALLS[what][0](opened(NATIVE), argument(what, 0))


@cache
def opened(column: str) -> Any:
    """Return the tokenizer of a door."""
    vocabulary, folder = data.main("GPT-2"), data.settings().scratch / f"door-{column}"
    special_tokens = data.tokenizer(vocabulary).special_tokens
    end = min(special_tokens, key=special_tokens.__getitem__)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": end}
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_bytes(data.json_of(vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if column == "fastokens":
        _ = [expected(each) for each in CALLS]  # because it changes the doors of this process
        module(column).patch_transformers()
    tokenizer = module("transformers").AutoTokenizer.from_pretrained(folder)
    if column == "gigatoken":
        return module(column).Tokenizer(tokenizer).as_hf()
    accelerate = module("bpetite.transformers").accelerate
    return accelerate(tokenizer) if column == NATIVE else tokenizer
