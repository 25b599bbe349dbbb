"""The verb `convert`: a vocabulary in one format in, the same vocabulary in another out."""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bpetite import PATTERNS, Tokenizer
from bpetite._cli import common
from bpetite._web.display import pattern_names
from bpetite.analysis import Verifier
from bpetite.formats import FORMATS, format_of_path, recognise
from bpetite.formats._model_names import model_path
from bpetite.formats._reference import first_difference

HELP = "write a vocabulary in another format, unless that would change an id"
EXAMPLE = "bpetite convert model.json tokenizer.json --force --verify README.md"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="IN", help=common.ANY_MODEL)
    parser.add_argument("output", metavar="OUT", help="the file or model folder to write")
    parser.add_argument(
        "--from",
        dest="input_format",
        choices=FORMATS,
        help="the format of IN (default: recognised from its content)",
    )
    parser.add_argument(
        "--to",
        dest="output_format",
        choices=[each for each in FORMATS if each not in ("tekken", "sentencepiece")],
        help="the format of OUT (default: tiktoken if the name ends in .tiktoken, gpt2 for "
        "vocab.json, huggingface for tokenizer.json or an existing folder, else bpetite)",
    )
    parser.add_argument(
        "--pattern",
        metavar="PATTERN",
        help="the pattern that splits text into pieces, if the format of IN does not record it "
        f"(tiktoken, gpt2): {', '.join(PATTERNS)}, or a regular expression",
    )
    parser.add_argument(
        "--special-token",
        metavar="LITERAL=ID",
        type=_special_token,
        action="append",
        help="a literal that is never split, and its id, for the same formats; repeatable",
    )
    parser.add_argument(
        "--vocab-size",
        metavar="N",
        type=common.number(256, 2**32),
        help="the number of bytes and merges of lowest rank to keep; special tokens come on top",
    )
    parser.add_argument(
        "--add-special-token",
        metavar="LITERAL[=ID]",
        type=_new_special_token,
        action="append",
        default=[],
        help="a new literal that is never split, and its id (default: the next one above all "
        "others); repeatable",
    )
    parser.add_argument("--force", action="store_true", help="replace files of OUT that exist")
    parser.add_argument(
        "--verify",
        metavar="FILE",
        nargs="+",
        help="write OUT only if these UTF-8 texts have the same ids with IN, with OUT, and with "
        "the reference libraries of both formats (tiktoken, tokenizers, sentencepiece) that are "
        "installed; - is standard input",
    )


def _special_token(argument: str) -> tuple[str, int]:
    literal, _, id = argument.rpartition("=")
    if not literal:
        raise argparse.ArgumentTypeError(f"must be LITERAL=ID, got {argument[:40]!r}")
    try:
        return literal, common.parse_id(id)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not an id: {id[:40]!r}") from None


def _new_special_token(argument: str) -> tuple[str, int | None]:
    """Return a literal, and its id if the argument ends in one.

    >>> _new_special_token("<a=b>"), _new_special_token("<a=b>=300")
    (('<a=b>', None), ('<a=b>', 300))
    """
    id = argument.rpartition("=")[2]
    is_id = id != argument and id.isascii() and id.isdigit()
    return _special_token(argument) if is_id else (argument, None)


def run(options: argparse.Namespace) -> None:
    """Write OUT after a trial that shows what its format loses."""
    if options.vocab_size is not None and options.verify:
        options.parser.error("--verify compares ids with IN, but --vocab-size changes them")
    output, format = options.output, options.output_format or format_of_path(options.output)
    if format == "huggingface":
        output = str(Path(output))  # without a separator at the end
    else:
        common.check_output(output, options.force)
    path = model_path(options.input)
    if path is None:
        for option in ("pattern", "special_token", "input_format"):
            if getattr(options, option) is not None:
                raise ValueError(
                    f"{options.input}: tiktoken's name decides the format, the pattern and the "
                    f"special tokens; leave out --from, --pattern and --special-token"
                )
        tokenizer = Tokenizer.from_tiktoken(options.input)
    else:
        tokenizer = Tokenizer.load(
            path,
            format=options.input_format,
            pattern=None if options.pattern is None else common.text_argument(options.pattern),
            special_tokens=_special_tokens(options.special_token),
        )
    given, tokenizer = tokenizer, _changed(tokenizer, options)
    with _trial_of(output) as trial:
        tokenizer.save(trial, format=format)
        files = _files(trial, output)
        if os.path.exists(output) or not os.path.isdir(trial):
            for file in files:
                common.check_output(file, options.force)
        read_back, notes = _read_back(tokenizer, trial, format)
        if options.verify:
            source = _Side(options.input, given, path or options.input, options.input_format)
            _verify(options.verify, source, _Side(output, read_back, trial, format))
    with warnings.catch_warnings(action="ignore"):  # the trial has shown them
        tokenizer.save(output, options.force, format=format)
    parts = [f"{format}, {len(tokenizer.ids):,} ids", *notes, *_losses(tokenizer, read_back)]
    common.say(f"wrote {' and '.join(files)}: {'; '.join(parts)}")


def _changed(tokenizer: Tokenizer, options: argparse.Namespace) -> Tokenizer:
    if options.vocab_size is not None:
        tokenizer = tokenizer.with_vocab_size(options.vocab_size)
    new = [(common.text_argument(literal), id) for literal, id in options.add_special_token]
    if chosen := _special_tokens((literal, id) for literal, id in new if id is not None):
        tokenizer = tokenizer.with_special_tokens(chosen)
    if literals := [literal for literal, id in new if id is None]:
        tokenizer = tokenizer.with_special_tokens(literals)
    return tokenizer


def _special_tokens(given: Iterable[tuple[str, int]] | None) -> dict[str, int] | None:
    if given is None:
        return None
    special_tokens: dict[str, int] = {}
    for argument, id in given:
        literal = common.text_argument(argument)
        if special_tokens.setdefault(literal, id) != id:
            raise ValueError(f"the special token {literal!r} has two ids")
    return special_tokens


# Writing


@contextmanager
def _trial_of(output: str) -> Iterator[str]:
    """Yield a temporary path for OUT on the same disk; errors name the real path."""
    is_folder = os.path.isdir(output)
    name = "model" if is_folder else os.path.basename(output)
    folder = output if is_folder else os.path.dirname(output) or "."
    if not os.path.isdir(folder):
        raise OSError(f"{output}: the folder {folder} does not exist")
    try:
        temporary = tempfile.TemporaryDirectory(prefix=".bpetite-", dir=folder)
    except OSError:
        raise OSError(f"{output}: the folder {folder} is not writable") from None
    with temporary as path:
        trial = os.path.join(path, name)
        if is_folder:
            os.mkdir(trial)
        try:
            yield trial
        except ValueError as error:
            raise ValueError(str(error).replace(trial, output)) from None
        except OSError as error:  # such as a full disk
            if isinstance(error.filename, str):
                error.filename = error.filename.replace(trial, output, 1)
            raise


def _files(trial: str, output: str) -> list[str]:
    is_folder = os.path.isdir(trial)
    names = os.listdir(trial if is_folder else os.path.dirname(trial))
    folder = output if is_folder else os.path.dirname(output)
    return [os.path.join(folder, name) for name in sorted(names)]


def _read_back(tokenizer: Tokenizer, path: str, format: str) -> tuple[Tokenizer, list[str]]:
    """Load the written files; return the tokenizer, and notes on what another load needs."""
    if format != "tiktoken":
        notes = ["these files do not record the pattern, which is GPT-2's"]
        return Tokenizer.load(path, format=format), notes if format == "gpt2" else []
    missing = "this file does not record the pattern and the special tokens"
    (pattern,), special_tokens = tokenizer.patterns, tokenizer.special_tokens
    with suppress(ValueError):
        read_back = Tokenizer.load(path, format=format)
        if (read_back.patterns, read_back.special_tokens) == (tokenizer.patterns, special_tokens):
            return read_back, [f"{missing}, but bpetite knows both for this public vocabulary"]
    read_back = Tokenizer.load(path, format=format, pattern=pattern, special_tokens=special_tokens)
    options = ["--pattern", *(pattern_names(pattern) or [pattern])[:1]]
    for literal, id in special_tokens.items():
        options += ["--special-token", f"{literal}={id}"]
    return read_back, [f"{missing}; to convert it again, add {common.command_line(options)}"]


def _losses(tokenizer: Tokenizer, read_back: Tokenizer) -> Iterator[str]:
    """Yield what the format cannot record, although all texts keep their ids."""
    if lost := [name for name in tokenizer.settings if name not in read_back.settings]:
        yield f"lost: {', '.join(lost)} of the model folder"
    both = (tokenizer, read_back)
    added = [each.encode("", add_special_tokens=True) for each in both]
    if added[0] != added[1]:
        yield "lost: the ids that add_special_tokens adds"
    ids = list(tokenizer.special_tokens.values())
    kept = [each.decode(ids, skip_special_tokens=True) for each in both]
    if kept[0] != kept[1]:
        yield "lost: the special tokens that skip_special_tokens keeps"
    literals = list(tokenizer.special_tokens)
    ordinary = [[each.encode_ordinary(literal) for literal in literals] for each in both]
    if ordinary[0] != ordinary[1]:
        yield "lost: the added tokens that count in ordinary text"


# Verifying


class _Side:
    """IN or OUT: a tokenizer of bpetite, and the reference library of its file's format."""

    def __init__(self, name: str, tokenizer: Tokenizer, path: str, format: str | None) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self._verifier = Verifier(tokenizer, path, format)
        self.library = self._verifier.reference_library
        if self.library is None and (format or recognise(path)) == "tiktoken":
            common.say(f"{name}: not compared with tiktoken, which drops text without a match")
        self.missing: str | None = None  # the library, unless it is installed
        try:
            self._verifier.difference("")
        except ImportError:
            self.library, self.missing = None, self.library

    def __str__(self) -> str:
        """Return the name, and the libraries whose ids are compared."""
        return f"{self.name} (bpetite{f', {self.library}' if self.library else ''})"

    def difference(self, text: str) -> str | None:
        """Return the first difference from the reference library, if that is installed."""
        found = None if self.missing else self._verifier.difference(text)
        return f"{found} (both with {self.name})" if found else None


def _verify(names: Iterable[str], source: _Side, target: _Side) -> None:
    """Compare all ids of the texts, and report. Raises ValueError for the first difference."""
    for library in dict.fromkeys(filter(None, (source.missing, target.missing))):
        common.say(f"{library} is not installed: its ids are not compared")
    size = count = 0
    is_sliced = False
    for name in names:
        text = common.read_text(name)
        for start, slice in common.slices(text):
            ids, ids_of_target = (side.tokenizer.encode(slice) for side in (source, target))
            difference = (
                source.difference(slice)
                or first_difference(
                    slice,
                    (source.name, ids, source.tokenizer.token_bytes),
                    (target.name, ids_of_target, target.tokenizer.token_bytes),
                )
                or target.difference(slice)
            )
            if difference:
                line = text.count("\n", 0, start) + 1
                place = f"in the slice from line {line} on, " if start else ""
                raise ValueError(f"{common.shown(name)}: {place}{difference}")
            size += len(slice.encode("utf-8"))
            count += len(ids)
            is_sliced = is_sliced or len(slice) < len(text)
    slices = ", in slices that end with a line" if is_sliced else ""
    common.say(
        f"compared {source} and {target}: {size:,} bytes, {count:,} ids{slices}, no difference"
    )
