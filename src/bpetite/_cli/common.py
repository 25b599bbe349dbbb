"""Code that several verbs share: options, text and ids from inputs, results and messages."""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from bpetite import Tokenizer
from bpetite._corpus import check_document, utf8_fault
from bpetite.corpora import BadDocumentError, Corpus
from bpetite.corpora._storage import public
from bpetite.formats import recognise
from bpetite.formats._files import check_target, new_file
from bpetite.formats._model_names import model_path
from bpetite.formats._systems import file_key

STANDARD_INPUT = "-"

ANY_MODEL = (
    "a vocabulary file in any format (bpetite's own, tokenizer.json, tekken.json, .tiktoken, "
    "SentencePiece's tokenizer.model, vocab.json with merges.txt), a model folder, a name that "
    "tiktoken knows, such as gpt-4o, or ORG/NAME for a model in the cache of Hugging Face"
)

READ_BYTES = 1 << 16
"""The most bytes that one read of standard input takes."""

# A reference library needs a hundred times the memory of a text, and does not react to Ctrl-C.
_SLICE_CHARACTERS = 1 << 18

_BOM = "\ufeff"
_BOM_BYTES = 3


# Options


MODEL_VARIABLE = "BPETITE_MODEL"
"""The environment variable that names the vocabulary if the option is left out."""


def add_model(parser: argparse.ArgumentParser, more: str = "", **changed: Any) -> None:
    """Add the option that names the vocabulary file, with more help and `changed` arguments."""
    default = os.environ.get(MODEL_VARIABLE) or None
    parser.add_argument(
        *("--model", "-m"),
        metavar="FILE",
        help=f"{ANY_MODEL}{more} (default: the variable {MODEL_VARIABLE})",
        **{"default": default, "required": default is None, **changed},
    )


def add_text_inputs(parser: argparse.ArgumentParser) -> None:
    """Add text as an option or in files; the two exclude each other."""
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument("--text", "-t", metavar="TEXT", help="the text itself")
    inputs.add_argument("files", metavar="FILE", nargs="*", default=[], help=FILES_HELP)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options for a file that appears whole or not at all; `output` opens it."""
    parser.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        help="the file to write, whole or not at all (default: standard output)",
    )
    parser.add_argument("--force", action="store_true", help="replace the output if it exists")
    parser.add_argument("--quiet", action="store_true", help="show neither progress nor notes")


def add_special(parser: argparse.ArgumentParser) -> None:
    """Add the option that makes special tokens ordinary text."""
    parser.add_argument(
        "--ordinary",
        dest="allowed_special",
        action="store_const",
        const=(),
        default="all",
        help="treat special tokens in the text as ordinary text",
    )


FILES_HELP = (
    "files, folders, globs and URLs: plain text, .jsonl, .json, .parquet or .arrow, each but "
    "Parquet also .gz or .zst; - is standard input, which is also the default"
)


def add_corpus(parser: argparse.ArgumentParser, has_log: bool = True) -> None:
    """Add the options that say how files hold documents."""
    parser.set_defaults(bad_log=None, has_log=has_log)
    group = parser.add_argument_group("documents")
    group.add_argument(
        "--input-format",
        choices=("text", "lines", "jsonl", "json", "parquet", "arrow"),
        help="the format of all files; lines: each line is a document (default: by name, or else "
        "by content)",
    )
    group.add_argument(
        "--lines",
        dest="input_format",
        action="store_const",
        const="lines",
        help="the same as --input-format lines",
    )
    group.add_argument(
        "--separator",
        metavar="TEXT",
        type=_unescaped,
        help=r"the text that ends each document in a text file; \n, \r, \t and \\ are escapes",
    )
    group.add_argument(
        "--text-field",
        metavar="NAME",
        default="text",
        help="the field or column that has the text (default: text)",
    )
    group.add_argument(
        "--on-bad",
        choices=("raise", "skip"),
        default="raise",
        help="stop at a document that cannot be read, or skip and count it (default: raise)",
    )
    if has_log:
        help = "with --on-bad skip: write a line for each bad document"
        group.add_argument("--bad-log", metavar="FILE", help=help)


def add_part(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the option that divides the work among independent commands."""
    parser.add_argument(
        "--part",
        metavar="I/N",
        type=_share,
        help=f"{what} the share I of N: run this command N times, with I from 1 to N, on any "
        "machines that see the files",
    )


def _share(text: str) -> tuple[int, int]:
    """Return the two numbers of a share.

    >>> _share("3/16")
    (3, 16)
    """
    number, slash, count = text.partition("/")
    if not slash or not 1 <= int(number) <= int(count):
        raise argparse.ArgumentTypeError(f"{text!r} must be I/N, with an I from 1 to N")
    return int(number), int(count)


def _unescaped(text: str) -> str:
    r"""Return a text with the characters that escapes stand for.

    >>> _unescaped(r"\n\\n")
    '\n\\n'
    """
    characters = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(r"\\([nrt\\])", lambda match: characters.get(match[1], match[1]), text)


def corpus(options: argparse.Namespace, names: list[str]) -> Corpus:
    """Return the corpus of some files, by the options of `add_corpus`."""
    if options.bad_log is not None:
        for option in ("model", "output"):
            path = getattr(options, option, None)
            if path is not None and file_key(path) == file_key(options.bad_log):
                raise ValueError(f"{path}: --bad-log and --{option} must be two files")
    return Corpus(
        names,
        format=options.input_format,
        text_field=text_argument(options.text_field),
        separator=None if options.separator is None else text_argument(options.separator),
        on_bad=options.on_bad,
        bad_log=options.bad_log,
    )


@contextmanager
def reading(corpus: Corpus, options: argparse.Namespace) -> Iterator[None]:
    """Add to an error how to read a file without a text field; say which documents were skipped."""
    try:
        yield
    except BadDocumentError as error:
        if error.document.reason != "no field":
            raise
        raise ValueError(
            f"{error}; --text-field names another field, and "
            "--input-format text reads the file as it is"
        ) from None
    except MemoryError as error:
        paths = {span.path for span in corpus.spans}
        path = shown(public(paths.pop()))
        if paths or str(error).startswith(path):
            raise
        raise MemoryError(f"{path}: out of memory") from None
    count = corpus.report.bad
    if count:
        named = [*map(str, corpus.report.first_bad[:_MAX_SAID_BAD])]
        rest = count - len(named)
        said = [*named, f"and {rest} more"] if rest else named
        if options.bad_log:
            said.append(f"{options.bad_log} has the list")
        elif rest and options.has_log:
            said.append("--bad-log FILE writes the list")
        say(f"skipped {bad_documents(count)}: {'; '.join(said)}")


_MAX_SAID_BAD = 3


def bad_documents(count: int) -> str:
    """Return a number of bad documents in words.

    >>> bad_documents(1), bad_documents(2)
    ('1 bad document', '2 bad documents')
    """
    return f"{count} bad document{'' if count == 1 else 's'}"


def number(lowest: int, highest: int) -> Callable[[str], int]:
    """Return the type of an argument that is a number in a range."""

    def number(text: str) -> int:  # argparse shows this name: "invalid number value"
        if not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(f"must be from {lowest} to {highest}")
        return int(text)

    return number


# Inputs


def load(options: argparse.Namespace) -> Tokenizer:
    """Load the tokenizer that the option of `add_model` names."""
    return Tokenizer.load(options.model)


def text_argument(argument: str | list[str]) -> str:
    """Return the text of an argument, which is UTF-8 in every locale. Raises ValueError if not.

    >>> text_argument("é")
    'é'
    """
    if isinstance(argument, list):
        return "--"  # argparse removes the "--" of "--text=--" and leaves an empty list
    try:
        argument.encode("utf-8")
        return argument
    except UnicodeEncodeError:
        # Python passes bytes that the locale cannot decode as lone surrogates.
        try:
            return os.fsencode(argument).decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"the argument {argument!r} is not UTF-8") from None


def literal_argument(argument: str | None) -> str | None:
    return None if argument is None else text_argument(argument)


def read_text(name: str) -> str:
    """Return the text of a file or of standard input. Raises ValueError if it is not UTF-8."""
    data = read(name)
    check_document(shown(name), data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = utf8_fault(error)
        raise ValueError(f"{shown(name)} is not UTF-8 at byte {error.start} ({fault})") from None


def slices(text: str) -> Iterator[tuple[int, str]]:
    """Yield the start of each slice, and the slice: whole lines, unless a line is too long."""
    start = 0
    while start < len(text):
        end = start + _SLICE_CHARACTERS
        if end < len(text):
            end = text.rfind("\n", start, end) + 1 or end
        yield start, text[start:end]
        start = end


def warn_of_bom(name: str, beginning: bytes) -> None:
    """Warn if an input begins with a byte order mark: few users know that it is in their file."""
    if beginning.startswith(_BOM.encode()):
        say(
            f"{shown(name)} begins with a byte order mark (U+FEFF), which is read as text; "
            "remove it unless you need it"
        )


def shown(name: str) -> str:
    """Return the name of an input as messages show it."""
    return "standard input" if name == STANDARD_INPUT else name


def read(name: str) -> bytes:
    if name != STANDARD_INPUT:
        return Path(name).read_bytes()
    # Python handles Ctrl-C between two calls; a single read() would block until the end.
    source = standard_input()
    return b"".join(iter(lambda: source.read1(READ_BYTES), b""))


def standard_input() -> io.BufferedReader:
    """Return standard input as bytes. Raises OSError if it is closed."""
    if sys.stdin is None:
        raise OSError("standard input is closed")
    return cast(io.BufferedReader, sys.stdin.buffer)


def is_model(name: str) -> bool:
    """Return whether a file is a vocabulary."""
    if name == STANDARD_INPUT:
        return False
    if not os.path.exists(name):
        try:
            return model_path(name) != name
        except FileNotFoundError:
            return False
    # A pipe can be read only once, so it is a text.
    can_read_twice = os.path.isfile(name) or os.path.isdir(name)
    return can_read_twice and recognise(name) is not None


def file_names(paths: Sequence[str]) -> list[str]:
    """Return the name of each file or, if two are equal, its path.

    >>> file_names(["a/model.json", "b/model.json", "c/small.json"])
    ['a/model.json', 'b/model.json', 'small.json']
    """
    shown = [os.fsencode(path).decode("utf-8", "replace") for path in paths]
    ends = [Path(path).name or path for path in shown]
    counts = Counter(ends)
    return [end if counts[end] == 1 else path for end, path in zip(ends, shown, strict=True)]


def parse_id(word: str) -> int:
    """Return an id from its decimal digits. Raises ValueError for anything else."""
    if not (word.isascii() and word.isdigit()):
        raise ValueError(f"not an id: {word[:40]!r}")
    return int(word)


def check_inputs(names: list[str], quiet: bool = False) -> None:
    """Refuse an unreadable file before the work; warn of byte order marks."""
    for name in names:
        beginning = b""
        if name == STANDARD_INPUT:
            beginning = standard_input().peek(_BOM_BYTES)
        elif Path(name).is_file():
            with open(name, "rb") as file:
                try:
                    beginning = file.read(_BOM_BYTES)
                except OSError as error:
                    error.filename = name  # the system names no file in an error of a read
                    raise
        # Any other file is a pipe or a device; opening it could take its data.
        if not quiet:
            warn_of_bom(name, beginning)


# Results and messages


@contextmanager
def output(options: argparse.Namespace) -> Iterator[BinaryIO]:
    """Open the file of `add_output`, or standard output."""
    if options.output is not None:
        with new_file(options.output, options.force) as file:
            yield file
    elif sys.stdout is None:
        raise OSError("standard output is closed")
    else:
        yield sys.stdout.buffer


def is_quiet(options: argparse.Namespace) -> bool:
    """Return whether progress is unwanted, or would mix with results on a terminal."""
    has_results = options.output is None and sys.stdout is not None and sys.stdout.isatty()
    return options.quiet or has_results


def write(result: str) -> None:
    """Write a result to standard output: UTF-8 on every system, newlines unchanged."""
    if sys.stdout is None:
        raise OSError("standard output is closed")
    # File names may have bytes that are not UTF-8; surrogateescape returns those bytes.
    sys.stdout.buffer.write(result.encode("utf-8", "surrogateescape"))


COLORS = ("\x1b[30;48;5;152m", "\x1b[30;48;5;223m", "\x1b[30;48;5;183m")
"""The escapes that begin colored backgrounds, in turn."""

PLAIN = "\x1b[0m"
"""The escape that ends a color."""

_COLORED_CONSOLES = ("WT_SESSION", "TERM", "TERM_PROGRAM", "ANSICON", "ConEmuANSI")
"""Variables that terminals on Windows set. Its older console writes the escapes as text."""


def shows_colors() -> bool:
    """Return whether standard output is a terminal that shows colors, and the user wants them."""
    if sys.stdout is None or not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return False
    return os.name != "nt" or any(map(os.environ.get, _COLORED_CONSOLES))


def table(rows: Sequence[Sequence[str]], names: int = 1) -> str:
    r"""Return rows as lines. The first columns, `names` of them, are aligned to the left.

    >>> table([("model", "ids"), ("a", "1,000")])
    'model    ids\na      1,000\n'
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(
        "  ".join(
            cell.ljust(width) if place < names else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + "\n"
        for row in rows
    )


def command_line(words: Sequence[str]) -> str:
    r"""Return words as a command for the shell of this system.

    >>> command_line(["bpetite", "train"])
    'bpetite train'
    """
    if os.name != "nt":
        return shlex.join(words)
    # cmd.exe takes only double quotes; a pattern may have its other special characters.
    return " ".join(word if _SAFE_WORD.fullmatch(word) else _in_quotes(word) for word in words)


_SAFE_WORD = re.compile(r"[\w\\/:.=+,~-]+")


def _in_quotes(word: str) -> str:
    r"""Return a word in double quotes, as programs of Windows read it.

    >>> print(_in_quotes('a "b"'), _in_quotes("C:\\a b\\"))
    "a \"b\"" "C:\a b\\"
    """
    return '"' + re.sub(r'(\\*)(["]|$)', lambda m: m[1] * 2 + ('\\"' if m[2] else ""), word) + '"'


def say(message: str) -> None:
    """Print one line to standard error; ignore a closed standard error."""
    try:
        # A literal in a command may have several spaces.
        print("bpetite:", re.sub(r"\s*\n\s*", " ", message), file=sys.stderr, flush=True)
    except OSError:
        silence_stderr()


def silence_stderr() -> None:
    """Discard all further output to standard error."""
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the end


def check_output(path: str, replace: bool) -> None:
    """Refuse an output file that could not be written after the work. Raises OSError."""
    output = Path(os.path.realpath(path))  # a link stays; its target is written
    folder = os.path.dirname(path) or "."
    if path.endswith(("/", os.sep)) or (output.exists() and not output.is_file()):
        raise OSError(f"{path}: only a file can be replaced")
    if not output.parent.is_dir():
        raise OSError(f"{path}: the folder {folder} does not exist")
    if output.exists() and not replace:
        raise OSError(f"{path}: exists; --force replaces it")
    check_target(path, replace)
    try:
        import tempfile  # slow to import, and rarely needed

        tempfile.TemporaryFile(dir=output.parent).close()
    except OSError:
        raise OSError(f"{path}: the folder {folder} is not writable") from None
