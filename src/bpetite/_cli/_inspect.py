"""The verb `inspect`: what a vocabulary is made of, and how it cuts a text."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

from bpetite import Tokenizer
from bpetite._cli._common import (
    Verbs,
    add_model,
    add_verb,
    load,
    pattern_names,
    text_argument,
    write,
)
from bpetite._cli._groups import Group, groups
from bpetite.formats import FORMATS, recognise

_LONGEST = 10  # tokens to show
_BACKGROUNDS = ("\x1b[30;48;5;152m", "\x1b[30;48;5;223m", "\x1b[30;48;5;183m")
_SPECIAL = "\x1b[7m"
_PLAIN = "\x1b[0m"


def add_to(verbs: Verbs) -> None:
    """Add this verb to the parser."""
    parser = add_verb(
        verbs,
        "inspect",
        "show the figures of a vocabulary or, with a text, its tokens side by side",
        "bpetite train README.md --vocab-size 512 --output model.json --force\n"
        'bpetite inspect --model model.json --text "Hello world"',
    )
    add_model(parser)
    parser.add_argument("--text", "-t", metavar="TEXT", help="the text to show the tokens of")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    tokenizer = load(options)
    if options.text is None:
        write(_figures(tokenizer, recognise(options.model) or FORMATS[0]))
    else:
        write(_tokens(tokenizer, text_argument(options.text)))


def _figures(tokenizer: Tokenizer, format: str) -> str:
    tokens = list(_ordinary_tokens(tokenizer))
    longest = sorted(tokens, key=lambda token: (-len(token), token))[:_LONGEST]
    mean = sum(map(len, tokens)) / len(tokens)
    parts = sum(not _is_text(token) for token in tokens)
    special = ", ".join(
        f"{_visible(literal)} = {id}" for literal, id in tokenizer.special_tokens.items()
    )
    rows = [
        ("format", format),
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


def _ordinary_tokens(tokenizer: Tokenizer) -> Iterator[bytes]:
    """Yield the tokens that are not special."""
    special_ids = set(tokenizer.special_tokens.values())
    return (tokenizer.token_bytes(id) for id in tokenizer.ids if id not in special_ids)


def _pattern_rows(tokenizer: Tokenizer) -> Iterator[tuple[str, str]]:
    """Yield the name of each pattern, if it has one, and what it is."""
    label = "pattern"
    for pattern in (tokenizer.pattern, *tokenizer.more_patterns):
        if names := pattern_names(pattern):
            yield label, " or ".join(names)
            label = ""
        yield label, pattern
        label = "then by"
    if not tokenizer.lossless:
        yield "normal form", "C, of the text that is cut"


def _is_text(token: bytes) -> bool:
    try:
        token.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _token(token: bytes) -> str:
    return f"{len(token):>4} bytes  {token.decode('utf-8', 'backslashreplace')!r}"


def _tokens(tokenizer: Tokenizer, text: str) -> str:
    """Return the tokens of a text side by side, then their ids and bytes, a group a line."""
    shown = list(groups(tokenizer, text))
    if sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        view = "".join(
            f"{_SPECIAL if group.special else _BACKGROUNDS[i % len(_BACKGROUNDS)]}"
            f"{_visible(group.text)}{_PLAIN}{_line_ends(group.text)}"
            for i, group in enumerate(shown)
        )
    else:
        view = "|".join(_visible(group.text) for group in shown)
    count = sum(len(group.ids) for group in shown)
    size = len(text.encode("utf-8"))
    each = f", {size / count:.2f} bytes a token" if count else ""
    lines = [view, "", *map(_row, shown), f"{count} tokens, {size} bytes{each}"]
    return "\n".join(lines) + "\n"


def _row(group: Group) -> str:
    ids = " ".join(map(str, group.ids))
    return f"{ids:>8}  {_visible(group.text)}  ({group.text.encode('utf-8').hex(' ')})"


def _visible(text: str) -> str:
    """Show control characters and other invisible ones by their escapes; a space is a space."""
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )


def _line_ends(text: str) -> str:
    return "\n" * text.count("\n")
