"""Random JSON Lines: valid lines of every shape, and lines with a few wrong bytes."""

from __future__ import annotations

import json
import random

NAMES = ["text", "text", "text", "id", "", "Text", "te", "texts", "é", "a" * 70, "\ud800"]
CHARACTERS = ['"', "\\", "/", "\n", "\t", "\0", "\x7f", "a", " ", "é", "你", "🙂", "\ufeff"]
SURROGATES = ["\ud83d", "\ude42", "\ud83d\ude42"]
SPACES = ["", "", "", "", " ", "\t", "\r", "  \t"]
ATOMS = [
    *("0", "-0", "7", "12.5", "-1e9", "1E+05", "0.0e-9", "123456789012345678901234567890"),
    *("true", "false", "null", "NaN", "Infinity", "-Infinity"),
]
WRONG = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"\r", b"\0", b"\x1f", b" ", b"0"),
    *(b"-", b".", b"e", b"u", b"\\u", b"\\ud83d", b"\xff", b"\x80", b"\xe9", b"\xed\xa0\x80"),
    *(b"\xef\xbb\xbf", b"\xf0\x9f\x99\x82", b"true", b'"text":', b"\\x", b"\\N"),
]
BLANK = [b"", b" ", b"\t\r", b"\xef\xbb\xbf", b"\x0c"]


def any_json_lines(rng: random.Random) -> bytes:
    """Return a few lines, most of them with a text in the field "text"."""
    lines = []
    for _ in range(rng.randrange(8)):
        line = _any_line(rng)
        for _ in range(rng.choice([0, 0, 0, 0, 1, 3])):
            at = rng.randrange(len(line) + 1)
            line = line[:at] + rng.choice([b"", *WRONG]) + line[at + rng.randrange(3) :]
        lines.append(line)
    return rng.choice([b"\n", b"\n", b"\r\n"]).join(lines) + rng.choice([b"", b"\n"])


def _any_line(rng: random.Random) -> bytes:
    if rng.random() < 0.1:
        return rng.choice(BLANK)
    mark = "\ufeff" if rng.random() < 0.05 else ""
    value = _any_value(rng, 0) if rng.random() < 0.05 else _any_object(rng, 0)
    return f"{mark}{_spaces(rng)}{value}{_spaces(rng)}".encode()


def _any_object(rng: random.Random, depth: int) -> str:
    members = [
        f"{_spaces(rng)}{_quoted(rng, rng.choice(NAMES))}{_spaces(rng)}:"
        f"{_spaces(rng)}{_any_value(rng, depth + 1)}{_spaces(rng)}"
        for _ in range(rng.randrange(5))
    ]
    if depth == 0 and rng.random() < 0.8:
        text = f"{_quoted(rng, 'text')}:{_spaces(rng)}{_quoted(rng, _any_text(rng))}"
        members.insert(rng.randrange(len(members) + 1), text)
    return f"{{{','.join(members) or _spaces(rng)}}}"


def _any_value(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if kind < 0.6 or depth > 5:
        return _quoted(rng, _any_text(rng))
    if kind < 0.8:
        return rng.choice(ATOMS)
    if kind < 0.9:
        return _any_object(rng, depth)
    values = [
        f"{_spaces(rng)}{_any_value(rng, depth + 1)}{_spaces(rng)}" for _ in range(rng.randrange(4))
    ]
    return f"[{','.join(values) or _spaces(rng)}]"


def _any_text(rng: random.Random) -> str:
    kinds = [*CHARACTERS, *SURROGATES] if rng.random() < 0.1 else CHARACTERS
    some = rng.sample(kinds, rng.randrange(1, 5))
    return "".join(
        rng.choice(some) * rng.choice([1, 1, 2, 3, rng.randrange(80)])
        for _ in range(rng.randrange(6))
    )


def _quoted(rng: random.Random, text: str) -> str:
    """Return a string of JSON in which each character has any of its spellings."""
    share = rng.choice([0, 0, 0.1, 1])
    parts = []
    for character in text:
        if rng.random() < share or "\ud800" <= character <= "\udfff":
            utf16 = character.encode("utf-16-be", "surrogatepass").hex()
            units = [utf16[at : at + 4] for at in range(0, len(utf16), 4)]
            parts += [f"\\u{unit.upper() if rng.random() < 0.5 else unit}" for unit in units]
        elif character == "/" and rng.random() < 0.5:
            parts.append("\\/")
        else:
            parts.append(json.dumps(character, ensure_ascii=False)[1:-1])
    return f'"{"".join(parts)}"'


def _spaces(rng: random.Random) -> str:
    return rng.choice(SPACES)
