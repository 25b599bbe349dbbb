"""The verb `decode`: ids in, text out."""

from __future__ import annotations

import argparse

from bpetite import ERRORS
from bpetite._cli import common

HELP = "turn ids into text, byte for byte, without an added newline"
EXAMPLE = "bpetite decode --model model.json --ids 72 105 33"


def add_options(parser: argparse.ArgumentParser) -> None:
    common.add_model(parser)
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument("--ids", metavar="N", nargs="+", help="the ids themselves")
    inputs.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        default=common.STANDARD_INPUT,
        help="a file with JSON arrays, or with ids and white space between them; - is standard "
        "input (default: -)",
    )
    add_decoding(parser, default_errors="strict")


def add_decoding(parser: argparse.ArgumentParser, default_errors: str) -> None:
    """Add the options that `decode` and `stream` share."""
    parser.add_argument(
        "--errors",
        choices=ERRORS,
        default=default_errors,
        help=f"what to do with bytes that are not UTF-8 (default: {default_errors})",
    )
    parser.add_argument(
        "--skip-special-tokens", action="store_true", help="leave special tokens out of the text"
    )


def run(options: argparse.Namespace) -> None:
    """Write the text of all ids."""
    tokenizer = common.load(options)
    ids = _ids(options)
    try:
        text = tokenizer.decode(
            ids, errors=options.errors, skip_special_tokens=options.skip_special_tokens
        )
    except UnicodeDecodeError as error:
        raise common.decoding_failure(error) from None
    common.write(text)


def _ids(options: argparse.Namespace) -> list[int]:
    if options.ids is not None:
        return list(map(common.parse_id, options.ids))
    try:
        return common.parse_ids(common.read(options.file).decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{common.shown(options.file)}: {error}") from None
