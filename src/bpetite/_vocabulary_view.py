"""The attributes of a tokenizer: its tokens and ids, its merges, patterns and settings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Self

from bpetite._pretokenizer import PATTERNS
from bpetite._token_tables import TokenTables
from bpetite._vocabulary import Pair, Vocabulary, as_id

# A model's special tokens may be a thousand reserved ones.
_SHOWN_LITERALS = 8


class VocabularyView:
    """The read-only attributes of a vocabulary; two views are equal if their vocabularies are."""

    __slots__ = ("_fingerprint", "_tables", "_vocabulary")

    def __init__(self, vocabulary: Vocabulary | None = None, /) -> None:
        """Not for users: call `Tokenizer.train`, `load` or `from_tiktoken`."""
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                "Tokenizer is not made by a call; use Tokenizer.train, Tokenizer.load or "
                "Tokenizer.from_tiktoken"
            )
        self._vocabulary = vocabulary
        self._tables = TokenTables(vocabulary)
        self._fingerprint: str | None = None
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Make the parts that work with the vocabulary."""

    @property
    def vocab_size(self) -> int:
        """The number of ordinary tokens, as `train` counts them: bytes and merges.

        Special tokens come on top: `len(tokenizer.ids)` is the number of all ids in use. In a
        vocabulary from elsewhere, tokens that no merge makes count too.

        >>> from bpetite import Tokenizer
        >>> tokenizer = Tokenizer.train("ab ab ab", vocab_size=258)
        >>> tokenizer.vocab_size, len(tokenizer.ids)
        (258, 259)
        """
        return len(self._vocabulary.ordinary_tokens)

    @property
    def n_vocab(self) -> int:
        """The highest id plus one: the length of a table with a row for each id."""
        return self._vocabulary.n_vocab

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids in use, in ascending order; a vocabulary from elsewhere may have gaps."""
        return tuple(sorted(self._vocabulary.tokens.bytes_of))

    @property
    def merges(self) -> tuple[Pair, ...]:
        """The merges in rank order, each a pair (left id, right id)."""
        return self._vocabulary.merges

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """The id of each special token's literal; read-only."""
        return self._vocabulary.special_tokens

    @property
    def patterns(self) -> tuple[str, ...]:
        r"""The regular expressions that split text into pieces, applied in turn.

        Most vocabularies have one. Each further pattern splits every piece of the one before it.

        >>> from bpetite import Tokenizer
        >>> Tokenizer.train("", 256, pattern=r"\S+|\s+").patterns
        ('\\S+|\\s+',)
        """
        return self._vocabulary.patterns

    @property
    def lossless(self) -> bool:
        """Whether `decode` returns every text as it was encoded.

        Only a vocabulary from elsewhere may not be lossless: one that normalizes text, drops
        parts of it, puts a space before it or has byte fallback, or whose special tokens take
        white space.
        """
        return self._vocabulary.normalizer is None and self._vocabulary.stages.keeps_text

    @property
    def settings(self) -> Mapping[str, str]:
        """Other settings of a model folder (bos_token, chat_template), unchanged; read-only."""
        return self._vocabulary.settings

    @property
    def fingerprint(self) -> str:
        """A name of the vocabulary: "sha256:" and 64 digits.

        Tokenizers with one fingerprint give the same ids. A file in another format has the same
        fingerprint if it keeps everything that decides ids: pattern, special tokens and the ids
        around texts. Settings and other things that do not decide ids are left out.

        >>> from bpetite import Tokenizer
        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.fingerprint == Tokenizer.train("ab ab", 258).fingerprint
        True

        The first use takes up to some seconds for a large vocabulary.
        """
        if self._fingerprint is None:
            from bpetite.formats._fingerprint import fingerprint

            self._fingerprint = fingerprint(self._vocabulary.transient())
        return self._fingerprint

    @property
    def tokens(self) -> tuple[bytes, ...]:
        r"""The bytes of each id from 0 to `n_vocab` - 1; b"" for an id that is not in use.

        A special token's bytes are its literal in UTF-8. Libraries for constrained decoding take
        this sequence. It is made at the first use and kept.

        >>> from bpetite import Tokenizer
        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.tokens[255:]
        (b'\xff', b'ab', b' ab', b'<|endoftext|>')

        Raises ValueError if ids run above 16 million.
        """
        return self._tables.rows

    def ids_with_prefix(self, prefix: bytes) -> list[int]:
        """Return the ids of all tokens whose bytes begin with a prefix, in ascending order.

        Special tokens are left out. Token healing removes the last token of a prompt, and restricts
        the next id to the tokens that begin with its bytes.

        >>> from bpetite import Tokenizer
        >>> Tokenizer.train("ab ab ab", 258).ids_with_prefix(b"a")
        [97, 256]

        Raises TypeError for a value that is not bytes.
        """
        if not isinstance(prefix, bytes):
            raise TypeError(f"prefix must be bytes, got {type(prefix).__name__}")
        return self._tables.ids_with_prefix(prefix)

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes of one id; a special token's are its literal in UTF-8.

        >>> from bpetite import Tokenizer
        >>> Tokenizer.train("ab ab ab", 258).token_bytes(257)
        b' ab'

        Raises KeyError for an unknown id, TypeError for a value that is not an integer.
        """
        return self._vocabulary.stream_tokens(False).bytes_of[as_id(id)]

    def token_id(self, token: str | bytes) -> int:
        """Return the id of one token's bytes, or of a `str`, by its UTF-8.

        A special token has its literal's bytes, as in `token_bytes`.

        >>> from bpetite import Tokenizer
        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.token_id(b" ab"), tokenizer.token_id(" ab")
        (257, 257)
        >>> tokenizer.token_id("<|endoftext|>")
        258

        Raises KeyError if no token has these bytes, UnicodeEncodeError for a lone surrogate, and
        TypeError for a value that is neither.
        """
        if isinstance(token, str):
            token = token.encode("utf-8")
        if not isinstance(token, bytes):
            raise TypeError(f"token must be a str or bytes, got {type(token).__name__}")
        try:
            return self._vocabulary.id_of[token]
        except KeyError:
            raise KeyError(f"no token of this vocabulary has the bytes {token!r}") from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VocabularyView):
            return NotImplemented
        return self._vocabulary == other._vocabulary

    def __hash__(self) -> int:
        return hash(self._vocabulary)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._vocabulary,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        special_ids = {*self.special_tokens.values()}
        # In a vocabulary from elsewhere, several merges may make one token, or no merge makes it.
        made = {*self._vocabulary.merge_ids} - special_ids
        count = len(self._vocabulary)
        single_bytes = self._vocabulary.single_bytes
        others = count - len({*single_bytes, *made, *special_ids})
        merges = _counted(len(self.merges), "merge")
        if len(made) != len(self.merges):
            merges = f"{_counted(len(made), 'token')} of {merges}"
        groups = [f"{len(single_bytes)} bytes", merges]
        if others:
            groups.append(_counted(others, "other token"))
        groups.append(_counted(len(special_ids), "special token"))
        return f"<Tokenizer: {count} ids = {' + '.join(groups)}>"

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        from html import escape  # slow to import, and rarely needed

        names = {pattern: name for name, pattern in PATTERNS.items()}
        literals = [*map(repr, self.special_tokens)]
        if len(literals) > _SHOWN_LITERALS:
            literals[_SHOWN_LITERALS:] = [f"{len(literals) - _SHOWN_LITERALS} more"]
        rows = {
            "Tokenizer": repr(self).removeprefix("<Tokenizer: ").removesuffix(">"),
            "pattern": ", then ".join(names.get(each, each) for each in self.patterns),
            "special tokens": ", ".join(literals) or "none",
        }
        left = ' style="text-align: left"'
        cells = (
            f"<tr><th{left}>{key}</th><td{left}>{escape(text)}</td></tr>"
            for key, text in rows.items()
        )
        return f"<table>{''.join(cells)}</table>"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
