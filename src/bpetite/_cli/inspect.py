"""The verb `inspect`: what a vocabulary is made of, and the tokens and merges of a text."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterator

from bpetite import Tokenizer
from bpetite._cli.common import add_model, load, read_text, say, text_argument, write
from bpetite._web.display import Group, groups, pattern_names
from bpetite.analysis import MAX_PIECE_BYTES, ExplainedPiece, explain
from bpetite.formats import FORMATS, recognise

HELP = "show the figures of a vocabulary or, with a text, its tokens or its merges"
EXAMPLE = 'bpetite inspect --model model.json --text "Hello world"'

_LONGEST_TOKENS = 10  # rows
_MAX_STATE_IDS = 40  # of a piece after a step; longer pieces would make the table quadratic
_STEP_HEADS = ("step", "pair", "rank", "id", "bytes", "best pair that lost", "the piece after it")
_KINDS = {
    "whole": ": a token that needs no merge",
    "special": ": a special token",
    "long": f": longer than {MAX_PIECE_BYTES:,} bytes, too long for steps",
}
_BACKGROUNDS = ("\x1b[30;48;5;152m", "\x1b[30;48;5;223m", "\x1b[30;48;5;183m")
_SPECIAL = "\x1b[7m"
_PLAIN = "\x1b[0m"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument("--text", "-t", metavar="TEXT", help="the text to show the tokens of")
    inputs.add_argument(
        "--steps",
        metavar="TEXT",
        help="the text to show the merges of: each step of each piece, and the pair that lost",
    )
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
    elif options.steps is not None:
        write(_steps(tokenizer, text_argument(options.steps)))
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


def _steps(tokenizer: Tokenizer, text: str) -> str:
    """Return the steps of each piece of a text; those of an equal piece are written once."""
    blocks: list[str] = []
    seen: set[str] = set()
    for piece in explain(tokenizer, text):
        head = f"{piece.text!r} = {' '.join(map(str, piece.ids))}"
        if piece.text in seen:
            blocks.append(f"{head}, as above\n")
        else:
            blocks.append(f"{head}{_KINDS.get(piece.kind, '')}\n{_step_rows(tokenizer, piece)}")
        seen.add(piece.text)
    return "\n".join(blocks)


def _step_rows(tokenizer: Tokenizer, piece: ExplainedPiece) -> str:
    if piece.kind != "merged":
        return ""

    def shown(pair: tuple[int, int]) -> str:
        return " + ".join(_token_text(tokenizer.token_bytes(id), quoted=True) for id in pair)

    def joined(ids: tuple[int, ...]) -> str:
        texts = [_token_text(tokenizer.token_bytes(id)) for id in ids[:_MAX_STATE_IDS]]
        return "|".join([*texts, "..."] if len(ids) > _MAX_STATE_IDS else texts)

    states = piece.states()
    rows = [_STEP_HEADS, ("", "", "", "", "", "", joined(next(states)))]
    for number, (step, ids) in enumerate(zip(piece.steps, states, strict=True), 1):
        lost = f"{shown(step.lost)} ({step.lost_rank})" if step.lost else "none"
        figures = (str(number), shown(step.pair), str(step.rank), str(step.id))
        rows.append((*figures, step.token.hex(" "), lost, joined(ids)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join("  " + "  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)


def _token_text(token: bytes, quoted: bool = False) -> str:
    """Return the text of a token, or the bytes of one that is only a part of a character."""
    try:
        text = token.decode("utf-8")
        return repr(text) if quoted else _visible(text)
    except UnicodeDecodeError:
        return f"<{token.hex(' ')}>"


def _visible(text: str) -> str:
    """Replace invisible characters, except the space, by their escapes."""
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in text
    )
