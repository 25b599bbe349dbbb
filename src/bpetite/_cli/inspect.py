"""The verb `inspect`: what a vocabulary is made of, and the tokens and merges of a text."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any

from bpetite import Tokenizer
from bpetite._cli.common import (
    COLORS,
    PLAIN,
    add_model,
    load,
    read_text,
    say,
    shows_colors,
    text_argument,
    write,
)
from bpetite._web.display import Group, groups, pattern_names
from bpetite.analysis import ExplainedPiece, explain, merge_ids
from bpetite.analysis._explain import MAX_PIECE_BYTES
from bpetite.analysis._pipeline import pipeline_of
from bpetite.formats import FORMATS, recognise
from bpetite.formats._model_names import model_path

HELP = "show the figures, tokens or merges of a vocabulary, or the tokens or merges of a text"
EXAMPLE = """\
bpetite inspect --model model.json --text "Hello world"
bpetite inspect --model model.json --merges"""

_LONGEST_TOKENS = 10  # rows
_MAX_STATE_IDS = 40  # of a piece after a step; longer pieces would make the table quadratic
_STEP_HEADS = ("step", "pair", "rank", "id", "bytes", "best pair that lost", "the piece after it")
_KINDS = {
    "whole": ": a token that needs no merge",
    "special": ": a special token",
    "long": f": longer than {MAX_PIECE_BYTES:,} bytes, too long for steps",
}
_SPECIAL = "\x1b[7m"


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
    inputs.add_argument(
        "--tokens", action="store_true", help="list all tokens: id, text, and bytes"
    )
    inputs.add_argument(
        "--merges",
        action="store_true",
        help="list all merges: rank, left id, right id, and the id, text and bytes of the token",
    )
    parser.add_argument("--json", action="store_true", help="write a JSON object instead")


def run(options: argparse.Namespace) -> None:
    """Write the tokens of the text; without a text, the tokens or the figures of the vocabulary."""
    tokenizer = load(options)
    if options.steps is not None:
        steps = text_argument(options.steps)
        write(_steps_as_json(tokenizer, steps) if options.json else _steps(tokenizer, steps))
        return
    if options.text is not None or options.file is not None:
        is_file = options.text is None
        text = read_text(options.file) if is_file else text_argument(options.text)
        write(_text_as_json(tokenizer, text) if options.json else _tokens(tokenizer, text))
        return
    if _is_input_redirected():
        say("standard input is not read; FILE - shows the tokens of its text")
    if options.tokens or options.merges:
        rows = _rows_of_tokens(tokenizer) if options.tokens else _rows_of_merges(tokenizer)
        name = "tokens" if options.tokens else "merges"
        write(_dumps({name: [*rows]}) if options.json else _listed(rows))
        return
    path = model_path(options.model)
    format = "tiktoken" if path is None else recognise(path) or FORMATS[0]
    write(_dumps(_values(tokenizer, format)) if options.json else _figures(tokenizer, format))


def _rows_of_tokens(tokenizer: Tokenizer) -> Iterator[dict[str, Any]]:
    special_ids = set(tokenizer.special_tokens.values())
    for id in tokenizer.ids:
        yield {"id": id, **_row_of(tokenizer.token_bytes(id)), "special": id in special_ids}


def _rows_of_merges(tokenizer: Tokenizer) -> Iterator[dict[str, Any]]:
    """Yield each merge in the order of ranks: the ids of its two parts, and its token."""
    merges = zip(tokenizer.merges, merge_ids(tokenizer), strict=True)
    for rank, ((left, right), id) in enumerate(merges):
        row = _row_of(tokenizer.token_bytes(left) + tokenizer.token_bytes(right))
        yield {"rank": rank, "left": left, "right": right, "id": id, **row}


def _row_of(token: bytes) -> dict[str, str]:
    """Return the bytes of a token in hexadecimal, and as text with escapes."""
    return {"bytes": token.hex(), "text": token.decode("utf-8", "backslashreplace")}


def _listed(rows: Iterator[dict[str, Any]]) -> str:
    """Return rows as lines of numbers, then the bytes and the text of the token."""
    return "".join(
        " ".join(f"{value:>7}" for value in row.values() if type(value) is int)
        + f"  {row['text']!r}  ({bytes.fromhex(row['bytes']).hex(' ')})"
        + ("  special" if row.get("special") else "")
        + "\n"
        for row in rows
    )


def _text_as_json(tokenizer: Tokenizer, text: str) -> str:
    """Return the tokens of a text as JSON; tokens that share a character are one item."""
    found = [{"ids": group.ids, "text": group.text} for group in groups(tokenizer, text)]
    count = sum(len(group["ids"]) for group in found)
    return _dumps({"tokens": count, "bytes": len(text.encode("utf-8")), "groups": found})


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _values(tokenizer: Tokenizer, format: str) -> dict[str, Any]:
    figures, pipeline = _Figures(tokenizer), pipeline_of(tokenizer)
    return {
        "format": format,
        "fingerprint": tokenizer.fingerprint,
        "ids": len(tokenizer.ids),
        "vocab_size": tokenizer.vocab_size,
        "merges": len(tokenizer.merges),
        "special_tokens": dict(tokenizer.special_tokens),
        "n_vocab": tokenizer.n_vocab,
        "mean_bytes": figures.mean_bytes,
        "partial_tokens": figures.partial,
        "patterns": tokenizer.patterns,
        "split_by": "native" if pipeline.regex_reason is None else "regex",
        "stages": dict(pipeline.rows),
        "lossless": tokenizer.lossless,
        "longest_tokens": [*map(_row_of, figures.longest)],
    }


def _is_input_redirected() -> bool:
    """Return whether standard input is a pipe, or a file that is not empty."""
    try:
        status = os.fstat(sys.stdin.fileno())
    except (AttributeError, OSError):  # standard input is closed, or not a file of the system
        return False
    return stat.S_ISFIFO(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_size > 0)


class _Figures:
    """The figures of the ordinary tokens of a vocabulary."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        special_ids = set(tokenizer.special_tokens.values())
        tokens = [tokenizer.token_bytes(id) for id in tokenizer.ids if id not in special_ids]
        self.longest = sorted(tokens, key=lambda token: (-len(token), token))[:_LONGEST_TOKENS]
        self.mean_bytes = sum(map(len, tokens)) / len(tokens)
        self.partial = sum(
            token.decode("utf-8", "ignore").encode("utf-8") != token for token in tokens
        )
        self.partial_share = self.partial / len(tokens)


def _figures(tokenizer: Tokenizer, format: str) -> str:
    figures = _Figures(tokenizer)
    special = ", ".join(
        f"{_visible(literal)} = {id}" for literal, id in tokenizer.special_tokens.items()
    )
    rows = [
        ("format", format),
        ("fingerprint", tokenizer.fingerprint),
        ("ids in use", f"{len(tokenizer.ids):,}"),
        ("merges", f"{len(tokenizer.merges):,}"),
        ("special tokens", special or "none"),
        ("highest id + 1", f"{tokenizer.n_vocab:,}"),
        ("mean length", f"{figures.mean_bytes:.2f} bytes"),
        ("part of a character", f"{figures.partial:,} tokens ({figures.partial_share:.1%})"),
        *_pattern_rows(tokenizer),
        ("longest tokens", _token(figures.longest[0])),
        *(("", _token(token)) for token in figures.longest[1:]),
    ]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows)


def _pattern_rows(tokenizer: Tokenizer) -> Iterator[tuple[str, str]]:
    """Yield each pattern, after its names if it has any."""
    label = "pattern"
    for pattern in tokenizer.patterns:
        if names := pattern_names(pattern):
            yield label, " or ".join(names)
            label = ""
        yield label, pattern
        label = "then by"
    reason, rows = pipeline_of(tokenizer)
    yield "split by", "the native engine" if reason is None else f"regex: {reason}"
    yield from rows


def _token(token: bytes) -> str:
    return f"{len(token):>4} bytes  {token.decode('utf-8', 'backslashreplace')!r}"


def _tokens(tokenizer: Tokenizer, text: str) -> str:
    """Return the tokens of a text side by side, then the ids and bytes of each group."""
    found = list(groups(tokenizer, text))
    if shows_colors():
        view = "".join(
            f"{_SPECIAL if group.special else COLORS[i % len(COLORS)]}"
            f"{_visible(group.text)}{PLAIN}" + "\n" * group.text.count("\n")
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
    """Return the steps of each piece of a text. Equal pieces are written once."""
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


def _steps_as_json(tokenizer: Tokenizer, text: str) -> str:
    """Return the steps of each piece of a text as JSON."""
    pieces = [
        {
            "text": piece.text,
            "kind": piece.kind,
            "ids": piece.ids,
            "byte_ids": piece.byte_ids,
            "steps": [
                {
                    "pair": step.pair,
                    "rank": step.rank,
                    "id": step.id,
                    **_row_of(step.token),
                    "lost": step.lost,
                    "lost_rank": step.lost_rank,
                }
                for step in piece.steps
            ],
        }
        for piece in explain(tokenizer, text)
    ]
    return _dumps({"pieces": pieces})


def _step_rows(tokenizer: Tokenizer, piece: ExplainedPiece) -> str:
    if piece.kind != "merged":
        return ""

    def shown(pair: tuple[int, int]) -> str:
        return " + ".join(_token_text(tokenizer.token_bytes(id), quoted=True) for id in pair)

    def joined(ids: tuple[int, ...]) -> str:
        tokens = map(tokenizer.token_bytes, ids[:_MAX_STATE_IDS])
        # At the edge of a column, a space would be lost.
        texts = [_token_text(token, quoted=token != token.strip(b" ")) for token in tokens]
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
