"""The verb `count`: text in, numbers of tokens out."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from bpetite import Tokenizer
from bpetite._cli import common
from bpetite._cli.errors import fail
from bpetite._cli.progress import ByteBar, Watched, stored_bytes
from bpetite.corpora import Corpus
from bpetite.corpora import count as count_documents
from bpetite.corpora._storage import public

HELP = """count the tokens of each input, as wc counts words

A file may be larger than memory, unless only the package regex can follow the vocabulary's pattern,
or it normalizes text in another way than NFC and has no byte fallback. If a file cannot be read, a
line on standard error says so, the others are counted, and the exit code is 1.
With --on-bad skip, the count of a file without a readable document is "-"."""
EXAMPLE = "bpetite count --model model.json README.md"

_Count = tuple[int | None, str]
"""The number of ids of an input, or None if all of it was skipped; and its name."""


def add_options(parser: argparse.ArgumentParser) -> None:
    common.add_model(parser)
    common.add_text_inputs(parser)
    common.add_special(parser)
    parser.add_argument(
        "--max-tokens",
        "-n",
        metavar="N",
        type=common.number(0, 2**63),
        help="the most tokens of an input: if one has more, end with the exit code 1",
    )
    parser.add_argument("--quiet", action="store_true", help="show neither progress nor notes")
    common.add_corpus(parser)


def run(options: argparse.Namespace) -> None:
    tokenizer = common.load(options)
    counts: list[_Count] = []
    try:
        counts.extend(_counts(tokenizer, options))
    except Exception:
        _write(counts, options)
        raise
    inputs = len(options.files) or 1
    known = [(count, name) for count, name in counts if count is not None]
    has_total = counts and inputs > 1
    total = (sum(count for count, _ in known), "total")
    _write([*counts, total] if has_total else counts, options)
    most, largest = max(known, default=(0, ""))
    if options.max_tokens is not None and most > options.max_tokens:
        shown = common.shown(largest) if largest else "the text"
        raise ValueError(
            f"{shown} has {most} tokens, more than --max-tokens {options.max_tokens}; chunk cuts it"
        )
    if len(counts) < inputs:
        raise SystemExit(1)


def _write(counts: Sequence[_Count], options: argparse.Namespace) -> None:
    columns = [("-" if count is None else str(count), name) for count, name in counts]
    width = max((len(count) for count, _ in columns), default=0)
    for count, name in columns:
        label = "" if name == common.STANDARD_INPUT and not options.files else name
        common.write(f"{count:>{width}} {label}".rstrip() + "\n")


def _counts(tokenizer: Tokenizer, options: argparse.Namespace) -> Iterator[_Count]:
    """Yield the count of each input that can be read; print the fault of any other."""
    special = options.allowed_special
    if options.text is not None:
        text = common.text_argument(options.text)
        yield tokenizer.count(text, allowed_special=special), ""
        return
    corpora: list[tuple[str, Corpus]] = []
    for name in options.files or [common.STANDARD_INPUT]:
        try:
            corpus = common.corpus(options, [name])
            stored_bytes([corpus])  # a file without permission fails before the work
            corpora.append((name, corpus))
        except (OSError, ModuleNotFoundError) as error:
            fail(error)
    bar = ByteBar(options.quiet, stored_bytes([corpus for _, corpus in corpora]))
    with bar, ExitStack() as stack:
        if options.bad_log is not None:
            new = open(options.bad_log, "w", encoding="utf-8", newline="\n")  # noqa: SIM115
            log = stack.enter_context(new)
            corpora = [(name, corpus.part(corpus.spans, bad_log=log)) for name, corpus in corpora]
        for name, corpus in corpora:
            try:
                common.check_inputs([name], options.quiet)
                with common.reading(corpus, options):
                    watched = Watched(corpus, bar)
                    found = count_documents(tokenizer, watched, allowed_special=special)
            except (OSError, ValueError) as error:
                fail(error)
                continue
            is_skipped = corpus.report.bad > 0 and corpus.report.documents == 0
            yield None if is_skipped else found, public(name)
