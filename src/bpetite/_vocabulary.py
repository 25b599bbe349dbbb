"""Vocabulary and Pair: frozen merges, special tokens and a pattern, and the bytes of each id.

All other modules may import this one. It imports no other module of the package.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from operator import add
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

Pair = tuple[int, int]
"""Two adjacent ids in a piece."""

BYTE_COUNT = 256
"""The number of bytes. In a trained vocabulary, byte b has the id b; other ids follow."""

IMPOSSIBLE_BYTES = bytes((0xC0, 0xC1, *range(0xF5, 0x100)))
"""The bytes that no UTF-8 has. A vocabulary from elsewhere may have no tokens for them."""

MAX_ID = 2**32 - 1
"""The highest id that any vocabulary may have."""

ABSENT_IDS = {
    byte: MAX_ID - place
    for place, byte in enumerate(sorted(range(BYTE_COUNT), key=lambda b: b not in IMPOSSIBLE_BYTES))
}
"""The id of each absent byte in `byte_ids`. No text has it, so users never see it."""

MAX_LITERAL_BYTES = 4096
"""The bytes that a special token may have. Public vocabularies have at most some 50."""

MAX_LITERALS_BYTES = 32 * 1024 * 1024
"""The bytes that all special tokens may have together: over a million usual ones."""

_BYTES = tuple(range(BYTE_COUNT))

if TYPE_CHECKING:
    from functools import cached_property

    lazy_property = cached_property
else:

    class lazy_property:  # noqa: N801 - as `property`
        """A `cached_property` without a lock, which in Python 3.11 a fork could leave locked.

        If threads derive the value at once, all of them get the value that was stored first.
        """

        def __init__(self, derive):
            self._derive = derive
            self.__doc__ = derive.__doc__

        def __get__(self, instance, owner):
            if instance is None:
                return self
            return instance.__dict__.setdefault(self._derive.__name__, self._derive(instance))


def as_id(value: object) -> int:
    """Return an integer of any type, such as numpy's, as a plain int. A bool is refused.

    >>> as_id(97)
    97

    Raises TypeError for a value that is not an integer.
    """
    if isinstance(value, bool):
        raise TypeError(f"an id must be an integer, got the bool {value}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"an id must be an integer, got {type(value).__name__} {value!r}") from None


def is_encodable(text: str) -> bool:
    """Return whether a text has no lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class TokenBytes(dict[int, bytes]):
    """The bytes of each id: a dict whose KeyError says which ids exist."""

    def __missing__(self, id: int) -> bytes:
        raise KeyError(f"id {id} is not in this vocabulary (its ids run {self._range})")

    @property
    def size(self) -> int:
        """The size of a list with an item for each id. It omits ids above twice their number."""
        return min(max(self, default=-1) + 1, 2 * len(self))

    @lazy_property
    def max_length(self) -> int:
        """The number of bytes of the longest token."""
        return max(self.max_lengths)

    @lazy_property
    def max_lengths(self) -> list[int]:
        """The number of bytes of the longest token, by its first byte; at least 1."""
        lengths = [1] * 256
        for token in self.values():
            if token and len(token) > lengths[token[0]]:
                lengths[token[0]] = len(token)
        return lengths

    @lazy_property
    def _range(self) -> str:
        last = max(self)
        return f"from 0 to {last}, with gaps" if len(self) <= last else f"from 0 to {last}"


class NativeTokenBytes(TokenBytes):
    """The bytes of the ids of a vocabulary in native form, copied to Python when they are met."""

    def __init__(
        self, native: NativeVocabulary, absent_ids: list[int], others: Mapping[int, bytes]
    ) -> None:
        super().__init__(others)
        self.native, self.absent_ids = native, absent_ids
        self.others = dict(others)
        """The bytes of the ids that the native form lacks, or has other bytes for."""

    def __missing__(self, id: int) -> bytes:
        token = self._native_token(id)
        if token is None:
            return super().__missing__(id)  # raises the KeyError
        self[id] = token
        return token

    def _all(self) -> TokenBytes:
        known = TokenBytes(self.native.tokens() | self.others)
        for absent in self.absent_ids:
            del known[absent]
        return known

    @lazy_property
    def max_lengths(self) -> list[int]:
        return self._all().max_lengths

    @lazy_property
    def _range(self) -> str:
        return self._all()._range

    def _native_token(self, id: int) -> bytes | None:
        return None if id in self.absent_ids else self.native.token(id)

    def __contains__(self, id: object) -> bool:
        return self.get(id) is not None

    def get(self, id: Any, default: Any = None) -> Any:
        token = super().get(id)
        if token is None and isinstance(id, int):
            token = self._native_token(id)
        return default if token is None else token

    @property
    def size(self) -> int:
        last, count = self.native.span()
        return min(max(last, *self.others, 0) + 1, 2 * (count + len(self.others)))


class TokenTable:
    r"""The bytes of each id, and the texts that streams share.

    `skipped` are special tokens that have no bytes here. The text of an id in `in_runs` depends on
    the ids around it.

    >>> table = TokenTable({0: b"a", 1: b"\xc3", 2: b"\xc3\xa9"})
    >>> table.bytes_of[1], table.text(1), table.text(2), table.text_of
    (b'\xc3', None, 'é', [None, None, 'é'])
    """

    def __init__(
        self,
        bytes_of: Mapping[int, bytes],
        skipped: Collection[int] = (),
        in_runs: Collection[int] = (),
    ) -> None:
        self.bytes_of: TokenBytes = (
            bytes_of if isinstance(bytes_of, NativeTokenBytes) else TokenBytes(bytes_of)
        )
        self.skipped: frozenset[int] = frozenset(skipped)
        self._in_runs = in_runs

    @lazy_property
    def text_of(self) -> list[str | None]:
        """By id, the text that `text` has returned; else None.

        The list omits ids above twice the number of tokens.
        """
        return [None] * self.bytes_of.size

    def text(self, id: int) -> str | None:
        """Return the text of a known id; None if its bytes are not valid UTF-8 by themselves."""
        if id in self._in_runs:
            return None
        try:
            text = self.bytes_of[id].decode()
        except UnicodeDecodeError:
            return None
        if 0 <= id < len(self.text_of):
            self.text_of[id] = text
        return text


class NativeVocabulary(Protocol):
    """The native form of a vocabulary, which has checked its tokens and merges.

    `Vocabulary` copies the merges and tokens to Python when they are first read.
    """

    @property
    def ignore_merges(self) -> bool: ...
    def byte_ids(self) -> tuple[int, ...]: ...
    def merges(self) -> tuple[Pair, ...]: ...
    def merge_ids(self) -> tuple[int, ...]: ...
    def other_tokens(self) -> dict[int, bytes]: ...
    def tokens(self) -> dict[int, bytes]:
        """Return the bytes of every id except special tokens, in ascending order of ids."""

    def token(self, id: int) -> bytes | None:
        """Return the bytes of one such id; None if it is unknown."""

    def span(self) -> tuple[int, int]:
        """Return the highest of these ids, and their number."""

    def extended(self, merges: Sequence[Pair], first_id: int) -> NativeVocabulary | None:
        """Return the vocabulary with more merges, which make the ids from `first_id` on.

        These ids are above all others. None leaves the work to Python.
        """

    def json_items(self) -> tuple[str, str] | None:
        """Return the items of the tokens and the merges in the document of a fingerprint.

        None unless each token is a byte or the result of one merge, whose parts are bytes or
        results of merges of lower rank.
        """


def check_literal_sizes(literals: Collection[str]) -> None:
    """Raise ValueError for a special token of too many bytes, and for too many in all."""
    total = len("".join(literals).encode("utf-8", "surrogatepass"))
    # A character has at most four bytes.
    for literal in (each for each in literals if len(each) > MAX_LITERAL_BYTES // 4):
        size = len(literal.encode("utf-8", "surrogatepass"))
        if size > MAX_LITERAL_BYTES:
            raise ValueError(
                f"the special token {literal[:20] + '...'!r} has {size:,} bytes, more than "
                f"{MAX_LITERAL_BYTES:,}; shorten it or leave it out"
            )
    if total > MAX_LITERALS_BYTES:
        raise ValueError(
            f"the special tokens have {total:,} bytes in all, more than {MAX_LITERALS_BYTES:,}; "
            f"leave some of them out"
        )


def check_special_tokens(
    special_tokens: Mapping[str, int],
    token_of: Callable[[int], bytes | None],
    literal_bytes: Iterable[tuple[str, bytes]] = (),
) -> None:
    """Raise ValueError for a special token that is empty, or has the id of other bytes.

    `token_of` returns the bytes of an ordinary token, None for any other id.
    """
    bytes_of = dict(literal_bytes)
    check_literal_sizes(special_tokens)
    literal_of: dict[int, str] = {}
    for literal, id in special_tokens.items():
        if not literal or not is_encodable(literal):
            raise ValueError(f"the special token {literal!r} is empty, or not Unicode")
        if literal_of.setdefault(id, literal) != literal:
            raise ValueError(f"{literal!r} and {literal_of[id]!r} have the id {id}")
        if (token := token_of(id)) not in (None, bytes_of.get(literal, literal.encode())):
            raise ValueError(f"the id {id} of {literal!r} is also the id of {token!r}")


def check_id_range(ids: Iterable[int]) -> None:
    """Raise ValueError for an id below 0 or above MAX_ID."""
    for id in ids:
        if not 0 <= id <= MAX_ID:
            raise ValueError(f"the id {id} is not from 0 to {MAX_ID}")


def check_absent_bytes(absent_bytes: bytes, ids: Iterable[int], has_unknown: bool) -> None:
    """Raise ValueError for an absent byte that UTF-8 has, and for an id that stands for one.

    If the vocabulary `has_unknown`, a rule for bytes without a token, any byte may be absent.
    """
    for byte in absent_bytes:
        if not has_unknown and byte not in IMPOSSIBLE_BYTES:
            raise ValueError(f"no id stands for the single byte 0x{byte:02x}")
    if absent_bytes and max(ids, default=0) >= min(ABSENT_IDS.values()):
        raise ValueError(f"ids above {min(ABSENT_IDS.values()) - 1} need tokens for all bytes")


@dataclass(frozen=True)
class Stages:
    """How a tokenizer.json changes a text apart from splitting it by patterns, as plain data."""

    normalizers: tuple[tuple[str, ...], ...] = ()
    """Each a name and its arguments: ("NFKC",), ("Replace", pattern, text), ("Prepend", text)."""
    steps: tuple[str, ...] = ()
    """The steps that each piece goes through. The name of a behavior uses the next pattern, and
    "not " before it swaps the matches and the text between them; "space" puts a space before the
    piece; from "bytes" on, patterns see the characters that stand for bytes."""
    flags: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Of special tokens: lstrip, rstrip, single_word, and normalized if the token is searched in
    normalized text, or control if it is found in no text."""
    literal_bytes: tuple[tuple[str, bytes], ...] = ()
    """The bytes of special tokens, if they differ from their literals."""
    prefix: bytes = b""
    """The tokens of all bytes but the first of a piece begin with it."""
    suffix: bytes = b""
    """The token of the last byte of a piece ends with it."""
    unknown_id: int | None = None
    """The token for a byte that has none."""
    fuses_unknown: bool = False
    """Whether several such bytes in a row become one token."""
    drops_unknown: bool = False
    """Whether a byte that has no token is dropped before pieces are merged."""
    byte_fallback: bool = False
    """Whether merges begin with characters: one that has no token becomes its bytes. The
    normalizers then bring spaces into one form, and may put one before the text."""
    metaspace: str = ""
    """After literals are found, each U+2581 becomes a space. Then "always" puts one before the text
    between literals unless it has one, "first" only at the start of the whole, "never" nowhere."""
    strips_start: bool = False
    """Whether decoding strips a space at the start."""
    tied: tuple[int, ...] = ()
    """The merges that have the rank of the merge before: the leftmost of their pairs is first."""

    @property
    def has_words(self) -> bool:
        """Whether a byte's token depends on its place in a piece."""
        return bool(self.prefix or self.suffix or self.unknown_id is not None)

    @property
    def keeps_text(self) -> bool:
        """Whether the ids of a text have the bytes of the text."""
        changes = self.normalizers or self.literal_bytes or self.has_words or "space" in self.steps
        return not (changes or self.may_drop or self.byte_fallback)

    @property
    def moves_text(self) -> bool:
        """Whether text may be added and removed although its ids have its bytes."""
        names = {name for name, *_ in self.normalizers}
        changes = self.steps or self.flags or self.byte_fallback
        return bool(changes or names & {"Strip", "Prepend", "Replace"})

    @property
    def may_drop(self) -> bool:
        """Whether text of any length may have no id of its own."""
        unknown = self.drops_unknown or self.unknown_id is not None
        removes = any(step.endswith("removed") for step in self.steps)
        takes = any(flag.endswith("strip") for _, flags in self.flags for flag in flags)
        names = {each[0] for each in self.normalizers if each != ONE_SPACE}
        return unknown or removes or takes or not names.isdisjoint(("Strip", "Replace"))

    @property
    def change_pieces(self) -> bool:
        """Whether pieces are made or merged otherwise than in training."""
        return bool(self.normalizers or self.steps or self.has_words or self.byte_fallback)

    @property
    def starts_text(self) -> bool:
        """Whether a text may begin with a space that it does not have after a safe split."""
        is_put = self.metaspace in ("always", "first")
        return self.byte_fallback and (is_put or len(self.normalizers) > 1)

    def document(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults, for JSON."""
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        document = {key: value for key, value in document.items() if value != _DEFAULTS[key]}
        if self.flags:
            document["flags"] = dict(self.flags)
        if self.literal_bytes:
            document["literal_bytes"] = {key: list(value) for key, value in self.literal_bytes}
        decoded = {key: document[key].decode() for key in ("prefix", "suffix") if key in document}
        return document | decoded


ONE_SPACE = ("Replace", "\u2581", " ")
"""The normalizer of vocabularies with byte fallback: their tokens spell a space as U+2581."""

NO_STAGES = Stages()

_DEFAULTS = vars(NO_STAGES)


def _fault_of(
    merges: Sequence[Pair], tokens: Mapping[int, bytes], made: Mapping[bytes, int], cut: int
) -> str:
    """Return what is wrong with the first wrong merge."""
    seen: set[Pair] = set()
    for rank, pair in enumerate(merges):
        for part in pair:
            if part not in tokens:
                return f"the merge of rank {rank} has the part {part}, which is not an id"
        token = tokens[pair[0]] + tokens[pair[1]][cut:]
        if token not in made:
            return f"the merge of rank {rank} makes {token!r}, which is not a token"
        if pair in seen:
            return f"the merge of rank {rank} is given before, with a lower rank"
        seen.add(pair)
    raise AssertionError(merges)


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary:
    """Merges in rank order, special tokens and their ids, and the pattern that splits text.

    These three fields are all that a trained vocabulary has: a byte is its own id, the merge of
    rank r has the id BYTE_COUNT + r, and the ids of special tokens follow without a gap. The other
    fields are for vocabularies from elsewhere, in which any id may stand for any bytes. Everything
    else is derived from the fields when it is first needed.

    >>> vocabulary = Vocabulary(((97, 98),), {"<|end|>": 257}, pattern="...")
    >>> vocabulary.tokens.bytes_of[256], vocabulary.tokens.bytes_of[257]
    (b'ab', b'<|end|>')
    """

    _merges: tuple[Pair, ...]  # empty if `native` holds them
    special_tokens: Mapping[str, int]
    pattern: str
    # The id of each byte, and the id that each merge makes. Several merges may make the same id.
    byte_ids: tuple[int, ...] = _BYTES
    _merge_ids: tuple[int, ...] = ()  # if empty, BYTE_COUNT + rank, or what `native` holds
    # Tokens that no merge makes, or that are used as a part before the merge that makes them.
    other_tokens: Mapping[int, bytes] = field(default_factory=dict)
    # Tokens that no text becomes: without bytes, or with bytes that another token may have.
    unused_tokens: Mapping[int, bytes] = field(default_factory=dict)
    # Bytes without a token, which UTF-8 never has; `byte_ids` has ABSENT_IDS for them.
    absent_bytes: bytes = b""
    # Whether a piece that is a token becomes that token, without a look at the merges.
    ignore_merges: bool = False
    # Patterns that split the pieces of `pattern` again, in turn.
    more_patterns: tuple[str, ...] = ()
    # The Unicode normal form of the text that is split: "NFC", or None for the text as it is.
    normalizer: Literal["NFC"] | None = None
    # If these are not NO_STAGES, they have all normalizers, and a step for each pattern.
    stages: Stages = NO_STAGES
    # The special tokens whose text decoding keeps when it skips special tokens.
    kept_special_tokens: frozenset[str] = frozenset()
    # The special tokens that are vocabulary, not control: their literals count in ordinary text.
    added_tokens: frozenset[str] = frozenset()
    # The ids that `encode` puts around a text if `add_special_tokens` is true.
    prefix_ids: tuple[int, ...] = ()
    suffix_ids: tuple[int, ...] = ()
    # What else a model folder says ("bos_token", "chat_template"), unchanged.
    settings: Mapping[str, str] = field(default_factory=dict)
    # The native form, if any. It has merges, their ids, byte_ids, other_tokens and ignore_merges.
    native: NativeVocabulary | None = None

    def __post_init__(self) -> None:
        freeze = object.__setattr__
        if self.native is not None:
            freeze(self, "byte_ids", self.native.byte_ids())
            freeze(self, "other_tokens", self.native.other_tokens())
            freeze(self, "ignore_merges", self.native.ignore_merges)
        for name in ("special_tokens", "other_tokens", "unused_tokens", "settings"):
            freeze(self, name, MappingProxyType(dict(getattr(self, name))))

    @classmethod
    def from_tokens(
        cls,
        tokens: Mapping[int, bytes],
        merges: Sequence[Pair],
        special_tokens: Mapping[str, int],
        pattern: str,
        **others: Any,
    ) -> Vocabulary:
        """Return the vocabulary of tokens with known bytes. No two ids share their bytes.

        `others` are the fields of the class that the tokens and merges do not determine.

        >>> vocabulary = Vocabulary.from_tokens(
        ...     {**{id: bytes([255 - id]) for id in range(256)}, 300: b"ab"},
        ...     [(255 - 97, 255 - 98)], {}, "..."
        ... )
        >>> vocabulary.merge_ids, vocabulary.tokens.bytes_of[300]
        ((300,), b'ab')

        Raises ValueError if a byte that is in some UTF-8 has no id, if a token has the bytes of
        another, if an id is above MAX_ID, if a merge is given twice, or if `tokens` lacks a part or
        the result of a merge. Raises ValueError for a special token that is empty, has a lone
        surrogate, or has the id of other bytes.
        """
        stages: Stages = others.get("stages", NO_STAGES)
        check_special_tokens(special_tokens, tokens.get, stages.literal_bytes)
        check_id_range((*tokens, *special_tokens.values()))
        unused_tokens = {id: token for id, token in tokens.items() if not token}
        unused_tokens |= others.pop("unused_tokens", {})
        tokens = {id: token for id, token in tokens.items() if token}
        id_of = {token: id for id, token in tokens.items()}
        if len(id_of) < len(tokens):
            twice = next(id for id, token in tokens.items() if id_of[token] != id)
            raise ValueError(f"ids {twice} and {id_of[tokens[twice]]} have the same bytes")
        absent_bytes = bytes(byte for byte in _BYTES if bytes([byte]) not in id_of)
        has_unknown = stages.unknown_id is not None or stages.drops_unknown
        check_absent_bytes(absent_bytes, (*tokens, *special_tokens.values()), has_unknown)
        byte_ids = tuple(id_of.get(bytes([byte]), ABSENT_IDS.get(byte, 0)) for byte in _BYTES)
        merges = tuple(merges)
        cut = len(stages.prefix)
        try:
            made = [id_of[tokens[left] + tokens[right][cut:]] for left, right in merges]
        except KeyError:
            made = []
        if len(made) < len(merges) or len({*merges}) < len(merges):
            raise ValueError(_fault_of(merges, tokens, id_of, cut))
        ranks = range(len(merges))
        first_use = {
            part: rank
            for rank, pair in zip(reversed(ranks), reversed(merges), strict=True)
            for part in pair
        }
        first_made = dict(zip(reversed(made), reversed(ranks), strict=True))
        known = {*byte_ids}
        other_tokens = {
            id: token
            for id, token in sorted(tokens.items())
            if id not in known
            and (cut or id not in first_made or first_use.get(id, len(merges)) < first_made[id])
        }
        vocabulary = cls(
            merges,
            special_tokens,
            pattern,
            byte_ids,
            tuple(made),
            other_tokens,
            unused_tokens,
            absent_bytes,
            **others,
        )
        vocabulary.know_tokens(tokens)
        return vocabulary

    @lazy_property
    def merges(self) -> tuple[Pair, ...]:
        return self._merges if self.native is None else self.native.merges()

    @lazy_property
    def merge_ids(self) -> tuple[int, ...]:
        if self.native is not None:
            return self.native.merge_ids()
        return self._merge_ids or tuple(range(BYTE_COUNT, BYTE_COUNT + len(self.merges)))

    def _fields(self) -> dict[str, Any]:
        """Return all fields but the native form, which holds two of them."""
        names = (each.name.lstrip("_") for each in fields(self))
        return {name: getattr(self, name) for name in names if name != "native"}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self._fields() == other._fields()

    def __repr__(self) -> str:
        values = (f"{name}={value!r}" for name, value in self._fields().items())
        return f"Vocabulary({', '.join(values)})"

    def __len__(self) -> int:
        """The number of ids in use: bytes, merges and special tokens."""
        return len(self.tokens.bytes_of)

    @property
    def single_bytes(self) -> dict[int, bytes]:
        """The bytes that have tokens, by their ids."""
        ids = enumerate(self.byte_ids)
        return {id: bytes([byte]) for byte, id in ids if byte not in self.absent_bytes}

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.pattern, *self.more_patterns)

    @property
    def normalizers(self) -> tuple[tuple[str, ...], ...]:
        return ((self.normalizer,),) if self.normalizer else self.stages.normalizers

    @lazy_property
    def glued(self) -> frozenset[str]:
        """All pairs of neighbouring characters inside tokens that merges make."""
        tokens = self.ordinary_tokens
        texts = [tokens[id].decode("utf-8") for id in {*self.merge_ids}]
        return frozenset(chain.from_iterable(map(add, text, text[1:]) for text in texts))

    @property
    def is_plain(self) -> bool:
        """Whether training could have made this vocabulary, for some pattern."""
        plain = Vocabulary(self.merges, self.special_tokens, self.pattern)
        first_special = BYTE_COUNT + len(self.merges)
        special_ids = range(first_special, first_special + len(self.special_tokens))
        return self == plain and sorted(self.special_tokens.values()) == list(special_ids)

    @lazy_property
    def n_vocab(self) -> int:
        """The highest id plus one."""
        # Without `tokens`, which would stay in memory.
        merge_ids = self.merge_ids if self.native is None else self.native.merge_ids()
        others = (*self.other_tokens, *self.unused_tokens, *self.special_tokens.values())
        groups = (self.single_bytes, merge_ids, others)
        return max(max(ids, default=0) for ids in groups) + 1

    def __hash__(self) -> int:
        # The last merges tell vocabularies apart well enough.
        return hash((len(self.merges), self.merges[-8:], frozenset(self.special_tokens.items())))

    def __reduce__(self) -> tuple[object, ...]:
        # Derived values are not pickled, nor is the native form.
        if self.is_plain:
            return Vocabulary, (self.merges, dict(self.special_tokens), self.pattern)
        return Vocabulary, tuple(
            dict(value) if isinstance(value, MappingProxyType) else value
            for value in self._fields().values()
        )

    def transient(self) -> Vocabulary:
        """Return this vocabulary, or an equal one whose derived tables are freed together with it.

        The tables of a large vocabulary take some 40 MB, more than its native form.
        """
        is_derived = self.native is None or "ordinary_tokens" in self.__dict__
        return self if is_derived else replace(self)

    def know_tokens(self, bytes_of: Mapping[int, bytes]) -> None:
        """Set `ordinary_tokens` if the caller has derived them already."""
        self.__dict__["ordinary_tokens"] = dict(sorted(bytes_of.items()))

    @lazy_property
    def ordinary_tokens(self) -> dict[int, bytes]:
        """The bytes of the tokens that texts become, in ascending order of ids."""
        if self.native is not None:
            bytes_of = self.native.tokens()
            for id in self.absent_ids:
                del bytes_of[id]
            return bytes_of
        bytes_of = {**self.single_bytes, **self.other_tokens}
        for (left, right), id in zip(self.merges, self.merge_ids, strict=True):
            bytes_of.setdefault(id, bytes_of[left] + bytes_of[right])
        return dict(sorted(bytes_of.items()))

    @property
    def absent_ids(self) -> list[int]:
        return [ABSENT_IDS[byte] for byte in self.absent_bytes]

    @property
    def extra_tokens(self) -> dict[int, bytes]:
        """The tokens that are not ordinary; a special token's bytes are its literal in UTF-8."""
        others = dict(self.unused_tokens)
        others |= {id: literal.encode("utf-8") for literal, id in self.special_tokens.items()}
        others |= {self.special_tokens[key]: value for key, value in self.stages.literal_bytes}
        return others

    @lazy_property
    def tokens(self) -> TokenTable:
        """Every id with its bytes."""
        return TokenTable(self.ordinary_tokens | self.extra_tokens)

    @lazy_property
    def tokens_without_special(self) -> TokenTable:
        """Every id with its bytes; a special token that is skipped has none."""
        skipped = self.skipped_ids
        return TokenTable(self.tokens.bytes_of | dict.fromkeys(skipped, b""), skipped)

    def stream_tokens(self, skips: bool) -> TokenTable:
        """Return `tokens`, or `tokens_without_special` if `skips`, for streams.

        The ids of a native form are copied only when they are met. A copy of all would take longer
        than most streams.
        """
        if not skips:
            return self._met_tokens
        if self.native is None:
            return self.tokens_without_special
        skipped = self.skipped_ids
        others = self.extra_tokens | dict.fromkeys(skipped, b"")
        return TokenTable(NativeTokenBytes(self.native, self.absent_ids, others), skipped)

    @lazy_property
    def _met_tokens(self) -> TokenTable:
        if self.native is None:
            return self.tokens
        return TokenTable(NativeTokenBytes(self.native, self.absent_ids, self.extra_tokens))

    @property
    def skipped_ids(self) -> list[int]:
        """The ids of the special tokens that decoding can skip."""
        kept = self.kept_special_tokens
        return [id for literal, id in self.special_tokens.items() if literal not in kept]

    @lazy_property
    def id_of(self) -> dict[bytes, int]:
        """The id of each token's bytes; the lowest if several ids share them."""
        usual = sorted(self.tokens.bytes_of.items(), key=self._is_usual, reverse=True)
        return {token: id for id, token in usual}

    def _is_usual(self, item: tuple[int, bytes]) -> tuple[bool, int]:
        return item[0] in self.unused_tokens, item[0]
