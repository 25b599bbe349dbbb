"""What an engine provides, as Protocols: mypy checks both engines against `Engine`.

The engines return the same results and raise the same errors. They differ only in speed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from mmap import mmap
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from bpetite._arguments import Frame, Text
    from bpetite._automaton import Splits
    from bpetite._corpus import DocumentCorpus
    from bpetite._piece_records import Totals
    from bpetite._progress import Reporter
    from bpetite._vocabulary import NativeVocabulary, Pair, TokenTable, Vocabulary

Ids = TypeVar("Ids", list[int], memoryview)

T = TypeVar("T")
Counts = TypeVar("Counts")
"""How often each piece occurs: each engine has a type of its own, which only it reads."""


class TextEncoder(Protocol):
    """Turns text into ids by one vocabulary; safe to share between threads.

    A special literal becomes its id, unless the text is `ordinary`. `threads` is an upper bound,
    and never changes the ids. An id in a buffer has `item_size` bytes, 4 or 2. In a batch, the two
    parts of the frame go around the ids of each text.

    Every method raises UnicodeEncodeError for a lone surrogate, and what `as_str` raises.
    """

    def encode(self, text: Text, ordinary: bool = False, threads: int = 1, /) -> list[int]:
        """Return the ids of a text."""

    def encode_array(
        self, text: Text, ordinary: bool, item_size: int, threads: int, /
    ) -> memoryview:
        """Return the ids of a text in a buffer."""

    def encode_batch(
        self, texts: Sequence[Text], frame: Frame, item_size: int, threads: int, /
    ) -> Any:
        """Return the ids of each text: lists for an `item_size` of 0, else two buffers.

        The buffers have the ids of all texts, and the offset of each text, in ids. The first text
        that is refused raises its error.
        """

    def encode_buffer(
        self, data: memoryview, offsets: memoryview, frame: Frame, item_size: int, threads: int, /
    ) -> tuple[memoryview, memoryview]:
        """Return the ids of `documents_in(data, offsets)`, as `encode_batch` does.

        `view_of_data` and `view_of_offsets` made the views. Raises what `documents_in` raises.
        """

    def encode_parts(self, parts: list[str], item_size: int, /) -> tuple[Any, Any]:
        """Return the ids of a text in parts, the index of each part's first id, and their number.

        Both are lists for an `item_size` of 0, else buffers. A literal counts only within one
        trusted part. The first byte of a token decides its part. Raises TypeError for a part that
        is no `str`.
        """

    def count(self, text: Text, ordinary: bool = False, /) -> int:
        """Return the number of ids that `encode` returns, without a list of them."""

    def merge(self, data: bytes, /) -> list[int]:
        """Return the ids of any bytes, merged as one piece."""

    def with_special_tokens(
        self, special_tokens: dict[str, int], plain: Sequence[str] = (), /
    ) -> TextEncoder:
        """Return an encoder with other special tokens; `plain` ones count in all parts."""

    def first_special(self, text: str, /) -> tuple[str, int] | None:
        """Return the first special literal in a text and its position in characters, or None."""


class TokenJoiner(Protocol):
    """Turns ids into bytes and text by one vocabulary; safe to share between threads.

    `join` and `text` raise KeyError for an unknown id and TypeError for a value that is no integer.
    """

    def join(self, ids: Iterable[int], skip_special_tokens: bool = False, /) -> bytes:
        """Return the bytes of ids, joined."""

    def text(self, ids: Iterable[int], errors: str, skip_special_tokens: bool = False, /) -> str:
        """Return the bytes of ids, joined and decoded as UTF-8."""

    def characters(self, ids: memoryview, /) -> int:
        """Return the number of characters that begin in the bytes of these known ids."""

    def offsets(self, ids: Ids, in_bytes: bool, /) -> Ids:
        """Return, for each of these known ids, the position of its first byte in all their bytes.

        It is an offset in bytes, or the index of a character. For characters, the bytes of the ids,
        joined, must be UTF-8. If the ids are a buffer, so are the offsets, of eight bytes each.
        """


class PlainState(Protocol):
    """The state of a plain stream, which neither counts nor looks for stops or tags.

    `PlainSteps` reads it, and Rust by these names.
    """

    @property
    def pending(self) -> Hashable:
        """The value that is pending: bytes, if there are native tokens."""

    @property
    def text_of(self) -> list[str | None]:
        """The texts of the ids that do not change the state; None for other ids."""

    @property
    def native_tokens(self) -> object | None:
        """The result of `make_native_tokens`, if it makes the steps."""

    def after(self, pending: Hashable, /) -> PlainState:
        """Return the state after steps that leave something pending."""

    def __getitem__(self, id: int, /) -> tuple[str, Any]:
        """Return the text of an id, and the next state; KeyError for an unknown id."""


class WatchState(Protocol):
    """The state of a stream that counts, as `WatchSteps` reads it; Rust reads it by these names."""

    whole: bytearray
    """By id, whether it is whole text that does not change the state."""
    transitions: dict[int, tuple[str, Any, tuple[str, ...]]]
    """By id, the text, the next state, and the pieces of the text, as far as they are known."""


class Steps(Protocol):
    """The steps of a stream: `_streaming` derives a mode from the class for each kind of stream.

    `PlainSteps` is for plain streams, `WatchSteps` for those that count. The derived class sets the
    attributes and has `_step_any`, for ids that are unusual or wrong.
    """

    def step(self, ids: int | Iterable[int]) -> str:
        """Return the text that became complete."""

    def _step_list(self, ids: list[Any], /) -> str | None:
        """Make the steps of several ids; return None, without a step, if one of them is unusual."""


Block: TypeAlias = bytes | bytearray | memoryview | mmap
"""Some bytes of a file: any contiguous buffer of bytes."""


class Learning(NamedTuple):
    """How an engine learns merges."""

    report: Callable[[int], object] | None = None
    """Called with the number of merges so far, first with 0 unless no merges are wanted."""
    base: Vocabulary | None = None
    """Merges are learnt on top of it, and the first makes the id `base.n_vocab`."""
    takes: Callable[[int, int], bool] | None = None
    """Returns whether the pair of two ids may be merged. If so, the pair is the next merge."""
    min_count: int = 1
    """Pairs with a lower count are not merged."""


FREE_LEARNING = Learning()
"""Learns from bytes on, and merges any pair."""


class Engine(Protocol[Counts]):
    """The names that a module must have to be an engine."""

    @property
    def PlainSteps(self) -> type[Steps]:  # noqa: N802 - a class
        """The base class of the plain mode of streams."""

    @property
    def WatchSteps(self) -> type[Steps]:  # noqa: N802 - a class
        """The base class of the mode of streams that count."""

    def make_events(
        self, event_class: type[T], token_class: type, /
    ) -> Callable[[object, object], T | None] | None:
        """Return a function that makes the step of an id in a `WatchSteps`, and returns its event.

        Both classes are those of `_streaming.events`. If a step is unusual, the function makes none
        and returns None. None instead of a function leaves all of them to Python.
        """

    def make_text_encoder(self, vocabulary: Vocabulary, /) -> TextEncoder: ...
    def make_token_joiner(self, vocabulary: Vocabulary, /) -> TokenJoiner: ...
    def make_splits(self, splits: Splits, /) -> Splits: ...
    def regex_reason(self, vocabulary: Vocabulary, /) -> str | None:
        """Return why `regex` splits the texts of a vocabulary; None if something faster does."""

    def count_pieces(
        self, corpus: DocumentCorpus, pattern: str, reporter: Reporter, threads: int | None, /
    ) -> Counts:
        """Return how often each piece occurs in a corpus, which is read once.

        `threads` is the number of threads that count; None means one for each core.
        """

    def records_of(self, counts: Counts, /) -> bytes:
        """Return counts as records (`_piece_records`). `counts` are empty afterwards."""

    def counts_of(self, records: bytes, /) -> Counts:
        """Return the counts of valid records."""

    def merge_records(
        self, runs: Sequence[tuple[bytes, int]], min_count: int, /
    ) -> tuple[bytes, Totals]:
        """Return what `_piece_records.merge_records` returns, and raise its errors."""

    def partition_records(self, records: bytes, count: int, /) -> list[tuple[bytes, Totals]]:
        """Return what `_piece_records.partition_records` returns."""

    def learn_merges(
        self, counts: Counts, limit: int, learning: Learning = FREE_LEARNING, /
    ) -> list[Pair]:
        """Return up to `limit` merges in rank order. `counts` are empty afterwards."""

    def learn_balanced(
        self,
        languages: Sequence[tuple[Counts, Counts]],
        limit: int,
        learning: Learning = FREE_LEARNING,
        /,
    ) -> list[Pair]:
        """Return merges as `learn_merges`, chosen as `_trainer.learn_balanced` does.

        Each language has the counts of its text, and the counts of its development text.
        """

    def find_merges(
        self, vocab: dict[str, int], merges: object, /
    ) -> tuple[bytes, bytes, bytes] | None:
        """Return the ids of merges that are spelled "a b", as integers of four bytes.

        The result is the left and the right id of each merge; the ids that they make, in runs of a
        first id and a length; and the ids of other tokens, which no merge makes before another uses
        them. None leaves the merges, and the wording of their errors, to Python.
        """

    def read_merges(
        self,
        byte_ids: Sequence[int],
        other_tokens: dict[int, bytes],
        merges: object,
        merge_ids: object,
        ignore_merges: bool,
        max_bytes: int,
        /,
    ) -> NativeVocabulary | None:
        """Return the vocabulary of a file's merges if they are valid and in their usual form.

        `merges` is a flat list: the left and the right id of each merge in turn. `merge_ids` is a
        list of runs [first id, length]. All merged tokens together have at most `max_bytes`.
        None leaves the file, and the wording of its errors, to Python.
        """

    def read_ranks(
        self, ranks: bytes | Mapping[bytes, int], max_rank: int, max_bytes: int, /
    ) -> NativeVocabulary | None:
        """Return the vocabulary of tiktoken's ranks if they are valid and in their usual form.

        `ranks` is the content of a file or a mapping. A token has at most `max_bytes`.
        None leaves the ranks, and the wording of their errors, to Python.
        """

    def make_native_tokens(self, table: TokenTable, /) -> object | None:
        """Return the native form of a table for streams; None if Python makes all steps.

        It adds to the `text_of` of the table, as `text` does.
        """
