"""Read tokenizers of tiktoken, tokenizers and transformers, as far as streams need to know them.

None of these libraries is imported: whoever has a tokenizer of one has imported it. Which rules
decoding follows, the library's own description of its decoder says; a rule that is not known, or
by which the text of a token depends on the tokens behind it, is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from threading import Lock
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from bpetite._stream_tokens import Tokens
from bpetite.formats._byte_characters import to_bytes

Source = Mapping[int, bytes] | object
"""A mapping of ids to bytes, a tiktoken.Encoding, a tokenizers.Tokenizer or a fast tokenizer of
transformers."""

_Map = Callable[[list[str]], list[str]]

# A byte of a token that is `<0xE4>`; the library's number may have a sign.
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>")

_REASONS = {
    "WordPiece": "it puts spaces between words and takes some out again",
    "BPEDecoder": "the end of a word is a space, but not behind the last token",
    "CTC": "tokens that are repeated are one",
}

_Known = tuple[object, dict[bool, Tokens]]

# What each tokenizer looked like when it was read, and what was read of it. There are no weak
# references to those of older versions of tokenizers: of these the last few are kept.
_known: WeakKeyDictionary[object, _Known] = WeakKeyDictionary()
_last_known: dict[int, tuple[object, _Known]] = {}
_MOST_LAST = 4
_lock = Lock()


def tokens_of(source: Source, special_ids: Iterable[int], *, whole_runs: bool) -> Tokens:
    """Return what the ids of a source mean; that of a library's tokenizer is kept as long as it is.

    >>> tokens_of({7: b"a"}, (), whole_runs=True).bytes_of
    {7: b'a'}

    Raises ValueError, saying why, for a tokenizer whose decoding cannot be streamed or was given
    `special_ids`; TypeError for what is no such source.
    """
    if type(whole_runs) is not bool:
        raise TypeError(f"whole_runs must be a bool, got {type(whole_runs).__name__}")
    if isinstance(source, Mapping):
        return Tokens.checked(source, special_ids)
    home = _home_of(source)
    if home is None:
        raise TypeError(
            f"vocabulary must be a mapping of ids to bytes, a tiktoken.Encoding, a "
            f"tokenizers.Tokenizer or a fast tokenizer of transformers, got {type(source).__name__}"
        )
    if [*special_ids]:
        raise ValueError(f"special_ids are for a mapping: {home} knows those of its tokenizer")
    if home == "tiktoken":
        return _kept(source, None, whole_runs, lambda: _of_tiktoken(source))
    tokenizer: Any = source
    if home == "transformers":
        tokenizer = _backend(tokenizer)
    tokenizer = getattr(tokenizer, "_tokenizer", tokenizer)  # within tokenizers.implementations
    added = {
        id: (token.content, token.special)
        for id, token in tokenizer.get_added_tokens_decoder().items()
    }
    rules = _described(tokenizer)
    looks = rules, added, tokenizer.get_vocab_size(with_added_tokens=False)
    return _kept(source, looks, whole_runs, lambda: _of_tokenizers(tokenizer, added, whole_runs))


def _home_of(source: object) -> str | None:
    """Return the name of the library that an object is of, be it of a class derived from its."""
    for each in type(source).__mro__:
        module = each.__module__.split(".")[0]
        if module in ("tiktoken", "tokenizers", "transformers"):
            return module if hasattr(source, "decode") else None
    return None


def _kept(source: object, looks: object, whole_runs: bool, read: Callable[[], Tokens]) -> Tokens:
    """Return what was read of a tokenizer; read it if it is new or looks otherwise."""
    with _lock:
        then, known = _known_of(source)
        if then != looks:
            known = {}
        if whole_runs not in known:
            known[whole_runs] = read()
            _know(source, (looks, known))
        return known[whole_runs]


def _known_of(source: object) -> _Known:
    with suppress(TypeError):  # there is no weak reference to it, or it has no hash
        return _known.get(source, (None, {}))
    _, known = _last_known.get(id(source), (None, (None, {})))
    return known


def _know(source: object, known: _Known) -> None:
    with suppress(TypeError):
        _known[source] = known
        return
    _last_known[id(source)] = source, known
    for other in [*_last_known][:-_MOST_LAST]:
        del _last_known[other]


def _of_tiktoken(encoding: Any) -> Tokens:
    specials: dict[str, int] = encoding._special_tokens
    bytes_of = {id: literal.encode("utf-8") for literal, id in specials.items()}
    bytes_of |= {id: token for token, id in encoding._mergeable_ranks.items()}
    return Tokens.checked(bytes_of, specials.values())


def _backend(tokenizer: Any) -> Any:
    """Return the tokenizer of tokenizers in one of transformers, if its decoding is that one's."""
    kind = type(tokenizer).__name__
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(f"the {kind} is no fast tokenizer: its decoding is not of tokenizers")
    for name in ("decode", "_decode"):
        method = getattr(type(tokenizer), name)
        if not method.__module__.startswith("transformers.tokenization_utils"):
            raise ValueError(
                f"the {kind} decodes in a way of its own ({method.__qualname__}); if that of its "
                f"backend_tokenizer is wanted, give that"
            )
    forced = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
    ignored = (
        hasattr(tokenizer, forced)  # a version that cleans up no text of BPE but by this
        and not getattr(tokenizer, forced)
        and type(tokenizer.backend_tokenizer.model).__name__ == "BPE"
    )
    if tokenizer.clean_up_tokenization_spaces and not ignored:
        raise ValueError(
            f"the {kind} takes spaces before some signs out of its text, which depends on what "
            f"follows: set its clean_up_tokenization_spaces to False"
        )
    return tokenizer.backend_tokenizer


def _described(tokenizer: Any) -> bytes | None:
    """Return the library's description of a decoder; None for none."""
    decoder = tokenizer.decoder
    if decoder is None:
        return None
    try:
        description: bytes = decoder.__getstate__()
    except Exception as error:
        _refuse("Decoder.custom", f"it cannot be described ({error})")
    return description


def _of_tokenizers(
    tokenizer: Any, added: Mapping[int, tuple[str, bool]], whole_runs: bool
) -> Tokens:
    string_of = _strings(tokenizer)
    string_of |= {id: content for id, (content, _) in added.items()}
    special = {content for content, is_special in added.values() if is_special}
    special_ids = frozenset(id for id, string in string_of.items() if string in special)
    rules = _Rules(_described(tokenizer))
    return rules.tokens(string_of, special_ids, whole_runs)


def _strings(tokenizer: Any) -> dict[int, str]:
    """Return the string of each id of a model."""
    id_of: dict[str, int] = tokenizer.get_vocab(with_added_tokens=False)
    string_of = dict(zip(id_of.values(), id_of, strict=True))
    # Some models know of strings that have the same id, or of ids that have the same string.
    size = tokenizer.get_vocab_size(with_added_tokens=False)
    if not len(string_of) == len(id_of) == size:
        for id in {*string_of, *range(size)}:
            string = tokenizer.id_to_token(id)
            if string is not None:
                string_of[id] = string
    return string_of


class _Rules:
    """A decoder of tokenizers: what becomes of each token's string, and how all are joined."""

    def __init__(self, description: bytes | None) -> None:
        self._maps: list[_Map] = []
        self._first_maps: list[_Map] = []  # those of the first token
        self._first_is_other = False
        self._bytes = ""  # the rule by which there are bytes
        self._is_whole = False  # whether the tokens are one text already
        self._strips = 0
        self._character = " "
        if description is None:
            _refuse("None", "tokens are joined with spaces")
        for rule in _single_rules(json.loads(description)):
            self._take(rule)

    def _take(self, rule: dict[str, Any]) -> None:
        kind = rule["type"]
        if kind == "Fuse":
            self._is_whole = True
        elif kind == "Strip":
            self._take_strip(rule)
        elif kind in _REASONS:
            _refuse(kind, _REASONS[kind])
        elif kind not in ("Replace", "Metaspace", "ByteFallback", "ByteLevel"):
            _refuse(kind, "it is not known here")
        elif self._is_whole or self._bytes:
            _refuse(kind, "it comes when tokens are joined, so it may change several at a time")
        elif kind == "Replace":
            old = rule["pattern"].get("String")
            if not old:
                _refuse(kind, "its pattern is a regular expression")
            self._map(_replacing(old, rule["content"]))
        elif kind == "Metaspace":
            sign = rule["replacement"]
            keeps = rule.get("prepend_scheme", "always") == "never"
            self._first_is_other |= not keeps
            self._map(_replacing(sign, " "), _replacing(sign, " " if keeps else ""))
        else:
            self._bytes = kind
            self._is_whole = kind == "ByteLevel"

    def _take_strip(self, rule: dict[str, Any]) -> None:
        character, most = rule["content"], rule["start"]
        if rule["stop"]:
            _refuse("Strip", "what is stripped at the end is not known before the end")
        if self._is_whole:
            if self._strips and self._character != character:
                _refuse("Strip", "it strips one character after another")
            self._strips += most
            self._character = character
        elif self._bytes:
            _refuse("Strip", "it strips each run of byte tokens")
        else:
            self._map(lambda texts: [_stripped(text, character, most) for text in texts])

    def _map(self, map: _Map, first: _Map | None = None) -> None:
        self._maps.append(map)
        self._first_maps.append(first or map)

    def tokens(
        self, string_of: Mapping[int, str], special_ids: frozenset[int], whole_runs: bool
    ) -> Tokens:
        """Return what ids mean by these rules, that have these strings."""
        texts = _mapped(string_of, self._maps)
        bytes_of = dict(zip(string_of, self._to_bytes(texts), strict=True))
        byte_of: dict[int, bytes] = {}
        if self._bytes == "ByteFallback":
            byte_of = dict(_byte_tokens(string_of, texts))
            bytes_of |= byte_of
        first_of: dict[int, bytes] = {}
        if self._first_is_other:
            firsts = _mapped(string_of, self._first_maps)
            first_of = {
                id: first
                for id, first in zip(string_of, self._to_bytes(firsts), strict=True)
                if id not in byte_of and first != bytes_of[id]
            }
        return Tokens(
            bytes_of,
            special_ids,
            frozenset(byte_of if whole_runs else ()),
            first_of,
            self._strips,
            self._character,
        )

    def _to_bytes(self, texts: list[str]) -> list[bytes]:
        if self._bytes == "ByteLevel":
            return [*map(_from_level, texts)]
        return [text.encode() for text in texts]


def _from_level(text: str) -> bytes:
    try:
        return to_bytes(text)
    except ValueError:
        return text.encode("utf-8")  # not written in bytes' characters: it is its own text


def _byte_tokens(ids: Iterable[int], texts: list[str]) -> Iterator[tuple[int, bytes]]:
    for id, text in zip(ids, texts, strict=True):
        if len(text) == 6 and (match := _BYTE_TOKEN.fullmatch(text)):
            yield id, bytes([int(match[1], 16)])


def _single_rules(rule: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if rule["type"] != "Sequence":
        yield rule
        return
    for inner in rule["decoders"]:
        yield from _single_rules(inner)


def _mapped(string_of: Mapping[int, str], maps: list[_Map]) -> list[str]:
    texts = [*string_of.values()]
    for map in maps:
        texts = map(texts)
    return texts


def _replacing(old: str, new: str) -> _Map:
    return lambda texts: [text.replace(old, new) for text in texts]


def _stripped(text: str, character: str, most: int) -> str:
    while most and text.startswith(character):
        text, most = text[1:], most - 1
    return text


def _refuse(decoder: str, reason: str) -> NoReturn:
    raise ValueError(f"the decoder {decoder} cannot be streamed: {reason}")
