"""What several verbs share: their options, text and ids in, results out."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from bpetite import PATTERNS, Tokenizer

STANDARD_INPUT = "-"

ANY_MODEL = (
    "a vocabulary file, in any format: ours, .tiktoken, vocab.json with merges.txt, "
    "tokenizer.json, or a model folder"
)


class Verbs(Protocol):
    """What `argparse.ArgumentParser.add_subparsers` returns."""

    def add_parser(
        self,
        name: str,
        *,
        help: str,
        description: str,
        epilog: str,
        formatter_class: type[argparse.HelpFormatter],
    ) -> argparse.ArgumentParser:
        """Add a verb."""


def add_verb(
    verbs: Verbs, name: str, help: str, example: str, details: str = ""
) -> argparse.ArgumentParser:
    """Add a verb with an example at the end of its help; `details` are lines of its own help."""
    return verbs.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.\n{details}".strip(),
        epilog="example:\n" + "\n".join(f"  {line}" for line in example.splitlines()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the vocabulary file."""
    parser.add_argument("--model", "-m", metavar="FILE", required=True, help=ANY_MODEL)


def add_text_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the ways in which text comes in, which exclude each other."""
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument("--text", "-t", metavar="TEXT", help="the text itself")
    inputs.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        default=[],
        help="files in UTF-8, each held whole, - being standard input; standard input if none "
        "is given",
    )


def add_special(parser: argparse.ArgumentParser) -> None:
    """Add the option that makes special tokens ordinary text."""
    parser.add_argument(
        "--ordinary", action="store_true", help="take special tokens in the text as ordinary text"
    )


def allowed_special(options: argparse.Namespace) -> tuple[()] | str:
    """Return what the option of `add_special` means to `Tokenizer.encode`."""
    return () if options.ordinary else "all"


def text_argument(argument: str | list[str]) -> str:
    """Return the text of an argument, in UTF-8 whatever the locale. Raises ValueError if it is not.

    >>> text_argument("é")
    'é'
    """
    if isinstance(argument, list):
        return "--"  # argparse takes the "--" out of "--text=--", and leaves an empty list
    try:
        # Bytes that the locale could not decode are kept as lone surrogates.
        return os.fsencode(argument).decode("utf-8") if _has_surrogates(argument) else argument
    except UnicodeDecodeError:
        raise ValueError(f"the argument {argument!r} is not UTF-8") from None


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def texts(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each input of `add_text_inputs`, every byte as it is."""
    if options.text is not None:
        yield "", text_argument(options.text)
        return
    for name in options.files or [STANDARD_INPUT]:
        yield name, read_text(name)


def read_text(name: str) -> str:
    """Return the text of a file, or of standard input. Raises ValueError if it is not UTF-8."""
    data = read(name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{shown(name)} is not UTF-8 at byte {error.start} "
            f"(0x{data[error.start]:02x}: {error.reason})"
        ) from None


def load(options: argparse.Namespace) -> Tokenizer:
    """Load the tokenizer that the option of `add_model` names."""
    return Tokenizer.load(options.model)


def pattern_names(pattern: str) -> list[str]:
    r"""Return the names that train has for a pattern.

    >>> pattern_names(Tokenizer.train("", 256).pattern), pattern_names(r"\S+|\s+")
    (['gpt2'], [])
    """
    return [name for name, named in PATTERNS.items() if named == pattern]


def shown(name: str) -> str:
    """Return the name of an input as people know it."""
    return "standard input" if name == STANDARD_INPUT else name


def read(name: str) -> bytes:
    """Return all bytes of a file, or of standard input."""
    if name != STANDARD_INPUT:
        return Path(name).read_bytes()
    # In one call, a Ctrl-C between two arrivals would not be seen before the next one.
    source = standard_input()
    return b"".join(iter(lambda: source.read1(1 << 16), b""))  # type: ignore[attr-defined]


def standard_input() -> BinaryIO:
    """Return standard input as bytes. Raises OSError if it is closed."""
    if sys.stdin is None:
        raise OSError("standard input is closed")
    return sys.stdin.buffer


def write(result: str) -> None:
    """Write a result to standard output: UTF-8 everywhere, line ends as they are."""
    if sys.stdout is None:
        raise OSError("standard output is closed")
    # Names of files may have bytes that are not UTF-8; they come out as they came in.
    sys.stdout.buffer.write(result.encode("utf-8", "surrogateescape"))


def say(words: str) -> None:
    """Say something on standard error; if nobody listens there any more, to nobody."""
    try:
        print(f"bpetite: {words}", file=sys.stderr, flush=True)
    except OSError:
        hush()


def hush() -> None:
    """Send to nobody what would go to standard error from now on."""
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the end


def check_output(path: str, replace: bool, option: str = "--force") -> None:
    """Refuse now a file to write that would fail when the work is done. Raises OSError.

    `option` is what the user gives to have it replaced.
    """
    output = Path(os.path.realpath(path))  # of a link, the file that is written
    if path.endswith(("/", os.sep)) or (output.exists() and not output.is_file()):
        raise OSError(f"{path}: is not a file that can be replaced")
    if not output.parent.is_dir():
        raise OSError(f"{path}: the folder {os.path.dirname(path) or '.'} does not exist")
    if output.exists() and not replace:
        raise OSError(f"{path}: exists; {option} replaces it")
    try:
        tempfile.TemporaryFile(dir=output.parent).close()
    except OSError:
        raise OSError(
            f"{path}: the folder {os.path.dirname(path) or '.'} is not writable"
        ) from None


def parse_ids(text: str) -> list[int]:
    r"""Return the ids of a text: JSON arrays, or ids with white space between them.

    >>> parse_ids("[1,2] [3]"), parse_ids("1 2\n3\n")
    ([1, 2, 3], [1, 2, 3])

    Raises ValueError for anything else.
    """
    if not text.lstrip().startswith("["):
        return [parse_id(word) for word in text.split()]
    ids: list[int] = []
    decoder = json.JSONDecoder()
    start = _past_white_space(text, 0)
    while start < len(text):
        try:
            array, end = decoder.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"the ids are not a JSON array: {error}") from None
        if not isinstance(array, list):
            raise ValueError(f"the ids must be a JSON array, got {json.dumps(array)[:40]}")
        for id in array:
            if type(id) is not int:
                raise ValueError(f"an id must be an integer, got {json.dumps(id)[:40]}")
        ids += array
        start = _past_white_space(text, end)
    return ids


def _past_white_space(text: str, start: int) -> int:
    return next((i for i in range(start, len(text)) if not text[i].isspace()), len(text))


def parse_id(word: str) -> int:
    """Return an id from its decimal digits. Raises ValueError for anything else."""
    if not (word.isascii() and word.isdigit()):
        raise ValueError(f"not an id: {word[:40]!r}")
    return int(word)
