"""The verb `chunk`: documents in, parts within a budget of tokens out."""

from __future__ import annotations

import argparse
import codecs
import io
import json
from collections.abc import Iterator
from pathlib import Path

from bpetite import Chunk, Tokenizer
from bpetite._cli import common
from bpetite._corpus import check_document, utf8_fault

HELP = """divide documents into chunks within a budget of tokens, or keep only one end of a text

A chunk is a JSON object with its text, its start and end in the document, in characters, and its
number of tokens; if there are several documents, also the number of the document. A chunk ends
between two words if it can; with --at, after a line or a paragraph if it can. Each document is
loaded into memory.

With --keep, the result is the longest beginning, or end, of one plain text (a local file, standard
input or --text) that is within the budget, as it is. Of a long file, only as much as the beginning
needs is read."""
EXAMPLE = """\
bpetite chunk --model model.json --max-tokens 200 --overlap 20 README.md
bpetite chunk --model model.json --max-tokens 200 --at paragraph README.md
bpetite chunk --model model.json --max-tokens 20 --keep end README.md"""

_OF_CHUNKS = (
    *("overlap", "at", "with_ids"),
    *("input_format", "separator", "text_field", "on_bad", "bad_log"),
)
"""The options that --keep would ignore."""

_FIRST_BYTES = 1 << 16


def add_options(parser: argparse.ArgumentParser) -> None:
    common.add_model(parser)
    common.add_text_inputs(parser)
    parser.add_argument(
        "--max-tokens",
        "-n",
        metavar="N",
        type=common.number(0, 2**63),
        required=True,
        help="the most tokens of a chunk",
    )
    parser.add_argument(
        "--keep",
        choices=("start", "end"),
        help="write only this side of one text, cut between two characters",
    )
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
    if options.keep is not None:
        _keep(options)
        return
    if options.overlap >= options.max_tokens:
        options.parser.error("--max-tokens must exceed --overlap")
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


def _keep(options: argparse.Namespace) -> None:
    """Write one side of a text as it is, without a newline of its own."""
    if len(options.files) > 1 or any(
        getattr(options, name) != options.parser.get_default(name) for name in _OF_CHUNKS
    ):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in _OF_CHUNKS)
        options.parser.error(f"--keep takes one plain text, and none of {names}")
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
    [name] = options.files or [common.STANDARD_INPUT]
    common.check_inputs([name], options.quiet)
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
