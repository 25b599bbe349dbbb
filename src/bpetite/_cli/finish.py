"""The verb `finish`: a folder whose parts are done in, its manifest out."""

from __future__ import annotations

import argparse
import time

from bpetite._cli.tokenize import write_summary
from bpetite.corpora import finish

HELP = """complete a folder of token files after `bpetite tokenize --part` has done all parts

Writes manifest.json. A complete folder stays as it is."""
EXAMPLE = """\
bpetite train README.md --vocab-size 512 --output model.json
bpetite tokenize README.md --model model.json --format megatron --output tokens --part 1/2
bpetite tokenize README.md --model model.json --format megatron --output tokens --part 2/2
bpetite finish tokens"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="a folder that bpetite tokenize wrote")


def run(options: argparse.Namespace) -> None:
    started = time.monotonic()
    write_summary(options.folder, finish(options.folder), started)
