"""The tokenizer of transformers with our engine, with its own, and with other libraries' doors."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.encode import texts_of
from benchmarks.measure import Bench, new_process, timed
from benchmarks.peers import is_installed, module
from benchmarks.table import Row, Target, in_milliseconds, times_faster

AUTO = "AutoTokenizer"
DOORS = ("bpetite", AUTO, "fastokens", "gigatoken", "snaptokens")
HEADER = ("ms: call", *DOORS, "× AutoTokenizer", "× fastest")

N_TEXTS, TEXT_BYTES, PROMPT_BYTES = 1000, 500, 122_000


class Work(NamedTuple):
    """A call to measure."""

    call: Callable[[Any, Any], Any]
    """Takes a tokenizer, and texts or their ids."""
    low: float = 0
    """How many times as fast as AutoTokenizer it must be; 0 if our engine takes no part in it."""
    takes_ids: bool = False


PARTS = {"truncation": True, "max_length": 64, "stride": 8, "return_overflowing_tokens": True}

CALLS = {
    "1,000 texts of 500 bytes": Work(lambda door, texts: door(texts), 20),
    "the same, padded, numpy": Work(
        lambda door, texts: door(texts, padding=True, return_tensors="np"), 4
    ),
    "`pad` of their ids": Work(
        lambda door, ids: door.pad({"input_ids": ids}, padding=True), takes_ids=True
    ),
    "the same, in parts of 64 ids": Work(lambda door, texts: door(texts, **PARTS), 1),
    "a prompt of 122,000 bytes": Work(lambda door, texts: door("".join(texts)), 50),
    "`batch_decode` of the ids": Work(lambda door, ids: door.batch_decode(ids), 8, True),
}


def door_rows(bench: Bench) -> Iterator[Row]:
    """Compare calls, which get other texts in each turn, as in a service."""
    subject, data = bench.subject("GPT-2"), bench.samples["english"].encode()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "tokenizer.json").write_bytes(subject.json)
        end = min(
            subject.tokenizer.special_tokens, key=subject.tokenizer.special_tokens.__getitem__
        )
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": end}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        processes = {
            name: stack.enter_context(new_process())
            for name in DOORS
            if name == AUTO or is_installed(name)
        }
        for what, (_, low, takes_ids) in CALLS.items():
            seconds: dict[str, list[float]] = {name: [] for name in processes}
            results: dict[str, str] = {}
            for turn in range(bench.repeats + 1):
                texts = texts_of(data, TEXT_BYTES, turn * N_TEXTS * TEXT_BYTES)
                count = PROMPT_BYTES // TEXT_BYTES if "prompt" in what else N_TEXTS
                work: Any = [next(texts) for _ in range(count)]
                if takes_ids:
                    work = subject.tokenizer.encode_batch(work)
                for name, process in processes.items():
                    took, result = process.submit(measured, name, str(folder), what, work).result()
                    if turn:
                        seconds[name].append(took)
                    else:
                        results[name] = result
            yield row_of(what, low, seconds, results)


def row_of(what: str, low: float, seconds: dict[str, list[float]], results: dict[str, str]) -> Row:
    """Return the median times of all doors that give AutoTokenizer's result."""
    equal = {name: each for name, each in seconds.items() if results[name] == results[AUTO]}
    medians = {name: sorted(each)[len(each) // 2] for name, each in equal.items()}
    fastest = min(medians.keys() - {"bpetite", AUTO}, key=medians.__getitem__, default=AUTO)
    cells = [what]
    for name in DOORS:
        missing = ("other ids" if results[name] else "no such call") if name in results else ""
        cells.append(in_milliseconds(medians[name])[:-3] if name in medians else missing)
    times, best = (times_faster(seconds["bpetite"], seconds[name]) for name in (AUTO, fastest))
    cells += [f"{times:.1f}", f"{best:.2f} ({fastest})"]
    return Row(cells, [Target(low=low, unit=f" × {AUTO}").check(what, times)] if low else [])


def measured(name: str, folder: str, what: str, work: Any) -> tuple[float, str]:
    """Return the seconds of a call in this process, and a digest of its result, "" for none."""
    found: list[Any] = []
    door = opened(name, folder)
    try:
        took = timed(lambda: found.append(CALLS[what].call(door, work)))()
    except (AttributeError, NotImplementedError, TypeError):
        return 0, ""
    rows = found[0] if isinstance(found[0], list) else found[0]["input_ids"]
    rows = rows.tolist() if hasattr(rows, "tolist") else rows
    return took, hashlib.sha256(repr(rows).encode()).hexdigest()


@cache
def opened(name: str, folder: str) -> Any:
    """Return the tokenizer of a door; some libraries change transformers in this process."""
    from transformers import AutoTokenizer

    from bpetite.transformers import accelerate

    if name in ("fastokens", "snaptokens"):
        module(name).patch_transformers()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if name == "gigatoken":
        return module("gigatoken").Tokenizer(tokenizer).as_hf()
    return accelerate(tokenizer) if name == "bpetite" else tokenizer
