"""The verb `decode`: ids in, text out; or each complete text at once while ids arrive."""

from __future__ import annotations

import argparse
import codecs
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from bpetite import Tokenizer
from bpetite._arguments import ERRORS
from bpetite._cli import common
from bpetite._cli.errors import decoding_failure
from bpetite._cli.progress import ByteBar
from bpetite._cli.read_ids import FORMATS, IdReader, Ids, parse_words

HELP = """turn ids into text, byte for byte, without an added newline

Text is written while ids are read, so a file may be larger than memory. With --output, a failure
leaves no file."""
EXAMPLE = """\
bpetite decode --model model.json --ids 72 105 33
bpetite encode --model model.json --format lines --text "Hello world" | \
bpetite decode --model model.json --stream"""

_SEPARATORS = bytes.maketrans(b"[,]", b"   ")  # a JSON array is ids with other separators
_MAX_ID_DIGITS = 20


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
    inputs.add_argument(
        "--stream",
        action="store_true",
        help="write each text at once as its ids arrive on standard input, one or more on a line",
    )
    parser.add_argument(
        "--errors",
        choices=ERRORS,
        help="what to do with bytes that are not UTF-8 (default: strict; with --stream, replace)",
    )
    parser.add_argument(
        "--skip-special-tokens", action="store_true", help="leave special tokens out of the text"
    )
    common.add_output(parser)


def run(options: argparse.Namespace) -> None:
    options.errors = options.errors or ("replace" if options.stream else "strict")
    if options.stream:
        if options.output is not None or options.format != "text":
            options.parser.error("--stream reads text and writes to standard output")
        _stream(options)
        return
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


def _stream(options: argparse.Namespace) -> None:
    stream = common.load(options).decode_stream(
        errors=options.errors, skip_special_tokens=options.skip_special_tokens
    )
    try:
        for id in _arriving_ids():
            if text := stream.step(id):
                common.write(text)
                sys.stdout.flush()
        common.write(stream.flush())
    except UnicodeDecodeError as error:
        raise decoding_failure(error) from None


def _arriving_ids() -> Iterator[int]:
    """Yield each id on standard input as soon as white space, or the end, follows it."""
    source = common.standard_input()
    line = 1
    rest = b""  # the beginning of an id whose end has not arrived
    while arrived := source.read1(common.READ_BYTES):
        data = rest + arrived.translate(_SEPARATORS)
        rest = b"" if data[-1:].isspace() else data.rsplit(None, 1)[-1]
        complete = data[: len(data) - len(rest)]
        yield from parse_words(complete.decode("utf-8", "replace"), line, "standard input: ")
        line += complete.count(b"\n")
        if len(rest) > _MAX_ID_DIGITS:
            word = rest[:40].decode("utf-8", "replace")
            raise ValueError(f"standard input: line {line}: not an id: {word!r}")
    yield from parse_words(rest.decode("utf-8", "replace"), line, "standard input: ")


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
