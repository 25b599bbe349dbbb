"""The shared nouns: what a vocabulary is, and which bytes each of its ids stands for.

Every other module imports from here; this one imports nothing of ours.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, Protocol

Pair = tuple[int, int]
"""Two adjacent ids in a piece."""

BYTE_COUNT = 256
"""Ids 0 to 255 are the single bytes in what is trained here; other ids follow."""

MAX_ID = 2**32 - 1
"""The highest id that any vocabulary may have."""

_BYTES = tuple(range(BYTE_COUNT))

# The fields of a vocabulary that a core has instead, until they are asked for.
_LONG_FIELDS = ("merges", "merge_ids")


def as_id(value: object) -> int:
    """Return `value` as a plain int id; any integer type will do (numpy's too), a bool will not.

    >>> as_id(97)
    97

    Raises TypeError for everything that is not an integer.
    """
    if isinstance(value, bool):
        raise TypeError(f"an id must be an integer, got the bool {value}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"an id must be an integer, got {type(value).__name__} {value!r}") from None


def is_encodable(text: str) -> bool:
    """Return whether a text is Unicode: whether it has no lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class TokenBytes(dict[int, bytes]):
    """The bytes of each id. A plain dict, but an unknown id is told what would be right."""

    def __missing__(self, id: int) -> bytes:
        raise KeyError(f"id {id} is not in this vocabulary (its ids run from 0 to {self._last})")

    @cached_property
    def _last(self) -> int:
        return max(self)


class TokenTable:
    r"""What decoding looks up: the bytes of each id, and the text of those that are whole text.

    >>> table = TokenTable({0: b"a", 1: b"\xc3", 2: b"\xc3\xa9"})
    >>> table.bytes_of[1], table.text_of
    (b'\xc3', ['a', None, 'é'])
    """

    def __init__(
        self,
        bytes_of: Mapping[int, bytes],
        vocabulary: object = None,
        *,
        skips_special_tokens: bool = False,
        reader_of: Any = None,
    ) -> None:
        self.bytes_of = TokenBytes(bytes_of)
        self.skips_special_tokens = skips_special_tokens
        self.stream_memory: Any = None  # what the streams over this table share: theirs to fill
        self.reader_of = reader_of  # how streams read these bytes, if not as UTF-8: theirs to call
        self._vocabulary = vocabulary  # whose table it is, if it is one's

    def __reduce__(self) -> tuple[object, ...]:
        if self._vocabulary is None:
            return TokenTable, (dict(self.bytes_of),)
        name = "tokens_without_special" if self.skips_special_tokens else "tokens"
        return getattr, (self._vocabulary, name)

    @cached_property
    def text_of(self) -> list[str | None]:
        """The text of each id whose bytes are valid UTF-8 by themselves; None for the others.

        It ends before ids that lie far beyond the number of tokens, if there are any.
        """
        text_of: list[str | None] = [None] * min(max(self.bytes_of) + 1, 2 * len(self.bytes_of))
        for id, token in self.bytes_of.items():
            try:  # `suppress` would take twice the time of it all
                text = token.decode()
            except UnicodeDecodeError:
                continue
            if id < len(text_of):
                text_of[id] = text
        return text_of

    def know_texts(self, text_of: list[str | None]) -> None:
        """Take what `text_of` would derive from one who has derived it already."""
        self.__dict__["text_of"] = text_of


class Core(Protocol):
    """What the native core has of a vocabulary that it has checked: all that is long in it.

    The fields of `Vocabulary` are taken out of it when they are first asked for.
    """

    @property
    def ignore_merges(self) -> bool: ...
    def byte_ids(self) -> tuple[int, ...]: ...
    def merges(self) -> tuple[Pair, ...]: ...
    def merge_ids(self) -> tuple[int, ...]: ...
    def other_tokens(self) -> dict[int, bytes]: ...
    def tokens(self) -> dict[int, bytes]:
        """Return the bytes of every id but those of special tokens, in ascending order of ids."""
        ...

    def token(self, id: int) -> bytes | None:
        """Return the bytes of one of these ids."""
        ...


def check_special_tokens(
    special_tokens: Mapping[str, int], token_of: Callable[[int], bytes | None]
) -> None:
    """Raise ValueError for a special token that is empty, or has the id of other bytes.

    `token_of` returns the bytes of an ordinary token's id, None of an id that is none.
    """
    literal_of: dict[int, str] = {}
    for literal, id in special_tokens.items():
        if not literal or not is_encodable(literal):
            raise ValueError(f"the special token {literal!r} is empty, or not Unicode")
        if literal_of.setdefault(id, literal) != literal:
            raise ValueError(f"{literal!r} and {literal_of[id]!r} have the id {id}")
        if (token := token_of(id)) not in (None, literal.encode()):
            raise ValueError(f"the id {id} of {literal!r} is that of {token!r}")


def check_ids(ids: Iterable[int]) -> None:
    """Raise ValueError for an id that is none."""
    for id in ids:
        if not 0 <= id <= MAX_ID:
            raise ValueError(f"the id {id} is not from 0 to {MAX_ID}")


@dataclass(frozen=True)
class Vocabulary:
    """Merges in rank order, special tokens and their ids, and the pattern that cuts pieces.

    That is all there is to a vocabulary that was trained here: a byte is its own id, the merge of
    rank r has the id BYTE_COUNT + r, and the ids of special tokens follow without a gap. The other
    fields are for vocabularies from elsewhere, in which any id may stand for anything. What
    follows from the fields is derived from them once, when it is first needed.

    >>> vocabulary = Vocabulary(((97, 98),), {"<|end|>": 257}, pattern="...")
    >>> vocabulary.tokens.bytes_of[256], vocabulary.tokens.bytes_of[257]
    (b'ab', b'<|end|>')
    """

    merges: tuple[Pair, ...]
    special_tokens: Mapping[str, int]
    pattern: str
    # The id of each byte, and the id that each merge makes; several merges may make the same one.
    byte_ids: tuple[int, ...] = _BYTES
    merge_ids: tuple[int, ...] = field(default_factory=tuple)  # BYTE_COUNT + rank, if not given
    # The bytes of the tokens that no merge makes, or none before it is a part in another.
    other_tokens: Mapping[int, bytes] = field(default_factory=dict)
    # Whether a whole piece that is a token is that token, whatever its merges would make of it.
    ignore_merges: bool = False
    # Patterns that cut the pieces of `pattern` again, one after the other.
    more_patterns: tuple[str, ...] = ()
    # The Unicode normal form that text is brought into before it is cut: "NFC", or none.
    normalizer: Literal["NFC"] | None = None
    # The special tokens whose text decoding keeps when it skips the others'.
    kept_special_tokens: frozenset[str] = frozenset()
    # What `encode` puts around the ids of a text when it is asked to.
    prefix_ids: tuple[int, ...] = ()
    suffix_ids: tuple[int, ...] = ()
    # What a model folder says beside it all ("bos_token", "chat_template"), kept as it is.
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze = object.__setattr__
        for name in ("special_tokens", "other_tokens", "settings"):
            freeze(self, name, MappingProxyType(dict(getattr(self, name))))
        if not self.merge_ids:
            freeze(self, "merge_ids", tuple(range(BYTE_COUNT, BYTE_COUNT + len(self.merges))))

    @classmethod
    def from_tokens(
        cls,
        tokens: Mapping[int, bytes],
        merges: Sequence[Pair],
        special_tokens: Mapping[str, int],
        pattern: str,
        **others: Any,
    ) -> Vocabulary:
        """Return the vocabulary of tokens whose bytes are known, each by one id alone.

        `others` are the fields of the class that do not follow from the tokens and merges.

        >>> vocabulary = Vocabulary.from_tokens(
        ...     {**{id: bytes([255 - id]) for id in range(256)}, 300: b"ab"},
        ...     [(255 - 97, 255 - 98)], {}, "..."
        ... )
        >>> vocabulary.merge_ids, vocabulary.tokens.bytes_of[300]
        ((300,), b'ab')

        Raises ValueError if a byte has no id, if a token has no bytes or those of another, if an
        id is above MAX_ID, or if a merge has a part or makes a token that is not in `tokens`, or
        is given twice; and for a special token that is empty, has a lone surrogate, or has the id
        of other bytes.
        """
        check_special_tokens(special_tokens, tokens.get)
        check_ids((*tokens, *special_tokens.values()))
        for id, token in tokens.items():
            if not token:
                raise ValueError(f"the token of id {id} has no bytes")
        id_of = {token: id for id, token in tokens.items()}
        if len(id_of) < len(tokens):
            twice = next(id for id, token in tokens.items() if id_of[token] != id)
            raise ValueError(f"ids {twice} and {id_of[tokens[twice]]} have the same bytes")
        for byte in range(BYTE_COUNT):
            if bytes([byte]) not in id_of:
                raise ValueError(f"no id stands for the single byte 0x{byte:02x}")
        byte_ids = tuple(id_of[bytes([byte])] for byte in range(BYTE_COUNT))
        known = set(byte_ids)
        other_tokens: dict[int, bytes] = {}
        id_of_merge: dict[Pair, int] = {}
        for rank, pair in enumerate(merges):
            for part in pair:
                if part not in tokens:
                    raise ValueError(f"the merge of rank {rank} has the part {part}, no token's id")
                if part not in known:
                    other_tokens[part] = tokens[part]
                    known.add(part)
            token = tokens[pair[0]] + tokens[pair[1]]
            if token not in id_of:
                raise ValueError(f"the merge of rank {rank} makes {token!r}, which is no token")
            if pair in id_of_merge:
                raise ValueError(f"the merge of rank {rank} is given before, with a lower rank")
            id_of_merge[pair] = id_of[token]
            known.add(id_of[token])
        other_tokens |= {id: token for id, token in tokens.items() if id not in known}
        vocabulary = cls(
            tuple(id_of_merge),
            special_tokens,
            pattern,
            byte_ids,
            tuple(id_of_merge.values()),
            dict(sorted(other_tokens.items())),
            **others,
        )
        vocabulary.know_tokens(tokens)
        return vocabulary

    @classmethod
    def of_core(
        cls, core: Core, special_tokens: Mapping[str, int], pattern: str, **others: Any
    ) -> Vocabulary:
        """Return the vocabulary that the native core has checked; `others` are more fields."""
        vocabulary = cls(
            (),
            special_tokens,
            pattern,
            core.byte_ids(),
            (),
            core.other_tokens(),
            core.ignore_merges,
            **others,
        )
        vocabulary.__dict__["core"] = core
        for name in _LONG_FIELDS:
            del vocabulary.__dict__[name]
        return vocabulary

    @cached_property
    def core(self) -> Core | None:
        """What the native core has of it, if it was made of that."""
        return None

    def __getattr__(self, name: str) -> Any:
        # Only what is missing is looked for here.
        if name not in _LONG_FIELDS or "core" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.__dict__.setdefault(name, getattr(self.core, name)())

    def __len__(self) -> int:
        """The number of ids in use: bytes, merges and special tokens."""
        return len(self.tokens.bytes_of)

    @property
    def is_plain(self) -> bool:
        """Whether it has what a vocabulary that is trained here has, any pattern apart."""
        plain = Vocabulary(self.merges, self.special_tokens, self.pattern)
        first_special = BYTE_COUNT + len(self.merges)
        special_ids = range(first_special, first_special + len(self.special_tokens))
        return self == plain and sorted(self.special_tokens.values()) == list(special_ids)

    @cached_property
    def n_vocab(self) -> int:
        """The highest id plus one."""
        return max(self.tokens.bytes_of) + 1

    def __hash__(self) -> int:
        # Equal vocabularies hash alike; the last merges tell unequal ones apart well enough.
        return hash((len(self.merges), self.merges[-8:], frozenset(self.special_tokens.items())))

    def __reduce__(self) -> tuple[object, ...]:
        # Only what it was made from is pickled, none of what is derived.
        if self.is_plain:
            return Vocabulary, (self.merges, dict(self.special_tokens), self.pattern)
        values = (getattr(self, each.name) for each in fields(self))
        return Vocabulary, tuple(
            dict(value) if isinstance(value, MappingProxyType) else value for value in values
        )

    def know_tokens(self, bytes_of: Mapping[int, bytes]) -> None:
        """Take what `ordinary_tokens` would derive from one who has derived it already."""
        self.__dict__["ordinary_tokens"] = dict(sorted(bytes_of.items()))

    @cached_property
    def ordinary_tokens(self) -> dict[int, bytes]:
        """The bytes of every id but those of special tokens, in ascending order of ids."""
        if self.core is not None:
            return self.core.tokens()
        bytes_of = {id: bytes([byte]) for byte, id in enumerate(self.byte_ids)}
        bytes_of |= self.other_tokens
        for (left, right), id in zip(self.merges, self.merge_ids, strict=True):
            bytes_of.setdefault(id, bytes_of[left] + bytes_of[right])
        return dict(sorted(bytes_of.items()))

    @cached_property
    def tokens(self) -> TokenTable:
        """Every id with its bytes; a special token's are its literal in UTF-8."""
        bytes_of = dict(self.ordinary_tokens)
        for literal, id in self.special_tokens.items():
            bytes_of[id] = literal.encode("utf-8")
        return TokenTable(bytes_of, self)

    @cached_property
    def tokens_without_special(self) -> TokenTable:
        """As `tokens`, but a special token that is not kept has no bytes: to skip them."""
        silent = dict.fromkeys(self.skipped_ids, b"")
        return TokenTable({**self.tokens.bytes_of, **silent}, self, skips_special_tokens=True)

    @property
    def skipped_ids(self) -> list[int]:
        """The ids of special tokens that are not kept when they are skipped."""
        kept = self.kept_special_tokens
        return [id for literal, id in self.special_tokens.items() if literal not in kept]

    @cached_property
    def id_of(self) -> dict[bytes, int]:
        """The id of each token's bytes; where several ids share them, the lowest."""
        return {token: id for id, token in sorted(self.tokens.bytes_of.items(), reverse=True)}
