"""Engine: what a `tokenizers.Tokenizer` returns, with ids, offsets and texts of this package."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any, NamedTuple

import tokenizers

from bpetite import Tokenizer
from bpetite._pretokenizer import Pretokenizer
from bpetite._tokenizer import vocabulary_of
from bpetite.formats._files import SourceFile
from bpetite.formats._huggingface_read import read

_SPACES = frozenset(" \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {
    *map(chr, range(0x2000, 0x200B))
}
"""White space, as Rust has it."""

_SPACE = "Ġ"
"""A space in the library's alphabet of bytes."""

_NO_IDS = 2**32 - 2, 2**32 - 1
"""Ids that no vocabulary has: they stand for the two sequences of a template."""

Span = tuple[int, int]


class Place(NamedTuple):
    """What a template has in one place: one of the texts, or the id of a special token."""

    text: int | None
    id: int
    type_id: int


class Engine:
    """The methods of a library's tokenizer that depend on texts; the library does all others."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        """Read the library's tokenizer as it is now.

        Raises ValueError, with the field, if it cannot be honoured.
        """
        document = library.to_str()
        if library.truncation or library.padding:  # the last call's, which are no part of it
            document = json.dumps({**json.loads(document), "truncation": None, "padding": None})
        self._library = library
        self.tokenizer = Tokenizer(read(SourceFile("the tokenizer", document.encode())))
        vocabulary = vocabulary_of(self.tokenizer)
        self._kept = vocabulary.kept_special_tokens
        self._literal_ids = {*vocabulary.special_tokens.values()}
        self._kept_ids = {vocabulary.special_tokens[literal] for literal in self._kept}
        self._moves_text = vocabulary.stages.moves_text
        self._split = Pretokenizer.of(vocabulary).split_exactly
        processor = library.post_processor
        self._forms = {
            (n_texts, is_framed): _form(processor, n_texts, is_framed)
            for n_texts in (1, 2)
            for is_framed in (False, True)
        }
        self._trims = self._trims_first = False
        if processor is not None:
            probe = _encoding([0, 0], [_SPACE + "a"] * 2, [0, 1], [(0, 2), (2, 4)], 0)
            first, second = processor.process(probe, None, False).offsets[-2:]
            self._trims_first, self._trims = first != (0, 2), second != (2, 4)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_library":  # this object is being copied
            raise AttributeError(name)
        return getattr(self._library, name)

    @property
    def encode_special_tokens(self) -> bool:
        """Whether special tokens are ordinary text."""
        return bool(self._library.encode_special_tokens)

    @encode_special_tokens.setter
    def encode_special_tokens(self, value: bool) -> None:
        self._library.encode_special_tokens = value

    # Ids and texts

    def form(self, n_texts: int, is_framed: bool) -> list[Place]:
        """Return what a template makes of one text, or two, with or without special tokens."""
        return self._forms[n_texts, is_framed]

    def ids(self, texts: Sequence[str], splits_special: bool) -> list[list[int]]:
        """Return the ids of each text, without those that go around it.

        With `splits_special`, special tokens are ordinary text.
        """
        return self.tokenizer.encode_batch(texts, allowed_special=self._allowed(splits_special))

    def _allowed(self, splits_special: bool) -> Any:
        return self._kept if splits_special else "all"

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of ids. The library decides about ids that are unknown or no ids."""
        try:
            return self.tokenizer.decode(
                ids, errors="replace", skip_special_tokens=skip_special_tokens
            )
        except (KeyError, TypeError):
            return str(self._library.decode(ids, skip_special_tokens=skip_special_tokens))

    # Where the ids are in a text

    def spans(self, text: str, splits_special: bool) -> tuple[list[int], list[Span]] | None:
        """Return the ids of a text, and the characters of each; None if the text is changed."""
        (ids,) = self.ids([text], splits_special)
        if self._changes(text, ids):
            return None
        return ids, self._aligned(text, ids, splits_special)[0]

    def _changes(self, text: str, ids: list[int]) -> bool:
        """Return whether a text may be changed before it is split."""
        tokenizer = self.tokenizer
        return self._moves_text or (
            not tokenizer.lossless and tokenizer.decode(ids, errors="replace") != text
        )

    def _aligned(
        self, text: str, ids: list[int], splits_special: bool
    ) -> tuple[list[Span], Iterable[int]]:
        """Return the characters of each id of a text that is not changed, and its piece."""
        _, starts = self.tokenizer.encode_with_offsets(
            text, allowed_special=self._allowed(splits_special)
        )
        inside = self._begins_inside
        ends = [
            start + 1 if id in inside else start
            for id, start in zip(ids[1:], starts[1:], strict=True)
        ]
        spans = [*zip(starts, [*ends, len(text)], strict=False)]
        literal_ids = self._kept_ids if splits_special else self._literal_ids
        return spans, self._pieces(text, ids, starts, literal_ids)

    def _pieces(
        self, text: str, ids: list[int], starts: list[int], literal_ids: set[int]
    ) -> Iterator[int]:
        """Yield the number of each id's piece; a literal is a piece of its own."""
        bounds: list[int] = []

        def split(start: int, end: int) -> None:
            for piece in self._split(text[start:end]):
                bounds.append(start)
                start += len(piece)

        at = 0
        for index, id in enumerate(ids):
            if id in literal_ids:
                split(at, starts[index])
                bounds.append(starts[index])
                at = starts[index + 1] if index + 1 < len(ids) else len(text)
        split(at, len(text))
        for start in starts:
            yield bisect_right(bounds, start) - 1

    def trimmed(self, ids: list[int], spans: list[Span]) -> list[Span]:
        """Return spans as the post-processor leaves them, maybe without white space at the ends."""
        if not self._trims:
            return spans
        found = []
        for index, (id, (start, end)) in enumerate(zip(ids, spans, strict=True)):
            before, after = self._spaces.get(id, (0, 0))
            if before == 1 and (not index or not start) and not self._trims_first:
                before = 0
            start = min(start + before, end)
            found.append((start, max(end - after, start) if end >= after else end))
        return found

    @cached_property
    def _begins_inside(self) -> set[int]:
        """The ids of tokens that begin inside a character."""
        tokens = enumerate(self.tokenizer.tokens)
        return {id for id, token in tokens if token and token[0] & 0xC0 == 0x80}

    @cached_property
    def _spaces(self) -> dict[int, Span]:
        """How many characters of white space a token begins and ends with, where there are any."""
        found = {}
        for id, token in enumerate(self.tokenizer.tokens):
            spaces = "".join(_SPACES) if id in self._literal_ids else " "
            if token[:1] <= b" " or token[-1:] <= b" " or id in self._literal_ids:
                text = token.decode("utf-8", "replace")
                left, right = text.lstrip(spaces), text.rstrip(spaces)
                if text not in (left, right) or left != right:
                    found[id] = len(text) - len(left), len(text) - len(right)
        return found

    @cached_property
    def _aligner(self) -> tokenizers.Tokenizer:
        """The library's tokenizer, without truncation, padding and template."""
        library = deepcopy(self._library)
        library.no_truncation()
        library.no_padding()
        library.post_processor = None
        return library

    # Encodings: where a text is changed, the library tells which characters its ids are

    def encode_batch(
        self, inputs: Sequence[Any], add_special_tokens: bool = True, is_pretokenized: bool = False
    ) -> list[tokenizers.Encoding]:
        """Return encodings of texts, of pairs, of texts in words, or of pairs of these.

        The library truncates and pads them, and puts special tokens around them.
        """
        try:
            texts = [_texts(each, is_pretokenized) for each in inputs]
            unfinished = [[self._encoding(*each) for each in enumerate(pair)] for pair in texts]
        except (TypeError, UnicodeEncodeError):
            options = {"add_special_tokens": add_special_tokens, "is_pretokenized": is_pretokenized}
            return list(self._library.encode_batch(inputs, **options))  # which raises its own error
        finish: Any = self._library.post_process
        encodings = [finish(*each, add_special_tokens=add_special_tokens) for each in unfinished]
        padding = self._library.padding
        if padding and padding["length"] is None and encodings:
            longest = max(map(len, encodings))
            names = ("direction", "pad_id", "pad_type_id", "pad_token")
            for each in encodings:
                each.pad(longest, **{name: padding[name] for name in names})
        return encodings

    def _encoding(self, place: int, words: list[str] | str) -> tokenizers.Encoding:
        """Return the encoding of a text, or of words, before the library finishes it."""
        splits_special = self.encode_special_tokens
        columns: tuple[list[Any], ...] = ([], [], [], [])
        for number, text in enumerate([words] if isinstance(words, str) else words):
            (ids,) = self.ids([text], splits_special)
            tokens: list[Any]
            pieces: Iterable[int | None]
            if self._changes(text, ids):
                self._aligner.encode_special_tokens = splits_special
                found = self._aligner.encode(text, add_special_tokens=False)
                if found.ids != ids:
                    raise ValueError(f"tokenizers has other ids than bpetite for {text[:200]!r}")
                tokens, pieces, spans = found.tokens, found.word_ids, found.offsets
            else:
                tokens = [*map(self._library.id_to_token, ids)]
                spans, pieces = self._aligned(text, ids, splits_special)
            if not isinstance(words, str):
                pieces = [number] * len(ids)
            for column, rows in zip(columns, (ids, tokens, pieces, spans), strict=True):
                column += rows
        all_ids, all_tokens, all_pieces, all_spans = columns
        return _encoding(all_ids, all_tokens, all_pieces, all_spans, place)


def _form(processor: Any, n_texts: int, is_framed: bool) -> list[Place]:
    """Return what a post-processor makes of one text, or two: it is tried on texts of one id."""
    texts = [_encoding([_NO_IDS[text]], [""], [0], [(0, 0)], text) for text in range(n_texts)]
    if processor is None:
        return [Place(text, 0, text) for text in range(n_texts)]
    found = processor.process(*texts, *[None] * (2 - n_texts), is_framed)
    return [
        Place(_NO_IDS.index(id) if id in _NO_IDS else None, id, type_id)
        for id, type_id in zip(found.ids, found.type_ids, strict=True)
    ]


def _encoding(
    ids: list[int], tokens: list[str], words: list[int], spans: list[Span], type_id: int
) -> tokenizers.Encoding:
    """Return the library's encoding of these columns: pickled ones are the only way to make it."""
    state = {
        "ids": ids,
        "type_ids": [type_id] * len(ids),
        "tokens": tokens,
        "words": words,
        "offsets": spans,
        "special_tokens_mask": [0] * len(ids),
        "attention_mask": [1] * len(ids),
        "overflowing": [],
        "sequence_ranges": {},
    }
    encoding = tokenizers.Encoding()
    encoding.__setstate__(json.dumps(state).encode())
    return encoding


def _texts(value: Any, is_pretokenized: bool) -> list[Any]:
    """Return the one or two texts of an input, each a string or a list of words.

    Raises TypeError for a value that is neither.
    """
    kinds = (list, tuple)
    if not is_pretokenized and isinstance(value, str):
        return [value]
    if is_pretokenized and isinstance(value, kinds) and all(isinstance(w, str) for w in value):
        return [[*value]]
    if isinstance(value, kinds) and len(value) == 2:
        return [text for each in value for text in _texts(each, is_pretokenized)]
    raise TypeError
