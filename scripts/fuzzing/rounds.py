"""Rounds of a fuzzer, one for each seed, until time is up or a round finds a fault."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from unittest.mock import patch

from bpetite import Tokenizer, _tokenizer


def parser_of(name: str, description: str | None, seconds: float = 60) -> argparse.ArgumentParser:
    """Return a parser with the options that `run` reads."""
    parser = argparse.ArgumentParser(prog=f"scripts/fuzz {name}", description=description)
    help = "how long (default: %(default)g)"
    parser.add_argument("--seconds", type=float, default=seconds, help=help)
    parser.add_argument("--seed", type=int, help="of the first round (default: random)")
    return parser


def run(
    options: argparse.Namespace, fault_of: Callable[[int], str | None], counts: Counter[str]
) -> None:
    """Do rounds; print their counts, or exit with 1 after the first fault."""
    first = random.randrange(10**9) if options.seed is None else options.seed
    end = time.monotonic() + options.seconds
    for seed in count(first):
        if fault := fault_of(seed):
            sys.exit(f"seed {seed}: {fault}")
        counts["rounds"] += 1
        if time.monotonic() > end:
            break
    for what, number in sorted(counts.items()):
        print(f"{number:12,} {what}")
    print(f"no difference; the next seed is {seed + 1}")


def load_uncompared(path: Path) -> Tokenizer:
    """Load a file; the comparison with its library would refuse what we read wrongly."""
    with patch.object(_tokenizer, "check_loaded", lambda *_: None):
        return Tokenizer.load(path)
