"""Engine: the ids, offsets and texts of a `tokenizers.Tokenizer`, by this package."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import tokenizers

from bpetite import Tokenizer
from bpetite._tokenizer import vocabulary_of

_SPACES = frozenset(" \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {
    *map(chr, range(0x2000, 0x200B))
}
"""White space, as Rust has it."""

_SPACE = "Ġ"  # a space in the library's alphabet of bytes

_NO_IDS = 2**32 - 2, 2**32 - 1
"""Ids that no vocabulary has: they stand for the two sequences of a template."""

_SETTINGS = (
    *("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"),
    *("fuse_unk", "byte_fallback", "ignore_merges"),
)
"""The attributes of a model of BPE."""

_MAX_SAMPLE = 100  # characters: a few microseconds

Span = tuple[int, int]


class Place(NamedTuple):
    """One item of a template: one of the texts, or the id of a special token."""

    text: int | None
    id: int
    type_id: int


class Snapshot:
    """What a library's tokenizer was, to tell quickly whether it has changed."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self._library = library
        size = library.get_vocab_size(with_added_tokens=False)
        ids = *range(max(size - 8, 0), size), *range(0, size, size // 16 + 1)
        # The model of changed merges or ids splits this text in another way.
        self._text = "".join(library.id_to_token(id) or "" for id in ids)[:_MAX_SAMPLE]
        self._state = self._state_of(library)

    def _state_of(self, library: tokenizers.Tokenizer) -> tuple[Any, ...] | None:
        """Return what the ids and texts depend on; None if it cannot be described."""
        model = library.model
        stages = library.normalizer, library.pre_tokenizer, library.post_processor, library.decoder
        try:
            return (
                *(stage and stage.__getstate__() for stage in stages),
                type(model),
                *(getattr(model, name, None) for name in _SETTINGS),
                library.get_vocab_size(with_added_tokens=False),
                [token.id for token in model.tokenize(self._text)],
            )
        except Exception:  # of a part that is written in Python, or of the model
            return None

    def shows(self, library: tokenizers.Tokenizer) -> bool:
        """Return whether a library's tokenizer is this one, and has not changed."""
        state = self._state
        return library is self._library and state is not None and state == self._state_of(library)


class Engine:
    """A library's tokenizer, computed by this package."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        """Read the library's tokenizer as it is now.

        Raises ValueError, with the field, if it cannot be honoured.
        """
        self._snapshot = Snapshot(library)
        try:
            document = library.to_str()
        except Exception as error:  # of a part that is written in Python
            raise ValueError(f"the tokenizer cannot be written as a file: {error}") from None
        if library.truncation or library.padding:  # from the last call
            document = json.dumps({**json.loads(document), "truncation": None, "padding": None})
        with TemporaryDirectory() as folder:
            path = Path(folder, "tokenizer.json")
            path.write_text(document, "utf-8")
            try:
                self.tokenizer = Tokenizer.load(path)
            except ValueError as error:
                raise ValueError(str(error).replace(str(path), "the tokenizer")) from None
        self._moves_text = vocabulary_of(self.tokenizer).stages.moves_text
        processor = library.post_processor
        self._forms = {
            (n_texts, is_framed): _form(processor, n_texts, is_framed)
            for n_texts in (1, 2)
            for is_framed in (False, True)
        }
        self._trims = self._trims_first = False
        if processor is not None:
            probe = _encoding([0, 0], [_SPACE + "a"] * 2, [(0, 2), (2, 4)], 0)
            first, second = processor.process(probe, None, False).offsets[-2:]
            self._trims_first, self._trims = first != (0, 2), second != (2, 4)

    def fits(self, library: tokenizers.Tokenizer) -> bool:
        """Return whether this is still the engine of the library's tokenizer."""
        # The library gives new tokens the next id. To count its tokens, version 0.22 lists them.
        return self._snapshot.shows(library) and library.id_to_token(self.tokenizer.n_vocab) is None

    def form(self, n_texts: int, is_framed: bool) -> list[Place]:
        """Return the items of the template for one text or two, with or without special tokens."""
        return self._forms[n_texts, is_framed]

    def ids(self, texts: Sequence[str], splits_special: bool) -> list[list[int]]:
        """Return the ids of each text, without those that go around it.

        With `splits_special`, special tokens are ordinary text.
        """
        allowed = () if splits_special else "all"
        return self.tokenizer.encode_batch(texts, allowed_special=allowed)

    def spans(self, text: str, splits_special: bool) -> tuple[list[int], list[Span]] | None:
        """Return the ids of a text, and the characters of each; None if the text is changed."""
        tokenizer = self.tokenizer
        ids, starts = tokenizer.encode_with_offsets(
            text, allowed_special=() if splits_special else "all"
        )
        if self._moves_text or (
            not tokenizer.lossless and tokenizer.decode(ids, errors="replace") != text
        ):
            return None
        ends = [
            start + 1 if id in self._begins_inside else start
            for id, start in zip(ids[1:], starts[1:], strict=True)
        ]
        return ids, [*zip(starts, [*ends, len(text)], strict=False)]

    @cached_property
    def _begins_inside(self) -> set[int]:
        tokens = enumerate(self.tokenizer.tokens)
        return {id for id, token in tokens if token and token[0] & 0xC0 == 0x80}

    def trimmed(self, ids: list[int], spans: list[Span]) -> list[Span]:
        """Return spans after the post-processor, which may trim white space."""
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
    def _spaces(self) -> dict[int, Span]:
        """With how many characters of white space each token begins and ends, if with any."""
        literal_ids = {*self.tokenizer.special_tokens.values()}
        found = {}
        for id, token in enumerate(self.tokenizer.tokens):
            spaces = "".join(_SPACES) if id in literal_ids else " "
            if token[:1] <= b" " or token[-1:] <= b" " or id in literal_ids:
                text = token.decode("utf-8", "replace")
                left, right = text.lstrip(spaces), text.rstrip(spaces)
                if text not in (left, right) or left != right:
                    found[id] = len(text) - len(left), len(text) - len(right)
        return found


class Engines:
    """The engine of a library's tokenizer that may change between calls, and during one."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._changed: Snapshot | None = None
        """What the tokenizer was when it was last wanted, if the engine was another's."""
        self._refused: Snapshot | None = None

    def find(self, library: tokenizers.Tokenizer) -> Engine | None:
        """Return the engine; None if the tokenizer has changed, so that the library answers."""
        engine = self._engine
        if engine is not None and engine.fits(library):
            return engine
        self._changed = Snapshot(library)
        return None

    def settle(self, library: tokenizers.Tokenizer) -> None:
        """At the beginning of a call, read a tokenizer that has changed before the last one.

        A class may set a stage for a call and set it back. So only a change that lasts counts.
        """
        engine, changed, refused = self._engine, self._changed, self._refused
        if engine is not None and (
            changed is None or engine.fits(library) or not changed.shows(library)
        ):
            self._changed = None
        elif refused is None or not refused.shows(library):
            try:
                self.read(library)
            except ValueError:
                self._refused = Snapshot(library)

    def read(self, library: tokenizers.Tokenizer) -> Engine:
        """Return a new engine; raise ValueError, with the field, if it cannot be made."""
        self._engine = Engine(library)
        self._changed = None
        return self._engine


def _form(processor: Any, n_texts: int, is_framed: bool) -> list[Place]:
    """Return the items that a post-processor makes of one text or two, by a trial with two ids."""
    texts = [_encoding([_NO_IDS[text]], [""], [(0, 0)], text) for text in range(n_texts)]
    if processor is None:
        return [Place(text, 0, text) for text in range(n_texts)]
    found = processor.process(*texts, *[None] * (2 - n_texts), is_framed)
    return [
        Place(_NO_IDS.index(id) if id in _NO_IDS else None, id, type_id)
        for id, type_id in zip(found.ids, found.type_ids, strict=True)
    ]


def _encoding(
    ids: list[int], tokens: list[str], spans: list[Span], type_id: int
) -> tokenizers.Encoding:
    """Return the library's encoding of these columns: pickled ones are the only way to make it."""
    state = {
        "ids": ids,
        "type_ids": [type_id] * len(ids),
        "tokens": tokens,
        "words": [0] * len(ids),
        "offsets": spans,
        "special_tokens_mask": [0] * len(ids),
        "attention_mask": [1] * len(ids),
        "overflowing": [],
        "sequence_ranges": {},
    }
    encoding = tokenizers.Encoding()
    encoding.__setstate__(json.dumps(state).encode())
    return encoding
