"""Read tokenizers of tiktoken, tokenizers and transformers, as far as streams need them.

This module imports none of these libraries: a user who has a tokenizer has imported its library.
The rules of decoding come from the library's own description of its decoder. An unknown rule is
refused, as is a rule that makes the text of a token depend on later tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from bpetite._streaming.byte_decoders import (
    ByteDecoder,
    ByteRunDecoder,
    TextStartDecoder,
    Utf8Decoder,
    strip_start,
)
from bpetite._streaming.tables import TokenSource
from bpetite._unicode.byte_characters import to_bytes
from bpetite._vocabulary import TokenTable, as_id, check_id_range, lazy_property

ForeignVocabulary = Mapping[int, bytes] | object
"""A mapping of ids to bytes, a tiktoken.Encoding, a tokenizers.Tokenizer or a fast tokenizer of
transformers."""

# The byte token `<0xE4>`. The number may have a sign, as the library reads it.
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>")

_STOCK_MODULES = "transformers.tokenization_utils", "bpetite.transformers."
"""Where the methods of classes are that decode as their backend does."""

_WHOLE = "a stream cannot do so, so decode all ids at once"

_REASONS = {
    "WordPiece": "it puts spaces between words and takes some out again",
    "BPEDecoder": "it ends each word with a space, but not the last one",
    "CTC": "it drops repeated tokens",
}


@dataclass(frozen=True, eq=False)
class ForeignTokens:
    """The bytes of each id, and how they are decoded.

    >>> ForeignTokens.checked({7: b"a", 8: b"<s>"}, [8]).tokens_without_special.bytes_of
    {7: b'a', 8: b''}
    """

    bytes_of: Mapping[int, bytes]
    skipped_ids: frozenset[int] = frozenset()  # of special tokens
    byte_ids: frozenset[int] = frozenset()  # of byte tokens that are decoded in runs
    first_bytes_of: Mapping[int, bytes] = field(default_factory=dict)  # see TextStartDecoder
    strips: int = 0
    character: str = " "

    @classmethod
    def checked(cls, bytes_of: Mapping[int, bytes], special_ids: Iterable[int]) -> ForeignTokens:
        """Return the tokens of a mapping of ids to bytes.

        Raises TypeError for an id that is no integer or a token that is not bytes. Raises
        ValueError if there is no token, an id is negative or above MAX_ID, or a special id has no
        bytes.
        """
        if not bytes_of:
            raise ValueError("a vocabulary must have a token")
        if {*map(type, bytes_of)} != {int}:
            bytes_of = {as_id(id): token for id, token in bytes_of.items()}
        if {*map(type, bytes_of.values())} != {bytes}:
            for id, token in bytes_of.items():
                if type(token) is not bytes:
                    kind = type(token).__name__
                    raise TypeError(f"the token of id {id} must be bytes, got {kind}")
        check_id_range((min(bytes_of), max(bytes_of)))
        specials = frozenset(map(as_id, special_ids))
        for id in sorted(specials - bytes_of.keys()):
            raise ValueError(
                f"the special id {id} has no bytes in the vocabulary; add the bytes of its literal"
            )
        return cls(dict(bytes_of), specials)

    @lazy_property
    def tokens(self) -> TokenTable:
        return TokenTable(self.bytes_of, in_runs=self.byte_ids)

    @lazy_property
    def tokens_without_special(self) -> TokenTable:
        """Every id with its bytes, but none for special tokens: to skip them."""
        bytes_of = {**self.bytes_of, **dict.fromkeys(self.skipped_ids, b"")}
        return TokenTable(bytes_of, self.skipped_ids, self.byte_ids - self.skipped_ids)

    def stream_tokens(self, skips: bool) -> TokenTable:
        return self.tokens_without_special if skips else self.tokens

    def decoder(self, table: TokenTable, errors: str) -> ByteDecoder:
        skipped = table.skipped
        utf8 = Utf8Decoder(table, errors)
        # Only "replace" applies to whole runs; the other values of `errors` are for single bytes.
        in_runs = self.byte_ids and errors == "replace"
        inner: ByteDecoder = ByteRunDecoder(utf8, self.byte_ids, skipped) if in_runs else utf8
        if not (self.first_bytes_of or self.strips):
            return inner
        return TextStartDecoder(
            inner, table.bytes_of, skipped, self.first_bytes_of, self.character, self.strips
        )

    def source(self) -> TokenSource:
        return TokenSource(self, self.decoder)

    def __reduce__(self) -> tuple[object, ...]:
        fields = self.byte_ids, self.first_bytes_of, self.strips, self.character
        return ForeignTokens, (self.bytes_of, self.skipped_ids, *fields)  # without the tables


def source_of(
    vocabulary: ForeignVocabulary, special_ids: Iterable[int], *, buffer_byte_runs: bool
) -> TokenSource:
    """Return the source of a vocabulary's streams.

    >>> source_of({7: b"a"}, (), buffer_byte_runs=True).vocabulary.tokens.bytes_of
    {7: b'a'}

    Raises ValueError, with the reason, for a tokenizer that cannot be streamed, or one that was
    given `special_ids`; TypeError for any other object.
    """
    if type(buffer_byte_runs) is not bool:
        raise TypeError(f"buffer_byte_runs must be a bool, got {type(buffer_byte_runs).__name__}")
    if isinstance(vocabulary, Mapping):
        return ForeignTokens.checked(vocabulary, special_ids).source()
    library = _library_of(vocabulary)
    if library is None:
        raise TypeError(
            f"vocabulary must be a mapping of ids to bytes, a tiktoken.Encoding, a "
            f"tokenizers.Tokenizer or a fast tokenizer of transformers, "
            f"got {type(vocabulary).__name__}"
        )
    if [*special_ids]:
        raise ValueError(f"special_ids are for a mapping; leave them out: {library} knows its own")
    if library == "tiktoken":
        _check_methods(vocabulary, ("decode", "decode_bytes"), "tiktoken", _WHOLE)
        return _of_tiktoken(vocabulary).source()
    tokenizer: Any = vocabulary
    if library == "transformers":
        tokenizer = _backend(tokenizer)
    inner = getattr(tokenizer, "_tokenizer", tokenizer)  # of tokenizers.implementations
    for each in (tokenizer, inner):
        _check_methods(each, ("decode",), "tokenizers", _WHOLE)
    tokenizer = inner
    added = {
        id: (token.content, token.special)
        for id, token in tokenizer.get_added_tokens_decoder().items()
    }
    return _of_tokenizers(tokenizer, added, _described(tokenizer), buffer_byte_runs).source()


def _library_of(vocabulary: object) -> str | None:
    """Return the name of the library that an object's class, or a base of it, belongs to."""
    for each in type(vocabulary).__mro__:
        module = each.__module__.split(".")[0]
        if module in ("tiktoken", "tokenizers", "transformers"):
            return module if hasattr(vocabulary, "decode") else None
    return None


def _of_tiktoken(encoding: Any) -> ForeignTokens:
    specials: dict[str, int] = encoding._special_tokens
    bytes_of = {id: literal.encode("utf-8") for literal, id in specials.items()}
    bytes_of |= {id: token for token, id in encoding._mergeable_ranks.items()}
    return ForeignTokens.checked(bytes_of, specials.values())


def _backend(tokenizer: Any) -> Any:
    """Return the tokenizer of tokenizers inside one of transformers, if both decode alike."""
    kind = type(tokenizer).__name__
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(f"the {kind} is a slow tokenizer, which does not decode by tokenizers")
    advice = "to decode as its backend_tokenizer does, give that instead"
    _check_methods(tokenizer, ("decode", "_decode"), _STOCK_MODULES, advice)
    forced = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
    ignored = (
        hasattr(tokenizer, forced)  # a version that cleans up text of BPE only if this is set
        and not getattr(tokenizer, forced)
        and type(tokenizer.backend_tokenizer.model).__name__ == "BPE"
    )
    if tokenizer.clean_up_tokenization_spaces and not ignored:
        raise ValueError(
            f"the {kind} removes spaces before some symbols, which depends on later tokens; "
            f"set its clean_up_tokenization_spaces to False"
        )
    return tokenizer.backend_tokenizer


def _check_methods(
    tokenizer: Any, names: Iterable[str], modules: str | tuple[str, ...], advice: str
) -> None:
    """Refuse a tokenizer whose class, or which itself, has another method than its library's."""
    for name in names:
        method = getattr(tokenizer, name)
        module = getattr(method, "__module__", None) or "tokenizers"  # written in Rust
        if name in vars(tokenizer) or not module.startswith(modules):
            where = getattr(method, "__qualname__", repr(method))
            raise ValueError(
                f"the {type(tokenizer).__name__} decodes in a way of its own ({where}); {advice}"
            )


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
    tokenizer: Any,
    added: Mapping[int, tuple[str, bool]],
    rules: bytes | None,
    buffer_byte_runs: bool,
) -> ForeignTokens:
    if rules is None:
        _refuse("None", "tokens are joined with spaces")
    string_of = _strings(tokenizer)
    string_of |= {id: content for id, (content, _) in added.items()}
    special = {content for content, is_special in added.values() if is_special}
    special_ids = frozenset(id for id, string in string_of.items() if string in special)
    texts = _Texts(string_of)
    texts.take(json.loads(rules))
    return texts.tokens(special_ids, buffer_byte_runs)


def _strings(tokenizer: Any) -> dict[int, str]:
    id_of: dict[str, int] = tokenizer.get_vocab(with_added_tokens=False)
    string_of = dict(zip(id_of.values(), id_of, strict=True))
    # Some models have several strings for an id, or several ids for a string.
    size = tokenizer.get_vocab_size(with_added_tokens=False)
    if not len(string_of) == len(id_of) == size:
        for id in {*string_of, *range(size)}:
            string = tokenizer.id_to_token(id)
            if string is not None:
                string_of[id] = string
    return string_of


class _Texts:
    """The text of each token by the rules of a decoder of tokenizers, and how texts are joined."""

    def __init__(self, string_of: Mapping[int, str]) -> None:
        self._ids = [*string_of]
        # The second list, if there is one, has the texts of tokens at the beginning.
        self._texts = [[*string_of.values()]]
        self._byte_rule = ""  # the rule that turns strings into bytes
        self._is_joined = False  # whether the tokens were joined to one text
        self._strips = 0
        self._character = " "

    def take(self, rule: dict[str, Any]) -> None:
        """Change the texts by a rule."""
        kind = rule["type"]
        if kind == "Sequence":
            for inner in rule["decoders"]:
                self.take(inner)
        elif kind == "Fuse":
            self._is_joined = True
        elif kind == "Strip":
            self._take_strip(rule)
        elif kind in _REASONS:
            _refuse(kind, _REASONS[kind])
        elif kind not in ("Replace", "Metaspace", "ByteFallback", "ByteLevel"):
            _refuse(kind, "it is not known here")
        elif self._is_joined or self._byte_rule:
            _refuse(kind, "it comes when tokens are joined, so it may change several at a time")
        elif kind == "Replace":
            old = rule["pattern"].get("String")
            if not old:
                _refuse(kind, "its pattern is a regular expression")
            self._texts = [_replaced(texts, old, rule["content"]) for texts in self._texts]
        elif kind == "Metaspace":
            space = rule["replacement"]
            first = " " if rule.get("prepend_scheme", "always") == "never" else ""
            texts, first_texts = self._texts[0], self._texts[-1]
            self._texts = [_replaced(texts, space, " "), _replaced(first_texts, space, first)]
        else:
            self._byte_rule = kind
            self._is_joined = kind == "ByteLevel"

    def _take_strip(self, rule: dict[str, Any]) -> None:
        character, limit = rule["content"], rule["start"]
        if rule["stop"]:
            _refuse("Strip", "it strips the end of the text, which a stream does not know")
        if self._is_joined:
            if self._strips and self._character != character:
                _refuse("Strip", "it strips one character after another")
            self._strips += limit
            self._character = character
        elif self._byte_rule:
            _refuse("Strip", "it strips each run of byte tokens")
        else:
            self._texts = [
                [strip_start(text, character, limit) for text in texts] for texts in self._texts
            ]

    def tokens(self, special_ids: frozenset[int], buffer_byte_runs: bool) -> ForeignTokens:
        to_bytes = _from_level if self._byte_rule == "ByteLevel" else str.encode
        bytes_of = dict(zip(self._ids, map(to_bytes, self._texts[0]), strict=True))
        byte_of: dict[int, bytes] = {}
        if self._byte_rule == "ByteFallback":
            byte_of = {
                id: bytes([int(match[1], 16)])
                for id, text in zip(self._ids, self._texts[0], strict=True)
                if len(text) == 6 and (match := _BYTE_TOKEN.fullmatch(text))
            }
            bytes_of |= byte_of
        first_bytes_of = {
            id: first
            for texts in self._texts[1:]
            for id, first in zip(self._ids, map(to_bytes, texts), strict=True)
            if id not in byte_of and first != bytes_of[id]
        }
        byte_ids = frozenset(byte_of if buffer_byte_runs else ())
        return ForeignTokens(
            bytes_of, special_ids, byte_ids, first_bytes_of, self._strips, self._character
        )


def _replaced(texts: list[str], old: str, new: str) -> list[str]:
    return [text.replace(old, new) for text in texts]


def _from_level(text: str) -> bytes:
    try:
        return to_bytes(text)
    except ValueError:
        return text.encode("utf-8")  # a character stands for no byte, so it is plain text


def _refuse(decoder: str, reason: str) -> NoReturn:
    raise ValueError(f"the decoder {decoder} cannot be streamed: {reason}")
