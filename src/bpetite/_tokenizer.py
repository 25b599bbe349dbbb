"""The tokenizer: the one module that knows the order of the stages."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Final, Literal, Unpack

from bpetite._arrays import Dtype, as_array, item_size_of, joined
from bpetite._corpus import FileCorpus, Source, TextCorpus
from bpetite._decoder import as_list, character_offsets
from bpetite._engine import TextEncoder, TokenJoiner, count_pieces, learn_merges
from bpetite._pretokenizer import pattern_of, portable_pattern
from bpetite._progress import ProgressCallback, Reporter
from bpetite._special import Choice, Specials, choose
from bpetite._stream import DecodeStream
from bpetite._stream_options import StreamOptions
from bpetite._stream_states import check_errors
from bpetite._text import Text, as_str, refuse, refuse_batch
from bpetite._vocabulary import BYTE_COUNT, Pair, TokenTable, Vocabulary, as_id
from bpetite.formats import _home, _registry

END_OF_TEXT = "<|endoftext|>"

# The usual arguments of `encode`. They are recognised by identity, in an instant; equal ones that
# are other objects take the longer way to the same result.
_ALL: Final = "all"
_NONE: Final = ()
_ONE: Final = 1
_UINT32: Final = "uint32"

# Between special tokens, so many characters are worth more than one thread.
_LONG = 1 << 18

# More threads than this are never of use, but each would take memory.
_MOST_THREADS = 256


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

    __slots__ = ("_count", "_encode", "_encode_array", "_encoder", "_joiner", "_vocabulary")

    def __init__(self, vocabulary: Vocabulary) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                f"a Tokenizer is made by train or load, not of {type(vocabulary).__name__}"
            )
        self._vocabulary = vocabulary
        self._encoder = TextEncoder(vocabulary)
        self._encode = self._encoder.encode
        self._encode_array = self._encoder.encode_array
        self._count = self._encoder.count
        self._joiner = TokenJoiner(vocabulary)

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
        threads = _checked_threads(threads)
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
        text: Text,
        *,
        allowed_special: Specials = "all",
        disallowed_special: Specials = (),
        add_special_tokens: bool = False,
        threads: int | None = 1,
    ) -> list[int]:
        """Return the ids of `text`: a `str`, or its UTF-8 in bytes, bytearray, memoryview or mmap.

        Special tokens: a literal in `allowed_special` becomes its id; one in `disallowed_special`
        is a ValueError; any other is ordinary text. "all" means every special token, for
        `disallowed_special` every one that is not allowed. The parameters are tiktoken's, but by
        default all are allowed and none is refused; use `encode_ordinary` on untrusted text.
        With `add_special_tokens`, the ids that a vocabulary from Hugging Face has its texts begin
        and end with are put around (Llama 3's <|begin_of_text|>; a trained one has none).
        The native engine cuts a long text for up to so many `threads`, None being one for each
        core that the process may use; the ids are the same for any number of them. Where some
        special tokens are allowed and others not, it is each stretch between them that is cut.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.encode("ab<|endoftext|>")
        [256, 258]
        >>> tokenizer.encode(b"ab<|", allowed_special=())
        [256, 60, 124]

        Raises UnicodeEncodeError, with its position in characters, for a lone surrogate;
        UnicodeDecodeError, with its position in bytes, for a buffer that is not UTF-8; ValueError
        for a name in either argument that is no special token of this vocabulary, and for
        `threads` below 1; TypeError for a wrong type.
        """
        if (
            allowed_special is _ALL
            and disallowed_special is _NONE
            and threads is _ONE
            and not add_special_tokens
        ):
            encode = self._encode  # found faster by itself than as a method that is called
            try:
                return encode(text)
            except (TypeError, UnicodeError) as error:
                refuse(text, error)
        choice = self._choice(allowed_special, disallowed_special)
        threads = _checked_threads(threads)
        try:
            ids = self._ids(choice.checked(text), choice, threads)
        except (TypeError, UnicodeError) as error:
            refuse(text, error)
        if not add_special_tokens:
            return ids
        return [*self._vocabulary.prefix_ids, *ids, *self._vocabulary.suffix_ids]

    def encode_ordinary(self, text: Text) -> list[int]:
        """Return the ids of `text`, special tokens in it being ordinary text.

        >>> Tokenizer.train("ab ab ab", 258).encode_ordinary("ab<|")
        [256, 60, 124]

        Raises as `encode` does.
        """
        encode = self._encode
        try:
            return encode(text, True)
        except (TypeError, UnicodeError) as error:
            refuse(text, error)

    def encode_array(
        self,
        text: Text,
        *,
        dtype: Dtype = "uint32",
        allowed_special: Specials = "all",
        disallowed_special: Specials = (),
        add_special_tokens: bool = False,
        threads: int | None = 1,
    ) -> memoryview:
        """Return the ids of `text`, as `encode` does, in a buffer: four bytes an id, or two.

        `numpy.asarray` and `torch.frombuffer` see it without a copy, and may change it. `dtype` is
        "uint32", or "uint16" for a vocabulary whose ids are all below 65,536.

        >>> ids = Tokenizer.train("ab ab ab", 258).encode_array("ab ab<|endoftext|>")
        >>> ids.format, ids.nbytes, ids.tolist()
        ('I', 12, [256, 257, 258])

        Raises as `encode` does, and ValueError for a `dtype` that cannot hold all ids.
        """
        if (
            dtype is _UINT32
            and allowed_special is _ALL
            and disallowed_special is _NONE
            and threads is _ONE
            and not add_special_tokens
        ):
            encode_array = self._encode_array
            try:
                return encode_array(text, False, 4, 1)
            except (TypeError, UnicodeError) as error:
                refuse(text, error)
        item_size = item_size_of(dtype, self._vocabulary)
        choice = self._choice(allowed_special, disallowed_special)
        threads = _checked_threads(threads)
        try:
            checked = choice.checked(text)
            if choice.splitter is None:
                ids = self._encoder.encode_array(checked, choice.ordinary, item_size, threads)
            else:
                ids = as_array(self._ids(checked, choice, threads), item_size)
        except (TypeError, UnicodeError) as error:
            refuse(text, error)
        prefix, suffix = self._frame(add_special_tokens)
        return joined([ids], item_size, prefix, suffix)[0] if prefix or suffix else ids

    def encode_batch(
        self,
        texts: Iterable[Text],
        *,
        allowed_special: Specials = "all",
        disallowed_special: Specials = (),
        add_special_tokens: bool = False,
        threads: int | None = None,
    ) -> list[list[int]]:
        """Return the ids of each text, as `encode` does.

        The texts are all taken before the first is encoded. The native engine encodes them on up
        to so many `threads`, by default one for each core that the process may use; but one after
        the other where some special tokens are allowed and others not.

        >>> Tokenizer.train("ab ab ab", 258).encode_batch(["ab", b""])
        [[256], []]

        Raises as `encode` does for the first text that is refused; a note names its place.
        """
        texts = _checked_texts(texts)
        choice = self._choice(allowed_special, disallowed_special)
        threads = _checked_threads(threads)
        try:
            checked = choice.checked_batch(texts)
            if choice.splitter is None:
                batch = self._encoder.encode_batch(checked, choice.ordinary, threads)
            else:
                batch = [self._ids(text, choice, threads) for text in checked]
        except (TypeError, UnicodeError) as error:
            refuse_batch(texts, error)
        prefix, suffix = self._frame(add_special_tokens)
        return [[*prefix, *ids, *suffix] for ids in batch] if prefix or suffix else batch

    def encode_batch_arrays(
        self,
        texts: Iterable[Text],
        *,
        dtype: Dtype = "uint32",
        allowed_special: Specials = "all",
        disallowed_special: Specials = (),
        add_special_tokens: bool = False,
        threads: int | None = None,
    ) -> tuple[memoryview, memoryview]:
        """Return the ids of all texts in one buffer, as `encode_array` does, and the offsets.

        The ids of text i are `ids[offsets[i] : offsets[i + 1]]`: there is an offset (of eight
        bytes) more than there are texts, the first being 0 and the last the number of all ids.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> ids, offsets = tokenizer.encode_batch_arrays(["ab ab", "", "ab"], dtype="uint16")
        >>> ids.tolist(), offsets.tolist()
        ([256, 257, 256], [0, 2, 2, 3])

        Raises as `encode_batch` and `encode_array` do.
        """
        item_size = item_size_of(dtype, self._vocabulary)
        texts = _checked_texts(texts)
        choice = self._choice(allowed_special, disallowed_special)
        threads = _checked_threads(threads)
        try:
            checked = choice.checked_batch(texts)
            if choice.splitter is None:
                ids, offsets = self._encoder.encode_batch_arrays(
                    checked, choice.ordinary, item_size, threads
                )
            else:
                batch = (self._ids(text, choice, threads) for text in checked)
                ids, offsets = joined(batch, item_size)
        except (TypeError, UnicodeError) as error:
            refuse_batch(texts, error)
        prefix, suffix = self._frame(add_special_tokens)
        if prefix or suffix:
            parts = (ids[start:end] for start, end in pairwise(offsets))
            return joined(parts, item_size, prefix, suffix)
        return ids, offsets

    def count(
        self,
        text: Text,
        *,
        allowed_special: Specials = "all",
        disallowed_special: Specials = (),
        add_special_tokens: bool = False,
    ) -> int:
        """Return the number of ids that `encode` would return, without making them a list.

        >>> Tokenizer.train("ab ab ab", 258).count("ab ab<|endoftext|>")
        3

        Raises as `encode` does.
        """
        if allowed_special is _ALL and disallowed_special is _NONE and not add_special_tokens:
            count = self._count
            try:
                return count(text)
            except (TypeError, UnicodeError) as error:
                refuse(text, error)
        choice = self._choice(allowed_special, disallowed_special)
        try:
            checked = choice.checked(text)
            if choice.splitter is None:
                total = self._count(checked, choice.ordinary)
            else:
                parts = choice.splitter.split(as_str(checked))
                total = sum(
                    self._count(part, True) + (literal is not None) for part, literal in parts
                )
        except (TypeError, UnicodeError) as error:
            refuse(text, error)
        return total + sum(map(len, self._frame(add_special_tokens)))

    def _choice(self, allowed: Specials, disallowed: Specials) -> Choice:
        return choose(self._vocabulary.special_tokens, allowed, disallowed)

    def _ids(self, text: Text, choice: Choice, threads: int = 1) -> list[int]:
        """Return the ids of a text in which nothing is refused."""
        if choice.splitter is None:
            if threads == 1:
                return self._encode(text, choice.ordinary)
            return self._encoder.encode_list(text, choice.ordinary, threads)
        ids = []
        for ordinary, literal in choice.splitter.split(as_str(text)):
            if threads == 1 or len(ordinary) < _LONG:
                ids += self._encode(ordinary, True)
            else:
                ids += self._encoder.encode_list(ordinary, True, threads)
            if literal is not None:
                ids.append(self._vocabulary.special_tokens[literal])
        return ids

    def _frame(self, add_special_tokens: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return what is put before and behind the ids of a text."""
        if not add_special_tokens:
            return (), ()
        return self._vocabulary.prefix_ids, self._vocabulary.suffix_ids

    # Decoding

    def decode(
        self, ids: Iterable[int], *, errors: str = "strict", skip_special_tokens: bool = False
    ) -> str:
        """Return the text of `ids`: their bytes joined, and decoded once.

        A buffer of integers (an array.array, a memoryview, an array of numpy) is read as it is,
        by the native engine without making them ints; it must have one dimension.

        `errors` is for bytes that are not UTF-8, as in `bytes.decode`: strict (tiktoken's default
        is replace), replace, ignore or backslashreplace. A special id gives its literal, or
        nothing if they are skipped.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.decode([256, 257, 258], skip_special_tokens=True)
        'ab ab'

        Raises KeyError for an id that the vocabulary lacks, UnicodeDecodeError for bytes that are
        not UTF-8 (if strict), TypeError for ids that are not integers.
        """
        if errors != "strict":
            check_errors(errors)
        if type(ids) is not list:
            _refuse_single(ids, "ids", "int")
        return self._joiner.text(ids, errors, skip_special_tokens)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        r"""Return the bytes of `ids`, joined; they need not be UTF-8.

        >>> Tokenizer.train("ab ab ab", 258).decode_bytes([256, 195])
        b'ab\xc3'

        Raises KeyError and TypeError as `decode` does.
        """
        if type(ids) is not list:
            _refuse_single(ids, "ids", "int")
        return self._joiner.join(ids)

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
        ids = as_list(ids)
        text = self.decode(ids)
        return text, character_offsets(map(self.token_bytes, ids))

    def decode_stream(
        self,
        prompt_ids: Sequence[int] = (),
        *,
        errors: str = "replace",
        skip_special_tokens: bool = False,
        unknown: Literal["raise", "skip"] = "raise",
        stop: str | Iterable[str] = (),
        include_stop: bool = False,
        stop_ids: int | Iterable[int] = (),
        min_tokens: int = 0,
        tags: str | Iterable[str] = (),
    ) -> DecodeStream:
        """Return a `DecodeStream`, which turns ids that come one by one into text.

        The text of `prompt_ids` is never returned, except for a character that begins in the
        prompt and ends after it; making a stream costs the same whatever the prompt's length.
        `errors` and `skip_special_tokens` are as in `decode`. An id that the vocabulary lacks (a
        model padded to more ids samples some) is a KeyError, or with unknown="skip" no text.

        The stream ends before the first of the strings `stop` in its text (of those that end at
        the same character, the longest), or behind it with `include_stop`; and at the first id of
        `stop_ids`, which have no text. A stop that ends with the first `min_tokens` ids is passed
        over. `tags` are strings that `step_events` tells apart from text.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> stream = tokenizer.decode_stream()
        >>> [stream.step(id) for id in (256, 195, 169)]
        ['ab', '', 'é']
        >>> stream = tokenizer.decode_stream(stop="END")
        >>> [stream.step(id) for id in b"an END, or not"][:6], stream.stopped, stream.rest
        (['a', 'n', ' ', '', '', ''], 'END', '')

        Raises KeyError and TypeError for the last ids of the prompt, as `decode` does; ValueError
        for an empty string in `stop` or `tags`, TypeError for a wrong type.
        """
        return DecodeStream(
            self._tokens(skip_special_tokens),
            prompt_ids,
            errors=errors,
            unknown=unknown,
            stop=stop,
            include_stop=include_stop,
            stop_ids=stop_ids,
            min_tokens=min_tokens,
            tags=tags,
        )

    def stream(
        self,
        ids: Iterable[int | Iterable[int]],
        prompt_ids: Sequence[int] = (),
        **options: Unpack[StreamOptions],
    ) -> Generator[str, None, None]:
        """Yield the text of ids as they come: `DecodeStream.texts` of a new stream.

        The options are those of `decode_stream`. `ids` is closed, if it is a generator, when it is
        read no further: at a stop, an error, and when this iterator is closed. To see at the end
        what stopped it, make the stream and call its `texts`.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> list(tokenizer.stream([256, 195, 169, 33, 256], stop="!"))
        ['ab', 'é']
        """
        return self.decode_stream(prompt_ids, **options).texts(ids)

    def astream(
        self,
        ids: AsyncIterable[int | Iterable[int]],
        prompt_ids: Sequence[int] = (),
        **options: Unpack[StreamOptions],
    ) -> AsyncGenerator[str, None]:
        """Yield the text of ids as they come from an asynchronous source, as `stream` does.

        The source is closed on cancellation too; `contextlib.aclosing` closes both at once when a
        loop is left early.
        """
        return self.decode_stream(prompt_ids, **options).atexts(ids)

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
        that library on a text of many scripts, where it is installed; against the ids that are
        known of the public .tiktoken files, without asking it.

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
        """Return the tokenizer of a source, once its home library, if it is there, agrees.

        It is not asked again for ids that are known of a public file.
        """
        tokenizer = cls(source.vocabulary)
        if source.home is None:
            return tokenizer
        text = "".join([_home.PROBE, *islice(tokenizer.special_tokens, 100)])
        ours = tokenizer.encode(text)
        if source.home.is_known_to_give(text, ours):
            return tokenizer
        try:
            theirs = source.home.encode(text)
        except ImportError:
            return tokenizer
        different = _home.first_difference(
            text,
            ("bpetite", ours, tokenizer.token_bytes),
            (source.home.name, theirs, tokenizer.token_bytes),
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


def _checked_texts(texts: Iterable[Text]) -> list[Text]:
    """Return what is in a batch. A text is refused: what is in it would be taken for texts."""
    if isinstance(texts, Text) or not isinstance(texts, Iterable):
        raise TypeError(f"texts must be an iterable of texts, got {type(texts).__name__}")
    return list(texts)


def _checked_threads(threads: int | None) -> int:
    """Return how many threads there may be; None is one for each core that the process may use."""
    if threads is _ONE:
        return 1
    if threads is None:
        return min(_usable_cores(), _MOST_THREADS)
    try:
        count = as_id(threads)
    except TypeError:
        raise TypeError(
            f"threads must be an integer or None, got {type(threads).__name__}"
        ) from None
    if count < 1:
        raise ValueError(f"threads must be at least 1, got {count}")
    return min(count, _MOST_THREADS)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _refuse_single(values: object, name: str, items: str) -> None:
    """Refuse a str or bytes where an iterable is wanted: its items would be taken for those."""
    if isinstance(values, (str, bytes, bytearray)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be an iterable of {items}, got {type(values).__name__}")


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else noun + "s"
