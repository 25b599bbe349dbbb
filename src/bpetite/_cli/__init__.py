"""The command line: arguments in, text out."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Collection, Sequence
from importlib import import_module
from itertools import chain
from typing import NoReturn, Protocol, TextIO, cast

import bpetite
from bpetite._cli.common import MODEL_VARIABLE, say, silence_stderr
from bpetite._cli.errors import FAILURES, fail, is_closed_pipe


class Verb(Protocol):
    """A module of this package, with underscores in place of hyphens in its name."""

    HELP: str
    """A summary in one line; then, after an empty line, details."""
    EXAMPLE: str
    """Commands. If they read model.json but none makes it, the help puts such a command first."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments and options of the verb."""

    def run(self, options: argparse.Namespace) -> None:
        """Do the work; raise one of `errors.FAILURES` for a failure."""


_MAKE_MODEL = "bpetite train README.md --vocab-size 512 --output model.json --force\n"

_GROUPS = {
    "vocabularies": ("train", "convert", "inspect", "check", "report"),
    "text": ("encode", "decode", "count", "chunk", "chat"),
    "corpora": ("tokenize", "verify", "count-pieces"),
    "page": ("serve",),
}
"""The verbs as the help lists them."""

VERBS = tuple(chain.from_iterable(_GROUPS.values()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code.

    0 means success, 1 a failure with one line on standard error, 2 wrong usage, 130 Ctrl-C.
    If a reader closes standard output, the run ends with success.
    """
    if sys.stderr is None:
        silence_stderr()  # argparse would write to standard output instead
    try:
        code = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (KeyboardInterrupt, OSError) as error:
        _discard_buffer(sys.stdout)
        return 0 if is_closed_pipe(error) else fail(error)
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        given = sys.argv[1:] if arguments is None else arguments
        # The others would take most of the time of a short run.
        verbs = [verb for verb in VERBS if [verb] == [*given[:1]]] or VERBS
        options, unknown = _parser(verbs).parse_known_args(given)
        if unknown:
            options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        with warnings.catch_warnings():
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", category)
            warnings.showwarning = lambda message, *_: say(str(message))
            options.run(options)
    except SystemExit as exit:  # the help, the version, a wrong usage or all faults are shown
        return int(exit.code or 0)
    except FAILURES as error:
        if is_closed_pipe(error):
            raise
        return fail(error)
    return 0


def _discard_buffer(stream: TextIO | None) -> None:
    """Discard buffered output: writing it at exit would fail or block again."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with usage and message; say how to give a model, or a value that begins with "-"."""
        if message.endswith("expected one argument"):
            option = message.removeprefix("argument ").partition(":")[0].rpartition("/")[2]
            message += f"; write {option}=VALUE if the value begins with a hyphen"
        if "are required: " in message and "--model/-m" in message:
            message += f"; the variable {MODEL_VARIABLE} may name the model instead"
        super().error(message)


def _parser(names: Collection[str] = VERBS) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="bpetite",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Results go to standard output, messages to standard error. "
        "The help of each\nverb has an example: bpetite train --help",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"bpetite {bpetite.__version__} ({bpetite.engine} engine)",
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True, help="a verb of this list")
    listing = [
        "Train a byte-level BPE vocabulary, encode and decode text, stream it; convert and\n"
        "compare vocabularies of other libraries."
    ]
    for group, members in _GROUPS.items():
        listing.append(f"\n{group}:")
        for name in filter(names.__contains__, members):
            verb = cast(Verb, import_module(f"bpetite._cli.{name.replace('-', '_')}"))
            summary, _, details = verb.HELP.partition("\n\n")
            listing.append(_listed(name, summary))
            example = verb.EXAMPLE
            if "model.json" in example and "--output model.json" not in example:
                example = _MAKE_MODEL + example
            verb_parser = verbs.add_parser(
                name,
                description=f"{summary[0].upper()}{summary[1:]}.\n\n{details}".strip(),
                epilog="example:\n" + textwrap.indent(example, "  "),
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            verb.add_options(verb_parser)
            verb_parser.set_defaults(run=verb.run, parser=verb_parser)
    parser.description = "\n".join(listing)
    return parser


def _listed(name: str, summary: str) -> str:
    """Return a verb and its summary in lines as wide as argparse makes them."""
    width = max(shutil.get_terminal_size().columns - 2, 40)
    return textwrap.fill(f"    {name:<14}{summary}", width, subsequent_indent=" " * 18)
