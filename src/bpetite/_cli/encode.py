"""The verb `encode`: text in, ids out."""

from __future__ import annotations

import argparse

from bpetite._cli.common import add_model, add_special, add_text_inputs, load, texts, write

HELP = "turn text into ids: a JSON array for each input"
EXAMPLE = 'bpetite encode --model model.json --text "Hello world"'

_IDS_PER_WRITE = 1 << 16

_FORMATS = {"json": ("[", ",", "]\n"), "lines": ("", "\n", "\n"), "text": ("", " ", "\n")}
"""What is written before, between and after the ids of one input."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_text_inputs(parser)
    add_special(parser)
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        default="json",
        help="a JSON array, one id on each line, or ids with a space between them (default: json)",
    )


def run(options: argparse.Namespace) -> None:
    """Write the ids of each input."""
    tokenizer = load(options)
    before, between, after = _FORMATS[options.format]
    for _, text in texts(options):
        ids = tokenizer.encode(text, allowed_special=options.allowed_special)
        if not ids and options.format == "lines":
            continue
        write(before)
        for start in range(0, len(ids), _IDS_PER_WRITE):
            some = between.join(map(str, ids[start : start + _IDS_PER_WRITE]))
            write(between + some if start else some)
        write(after)
