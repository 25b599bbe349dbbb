"""The verb `decode`: ids in, text out."""

from __future__ import annotations

import argparse
import codecs
from collections.abc import Iterable
from typing import BinaryIO

from bpetite import Tokenizer
from bpetite._arguments import ERRORS
from bpetite._cli import common
from bpetite._cli.errors import decoding_failure
from bpetite._cli.progress import ByteBar
from bpetite._cli.read_ids import FORMATS, IdReader, Ids

HELP = """turn ids into text, byte for byte, without an added newline

Text is written while ids are read, so a file may be larger than memory. With --output, a failure
leaves no file."""
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
        help="a file of ids; - is standard input (default: -)",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="JSON arrays, or ids with white space between them; little-endian integers of 16 or "
        "32 bits; or a file of numpy (default: text)",
    )
    add_decoding(parser, default_errors="strict")
    common.add_output(parser)


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
    if options.output is not None:
        common.check_output(options.output, options.force)
    tokenizer = common.load(options)
    if options.ids is not None:
        with common.output(options) as file:
            _write_text(tokenizer, options, [[*map(common.parse_id, options.ids)]], file)
        return
    with ByteBar(common.is_quiet(options)) as bar:
        reader = IdReader(options.file, options.format, bar.advance)
        bar.total = reader.size
        with common.output(options) as file:
            _write_text(tokenizer, options, reader, file)


def _write_text(
    tokenizer: Tokenizer, options: argparse.Namespace, chunks: Iterable[Ids], file: BinaryIO
) -> None:
    pending = b""  # the beginning of a character
    offset = ids_before = 0  # before `pending`, and before the ids of a chunk

    def write(data: bytes, is_last: bool) -> int:
        try:
            text, used = codecs.utf_8_decode(data, options.errors, is_last)
        except UnicodeDecodeError as error:
            raise decoding_failure(error, offset) from None
        file.write(text.encode("utf-8"))
        return used

    for ids in chunks:
        try:
            data = tokenizer.decode_bytes(ids, skip_special_tokens=options.skip_special_tokens)
        except KeyError:
            if isinstance(ids, memoryview):
                _name_unknown_id(tokenizer, ids, ids_before, common.shown(options.file))
            raise
        data = pending + data
        used = write(data, False)
        pending = data[used:]
        offset += used
        ids_before += len(ids)
    write(pending, True)


def _name_unknown_id(tokenizer: Tokenizer, ids: memoryview, before: int, name: str) -> None:
    """Raise ValueError for the first id that the vocabulary lacks, with its index in the file."""
    for index, id in enumerate(ids, before):
        try:
            tokenizer.token_bytes(id)
        except KeyError as error:
            raise ValueError(f"{name}: {error.args[0]}; its index in the file is {index}") from None
