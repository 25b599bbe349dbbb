"""SentencePiece's models of type BPE with byte fallback, which are read and never written.

The rules are those of google/sentencepiece. Tokens spell a space as U+2581, and a space is put
before each text. User-defined pieces are found in the text. Control pieces are not: only their ids
stand for them. Where several pairs may merge, the one whose token has the highest score does, and
of equal scores the leftmost.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from math import isnan
from typing import Any, NamedTuple

from bpetite._pretokenizer import MATCH_ALL
from bpetite._vocabulary import BYTE_COUNT, ONE_SPACE, Pair, Stages, Vocabulary
from bpetite.formats._files import SourceFile
from bpetite.formats._format import Format, Source
from bpetite.formats._reference import Encode, Reference

_BEGINNING = re.compile(rb"\n[\x05-\x7f]\n.[^\n]+?\x15.{4}", re.DOTALL)

# The numbers of fields, and of types of pieces, in sentencepiece_model.proto
_PIECE, _TRAINER, _NORMALIZER, _DENORMALIZER = 1, 2, 3, 5
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 1, 2, 3, 4, 6
_MODEL_TYPE, _BPE = 3, 2
_TYPES = {1: " of type unigram", 3: " of words", 4: " of characters"}
_UNKNOWN_TEXT = 44
_TEXTS = {_PIECE: {1, 2}, _TRAINER: {_UNKNOWN_TEXT}, _NORMALIZER: {1, 2}, _DENORMALIZER: {2}}
"""The fields that are read as bytes; the others are numbers."""

_SPACE = "\u2581"

# Finding the merges of a piece takes as many steps as it has characters, each as long as the piece.
_MAX_PIECE_CHARACTERS = 4096


class SentencePiece(Format):
    """A SentencePiece model of type BPE."""

    name = "sentencepiece"
    file_name = "sentencepiece.bpe.model"
    is_json = False

    def is_certain(self, file: SourceFile) -> bool:
        """Return whether the file is a model of type BPE."""
        with suppress(ValueError):
            return self.is_likely(file) and _message(file)[1].get(_MODEL_TYPE, 1) == _BPE
        return False

    def is_likely(self, file: SourceFile) -> bool:
        """Return whether the file begins with a piece and a score."""
        return bool(_BEGINNING.match(file.data))

    def read(self, source: Source) -> tuple[Vocabulary, Reference]:
        file = source.file
        vocabulary = _read(file)
        return vocabulary, Reference("sentencepiece", lambda: _reference_encode(file.data))

    def files(self, vocabulary: Vocabulary, path: str) -> dict[str, bytes]:  # noqa: ARG002
        raise ValueError(f"{path}: no SentencePiece model is written; save our own format instead")


def _reference_encode(data: bytes) -> Encode:
    """Return how sentencepiece encodes a text. Raises ImportError if it is not installed."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    return lambda text: list(processor.encode(text))


class _Piece(NamedTuple):
    text: str
    score: float
    type: int


def _read(file: SourceFile) -> Vocabulary:
    """Return the vocabulary of a model. Raises ValueError, naming the field, for all others."""
    pieces, trainer, normalizer, denormalizer = _message(file)
    _check_settings(file, trainer, normalizer, denormalizer)
    first_of: dict[str, int] = {}
    for id, (text, *_) in enumerate(pieces):
        if len(text) > _MAX_PIECE_CHARACTERS:
            wanted = f"a text of at most {_MAX_PIECE_CHARACTERS} characters"
            file.refuse(f"pieces[{id}]", len(text), wanted)
        if first_of.setdefault(text, id) != id:
            file.refuse(f"pieces[{id}]", text, "a piece of its own")
    byte_of = {f"<0x{byte:02X}>": byte for byte in range(BYTE_COUNT)}
    normal: dict[str, int] = {}
    special_tokens: dict[str, int] = {}
    byte_ids: dict[int, int] = {}
    unused_tokens: dict[int, bytes] = {}
    for id, (text, score, kind) in enumerate(pieces):
        if kind == _BYTE and text in byte_of:
            byte_ids[byte_of[text]] = id
        elif kind in (_UNKNOWN, _CONTROL, _USER_DEFINED):
            special_tokens[text] = id
        elif kind != _NORMAL or isnan(score):
            file.refuse(f"pieces[{id}].type", kind, "a normal piece with a score, or one of a byte")
        elif " " in text:
            unused_tokens[id] = text.encode()  # texts have no spaces when they are merged
        else:
            normal[text] = id
    for byte in range(BYTE_COUNT):
        if byte not in byte_ids:
            file.refuse("pieces", f"none for <0x{byte:02X}>", "a piece for each byte")
    space = special_tokens.get(_SPACE)
    if _SPACE not in normal and (space is None or pieces[space].type != _USER_DEFINED):
        wanted = f"a piece for {_SPACE} (U+2581), or a space becomes the bytes of that character"
        file.refuse("pieces", "none", wanted)
    for text, id in normal.items():
        for character in text:
            if character not in normal:
                file.refuse(f"pieces[{id}]", text, "a text whose characters are normal pieces")
    tokens = {id: text.replace(_SPACE, " ").encode() for text, id in normal.items()}
    for byte, id in byte_ids.items():
        is_unused = byte < 0x80 and chr(byte).replace(" ", _SPACE) in normal
        (unused_tokens if is_unused else tokens)[id] = bytes([byte])
    merges, tied = _merges(pieces, normal)
    # A text has no spaces when they are searched, so it has no piece with one.
    found = {
        text: pieces[id].type == _USER_DEFINED and " " not in text
        for text, id in special_tokens.items()
    }
    decoded = {text: text.replace(_SPACE, " ").encode() for text in special_tokens}
    for text, id in special_tokens.items():
        if pieces[id].type == _UNKNOWN:
            decoded[text] = trainer.get(_UNKNOWN_TEXT, " \u2047 ".encode())
    has_prefix = normalizer.get(3, 1) != 0
    stages = Stages(
        (*([("Prefix", " ")] if has_prefix else []), ONE_SPACE),
        flags=tuple(
            (text, ("normalized",) if is_found else ("control",))
            for text, is_found in sorted(found.items())
        ),
        literal_bytes=tuple(
            (text, token) for text, token in sorted(decoded.items()) if token != text.encode()
        ),
        byte_fallback=True,
        strips_start=has_prefix,
        tied=tied,
    )
    user_defined = frozenset(
        text for text, id in special_tokens.items() if pieces[id].type == _USER_DEFINED
    )
    with file.path_in_errors():
        return Vocabulary.from_tokens(
            tokens,
            merges,
            special_tokens,
            MATCH_ALL,
            unused_tokens=unused_tokens,
            stages=stages,
            kept_special_tokens=user_defined,
            added_tokens=user_defined,
        )


def _merges(pieces: list[_Piece], normal: dict[str, int]) -> tuple[list[Pair], tuple[int, ...]]:
    """Return all merges by their scores, and those that have the score of the one before."""
    pairs = [
        (normal[text[:at]], normal[text[at:]], id)
        for text, id in normal.items()
        for at in range(1, len(text))
        if text[:at] in normal and text[at:] in normal
    ]
    pairs.sort(key=lambda pair: -pieces[pair[2]].score)
    tied: list[int] = []
    start = 0
    for _, group in groupby(pairs, key=lambda pair: pieces[pair[2]].score):
        end = start + len([*group])
        tied += range(start + 1, end)
        start = end
    return [(left, right) for left, right, _ in pairs], tuple(tied)


def _check_settings(
    file: SourceFile,
    trainer: dict[int, Any],
    normalizer: dict[int, Any],
    denormalizer: dict[int, Any],
) -> None:
    if (kind := trainer.get(_MODEL_TYPE, 1)) != _BPE:
        raise ValueError(
            f"{file.path}: this is a SentencePiece model{_TYPES.get(kind, '')}: StreamVocabulary "
            f"decodes by the tokenizer.json of the same model; to encode, use sentencepiece"
        )
    for path, values, number, default, wanted in (
        ("trainer_spec.byte_fallback", trainer, 35, 0, 1),
        ("trainer_spec.treat_whitespace_as_suffix", trainer, 24, 0, 0),
        ("normalizer_spec.precompiled_charsmap", normalizer, 2, b"", b""),
        ("normalizer_spec.remove_extra_whitespaces", normalizer, 4, 1, 0),
        ("normalizer_spec.escape_whitespaces", normalizer, 5, 1, 1),
        ("denormalizer_spec.precompiled_charsmap", denormalizer, 2, b"", b""),
    ):
        value = values.get(number, default)
        if value != wanted:
            name = values.get(1, b"").decode("utf-8", "replace")
            given = f"that of {name}" if isinstance(value, bytes) else bool(value)
            file.refuse(path, given, "none" if wanted == b"" else str(bool(wanted)).lower())


def _message(
    file: SourceFile,
) -> tuple[list[_Piece], dict[int, Any], dict[int, Any], dict[int, Any]]:
    """Return the pieces, and the settings of training, normalizer and denormalizer."""
    pieces: list[_Piece] = []
    specs: dict[int, dict[int, Any]] = {_TRAINER: {}, _NORMALIZER: {}, _DENORMALIZER: {}}
    try:
        for field, value in _fields(file.data):
            if not isinstance(value, bytes) or field not in _TEXTS:
                continue
            # To Protocol Buffers, a value of another type is that of an unknown field.
            inner = {
                number: value
                for number, value in _fields(value)
                if (number in _TEXTS[field]) is isinstance(value, bytes)
            }
            if field == _PIECE:
                (score,) = struct.unpack("<f", inner.get(2, bytes(4)))
                pieces.append(_Piece(inner[1].decode("utf-8"), score, inner.get(3, _NORMAL)))
            else:
                specs[field] |= inner
    except (IndexError, KeyError, ValueError, AttributeError, struct.error) as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{file.path}: no valid SentencePiece model ({reason})") from None
    return pieces, specs[_TRAINER], specs[_NORMALIZER], specs[_DENORMALIZER]


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and values of the fields in a message of Protocol Buffers.

    >>> [*_fields(bytes([0x08, 0x96, 0x01, 0x12, 1, 97]))]
    [(1, 150), (2, b'a')]

    Raises IndexError if the message ends too early.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: int | bytes
        if tag & 7 == 0:
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if tag & 7 == 2 else ({1: 8, 5: 4}.get(tag & 7, 0), at)
            value = data[at : at + size]
            at += size
        yield tag >> 3, value
    if at > len(data):
        raise IndexError("it ends too early")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of at most ten bytes, and where it ends."""
    value = 0
    for place in range(10):
        value |= (data[at + place] & 0x7F) << (7 * place)
        if data[at + place] < 0x80:
            return value, at + place + 1
    raise IndexError("a number is too long")
