"""The verb `truncate`: text in, the longest beginning or end that fits a budget out."""

from __future__ import annotations

import argparse
import codecs
import io
from pathlib import Path

from bpetite import Tokenizer
from bpetite._cli import common
from bpetite._corpus import check_document, utf8_fault

HELP = """cut a text to a budget of tokens

The result is the longest beginning, or end, of the text that is within the budget, cut between two
characters. Of a long file, only as much as the beginning needs is read; for the end, all of it is
loaded into memory."""
EXAMPLE = """\
bpetite truncate --model model.json --max-tokens 20 README.md
bpetite truncate --model model.json --max-tokens 20 --keep end README.md"""

_FIRST_BYTES = 1 << 16


def add_options(parser: argparse.ArgumentParser) -> None:
    common.add_model(parser)
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument("--text", "-t", metavar="TEXT", help="the text itself")
    inputs.add_argument(
        "file", metavar="FILE", nargs="?", help="a text file (default: standard input)"
    )
    add_max_tokens(parser, "of the result", 0)
    parser.add_argument(
        "--keep",
        choices=("start", "end"),
        default="start",
        help="the side of the text to keep (default: start)",
    )
    common.add_special(parser)


def add_max_tokens(parser: argparse.ArgumentParser, what: str, lowest: int) -> None:
    """Add the option that is the budget."""
    parser.add_argument(
        "--max-tokens",
        "-n",
        metavar="N",
        type=common.number(lowest, 2**63),
        required=True,
        help=f"the most tokens {what}",
    )


def run(options: argparse.Namespace) -> None:
    """Write the result as it is, without a newline of its own."""
    tokenizer = common.load(options)
    common.write(
        tokenizer.truncate(
            _text(tokenizer, options),
            options.max_tokens,
            keep=options.keep,
            allowed_special=options.allowed_special,
        )
    )


def _text(tokenizer: Tokenizer, options: argparse.Namespace) -> str:
    """Return the text of the option or the file; of a long file, as much as the start needs."""
    if options.text is not None:
        return common.text_argument(options.text)
    name = options.file or common.STANDARD_INPUT
    common.check_inputs([name])
    if options.keep == "end":
        return common.read_text(name)
    if name == common.STANDARD_INPUT:
        return _beginning(tokenizer, options, name, common.standard_input())
    with Path(name).open("rb") as file:
        return _beginning(tokenizer, options, name, file)


def _beginning(
    tokenizer: Tokenizer, options: argparse.Namespace, name: str, file: io.BufferedReader
) -> str:
    """Return enough of a file to exceed the budget, and as much again; or all of it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    text, size, is_enough = "", _FIRST_BYTES, False
    while not is_enough:
        is_enough = not tokenizer.fits(
            text, options.max_tokens, allowed_special=options.allowed_special
        )
        data = file.read(size)
        if not text:
            check_document(common.shown(name), data)
        try:
            text += decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            start = len(text.encode())
            raise ValueError(
                f"{common.shown(name)} is not UTF-8 at byte {start + error.start} "
                f"({utf8_fault(error, start)})"
            ) from None
        size = max(_FIRST_BYTES, len(text))
        if not data:
            break
    return text
