"""`Encoding`, on top of a `bpetite.Tokenizer` that gives the same ids."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, partial
from itertools import takewhile
from operator import index
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from bpetite import Tokenizer
from bpetite._arguments import check_threads
from bpetite._pretokenizer import Pretokenizer
from bpetite.formats._portable_regex import to_portable
from bpetite.formats._tiktoken import tokens_of_ranks
from bpetite.tiktoken._unstable import Encoders, TokensByByte, completions, spaces_at_end

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# The usual arguments. They are compared by identity, which makes the usual calls faster; equal
# arguments that are other objects take the longer way to the same result.
_NONE: Final[AbstractSet[str]] = frozenset()
_ALL: Final = "all"
_EMPTY: Final = ()
_REPLACE: Final = "replace"

_IDS_END = 1 << 32


class Encoding:
    r"""A vocabulary with tiktoken's methods; `bpetite.Tokenizer` has more.

    >>> ranks = {**{bytes([byte]): byte for byte in range(256)}, b"ab": 256}
    >>> encoding = Encoding(
    ...     "small", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|end|>": 257}
    ... )
    >>> encoding
    <Encoding 'small'>
    >>> encoding.encode("ab ab"), encoding.n_vocab
    ([256, 32, 256], 258)
    """

    name: str
    """The name of the encoding."""

    max_token_value: int
    """The highest id."""

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: dict[bytes, int],
        special_tokens: dict[str, int],
        explicit_n_vocab: int | None = None,
    ) -> None:
        """Make the encoding of these ranks, which are ids, and of special tokens.

        `pat_str` splits texts into pieces. If `explicit_n_vocab` is given, it must be the number of
        all tokens, and their ids must have no gap at the end.

        Raises AssertionError for another `explicit_n_vocab`. Raises ValueError for a pattern that
        does not compile, has another meaning here or leaves text out, for a single byte without a
        rank, for two tokens of one rank, and for ids out of range.
        """
        self.name = name
        self._pat_str = pat_str
        self._mergeable_ranks = mergeable_ranks
        self._special_tokens = special_tokens
        self._special_ids = {*special_tokens.values()}
        self.max_token_value = max(*mergeable_ranks.values(), *self._special_ids, 0)
        if not mergeable_ranks:
            raise ValueError("mergeable_ranks is empty")
        if {*map(type, mergeable_ranks)} != {bytes}:
            raise TypeError("the keys of mergeable_ranks must be bytes")
        if explicit_n_vocab:
            count = len(mergeable_ranks) + len(special_tokens)
            assert count == explicit_n_vocab, f"{count} tokens, not {explicit_n_vocab}"
            assert self.max_token_value == explicit_n_vocab - 1, f"no id is {explicit_n_vocab - 1}"
        own, self._second_ids = _parted(special_tokens, {*mergeable_ranks.values()})
        pattern = to_portable(pat_str, tiktoken=True)
        if not Pretokenizer(pattern).matches_all():
            raise ValueError(
                f"the pattern {pat_str!r} leaves text out, which tiktoken would drop; add "
                r"an alternative, such as |[\s\S], that takes the rest"
            )
        self._tokenizer = Tokenizer(tokens_of_ranks(mergeable_ranks, own, pattern))

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        make = partial(
            type(self),
            pat_str=self._pat_str,
            mergeable_ranks=self._mergeable_ranks,
            special_tokens=self._special_tokens,
        )
        return make, (self.name,)

    # Encoding

    def encode(
        self,
        text: str,
        *,
        allowed_special: Literal["all"] | AbstractSet[str] = _NONE,
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> list[int]:
        """Return the ids of a text.

        A special literal in `allowed_special` becomes its id. One in `disallowed_special`, by
        default every one that is not allowed, raises ValueError. Any other is ordinary text. Lone
        surrogates become U+FFFD.

        Raises TypeError for a wrong type.
        """
        try:
            if self._second_ids or type(text) is not str:
                pass
            elif allowed_special is _NONE:
                if disallowed_special is _ALL:
                    return self._tokenizer.encode(
                        text, allowed_special=(), disallowed_special="all"
                    )
                if disallowed_special is _EMPTY:
                    return self._tokenizer.encode_ordinary(text)
            elif allowed_special is _ALL and disallowed_special is _ALL:
                return self._tokenizer.encode(text)
            ids: list[int] = self._encode(text, allowed_special, disallowed_special)
        except UnicodeEncodeError:
            _refuse(_found(self._disallowed(allowed_special, disallowed_special), [text]))
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            ids = self._encode(text, allowed_special, ())
        return ids

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the ids of a text in which special literals are ordinary text.

        Lone surrogates become U+FFFD. Raises TypeError for a value that is no `str`.
        """
        if not isinstance(text, str):
            _refuse_text(text)
        try:
            return self._tokenizer.encode_ordinary(text)
        except UnicodeEncodeError:
            return self._tokenizer.encode_ordinary(text, errors="replace")

    def encode_to_numpy(
        self,
        text: str,
        *,
        allowed_special: Literal["all"] | AbstractSet[str] = _NONE,
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> npt.NDArray[np.uint32]:
        """Return the ids of a text, as `encode` does, in an array of uint32.

        Raises UnicodeEncodeError for a lone surrogate.
        """
        import numpy as np

        ids = self._encode(text, allowed_special, disallowed_special, "uint32")
        return np.asarray(ids, "uint32")

    def encode_batch(
        self,
        text: list[str],
        *,
        num_threads: int = 8,
        allowed_special: Literal["all"] | AbstractSet[str] = _NONE,
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> list[list[int]]:
        """Return the ids of each text, as `encode` does, on up to `num_threads` threads.

        Raises ValueError for `num_threads` below 1.
        """
        check_threads(num_threads)
        texts = [*text]
        if disallowed_special != "all":
            disallowed_special = frozenset(disallowed_special)
        options: dict[str, Any] = {
            "allowed_special": allowed_special,
            "disallowed_special": disallowed_special,
        }
        if all(isinstance(each, str) for each in texts):
            try:
                tokenizer, chosen = self._choose(texts, **options)
                if tokenizer is self._tokenizer:
                    ids: list[list[int]]
                    ids = tokenizer.encode_batch(texts, threads=num_threads, **chosen)
                    return ids
            except UnicodeEncodeError:
                pass
        return [self.encode(each, **options) for each in texts]

    def encode_ordinary_batch(self, text: list[str], *, num_threads: int = 8) -> list[list[int]]:
        """Return the ids of each text, as `encode_ordinary` does, on up to `num_threads` threads.

        Raises ValueError for `num_threads` below 1.
        """
        check_threads(num_threads)
        return self._tokenizer.encode_batch(
            _checked_texts(text), allowed_special=(), errors="replace", threads=num_threads
        )

    def encode_with_unstable(
        self,
        text: str,
        *,
        allowed_special: Literal["all"] | AbstractSet[str] = _NONE,
        disallowed_special: Literal["all"] | Collection[str] = "all",
    ) -> tuple[list[int], list[list[int]]]:
        """Return the ids that stay if more text follows, and what may replace the others.

        Each completion is a list of ids whose bytes begin with the rest of the text. They have no
        order. Raises UnicodeEncodeError for a lone surrogate.
        """
        ids = self._encode(text, allowed_special, disallowed_special)
        tokenizer, chosen = self._choose([text], allowed_special, ())
        raw, starts = tokenizer.encode_with_offsets(text, allowed_special=chosen["allowed_special"])
        special_ids = {*tokenizer.special_tokens.values()}
        tail = len([*takewhile(lambda id: id not in special_ids, reversed(raw))])
        if not tail:
            return ids, []
        count = self._unstable_count(ids, text[starts[-tail] :])
        stable, unstable = ids[:-count], self.decode_bytes(ids[-count:])
        encoders = Encoders(
            partial(self._tokenizer.encode_batch, allowed_special=(), threads=1),
            self._tokenizer.encode_bytes,
            self._mergeable_ranks,
            self.decode_single_token_bytes,
        )
        return stable, completions(unstable, self._tokens_by_byte, encoders)

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """Return the id of one token, ordinary or special.

        Raises KeyError if no token has these bytes.
        """
        data = _as_bytes(text_or_bytes)
        if data in self._mergeable_ranks:
            return self._mergeable_ranks[data]
        try:
            return self._special_tokens[data.decode()]
        except (KeyError, UnicodeDecodeError):
            raise KeyError(f"no token has the bytes {data!r}") from None

    # Decoding

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """Return the text of ids; `errors` is as in `bytes.decode`.

        Raises KeyError for an unknown id, OverflowError for an id that is not from 0 to 2**32 - 1,
        and TypeError for a wrong type.
        """
        if errors is _REPLACE and type(tokens) is list:
            try:
                return self._tokenizer.decode(tokens, errors="replace")
            except (KeyError, TypeError):
                pass
        return self.decode_bytes(tokens).decode("utf-8", errors=errors)

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of ids, joined. Raises the errors of `decode`."""
        if type(tokens) is not list and (
            isinstance(tokens, (str, dict)) or not hasattr(tokens, "__getitem__")
        ):
            raise TypeError(f"tokens must be a sequence of int, got {type(tokens).__name__}")
        try:
            return self._tokenizer.decode_bytes(tokens)
        except (KeyError, TypeError):
            pass
        # Bytes and bools, which are ids here, and ids that are unknown or out of range.
        return self._tokenizer.decode_bytes([*map(_as_id, tokens)])

    def decode_single_token_bytes(self, token: int) -> bytes:
        """Return the bytes of one id. Raises the errors of `decode`."""
        return self._tokenizer.token_bytes(_as_id(token))

    def decode_tokens_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """Return the bytes of each id. Raises the errors of `decode`."""
        return [self.decode_single_token_bytes(token) for token in tokens]

    def decode_with_offsets(self, tokens: Sequence[int]) -> tuple[str, list[int]]:
        """Return the text of ids and, for each id, the character that its first byte is in.

        Raises UnicodeDecodeError for bytes that are not UTF-8, and the errors of `decode`.
        """
        try:
            return self._tokenizer.decode_with_offsets([*map(_as_id, tokens)])
        except (KeyError, OverflowError, TypeError):
            self.decode_tokens_bytes(tokens)  # tells the first of several bad ids, as tiktoken does
            raise

    def decode_batch(
        self, batch: Sequence[Sequence[int]], *, errors: str = "replace", num_threads: int = 8
    ) -> list[str]:
        """Return the text of each list of ids, as `decode` does.

        It starts no threads, since decoding takes less time than starting them.
        """
        check_threads(num_threads)
        return [self.decode(tokens, errors) for tokens in batch]

    def decode_bytes_batch(
        self, batch: Sequence[Sequence[int]], *, num_threads: int = 8
    ) -> list[bytes]:
        """Return the bytes of each list of ids, as `decode_bytes` does, without threads."""
        check_threads(num_threads)
        return [*map(self.decode_bytes, batch)]

    # Look

    def token_byte_values(self) -> list[bytes]:
        """Return the bytes of all ordinary tokens, in order of bytes."""
        return sorted(self._mergeable_ranks)

    @property
    def eot_token(self) -> int:
        """The id of <|endoftext|>; KeyError without one."""
        return self._special_tokens["<|endoftext|>"]

    @cached_property
    def special_tokens_set(self) -> set[str]:
        """The literals of all special tokens."""
        return {*self._special_tokens}

    def is_special_token(self, token: int) -> bool:
        """Return whether an id is a special token. Raises AssertionError unless it is an int."""
        assert isinstance(token, int), f"token must be an int, got {type(token).__name__}"
        return token in self._special_ids

    @property
    def n_vocab(self) -> int:
        """The highest id plus one."""
        return self.max_token_value + 1

    # Private names that some programs use

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        """Return the ids of bytes that no pattern splits."""
        return self._tokenizer.encode_bytes(_as_bytes(text_or_bytes))

    def _encode_only_native_bpe(self, text: str) -> list[int]:
        """Return the ids of a text that the installed `regex` splits by `pat_str`."""
        import regex

        pieces = regex.findall(self._pat_str, text)
        return [id for piece in pieces for id in self._encode_single_piece(piece)]

    def _encode_bytes(self, text: bytes) -> list[int]:
        """Return the ids of bytes, which need not be UTF-8.

        Bytes from the first error on join the last piece before it, which no pattern splits.
        """
        if not isinstance(text, bytes):
            raise TypeError(f"text must be bytes, got {type(text).__name__}")
        try:
            return self.encode_ordinary(text.decode())
        except UnicodeDecodeError as error:
            valid = text[: error.start].decode()
        ids = self.encode_ordinary(valid)
        stable = ids[: len(ids) - self._unstable_count(ids, valid)]
        return stable + self._encode_single_piece(text[len(self.decode_bytes(stable)) :])

    # Helpers

    def _encode(
        self,
        text: str,
        allowed_special: Literal["all"] | AbstractSet[str],
        disallowed_special: Literal["all"] | Collection[str],
        dtype: Any = None,
    ) -> Any:
        """Return the ids of a text.

        Raises ValueError for a disallowed literal, else UnicodeEncodeError for a lone surrogate.
        """
        if not isinstance(text, str):
            _refuse_text(text)
        tokenizer, chosen = self._choose([text], allowed_special, disallowed_special)
        try:
            ids = tokenizer.encode(text, dtype=dtype, **chosen)
        except UnicodeEncodeError:
            _refuse(_found(self._disallowed(allowed_special, disallowed_special), [text]))
            raise
        if tokenizer is self._tokenizer:
            return ids
        real = self._with_second_ids[1]
        return [real.get(id, id) for id in ids]

    def _choose(
        self,
        texts: list[str],
        allowed_special: Literal["all"] | AbstractSet[str],
        disallowed_special: Literal["all"] | Collection[str],
    ) -> tuple[Tokenizer, dict[str, Any]]:
        """Return the tokenizer for texts, and its arguments, which name no unknown literals.

        Raises ValueError for a disallowed literal that the tokenizer would not find.
        """
        if allowed_special is _NONE and disallowed_special is _ALL and not self._second_ids:
            return self._tokenizer, {"allowed_special": (), "disallowed_special": _ALL}
        tokenizer = self._tokenizer
        if _found(self._second_ids, texts):
            tokenizer = self._with_second_ids[0]
        known = tokenizer.special_tokens.keys()
        # `Tokenizer` is fastest with an empty tuple, and refuses unknown literals.
        allowed: Any = "all"
        if allowed_special != "all":
            is_set = isinstance(allowed_special, (set, frozenset))
            if not (is_set and all(isinstance(each, str) for each in allowed_special)):
                first = texts[:1]  # it has an error in any case
                _refuse(_found(self._disallowed(allowed_special, disallowed_special), first))
                "".join(first).encode()  # a surrogate comes before the type, as in tiktoken
                got = type(allowed_special).__name__ + (" of other values" if is_set else "")
                raise TypeError(f'allowed_special must be "all" or a set of str, got {got}')
            allowed = tuple(allowed_special & known)
        disallowed: Any = () if allowed == "all" else "all"
        if disallowed_special != "all":
            literals = frozenset(disallowed_special or ())
            _refuse(_found(literals - known, texts))
            disallowed = tuple(literals & known)
        return tokenizer, {"allowed_special": allowed, "disallowed_special": disallowed}

    def _disallowed(
        self,
        allowed_special: Literal["all"] | AbstractSet[str],
        disallowed_special: Literal["all"] | Collection[str],
    ) -> AbstractSet[str]:
        if disallowed_special != "all":
            return frozenset(disallowed_special or ())
        allowed = self.special_tokens_set if allowed_special == "all" else allowed_special
        return self.special_tokens_set - allowed

    @cached_property
    def _with_second_ids(self) -> tuple[Tokenizer, dict[int, int]]:
        """A tokenizer that knows every literal, and the real ids of literals with other ids."""
        free = range(self.max_token_value + 1, _IDS_END)
        stand_ins = dict(zip(self._second_ids, free, strict=False))
        real = {id: self._second_ids[literal] for literal, id in stand_ins.items()}
        return self._tokenizer.with_special_tokens(stand_ins), real

    @cached_property
    def _tokens_by_byte(self) -> TokensByByte:
        return TokensByByte(self._mergeable_ranks)

    @cached_property
    def _pieces_of(self) -> Any:
        return Pretokenizer(*self._tokenizer.patterns).split_exactly

    def _unstable_count(self, ids: list[int], text: str) -> int:
        """Return how many ids at the end of a text may change if more text follows.

        These are the ids of the last piece and, if it begins with white space, all white space
        before it, up to a special token. The text may be only the end of the text of the ids.
        """
        if not text:
            return 0
        count = len(self._encode_single_piece(self._pieces_of(text)[-1]))
        special_ids = {*self._tokenizer.special_tokens.values()}
        is_special = special_ids.__contains__
        tokens = [b"<" if is_special(id) else self.decode_single_token_bytes(id) for id in ids]
        return spaces_at_end(tokens, count)


def _parted(special_tokens: dict[str, int], ranks: set[int]) -> tuple[dict[str, int], ...]:
    """Return the special tokens with an id of their own, and the ones that share an id."""
    own: dict[str, int] = {}
    taken = set(ranks)
    for literal, id in special_tokens.items():
        if id not in taken:
            own[literal] = id
            taken.add(id)
    return own, {key: id for key, id in special_tokens.items() if key not in own}


def _as_id(token: int) -> int:
    """Return an id as an int; raise OverflowError if it has more than 32 bits or a sign."""
    id = index(token)
    if not 0 <= id < _IDS_END:
        raise OverflowError(f"an id is from 0 to 2**32 - 1, got {id}")
    return id


def _as_bytes(text_or_bytes: str | bytes) -> bytes:
    if isinstance(text_or_bytes, str):
        return text_or_bytes.encode("utf-8")
    if not isinstance(text_or_bytes, bytes):
        raise TypeError(f"a token must be a str or bytes, got {type(text_or_bytes).__name__}")
    return text_or_bytes


def _checked_texts(text: Iterable[str]) -> list[str]:
    texts = [*text]
    for each in texts:
        if not isinstance(each, str):
            _refuse_text(each)
    return texts


def _refuse_text(text: object) -> NoReturn:
    raise TypeError(f"text must be a str, got {type(text).__name__}")


def _found(literals: Iterable[str], texts: list[str]) -> list[str]:
    return [literal for literal in literals if any(literal in text for text in texts)]


def _refuse(literals: Iterable[str]) -> None:
    for literal in literals:
        raise ValueError(
            f"text has the disallowed special token {literal!r}; allow it with allowed_special="
            f"{{{literal!r}}}, or take it for ordinary text with disallowed_special=()"
        )
