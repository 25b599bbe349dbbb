"""`Tokenizer`, which calls the stages in order. Only this module knows the order."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, overload

from bpetite import _arguments
from bpetite._arguments import (
    Buffer,
    Chosen,
    Dtype,
    EncodeOptions,
    OffsetOptions,
    PartOptions,
    Specials,
    Text,
    TextErrors,
    Unit,
)
from bpetite._budget import PREFERRED_ENDS, Chunk
from bpetite._encoders import Encoders, encoded, framed, without_special
from bpetite._engine.arrays import as_array
from bpetite._engine.chosen import ENGINE
from bpetite._engine.documents import view_of_data, view_of_offsets
from bpetite._engine.python import TokenJoiner
from bpetite._pretokenizer import ChunkSplitter
from bpetite._stages import INSIDE
from bpetite._streaming.byte_decoders import Utf8Decoder
from bpetite._streaming.stream import MakesStreams
from bpetite._streaming.tables import MakeDecoder, TokenSource, stripping_decoder
from bpetite._vocabulary import Vocabulary
from bpetite._vocabulary_view import VocabularyView

# Most programs need few of these, so methods import what they use of them.
if TYPE_CHECKING:
    from bpetite._merge_rules import Forbidden
    from bpetite._progress import ProgressCallback
    from bpetite._streaming.encode_stream import EncodeStream
    from bpetite._streaming.extending import Extender
    from bpetite._streaming.prompt import Prompt
    from bpetite._training import AnyCorpus
    from bpetite.formats._reference import Reference

END_OF_TEXT = "<|endoftext|>"

# The default arguments of `encode`, compared by identity: that halves the time of a short text.
# Equal arguments that are other objects take the longer way to the same result.
_NONE: Final = ()
_ALL: Final = "all"
_ONE_THREAD: Final = 1
_UINT32: Final = "uint32"
_STRICT: Final = "strict"

# The number of choices of guarded tokens whose extenders are kept.
_MAX_EXTENDERS = 16


class Tokenizer(VocabularyView, MakesStreams):
    """Turns text into ids and back, by a vocabulary that was trained or loaded.

    - make: `train`, `load`, `from_tiktoken`; keep: `save`
    - encode: `encode`, `encode_ordinary` for untrusted text, `encode_parts` for prompts,
      `encode_batch`, `encode_with_offsets`, `encode_buffer`, `encode_bytes`
    - encode what grows: `prompt`, `encode_stream`, and `extend_ids` for sampled ids
    - cut to a budget: `count`, `fits`, `truncate`, `chunks`
    - decode: `decode`, `decode_bytes`, `decode_batch`, `decode_with_offsets`
    - stream a model's output: `stream`, `astream`, `decode_stream`
    - look: `merges`, `patterns`, `special_tokens`, `tokens`, `ids`, `vocab_size`, `n_vocab`,
      `fingerprint`, `lossless`, `settings`, `token_bytes`, `token_id`, `ids_with_prefix`,
      `first_noncanonical`
    - change: `with_vocab_size`, `without_rare`, `with_special_tokens`, `with_settings`

    A tokenizer is immutable and safe to share between threads. Two tokenizers are equal if their
    vocabularies are.

    >>> tokenizer = Tokenizer.train("ab ab ab", vocab_size=258)
    >>> tokenizer
    <Tokenizer: 259 ids = 256 bytes + 2 merges + 1 special token>
    >>> tokenizer.encode("ab<|endoftext|>ab")
    [256, 258, 256]
    >>> tokenizer.decode([256, 258, 256])
    'ab<|endoftext|>ab'
    """

    __slots__ = (
        "__weakref__", "_count", "_encode", "_encode_array", "_encoders", "_extenders",
        "_joiner", "_token_source",
    )  # fmt: skip

    def _prepare(self) -> None:
        vocabulary = self._vocabulary
        self._encoders = Encoders(vocabulary)
        self._encode = self._encoders.usual.encode
        self._encode_array = self._encoders.usual.encode_array
        self._count = self._encoders.usual.count
        self._extenders: dict[Chosen, Extender] = {}
        self._joiner = ENGINE.make_token_joiner(vocabulary)
        strips = vocabulary.stages.strips_start
        decoder: MakeDecoder = stripping_decoder if strips else Utf8Decoder
        self._token_source = TokenSource(vocabulary, decoder)

    # Training

    @classmethod
    def train(
        cls,
        corpus: AnyCorpus | Mapping[str, AnyCorpus],
        vocab_size: int,
        *,
        pattern: str | None = None,
        special_tokens: Iterable[str] = (END_OF_TEXT,),
        balance: Mapping[str, AnyCorpus] | None = None,
        base: Tokenizer | None = None,
        min_pair_count: int = 1,
        max_token_bytes: int | None = None,
        require: Iterable[str] = (),
        forbid: Forbidden | None = None,
        whole_characters: bool = False,
        errors: TextErrors = "strict",
        progress: ProgressCallback | None = None,
        threads: int | None = None,
    ) -> Tokenizer:
        """Learn a vocabulary from text, or learn more merges on top of another.

        `corpus` is one document, an iterable of documents, an object with a method `batches`, such
        as `bpetite.corpora.Corpus`, or the `PieceCounts` of any of these. It is read once. Memory
        grows with the number of distinct pieces, and no piece spans two documents.

        A document is a `str`, its UTF-8 in bytes, or a file of UTF-8: a path (`os.PathLike`) or an
        open binary file, which is read in chunks. A `str` is always text, never a path.

        - `vocab_size`: the number of bytes and merges, including `base`, without special tokens
        - `pattern`: splits text into pieces: a name (gpt2, cl100k, o200k, llama3, qwen2, qwen3.5,
          kimi-k2, words) or an expression of `regex`; by default the pattern of the counts or the
          base, else gpt2
        - `special_tokens`: get the ids after the last merge, in this order; in the corpus, their
          literals are ordinary text
        - `balance`: a development text for each name in `corpus`, which then is a mapping; each
          merge is the most frequent pair of the language whose development text has the most ids
        - `base`: a vocabulary whose ids all stay; new ids follow its highest
        - `min_pair_count`: pairs that occur less often are not merged
        - `max_token_bytes`: no new token is longer
        - `require`: these tokens are made first, with the tokens that they need; other rules do not
          apply to them
        - `forbid`: tokens not to make: a list of them, a compiled expression of bytes that they
          match, or a pure function of bytes that is true for them; by default, the pattern words
          forbids more than four words
        - `whole_characters`: a new token is whole characters, or a part of one
        - `errors`: "replace" puts U+FFFD in place of lone surrogates and invalid UTF-8
        - `progress`: is called with a `TrainingProgress`
        - `threads`: the number of threads that count pieces, None for one per usable core; the
          result is the same for any number, and the Python engine uses one

        A `CorpusWarning` tells of documents that are names of files, of text that looks like JSON
        Lines, and of training that stops below `vocab_size` because no pair is left. The reference
        is docs/training.md.

        >>> Tokenizer.train(["to be", "or not to be"], 260, special_tokens=()).merges
        ((32, 98), (116, 111), (256, 101), (32, 110))

        Raises ValueError for a `vocab_size` below 256, or below the ordinary tokens of `base` with
        the required ones; for `threads` below 1; for a special token that is empty, too long or
        given twice; and for a pattern that does not compile, can match the empty string,
        backtracks, has possessive quantifiers or atomic groups, or differs from the counts' own.
        Raises ValueError for a required token that the pattern splits or the base normalizes, for
        counted pieces that the base normalizes, for a base with several patterns without a
        `pattern` or with other stages of a tokenizer.json, if the names in `corpus` and `balance`
        differ, and for an empty development text.
        Raises UnicodeEncodeError for a lone surrogate, with its position in the document,
        UnicodeDecodeError for bytes that are not UTF-8, and ValueError for a file that is not, with
        its name and the offset in bytes. Raises OSError for a file that cannot be read, and
        TypeError for a wrong type.
        """
        from bpetite._training import learn, options_of, texts_of

        if base is not None and not isinstance(base, Tokenizer):
            raise TypeError(f"base must be a Tokenizer, got {type(base).__name__}")
        start = None if base is None else base._vocabulary
        rules = min_pair_count, max_token_bytes, require, forbid, whole_characters
        options = options_of(start, *rules)
        texts = texts_of(corpus, balance, errors, options)
        return cls(learn(texts, vocab_size, pattern, special_tokens, options, progress, threads))

    # Encoding

    @overload
    def encode(
        self, text: Text, *, dtype: None = None, **options: Unpack[EncodeOptions]
    ) -> list[int]: ...
    @overload
    def encode(
        self, text: Text, *, dtype: Dtype, **options: Unpack[EncodeOptions]
    ) -> memoryview: ...
    def encode(
        self,
        text: Text,
        *,
        dtype: Dtype | None = None,
        allowed_special: Specials | None = None,
        disallowed_special: Specials = (),
        add_special_tokens: bool = False,
        errors: TextErrors = "strict",
        threads: int | None = 1,
    ) -> list[int] | memoryview:
        """Return the ids of a text: a list of int, or a buffer with `dtype`.

        `text` is a `str`, or UTF-8 in a bytes, bytearray, memoryview or mmap.

        `dtype` is uint32, or uint16 if all ids are below 65,536: by name or as numpy's type.
        `numpy.asarray` and `torch.frombuffer` share the buffer without a copy, and may write to it.

        A special literal in `allowed_special` becomes its id. One in `disallowed_special` raises
        ValueError. Any other is ordinary text. "all" means every special token, and for
        `disallowed_special` every one that is not allowed by name. By default all are allowed that
        are not disallowed, which are all, while tiktoken allows none. Added tokens that a file
        does not call special are vocabulary, so they always count. For a user's text in a prompt,
        use `encode_parts`.

        `add_special_tokens` adds the ids that a Hugging Face vocabulary puts around each text, such
        as Llama 3's <|begin_of_text|>. A trained vocabulary adds none.

        With `errors="replace"`, U+FFFD replaces lone surrogates and invalid UTF-8. A high surrogate
        and the low one after it become their character, as in tiktoken.

        `threads` is the number of threads for a long text; None means one for each usable core. The
        ids are the same for any number. The Python engine uses one thread.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.encode("ab<|endoftext|>")
        [256, 258]
        >>> ids = tokenizer.encode("ab ab<|endoftext|>", dtype="uint32")
        >>> ids.format, ids.nbytes, ids.tolist()
        ('I', 12, [256, 257, 258])

        If `errors` is strict, raises UnicodeEncodeError for a lone surrogate, with its position in
        characters, and UnicodeDecodeError for a buffer that is not UTF-8, with its position in
        bytes. Raises ValueError for `threads` below 1, for other `errors`, for an unknown special
        token in either argument, and for a `dtype` that cannot hold all ids.
        Raises TypeError for a wrong type.
        """
        if threads is _ONE_THREAD and errors is _STRICT and not add_special_tokens:
            if disallowed_special is _ALL and (allowed_special is None or allowed_special is _NONE):
                text = without_special(text, self._encoders.choose(_NONE, _ALL)[1])
                allowed_special = disallowed_special = _NONE
            if disallowed_special is not _NONE:
                pass
            elif dtype is None:
                if allowed_special is None or allowed_special is _ALL:
                    encode = self._encode  # a local name is faster than a call of an attribute
                    return encode(text)
                if allowed_special is _NONE:
                    return self._encoders.ordinary.encode(text)
            elif dtype is _UINT32:
                if allowed_special is None or allowed_special is _ALL:
                    encode_array = self._encode_array
                    return encode_array(text, False, 4, 1)
                if allowed_special is _NONE:
                    return self._encoders.ordinary.encode_array(text, False, 4, 1)
        item_size = self._encoders.item_size(dtype)
        threads = _arguments.check_threads(threads)
        encoder, guard = self._encoders.choose(allowed_special, disallowed_special)
        checked = without_special(_arguments.text_of(text, errors), guard)
        frame = self._encoders.frame(add_special_tokens)
        if not item_size:
            return framed(encoder.encode(checked, False, threads), frame)
        return framed(encoder.encode_array(checked, False, item_size, threads), frame)

    @overload
    def encode_ordinary(
        self, text: Text, *, dtype: None = None, errors: TextErrors = "strict"
    ) -> list[int]: ...
    @overload
    def encode_ordinary(
        self, text: Text, *, dtype: Dtype, errors: TextErrors = "strict"
    ) -> memoryview: ...
    def encode_ordinary(
        self, text: Text, *, dtype: Dtype | None = None, errors: TextErrors = "strict"
    ) -> list[int] | memoryview:
        """Return the ids of a document: in it, special literals are ordinary text.

        Added tokens that a file does not call special are vocabulary, and count. In a prompt, they
        may be markup such as `<think>`, so `encode_parts` is for a user's text there.

        `dtype` and `errors` are as in `encode`.

        >>> Tokenizer.train("ab ab ab", 258).encode_ordinary("ab<|")
        [256, 60, 124]

        Raises the errors of `encode`.
        """
        if errors is not _STRICT:
            text = _arguments.text_of(text, errors)
        ordinary = self._encoders.ordinary
        if dtype is None:
            return ordinary.encode(text)
        return ordinary.encode_array(text, False, self._encoders.item_size(dtype), 1)

    @overload
    def encode_with_offsets(
        self, text: Text, *, dtype: None = None, **options: Unpack[OffsetOptions]
    ) -> tuple[list[int], list[int]]: ...
    @overload
    def encode_with_offsets(
        self, text: Text, *, dtype: Dtype, **options: Unpack[OffsetOptions]
    ) -> tuple[memoryview, memoryview]: ...
    def encode_with_offsets(
        self,
        text: Text,
        *,
        unit: Unit = "characters",
        dtype: Dtype | None = None,
        allowed_special: Specials | None = None,
        add_special_tokens: bool = False,
        errors: TextErrors = "strict",
    ) -> tuple[list[int], list[int]] | tuple[memoryview, memoryview]:
        """Return the ids of a text, as `encode` does, and where in the text each id begins.

        With the unit characters, an offset is the index of the character that has the first byte
        of the id. Ids that share a character share its index. With the unit bytes, it is the
        position of the first byte in the UTF-8 of the text. With `dtype`, both are buffers, and an
        offset has eight bytes.

        The text of id i is `text[offsets[i] : offsets[i + 1]]`, unless the id is a part of a
        character. With `errors="replace"`, offsets refer to the text after replacement. The ids
        that `add_special_tokens` adds are at 0 before the text, and at its length after it.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.encode_with_offsets("é ab<|endoftext|>")
        ([195, 169, 257, 258], [0, 0, 1, 4])
        >>> tokenizer.encode_with_offsets("é ab<|endoftext|>", unit="bytes")
        ([195, 169, 257, 258], [0, 1, 2, 5])

        A vocabulary that is not `lossless` may change the text. An id of changed text begins where
        the original text begins.

        Raises the errors of `encode`, and ValueError for an unknown `unit`.
        """
        in_bytes = _arguments.check_unit(unit)
        if errors is not _STRICT:
            text = _arguments.text_of(text, errors)
        frame = ends = self._encoders.frame(add_special_tokens)
        if add_special_tokens:
            end = len(_arguments.as_bytes(text) if in_bytes else _arguments.as_str(text))
            ends = (0,) * len(frame[0]), (end,) * len(frame[1])
        ids: Any = self.encode(text, dtype=dtype, allowed_special=allowed_special)
        if self.lossless or self._keeps(text, ids):
            are_equal = isinstance(text, str) and text.isascii()
            offsets = self._joiner.offsets(ids, are_equal or in_bytes)
        else:
            string = _arguments.as_str(text)
            offsets = self._encoders.offsets(string, ids, allowed_special, in_bytes)
        return framed(ids, frame), framed(offsets, ends)

    def _keeps(self, text: Text, ids: list[int] | memoryview) -> bool:
        """Return whether a text stays as it is where the vocabulary may change texts."""
        if self._vocabulary.stages.moves_text:
            return False
        return self._joiner.join(ids) == _arguments.as_bytes(text)

    @overload
    def encode_batch(
        self, texts: Iterable[Text], *, dtype: None = None, **options: Unpack[EncodeOptions]
    ) -> list[list[int]]: ...
    @overload
    def encode_batch(
        self, texts: Iterable[Text], *, dtype: Dtype, **options: Unpack[EncodeOptions]
    ) -> tuple[memoryview, memoryview]: ...
    def encode_batch(
        self,
        texts: Iterable[Text],
        *,
        dtype: Dtype | None = None,
        allowed_special: Specials | None = None,
        disallowed_special: Specials = (),
        add_special_tokens: bool = False,
        errors: TextErrors = "strict",
        threads: int | None = None,
    ) -> list[list[int]] | tuple[memoryview, memoryview]:
        """Return the ids of each text, as `encode` does.

        With `dtype`, the result is one buffer with the ids of all texts, and their offsets, of
        eight bytes each. The ids of text i are `ids[offsets[i] : offsets[i + 1]]`. There is one
        offset more than texts: the first is 0, the last the number of all ids.

        All texts are read before the first is encoded. The native engine encodes them on `threads`
        threads, by default one for each usable core.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.encode_batch(["ab", b""])
        [[256], []]
        >>> ids, offsets = tokenizer.encode_batch(["ab ab", "", "ab"], dtype="uint16")
        >>> ids.tolist(), offsets.tolist()
        ([256, 257, 256], [0, 2, 2, 3])

        Raises the errors of `encode` for the first bad text; a note names its position.
        """
        item_size = self._encoders.item_size(dtype)
        texts = _arguments.check_texts(texts)
        replaces = _arguments.check_text_errors(errors)
        count = _arguments.check_threads(threads)
        encoder, guard = self._encoders.choose(allowed_special, disallowed_special)
        frame = self._encoders.frame(add_special_tokens)

        def encode(texts: Sequence[Text]) -> Any:
            checked = [without_special(text, guard) for text in texts]
            return encoder.encode_batch(checked, frame, item_size, count)

        found: list[list[int]] | tuple[memoryview, memoryview]
        found = encoded(encode, texts, replaces)
        return found

    @overload
    def encode_parts(
        self, parts: Iterable[str], *, dtype: None = None, **options: Unpack[PartOptions]
    ) -> tuple[list[int], list[int]]: ...
    @overload
    def encode_parts(
        self, parts: Iterable[str], *, dtype: Dtype, **options: Unpack[PartOptions]
    ) -> tuple[memoryview, memoryview]: ...
    def encode_parts(
        self,
        parts: Iterable[str],
        *,
        dtype: Dtype | None = None,
        guard: Iterable[str] | None = None,
        add_special_tokens: bool = False,
        errors: TextErrors = "strict",
    ) -> tuple[list[int], list[int]] | tuple[memoryview, memoryview]:
        """Return the ids of a text in parts, of which some are trusted, and where each part begins.

        A special literal becomes its id only if it lies within one `Trusted` part. In any other
        `str`, and across parts, it is ordinary text. All other text is encoded as one, so a token
        may span parts. The ids equal `encode("".join(parts))` if every special literal of that text
        lies within one trusted part. The flags `lstrip`, `rstrip` and `single_word` of a special
        token see only its own part, so no white space of another part is lost.

        An added token that the vocabulary's file does not call special counts everywhere, also
        across parts, if it has only white space, letters, marks and digits. Any other, such as
        `<think>`, is guarded like a special one. `guard` names the added tokens to guard instead:
        `guard=()` guards none.

        The ids of part i are `ids[offsets[i] : offsets[i + 1]]`. There is one offset more than
        parts: the first is 0, the last the number of all ids. An id belongs to the part of its
        first byte. With a vocabulary that normalizes text, characters that become one belong to the
        part of the first of them. With `dtype`, both are buffers, and an offset has eight bytes.

        The ids that `add_special_tokens` adds belong to no part: they are `ids[: offsets[0]]` and
        `ids[offsets[-1] :]`. With `errors="replace"`, U+FFFD replaces lone surrogates in each part
        by itself, so also the two halves of a character that two parts share.

        >>> from bpetite import Trusted
        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.encode_parts([Trusted("ab<|endoftext|>"), "<|", Trusted("ab")])
        ([256, 258, 60, 124, 256], [0, 2, 4, 5])

        Raises UnicodeEncodeError for a lone surrogate, with its position in its part, and TypeError
        for a part that is no `str`. A note names the part. Raises ValueError for a `dtype` that
        cannot hold all ids, and for a vocabulary from Hugging Face that finds special literals in
        normalized text, unless it only normalizes spaces.
        """
        item_size = self._encoders.item_size(dtype)
        parts = _arguments.check_parts(parts)
        if errors is not _STRICT:
            parts = _arguments.parts_of(parts, errors)
        frame = self._encoders.frame(add_special_tokens)
        shift = len(frame[0])
        encoders = self._encoders
        encoder = (
            encoders.usual if guard is None else encoders.encoder(encoders.chosen(None, guard))
        )
        try:
            ids, offsets = encoder.encode_parts(parts, item_size)
        except (TypeError, UnicodeEncodeError):
            _arguments.raise_in_part(parts)
            raise
        if shift:
            shifted = [shift + offset for offset in offsets]
            offsets = as_array(shifted, 8) if item_size else shifted
        return framed(ids, frame), offsets

    def encode_bytes(self, data: Buffer) -> list[int]:
        r"""Return the ids of any bytes, merged as one piece: they need not be UTF-8.

        No pattern splits them, no literal is special, and nothing is normalized. So the ids can
        differ from the ids by `encode`, and `decode_bytes` returns the bytes in any case. Programs
        that constrain a model's output need this. The time is O(n log n) for n bytes.

        >>> Tokenizer.train("ab ab ab", 258).encode_bytes(b"ab\xff ab")
        [256, 255, 257]

        Raises TypeError for a value that is not a buffer of bytes, such as a `str`. Raises
        ValueError for a byte without a token: a vocabulary from elsewhere may lack bytes that are
        never in UTF-8.
        """
        with _arguments.view_of(data) as view:
            given = bytes(view)
        for byte in self._vocabulary.absent_bytes:
            if byte in given:
                raise ValueError(f"this vocabulary has no token for the byte 0x{byte:02x}")
        return self._encoders.usual.merge(given)

    def encode_buffer(
        self,
        data: Buffer,
        offsets: Buffer,
        *,
        dtype: Dtype = "uint32",
        begin: str | int | None = None,
        end: str | int | None = None,
        allowed_special: Specials = (),
        threads: int | None = 1,
    ) -> tuple[memoryview, memoryview]:
        """Return the ids of documents that share a buffer, in one buffer, and their offsets.

        `data` is the UTF-8 of all documents, and document i is `data[offsets[i] : offsets[i + 1]]`.
        `offsets` is a buffer of int32, int64 or uint64: an array.array, an array of numpy, or the
        offsets of a string column of Arrow. They never decrease, and need not begin at 0.

        `begin` and `end` go before and after each document. Each is a special literal or an id.
        Special literals in the data are ordinary text, unless `allowed_special` has them.

        The result is as in `encode_batch` with a `dtype`: the ids of document i, with `begin` and
        `end`, are `ids[starts[i] : starts[i + 1]]`. No object is made for a document.

        >>> from array import array
        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> ids, starts = tokenizer.encode_buffer(
        ...     b"ab abab", array("q", [0, 5, 7]), end="<|endoftext|>"
        ... )
        >>> ids.tolist(), starts.tolist()
        ([256, 257, 258, 256, 258], [0, 3, 5])

        Raises ValueError for offsets that decrease or are out of range, for an unknown `begin` or
        `end`, and as `encode` does. Raises UnicodeDecodeError for a document that is not
        UTF-8, with its position in the document, and a note with the document's number. Raises
        TypeError for a wrong type.
        """
        item_size = _arguments.item_size_of(dtype, self._vocabulary)
        frame = _arguments.frame_of(self._vocabulary, begin, end)
        encoder, _ = self._encoders.choose(allowed_special, ())
        count = _arguments.check_threads(threads)
        with view_of_data(data) as text, view_of_offsets(offsets) as bounds:
            return encoder.encode_buffer(text, bounds, frame, item_size, count)

    def count(
        self,
        text: Text,
        *,
        allowed_special: Specials | None = None,
        disallowed_special: Specials = (),
        add_special_tokens: bool = False,
        errors: TextErrors = "strict",
    ) -> int:
        """Return the number of ids that `encode` returns, without a list of them.

        >>> Tokenizer.train("ab ab ab", 258).count("ab ab<|endoftext|>")
        3

        Raises the errors of `encode`.
        """
        if disallowed_special is _NONE and errors is _STRICT and not add_special_tokens:
            if allowed_special is None or allowed_special is _ALL:
                count = self._count
                return count(text)
            if allowed_special is _NONE:
                return self._encoders.ordinary.count(text)
        encoder, guard = self._encoders.choose(allowed_special, disallowed_special)
        checked = without_special(_arguments.text_of(text, errors), guard)
        return encoder.count(checked) + self._encoders.frame_size(add_special_tokens)

    # Budgets

    def fits(
        self,
        text: Text,
        max_tokens: int,
        *,
        allowed_special: Specials | None = None,
        add_special_tokens: bool = False,
        errors: TextErrors = "strict",
    ) -> bool:
        """Return whether a text has at most `max_tokens` ids.

        The ids that `add_special_tokens` adds count too. No more text is encoded than the answer
        needs, unless the pattern has no name.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.fits("ab ab", 2), tokenizer.fits("ab" * 1_000_000, 2)
        (True, False)

        Raises the errors of `encode`, and ValueError for a negative `max_tokens`.
        """
        budget = _arguments.check_at_least(0, max_tokens, "max_tokens")
        budget -= self._encoders.frame_size(add_special_tokens)
        string = _arguments.as_str(_arguments.text_of(text, errors))
        cutter = self._encoders.cutter(allowed_special, self._joiner.characters)
        return budget >= 0 and cutter.fits(string, budget)

    @_arguments.names_arguments
    def truncate(
        self,
        text: Text,
        max_tokens: int,
        *,
        keep: Literal["start", "end"] = "start",
        allowed_special: Specials | None = None,
        add_special_tokens: bool = False,
        errors: TextErrors = "strict",
    ) -> str:
        """Return the longest beginning, or end, of a text that has at most `max_tokens` ids.

        It is cut between characters. `count` of the result, with the same arguments, never exceeds
        `max_tokens`. With `errors="replace"`, it is a part of the text after replacement.

        A safe split is a place where a piece ends in any case, whatever text is around it. In more
        than 512 characters without one, not all cuts are tried, so a longer result may fit.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.truncate("ab ab, ab", 2), tokenizer.truncate("ab ab, ab", 2, keep="end")
        ('ab ab', ', ab')

        Raises the errors of `encode`, and ValueError for a `max_tokens` that is negative or below
        the number of ids that `add_special_tokens` adds.
        """
        frame_size = self._encoders.frame_size(add_special_tokens)
        budget = _arguments.check_budget(0, max_tokens, frame_size)
        if keep not in ("start", "end"):
            raise ValueError(f'keep must be "start" or "end", got {keep!r}')
        string = _arguments.as_str(_arguments.text_of(text, errors))
        cutter = self._encoders.cutter(allowed_special, self._joiner.characters)
        if keep == "start":
            return string[: cutter.prefix(string, budget)]
        return string[len(string) - cutter.suffix(string, budget) :]

    def chunks(
        self,
        text: Text,
        max_tokens: int,
        *,
        overlap: int = 0,
        at: Literal["line", "paragraph"] | None = None,
        allowed_special: Specials | None = None,
        add_special_tokens: bool = False,
        errors: TextErrors = "strict",
    ) -> Iterator[Chunk]:
        r"""Yield parts of a text, in order, that have at most `max_tokens` ids each.

        A chunk ends at a safe split (see `truncate`) if it contains one, otherwise between two
        characters. Without `overlap`, the chunks, joined, are the text. With it, a chunk begins
        with at most `overlap` ids of the one before. `chunk.text` is `text[chunk.start:chunk.end]`,
        and `chunk.ids` are its ids by `encode`.

        With `at="line"`, a chunk ends at the last end of a line that is within `max_tokens`, if
        there is one; with `at="paragraph"`, at the last end of a paragraph, else of a line. A line
        ends after its newline, and a paragraph after the blank lines that follow it. A chunk gives
        up its overlap if it could not end there otherwise. If more than 32 lines end in text
        without a safe split, not all of these ends are tried, so a later one may also have fit.

        With `add_special_tokens`, each chunk has the ids that `encode` adds, and they count. With
        `errors="replace"`, positions refer to the text after replacement.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> for chunk in tokenizer.chunks("ab ab ab, ab", 2):
        ...     print(chunk)
        Chunk(text='ab ab', start=0, end=5, ids=[256, 257])
        Chunk(text=' ab,', start=5, end=9, ids=[257, 44])
        Chunk(text=' ab', start=9, end=12, ids=[257])

        Raises the errors of `encode`. Raises ValueError for a `max_tokens` below 1, for an
        `overlap` that is not below `max_tokens`, for another `at`, and for a character with more
        than `max_tokens` ids, less the ids that `add_special_tokens` adds.
        """
        # A generator would check the arguments at its first step only.
        prefix, suffix = self._encoders.frame(add_special_tokens)
        budget = _arguments.check_budget(1, max_tokens, len(prefix) + len(suffix))
        overlap = _arguments.check_overlap(overlap, budget)
        string = _arguments.as_str(_arguments.text_of(text, errors))
        if at is not None and at not in PREFERRED_ENDS:
            raise ValueError(f'at must be "line", "paragraph" or None, got {at!r}')
        cutter = self._encoders.cutter(allowed_special, self._joiner.characters)
        chunks = cutter.chunks(string, budget, overlap, at)
        if not prefix and not suffix:
            return chunks
        return (
            Chunk(chunk.text, chunk.start, chunk.end, [*prefix, *chunk.ids, *suffix])
            for chunk in chunks
        )

    # Text that grows

    def encode_stream(
        self,
        *,
        allowed_special: Specials | None = None,
        guard: Iterable[str] | None = None,
        add_special_tokens: bool = False,
        errors: TextErrors = "strict",
    ) -> EncodeStream:
        """Return an `EncodeStream`, which turns a text that grows into ids that are final.

        A special literal in `allowed_special` becomes its id, even if it spans steps. Any other is
        ordinary text. A step may be segments, as in `encode_parts`: there, a literal counts only
        within one `Trusted` segment.

        The ids that `add_special_tokens` adds before a text come with the first step, and the ids
        after it with `flush`. With `errors="replace"`, U+FFFD replaces lone surrogates and invalid
        UTF-8, but the next step may complete a character or a pair of surrogates.

        >>> stream = Tokenizer.train("ab ab ab", 258).encode_stream()
        >>> stream.step("ab a"), stream.pending, stream.step("b"), stream.flush()
        ([256], b' a', [], [257])

        Raises ValueError for an unknown special token, TypeError for a wrong type.
        """
        from bpetite._streaming.encode_stream import EncodeStream, TextSource

        chosen = self._encoders.chosen(allowed_special, guard)
        make = partial(
            self.encode_stream,
            allowed_special=None if chosen.inverted else chosen.literals,
            guard=chosen.guard,
            add_special_tokens=bool(add_special_tokens),
            errors=errors,
        )
        encoders = self._encoders
        return EncodeStream(
            TextSource(
                make,
                encoders.from_starts(chosen),
                encoders.splitter(chosen),
                encoders.frame(add_special_tokens),
                _arguments.check_text_errors(errors),
                lambda: encoders.untrusted_splitter(chosen),
                lambda: encoders.segment_splitter(chosen),
            )
        )

    def prompt(self, *, guard: Iterable[str] | None = None) -> Prompt:
        """Return an empty prompt: a text that grows and changes, with its ids.

        `guard` is as in `encode_parts`.

        >>> prompt = Tokenizer.train("ab ab ab", 258).prompt()
        >>> change = prompt.set("ab ab")
        >>> prompt.append(" ab").first_changed, prompt.ids()
        (2, [256, 257, 257])
        """
        from bpetite._streaming.prompt import Prompt, PromptSource

        encoders = self._encoders
        chosen = encoders.chosen(None, guard)
        make = partial(self.prompt, guard=chosen.guard)
        splitter, from_starts = encoders.splitter(chosen), encoders.from_starts(chosen)
        return Prompt(PromptSource(make, from_starts, splitter, encoders.item_size))

    def extend_ids(
        self,
        ids: Iterable[int],
        text: Text | Iterable[str],
        *,
        apart: bool = False,
        guard: Iterable[str] | None = None,
    ) -> list[int]:
        """Return the ids of a text that follows ids, which stay as they are.

        `text` is a text as in `encode`, or segments as in `encode_parts`. A special literal counts
        if all of it lies in the added text, or in one `Trusted` segment.

        If a token spanned the end of `ids` and the added text, `ids` would have to change. So the
        last piece of the text of `ids` is encoded with the added text. If its ids begin with the
        given ones, the result is the rest of them: from this piece on, the ids are the same as for
        the joined text. Otherwise it raises ExtendIdsError. The ids before this piece may be any: a
        model may have spelled a word by other tokens.

        With `apart`, the text is encoded by itself, and nothing is checked.

        >>> Tokenizer.train("ab ab ab", 258).extend_ids([97, 98, 257], " ab<|endoftext|>")
        [257, 258]

        The time grows with the text and the last piece; with a pattern that only `regex` can
        follow, with all text after the last special token. Raises ExtendIdsError, a ValueError with
        the `position` of the id that would change, also for bytes in the last piece that are not
        UTF-8. Raises KeyError and TypeError as `decode` does, and the errors of `encode` or
        `encode_parts`.
        """
        known = _arguments.sliceable(ids)
        segments = _arguments.segments_of(text)
        if segments is None:
            string = _arguments.as_str(text)  # type: ignore[arg-type]
            string.encode("utf-8")  # an error has its position in the text
            segments = [_arguments.Trusted(string)]
        _arguments.raise_in_part(segments)
        if apart:
            return self.encode_parts(segments, guard=guard)[0]
        return self._extender(guard).ids_after(known, segments)

    def _extender(self, guard: Iterable[str] | None) -> Extender:
        encoders, vocabulary = self._encoders, self._vocabulary
        chosen = Chosen(inverted=True) if guard is None else encoders.chosen(None, guard)
        if chosen not in self._extenders:
            from bpetite._streaming.extending import Extender

            # That of Python strips no space, which the ids have.
            joiner = TokenJoiner(vocabulary) if vocabulary.stages.strips_start else self._joiner
            if len(self._extenders) >= _MAX_EXTENDERS:
                self._extenders.clear()
            self._extenders[chosen] = Extender(
                vocabulary,
                encoders.from_starts(chosen),
                joiner,
                encoders.untrusted_splitter(chosen),
                frozenset(encoders.plain(chosen)),
            )
        return self._extenders[chosen]

    # Decoding

    def decode(
        self, ids: Iterable[int], *, errors: str = "strict", skip_special_tokens: bool = False
    ) -> str:
        """Return the text of ids: their bytes are joined, and decoded once.

        `ids` may be a buffer of integers with one dimension: an array.array, a memoryview or an
        array of numpy. The native engine reads it without making them ints.

        `errors` is for bytes that are not UTF-8, as in `bytes.decode`: strict, replace, ignore or
        backslashreplace. (tiktoken's default is replace.) A special id gives its literal, or
        nothing with `skip_special_tokens`.

        >>> Tokenizer.train("ab ab ab", 258).decode([256, 257, 258], skip_special_tokens=True)
        'ab ab'

        Raises KeyError for an unknown id, and TypeError for ids that are not integers or have no
        order. If `errors` is strict, raises UnicodeDecodeError for bytes that are not UTF-8.
        """
        if errors != "strict":
            _arguments.check_errors(errors)
        if type(ids) is not list:
            _arguments.check_ids(ids)
        try:
            return self._joiner.text(ids, errors, skip_special_tokens)
        except UnicodeDecodeError as error:
            error.add_note('errors="replace" decodes such bytes to U+FFFD')
            raise

    def decode_bytes(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> bytes:
        r"""Return the bytes of ids, joined; they need not be UTF-8.

        A special id gives its literal, or nothing with `skip_special_tokens`.

        >>> Tokenizer.train("ab ab ab", 258).decode_bytes([256, 195])
        b'ab\xc3'

        Raises KeyError and TypeError as `decode` does.
        """
        if type(ids) is not list:
            _arguments.check_ids(ids)
        return self._joiner.join(ids, skip_special_tokens)

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
        _arguments.check_iterable(batch, "batch", "sequences of ids")
        return [
            self.decode(ids, errors=errors, skip_special_tokens=skip_special_tokens)
            for ids in batch
        ]

    def decode_with_offsets(self, ids: Iterable[int]) -> tuple[str, list[int]]:
        """Return the text of ids and, for each id, the character that its first byte is in.

        An offset is the index of a character in the text. Ids that share a character share its
        index.

        >>> Tokenizer.train("ab ab ab", 258).decode_with_offsets([256, 257, 195, 169])
        ('ab abé', [0, 2, 5, 5])

        Raises the errors of `decode`.
        """
        ids = _arguments.ids_of(ids)
        text = self.decode(ids)
        return text, self._joiner.offsets(ids, text.isascii())

    # Checks

    def first_noncanonical(self, ids: Iterable[int]) -> int | None:
        r"""Return the index of the first id that differs from `encode(decode(ids))`, or None.

        None means that encoding the text again gives these ids. A model may generate others, since
        it may spell a word by other tokens. A special id is canonical: its literal becomes this id
        again. Ordinary ids that spell a literal are not.

        No text has ids whose bytes are not UTF-8. The id with the first such byte counts as
        different. For the ids before it, U+FFFD stands for these bytes.

        >>> Tokenizer.train("ab ab ab", 258).first_noncanonical([256, 32, 256])
        1

        The time is linear in the length of the text. Raises KeyError and TypeError as `decode`
        does.
        """
        ids = _arguments.ids_of(ids)
        data = self._joiner.join(ids)
        bad = len(ids)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            bad = bisect_right(self._joiner.offsets(ids, True), error.start) - 1
            text = data.decode("utf-8", "replace")
        canonical = self.encode(text)
        if canonical == ids:
            return None
        pairs = enumerate(zip(canonical, ids, strict=False))
        return min(bad, next((index for index, (one, two) in pairs if one != two), bad))

    # Other vocabularies

    def with_vocab_size(self, vocab_size: int) -> Tokenizer:
        """Return the smaller tokenizer that is nested in this one: its merges of lowest rank.

        `vocab_size` counts bytes and merges, as in `train`. If this vocabulary was trained here,
        training to `vocab_size` on the same corpus gives the same tokenizer, and the same bytes of
        its file. So one training gives vocabularies of all sizes.

        Special tokens, pattern and settings stay. In any vocabulary the new ids have no gaps and
        are in the order of the old ones; `analysis.embedding_map` finds them. Tokens that no merge
        makes are left out, and so are merges that no text uses.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.with_vocab_size(257) == Tokenizer.train("ab ab ab", 257)
        True

        Raises ValueError for a `vocab_size` below 256, or above the number of bytes and merges.
        Raises ValueError for a vocabulary from elsewhere whose merges of lowest rank need tokens of
        higher rank, whose words have a prefix or suffix, or that has byte fallback.
        """
        from bpetite import _derived

        size = _arguments.check_vocab_size(vocab_size)
        return Tokenizer(_derived.first(self._vocabulary, size))

    def without_rare(
        self, counts: Mapping[int, int] | Iterable[int], vocab_size: int
    ) -> tuple[Tokenizer, list[int]]:
        """Return a smaller tokenizer without rarely used tokens, and the old id of each new id.

        `counts` says how often each id is used: a mapping from id to count, such as a `Counter` of
        ids, or a row for each id, such as the result of `numpy.bincount`. An id without a count has
        0. `vocab_size` counts bytes and merges, as in `train`.

        Leaves are removed one by one. A leaf is a token that is no part of another one. The leaf of
        the lowest count goes first, and of equal counts the one whose merge has the highest rank.
        Both its parts then get its count, since texts use them instead. These counts are estimates:
        in a text, a part may merge with its neighbour.

        All other tokens stay, and so do their merges. Bytes, special tokens and the ids that
        `add_special_tokens` puts around texts are never removed. The new ids have no gaps and are
        in the order of the old ones. Merges that no text uses are left out.

        >>> tokenizer = Tokenizer.train("ab ab ab cd cd", 260)
        >>> tokenizer.merges
        ((97, 98), (32, 99), (32, 256), (257, 100))
        >>> pruned, old_ids = tokenizer.without_rare({256: 1, 259: 5}, 259)
        >>> pruned.merges, old_ids[256:]
        (((97, 98), (32, 99), (257, 100)), [256, 257, 259, 260])

        The time is O(n log n) for n tokens. Raises KeyError for a count of an unknown id. Raises
        ValueError for a negative count, and for a `vocab_size` below 256, above the number of
        ordinary tokens, or below the number of tokens that must stay; and for a vocabulary from
        elsewhere whose words have a prefix or suffix, or that has byte fallback.
        """
        from bpetite import _derived

        size = _arguments.check_vocab_size(vocab_size)
        checked = _arguments.check_counts(counts, self._vocabulary.tokens.bytes_of)
        vocabulary, old_ids = _derived.prune(self._vocabulary, checked, size)
        return Tokenizer(vocabulary), old_ids

    def with_special_tokens(
        self, special_tokens: Iterable[str] | Mapping[str, int], *, pad_to_multiple_of: int = 1
    ) -> Tokenizer:
        """Return a tokenizer with more special tokens. The ids of all others stay.

        Literals get the ids from `n_vocab` on, in the order given. A mapping of literals to ids
        chooses the ids, which may fill gaps.

        `pad_to_multiple_of` makes `n_vocab` a multiple of that number, since GPUs multiply by such
        embedding tables faster. It adds special tokens <|reserved_0|>, <|reserved_1|> and so on.
        So each added row has a token: `decode` knows every id, and other libraries count as many.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> chat = tokenizer.with_special_tokens(["<|user|>"], pad_to_multiple_of=64)
        >>> chat.encode("<|user|>ab"), chat.n_vocab, len(chat.special_tokens)
        ([259, 256], 320, 62)

        Raises ValueError for a literal that is empty, given twice or a special token already, for
        an id that is in use, and for a `pad_to_multiple_of` that is not from 1 to 65,536. Raises
        UnicodeEncodeError for a lone surrogate, TypeError for a wrong type.
        """
        from bpetite import _derived

        checked = _arguments.check_new_special_tokens(special_tokens)
        multiple = _arguments.check_multiple(pad_to_multiple_of)
        return Tokenizer(_derived.with_special_tokens(self._vocabulary, checked, multiple))

    def with_settings(self, **settings: str | None) -> Tokenizer:
        """Return a tokenizer with other `settings`, for a model folder; ids stay.

        The settings are bos_token, eos_token, pad_token and unk_token, each a special token, and
        chat_template. None removes a setting. `**{"chat_template.NAME": ...}` sets a template that
        has a name.

        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> dict(tokenizer.with_settings(eos_token="<|endoftext|>").settings)
        {'eos_token': '<|endoftext|>'}

        Raises ValueError for another name, for a token that is not special, and for an empty
        value. Raises TypeError for a value that is not a str.
        """
        from bpetite.formats._model_folder import with_settings

        return Tokenizer(with_settings(self._vocabulary, settings))

    # Files

    def save(
        self, path: str | os.PathLike[str], overwrite: bool = False, *, format: str | None = None
    ) -> None:
        """Write the vocabulary to a file. Equal tokenizers write equal bytes.

        `format` is bpetite, tiktoken, gpt2 or huggingface. Without it, the path decides:

        - a name that ends in .tiktoken: `tiktoken`. It holds no pattern and no special tokens.
        - vocab.json: `gpt2`, and merges.txt in its folder. Neither holds a pattern, so only GPT-2's
          works.
        - tokenizer.json, an existing folder or a path that ends in a slash: `huggingface`, and
          tokenizer_config.json in the same folder. Only a folder holds `settings`.
        - any other path: `bpetite`, one JSON file.

        With format="huggingface", any path that does not end in .json is a folder.

        A failure leaves the files as they were. Each file for another library is read back first.

        Raises ValueError, with the reason, if the other library would give other ids. Raises
        FileExistsError if the file exists, unless `overwrite`; other OSErrors of the system.
        """
        from bpetite.formats import _registry

        _registry.write(self._vocabulary.transient(), path, overwrite, format)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        pattern: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
    ) -> Tokenizer:
        """Read a tokenizer from a file or a model folder, in any format, or by the name of a model.

        A name that is no path is one that tiktoken knows, such as "gpt-4o", or ORG/NAME in the
        cache of Hugging Face. Nothing is downloaded.

        These are the formats of `save`, tekken.json, and SentencePiece's models of type BPE with
        byte fallback.

        Without `format`, the content decides. `pattern` and `special_tokens` are for formats that
        hold none. For the public .tiktoken files, both are known; in a model folder, the special
        tokens are those of tokenizer_config.json. For GPT-2's files, the pattern is GPT-2's, and
        special tokens are the entries of vocab.json that no merge uses.

        Every value in the file is checked. If the library that owns the format is installed, the
        ids of a text in many scripts are compared with its ids. For the public .tiktoken files,
        recorded ids replace the library.

        Raises ValueError, with the path in the file, for a wrong value and for a file that would
        give other ids here. Raises KeyError for a missing key of our own format, and the OSErrors
        of the system.
        """
        from bpetite.formats import _registry
        from bpetite.formats._model_names import model_path

        if isinstance(path, str) and (found := model_path(path)) != path:
            if found is None:
                if (format, pattern, special_tokens) != (None, None, None):
                    raise ValueError(
                        f"{path}: tiktoken's name decides the format, the pattern and the special "
                        f"tokens; leave them out"
                    )
                return cls.from_tiktoken(path)
            path = found
        loaded = _registry.read(path, format, pattern, special_tokens)
        return cls._checked(*loaded, os.fsdecode(path))

    @classmethod
    def from_tiktoken(cls, encoding: object) -> Tokenizer:
        """Return the tokenizer that gives the ids of a `tiktoken.Encoding`, or of its name.

        The name may be of an encoding ("o200k_base") or of a model ("gpt-4o") that tiktoken 0.14
        knows. Its file is read from tiktoken's cache, and tiktoken need not be installed. Nothing
        is downloaded.

        Raises ValueError for an unknown name and for a pattern with another meaning here. Raises
        FileNotFoundError if the cache lacks the file, TypeError for a value that is neither.
        """
        from bpetite.formats._tiktoken import from_encoding
        from bpetite.formats._tiktoken_names import from_name

        if isinstance(encoding, str):
            return cls._checked(*from_name(encoding), encoding)
        return cls._checked(*from_encoding(encoding), "the Encoding")

    @classmethod
    def _checked(cls, vocabulary: Vocabulary, reference: Reference | None, name: str) -> Tokenizer:
        """Return the tokenizer of a vocabulary, once its reference library agrees."""
        from bpetite.formats._verify import check_loaded

        tokenizer = cls(vocabulary)
        check_loaded(tokenizer, reference, name)
        return tokenizer


def vocabulary_of(tokenizer: Tokenizer) -> Vocabulary:
    """Return the vocabulary of a tokenizer, for other packages that need its tables."""
    return tokenizer._vocabulary


def splitter_of(tokenizer: Tokenizer) -> ChunkSplitter:
    """Return the splitter that finds safe splits, for packages that read documents in parts."""
    return tokenizer._encoders.splitter(Chosen(inverted=True))


def encode_rest(
    tokenizer: Tokenizer,
    data: memoryview,
    end: str | int | None,
    dtype: Dtype,
    allowed_special: Specials,
    threads: int | None,
) -> tuple[memoryview, memoryview]:
    """Return what `encode_buffer` returns for one part of a document that follows a safe split."""
    vocabulary, encoders = tokenizer._vocabulary, tokenizer._encoders
    encoder = encoders.from_starts(encoders.chosen(allowed_special))[INSIDE]
    return encoder.encode_buffer(
        data,
        memoryview(array("Q", (0, len(data)))),
        _arguments.frame_of(vocabulary, None, end),
        _arguments.item_size_of(dtype, vocabulary),
        _arguments.check_threads(threads),
    )
