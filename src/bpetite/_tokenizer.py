"""The tokenizer: the one module that knows the order of the stages."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, NoReturn

from bpetite._corpus import FileCorpus, Source, TextCorpus
from bpetite._decoder import character_offsets
from bpetite._engine import TextEncoder, TokenJoiner, count_pieces, learn_merges
from bpetite._pretokenizer import SpecialSplitter, pattern_of, portable_pattern
from bpetite._progress import ProgressCallback, Reporter
from bpetite._stream import DecodeStream, check_errors
from bpetite._vocabulary import BYTE_COUNT, Pair, TokenTable, Vocabulary, as_id
from bpetite.formats import _home, _registry

END_OF_TEXT = "<|endoftext|>"

Specials = Literal["all"] | Collection[str]

_MOST_THREADS = 1 << 10  # more are never of use


class Tokenizer:
    """Text to ids and back, by a vocabulary that was trained or loaded.

    Immutable, and safe to share between threads. Two are equal if their vocabularies are.

    >>> tokenizer = Tokenizer.train("ab ab ab", vocab_size=258)
    >>> tokenizer
    <Tokenizer: 259 ids = 256 bytes + 2 merges + 1 special token>
    >>> tokenizer.encode("ab<|endoftext|>ab")
    [256, 258, 256]
    >>> tokenizer.decode([256, 258, 256])
    'ab<|endoftext|>ab'
    """

    __slots__ = ("_encoder", "_joiners", "_vocabulary")

    def __init__(self, vocabulary: Vocabulary) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                f"a Tokenizer is made by train or load, not of {type(vocabulary).__name__}"
            )
        self._vocabulary = vocabulary
        self._encoder = TextEncoder(vocabulary)
        self._joiners: dict[bool, TokenJoiner] = {}  # by whether special tokens are skipped

    # Training

    @classmethod
    def train(
        cls,
        corpus: str | Iterable[str],
        vocab_size: int,
        *,
        pattern: str = "gpt2",
        special_tokens: Iterable[str] = (END_OF_TEXT,),
        progress: ProgressCallback | None = None,
        threads: int | None = None,
    ) -> Tokenizer:
        """Learn a vocabulary from text.

        `corpus` is one document or an iterable of documents; it is read once, and memory follows
        the number of its distinct pieces, not its length. A piece never spans two documents.
        `vocab_size` counts the 256 bytes and the merges, not the special tokens; training stops
        there or, early, when no pair is left. `pattern`, which cuts text into pieces, is a name
        (gpt2, cl100k, o200k, llama3, qwen2) or a regular expression of the `regex` package; what
        it does not match is a piece of its own. `special_tokens` get the ids after the last merge,
        in the order given; in the corpus they are ordinary text. `progress` is called with a
        `TrainingProgress`. `threads` is how many threads count pieces, None for as many as there
        are cores to use; the result is the same for any number, and the Python engine uses one.

        >>> Tokenizer.train(["to be", "or not to be"], 260, special_tokens=()).merges
        ((32, 98), (116, 111), (256, 101), (32, 110))

        Raises ValueError for a `vocab_size` below 256, `threads` below 1, special tokens that are
        empty or given twice, and a pattern that does not compile, can match nothing at all or has
        possessive quantifiers or atomic groups; UnicodeEncodeError for a lone surrogate, TypeError
        for a wrong type.
        """
        documents = TextCorpus(corpus)
        return cls._train(documents, vocab_size, pattern, special_tokens, progress, threads)

    @classmethod
    def train_from_files(
        cls,
        paths: Iterable[Source],
        vocab_size: int,
        *,
        pattern: str = "gpt2",
        special_tokens: Iterable[str] = (END_OF_TEXT,),
        progress: ProgressCallback | None = None,
        threads: int | None = None,
    ) -> Tokenizer:
        """Learn a vocabulary from files in UTF-8: each a document, read in chunks.

        As `train` with the files' texts, line ends and all as they are, but no file is ever held
        whole. `paths` may hold open binary files too (`sys.stdin.buffer`).

        >>> import io
        >>> Tokenizer.train_from_files([io.BytesIO(b"ab ab ab")], 258).merges
        ((97, 98), (32, 256))

        Raises as `train` does, OSError for a file that cannot be read, and ValueError for bytes
        that are not UTF-8, naming the file and the offset in bytes.
        """
        documents = FileCorpus(paths)
        return cls._train(documents, vocab_size, pattern, special_tokens, progress, threads)

    @classmethod
    def _train(
        cls,
        corpus: TextCorpus | FileCorpus,
        vocab_size: int,
        pattern: str,
        special_tokens: Iterable[str],
        progress: ProgressCallback | None,
        threads: int | None,
    ) -> Tokenizer:
        merge_limit = _checked_vocab_size(vocab_size) - BYTE_COUNT
        if progress is not None and not callable(progress):
            raise TypeError(f"progress must be callable, got {type(progress).__name__}")
        threads = None if threads is None else _checked_threads(threads)
        literals = _checked_special_tokens(special_tokens)
        pattern = portable_pattern(pattern_of(pattern))

        counting = Reporter(
            progress, "counting", None if progress is None else corpus.total_bytes()
        )
        merging = Reporter(progress, "merging", merge_limit)
        counts = [count_pieces(corpus, pattern, counting, threads)]
        counting.tell(corpus.bytes_read)
        # Handed over, not kept: the trainer needs the counts only to begin with.
        merges = learn_merges(counts.pop(), merge_limit, merging.report)
        merging.tell(len(merges))

        first_special = BYTE_COUNT + len(merges)
        special_ids = {literal: id for id, literal in enumerate(literals, first_special)}
        return cls(Vocabulary(tuple(merges), special_ids, pattern))

    # Encoding

    def encode(
        self,
        text: str,
        *,
        allowed_special: Specials = "all",
        disallowed_special: Specials = (),
        add_special_tokens: bool = False,
    ) -> list[int]:
        """Return the ids of `text`.

        Special tokens: a literal in `allowed_special` becomes its id; one in `disallowed_special`
        is a ValueError; any other is ordinary text. "all" means every special token, for
        `disallowed_special` every one that is not allowed. The parameters are tiktoken's, but by
        default all are allowed and none is refused; use `encode_ordinary` on untrusted text.
        With `add_special_tokens`, the ids that a vocabulary from Hugging Face has its texts begin
        and end with are put around (Llama 3's <|begin_of_text|>; a trained one has none).

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.encode("ab<|endoftext|>")
        [256, 258]
        >>> tokenizer.encode("ab<|", allowed_special=())
        [256, 60, 124]

        Raises UnicodeEncodeError, with its position in characters, for a lone surrogate, and
        ValueError for a name in either argument that is no special token of this vocabulary.
        """
        splitter = self._special(text, allowed_special, disallowed_special)
        try:
            if splitter is None:
                ids = self._encoder.encode(text)
            else:
                ids = []
                for ordinary, literal in splitter.split(text):
                    ids += self._encoder.encode(ordinary, True)
                    if literal is not None:
                        ids.append(self._vocabulary.special_tokens[literal])
        except UnicodeEncodeError:
            _raise_encode_error(text)
        if add_special_tokens:
            ids = [*self._vocabulary.prefix_ids, *ids, *self._vocabulary.suffix_ids]
        return ids

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the ids of `text`, special tokens in it being ordinary text.

        >>> Tokenizer.train("ab ab ab", 258).encode_ordinary("ab<|")
        [256, 60, 124]

        Raises as `encode` does.
        """
        _check_text(text)
        try:
            return self._encoder.encode(text, True)
        except UnicodeEncodeError:
            _raise_encode_error(text)

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        allowed_special: Specials = "all",
        disallowed_special: Specials = (),
        add_special_tokens: bool = False,
    ) -> list[list[int]]:
        """Return the ids of each text, as `encode` does.

        >>> Tokenizer.train("ab ab ab", 258).encode_batch(["ab", ""])
        [[256], []]
        """
        _refuse_single(texts, "texts", "str")
        return [
            self.encode(
                text,
                allowed_special=allowed_special,
                disallowed_special=disallowed_special,
                add_special_tokens=add_special_tokens,
            )
            for text in texts
        ]

    def count(
        self,
        text: str,
        *,
        allowed_special: Specials = "all",
        disallowed_special: Specials = (),
        add_special_tokens: bool = False,
    ) -> int:
        """Return the number of ids that `encode` would return, without making them a list.

        >>> Tokenizer.train("ab ab ab", 258).count("ab ab<|endoftext|>")
        3
        """
        splitter = self._special(text, allowed_special, disallowed_special)
        total = 0
        if add_special_tokens:
            total = len(self._vocabulary.prefix_ids) + len(self._vocabulary.suffix_ids)
        try:
            if splitter is None:
                return total + self._encoder.count(text)
            for ordinary, literal in splitter.split(text):
                total += self._encoder.count(ordinary, True)
                total += literal is not None
        except UnicodeEncodeError:
            _raise_encode_error(text)
        return total

    def _special(
        self, text: str, allowed: Specials, disallowed: Specials
    ) -> SpecialSplitter | None:
        """Return what cuts the allowed literals out of `text`, once none is disallowed in it.

        None means that all special tokens are allowed.
        """
        _check_text(text)
        if allowed == "all" and disallowed == ():
            return None
        allowed_literals = self._literals(allowed, "allowed_special")
        refused = self._literals(disallowed, "disallowed_special")
        if disallowed == "all":
            refused -= allowed_literals
        if refused and (found := _splitter(refused).first(text)):
            literal, position = found
            raise ValueError(
                f"text has the special token {literal!r} at character {position}, which "
                f"disallowed_special refuses; to encode it as its id, pass "
                f"allowed_special={{{literal!r}}} and leave it out of disallowed_special; "
                f"to encode it as ordinary text, leave it out of both, or use encode_ordinary"
            )
        return _splitter(allowed_literals)

    def _literals(self, specials: Specials, name: str) -> frozenset[str]:
        """Return the literals that an argument of `encode` means; all must be special tokens."""
        special_tokens = self._vocabulary.special_tokens
        if isinstance(specials, str):
            if specials == "all":
                return frozenset(special_tokens)
            raise TypeError(
                f'{name} must be "all" or a collection of special tokens, got the str '
                f"{specials!r}; for one, pass {{{specials!r}}}"
            )
        if not isinstance(specials, Iterable):
            raise TypeError(
                f'{name} must be "all" or a collection of special tokens, got '
                f"{type(specials).__name__}"
            )
        literals = frozenset(specials)
        for literal in literals - special_tokens.keys():
            raise ValueError(
                f"{name} has {literal!r}, which is not a special token of this vocabulary "
                f"(these are: {', '.join(map(repr, special_tokens)) or 'none'})"
            )
        return literals

    # Decoding

    def decode(
        self, ids: Iterable[int], *, errors: str = "strict", skip_special_tokens: bool = False
    ) -> str:
        """Return the text of `ids`: their bytes joined, and decoded once.

        `errors` is for bytes that are not UTF-8, as in `bytes.decode`: strict (tiktoken's default
        is replace), replace, ignore or backslashreplace. A special id gives its literal, or
        nothing if they are skipped.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.decode([256, 257, 258], skip_special_tokens=True)
        'ab ab'

        Raises KeyError for an id that the vocabulary lacks, UnicodeDecodeError for bytes that are
        not UTF-8 (if strict), TypeError for ids that are not integers.
        """
        check_errors(errors)
        return self._join(ids, skip_special_tokens).decode("utf-8", errors)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        r"""Return the bytes of `ids`, joined; they need not be UTF-8.

        >>> Tokenizer.train("ab ab ab", 258).decode_bytes([256, 195])
        b'ab\xc3'

        Raises KeyError and TypeError as `decode` does.
        """
        return self._join(ids, skip_special_tokens=False)

    def _join(self, ids: Iterable[int], skip_special_tokens: bool) -> bytes:
        _refuse_single(ids, "ids", "int")
        joiner = self._joiners.get(skip_special_tokens)
        if joiner is None:
            joiner = TokenJoiner(self._tokens(skip_special_tokens).bytes_of)
            self._joiners[skip_special_tokens] = joiner
        return joiner.join(ids)

    def decode_batch(
        self,
        batch: Iterable[Iterable[int]],
        *,
        errors: str = "strict",
        skip_special_tokens: bool = False,
    ) -> list[str]:
        """Return the text of each sequence of ids, as `decode` does.

        >>> Tokenizer.train("ab ab ab", 258).decode_batch([[256], []])
        ['ab', '']
        """
        _refuse_single(batch, "batch", "sequences of ids")
        return [
            self.decode(ids, errors=errors, skip_special_tokens=skip_special_tokens)
            for ids in batch
        ]

    def decode_with_offsets(self, ids: Iterable[int]) -> tuple[str, list[int]]:
        """Return the text of `ids` and, for each, where in the text its first byte is.

        An offset is the index of a character; of an id that begins inside a character, it is the
        index of that character.

        >>> Tokenizer.train("ab ab ab", 258).decode_with_offsets([256, 257, 195, 169])
        ('ab abé', [0, 2, 5, 5])

        Raises as `decode` does.
        """
        _refuse_single(ids, "ids", "int")
        ids = list(ids)
        text = self.decode(ids)
        return text, character_offsets(map(self.token_bytes, ids))

    def decode_stream(
        self,
        prompt_ids: Sequence[int] = (),
        *,
        errors: str = "replace",
        skip_special_tokens: bool = False,
    ) -> DecodeStream:
        """Return a `DecodeStream`, which turns ids that come one by one into text.

        The text of `prompt_ids` is never returned, except for a character that begins in the
        prompt and ends after it; making a stream costs the same whatever the prompt's length.

        >>> stream = Tokenizer.train("ab ab ab", 258).decode_stream()
        >>> [stream.step(id) for id in (256, 195, 169)]
        ['ab', '', 'é']

        Raises KeyError and TypeError for the last ids of the prompt, as `decode` does.
        """
        return DecodeStream(self._tokens(skip_special_tokens), prompt_ids, errors=errors)

    def _tokens(self, skip_special_tokens: bool) -> TokenTable:
        vocabulary = self._vocabulary
        return vocabulary.tokens_without_special if skip_special_tokens else vocabulary.tokens

    # Files

    def save(
        self, path: str | os.PathLike[str], overwrite: bool = False, *, format: str | None = None
    ) -> None:
        """Write the vocabulary to a file, the same bytes for an equal tokenizer.

        The format is that of `bpetite`, one JSON file, unless another is given or the path tells
        it: `tiktoken` for a name that ends in .tiktoken, `gpt2` for vocab.json (merges.txt goes
        beside it), `huggingface` for tokenizer.json, an existing folder or a path that ends in a
        slash (tokenizer_config.json goes beside it; with the format given, any path but one that
        ends in .json is a folder).

        Each file appears whole or not at all: a failure leaves what was there before. What goes to
        another library is read back first. A .tiktoken file has neither the pattern nor special
        tokens; GPT-2's files have no pattern, and only GPT-2's is taken; `settings` are in a model
        folder alone.

        Raises ValueError if the other library would give other ids, saying why; FileExistsError
        if there is such a file, unless `overwrite`; other OSErrors as the system has them.
        """
        _registry.write(self._vocabulary, path, overwrite, format)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        pattern: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
    ) -> Tokenizer:
        """Read a tokenizer from a file, or a model folder, in any of the formats of `save`.

        The format is recognised by the content, unless it is given. `pattern` and
        `special_tokens` are for the formats that have none: .tiktoken, where both are known of
        the public files, and GPT-2's, where they are GPT-2's pattern and the entries of vocab.json
        that no merge makes or has as a part.

        Every value in the file is checked. What comes from another library's file is held against
        that library on a text of many scripts, where it is installed.

        Raises ValueError for whatever is wrong, or would not give the same ids here, naming the
        place in the file; KeyError for a missing key of our own format; OSError as the system has
        it.
        """
        return cls._checked(
            _registry.read(path, format, pattern, special_tokens), os.fsdecode(path)
        )

    @classmethod
    def from_tiktoken(cls, encoding: object) -> Tokenizer:
        """Return the tokenizer that gives the ids of a `tiktoken.Encoding`.

        Raises ValueError for a pattern that means another thing here, TypeError for what is no
        Encoding.
        """
        return cls._checked(_registry.from_encoding(encoding), "the Encoding")

    @classmethod
    def _checked(cls, source: _registry.Loaded, name: str) -> Tokenizer:
        """Return the tokenizer of a source, once its home library, if it is there, agrees."""
        tokenizer = cls(source.vocabulary)
        if source.home is not None:
            text = "".join([_home.PROBE, *islice(tokenizer.special_tokens, 100)])
            try:
                ids = source.home.encode(text)
            except ImportError:
                return tokenizer
            different = _home.first_difference(
                text,
                ("bpetite", tokenizer.encode(text), tokenizer.token_bytes),
                (source.home.name, ids, tokenizer.token_bytes),
            )
            if different:
                raise ValueError(
                    f"{name}: {source.home.name} gives other ids for a text to try both with, at "
                    f"{different}"
                )
        return tokenizer

    # What it is made of

    @property
    def vocab_size(self) -> int:
        """The number of ids in use: bytes, merges and special tokens too."""
        return len(self._vocabulary)

    @property
    def n_vocab(self) -> int:
        """The highest id plus one: the length of a table that has a row for each id."""
        return self._vocabulary.n_vocab

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids in use, in ascending order; there may be gaps between those from elsewhere."""
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
    def pattern(self) -> str:
        """The regular expression that cuts text into pieces."""
        return self._vocabulary.pattern

    @property
    def more_patterns(self) -> tuple[str, ...]:
        """Those that cut the pieces again, one after the other; most vocabularies have none."""
        return self._vocabulary.more_patterns

    @property
    def lossless(self) -> bool:
        """Whether `decode` gives back every text.

        It is so but for a vocabulary from Hugging Face that brings text into Unicode's normal
        form C before it is cut.
        """
        return self._vocabulary.normalizer is None

    @property
    def settings(self) -> Mapping[str, str]:
        """What a model folder says beside the vocabulary (bos_token, chat_template), as it is."""
        return self._vocabulary.settings

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes of one id; a special token's are its literal in UTF-8.

        >>> Tokenizer.train("ab ab ab", 258).token_bytes(257)
        b' ab'

        Raises KeyError for an id that the vocabulary lacks, TypeError for one that is no integer.
        """
        return self._vocabulary.tokens.bytes_of[as_id(id)]

    def token_id(self, token: bytes) -> int:
        """Return the id of one token's bytes.

        >>> Tokenizer.train("ab ab ab", 258).token_id(b" ab")
        257

        Raises KeyError if no token has these bytes, TypeError for anything but bytes.
        """
        if not isinstance(token, bytes):
            raise TypeError(f"token must be bytes, got {type(token).__name__}")
        try:
            return self._vocabulary.id_of[token]
        except KeyError:
            raise KeyError(f"no token of this vocabulary has the bytes {token!r}") from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return self._vocabulary == other._vocabulary

    def __hash__(self) -> int:
        return hash(self._vocabulary)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._vocabulary,)

    def __copy__(self) -> Tokenizer:
        return self

    def __deepcopy__(self, memo: object) -> Tokenizer:
        return self

    def __repr__(self) -> str:
        merges, special = len(self.merges), len(self.special_tokens)
        # In a vocabulary from elsewhere several merges may make one token, or none.
        others = self.vocab_size - BYTE_COUNT - merges - special
        return (
            f"<Tokenizer: {self.vocab_size} ids = {BYTE_COUNT} bytes + "
            f"{merges} {_plural('merge', merges)} + "
            f"{special} {_plural('special token', special)}"
            f"{f' {others:+} others' if others else ''}>"
        )


@lru_cache(maxsize=64)
def _splitter(literals: frozenset[str]) -> SpecialSplitter:
    return SpecialSplitter(literals)


def _checked_vocab_size(vocab_size: object) -> int:
    try:
        size = as_id(vocab_size)
    except TypeError:
        raise TypeError(f"vocab_size must be an integer, got {type(vocab_size).__name__}") from None
    if size < BYTE_COUNT:
        raise ValueError(
            f"vocab_size must be at least {BYTE_COUNT}, one id for each byte, got {size}"
        )
    return size


def _checked_threads(threads: object) -> int:
    try:
        count = as_id(threads)
    except TypeError:
        raise TypeError(f"threads must be an integer, got {type(threads).__name__}") from None
    if count < 1:
        raise ValueError(f"threads must be at least 1, got {count}")
    return min(count, _MOST_THREADS)


def _checked_special_tokens(special_tokens: Iterable[str]) -> list[str]:
    _refuse_single(special_tokens, "special_tokens", "str")
    literals: dict[str, None] = {}  # in the order given
    for literal in special_tokens:
        if not isinstance(literal, str):
            raise TypeError(f"a special token must be a str, got {type(literal).__name__}")
        if not literal:
            raise ValueError("a special token must not be empty")
        if literal in literals:
            raise ValueError(f"the special token {literal!r} is given twice")
        literal.encode("utf-8")
        literals[literal] = None
    return list(literals)


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")


def _raise_encode_error(text: str) -> NoReturn:
    """Raise the error that a lone surrogate in a piece caused, with its position in the text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise error from None
    raise AssertionError("unreachable: a piece of the text could not be encoded")


def _refuse_single(values: object, name: str, items: str) -> None:
    """Refuse a str or bytes where an iterable is wanted: its items would be taken for those."""
    if isinstance(values, (str, bytes, bytearray)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be an iterable of {items}, got {type(values).__name__}")


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else noun + "s"
