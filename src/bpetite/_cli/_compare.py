"""The verb `compare`: models and texts in, how each model cuts the texts out, side by side."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice

from bpetite import Tokenizer
from bpetite._cli._common import (
    ANY_MODEL,
    STANDARD_INPUT,
    Verbs,
    add_special,
    add_verb,
    allowed_special,
    read_text,
    shown,
    write,
)
from bpetite.formats import first_difference, recognise


def add_to(verbs: Verbs) -> None:
    """Add this verb to the parser."""
    parser = add_verb(
        verbs,
        "compare",
        "show side by side how models cut texts: tokens, bytes per token, equal cuts",
        "bpetite train README.md --vocab-size 512 --output model.json --force\n"
        "bpetite train README.md --vocab-size 300 --output small.json --force\n"
        "bpetite compare model.json small.json README.md",
        "\nA cut is a place between two tokens, in bytes from the beginning of a text. Equal cuts\n"
        "are those that the first model and this one both make, as a share of those that either\n"
        "makes; there are none to compare (-) in a text that a model changes.",
    )
    parser.add_argument("models", metavar="MODEL", nargs=2, help=ANY_MODEL)
    parser.add_argument(
        "others",
        metavar="TEXT",
        nargs="*",
        help="more models, up to the first file that is none; that one and those after it are "
        "texts in UTF-8, each held whole, - being standard input; standard input if none is given",
    )
    add_special(parser)
    parser.add_argument("--json", action="store_true", help="write a JSON object, not a table")
    parser.add_argument(
        "--assert-equal",
        action="store_true",
        help="fail, and show the first difference, if two models give different ids",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    names, texts = _models_and_texts(options)
    models = [_Model(name) for name in names]
    size = 0
    difference = None
    for name in texts:
        text = read_text(name)
        size += len(text.encode("utf-8"))
        found = _compare(models, text, allowed_special(options))
        if found and difference is None:
            difference = f"{shown(name)}: {found}"
    write((_json if options.json else _table)(models, size))
    if options.assert_equal and difference is not None:
        raise ValueError(difference)


def _models_and_texts(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    models, texts = list(options.models), list(options.others)
    while texts and _is_model(texts[0]):
        models.append(texts.pop(0))
    return models, texts or [STANDARD_INPUT]


def _is_model(name: str) -> bool:
    # What is no file, a pipe for one, can be read only once.
    is_kept = os.path.isfile(name) or os.path.isdir(name)
    return name != STANDARD_INPUT and is_kept and recognise(name) is not None


class _Model:
    """A tokenizer, and the figures of what it has encoded so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tokenizer = Tokenizer.load(name)
        self.tokens = self.cuts = self.common_cuts = 0
        # None of them is a place in the text if the model changes it.
        self.keeps_text = True
        self._lengths = _Lengths(self.tokenizer)

    def cuts_in(self, ids: list[int]) -> Iterator[int]:
        """Yield the places between two tokens, in bytes from the beginning of the text."""
        return accumulate(map(self._lengths.__getitem__, islice(ids, max(len(ids) - 1, 0))))

    def share(self, first: _Model) -> float | None:
        """Return the share of equal cuts; None if there is none to compare."""
        if not (first.keeps_text and self.keeps_text):
            return None
        either = first.cuts + self.cuts - self.common_cuts
        return self.common_cuts / either if either else 1.0


class _Lengths(dict[int, int]):
    """How many bytes the token of each id has, as far as that was asked for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._token_bytes = tokenizer.token_bytes

    def __missing__(self, id: int) -> int:
        length = self[id] = len(self._token_bytes(id))
        return length


def _compare(models: list[_Model], text: str, allowed: tuple[()] | str) -> str | None:
    """Add to the figures of each model; return the first difference in ids from the first one."""
    data = text.encode("utf-8")
    first, first_ids = models[0], list[int]()
    is_cut = bytearray(len(data))
    difference = None
    for model in models:
        ids = model.tokenizer.encode(text, allowed_special=allowed)
        model.tokens += len(ids)
        if not model.tokenizer.lossless and model.tokenizer.decode_bytes(ids) != data:
            model.keeps_text = False
        if model is first:
            first_ids = ids
            if model.keeps_text:
                for cut in model.cuts_in(ids):
                    is_cut[cut] = True
        elif difference is None and ids != first_ids:
            difference = first_difference(
                text,
                (first.name, first_ids, first.tokenizer.token_bytes),
                (model.name, ids, model.tokenizer.token_bytes),
            )
        if first.keeps_text and model.keeps_text:
            model.cuts += max(len(ids) - 1, 0)
            model.common_cuts += sum(map(is_cut.__getitem__, model.cuts_in(ids)))
    return difference


def _table(models: list[_Model], size: int) -> str:
    rows = [("model", "ids", "tokens", "bytes/token", "equal cuts")]
    for model in models:
        share = model.share(models[0])
        rows.append(
            (
                os.fsencode(model.name).decode("utf-8", "surrogateescape"),  # what is written
                f"{model.tokenizer.vocab_size:,}",
                f"{model.tokens:,}",
                f"{size / model.tokens:.2f}" if model.tokens else "-",
                # Rounded down: 100.0% is said of no others than equal ones.
                "-" if share is None else f"{int(share * 1000) / 10:.1f}%",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(_line(row, widths) for row in rows)


def _line(row: Iterable[str], widths: list[int]) -> str:
    name, *figures = row
    aligned = [f"{value:>{width}}" for value, width in zip(figures, widths[1:], strict=True)]
    return "  ".join([f"{name:<{widths[0]}}", *aligned]) + "\n"


def _json(models: list[_Model], size: int) -> str:
    report = {
        "bytes": size,
        "models": [
            {
                "model": os.fsencode(model.name).decode("utf-8", "replace"),
                "vocab_size": model.tokenizer.vocab_size,
                "tokens": model.tokens,
                "bytes_per_token": size / model.tokens if model.tokens else None,
                "equal_cuts": model.share(models[0]),
            }
            for model in models
        ],
    }
    return json.dumps(report, ensure_ascii=False) + "\n"
