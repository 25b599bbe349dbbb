"""The verb `stream`: ids in as they arrive, complete text out at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from bpetite._cli import common
from bpetite._cli.decode import add_decoding
from bpetite._cli.errors import decoding_failure
from bpetite._cli.read_ids import parse_words

HELP = "turn ids into text as they arrive on standard input, one or more on each line"
EXAMPLE = """\
bpetite encode --model model.json --format lines --text "Hello world" | \
bpetite stream --model model.json"""

_SEPARATORS = bytes.maketrans(b"[,]", b"   ")  # a JSON array is ids with other separators
_MAX_ID_DIGITS = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    common.add_model(parser)
    add_decoding(parser, default_errors="replace")


def run(options: argparse.Namespace) -> None:
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
