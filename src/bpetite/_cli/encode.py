"""The verb `encode`: text in, ids out."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Literal

from bpetite import Tokenizer
from bpetite._cli import common
from bpetite._cli.progress import ByteBar, Watched, stored_bytes
from bpetite._cli.write_ids import FORMATS, id_writer
from bpetite.corpora import Block, encode

HELP = """turn text into ids: a JSON array for each document

Ids are written while text is read. So a file may be larger than memory, unless only the package
regex can follow the vocabulary's pattern, or it normalizes text in another way than NFC and has no
byte fallback. With --output, a failure leaves no file."""
EXAMPLE = """\
bpetite encode --model model.json README.md --format npy --output readme.npy
bpetite encode --model model.json --text "Hello world" --format text"""

_Dtype = Literal["uint16", "uint32"]

_UINT16_IDS = 1 << 16


def add_options(parser: argparse.ArgumentParser) -> None:
    common.add_model(parser)
    common.add_text_inputs(parser)
    common.add_special(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="json",
        help="a JSON array, one id on each line, ids with a space between them; or all ids in "
        "a row: little-endian integers of 16 or 32 bits, or a file of numpy (default: json)",
    )
    common.add_output(parser)
    parser.add_argument(
        "--begin", metavar="LITERAL", help="the special token to write before each document"
    )
    parser.add_argument(
        "--end", metavar="LITERAL", help="the special token to write after each document"
    )
    common.add_corpus(parser)


def run(options: argparse.Namespace) -> None:
    if options.output is not None:
        common.check_output(options.output, options.force)
    elif options.format == "npy":
        options.parser.error("--format npy needs --output, since its header has the number of ids")
    tokenizer = common.load(options)
    dtype = _dtype(tokenizer, options.format)
    with common.output(options) as file:
        writer = id_writer(options.format, file, 2 if dtype == "uint16" else 4)
        for ids, offsets, is_complete in _withheld(_blocks(tokenizer, options, dtype)):
            writer.write(ids, offsets, is_complete)
        writer.finish()


def _blocks(tokenizer: Tokenizer, options: argparse.Namespace, dtype: _Dtype) -> Iterator[Block]:
    begin, end = map(common.literal_argument, (options.begin, options.end))

    def blocks(documents: list[str] | Watched) -> Iterator[Block]:
        special = options.allowed_special
        return encode(
            tokenizer, documents, dtype=dtype, begin=begin, end=end, allowed_special=special
        )

    if options.text is not None:
        yield from blocks([common.text_argument(options.text)])
        return
    names = options.files or [common.STANDARD_INPUT]
    corpus = common.corpus(options, names)
    common.check_inputs(names, options.quiet)
    with (
        ByteBar(common.is_quiet(options), stored_bytes([corpus])) as bar,
        common.reading(corpus, options),
    ):
        yield from blocks(Watched(corpus, bar))


def _withheld(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield blocks, but a block that ends inside a document only when the next one has arrived.

    So a short document with an error at its end has no output.
    """
    part: Block | None = None
    for block in blocks:
        if part is not None:
            yield part
        part = None if block.is_complete else block
        if part is None:
            yield block


def _dtype(tokenizer: Tokenizer, format: str) -> _Dtype:
    """Return the type of ids in a buffer for a format. Raises ValueError if ids do not fit."""
    if format not in ("u16", "npy"):
        return "uint32"
    if tokenizer.n_vocab <= _UINT16_IDS:
        return "uint16"
    if format == "npy":
        return "uint32"
    raise ValueError(
        f"--format u16 holds ids up to {_UINT16_IDS - 1}, but this vocabulary has ids up to "
        f"{tokenizer.n_vocab - 1}; use --format u32"
    )
