"""The verb `compare`: models and texts in, the figures of each model's tokens out."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, islice
from typing import NamedTuple

from bpetite import Tokenizer
from bpetite._cli.common import (
    ANY_MODEL,
    STANDARD_INPUT,
    add_special,
    is_model,
    number,
    read_text,
    shown,
    table,
    write,
)
from bpetite.formats._reference import first_difference

HELP = """\
show side by side how models split texts: tokens, bytes per token, equal cuts

With several texts, the table has rows for each text and for the total.
A cut is a position between two tokens, in bytes from the beginning of a text.
Equal cuts are the cuts that both this model and the first one make, divided by
the cuts that at least one makes; "-" if a model changes the text."""
EXAMPLE = """\
bpetite train README.md --vocab-size 300 --output small.json --force
bpetite compare model.json small.json README.md
bpetite compare model.json small.json README.md --differences 3"""


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
        "--differences",
        metavar="N",
        type=number(0, sys.maxsize),
        help="count the cuts that each model shares with the first, and show the first N stretches "
        "of text between shared cuts that both split differently, with their tokens",
    )
    parser.add_argument(
        "--json", action="store_true", help="write a JSON object instead of a table"
    )
    parser.add_argument(
        "--assert-equal",
        action="store_true",
        help="fail, and show the first difference, if two models give different ids",
    )


def run(options: argparse.Namespace) -> None:
    names, texts = [*options.models], [*options.others]
    while texts and is_model(texts[0]):
        names.append(texts.pop(0))
    models = [_Model(name) for name in names]
    compared = []
    difference = None
    for name in texts or [STANDARD_INPUT]:
        text = read_text(name)
        compared.append(_Text(name, len(text.encode("utf-8"))))
        found = _compare(models, name, text, options)
        if found and difference is None:
            difference = f"{shown(name)}: {found}"
    if options.json:
        write(_json(models, compared, options.differences))
    else:
        write(_table(models, compared) + _differences(models, options.differences))
    if options.assert_equal and difference is not None:
        raise ValueError(difference)


class _Text(NamedTuple):
    name: str
    size: int  # in bytes


class _Counts(NamedTuple):
    tokens: int
    cuts: int
    common_cuts: int


class _Stretch(NamedTuple):
    """The bytes of a text between two neighbouring cuts that two models share."""

    text: str
    start: int
    ids: list[int]  # the ids of the first model
    other_ids: list[int]


class _Model:
    """A tokenizer, and the figures of the texts so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tokenizer = Tokenizer.load(name)
        self.texts: list[_Counts] = []
        self.keeps_text = True  # otherwise its cuts are not positions in the text
        self.stretches: list[_Stretch] = []
        self.length_of = cache(lambda id: len(self.tokenizer.token_bytes(id)))

    def cuts_in(self, ids: list[int]) -> Iterator[int]:
        return accumulate(map(self.length_of, islice(ids, max(len(ids) - 1, 0))))

    def shown_tokens(self, ids: list[int]) -> str:
        tokens = map(self.tokenizer.token_bytes, ids)
        return " ".join(repr(token.decode("utf-8", "backslashreplace")) for token in tokens)

    @property
    def total(self) -> _Counts:
        return _Counts(*map(sum, zip(*self.texts, strict=True)))


def _share(model: _Model, first: _Model, place: int | None = None) -> float | None:
    """Return the share of equal cuts in a text or in all; None if a model changes the text."""
    if not (first.keeps_text and model.keeps_text):
        return None
    counts, firsts = (each.total if place is None else each.texts[place] for each in (model, first))
    either = firsts.cuts + counts.cuts - counts.common_cuts
    return counts.common_cuts / either if either else 1.0


def _compare(models: list[_Model], name: str, text: str, options: argparse.Namespace) -> str | None:
    """Add to the figures of each model; return the first id that differs from the first model's."""
    data = text.encode("utf-8")
    first, first_ids = models[0], list[int]()
    is_cut = bytearray(len(data))
    difference = None
    for model in models:
        ids = model.tokenizer.encode(text, allowed_special=options.allowed_special)
        cuts = common_cuts = 0
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
            cuts = max(len(ids) - 1, 0)
            common_cuts = sum(map(is_cut.__getitem__, model.cuts_in(ids)))
        model.texts.append(_Counts(len(ids), cuts, common_cuts))
        if model is not first and first.keeps_text and model.keeps_text:
            room = (options.differences or 0) - len(model.stretches)
            for stretch in islice(_stretches(first, first_ids, model, ids), room):
                model.stretches.append(_Stretch(name, *stretch))
    return difference


def _stretches(
    first: _Model, ids: list[int], other: _Model, other_ids: list[int]
) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield each stretch that two models split differently: its first byte, and the ids of both."""
    start = end = other_end = 0  # in bytes
    begin = other_begin = other_index = 0  # in ids
    for index, id in enumerate(ids, 1):
        end += first.length_of(id)
        while other_end < end:
            other_end += other.length_of(other_ids[other_index])
            other_index += 1
        if other_end == end:
            if (index - begin, other_index - other_begin) != (1, 1):
                yield start, ids[begin:index], other_ids[other_begin:other_index]
            start, begin, other_begin = end, index, other_index


def _table(models: list[_Model], texts: list[_Text]) -> str:
    rows = [("text", "model", "ids", "tokens", "bytes/token", "equal cuts")]
    every = _Text("all", sum(text.size for text in texts))
    for place, text in [*enumerate(texts), (None, every)]:
        for model in models:
            tokens = (model.total if place is None else model.texts[place]).tokens
            ratio = f"{text.size / tokens:.2f}" if tokens else "-"
            share = _share(model, models[0], place)
            percent = "-" if share is None else _percent(share)
            name = _name(shown(text.name))
            ids = f"{len(model.tokenizer.ids):,}"
            rows.append((name, _name(model.name), ids, f"{tokens:,}", ratio, percent))
    if len(texts) > 1:
        return table(rows, 2)
    return table([row[1:] for row in rows[: len(models) + 1]])


def _differences(models: list[_Model], count: int | None) -> str:
    """Return what follows the table: for each model its shared cuts, then its stretches."""
    first, *others = models
    lines = []
    for other in others if count is not None else ():
        name, first_name = _name(other.name), _name(first.name)
        if _share(other, first) is None:
            lines += ["", f"{name}: cuts cannot be compared, since a model changes the text"]
            continue
        common = other.total.common_cuts
        own, firsts = (
            _percent(common / counts.cuts if counts.cuts else 1.0)
            for counts in (other.total, first.total)
        )
        summary = f"{common:,} shared cuts, {own} of its own, {firsts} of {first_name}'s"
        lines += ["", f"{name}: {summary}"]
        width = max(len(name), len(first_name))
        for stretch in other.stretches:
            lines += [
                f"  {_name(shown(stretch.text))}, byte {stretch.start}",
                f"    {first_name:<{width}}  {first.shown_tokens(stretch.ids)}",
                f"    {name:<{width}}  {other.shown_tokens(stretch.other_ids)}",
            ]
    return "".join(f"{line}\n" for line in lines)


def _name(path: str, errors: str = "surrogateescape") -> str:
    """Return the name of a file as `write` needs it, whatever the locale."""
    return os.fsencode(path).decode("utf-8", errors)


def _percent(share: float) -> str:
    return f"{int(share * 1000) / 10:.1f}%"  # 100.0% is exact


def _json(models: list[_Model], texts: list[_Text], count: int | None) -> str:
    size = sum(text.size for text in texts)
    report = {
        "bytes": size,
        "models": [
            {
                "model": _name(model.name, "replace"),
                "ids": len(model.tokenizer.ids),
                **_figures(model, models[0], size),
                **({} if count is None else _shared(model, models[0])),
            }
            for model in models
        ],
        "texts": [
            {
                "text": _name(text.name, "replace"),
                "bytes": text.size,
                "models": [_figures(model, models[0], text.size, place) for model in models],
            }
            for place, text in enumerate(texts)
        ],
    }
    return json.dumps(report, ensure_ascii=False) + "\n"


def _figures(
    model: _Model, first: _Model, size: int, place: int | None = None
) -> dict[str, object]:
    tokens = (model.total if place is None else model.texts[place]).tokens
    return {
        "tokens": tokens,
        "bytes_per_token": size / tokens if tokens else None,
        "equal_cuts": _share(model, first, place),
    }


def _shared(model: _Model, first: _Model) -> dict[str, object]:
    """Return the shared cuts and the stretches of a model; None if a model changes the text."""
    if _share(model, first) is None:
        return dict.fromkeys(("cuts", "shared_cuts", "differences"))
    return {
        "cuts": model.total.cuts,
        "shared_cuts": model.total.common_cuts,
        "differences": [
            {
                "text": _name(stretch.text, "replace"),
                "byte": stretch.start,
                "first_ids": stretch.ids,
                "ids": stretch.other_ids,
            }
            for stretch in model.stretches
        ],
    }
