"""The verb `tokenize`: corpora in, a folder of token files out."""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

from bpetite._cli import common
from bpetite._cli.progress import TokenizeBar
from bpetite.corpora import TOKEN_FORMATS, finish, plan, tokenize_parts
from bpetite.corpora._plan import PART_BYTES

HELP = """write the ids of corpora to token files that other libraries' trainers read

If a run was interrupted or killed, start it again: it skips finished parts, and the files have the
same bytes. `bpetite verify` checks the folder. After runs with --part, --finish completes it."""
EXAMPLE = """\
bpetite train README.md --vocab-size 512 --output model.json
bpetite tokenize README.md --model model.json --format megatron --output tokens
bpetite tokenize --finish tokens"""


class _Finish(argparse.Action):
    """Completes a folder and ends, as --help does, so that nothing else is required."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: object, folder: Any, *__: object
    ) -> None:
        """Write the manifest, and a line of JSON that sums up the folder."""
        started = time.monotonic()
        write_summary(folder, finish(folder), started)
        parser.exit()


def add_options(parser: argparse.ArgumentParser) -> None:
    # A run that continues after a kill must read its input again, so it needs files.
    files_help = common.FILES_HELP.partition("; -")[0]
    parser.add_argument("files", metavar="FILE", nargs="+", help=files_help)
    common.add_model(parser)
    parser.add_argument(
        "--output",
        "-o",
        metavar="DIR",
        required=True,
        help="the folder or URL to write; made if missing",
    )
    parser.add_argument(
        "--format", "-f", required=True, choices=TOKEN_FORMATS, help="the format of the token files"
    )
    parser.add_argument(
        "--end",
        metavar="LITERAL",
        help="the special token to write after each document (default: the vocabulary's "
        "end-of-text, for formats that do not store where documents end)",
    )
    parser.add_argument(
        "--begin", metavar="LITERAL", help="the special token to write before each document"
    )
    parser.add_argument(
        "--shard-tokens",
        metavar="N",
        type=common.number(1, 2**62),
        help="start a new file before the current one exceeds N ids",
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
        help="shuffle the documents within each part, in an order that this number decides",
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
    common.add_part(parser, "do only")
    parser.add_argument(
        "--finish",
        metavar="DIR",
        action=_Finish,
        help="write the manifest of a folder after --part has done all shares; needs no other "
        "argument, and leaves a complete folder as it is",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    common.add_corpus(parser, has_log=False)


def _amount(text: str) -> float | int:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a fraction such as 0.01, or a number of first documents"
        ) from None


def run(options: argparse.Namespace) -> None:
    corpus = common.corpus(options, options.files)
    started = time.monotonic()
    with TokenizeBar(options.quiet) as bar, common.reading(corpus, options):
        parts = plan(
            corpus,
            common.load(options),
            options.output,
            options.format,
            end=common.literal_argument(options.end),
            begin=common.literal_argument(options.begin),
            shard_tokens=options.shard_tokens,
            validation=options.validation,
            shuffle=options.shuffle,
            part_bytes=options.part_bytes,
        )
        if options.part is not None:
            number, count = options.part
            parts = parts[number - 1 :: count]
        totals = tokenize_parts(parts, workers=options.workers, progress=bar.show)
    if options.part is None:
        write_summary(options.output, finish(options.output), started)
    else:
        share = {"part": f"{number}/{count}", "parts": len(parts)}
        _write(options.output, totals, started, share)


def write_summary(folder: str, manifest: dict[str, Any], started: float) -> None:
    """Write a line of JSON that sums up a complete folder."""
    figures = {
        "format": manifest["format"],
        "dtype": manifest["dtype"],
        "tokenizer": manifest["tokenizer"]["fingerprint"],
        "parts": len(manifest["parts"]),
        "files": sum(len(shard["files"]) for shard in manifest["shards"]),
    }
    _write(folder, manifest["totals"], started, figures)


def _write(folder: str, totals: dict[str, int], started: float, figures: dict[str, Any]) -> None:
    if totals["bad"]:
        logs = os.path.join(folder, ".bpetite", "bad")
        skipped = common.bad_documents(totals["bad"])
        common.say(f"skipped {skipped}; the files in {logs} say which, and why")
    seconds = round(time.monotonic() - started, 3)
    summary = {"output": folder, **figures, **totals, "seconds": seconds}
    common.write(json.dumps(summary) + "\n")
