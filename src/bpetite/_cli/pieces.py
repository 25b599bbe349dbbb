"""Pattern, weights and pruning: options and reports that `train` and `count-pieces` share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any, TypeVar

from bpetite import PATTERNS, PieceCounts
from bpetite._cli import common
from bpetite._piece_counts.file import is_counts_file
from bpetite.corpora._storage import public

Given = TypeVar("Given")

_MAX_COUNT = 2**64 - 1


def add_options(parser: argparse.ArgumentParser, weighted: str = "input") -> None:
    """Add the options that say how pieces are counted; `weighted` is what may have a weight."""
    parser.add_argument(
        "--pattern",
        metavar="PATTERN",
        help=f"the pattern that splits text into pieces: {', '.join(PATTERNS)}, or a regular "
        "expression (default: gpt2, or the pattern of the piece counts)",
    )
    parser.add_argument(
        "--weight",
        metavar="FILE=N",
        action="append",
        default=[],
        type=_weight,
        help=f"count this {weighted} N times, as if it were there N times; repeatable",
    )
    parser.add_argument(
        "--share",
        metavar="FILE=SHARE",
        action="append",
        default=[],
        type=_share,
        help=f"give this {weighted} a share of the bytes of text, such as 0.3 or 1/3, by a weight; "
        "inputs without a share divide the rest by their sizes; repeatable",
    )
    parser.add_argument(
        "--min-count",
        metavar="N",
        type=common.number(1, _MAX_COUNT),
        default=1,
        help="drop pieces that occur less than N times, after all counts are added; saves memory, "
        "but the vocabulary is not that of all text (default: 1)",
    )


def _weight(text: str) -> tuple[str, int]:
    name, equals, weight = text.rpartition("=")
    if not equals or not weight.isascii() or not weight.isdigit() or int(weight) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be FILE=N, with an N of at least 1")
    return name, int(weight)


def _share(text: str) -> tuple[str, str]:
    name, equals, share = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} must be FILE=SHARE, with a share such as 0.3")
    return name, share


def pattern(options: argparse.Namespace) -> str | None:
    """Return the pattern that the user gave."""
    return None if options.pattern is None else common.text_argument(options.pattern)


def are_counts(name: str) -> bool:
    """Return whether an input is a file of piece counts."""
    # The reader of a missing file, or of a URL, raises an error about it.
    return os.path.exists(name) and is_counts_file(name)


def weights(options: argparse.Namespace, names: list[str]) -> dict[str, int]:
    """Return the weight of each input. Raises ValueError for a weight of none of them."""
    return dict.fromkeys(names, 1) | _given(options.weight, "--weight", names)


def _given(pairs: list[tuple[str, Given]], option: str, names: list[str]) -> dict[str, Given]:
    """Return the values that an option gives to inputs. Raises ValueError for another name."""
    for name, value in pairs:
        if name not in names:
            name = public(name)
            raise ValueError(f"{option} {name}={value}: {name} is not an input")
    return dict(pairs)


def mixture(options: argparse.Namespace, counts: dict[str, PieceCounts]) -> PieceCounts:
    """Return the counts of inputs, each with its share."""
    shares = _given(options.share, "--share", [*counts])
    return PieceCounts.mixture([*counts.values()], [*map(shares.get, counts)])


def check_shares(options: argparse.Namespace, names: list[str]) -> None:
    """Raise ValueError for options that shares cannot be used with."""
    if options.share:
        if options.weight or options.min_count > 1:
            raise ValueError("--share works without --weight and --min-count")
        if len({*names}) < len(names):
            raise ValueError("--share needs inputs of different names")
        # Raise the error of shares that do not add up before the work.
        mixture(options, dict.fromkeys(names, PieceCounts.from_items([("a", 1)])))


def total(parts: Iterable[PieceCounts]) -> PieceCounts:
    """Return the sum of counts, added in pairs.

    To add each to the sum of all before it would take quadratic time.
    """
    sums: list[tuple[int, PieceCounts]] = []
    for part in parts:
        level = 0
        while sums and sums[-1][0] == level:
            part = sums.pop()[1] + part
            level += 1
        sums.append((level, part))
    return reduce(add, (part for _, part in reversed(sums)))


def pruning(counts: PieceCounts | None) -> dict[str, Any]:
    """Return the fields of a report that say whether counts are exact; without counts, they are."""
    if counts is None:
        return {"exact": True, "min_count": 1, "dropped_pieces": 0}
    return {
        "exact": counts.dropped_pieces == 0,
        "min_count": counts.min_count,
        "dropped_pieces": counts.dropped_pieces,
    }


def note_pruning(counts: PieceCounts, quiet: bool) -> None:
    """Say that counts are not exact, if pieces were dropped."""
    if counts.dropped_pieces and not quiet:
        total = counts.pieces + counts.dropped_pieces
        common.say(
            f"not exact: pruning dropped {counts.dropped_pieces} of {total} pieces, so the "
            "vocabulary is not that of all text"
        )
