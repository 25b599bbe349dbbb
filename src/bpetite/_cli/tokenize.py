"""The verb `tokenize`: corpora in, a folder of token files out."""

from __future__ import annotations

import argparse
import json
import os
import time

from bpetite._cli import common
from bpetite._cli.progress import TokenizeBar
from bpetite.corpora import PART_BYTES, TOKEN_FORMATS, tokenize

HELP = """write the ids of corpora to token files that other libraries' trainers read

If a run was interrupted or killed, start it again: it skips finished parts, and the files have the
same bytes. `bpetite verify` checks the folder."""
EXAMPLE = """\
bpetite train README.md --vocab-size 512 --output model.json
bpetite tokenize README.md --model model.json --format megatron --output tokens"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help=common.FILES_HELP)
    common.add_model(parser)
    parser.add_argument(
        "--output", "-o", metavar="DIR", required=True, help="the folder to write; made if missing"
    )
    parser.add_argument(
        "--format", "-f", required=True, choices=TOKEN_FORMATS, help="the format of the token files"
    )
    parser.add_argument(
        "--end",
        metavar="LITERAL",
        help="the special token to write behind each document (default: the vocabulary's "
        "end-of-text, for formats that do not store where documents end)",
    )
    parser.add_argument(
        "--begin", metavar="LITERAL", help="the special token to write before each document"
    )
    parser.add_argument(
        "--shard-tokens",
        metavar="N",
        type=common.number(1, 2**62),
        help="begin a new file before it would have more ids",
    )
    parser.add_argument(
        "--validation",
        metavar="AMOUNT",
        type=_amount,
        default=0,
        help="documents for a split of their own: a fraction such as 0.01, or a number of first "
        "documents",
    )
    parser.add_argument(
        "--shuffle",
        metavar="SEED",
        type=int,
        help="shuffle the documents within each part by this number",
    )
    parser.add_argument(
        "--part-bytes",
        metavar="N",
        type=common.number(1, 2**62),
        default=PART_BYTES,
        help="the input bytes of a part: large files are divided, small ones put together "
        f"(default: {PART_BYTES})",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=common.number(1, 1024),
        default=1,
        help="the number of processes (default: 1)",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    common.add_corpus(parser, has_log=False)


def _amount(text: str) -> float | int:
    """Return a fraction or a whole number."""
    return int(text) if text.isdigit() else float(text)


def run(options: argparse.Namespace) -> None:
    """Write the folder, then a summary in JSON."""
    corpus = common.corpus(options, options.files)
    started = time.monotonic()
    with TokenizeBar(options.quiet) as bar, common.reading(corpus, options):
        manifest = tokenize(
            corpus,
            common.load(options),
            options.output,
            options.format,
            end=_literal(options.end),
            begin=_literal(options.begin),
            shard_tokens=options.shard_tokens,
            validation=options.validation,
            shuffle=options.shuffle,
            part_bytes=options.part_bytes,
            workers=options.workers,
            progress=bar.show,
        )
    if bad := manifest["totals"]["bad"]:
        folder = os.path.join(options.output, ".bpetite", "bad")
        common.say(f"skipped {bad} bad documents; the files in {folder} name them")
    seconds = time.monotonic() - started
    summary = {
        "output": options.output,
        "format": manifest["format"],
        "dtype": manifest["dtype"],
        "tokenizer": manifest["tokenizer"]["fingerprint"],
        **manifest["totals"],
        "parts": len(manifest["parts"]),
        "files": sum(len(shard["files"]) for shard in manifest["shards"]),
        "seconds": round(seconds, 3),
    }
    common.write(json.dumps(summary) + "\n")


def _literal(argument: str | None) -> str | None:
    return None if argument is None else common.text_argument(argument)
