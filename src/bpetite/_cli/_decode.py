"""The verb `decode`: ids in, text out."""

from __future__ import annotations

import argparse

from bpetite._cli._common import (
    STANDARD_INPUT,
    Verbs,
    add_model,
    add_verb,
    load,
    parse_id,
    parse_ids,
    read,
    shown,
    write,
)


def add_to(verbs: Verbs) -> None:
    """Add this verb to the parser."""
    parser = add_verb(
        verbs,
        "decode",
        "turn ids into text, byte for byte, with no newline added",
        "bpetite train README.md --vocab-size 512 --output model.json --force\n"
        "bpetite decode --model model.json --ids 72 105 33",
    )
    add_model(parser)
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument("--ids", metavar="N", nargs="+", help="the ids themselves")
    inputs.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        default=STANDARD_INPUT,
        help="a file with a JSON array or with ids and white space between them, - being "
        "standard input (default)",
    )
    add_decoding(parser, default_errors="strict")
    parser.set_defaults(run=_run)


def add_decoding(parser: argparse.ArgumentParser, default_errors: str) -> None:
    """Add the options that `decode` and `stream` share."""
    parser.add_argument(
        "--errors",
        choices=("strict", "replace", "ignore", "backslashreplace"),
        default=default_errors,
        help=f"what to do with bytes that are not UTF-8 (default: {default_errors})",
    )
    parser.add_argument(
        "--skip-special-tokens", action="store_true", help="leave special tokens out of the text"
    )


def _run(options: argparse.Namespace) -> None:
    tokenizer = load(options)
    text = tokenizer.decode(
        _ids(options), errors=options.errors, skip_special_tokens=options.skip_special_tokens
    )
    write(text)


def _ids(options: argparse.Namespace) -> list[int]:
    if options.ids is not None:
        return [parse_id(word) for word in options.ids]
    try:
        return parse_ids(read(options.file).decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{shown(options.file)}: {error}") from None
