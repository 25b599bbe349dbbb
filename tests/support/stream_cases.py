"""A table of streams: tokens, and the text of each step. Also vocabularies with these tokens.

Tests compare our streams with it, `scripts/bench` those of other libraries. It needs only bpetite.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from bpetite import Tokenizer
from bpetite._pretokenizer import GPT2_PATTERN
from bpetite._vocabulary import BYTE_COUNT, Pair, Vocabulary

END = "<|end|>"
REPLACED = "\ufffd"

# The table. Cases with one number belong together. Some numbers are tests instead of rows.
# `tokens` are hexadecimal bytes, divided by `|`; <|end|> is the special token. `texts` are the
# results of the steps, divided by `|`, and behind `/` the result of flush. There, `_` is an empty
# text, `R` a U+FFFD for bad bytes, and <hex> a character by its code point. `malformed` has the
# bytes of each R. `strict` tells where strict decoding raises: the step, and the slice of the bad
# bytes in the pending bytes and the token.


class Case(NamedTuple):
    name: str
    tokens: str
    texts: str
    malformed: str = ""
    strict: str = ""
    prompt: str = ""
    skip: bool = True


# fmt: off
CASES = [
    Case("01-two bytes", "C3 | A9", "_ | é / _"),
    Case("01-three bytes", "E4 | BD | A0", "_ | _ | 你 / _"),
    Case("01-four bytes", "F0 | 9F | 99 | 82", "_ | _ | _ | 🙂 / _"),
    Case("02-the end of one and the start of the next", "E5 AE | A2 E5 | 8D 95", "_ | 客 | 单 / _"),
    Case("03-whole text around a character", "61 F0 9F | 99 82 62 21", "a | 🙂b! / _"),
    Case("04-a token without bytes inside", "F0 9F | <|end|> | 98 82", "_ | _ | 😂 / _"),
    Case("05-overlong C0", "C0 | 80", "R | R / _", "C0, 80", "1 [0:1]"),
    Case("05-overlong C1", "C1 | BF", "R | R / _", "C1, BF", "1 [0:1]"),
    Case("05-overlong C0 in one token", "C0 AF", "RR / _", "C0, AF", "1 [0:1]"),
    Case("06-overlong E0 80", "E0 | 80 | 80", "_ | RR | R / _", "E0, 80, 80", "2 [0:1]"),
    Case("06-overlong E0 9F", "E0 | 9F | BF", "_ | RR | R / _", "E0, 9F, BF", "2 [0:1]"),
    Case("07-overlong F0 80", "F0 | 80 | 80 | 80", "_ | RR | R | R / _",
         "F0, 80, 80, 80", "2 [0:1]"),
    Case("07-overlong F0 8F", "F0 | 8F | BF | BF", "_ | RR | R | R / _",
         "F0, 8F, BF, BF", "2 [0:1]"),
    Case("08-overlong E0 then ASCII", "E0 | 80 | 41", "_ | RR | A / _", "E0, 80", "2 [0:1]"),
    Case("08-overlong F0 then ASCII", "F0 | 8F | 41", "_ | RR | A / _", "F0, 8F", "2 [0:1]"),
    Case("09-first surrogate", "ED | A0 | 80", "_ | RR | R / _", "ED, A0, 80", "2 [0:1]"),
    Case("09-last surrogate", "ED | BF | BF", "_ | RR | R / _", "ED, BF, BF", "2 [0:1]"),
    Case("10-two bytes of a surrogate then ASCII", "ED A0 | 41", "RR | A / _",
         "ED, A0", "1 [0:1]"),
    Case("10-two bytes of a surrogate then the end", "ED A0", "RR / _", "ED, A0", "1 [0:1]"),
    Case("11-a pair of surrogates", "ED | A0 | BD | ED | B8 | 80", "_ | RR | R | _ | RR | R / _",
         "ED, A0, BD, ED, B8, 80", "2 [0:1]"),
    Case("12-the last before the surrogates", "ED | 9F | BF", "_ | _ | <D7FF> / _"),
    Case("12-the first behind the surrogates", "EE 80 80", "<E000> / _"),
    Case("12-the last of all", "F4 | 8F | BF | BF", "_ | _ | _ | <10FFFF> / _"),
    Case("13-one more than the last of all", "F4 | 90 | 80 | 80", "_ | RR | R | R / _",
         "F4, 90, 80, 80", "2 [0:1]"),
    Case("14-a lead of no character", "F5 | 80 | 80 | 80", "R | R | R | R / _",
         "F5, 80, 80, 80", "1 [0:1]"),
    Case("14-bytes that never occur", "F8 | FB | FC | FD | FE | FF", "R | R | R | R | R | R / _",
         "F8, FB, FC, FD, FE, FF", "1 [0:1]"),
    Case("15-continuations without a lead", "80 | BF | 80 | 41", "R | R | R | A / _",
         "80, BF, 80", "1 [0:1]"),
    Case("16-one continuation too many", "F0 | 9F | 99 | 82 | 82", "_ | _ | _ | 🙂 | R / _",
         "82", "5 [0:1]"),
    Case("17-one of two then ASCII", "C3 | 41", "_ | RA / _", "C3", "2 [0:1]"),
    Case("17-one of three then ASCII", "E4 | 41", "_ | RA / _", "E4", "2 [0:1]"),
    Case("17-one of four then ASCII", "F0 | 41", "_ | RA / _", "F0", "2 [0:1]"),
    Case("18-two of three then ASCII", "E4 | BD | 41", "_ | _ | RA / _", "E4 BD", "3 [0:2]"),
    Case("18-two of four then ASCII", "F0 | 9F | 41", "_ | _ | RA / _", "F0 9F", "3 [0:2]"),
    Case("19-three of four then ASCII", "F0 | 9F | 98 | 41", "_ | _ | _ | RA / _",
         "F0 9F 98", "4 [0:3]"),
    Case("20-a lead then a character", "C3 | C3 | A9", "_ | R | é / _", "C3", "2 [0:1]"),
    Case("21-two of three then a character", "E4 | BD | F0 | 9F | 99 | 82",
         "_ | _ | R | _ | _ | 🙂 / _", "E4 BD", "3 [0:2]"),
    Case("22-three of four then a character", "F0 9F 98 | F0 | 9F 98 | 80", "_ | R | _ | 😀 / _",
         "F0 9F 98", "2 [0:3]"),
    Case("22-three of four then ASCII and a lead", "F0 9F 98 | 61 E4 | BD A0", "_ | Ra | 你 / _",
         "F0 9F 98", "2 [0:3]"),
    Case("23-two of three then a dead byte", "E1 | A0 | C0", "_ | _ | RR / _",
         "E1 A0, C0", "3 [0:2]"),
    Case("23-two of four then all four", "F1 BF | F1 BF BF BF", "_ | R<7FFFF> / _",
         "F1 BF", "2 [0:2]"),
    Case("24-a dead byte then a lead", "FF E2 | 82 AC", "R | € / _", "FF", "1 [0:1]"),
    Case("25-all kinds in one token", "61 F1 80 80 E1 80 C2 62 80 63 80 BF 64", "aRRRbRcRRd / _",
         "F1 80 80, E1 80, C2, 80, 80, BF", "1 [1:4]"),
    Case("25-all kinds byte by byte",
         "61 | F1 | 80 | 80 | E1 | 80 | C2 | 62 | 80 | 63 | 80 | BF | 64",
         "a | _ | _ | _ | R | _ | R | Rb | R | c | R | R | d / _",
         "F1 80 80, E1 80, C2, 80, 80, BF", "5 [0:3]"),
    Case("26-a real U+FFFD is text", "EF BF BD | 41", "<FFFD> | A / _"),
    Case("26-two of its three bytes", "EF | BF | 41", "_ | _ | RA / _", "EF BF", "3 [0:2]"),
    Case("27-a lead between two characters", "C2 A0 | C2 | C2 BB", "<00A0> | _ | R» / _",
         "C2", "3 [0:1]"),
    Case("28-joined emoji come one by one", "F0 9F 91 A8 | E2 80 | 8D F0 9F 91 | A9",
         "👨 | _ | <200D> | 👩 / _"),
    Case("29-a flag is two characters", "F0 9F 87 | AB F0 9F | 87 B7",
         "_ | <1F1EB> | <1F1F7> / _"),
    Case("29-a variation selector is one", "E2 9D A4 | EF B8 | 8F", "❤ | _ | <FE0F> / _"),
    Case("29-an accent that combines is one", "65 | CC | 81", "e | _ | <0301> / _"),
    Case("30-a byte order mark is kept", "EF | BB | BF | 41", "_ | _ | <FEFF> | A / _"),
    Case("30-a byte order mark inside", "41 | EF BB BF | 42", "A | <FEFF> | B / _"),
    Case("31-NUL", "00 | 41 | 00", "<0000> | A | <0000> / _"),
    Case("31-CR LF is not translated", "0D | 0A", "<000D> | <000A> / _"),
    Case("31-other line ends", "C2 85 | E2 80 A8", "<0085> | <2028> / _"),
    Case("31-a noncharacter", "EF BF BF", "<FFFF> / _"),
    Case("32-the end after one of two", "C3", "_ / R", "C3", "flush [0:1]"),
    Case("32-the end after two of three", "E4 | BD", "_ | _ / R", "E4 BD", "flush [0:2]"),
    Case("32-the end after three of four", "F0 | 9F | 98", "_ | _ | _ / R",
         "F0 9F 98", "flush [0:3]"),
    Case("32-the end after text and three of four", "68 69 F0 9F 98", "hi / R",
         "F0 9F 98", "flush [0:3]"),
    Case("33-a skipped special inside", "E4 BD | <|end|> | A0", "_ | _ | 你 / _"),
    Case("34-a kept special inside", "E4 BD | <|end|> | A0", "_ | R<|end|> | R / _",
         "E4 BD, A0", "2 [0:2]", skip=False),
    Case("34-a kept special then ASCII", "F0 9F | <|end|> | 41", "_ | R<|end|> | A / _",
         "F0 9F", "2 [0:2]", skip=False),
    Case("35-the end by a skipped special", "F0 9F 98 | <|end|>", "_ | _ / R",
         "F0 9F 98", "flush [0:3]"),
    Case("38-a prompt's character completes", "99 82", "🙂 / _", prompt="48 69 | F0 9F"),
    Case("38-a prompt's character breaks", "41", "RA / _", "F0 9F", "1 [0:2]", "48 69 | F0 9F"),
    Case("38-a prompt's character ends", "", "/ R", "F0 9F", "flush [0:2]", "48 69 | F0 9F"),
]
# fmt: on


def texts_of(column: str, shown: Callable[[], str]) -> list[str]:
    """Read a column of texts, flush's text last. `shown` returns the text of the next R."""

    def text(match: re.Match[str]) -> str:
        if match.group() == "R":
            return shown()
        return "" if match.group() == "_" else chr(int(match.group()[1:-1], 16))

    steps, _, flushed = column.rpartition("/ ")
    texts = [*steps[:-1].split(" | "), flushed] if steps else [flushed]
    return [re.sub("R|_|<[0-9A-F]+>", text, item) for item in texts]


def expected(case: Case, errors: str) -> list[str]:
    """Return the results of all steps, then of flush."""
    malformed = iter(bytes.fromhex(item) for item in case.malformed.split(",") if item)
    show: dict[str, Callable[[bytes], str]] = {
        "strict": lambda _: "",
        "replace": lambda _: REPLACED,
        "ignore": lambda _: "",
        "backslashreplace": lambda part: "".join(f"\\x{byte:02x}" for byte in part),
    }
    texts = texts_of(case.texts, lambda: show[errors](next(malformed)))
    assert list(malformed) == [], "the table has fewer R than malformed bytes"
    return texts


# Vocabularies


def tokenizer_of(tokens: Iterable[bytes]) -> Tokenizer:
    """Return a tokenizer with each of `tokens` and <|end|>; each merge appends one byte."""
    id_of = {bytes([byte]): byte for byte in range(BYTE_COUNT)}
    merges: list[Pair] = []
    for token in tokens:
        for end in range(2, len(token) + 1):
            if token[:end] not in id_of:
                id_of[token[:end]] = BYTE_COUNT + len(merges)
                merges.append((id_of[token[: end - 1]], token[end - 1]))
    specials = {END: BYTE_COUNT + len(merges)}
    return Tokenizer(Vocabulary(tuple(merges), specials, GPT2_PATTERN))


def ids_of(tokenizer: Tokenizer, tokens: Iterable[bytes]) -> list[int]:
    """Return the id of each token; empty bytes stand for the special token."""
    end_id = tokenizer.special_tokens[END]
    return [tokenizer.token_id(token) if token else end_id for token in tokens]


def tokens_of(column: str) -> list[bytes]:
    """Read a column of tokens; the special token becomes empty bytes."""
    tokens = column.split(" | ") if column else []
    return [b"" if token == END else bytes.fromhex(token) for token in tokens]
