"""Our own format: a vocabulary to the bytes of its file and back; nothing in a file is believed.

The format, field by field, is in docs/vocabulary-file.md.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Literal

from bpetite._engine import core_of_merges
from bpetite._files import MAX_SIZE, SourceFile, shown
from bpetite._pretokenizer import GPT2_PATTERN, portable_pattern
from bpetite._unicode_data import VERSION as UNICODE_VERSION
from bpetite._vocabulary import BYTE_COUNT, MAX_ID, Pair, Vocabulary, is_encodable

_KEYS_1 = (
    "schema_version",
    "mergeable_vocab_size",
    "pretokenizer_pattern",
    "vocab",
    "merges",
    "special_tokens",
)
_KEYS_2 = (
    "schema_version",
    "pretokenizer_pattern",
    "unicode_version",
    "byte_ids",
    "merges",
    "merge_ids",
    "other_tokens",
    "ignore_merges",
    "more_patterns",
    "normalizer",
    "special_tokens",
    "kept_special_tokens",
    "prefix_ids",
    "suffix_ids",
    "settings",
)

TokenOf = Callable[[int], bytes | None]
"""The bytes of an ordinary token's id, None of an id that is none."""

_AN_ID = f"an id from 0 to {MAX_ID}"


def to_bytes(vocabulary: Vocabulary) -> bytes:
    """Return the file of a vocabulary: equal vocabularies give equal bytes.

    It has schema version 1 if that can say what the vocabulary is, and 2 if not.
    """
    plain = vocabulary.is_plain and vocabulary.pattern == GPT2_PATTERN
    document = _document_1(vocabulary) if plain else _document_2(vocabulary)
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8") + b"\n"


def _document_1(vocabulary: Vocabulary) -> dict[str, object]:
    return {
        "schema_version": 1,
        "mergeable_vocab_size": BYTE_COUNT + len(vocabulary.merges),
        "pretokenizer_pattern": vocabulary.pattern,
        "vocab": {str(id): list(token) for id, token in vocabulary.tokens.bytes_of.items()},
        "merges": vocabulary.merges,
        "special_tokens": dict(vocabulary.special_tokens),
    }


def _document_2(vocabulary: Vocabulary) -> dict[str, object]:
    return {
        "schema_version": 2,
        "pretokenizer_pattern": vocabulary.pattern,
        "unicode_version": UNICODE_VERSION,
        "byte_ids": vocabulary.byte_ids,
        "merges": list(chain.from_iterable(vocabulary.merges)),
        "merge_ids": _runs(vocabulary.merge_ids),
        "other_tokens": {str(id): list(token) for id, token in vocabulary.other_tokens.items()},
        "ignore_merges": vocabulary.ignore_merges,
        "more_patterns": vocabulary.more_patterns,
        "normalizer": vocabulary.normalizer,
        "special_tokens": dict(vocabulary.special_tokens),
        "kept_special_tokens": sorted(vocabulary.kept_special_tokens),
        "prefix_ids": vocabulary.prefix_ids,
        "suffix_ids": vocabulary.suffix_ids,
        "settings": dict(vocabulary.settings),
    }


def _runs(ids: Iterable[int]) -> list[list[int]]:
    """Return runs of ids, each one more than the one before, as [first, length].

    >>> _runs([7, 8, 9, 3])
    [[7, 3], [3, 1]]
    """
    runs: list[list[int]] = []
    for id in ids:
        if runs and id == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([id, 1])
    return runs


def read_vocabulary(file: SourceFile, document: dict[str, Any]) -> Vocabulary:
    """Return the vocabulary of a file, every value of which is checked; `document` is its JSON.

    Raises KeyError for a missing key, ValueError for anything else that is wrong, both naming the
    file and the place in it.
    """
    # The version comes first: of a file of another version, nothing else is known.
    version = document.get("schema_version", 1)
    readers: dict[int, type[_Reader]] = {1: _Reader1, 2: _Reader2}
    if not _is_int(version) or version not in readers:
        file.refuse("schema_version", version, "1 or 2")
    return readers[version](file).read(document)


class _Reader(ABC):
    """Checks a file from the outside in."""

    keys: tuple[str, ...]

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._refuse = file.refuse

    @abstractmethod
    def read(self, document: dict[str, Any]) -> Vocabulary:
        """Return the vocabulary of a document that has the reader's schema version."""

    def _check_keys(self, document: dict[str, Any]) -> None:
        for key in self.keys:
            if key not in document:
                raise KeyError(f"{self._file.path}: the key {key!r} is missing")
        for key in document:
            if key not in self.keys:
                self._refuse("the file", key, f"no other keys than {', '.join(self.keys)}")

    def _literals(self, special_tokens: object) -> Iterator[tuple[str, Any, str]]:
        """Yield the literal of each special token, its id and its place in the file."""
        if not isinstance(special_tokens, dict):
            self._refuse("special_tokens", special_tokens, "an object")
        for literal, id in special_tokens.items():
            if not literal or not is_encodable(literal):
                self._refuse("special_tokens", literal, "a literal that is not empty, in Unicode")
            yield literal, id, f"special_tokens[{shown(literal)}]"

    def _bytes(self, given: object, place: str) -> bytes:
        if not isinstance(given, list) or not all(map(_is_byte, given)):
            self._refuse(place, given, "a list of integers from 0 to 255")
        return bytes(given)


class _Reader1(_Reader):
    """Reads schema version 1: what is trained here with GPT-2's pattern, and nothing else."""

    keys = _KEYS_1

    def read(self, document: dict[str, Any]) -> Vocabulary:
        self._check_keys(document)
        merges = self._merges(document["merges"])
        size = document["mergeable_vocab_size"]
        if not _is_int(size) or size != BYTE_COUNT + len(merges):
            self._refuse(
                "mergeable_vocab_size", size, f"256 + {len(merges)} merges = {256 + len(merges)}"
            )
        pattern = document["pretokenizer_pattern"]
        if pattern != GPT2_PATTERN:
            self._refuse("pretokenizer_pattern", pattern, f"GPT-2's pattern, {GPT2_PATTERN!r}")
        special_tokens = self._special_tokens(document["special_tokens"], len(merges))
        self._check_vocab(document["vocab"], merges, special_tokens)
        return Vocabulary(merges, special_tokens, pattern)

    def _merges(self, merges: object) -> tuple[Pair, ...]:
        if not isinstance(merges, list):
            self._refuse("merges", merges, "a list")
        ranks: dict[Pair, int] = {}
        for rank, pair in enumerate(merges):
            if not isinstance(pair, list) or len(pair) != 2:
                self._refuse(f"merges[{rank}]", pair, "a list of two ids")
            for side, id in enumerate(pair):
                if not _is_int(id) or not 0 <= id < BYTE_COUNT + rank:
                    self._refuse(
                        f"merges[{rank}][{side}]", id, f"an id from 0 to {BYTE_COUNT + rank - 1}"
                    )
            if (first := ranks.setdefault((pair[0], pair[1]), rank)) != rank:
                self._refuse(f"merges[{rank}]", pair, f"a new pair; this is merges[{first}] too")
        return tuple(ranks)

    def _special_tokens(self, special_tokens: object, merge_count: int) -> dict[str, int]:
        literals = list(self._literals(special_tokens))
        literal_of: dict[int, str] = {}
        first = BYTE_COUNT + merge_count
        end = first + len(literals)
        for literal, id, place in literals:
            if not _is_int(id) or not first <= id < end:
                self._refuse(place, id, f"an id from {first} to {end - 1}")
            if id in literal_of:
                self._refuse(place, id, f"an id of its own; {shown(literal_of[id])} has it too")
            literal_of[id] = literal
        return {literal_of[id]: id for id in sorted(literal_of)}

    def _check_vocab(
        self, vocab: object, merges: tuple[Pair, ...], special_tokens: dict[str, int]
    ) -> None:
        """Compare what the file says of each id's bytes with what follows from the rest of it.

        Token by token, so that merges which double and double can ask for no more memory than
        the file itself takes.
        """
        if not isinstance(vocab, dict):
            self._refuse("vocab", vocab, "an object")
        tokens = [self._checked_token(vocab, byte, bytes([byte])) for byte in range(BYTE_COUNT)]
        for id, (left, right) in enumerate(merges, BYTE_COUNT):
            tokens.append(self._checked_token(vocab, id, tokens[left] + tokens[right]))
        for literal, id in special_tokens.items():
            self._checked_token(vocab, id, literal.encode("utf-8"))
        known = {str(id) for id in range(len(tokens) + len(special_tokens))}
        for key in vocab:
            if key not in known:
                self._refuse("vocab", key, f"no other keys than the ids 0 to {len(known) - 1}")

    def _checked_token(self, vocab: dict[str, Any], id: int, token: bytes) -> bytes:
        if str(id) not in vocab:
            raise ValueError(f'{self._file.path}: vocab: the id "{id}" is missing')
        given = vocab[str(id)]
        if self._bytes(given, f'vocab["{id}"]') != token:
            wanted = shown(list(token))
            self._refuse(f'vocab["{id}"]', given, f"the bytes of this id, {wanted}")
        return token


class _Reader2(_Reader):
    """Reads schema version 2: any byte-level BPE vocabulary."""

    keys = _KEYS_2

    def read(self, document: dict[str, Any]) -> Vocabulary:
        self._check_keys(document)
        if document["unicode_version"] != UNICODE_VERSION:
            self._refuse("unicode_version", document["unicode_version"], f'"{UNICODE_VERSION}"')
        if type(document["ignore_merges"]) is not bool:
            self._refuse("ignore_merges", document["ignore_merges"], "true or false")
        byte_ids = self._byte_ids(document["byte_ids"])
        tokens = {id: bytes([byte]) for byte, id in enumerate(byte_ids)}
        other_tokens = self._other_tokens(document["other_tokens"], tokens)
        ignore_merges = document["ignore_merges"]
        flat, runs = document["merges"], document["merge_ids"]
        core = core_of_merges(byte_ids, other_tokens, flat, runs, ignore_merges, MAX_SIZE)
        merge_ids: tuple[int, ...] = ()
        merges: tuple[Pair, ...] = ()
        if core is None:  # there is no fast one here, or something is wrong: to say what
            tokens |= other_tokens
            flat = self._flat_merges(flat)
            merge_ids = self._merge_ids(runs, len(flat) // 2)
            merges = self._merges(flat, merge_ids, tokens)
        token_of = tokens.get if core is None else core.token
        special_tokens = self._special_tokens(document["special_tokens"])
        pattern = self._pattern(document["pretokenizer_pattern"], "pretokenizer_pattern")
        others: dict[str, Any] = {
            "more_patterns": self._more_patterns(document["more_patterns"]),
            "normalizer": self._normalizer(document["normalizer"]),
            "kept_special_tokens": self._kept_special_tokens(
                document["kept_special_tokens"], special_tokens
            ),
            "prefix_ids": self._known_ids(
                document["prefix_ids"], "prefix_ids", special_tokens, token_of
            ),
            "suffix_ids": self._known_ids(
                document["suffix_ids"], "suffix_ids", special_tokens, token_of
            ),
            "settings": self._settings(document["settings"]),
        }
        if core is None:
            self._check_tokens_differ(tokens)
        self._check_special_ids(special_tokens, token_of)
        if core is not None:
            return Vocabulary.of_core(core, special_tokens, pattern, **others)
        vocabulary = Vocabulary(
            merges,
            special_tokens,
            pattern,
            byte_ids,
            merge_ids,
            other_tokens,
            ignore_merges,
            **others,
        )
        vocabulary.know_tokens(tokens)
        return vocabulary

    def _pattern(self, pattern: object, place: str) -> str:
        if not isinstance(pattern, str) or not is_encodable(pattern):
            self._refuse(place, pattern, "a string in Unicode")
        try:
            portable = portable_pattern(pattern)
        except ValueError as error:
            reason = str(error).replace(f"the pattern {pattern!r}", "it")
            self._refuse(place, pattern, f"a portable pattern ({reason[:160]})")
        if portable != pattern:
            self._refuse(place, pattern, "the pattern itself, not its name")
        return pattern

    def _more_patterns(self, patterns: object) -> tuple[str, ...]:
        if not isinstance(patterns, list):
            self._refuse("more_patterns", patterns, "a list")
        return tuple(
            self._pattern(pattern, f"more_patterns[{number}]")
            for number, pattern in enumerate(patterns)
        )

    def _normalizer(self, normalizer: object) -> Literal["NFC"] | None:
        if normalizer is not None and normalizer != "NFC":
            self._refuse("normalizer", normalizer, 'null or "NFC"')
        return None if normalizer is None else "NFC"

    def _kept_special_tokens(
        self, literals: object, special_tokens: dict[str, int]
    ) -> frozenset[str]:
        if not isinstance(literals, list):
            self._refuse("kept_special_tokens", literals, "a list")
        kept: set[str] = set()
        for number, literal in enumerate(literals):
            if not isinstance(literal, str) or literal not in special_tokens or literal in kept:
                self._refuse(
                    f"kept_special_tokens[{number}]", literal, "one of special_tokens, each once"
                )
            kept.add(literal)
        return frozenset(kept)

    def _known_ids(
        self, ids: object, place: str, special_tokens: dict[str, int], token_of: TokenOf
    ) -> tuple[int, ...]:
        if not isinstance(ids, list):
            self._refuse(place, ids, "a list")
        special_ids = set(special_tokens.values())
        for number, id in enumerate(ids):
            if not _is_int(id) or (token_of(id) is None and id not in special_ids):
                self._refuse(f"{place}[{number}]", id, "the id of a token")
        return tuple(ids)

    def _settings(self, settings: object) -> dict[str, str]:
        if not isinstance(settings, dict):
            self._refuse("settings", settings, "an object")
        for key, value in settings.items():
            if not isinstance(value, str) or not is_encodable(key + value):
                self._refuse(f"settings[{shown(key)}]", value, "a string in Unicode")
        return settings

    def _byte_ids(self, ids: object) -> tuple[int, ...]:
        if not isinstance(ids, list) or len(ids) != BYTE_COUNT:
            self._refuse("byte_ids", ids, f"a list of {BYTE_COUNT} ids")
        seen = set()
        for byte, id in enumerate(ids):
            if not _is_id(id):
                self._refuse(f"byte_ids[{byte}]", id, _AN_ID)
            if id in seen:
                self._refuse(f"byte_ids[{byte}]", id, "an id of its own; another byte has it too")
            seen.add(id)
        return tuple(ids)

    def _other_tokens(self, given_tokens: object, tokens: dict[int, bytes]) -> dict[int, bytes]:
        if not isinstance(given_tokens, dict):
            self._refuse("other_tokens", given_tokens, "an object")
        other_tokens = {}
        for key, given in given_tokens.items():
            id = int(key) if key.isascii() and key.isdigit() and len(key) <= 10 else -1
            if str(id) != key or not _is_id(id):
                self._refuse("other_tokens", key, "ids as keys")
            if id in tokens:
                self._refuse("other_tokens", key, "an id of its own; a byte has it too")
            other_tokens[id] = self._bytes(given, f'other_tokens["{key}"]')
            if len(other_tokens[id]) < 2:
                self._refuse(f'other_tokens["{key}"]', given, "two bytes at least")
        return dict(sorted(other_tokens.items()))

    def _merge_ids(self, runs: object, count: int) -> tuple[int, ...]:
        if not isinstance(runs, list):
            self._refuse("merge_ids", runs, "a list")
        total = 0
        for number, run in enumerate(runs):
            if not isinstance(run, list) or len(run) != 2 or not all(map(_is_id, run)):
                self._refuse(f"merge_ids[{number}]", run, "a list of an id and a length")
            if not 1 <= run[1] <= MAX_ID + 1 - run[0]:
                self._refuse(f"merge_ids[{number}]", run, "a run of ids that is not too long")
            total += run[1]
        # Before a run is written out: a short file may ask for any number of ids.
        if total != count:
            self._refuse("merge_ids", total, f"an id for each of {count} merges")
        return tuple(chain.from_iterable(range(first, first + length) for first, length in runs))

    def _flat_merges(self, flat: object) -> list[int]:
        if not isinstance(flat, list) or len(flat) % 2:
            self._refuse("merges", flat, "a list of two ids for each merge")
        if not all(map(_is_int, flat)):
            place = next(i for i, id in enumerate(flat) if not _is_int(id))
            self._refuse(f"merges[{place}]", flat[place], _AN_ID)
        return flat

    def _merges(
        self, flat: list[int], merge_ids: tuple[int, ...], tokens: dict[int, bytes]
    ) -> tuple[Pair, ...]:
        """Return the merges, once each makes the token of its id; `tokens` gets those tokens."""
        halves = iter(flat)
        merges = tuple(zip(halves, halves, strict=True))
        total = 0
        for rank, ((left, right), id) in enumerate(zip(merges, merge_ids, strict=True)):
            try:
                total += len(tokens[left]) + len(tokens[right])
            except KeyError as error:
                place = f"merges[{2 * rank + (left in tokens)}]"
                self._refuse(place, error.args[0], "an id that is defined before")
            if total > MAX_SIZE:  # merges that double and double
                wanted = f"at most {MAX_SIZE} bytes of tokens"
                self._refuse(f"merges[{2 * rank}]", [left, right], wanted)
            token = tokens[left] + tokens[right]
            if tokens.setdefault(id, token) != token:
                self._refuse(
                    f"merges[{2 * rank}]", [left, right], f"a merge that makes the id {id}"
                )
        if len(set(merges)) < len(merges):
            seen: set[Pair] = set()
            for rank, pair in enumerate(merges):
                if pair in seen:
                    self._refuse(f"merges[{2 * rank}]", list(pair), "a new pair")
                seen.add(pair)
        return merges

    def _special_tokens(self, special_tokens: object) -> dict[str, int]:
        literal_of: dict[int, str] = {}
        for literal, id, place in self._literals(special_tokens):
            if not _is_id(id):
                self._refuse(place, id, _AN_ID)
            if id in literal_of:
                self._refuse(place, id, f"an id of its own; {shown(literal_of[id])} has it too")
            literal_of[id] = literal
        return {literal_of[id]: id for id in sorted(literal_of)}

    def _check_tokens_differ(self, tokens: dict[int, bytes]) -> None:
        if len(set(tokens.values())) < len(tokens):
            first_of: dict[bytes, int] = {}
            for id, token in sorted(tokens.items()):
                if (first := first_of.setdefault(token, id)) != id:
                    self._refuse("the file", id, f"ids of different bytes; {first} has these too")

    def _check_special_ids(self, special_tokens: dict[str, int], token_of: TokenOf) -> None:
        for literal, id in special_tokens.items():
            if token_of(id) not in (None, literal.encode("utf-8")):
                self._refuse(f"special_tokens[{shown(literal)}]", id, "an id of its own")


def _is_int(value: object) -> bool:
    return type(value) is int  # a bool is none


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_ID


def _is_byte(value: object) -> bool:
    return type(value) is int and 0 <= value < BYTE_COUNT
