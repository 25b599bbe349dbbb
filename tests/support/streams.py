"""Helpers of the tests of streams: small vocabularies, and tokens of all kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle

from hypothesis import strategies as st

from bpetite import DecodeStream, Tokenizer
from bpetite._streaming.tables import TokenSource
from bpetite._vocabulary import TokenTable
from support.stream_cases import END as END
from support.stream_cases import REPLACED as REPLACED
from support.stream_cases import ids_of as ids_of
from support.stream_cases import tokenizer_of as tokenizer_of
from support.stream_cases import tokens_of as tokens_of

ERRORS = ("strict", "replace", "ignore", "backslashreplace")
LENIENT = ERRORS[1:]

BYTES = Tokenizer.train("", 256, special_tokens=[END])
"""A tokenizer whose only tokens are the bytes and, with id 256, <|end|>."""

END_ID = 256


class OneTable:
    """A vocabulary of one table, without special tokens."""

    skipped_ids = ()

    def __init__(self, table: TokenTable) -> None:
        self.tokens = table

    def stream_tokens(self, skips: bool) -> TokenTable:
        del skips
        return self.tokens


def source_of(table: TokenTable) -> TokenSource:
    """Return the source from which streams over a table are made."""
    return TokenSource(OneTable(table))


def run(stream: DecodeStream, ids: Iterable[int]) -> list[str]:
    """Return the results of all steps, then of flush."""
    return [*map(stream.step, ids), stream.flush()]


EDGES = bytes.fromhex("00 41 7F 80 8F 90 9F A0 BF C0 C1 C2 DF E0 E1 EC ED EE EF F0 F1 F3 F4 F5 FF")
"""The first and the last byte of each class of bytes in UTF-8."""

data_of_all_kinds = st.lists(
    st.one_of(
        st.characters(codec="utf-8").map(str.encode),
        st.sampled_from("é你🙂\u0301\u200d\ufffd\ufeff").map(str.encode),
        st.sampled_from(EDGES).map(lambda byte: bytes([byte])),
        st.binary(min_size=1, max_size=4),
    ),
    max_size=16,
).map(b"".join)


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Split `data` into tokens of these sizes, in a cycle; empty bytes are a special token."""
    tokens = []
    position = 0
    for size in cycle(sizes):
        if position >= len(data):
            break
        tokens.append(data[position : position + size])
        position += size
    return tokens


def bytes_of(tokens: Iterable[bytes], skip: bool) -> list[bytes]:
    """Return the bytes of each token; skipped special tokens have none."""
    return [token or (b"" if skip else END.encode()) for token in tokens]
