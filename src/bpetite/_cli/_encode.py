"""The verb `encode`: text in, ids out."""

from __future__ import annotations

import argparse

from bpetite._cli._common import (
    Verbs,
    add_model,
    add_special,
    add_text_inputs,
    add_verb,
    allowed_special,
    load,
    texts,
    write,
)

_SLICE = 1 << 16  # ids that are written at a time

# How the ids of one input are written: what begins, separates and ends them.
_FORMATS = {"json": ("[", ",", "]\n"), "lines": ("", "\n", "\n"), "text": ("", " ", "\n")}


def add_to(verbs: Verbs) -> None:
    """Add this verb to the parser."""
    parser = add_verb(
        verbs,
        "encode",
        "turn text into ids: of each input a JSON array",
        "bpetite train README.md --vocab-size 512 --output model.json --force\n"
        'bpetite encode --model model.json --text "Hello world"',
    )
    add_model(parser)
    add_text_inputs(parser)
    add_special(parser)
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        default="json",
        help="a JSON array, an id a line, or ids with a space between them (default: json)",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    tokenizer = load(options)
    begin, between, end = _FORMATS[options.format]
    for _, text in texts(options):
        ids = tokenizer.encode(text, allowed_special=allowed_special(options))
        if ids or options.format != "lines":
            write(begin)
            for start in range(0, len(ids), _SLICE):
                write(
                    (between if start else "") + between.join(map(str, ids[start : start + _SLICE]))
                )
            write(end)
