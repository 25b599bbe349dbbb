"""The command line: arguments in, text out. It uses the public names of bpetite alone."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import bpetite
from bpetite._cli import _count, _decode, _demo, _encode, _inspect, _stream, _train

_VERBS = (_train, _encode, _decode, _stream, _count, _inspect, _demo)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit code.

    0 is success, 1 a failure with one line on standard error, 2 a wrong usage, 130 Ctrl-C. When
    the reader of our standard output goes away, that is the end, and no failure.
    """
    try:
        try:
            options = _parser().parse_args(arguments)
            options.run(options)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered must not be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("bpetite: interrupted", file=sys.stderr)
        return 130
    except (OSError, ValueError, KeyError) as error:
        print(f"bpetite: {_describe(error)}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bpetite",
        description="Train a byte-level BPE vocabulary, encode and decode text, stream it.",
        epilog="Results go to standard output, words to standard error. "
        "See the help of a verb for an example: bpetite train --help",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"bpetite {bpetite.__version__} ({bpetite.engine} engine)",
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in _VERBS:
        verb.add_to(verbs)
    return parser


def _describe(error: Exception) -> str:
    """Say in one line what is wrong."""
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        text = f"{place}{error.strerror}"
    elif isinstance(error, KeyError) and error.args:
        text = str(error.args[0])  # str() of a KeyError would quote it
    else:
        text = str(error)
    return " ".join(text.split())
