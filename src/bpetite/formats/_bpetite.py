"""Our own format: one JSON file, described field by field in docs/vocabulary-file.md."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from itertools import chain
from operator import itemgetter
from typing import Any

from bpetite._engine.chosen import ENGINE
from bpetite._pretokenizer import GPT2_PATTERN
from bpetite._unicode.data import VERSION as UNICODE_VERSION
from bpetite._vocabulary import (
    ABSENT_IDS,
    BYTE_COUNT,
    IMPOSSIBLE_BYTES,
    MAX_ID,
    NO_STAGES,
    Pair,
    Vocabulary,
    check_absent_bytes,
    check_literal_sizes,
    is_encodable,
)
from bpetite.formats._files import ALL_IDS, MAX_FILE_BYTES, SourceFile, shown
from bpetite.formats._format import Format, Source
from bpetite.formats._stage_fields import check_characters, check_first_tokens, read_stages


class Bpetite(Format):
    """One file that holds everything; the default for a path to write."""

    name = "bpetite"
    file_name = "*"

    def is_certain(self, file: SourceFile) -> bool:
        """Return whether the file has a pattern."""
        return isinstance(file.document.get("pretokenizer_pattern"), str)

    def is_likely(self, file: SourceFile) -> bool:
        """Return whether the file has a version, or no key that version 1 lacks."""
        keys = file.document.keys()
        return "schema_version" in keys or keys <= _document_1(_EMPTY).keys()

    def read(self, source: Source) -> tuple[Vocabulary, None]:
        # The version comes first: another version may mean anything by its keys.
        file = source.file
        version = file.document.get("schema_version", 1)
        file.check_value(version, "schema_version", 1, 2)
        return (_read_1 if version == 1 else _read_2)(file, file.document), None

    def files(self, vocabulary: Vocabulary, path: str) -> dict[str, bytes]:
        return {path: to_bytes(vocabulary)}


def to_bytes(vocabulary: Vocabulary) -> bytes:
    """Return the file of a vocabulary; equal vocabularies have equal files.

    Its schema version is 1 if that can hold the vocabulary, else 2.
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
        "byte_ids": [
            None if byte in vocabulary.absent_bytes else id
            for byte, id in enumerate(vocabulary.byte_ids)
        ],
        "merges": list(chain.from_iterable(vocabulary.merges)),
        "merge_ids": _runs(vocabulary.merge_ids),
        "other_tokens": {
            str(id): list(token)
            for id, token in (
                *vocabulary.other_tokens.items(),
                *((id, b"") for id, token in sorted(vocabulary.unused_tokens.items()) if not token),
            )
        },
        "ignore_merges": vocabulary.ignore_merges,
        "more_patterns": vocabulary.more_patterns,
        "normalizer": vocabulary.normalizer,
        "special_tokens": dict(vocabulary.special_tokens),
        "kept_special_tokens": sorted(vocabulary.kept_special_tokens),
        "prefix_ids": vocabulary.prefix_ids,
        "suffix_ids": vocabulary.suffix_ids,
        "settings": dict(vocabulary.settings),
        **({"unused_tokens": unused} if (unused := _unused(vocabulary)) else {}),
        **({"stages": vocabulary.stages.document()} if vocabulary.stages != NO_STAGES else {}),
        **({"added_tokens": sorted(added)} if (added := vocabulary.added_tokens) else {}),
    }


def _unused(vocabulary: Vocabulary) -> dict[str, list[int]]:
    unused = sorted(vocabulary.unused_tokens.items())
    return {str(id): list(token) for id, token in unused if token}


_EMPTY = Vocabulary((), {}, GPT2_PATTERN)


def _runs(ids: Iterable[int]) -> list[list[int]]:
    """Return ascending runs of consecutive ids, each as [first, length].

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


def _check_keys(file: SourceFile, document: dict[str, Any], keys: Collection[str]) -> None:
    for key in keys:
        if key not in document:
            raise KeyError(f"{file.path}: the key {key!r} is missing")
    for key in document:
        if key not in keys:
            file.refuse("the file", key, f"no other keys than {', '.join(keys)}")


def _special_tokens(file: SourceFile, given: object, ids: range) -> dict[str, int]:
    """Return the special tokens in order of their ids, which are in `ids`, each once."""
    special_tokens = file.checked_object(given, "special_tokens")
    with file.path_in_errors("special_tokens: "):
        check_literal_sizes(special_tokens)
    if "" in special_tokens or not is_encodable("".join(special_tokens)):
        wrong = next(each for each in special_tokens if not each or not is_encodable(each))
        file.refuse("special_tokens", wrong, "a non-empty literal in Unicode")
    file.check_ids(special_tokens, "special_tokens", ids)
    if sorted(special_tokens.values()) == list(special_tokens.values()):
        return special_tokens  # a million pairs take a second to sort
    return dict(sorted(special_tokens.items(), key=itemgetter(1)))


def _bytes(file: SourceFile, given: Any, path: str) -> bytes:
    are_integers = isinstance(given, list) and {*map(type, given)} <= {int}
    if not are_integers or (given and not 0 <= min(given) <= max(given) < BYTE_COUNT):
        file.refuse(path, given, "a list of integers from 0 to 255")
    return bytes(given)


def _read_1(file: SourceFile, document: dict[str, Any]) -> Vocabulary:
    """Return the vocabulary of schema version 1: trained here, with GPT-2's pattern."""
    _check_keys(file, document, _document_1(_EMPTY))
    merges = _merges_1(file, file.checked_list(document["merges"], "merges"))
    size, given_size = BYTE_COUNT + len(merges), document["mergeable_vocab_size"]
    if type(given_size) is not int or given_size != size:
        wanted = f"{BYTE_COUNT} + {len(merges)} merges = {size}"
        file.refuse("mergeable_vocab_size", given_size, wanted)
    pattern = document["pretokenizer_pattern"]
    if pattern != GPT2_PATTERN:
        file.refuse("pretokenizer_pattern", pattern, f"GPT-2's pattern, {GPT2_PATTERN!r}")
    given = file.checked_object(document["special_tokens"], "special_tokens")
    special_tokens = _special_tokens(file, given, range(size, size + len(given)))
    _check_vocab(file, file.checked_object(document["vocab"], "vocab"), merges, special_tokens)
    return Vocabulary(merges, special_tokens, pattern)


def _merges_1(file: SourceFile, merges: list[Any]) -> tuple[Pair, ...]:
    ranks: dict[Pair, int] = {}
    for rank, pair in enumerate(merges):
        if not isinstance(pair, list) or len(pair) != 2:
            file.refuse(f"merges[{rank}]", pair, "a list of two ids")
        for side, id in enumerate(pair):
            if type(id) is not int or not 0 <= id < BYTE_COUNT + rank:
                wanted = f"an id from 0 to {BYTE_COUNT + rank - 1}"
                file.refuse(f"merges[{rank}][{side}]", id, wanted)
        if (first := ranks.setdefault((pair[0], pair[1]), rank)) != rank:
            file.refuse(f"merges[{rank}]", pair, f"a new pair; this is merges[{first}] too")
    return tuple(ranks)


def _check_vocab(
    file: SourceFile,
    vocab: dict[str, Any],
    merges: tuple[Pair, ...],
    special_tokens: dict[str, int],
) -> None:
    """Compare the bytes of each id in `vocab` with those that follow from the merges.

    Tokens are compared one by one. So merges that keep doubling a token need no more memory than
    the file itself.
    """

    def checked(id: int, token: bytes) -> bytes:
        if str(id) not in vocab:
            raise ValueError(f'{file.path}: vocab: the id "{id}" is missing')
        path, given = f'vocab["{id}"]', vocab[str(id)]
        if _bytes(file, given, path) != token:
            file.refuse(path, given, f"the bytes of this id, {shown(list(token))}")
        return token

    tokens = [checked(byte, bytes([byte])) for byte in range(BYTE_COUNT)]
    for id, (left, right) in enumerate(merges, BYTE_COUNT):
        tokens.append(checked(id, tokens[left] + tokens[right]))
    for literal, id in special_tokens.items():
        checked(id, literal.encode())
    known = set(map(str, range(len(tokens) + len(special_tokens))))
    for key in vocab:
        if key not in known:
            file.refuse("vocab", key, f"no other keys than the ids 0 to {len(known) - 1}")


def _read_2(file: SourceFile, document: dict[str, Any]) -> Vocabulary:
    """Return the vocabulary of schema version 2: any byte-level BPE vocabulary."""
    given_stages, given_unused = document.pop("stages", None), document.pop("unused_tokens", {})
    given_added = document.pop("added_tokens", [])
    _check_keys(file, document, _document_2(_EMPTY))
    file.check_value(document["unicode_version"], "unicode_version", UNICODE_VERSION)
    file.check_value(document["ignore_merges"], "ignore_merges", True, False)
    file.check_value(document["normalizer"], "normalizer", None, "NFC")
    byte_ids = document["byte_ids"]
    if not isinstance(byte_ids, list) or len(byte_ids) != BYTE_COUNT:
        file.refuse("byte_ids", byte_ids, f"a list of {BYTE_COUNT} ids")
    given = {byte: id for byte, id in enumerate(byte_ids) if id is not None}
    file.check_ids(given, "byte_ids")
    absent_bytes = bytes(byte for byte in range(BYTE_COUNT) if byte not in given)
    has_unknown = _field(given_stages, "unknown_id") is not None
    has_unknown = has_unknown or _field(given_stages, "drops_unknown") is True
    for byte in () if has_unknown else absent_bytes:
        if byte not in IMPOSSIBLE_BYTES:
            file.refuse(f"byte_ids[{byte}]", None, "an id, since UTF-8 has this byte")
    tokens = {id: bytes([byte]) for byte, id in given.items()}
    byte_ids = [id for _, id in sorted((ABSENT_IDS | given).items())]
    given_tokens = _other_tokens(file, document["other_tokens"], tokens)
    other_tokens = {id: token for id, token in given_tokens.items() if token}
    flat, runs = document["merges"], document["merge_ids"]
    ignore_merges = document["ignore_merges"]
    prefix = _field(given_stages, "prefix")
    cut = len(prefix) if isinstance(prefix, str) else 0
    native = None
    if not cut:
        arguments = byte_ids, other_tokens, flat, runs, ignore_merges
        native = ENGINE.read_merges(*arguments, MAX_FILE_BYTES)
    merges: tuple[Pair, ...] = ()
    merge_ids: tuple[int, ...] = ()
    absent_ids = {ABSENT_IDS[byte] for byte in absent_bytes}
    if native is not None and not absent_ids.isdisjoint(flat):
        native = None
    if native is None:  # the Python engine, or a fault that only this code describes
        tokens |= other_tokens
        merges, merge_ids = _merges_2(file, flat, runs, tokens, cut)
    token_with_bytes = tokens.get if native is None else native.token
    unused = _other_tokens(file, given_unused, given_tokens, "unused_tokens")
    for id, unused_token in unused.items():
        if not unused_token or token_with_bytes(id) is not None:
            file.refuse(f'unused_tokens["{id}"]', list(unused_token), "bytes, and an id of its own")
    for id in given_tokens.keys() - other_tokens.keys():
        if token_with_bytes(id) is not None:
            file.refuse(f'other_tokens["{id}"]', [], "the bytes that a merge gives it")

    unmade = given_tokens | unused

    def token_of(id: int) -> bytes | None:
        token = token_with_bytes(id)
        return unmade.get(id) if token is None else token

    special_tokens = _special_tokens(file, document["special_tokens"], ALL_IDS)
    pattern = file.checked_pattern(document["pretokenizer_pattern"], "pretokenizer_pattern")
    more_patterns = file.checked_list(document["more_patterns"], "more_patterns")
    others: dict[str, Any] = {
        "stages": NO_STAGES,
        "more_patterns": tuple(
            file.checked_pattern(pattern, f"more_patterns[{number}]")
            for number, pattern in enumerate(more_patterns)
        ),
        "absent_bytes": absent_bytes,
        "unused_tokens": {id: b"" for id, token in given_tokens.items() if not token} | unused,
        "normalizer": document["normalizer"],
        **{
            key: _literals(file, literals, key, special_tokens)
            for key, literals in (
                ("kept_special_tokens", document["kept_special_tokens"]),
                ("added_tokens", given_added),
            )
        },
        "settings": file.checked_object(document["settings"], "settings"),
    }
    for key, value in others["settings"].items():
        if not isinstance(value, str) or not is_encodable(key + value):
            file.refuse(f"settings[{shown(key)}]", value, "a string in Unicode")
    special_ids = set(special_tokens.values())
    for key in ("prefix_ids", "suffix_ids"):
        others[key] = tuple(file.checked_list(document[key], key))
        for number, id in enumerate(others[key]):
            if type(id) is not int or (token_of(id) is None and id not in special_ids):
                file.refuse(f"{key}[{number}]", id, "the id of a token")
    if given_stages is not None:
        file.check_value(document["normalizer"], "normalizer", None)
        n_patterns = 1 + len(others["more_patterns"])
        others["stages"] = read_stages(file, given_stages, n_patterns, special_tokens)
        if others["stages"].drops_unknown and ignore_merges:
            file.refuse("ignore_merges", True, "false where bytes without a token are dropped")
    literal_bytes = dict(others["stages"].literal_bytes)
    for literal, id in special_tokens.items():
        token = token_of(id)
        if token is not None and token != literal_bytes.get(literal, literal.encode()):
            file.refuse(f"special_tokens[{shown(literal)}]", id, "an id of its own")
    own = () if native is not None else (tuple(byte_ids), merge_ids, other_tokens)
    others |= {"native": native, "ignore_merges": ignore_merges}
    vocabulary = Vocabulary(merges, special_tokens, pattern, *own, **others)
    if native is None:
        vocabulary.know_tokens(tokens)
    with file.path_in_errors():
        ids = [vocabulary.n_vocab - 1] if absent_bytes else ()
        check_absent_bytes(absent_bytes, ids, has_unknown)
    if vocabulary.stages.has_words:
        check_first_tokens(file, vocabulary.stages, vocabulary.id_of)
    if vocabulary.stages.byte_fallback:
        check_characters(file, vocabulary)
    return vocabulary


def _other_tokens(
    file: SourceFile, given_tokens: object, known_ids: Collection[int], name: str = "other_tokens"
) -> dict[int, bytes]:
    other_tokens = {}
    for key, given in file.checked_object(given_tokens, name).items():
        id = int(key) if key.isascii() and key.isdigit() and len(key) <= 10 else -1
        if str(id) != key or id not in ALL_IDS:
            file.refuse(name, key, "ids as keys")
        if id in known_ids:
            file.refuse(name, key, "an id of its own; a byte has it too")
        path = f'{name}["{key}"]'
        other_tokens[id] = _bytes(file, given, path)
        if len(other_tokens[id]) == 1 and name == "other_tokens":
            file.refuse(path, given, "no byte, or two at least")
    return dict(sorted(other_tokens.items()))


def _field(given: object, name: str) -> object:
    return given.get(name) if isinstance(given, dict) else None


def _merges_2(
    file: SourceFile, flat: Any, runs: object, tokens: dict[int, bytes], cut: int
) -> tuple[tuple[Pair, ...], tuple[int, ...]]:
    """Return the merges with their ids, once all make different tokens; add these to `tokens`.

    The right part of a merge loses `cut` bytes.
    """
    if not isinstance(flat, list) or len(flat) % 2:
        file.refuse("merges", flat, "a list of two ids for each merge")
    for number, id in enumerate(flat):
        if type(id) is not int:
            file.refuse(f"merges[{number}]", id, f"an id from 0 to {MAX_ID}")
    merges = tuple(zip(flat[::2], flat[1::2], strict=True))
    merge_ids = _merge_ids(file, runs, len(merges))
    seen: set[Pair] = set()
    total = 0
    for rank, (pair, id) in enumerate(zip(merges, merge_ids, strict=True)):
        left, right = pair
        try:
            total += len(tokens[left]) + len(tokens[right])
        except KeyError as error:
            path = f"merges[{2 * rank + (left in tokens)}]"
            file.refuse(path, error.args[0], "an id that is defined before")
        if total > MAX_FILE_BYTES:  # merges that keep doubling a token
            file.refuse(f"merges[{2 * rank}]", pair, f"at most {MAX_FILE_BYTES} bytes of tokens")
        token = tokens[left] + tokens[right][cut:]
        if tokens.setdefault(id, token) != token:
            file.refuse(f"merges[{2 * rank}]", pair, f"a merge that makes the id {id}")
        if pair in seen:
            file.refuse(f"merges[{2 * rank}]", pair, "a new pair")
        seen.add(pair)
    first_of: dict[bytes, int] = {}
    for id, token in sorted(tokens.items()):
        if (first := first_of.setdefault(token, id)) != id:
            file.refuse("the file", id, f"ids of different bytes; {first} has these too")
    return merges, merge_ids


def _merge_ids(file: SourceFile, given: object, count: int) -> tuple[int, ...]:
    runs = file.checked_list(given, "merge_ids")
    total = 0
    for number, run in enumerate(runs):
        path = f"merge_ids[{number}]"
        if not isinstance(run, list) or [*map(type, run)] != [int, int] or min(run) < 0:
            file.refuse(path, run, "a list of an id and a length")
        if not 1 <= run[1] <= MAX_ID + 1 - run[0]:
            file.refuse(path, run, "a run of ids up to the highest id")
        total += run[1]
    # Check before runs are expanded: a short file may name any number of ids.
    if total != count:
        file.refuse("merge_ids", total, f"an id for each of {count} merges")
    return tuple(chain.from_iterable(range(first, first + length) for first, length in runs))


def _literals(
    file: SourceFile, literals: object, key: str, special_tokens: Collection[str]
) -> frozenset[str]:
    """Return the special tokens that a list names."""
    found: set[str] = set()
    for number, literal in enumerate(file.checked_list(literals, key)):
        if not isinstance(literal, str) or literal not in special_tokens or literal in found:
            file.refuse(f"{key}[{number}]", literal, "one of special_tokens, each once")
        found.add(literal)
    return frozenset(found)
