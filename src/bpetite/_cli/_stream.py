"""The verb `stream`: ids in as they arrive, complete text out at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from bpetite._cli._common import Verbs, add_model, add_verb, load, parse_id, standard_input, write
from bpetite._cli._decode import add_decoding

# A JSON array is ids with other separators.
_SEPARATORS = bytes.maketrans(b"[,]", b"   ")
_LONGEST_ID = 20  # digits


def add_to(verbs: Verbs) -> None:
    """Add this verb to the parser."""
    parser = add_verb(
        verbs,
        "stream",
        "turn ids into text as they arrive on standard input, one or more a line",
        "bpetite train README.md --vocab-size 512 --output model.json --force\n"
        'bpetite encode --model model.json --format lines --text "Hello world" |'
        " bpetite stream --model model.json",
    )
    add_model(parser)
    add_decoding(parser, default_errors="replace")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    stream = load(options).decode_stream(
        errors=options.errors, skip_special_tokens=options.skip_special_tokens
    )
    for id in _arriving_ids():
        if text := stream.step(id):
            write(text)
            sys.stdout.flush()
    write(stream.flush())


def _arriving_ids() -> Iterator[int]:
    """Yield each id on standard input as soon as white space, or the end, follows it."""
    source = standard_input()
    cut = b""  # the beginning of an id whose end has not arrived
    while data := source.read1(1 << 16):  # type: ignore[attr-defined]
        data = data.translate(_SEPARATORS)
        words = (cut + data).split()
        cut = b"" if data[-1:].isspace() else words.pop()
        for word in words:
            yield parse_id(word.decode("utf-8", "replace"))
        if len(cut) > _LONGEST_ID:
            raise ValueError(f"not an id: {cut[:40].decode('utf-8', 'replace')!r}")
    if cut:
        yield parse_id(cut.decode("utf-8", "replace"))
