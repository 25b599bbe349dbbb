"""The verb `convert`: a vocabulary in one format in, the same in another out."""

from __future__ import annotations

import argparse
import os
import shlex
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bpetite import PATTERNS, Tokenizer
from bpetite._cli._common import (
    ANY_MODEL,
    Verbs,
    add_verb,
    check_output,
    parse_id,
    pattern_names,
    read_text,
    say,
    shown,
    text_argument,
)
from bpetite.formats import FORMATS, Verifier, first_difference, format_of_path, recognise

# Characters that are compared at a time: a library that is held against needs a hundred times the
# memory of the text, and listens to Ctrl-C when it is done.
_SLICE = 1 << 18


def add_to(verbs: Verbs) -> None:
    """Add this verb to the parser."""
    parser = add_verb(
        verbs,
        "convert",
        "write a vocabulary in another format, unless that would change an id",
        "bpetite train README.md --vocab-size 512 --output model.json --force\n"
        "bpetite convert model.json tokenizer.json --overwrite --verify README.md",
    )
    parser.add_argument("input", metavar="IN", help=ANY_MODEL)
    parser.add_argument("output", metavar="OUT", help="the file, or model folder, to write")
    parser.add_argument(
        "--from",
        dest="input_format",
        choices=FORMATS,
        help="the format of IN (default: what its content tells)",
    )
    parser.add_argument(
        "--to",
        dest="output_format",
        choices=FORMATS,
        help="the format of OUT (default: tiktoken for a name that ends in .tiktoken, gpt2 for "
        "vocab.json, huggingface for tokenizer.json or a folder that exists, else bpetite)",
    )
    parser.add_argument(
        "--pattern",
        metavar="PATTERN",
        help="what cuts text into pieces, if IN is in a format that does not say it (tiktoken, "
        f"gpt2): {', '.join(PATTERNS)}, or a regular expression",
    )
    parser.add_argument(
        "--special-token",
        metavar="LITERAL=ID",
        type=_special_token,
        action="append",
        help="a literal that is never split, and its id, if IN is in such a format; repeatable",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the files of OUT that exist"
    )
    parser.add_argument(
        "--verify",
        metavar="FILE",
        nargs="+",
        help="texts in UTF-8, - being standard input, whose ids must be equal, or OUT is not "
        "written: those of IN and those of OUT, here and in the libraries that are home to their "
        "formats (tiktoken, tokenizers), where they are installed",
    )
    parser.set_defaults(run=_run)


def _special_token(argument: str) -> tuple[str, int]:
    literal, _, id = argument.rpartition("=")
    if not literal:
        raise argparse.ArgumentTypeError(f"must be LITERAL=ID, got {argument[:40]!r}")
    try:
        return literal, parse_id(id)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not an id: {id[:40]!r}") from None


def _run(options: argparse.Namespace) -> None:
    output, format = options.output, options.output_format or format_of_path(options.output)
    if format == "huggingface":
        output = str(Path(output))  # no separator at its end
    else:
        check_output(output, options.overwrite, "--overwrite")
    tokenizer = Tokenizer.load(
        options.input,
        format=options.input_format,
        pattern=None if options.pattern is None else text_argument(options.pattern),
        special_tokens=_special_tokens(options.special_token),
    )
    with _trial_of(output) as trial:
        with _said_warnings():
            tokenizer.save(trial, format=format)
        files = _files(trial, output)
        if os.path.exists(output) or not os.path.isdir(trial):
            for file in files:
                check_output(file, options.overwrite, "--overwrite")
        read_back, notes = _read_back(tokenizer, trial, format)
        if options.verify:
            source = _Side(options.input, tokenizer, options.input, options.input_format)
            _verify(options.verify, source, _Side(output, read_back, trial, format))
    with warnings.catch_warnings(action="ignore"):  # they are said
        tokenizer.save(output, options.overwrite, format=format)
    words = [f"{format}, {tokenizer.vocab_size:,} ids", *notes, *_losses(tokenizer, read_back)]
    say(f"wrote {' and '.join(files)}: {'; '.join(words)}")


def _special_tokens(given: Iterable[tuple[str, int]] | None) -> dict[str, int] | None:
    if given is None:
        return None
    special_tokens: dict[str, int] = {}
    for argument, id in given:
        literal = text_argument(argument)
        if special_tokens.setdefault(literal, id) != id:
            raise ValueError(f"the special token {literal!r} is given two ids")
    return special_tokens


# Writing


@contextmanager
def _trial_of(output: str) -> Iterator[str]:
    """Give the path of an OUT that will not stay, on the same disk; errors name the true one."""
    is_folder = os.path.isdir(output)
    name = "model" if is_folder else os.path.basename(output)
    beside = output if is_folder else os.path.dirname(output) or "."
    if not os.path.isdir(beside):
        raise OSError(f"{output}: the folder {beside} does not exist")
    try:
        folder = tempfile.TemporaryDirectory(prefix=".bpetite-", dir=beside)
    except OSError:
        raise OSError(f"{output}: the folder {beside} is not writable") from None
    with folder as path:
        trial = os.path.join(path, name)
        if is_folder:
            os.mkdir(trial)
        try:
            yield trial
        except ValueError as error:
            raise ValueError(str(error).replace(trial, output)) from None


def _files(trial: str, output: str) -> list[str]:
    """Return the paths of the files that OUT will have."""
    is_folder = os.path.isdir(trial)
    names = os.listdir(trial if is_folder else os.path.dirname(trial))
    folder = output if is_folder else os.path.dirname(output)
    return [os.path.join(folder, name) for name in sorted(names)]


@contextmanager
def _said_warnings() -> Iterator[None]:
    """Say what is warned of, a line each."""
    with warnings.catch_warnings(record=True, action="always", category=UserWarning) as caught:
        yield
    for warning in caught:
        say(" ".join(str(warning.message).split()))


def _read_back(tokenizer: Tokenizer, path: str, format: str) -> tuple[Tokenizer, list[str]]:
    """Load what was written; return it, and what is not in it that load needs."""
    if format == "gpt2":
        return Tokenizer.load(path, format=format), ["the pattern, GPT-2's, is not in them"]
    if format != "tiktoken":
        return Tokenizer.load(path, format=format), []
    missing = "the pattern and the special tokens are not in it"
    pattern, special_tokens = tokenizer.pattern, tokenizer.special_tokens
    with suppress(ValueError):
        read_back = Tokenizer.load(path, format=format)
        if (read_back.pattern, read_back.special_tokens) == (pattern, special_tokens):
            return read_back, [f"{missing}, but known of this vocabulary, which is public"]
    read_back = Tokenizer.load(path, format=format, pattern=pattern, special_tokens=special_tokens)
    options = ["--pattern", *(pattern_names(pattern) or [pattern])[:1]]
    for literal, id in special_tokens.items():
        options += ["--special-token", f"{literal}={id}"]
    return read_back, [f"{missing}; to convert it again, give {shlex.join(options)}"]


def _losses(tokenizer: Tokenizer, read_back: Tokenizer) -> Iterator[str]:
    """Yield what the format cannot say, though no id of a text depends on it."""
    if lost := [name for name in tokenizer.settings if name not in read_back.settings]:
        yield f"{', '.join(lost)} of the model folder: not in it"
    if _around(tokenizer) != _around(read_back):
        yield "what add_special_tokens puts around a text: not in it"
    if _kept(tokenizer) != _kept(read_back):
        yield "which special tokens skip_special_tokens keeps: not in it"


def _around(tokenizer: Tokenizer) -> list[int]:
    return tokenizer.encode("", add_special_tokens=True)


def _kept(tokenizer: Tokenizer) -> str:
    return tokenizer.decode(tokenizer.special_tokens.values(), skip_special_tokens=True)


# Verifying


class _Side:
    """IN or OUT: a tokenizer of bpetite, and the library that is home to the format of its file."""

    def __init__(self, name: str, tokenizer: Tokenizer, path: str, format: str | None) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self._verifier = Verifier(tokenizer, path, format)
        self.home_library = self._verifier.home_library
        self.missing = False
        try:
            self._verifier.difference("")
        except ImportError:
            self.missing = True
        if self.home_library is None and (format or recognise(path)) == "tiktoken":
            say(f"{name}: not compared with tiktoken, which drops what its pattern does not match")

    def __str__(self) -> str:
        """Its name, and what gives the ids that are compared."""
        library = f", {self.home_library}" if self.home_library and not self.missing else ""
        return f"{self.name} (bpetite{library})"

    def difference(self, text: str) -> str | None:
        """Return the first difference between the two, if both are there."""
        found = None if self.missing else self._verifier.difference(text)
        return f"{found} (both with {self.name})" if found else None


def _verify(names: Iterable[str], source: _Side, target: _Side) -> None:
    """Say that all ids of the texts are equal. Raises ValueError for the first that is not."""
    for library in dict.fromkeys(side.home_library for side in (source, target) if side.missing):
        say(f"{library} is not installed: not compared with it")
    size = count = 0
    is_cut = False
    for name in names:
        text = read_text(name)
        for start, slice in _slices(text):
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
                raise ValueError(f"{shown(name)}: {place}{difference}")
            size += len(slice.encode("utf-8"))
            count += len(ids)
            is_cut = is_cut or len(slice) < len(text)
    slices = ", in slices that end with a line" if is_cut else ""
    say(f"compared {source} and {target}: {size:,} bytes, {count:,} ids{slices}, no difference")


def _slices(text: str) -> Iterator[tuple[int, str]]:
    """Yield where each slice begins, and the slice: whole lines, if they are not too long."""
    start = 0
    while start < len(text):
        end = start + _SLICE
        if end < len(text):
            end = text.rfind("\n", start, end) + 1 or end
        yield start, text[start:end]
        start = end
