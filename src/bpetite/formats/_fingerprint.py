"""One name for all files of a vocabulary: a hash of everything that decides ids."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice

from bpetite._token_parts import token_parts
from bpetite._unicode.data import VERSION as UNICODE_VERSION
from bpetite._vocabulary import NO_STAGES, Vocabulary

_VERSION = 1

_PART_ITEMS = 1 << 12


def fingerprint(vocabulary: Vocabulary) -> str:
    """Return "sha256:" and the hash of a JSON document that describes a vocabulary.

    Files in other formats give the same document if they keep the meaning of the vocabulary.
    Therefore the document omits merges that no text uses, and whatever concerns decoding alone.

    >>> fingerprint(Vocabulary(((97, 98),), {}, "."))
    'sha256:26e2ddd51837b5782f8a1ac923815d87cad16db487bad9ba4dcd2ca1d65f425d'
    """
    tokens, merges, ignore_merges = _items(vocabulary)
    special_tokens = sorted((id, literal) for literal, id in vocabulary.special_tokens.items())
    document = {
        "version": _VERSION,
        "unicode_version": UNICODE_VERSION,
        "patterns": vocabulary.patterns,
        "normalizer": vocabulary.normalizer,
        "tokens": tokens,
        "merges": merges,
        "ignore_merges": ignore_merges,
        "special_tokens": special_tokens,
        "prefix_ids": vocabulary.prefix_ids,
        "suffix_ids": vocabulary.suffix_ids,
    }
    if vocabulary.stages != NO_STAGES:
        document["stages"] = vocabulary.stages.document()
    if vocabulary.added_tokens:
        document["added_tokens"] = sorted(vocabulary.added_tokens)
    import hashlib  # imported here, since few programs need it

    hashed = hashlib.sha256()
    for part in _json_parts(document):
        hashed.update(part.encode("ascii"))
    return f"sha256:{hashed.hexdigest()}"


def _items(vocabulary: Vocabulary) -> tuple[Iterator[str], Iterator[str], bool]:
    """Return the JSON of the tokens, the JSON of the merges that texts use, and `ignore_merges`."""
    native = None if vocabulary.absent_bytes else vocabulary.native
    if native is not None and (items := native.json_items()):
        tokens, merges = items
        return iter([tokens]), filter(None, [merges]), False
    parts = token_parts(vocabulary)
    pairs = zip(vocabulary.merges, vocabulary.merge_ids, strict=True)
    # If each token has one merge and `ignore_merges` is false, texts use all merges, so no file of
    # another format lists fewer. With words, texts do not merge as the bytes of a token do.
    has_words = vocabulary.stages.has_words
    used = [f"[{pair[0]},{pair[1]},{id}]" for pair, id in pairs if has_words or parts[id] == pair]
    return (
        (f'[{id},"{token.hex()}"]' for id, token in vocabulary.ordinary_tokens.items()),
        iter(used),
        # A token that no merge makes may still be the id of a whole piece.
        vocabulary.ignore_merges and len(used) < len(parts),
    )


def _json_parts(document: Mapping[str, object]) -> Iterator[str]:
    """Yield the JSON of an object in parts, by sorted keys.

    A value may be an iterator of the JSON of its items.

    >>> "".join(_json_parts({"b": iter(["1", "2"]), "a": None, "c": iter([])}))
    '{"a":null,"b":[1,2],"c":[]}'
    """
    separator = "{"
    for key, value in sorted(document.items()):
        yield f"{separator}{_dumps(key)}:"
        separator = ","
        if not isinstance(value, Iterator):
            yield _dumps(value)
            continue
        before = "["
        while items := [*islice(value, _PART_ITEMS)]:
            yield before + ",".join(items)
            before = ","
        yield "]" if before == "," else "[]"
    yield "}"


_dumps = partial(json.dumps, sort_keys=True, separators=(",", ":"))
