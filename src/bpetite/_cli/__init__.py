"""The command line: arguments in, text out. It uses the public names of bpetite alone."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from typing import TextIO

import bpetite
from bpetite._cli import (
    _compare,
    _convert,
    _count,
    _decode,
    _demo,
    _encode,
    _inspect,
    _serve,
    _stream,
    _train,
)
from bpetite._cli._common import hush, say

_VERBS = (_train, _encode, _decode, _stream, _count, _inspect, _convert, _compare, _serve, _demo)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit code.

    0 is success, 1 a failure with one line on standard error, 2 a wrong usage, 130 Ctrl-C. When
    the reader of our standard output goes away, that is the end, and no failure.
    """
    if sys.stderr is None:
        hush()  # or words would go to standard output
    try:
        code = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        _forget(sys.stdout)
        say("interrupted")
        code = 130
    except OSError as error:
        _forget(sys.stdout)
        code = 0
        if not _is_closed_pipe(error):
            say(_describe(error))
            code = 1
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        options = _parser().parse_args(arguments)
        options.run(options)
    except SystemExit as exit:  # of argparse: help, version or a wrong usage
        return int(exit.code or 0)
    except MemoryError:
        say("out of memory")
        return 1
    except (OSError, ValueError, KeyError) as error:
        if isinstance(error, OSError) and _is_closed_pipe(error):
            raise
        say(_describe(error))
        return 1
    return 0


def _is_closed_pipe(error: OSError) -> bool:
    # Windows calls it an invalid argument.
    return isinstance(error, BrokenPipeError) or (
        os.name == "nt" and error.errno == errno.EINVAL and error.filename is None
    )


def _forget(stream: TextIO | None) -> None:
    """Let what is still buffered go nowhere: written at exit, it would fail or wait again."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bpetite",
        description="Train a byte-level BPE vocabulary, encode and decode text, stream it; "
        "convert and compare vocabularies of other libraries.",
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
