"""The verb `compare`: models and texts in, the figures of each model's tokens out."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, islice

from bpetite import Tokenizer
from bpetite._cli.common import ANY_MODEL, STANDARD_INPUT, add_special, read_text, shown, write
from bpetite.formats import first_difference, recognise

HELP = """\
show side by side how models split texts: tokens, bytes per token, equal cuts

A cut is a position between two tokens, in bytes from the beginning of a text.
Equal cuts are the cuts that this model shares with the first model, divided by
the cuts of either. If a model changes the text, the table has "-" instead."""
EXAMPLE = """\
bpetite train README.md --vocab-size 300 --output small.json --force
bpetite compare model.json small.json README.md"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", metavar="MODEL", nargs=2, help=ANY_MODEL)
    parser.add_argument(
        "others",
        metavar="TEXT",
        nargs="*",
        help="more models, then UTF-8 texts, each loaded into memory; the first file that is not a "
        "model is the first text; - is standard input, which is also the default",
    )
    add_special(parser)
    parser.add_argument(
        "--json", action="store_true", help="write a JSON object instead of a table"
    )
    parser.add_argument(
        "--assert-equal",
        action="store_true",
        help="fail, and show the first difference, if two models give different ids",
    )


def run(options: argparse.Namespace) -> None:
    """Write the figures of all texts together."""
    names, texts = [*options.models], [*options.others]
    while texts and _is_model(texts[0]):
        names.append(texts.pop(0))
    models = [_Model(name) for name in names]
    size = 0
    difference = None
    for name in texts or [STANDARD_INPUT]:
        text = read_text(name)
        size += len(text.encode("utf-8"))
        found = _compare(models, text, options.allowed_special)
        if found and difference is None:
            difference = f"{shown(name)}: {found}"
    write((_json if options.json else _table)(models, size))
    if options.assert_equal and difference is not None:
        raise ValueError(difference)


def _is_model(name: str) -> bool:
    # A pipe can be read only once, so it is a text.
    can_read_twice = os.path.isfile(name) or os.path.isdir(name)
    return name != STANDARD_INPUT and can_read_twice and recognise(name) is not None


class _Model:
    """A tokenizer, and the figures of the texts so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tokenizer = Tokenizer.load(name)
        self.tokens = self.cuts = self.common_cuts = 0
        self.keeps_text = True  # otherwise its cuts are not positions in the text
        self._length = cache(lambda id: len(self.tokenizer.token_bytes(id)))

    def cuts_in(self, ids: list[int]) -> Iterator[int]:
        """Yield the cuts of a text, in bytes from its beginning."""
        return accumulate(map(self._length, islice(ids, max(len(ids) - 1, 0))))

    def share(self, first: _Model) -> float | None:
        """Return the share of equal cuts; None if a model changes the text."""
        if not (first.keeps_text and self.keeps_text):
            return None
        either = first.cuts + self.cuts - self.common_cuts
        return self.common_cuts / either if either else 1.0


def _compare(models: list[_Model], text: str, allowed: tuple[()] | str) -> str | None:
    """Add to the figures of each model; return the first id that differs from the first model's."""
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
        name = os.fsencode(model.name).decode("utf-8", "surrogateescape")  # as `write` needs it
        ratio = f"{size / model.tokens:.2f}" if model.tokens else "-"
        share = model.share(models[0])
        percent = "-" if share is None else f"{int(share * 1000) / 10:.1f}%"  # 100.0% is exact
        rows.append((name, f"{model.tokenizer.vocab_size:,}", f"{model.tokens:,}", ratio, percent))
    name_width, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "".join(
        "  ".join([f"{name:<{name_width}}", *map(str.rjust, figures, widths)]) + "\n"
        for name, *figures in rows
    )


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
