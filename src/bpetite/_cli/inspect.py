"""The verb `inspect`: what a vocabulary is made of, and the tokens of a text."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterator

from bpetite import Tokenizer
from bpetite._cli.common import add_model, load, read_text, say, text_argument, write
from bpetite._web.display import Group, groups, pattern_names
from bpetite.formats import FORMATS, recognise

HELP = "show the figures of a vocabulary or, with a text, its tokens side by side"
EXAMPLE = 'bpetite inspect --model model.json --text "Hello world"'

_LONGEST_TOKENS = 10  # rows
_BACKGROUNDS = ("\x1b[30;48;5;152m", "\x1b[30;48;5;223m", "\x1b[30;48;5;183m")
_SPECIAL = "\x1b[7m"
_PLAIN = "\x1b[0m"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument("--text", "-t", metavar="TEXT", help="the text to show the tokens of")
    inputs.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="a UTF-8 file to show the tokens of; - is standard input",
    )


def run(options: argparse.Namespace) -> None:
    """Write the tokens of the text or, without a text, the figures of the vocabulary."""
    tokenizer = load(options)
    if options.text is not None:
        write(_tokens(tokenizer, text_argument(options.text)))
    elif options.file is not None:
        write(_tokens(tokenizer, read_text(options.file)))
    else:
        if _is_input_redirected():
            say("standard input is not read; FILE - shows the tokens of its text")
        write(_figures(tokenizer, recognise(options.model) or FORMATS[0]))


def _is_input_redirected() -> bool:
    """Tell whether standard input is a pipe, or a file that is not empty."""
    try:
        status = os.fstat(sys.stdin.fileno())
    except (AttributeError, OSError):  # standard input is closed, or not a file of the system
        return False
    return stat.S_ISFIFO(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_size > 0)


def _figures(tokenizer: Tokenizer, format: str) -> str:
    special_ids = set(tokenizer.special_tokens.values())
    tokens = [tokenizer.token_bytes(id) for id in tokenizer.ids if id not in special_ids]
    longest = sorted(tokens, key=lambda token: (-len(token), token))[:_LONGEST_TOKENS]
    mean = sum(map(len, tokens)) / len(tokens)
    parts = sum(token.decode("utf-8", "ignore").encode("utf-8") != token for token in tokens)
    special = ", ".join(
        f"{_visible(literal)} = {id}" for literal, id in tokenizer.special_tokens.items()
    )
    rows = [
        ("format", format),
        ("fingerprint", tokenizer.fingerprint),
        ("ids in use", f"{tokenizer.vocab_size:,}"),
        ("merges", f"{len(tokenizer.merges):,}"),
        ("special tokens", special or "none"),
        ("highest id + 1", f"{tokenizer.n_vocab:,}"),
        ("mean length", f"{mean:.2f} bytes"),
        ("part of a character", f"{parts:,} tokens ({parts / len(tokens):.1%})"),
        *_pattern_rows(tokenizer),
        ("longest tokens", _token(longest[0])),
        *(("", _token(token)) for token in longest[1:]),
    ]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows)


def _pattern_rows(tokenizer: Tokenizer) -> Iterator[tuple[str, str]]:
    """Yield each pattern, after its names if it has any."""
    label = "pattern"
    for pattern in (tokenizer.pattern, *tokenizer.more_patterns):
        if names := pattern_names(pattern):
            yield label, " or ".join(names)
            label = ""
        yield label, pattern
        label = "then by"
    if not tokenizer.lossless:
        yield "normal form", "C, of the text before it is split"


def _token(token: bytes) -> str:
    return f"{len(token):>4} bytes  {token.decode('utf-8', 'backslashreplace')!r}"


def _tokens(tokenizer: Tokenizer, text: str) -> str:
    """Return the tokens of a text side by side, then the ids and bytes of each group."""
    found = list(groups(tokenizer, text))
    if sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        view = "".join(
            f"{_SPECIAL if group.special else _BACKGROUNDS[i % len(_BACKGROUNDS)]}"
            f"{_visible(group.text)}{_PLAIN}" + "\n" * group.text.count("\n")
            for i, group in enumerate(found)
        )
    else:
        view = "|".join(_visible(group.text) for group in found)
    count = sum(len(group.ids) for group in found)
    size = len(text.encode("utf-8"))
    ratio = f", {size / count:.2f} bytes per token" if count else ""
    lines = [view, "", *map(_row, found), f"{count} tokens, {size} bytes{ratio}"]
    return "\n".join(lines) + "\n"


def _row(group: Group) -> str:
    ids = " ".join(map(str, group.ids))
    return f"{ids:>8}  {_visible(group.text)}  ({group.text.encode('utf-8').hex(' ')})"


def _visible(text: str) -> str:
    """Replace invisible characters, except the space, by their escapes."""
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )
