"""The verb `count`: text in, numbers of tokens out."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from bpetite import Tokenizer
from bpetite._cli import common
from bpetite._cli.progress import ByteBar, Watched, stored_bytes

HELP = """count the tokens of each input, as wc counts words

A file may be larger than memory, unless the vocabulary has a pattern without a name."""
EXAMPLE = "bpetite count --model model.json README.md"


def add_options(parser: argparse.ArgumentParser) -> None:
    common.add_model(parser)
    common.add_text_inputs(parser)
    common.add_special(parser)
    parser.add_argument(
        "--max",
        metavar="N",
        type=common.number(0, 2**63),
        help="end with the exit code 1 if an input has more than N tokens",
    )
    parser.add_argument("--quiet", action="store_true", help="show neither progress nor notes")
    common.add_corpus(parser)


def run(options: argparse.Namespace) -> None:
    """Write a line for each input, and the total if there are several.

    If an input cannot be read, those before it have lines, but there is no total.
    """
    tokenizer = common.load(options)
    counts: list[tuple[int, str]] = []
    try:
        counts.extend(_counts(tokenizer, options))
    except Exception:
        _write(counts, options)
        raise
    most, largest = max(counts)
    if len(counts) > 1:
        counts.append((sum(count for count, _ in counts), "total"))
    _write(counts, options)
    if options.max is not None and most > options.max:
        shown = common.shown(largest) if largest else "the text"
        raise ValueError(
            f"{shown} has {most} tokens, more than --max {options.max}; truncate or chunk cuts it"
        )


def _write(counts: Sequence[tuple[int, str]], options: argparse.Namespace) -> None:
    """Write a line for each number of ids and its name."""
    width = max((len(str(count)) for count, _ in counts), default=0)
    for count, name in counts:
        label = "" if name == common.STANDARD_INPUT and not options.files else name
        common.write(f"{count:>{width}} {label}".rstrip() + "\n")


def _counts(tokenizer: Tokenizer, options: argparse.Namespace) -> Iterator[tuple[int, str]]:
    """Yield the number of ids of each input, and its name."""
    special = options.allowed_special
    if options.text is not None:
        text = common.text_argument(options.text)
        yield tokenizer.count(text, allowed_special=special), ""
        return
    names = options.files or [common.STANDARD_INPUT]
    corpora = [common.corpus(options, [name]) for name in names]
    bar = ByteBar(options.quiet, stored_bytes(corpora))
    with bar, ExitStack() as stack:
        if options.bad_log is not None:
            new = open(options.bad_log, "w", encoding="utf-8", newline="\n")  # noqa: SIM115
            log = stack.enter_context(new)
            corpora = [corpus.part(corpus.spans, bad_log=log) for corpus in corpora]
        for name, corpus in zip(names, corpora, strict=True):
            common.check_inputs([name], options.quiet)
            with common.reading(corpus, options):
                watched = Watched(corpus, bar)
                yield tokenizer.count_documents(watched, allowed_special=special), name
