"""Checks of what users pass: texts, ids, special tokens, threads and item types."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from inspect import signature
from mmap import mmap
from operator import countOf
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    Protocol,
    TypedDict,
    TypeVar,
)

from bpetite._decoder import as_list
from bpetite._vocabulary import BYTE_COUNT, Vocabulary, as_id, check_literal_sizes

if TYPE_CHECKING:
    from bpetite._merge_rules import Forbidden

# Texts

Text = str | bytes | bytearray | memoryview | mmap
"""A `str`, or UTF-8 in a buffer of bytes. Other buffers of bytes work too, such as numpy arrays."""


Buffer = Any
"""An object with the buffer protocol; Python 3.11 has no type for it."""


class Trusted(str):
    """Text whose special literals count in segments, as `Tokenizer.encode_parts` takes them.

    Otherwise it is like any `str`. A new string made of it, by `+`, `format` or a method, is an
    ordinary `str`, which is not trusted.

    >>> Trusted("<|user|>")
    Trusted('<|user|>')
    >>> Trusted("<|user|>") + "text"
    '<|user|>text'
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Trusted:
        """Mark a text. Raises TypeError for a value that is no `str`."""
        if not isinstance(text, str):
            raise TypeError(f"a trusted text must be a str, got {type(text).__name__}")
        return super().__new__(cls, text)

    def __repr__(self) -> str:
        return f"Trusted({super().__repr__()})"


def as_str(text: Text) -> str:
    r"""Return a text as a `str`.

    >>> as_str("é") == as_str(memoryview(b"\xc3\xa9"))
    True

    Raises TypeError for a value that is no text, and UnicodeDecodeError, with the offset in bytes,
    for a buffer that is not UTF-8.
    """
    if isinstance(text, str):
        return text
    with view_of(text) as view:
        return str(view, "utf-8")


def as_bytes(text: Text) -> bytes:
    r"""Return a text in UTF-8. A buffer is not checked.

    >>> as_bytes("é") == as_bytes(memoryview(b"\xc3\xa9"))
    True

    Raises TypeError for a value that is no text, and UnicodeEncodeError for a lone surrogate.
    """
    if isinstance(text, str):
        return text.encode("utf-8")
    with view_of(text) as view:
        return bytes(view)


def view_of(text: object) -> memoryview:
    """Return the bytes of a buffer; raise TypeError for any other value."""
    try:
        view = memoryview(text)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"text must be a str or bytes-like, got {kind_of(text)}") from None
    if view.itemsize != 1:
        fault = f"with items of {view.itemsize} bytes"
    elif view.ndim != 1:
        fault = f"with {view.ndim} dimensions"
    elif not view.c_contiguous:
        fault = "with gaps"
    else:
        return view
    view.release()
    raise TypeError(f"text must be contiguous bytes, got {type(text).__name__} {fault}")


def kind_of(value: object) -> str:
    """Return the name of a value's type for an error; a column of pandas has nulls of any type.

    >>> kind_of(5), kind_of(float("nan"))
    ('int', 'null (float)')
    """
    name = type(value).__name__
    is_nan = isinstance(value, float) and value != value
    return f"null ({name})" if is_nan or name in ("NAType", "NaTType") else name


def raise_in_whole(text: str, error: UnicodeEncodeError) -> NoReturn:
    """Raise the error of a lone surrogate in a part of a text, with its position in the text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as precise:
        raise precise from None
    raise error


def check_texts(texts: Iterable[Text]) -> list[Text]:
    """Return the texts of a batch. A single text is refused: its items would count as texts."""
    if type(texts) is not list:
        if isinstance(texts, (memoryview, mmap)):
            raise TypeError(f"texts must be an iterable of texts, got {type(texts).__name__}")
        check_iterable(texts, "texts", "texts")
    return list(texts)


def check_parts(parts: Iterable[str]) -> list[str]:
    """Return the parts of a text. A single text is refused: its characters would count as parts."""
    if type(parts) is list:
        return parts
    if not isinstance(parts, (list, tuple)):
        check_iterable(parts, "parts", "str")
    return list(parts)


def segments_of(text: Text | Iterable[str]) -> list[str] | None:
    """Return the segments of a text in segments, which need not be `str` yet; None for a text.

    >>> segments_of("ab"), segments_of(["a", Trusted("b")])
    (None, ['a', Trusted('b')])
    """
    if isinstance(text, (list, tuple)):
        return [*text]
    if isinstance(text, Text):
        return None
    check_order(text, "text", "segments")
    if not isinstance(text, Iterable):
        return None  # whatever is neither is refused as a text
    try:
        memoryview(text)  # type: ignore[arg-type]
    except TypeError:
        return [*text]
    return None


def raise_in_part(parts: Iterable[str]) -> None:
    """Raise the error of the first part that is no `str` or has a lone surrogate, with a note."""
    for number, part in enumerate(parts):
        try:
            if not isinstance(part, str):
                raise TypeError(f"a part must be a str, got {kind_of(part)}")
            part.encode("utf-8")
        except (TypeError, UnicodeEncodeError) as error:
            error.add_note(f"in part {number}")
            raise error from None


TextErrors = Literal["strict", "replace"]


def check_text_errors(errors: object) -> bool:
    """Return whether `errors` is "replace"; raise TypeError or ValueError unless it is known."""
    if not isinstance(errors, str):
        raise TypeError(f"errors must be a str, got {type(errors).__name__}")
    if errors not in ("strict", "replace"):
        raise ValueError(f"errors must be strict or replace, got {errors!r}")
    return errors == "replace"


def replaced(text: Text) -> str:
    r"""Return a text with U+FFFD for each lone surrogate, and for bytes that are not UTF-8.

    A high surrogate followed by a low one becomes their character, as in tiktoken.

    >>> replaced("a\ud800") == replaced(b"a\xff") == "a\ufffd"
    True
    """
    if isinstance(text, str):
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        return as_str(text)
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "replace")


def text_of(text: Text, errors: TextErrors) -> Text:
    """Return a text, which `replaced` makes Unicode if `errors` is "replace"."""
    return replaced(text) if check_text_errors(errors) else text


def parts_of(parts: list[str], errors: TextErrors) -> list[str]:
    """Return the parts of a text, each by itself as `text_of` has it. Trust stays."""
    return [*map(_replaced_part, parts)] if check_text_errors(errors) else parts


def _replaced_part(part: str) -> str:
    if not isinstance(part, str):
        return part  # the encoder refuses it
    return Trusted(replaced(part)) if isinstance(part, Trusted) else replaced(part)


Unit = Literal["characters", "bytes"]


def check_unit(unit: object) -> bool:
    """Return whether `unit` is "bytes"; raise TypeError or ValueError unless it is known."""
    if not isinstance(unit, str):
        raise TypeError(f"unit must be a str, got {type(unit).__name__}")
    if unit not in ("characters", "bytes"):
        raise ValueError(f"unit must be characters or bytes, got {unit!r}")
    return unit == "bytes"


# Ids

Errors = Literal["strict", "replace", "ignore", "backslashreplace"]
ERRORS = ("strict", "replace", "ignore", "backslashreplace")
"""What to do with bytes that are not UTF-8: names and results as in `bytes.decode`."""


def check_errors(errors: object) -> None:
    if not isinstance(errors, str):
        raise TypeError(f"errors must be a str, got {type(errors).__name__}")
    if errors not in ERRORS:
        raise ValueError(f"errors must be one of {', '.join(ERRORS)}, got {errors!r}")


def check_ids(ids: object) -> None:
    """Raise TypeError unless `ids` is an iterable whose items have an order."""
    check_iterable(ids, "ids", "int")


def ids_of(ids: Iterable[int], name: str = "ids") -> list[int]:
    """Return ids as a list of plain ints. Raises TypeError as `check_ids` does."""
    check_iterable(ids, name, "int")
    plain = as_list(ids)
    return plain if countOf(map(type, plain), int) == len(plain) else [*map(as_id, plain)]


def sliceable(ids: Iterable[int]) -> Sequence[int]:
    """Return ids as they are if a slice of them is cheap, else as a list.

    Raises TypeError as `check_ids` does.
    """
    check_ids(ids)
    if isinstance(ids, (list, tuple, array, memoryview)):
        return ids
    # A Series of pandas finds its items by an index of its own, so only arrays stay.
    return ids if hasattr(ids, "__array_interface__") else ids_of(ids)  # type: ignore[return-value]


def check_iterable(values: object, name: str, items: str) -> None:
    """Raise TypeError for a value that is no iterable of items in an order.

    Texts, tables, mappings and sets are iterable, but their characters, names of columns, keys and
    unordered items would count.
    """
    if isinstance(values, (list, tuple)):
        return
    check_order(values, name, items)
    if isinstance(values, (str, bytes, bytearray)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be an iterable of {items}, got {type(values).__name__}")


def check_order(values: object, name: str, items: str) -> None:
    """Raise TypeError for a table, a mapping or a set; say what to give instead."""
    kind = type(values)
    if hasattr(kind, "columns") or hasattr(kind, "column_names"):
        raise TypeError(
            f"{name} must be an iterable of {items}, got {kind.__name__}; give one of its columns"
        )
    # Faster than the ABCs. A Series of pandas has keys too, which are its index.
    if hasattr(kind, "keys") and not hasattr(kind, "dtype"):
        remedy = "give a list of its values"
    elif isinstance(values, (set, frozenset)):
        remedy = "give a list"
    else:
        return
    raise TypeError(f"{name} must have an order, got {kind.__name__}; {remedy}")


def check_counts(
    counts: Mapping[int, int] | Iterable[int], token_of: Mapping[int, bytes]
) -> dict[int, int]:
    """Return the counts above 0 by id, from a mapping or from a row for each id.

    Raises KeyError for a count of an id without a token, ValueError for a negative count, TypeError
    for a wrong type.
    """
    if not isinstance(counts, Mapping):
        check_iterable(counts, "counts", "int, or a mapping of ids to int")
        counts = dict(enumerate(counts))
    checked: dict[int, int] = {}
    for given_id, given_count in counts.items():
        id, count = as_id(given_id), as_integer(given_count, "a count must be an integer")
        if count < 0:
            raise ValueError(f"the count of the id {id} must be at least 0, got {count}")
        if count:
            checked[id] = count
            token_of[id]
    return checked


# Special tokens

Specials = Literal["all"] | Collection[str]
"""Some special tokens, or all of them."""


class Chosen(NamedTuple):
    """Some special tokens of a vocabulary: these, or all others if `inverted`."""

    literals: frozenset[str] = frozenset()
    inverted: bool = False
    guard: frozenset[str] | None = None
    """The added tokens that do not count in untrusted text; None for those that are not plain."""


def choose_specials(
    vocabulary: Vocabulary, allowed_special: Specials | None, disallowed_special: Specials
) -> tuple[Chosen, Chosen]:
    """Return the allowed and the disallowed special tokens that `Tokenizer.encode` is given.

    Added tokens are always allowed, but those that are disallowed by name are refused.

    >>> vocabulary = Vocabulary((), {"<|a|>": 256, "  ": 257}, "...", added_tokens={"  "})
    >>> choose_specials(vocabulary, allowed_special=None, disallowed_special="all")[1].literals
    frozenset({'<|a|>'})

    Raises ValueError for a name that is no special token, TypeError for a wrong type.
    """
    special_tokens, added = vocabulary.special_tokens, vocabulary.added_tokens
    disallowed = _chosen(special_tokens, disallowed_special, "disallowed_special")
    if allowed_special is None:
        allowed = Chosen(disallowed.literals - added, not disallowed.inverted)
    else:
        allowed = _chosen(special_tokens, allowed_special, "allowed_special")
    if not allowed.inverted:
        allowed = Chosen(allowed.literals | added)
    if disallowed.inverted:
        others = special_tokens.keys() - allowed.literals
        disallowed = Chosen(allowed.literals if allowed.inverted else frozenset(others))
    return allowed, disallowed


def checked_guard(vocabulary: Vocabulary, guard: Iterable[str] | None) -> frozenset[str] | None:
    """Return the literals that a caller guards in untrusted text; None leaves them to a rule.

    Raises ValueError for a name that is no special token, TypeError for a wrong type.
    """
    if guard is None:
        return None
    chosen = _chosen(vocabulary.special_tokens, guard, "guard")  # type: ignore[arg-type]
    return frozenset(vocabulary.special_tokens) if chosen.inverted else chosen.literals


def _chosen(special_tokens: Mapping[str, int], specials: Specials, name: str) -> Chosen:
    if isinstance(specials, str) and specials == "all":
        return Chosen(inverted=True)
    if isinstance(specials, str) or not isinstance(specials, Iterable):
        got = type(specials).__name__
        if isinstance(specials, str):
            got = f"the str {specials!r}; for one, pass {{{specials!r}}}"
        raise TypeError(f'{name} must be "all" or a collection of special tokens, got {got}')
    literals = frozenset(specials)
    for literal in literals - special_tokens.keys():
        raise _unknown_special(f"{name} has {literal!r}", special_tokens)
    return Chosen(literals)


def _unknown_special(fault: str, special_tokens: Iterable[str]) -> ValueError:
    known = ", ".join(map(repr, special_tokens)) or "none"
    return ValueError(
        f"{fault}, which is not a special token of this vocabulary (these are: {known})"
    )


Frame = tuple[tuple[int, ...], tuple[int, ...]]
"""The prefix and suffix ids of each text."""


def frame_of(vocabulary: Vocabulary, begin: str | int | None, end: str | int | None) -> Frame:
    """Return the frame of `begin` and `end`, which are special literals or ids.

    >>> frame_of(Vocabulary((), {"<|a|>": 256}, "..."), None, "<|a|>")
    ((), (256,))

    Raises ValueError for an unknown literal or id, TypeError for a wrong type.
    """
    return _ids_of(vocabulary, begin, "begin"), _ids_of(vocabulary, end, "end")


def _ids_of(vocabulary: Vocabulary, token: str | int | None, name: str) -> tuple[int, ...]:
    if token is None:
        return ()
    special_tokens = vocabulary.special_tokens
    if isinstance(token, str):
        if token not in special_tokens:
            raise _unknown_special(f"{name} is {token!r}", special_tokens)
        return (special_tokens[token],)
    id = as_integer(token, f"{name} must be a special literal, an id or None")
    if id not in special_tokens.values() and id not in vocabulary.tokens.bytes_of:
        raise ValueError(f"{name} is {id}, which is not an id of this vocabulary")
    return (id,)


def disallowed_error(text: Text, string: str, literal: str, index: int) -> ValueError:
    """Return the error for a text, also given as a str, with a disallowed literal at an index."""
    position = f"character {index}"
    if not isinstance(text, str):
        position = f"byte {len(string[:index].encode())}"
    return ValueError(
        f"text has the special token {literal!r} at {position}, which "
        f"disallowed_special refuses; to encode it as its id, pass "
        f"allowed_special={{{literal!r}}} and leave it out of disallowed_special; "
        f"to encode it as ordinary text, leave it out of both, or use encode_ordinary"
    )


def check_special_literals(special_tokens: Iterable[str]) -> list[str]:
    """Return the literals that training gives ids to, in the order given."""
    check_iterable(special_tokens, "special_tokens", "str")
    literals: dict[str, None] = {}
    for literal in special_tokens:
        if not isinstance(literal, str):
            raise TypeError(f"a special token must be a str, got {type(literal).__name__}")
        if not literal:
            raise ValueError("a special token must not be empty")
        if literal in literals:
            raise ValueError(f"the special token {literal!r} is given twice")
        literal.encode("utf-8")
        literals[literal] = None
    check_literal_sizes(literals)
    return list(literals)


def check_required(require: Iterable[str]) -> list[str]:
    """Return the tokens that training has to make."""
    if not isinstance(require, (set, frozenset)):  # they need no order
        check_iterable(require, "require", "str")
    tokens = [*require]
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"a required token must be a str, got {type(token).__name__}")
        if not token:
            raise ValueError("a required token must not be empty")
        token.encode("utf-8")
    return tokens


def check_forbidden(forbid: Any) -> Forbidden | None:
    """Return a checked `forbid`, which names tokens not to make; None if the pattern decides."""
    if forbid is None:
        return None
    if callable(forbid) or (isinstance(forbid, re.Pattern) and isinstance(forbid.pattern, bytes)):
        return forbid  # type: ignore[no-any-return]
    if isinstance(forbid, (str, bytes, re.Pattern)) or not isinstance(forbid, Iterable):
        raise TypeError(
            "forbid must be a function of bytes, a compiled regular expression of bytes, or a list "
            f"of tokens, got {type(forbid).__name__} {forbid!r}"
        )
    tokens = [*forbid]
    for token in tokens:
        if not isinstance(token, (str, bytes)):
            raise TypeError(f"a forbidden token must be a str or bytes, got {type(token).__name__}")
    return tokens


# The largest number that a vocabulary is padded to a multiple of.
_MAX_MULTIPLE = 1 << 16


def check_new_special_tokens(
    special_tokens: Iterable[str] | Mapping[str, int],
) -> list[str] | dict[str, int]:
    """Return new special tokens: a list of literals, or the id of each literal."""
    if not isinstance(special_tokens, Mapping):
        return check_special_literals(special_tokens)
    literals = check_special_literals([*special_tokens])
    return {literal: as_id(special_tokens[literal]) for literal in literals}


def check_multiple(multiple: object) -> int:
    """Return the number that `n_vocab` becomes a multiple of."""
    number = as_integer(multiple, "pad_to_multiple_of must be an integer")
    if not 1 <= number <= _MAX_MULTIPLE:
        raise ValueError(f"pad_to_multiple_of must be from 1 to {_MAX_MULTIPLE}, got {number}")
    return number


# Numbers

# More threads are never useful, but each takes memory.
_MAX_THREADS = 256


def check_threads(threads: int | None) -> int:
    """Return the number of threads; None is one for each core that the process may use."""
    if type(threads) is int and threads == 1:  # the default of `encode`
        return 1
    if threads is None:
        # Linux alone has `sched_getaffinity`.
        usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
        return min(len(usable) or os.cpu_count() or 1, _MAX_THREADS)
    count = as_integer(threads, "threads must be an integer or None")
    if count < 1:
        raise ValueError(f"threads must be at least 1, got {count}")
    return min(count, _MAX_THREADS)


def check_at_least(lowest: int, value: object, name: str) -> int:
    """Return a number as an int. Raises TypeError or ValueError unless it is high enough."""
    number = as_integer(value, f"{name} must be an integer")
    if number < lowest:
        raise ValueError(f"{name} must be at least {lowest}, got {number}")
    return number


def check_budget(lowest: int, max_tokens: object, frame_size: int) -> int:
    """Return how many of `max_tokens` ids are left for a text, after its frame."""
    number = check_at_least(lowest, max_tokens, "max_tokens")
    if number < lowest + frame_size:
        raise ValueError(
            f"max_tokens must be at least {lowest + frame_size}, since add_special_tokens adds "
            f"{frame_size} ids, got {number}"
        )
    return number - frame_size


def check_overlap(overlap: object, max_tokens: int) -> int:
    """Return the overlap of chunks as an int. Raises TypeError or ValueError if it does not fit."""
    number = as_integer(overlap, "overlap must be an integer")
    if not 0 <= number < max_tokens:
        raise ValueError(
            f"overlap must be from 0 to {max_tokens - 1}, below max_tokens, got {number}"
        )
    return number


def check_vocab_size(vocab_size: object) -> int:
    size = as_integer(vocab_size, "vocab_size must be an integer")
    if size < BYTE_COUNT:
        raise ValueError(
            f"vocab_size must be at least {BYTE_COUNT}, one id for each byte, got {size}"
        )
    return size


def as_integer(value: object, required: str) -> int:
    """Return an integer; for any other value, raise a TypeError that says what is required."""
    try:
        return as_id(value)
    except TypeError:
        raise TypeError(f"{required}, got {type(value).__name__}") from None


class _NumpyDtype(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def isnative(self) -> bool: ...


Dtype = Literal["uint32", "uint16"] | type[Any] | _NumpyDtype
"""The type of an id in a buffer: numpy's name, its type or its dtype."""

_ITEM_SIZES = {"uint32": 4, "uint16": 2}


class _Numbered(Protocol):
    @property
    def n_vocab(self) -> int: ...


def item_size_of(dtype: Dtype, vocabulary: _Numbered) -> int:
    """Return the size of an id in bytes, in a buffer for the ids of a vocabulary.

    >>> item_size_of("uint16", Vocabulary((), {"<|a|>": 256}, "..."))
    2

    Raises TypeError or ValueError for another dtype, and for one that cannot hold all ids.
    """
    if isinstance(dtype, str):
        name: object = dtype
    elif isinstance(dtype, type):
        name = dtype.__name__
    else:
        name = getattr(dtype, "name", None) if getattr(dtype, "isnative", False) else None
    size = _ITEM_SIZES.get(name) if isinstance(name, str) else None
    if size is None:
        error = ValueError if isinstance(dtype, str) else TypeError
        raise error(f"dtype must be uint32 or uint16, got {dtype!r}")
    if size == 2 and vocabulary.n_vocab > 1 << 16:
        raise ValueError(
            f"dtype uint16 holds ids up to {(1 << 16) - 1}, but this vocabulary has ids up to "
            f"{vocabulary.n_vocab - 1}; use uint32"
        )
    return size


# Names of other libraries

_NAMES = {
    "eos_token_id": "stop_ids",
    "include_stop_str_in_output": "include_stop",
    "max_completion_tokens": "max_tokens",
    "max_new_tokens": "max_tokens",
    "min_new_tokens": "min_tokens",
    "side": "keep",
    "stop_strings": "stop",
    "stop_token_ids": "stop_ids",
    "truncation_side": "keep",
}
"""Our name of an argument, by the name that vLLM, OpenAI or Hugging Face has for it."""

Method = TypeVar("Method", bound=Callable[..., Any])


def unknown_argument(function: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error of Python for an argument, with our name for it if it is a known one."""
    ours = _NAMES.get(name)
    hint = f"; here it is called {ours}" if ours is not None and ours in known else ""
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def names_arguments(method: Method) -> Method:
    """Let a method that gets an unknown argument say our name for it."""
    known = signature(method).parameters

    @wraps(method)
    def named(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except TypeError:
            for name in kwargs:
                if name not in known:
                    raise unknown_argument(method.__qualname__, name, known) from None
            raise

    return named  # type: ignore[return-value]


# What encoding takes


class _TextOptions(TypedDict, total=False):
    add_special_tokens: bool
    errors: TextErrors


class PartOptions(_TextOptions, total=False):
    """The arguments of `Tokenizer.encode_parts` without `dtype`."""

    guard: Iterable[str] | None


class OffsetOptions(_TextOptions, total=False):
    """The arguments of `encode_with_offsets` without `dtype`."""

    unit: Unit
    allowed_special: Specials | None


class EncodeOptions(_TextOptions, total=False):
    """The arguments of `encode` and `encode_batch` without `dtype`."""

    allowed_special: Specials | None
    disallowed_special: Specials
    threads: int | None
