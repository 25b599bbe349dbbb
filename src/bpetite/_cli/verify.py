"""The verb `verify`: a folder of token files in, its problems out."""

from __future__ import annotations

import argparse
import json
import time

from bpetite import Tokenizer
from bpetite._cli import common
from bpetite._cli.tokenize import write_summary
from bpetite.corpora import finish, repair, verify
from bpetite.corpora._verify import first_documents

HELP = """check a folder of token files: sizes, hashes, ids, documents, missing and foreign files

Writes a summary in JSON, or with --head the first texts. If there are problems, they go to standard
error, a line each, and the exit code is 1. With --repair, the summary lists the removed files, and
the exit code is 1 if problems are left that only you can solve."""
EXAMPLE = """\
bpetite train README.md --vocab-size 512 --output model.json
bpetite tokenize README.md --model model.json --format megatron --output tokens
bpetite verify tokens --model model.json --head 1"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="a folder that bpetite tokenize wrote")
    parser.add_argument(
        "--model", "-m", metavar="FILE", help=f"the vocabulary to expect: {common.ANY_MODEL}"
    )
    parser.add_argument(
        "--deep", action="store_true", help="encode the sources again and compare the files"
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="remove what must be written again; the same `bpetite tokenize` then completes the "
        "folder",
    )
    parser.add_argument(
        "--head",
        metavar="N",
        type=common.number(0, 2**31),
        default=0,
        help="print the text of the first N documents, each as a JSON string on a line",
    )


def run(options: argparse.Namespace) -> None:
    """Write the first documents if asked, or else a summary; report the problems."""
    started = time.monotonic()
    tokenizer = None if options.model is None else common.load(options)
    if options.repair:
        _repair(options, tokenizer)
        return
    problems = verify(options.folder, tokenizer, deep=options.deep)
    for problem in problems:
        common.say(problem)
    if problems:
        noun = "problem" if len(problems) == 1 else "problems"
        raise ValueError(f"{options.folder}: {len(problems)} {noun}")
    if not options.head:
        write_summary(options.folder, finish(options.folder), started)
    for text in first_documents(options.folder, options.head):
        common.write(json.dumps(text, ensure_ascii=False) + "\n")


def _repair(options: argparse.Namespace, tokenizer: Tokenizer | None) -> None:
    """Remove what must be written again, and list it."""
    repaired, removed, left = repair(options.folder, tokenizer, deep=options.deep)
    for problem in repaired + left:
        common.say(problem)
    common.write(json.dumps({"output": options.folder, "removed": removed}) + "\n")
    if repaired:
        common.say("run the same `bpetite tokenize` again: it writes what is missing")
    if left:
        noun = "problem is" if len(left) == 1 else "problems are"
        raise ValueError(f"{options.folder}: {len(left)} {noun} left")
