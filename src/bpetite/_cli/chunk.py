"""The verb `chunk`: documents in, parts within a budget of tokens out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from bpetite import Chunk
from bpetite._cli import common, truncate

HELP = """divide documents into chunks within a budget of tokens: a JSON object for each

The object has the chunk's text, its start and end in the document, in characters, and its number of
tokens; if there are several documents, also the number of the document. A chunk ends between two
words if it can; with --at, after a line or a paragraph if it can. Each document is loaded into
memory."""
EXAMPLE = """\
bpetite chunk --model model.json --max-tokens 200 --overlap 20 README.md
bpetite chunk --model model.json --max-tokens 200 --at paragraph README.md"""


def add_options(parser: argparse.ArgumentParser) -> None:
    common.add_model(parser)
    common.add_text_inputs(parser)
    truncate.add_max_tokens(parser, "of a chunk", 1)
    parser.add_argument(
        "--overlap",
        metavar="N",
        type=common.number(0, 2**63),
        default=0,
        help="begin a chunk with at most N tokens of the one before (default: 0)",
    )
    parser.add_argument(
        "--at",
        choices=("line", "paragraph"),
        help="end chunks where a line ends; or where a paragraph ends, else a line",
    )
    parser.add_argument("--with-ids", action="store_true", help="write the ids of each chunk too")
    common.add_special(parser)
    parser.add_argument("--quiet", action="store_true", help="show no notes")
    common.add_corpus(parser)


def run(options: argparse.Namespace) -> None:
    if options.overlap >= options.max_tokens:
        options.parser.error("--overlap must be below --max-tokens")
    tokenizer = common.load(options)
    for number, text in _documents(options):
        chunks = tokenizer.chunks(
            text,
            options.max_tokens,
            overlap=options.overlap,
            at=options.at,
            allowed_special=options.allowed_special,
        )
        for chunk in _with_number(number, chunks):
            line = {
                **({} if number is None else {"document": number}),
                "text": chunk.text,
                "start": chunk.start,
                "end": chunk.end,
                "tokens": len(chunk.ids),
                **({"ids": chunk.ids} if options.with_ids else {}),
            }
            common.write(json.dumps(line, ensure_ascii=False) + "\n")


def _with_number(number: int | None, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Yield chunks; put the number of the document before a ValueError's message."""
    try:
        yield from chunks
    except ValueError as error:
        raise ValueError(f"document {number}: {error}" if number is not None else error) from None


def _documents(options: argparse.Namespace) -> Iterator[tuple[int | None, str]]:
    """Yield each document with its number; a single document has None."""
    if options.text is not None:
        yield None, common.text_argument(options.text)
        return
    names = options.files or [common.STANDARD_INPUT]
    corpus = common.corpus(options, names)
    common.check_inputs(names, options.quiet)
    with common.reading(corpus, options):
        documents = enumerate(corpus)
        first = next(documents, None)
        second = next(documents, None)
        if first is not None:
            yield (None if second is None else 0), first[1]
        if second is not None:
            yield second
        yield from documents
