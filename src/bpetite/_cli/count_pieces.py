"""The verb `count-pieces`: files in, a file of piece counts and a report out."""

from __future__ import annotations

import argparse
import json
import os
import time

import bpetite
from bpetite import PieceCounts
from bpetite._cli import common, pieces
from bpetite._cli.progress import display

HELP = """count the pieces of files, for train

Training needs only these counts. Counts of several machines add up: train takes several files of
them. If all inputs are files of piece counts, count-pieces writes their sum."""
EXAMPLE = """\
bpetite count-pieces README.md --output readme.counts
bpetite train readme.counts --vocab-size 512 --output model.json"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help=common.FILES_HELP)
    parser.add_argument(
        "--output", "-o", metavar="FILE", required=True, help="the file of piece counts to write"
    )
    parser.add_argument(
        "--partitions",
        metavar="N",
        type=common.number(2, 1024),
        help="divide the counts by a hash of the piece among N files OUTPUT-I-of-N, so that N "
        "machines can add up the counts of all machines, each its partition",
    )
    parser.add_argument("--force", action="store_true", help="replace the output if it exists")
    pieces.add_options(parser, "file of piece counts")
    common.add_part(parser, "count only")
    parser.add_argument("--quiet", action="store_true", help="show neither progress nor notes")
    common.add_corpus(parser)


def run(options: argparse.Namespace) -> None:
    names = options.files or [common.STANDARD_INPUT]
    outputs = _outputs(options)
    for output in outputs:
        common.check_output(output, options.force)
    started = time.monotonic()
    counts = _counts(options, names).prune(options.min_count)
    parts = [counts] if options.partitions is None else counts.partition(options.partitions)
    for part, output in zip(parts, outputs, strict=True):
        part.save(output, overwrite=options.force)
    pieces.note_pruning(counts, options.quiet)
    report = {
        "text_bytes": counts.text_bytes,
        "pieces": counts.pieces,
        "distinct_pieces": len(counts),
        **pieces.pruning(counts),
        "elapsed_ms": round((time.monotonic() - started) * 1000),
        "output": os.fsencode(options.output).decode("utf-8", "replace"),
        "engine": bpetite.engine,
    }
    common.write(json.dumps(report, ensure_ascii=False) + "\n")


def _outputs(options: argparse.Namespace) -> list[str]:
    count = options.partitions
    if count is None:
        return [options.output]
    stem, suffix = os.path.splitext(options.output)
    return [f"{stem}-{number}-of-{count}{suffix}" for number in range(1, count + 1)]


def _counts(options: argparse.Namespace, names: list[str]) -> PieceCounts:
    """Return the sum of files of piece counts, or the counts of texts."""
    are_counts = [*map(pieces.are_counts, names)]
    pattern = pieces.pattern(options)
    weights = pieces.weights(options, names)
    pieces.check_shares(options, names)
    if all(are_counts):
        for name in names:
            pattern = PieceCounts.read_header(name).checked_pattern(pattern)
        if options.share:
            return pieces.mixture(options, {name: PieceCounts.load(name) for name in names})
        return pieces.total(PieceCounts.load(name) * weights[name] for name in names)
    if any(are_counts):
        raise ValueError(
            f"{names[are_counts.index(True)]} has piece counts, but "
            f"{names[are_counts.index(False)]} has text; count the text first, then add the counts"
        )
    for option in ("weight", "share"):
        if getattr(options, option):
            raise ValueError(f"--{option} is for files of piece counts; count each source first")
    common.check_inputs(names, options.quiet)
    corpus = common.corpus(options, names)
    if options.part is not None:
        number, count = options.part
        sizes = [file.size or 0 for file in corpus.files]
        parts = corpus.parts(max(sum(sizes) // count, 1))
        corpus = corpus.part(span for part in parts[number - 1 :: count] for span in part.spans)
    shown = display(options.quiet)
    with common.reading(corpus, options), shown:
        return PieceCounts.from_corpus(
            corpus, pattern="gpt2" if pattern is None else pattern, progress=shown.show
        )
